"""What a topic is about: the words that set it apart, example texts, and `topics.json`, which has it all.

Read are the beginnings that embed kept beside its tables, of which words need a bounded by-hash share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_json, read_table
from cuvee.kernels.coarsen import distinguishing_words
from cuvee.kernels.kmeans import assign
from cuvee.kernels.make_unicode_table import FOLD, SKIPPED
from cuvee.kernels.text import NFC, buffers, nfc, sampled, unicode_table
from cuvee.kernels.words import UNSPACED, WORD, tokenize
from cuvee.record import positions
from cuvee.steps import embed, examples
from cuvee.steps.vectors import arrays

VERSION = 1
WORD_ROWS = 100_000     # texts whose words are counted, of all shards together
WORDS_MOST = 20_000     # words that may name a topic, the most frequent
LEAST_TEXTS = 3         # that hold a word, or it names nothing
TOP, IN_NAME = 10, 3    # words listed a topic, and words of its name
WORDS = pa.schema([("topic", pa.int32()), ("word", pa.string()), ("texts", pa.int64())])


def describe(work: Work, vectors: Table, assigned: Folder, joined: Folder) -> Folder:
    """Per shard: `words.arrow`, `nearest.arrow` and `random.arrow`, the examples near a topic's direction and by hash."""
    rows = sum(min(folder.counts["read"], embed.SAMPLE_ROWS * len(folder.manifest["tasks"])) for folder in embed.folders(vectors).values())
    share = min(1.0, WORD_ROWS / max(rows, 1))
    inputs = (joined.fingerprint, assigned.fingerprint, *embed.sample_checksums(vectors))
    tasks = []
    for shard, url in vectors.files.items():
        name = shard.replace("/", ".")
        tasks.append(Task(name, describe_shard, {
            "name": name, "shard": shard, "vectors": url, "assigned": assigned.file(f"{name}.parquet"), "share": share,
            "topic": joined.file("topic.npy"), "directions": joined.file("directions.npy")}))
    return work.do(Step("topics.describe", VERSION, {"share": share, "nfc": NFC}, inputs, ("numpy",)), tasks)


def describe_shard(out: Output, name: str, shard: str, vectors: str, assigned: str, topic: str, directions: str, share: float) -> Counts:
    sample, judged = embed.read_sample(vectors), read_table(assigned)
    _, codes = embed.read_vectors(vectors)
    place = positions(judged, sample["row"], sample["id"], assigned)
    topics = arrays.load(topic)[judged["fine"].to_numpy()[place]]
    counted = sampled(sample["id"], "words", share)
    words = word_texts(sample["text"].filter(pa.array(counted)), topics[counted])
    out.arrow(f"{name}.words.arrow", words.to_batches(), WORDS)
    nearness = _cosines(codes[place], np.asarray(arrays.load(directions)), topics)
    for kind, key in (("nearest", -nearness), ("random", examples.by_hash(sample["id"]))):
        found = examples.candidates(shard, sample, topics, key, pa.array(nearness)).combine_chunks()
        out.arrow(f"{name}.{kind}.arrow", found.to_batches(), examples.SCHEMA)
    return {"read": len(sample), "counted": int(counted.sum())}


def _cosines(codes: np.ndarray, directions: np.ndarray, topics: np.ndarray) -> np.ndarray:
    """Cosine of each row with its topic's direction. -> float64 (rows,)"""
    result = np.zeros(len(codes))
    for topic in np.unique(topics):
        result[topics == topic] = assign(codes[topics == topic], directions[topic:topic + 1])[1]
    return result


def word_texts(texts: pa.ChunkedArray, topics: np.ndarray) -> pa.Table:
    """In how many texts of each topic each word stands: WORDS, by topic and word. Only words with a letter count."""
    buffer, offsets = buffers(nfc(texts))
    tokens = tokenize(buffer, offsets)
    named = tokens.letters & ((tokens.kinds == WORD) | (tokens.kinds == UNSPACED))
    text = np.repeat(np.arange(len(texts)), np.diff(tokens.offsets))[named]
    _, first, word = np.unique(tokens.hashes[named], return_index=True, return_inverse=True)
    starts, ends = tokens.starts[named][first], tokens.ends[named][first]
    spelt = pa.array([spell(buffer[start:end].tobytes().decode()) for start, end in zip(starts, ends)], pa.string())
    width = len(first) or 1
    text, word = np.divmod(np.unique(text * width + word), width)
    keys, counts = np.unique(topics[text].astype(np.int64) * width + word, return_counts=True)
    topic, word = np.divmod(keys, width)
    table = pa.table([pa.array(topic, pa.int32()), spelt.take(pa.array(word)), pa.array(counts)], schema=WORDS)
    return table.sort_by([("topic", "ascending"), ("word", "ascending")]).combine_chunks()


def spell(word: str) -> str:
    """A word as it is compared: each code point folded, those without meaning left out."""
    facts = unicode_table()[0]
    return "".join(chr(facts[ord(each)] & FOLD) for each in word if not facts[ord(each)] & SKIPPED)


def write(out: Output, topics: str, files: Sequence[str]) -> Counts:
    """`topics.json`. topics: URL of each topic's documents, bytes and sources; files: all of `describe`"""
    known = read_json(topics)["topics"]
    by_kind = {kind: [open_arrow(file).read_all() for file in files if file.endswith(f".{kind}.arrow")] for kind in ("words", "nearest", "random")}
    words = topic_words(pa.concat_tables([WORDS.empty_table(), *by_kind["words"]]), len(known))
    nearest, random = examples.merged(by_kind["nearest"]), examples.merged(by_kind["random"])
    out.json("topics.json", {"topics": [
        {"topic": topic, "name": _name(words[topic], topic), "words": words[topic], **facts,
         "examples": _examples(nearest.get(topic, []), random.get(topic, []))} for topic, facts in enumerate(known)]})
    return {"topics": len(known)}


def _name(words: Sequence[Sequence[Any]], topic: int) -> str:
    return ", ".join(word for word, _ in words[:IN_NAME]) or f"topic {topic}"


def _examples(nearest: list[dict[str, Any]], random: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nearest first; then those by hash that are not among them."""
    shown = {each["row"] for each in nearest}
    return [{"row": each["row"], "text": each["text"], "cosine": round(each["value"], 4)}
            for each in [*nearest, *(each for each in random if each["row"] not in shown)]]


def topic_words(table: pa.Table, topics: int) -> list[list[list[Any]]]:
    """The words that set each topic apart, best first, each with how many times its usual share it has there."""
    total = table.group_by("word").aggregate([("texts", "sum")]).sort_by([("texts_sum", "descending"), ("word", "ascending")])
    total = total.filter(pc.greater_equal(total["texts_sum"], LEAST_TEXTS))[:WORDS_MOST]
    words = total["word"].to_pylist()
    column = pc.index_in(table["word"], pa.array(words, pa.string()))
    held = table.append_column("column", column).filter(pc.is_valid(column))
    counts = sparse.csr_array((held["texts"].to_numpy(), (held["topic"].to_numpy(), held["column"].to_numpy())), shape=(topics, len(words)))
    share = np.asarray(counts.sum(axis=1)).ravel() / max(counts.sum(), 1)
    dense, overall, number = counts.tocsc(), total["texts_sum"].to_numpy(), {word: at for at, word in enumerate(words)}
    return [[[word, round(float(dense[topic, number[word]] / (share[topic] * overall[number[word]])), 2)] for word in row]
            for topic, row in enumerate(distinguishing_words(counts, words, TOP))]
