"""Quality: a score of every document, bands of equal bytes inside each topic, and the domain of every document.

`quality.sample` -> `quality.fit` (the head, see head.py) -> `quality.score` (scores, and bytes by topic and score) ->
`quality.cut` (where bands begin, which small domains join) -> `quality.describe` -> `quality`: record.QUALITY and
`domains.json`. Nothing is dropped. Where nothing says what is good, there are no scores and one band, q1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_json, read_table
from cuvee.errors import DataError
from cuvee.kernels import bands
from cuvee.kernels.vectors import dequantise, unit
from cuvee.record import QUALITY, domain_name, positions
from cuvee.steps import embed, examples
from cuvee.steps.vectors import arrays, head

VERSION = 1
BATCH = 16_384          # rows scored at a time, counted from the start of a shard
HISTOGRAM = pa.schema([("topic", pa.int32()), ("bin", pa.uint32()), ("bytes", pa.int64()), ("documents", pa.int64())])
SCORES = pa.schema([("row", pa.int64()), ("id", pa.string()), ("topic", pa.int32()), ("bytes", pa.int64()), ("score", pa.float32())])
DOMAINS = pa.schema([("topic", pa.int32()), ("band", pa.int32()), ("documents", pa.int64()), ("bytes", pa.int64()),
                     ("low", pa.float32()), ("high", pa.float32())])


def run(work: Work, recipe: Recipe, vectors: Table, topics: Table) -> Table:
    """record.QUALITY of every row of `topics`."""
    fitted = head.fit(work, recipe, vectors)
    reason = "neither quality.target nor quality.labels says what is good" if fitted is None else read_json(fitted.file("head.json"))["reason"]
    if reason is not None:
        work.progress.say(f"quality: NO SCORES, one band (q1) for all documents: {reason}.")
    elif read_json(fitted.file("head.json"))["heldout_spearman"] is None:
        work.progress.say(f"quality: the scores are untested: under {head.LEAST} labels, or all alike, could be held out.")
    count = recipe.quality.bands if reason is None else 1
    scored = _score(work, vectors, topics, fitted if reason is None else None)
    cut = _cut(work, scored, count, recipe.quality.min_documents)
    described = _describe(work, vectors, scored, cut)
    return Table.of("quality", [_finish(work, vectors, scored, cut, described, fitted)])


def _names(table: Table) -> dict[str, str]:
    """Task name -> shard."""
    return {shard.replace("/", "."): shard for shard in table.shards}


def _score(work: Work, vectors: Table, topics: Table, fitted: Folder | None) -> Folder:
    inputs = (*vectors.digests.values(), *topics.digests.values(), fitted.files["head.json"] if fitted else "")
    url = fitted.file("head.json") if fitted else None
    tasks = [Task(name, score_shard, {"name": name, "vectors": vectors.files[shard], "topics": topics.files[shard], "head": url})
             for name, shard in _names(vectors).items()]
    return work.do(Step("quality.score", VERSION, {}, inputs, ("numpy",)), tasks)


def score_shard(out: Output, name: str, vectors: str, topics: str, head: str | None) -> Counts:
    table, codes = embed.read_vectors(vectors)
    topic = _topics_of(table, topics)
    scores = _scores(codes, read_json(head)) if head is not None else np.full(len(table), np.nan, np.float32)
    columns = [table["row"], table["id"], topic, table["bytes"], pa.array(scores, from_pandas=True)]
    found = pa.table(columns, schema=SCORES).combine_chunks()
    out.arrow(f"{name}.scores.arrow", found.to_batches(), SCORES)
    held = bands.histogram(_order(scores), table["bytes"].to_numpy(), topic)
    out.arrow(f"{name}.histogram.arrow", [pa.record_batch([held.topic, held.bin, held.bytes, held.documents], schema=HISTOGRAM)], HISTOGRAM)
    return {"read": len(table)}


def _topics_of(table: pa.Table, topics: str) -> np.ndarray:
    judged = read_table(topics, ["row", "id", "topic"])
    place = positions(judged, table["row"], table["id"], topics)
    if (place < 0).any():
        raise DataError(f"{topics}: no topic for {int((place < 0).sum())} rows that have a vector. Delete the topics folder and run again.")
    return judged["topic"].to_numpy()[place]


def _scores(codes: np.ndarray, fitted: Mapping[str, Any]) -> np.ndarray:
    """float32 (rows,)"""
    model = bands.Head(np.array(fitted["coefficients"]), fitted["intercept"], fitted["penalty"], np.nan)
    parts = [bands.score(unit(dequantise(codes[start:start + BATCH])), model) for start in range(0, len(codes), BATCH)]
    return np.concatenate([np.zeros(0, np.float32), *parts])


def _order(scores: np.ndarray) -> np.ndarray:
    """What bands are cut by: without scores all rows are alike."""
    return np.nan_to_num(scores)


def _cut(work: Work, scored: Folder, count: int, min_documents: int) -> Folder:
    """`cuts.npy` (topics, bands - 1), and `joined.npy` (topics, bands), the band whose domain each band is part of."""
    histograms = {name: sum_ for name, sum_ in scored.files.items() if name.endswith(".histogram.arrow")}
    args = {"bands_": count, "min_documents": min_documents}
    step = Step("quality.cut", VERSION, args, tuple(histograms.values()))
    return work.do(step, [Task("cuts", cut_bands, {"files": tuple(map(scored.file, histograms)), **args})])


def cut_bands(out: Output, files: Sequence[str], bands_: int, min_documents: int) -> Counts:
    parts = [bands.Histogram(*(column.to_numpy() for column in open_arrow(file).read_all().columns)) for file in files]
    merged = bands.merge(parts)
    topics = int(merged.topic.max(initial=-1)) + 1
    cuts = bands.cuts(merged, topics, bands_)
    band = (cuts[merged.topic] <= merged.bin[:, None]).sum(axis=1)
    documents, held = np.zeros((2, topics, bands_), np.int64)
    np.add.at(documents, (merged.topic, band), merged.documents)
    np.add.at(held, (merged.topic, band), merged.bytes)
    joined = bands.join_small(documents, held, min_documents, 0)
    arrays.save(out, "cuts.npy", cuts)
    arrays.save(out, "joined.npy", joined)
    return {"domains": int((joined == np.arange(1, bands_ + 1)).sum())}


def banded(scores_url: str, cuts: str, joined: str) -> tuple[pa.Table, np.ndarray]:
    """A shard's scores, and the band of each row after small domains joined. -> SCORES, int32 (rows,)"""
    table = open_arrow(scores_url).read_all()
    scores, topic = table["score"].to_numpy(), table["topic"].to_numpy()
    band = bands.band_of(_order(scores), topic, arrays.load(cuts))
    return table, arrays.load(joined)[topic, band - 1].astype(np.int32)


def _describe(work: Work, vectors: Table, scored: Folder, cut: Folder) -> Folder:
    urls = {"cuts": cut.file("cuts.npy"), "joined": cut.file("joined.npy")}
    tasks = [Task(name, describe_shard, {"name": name, "shard": shard, "vectors": vectors.files[shard],
                                         "scores": scored.file(f"{name}.scores.arrow"), **urls}) for name, shard in _names(vectors).items()]
    return work.do(Step("quality.describe", VERSION, {}, (scored.fingerprint, cut.fingerprint, *embed.sample_checksums(vectors))), tasks)


def describe_shard(out: Output, name: str, shard: str, vectors: str, scores: str, cuts: str, joined: str) -> Counts:
    """Documents, bytes and range of scores of each domain in a shard; examples by hash."""
    table, band = banded(scores, cuts, joined)
    group = table["topic"].to_numpy() * 256 + band
    summed = table.append_column("group", pa.array(group)).group_by("group").aggregate(
        [("bytes", "count"), ("bytes", "sum"), ("score", "min"), ("score", "max")]).sort_by("group")
    number = summed["group"].to_numpy()
    columns = [number // 256, number % 256, *(summed[name] for name in ("bytes_count", "bytes_sum", "score_min", "score_max"))]
    found = pa.table(dict(zip(DOMAINS.names, columns))).cast(DOMAINS).combine_chunks()
    out.arrow(f"{name}.domains.arrow", found.to_batches(), DOMAINS)
    sample = embed.read_sample(vectors)
    place = positions(table, sample["row"], sample["id"], scores)
    shown = examples.candidates(shard, sample, group[place], examples.by_hash(sample["id"]), table["score"].take(pa.array(place)))
    out.arrow(f"{name}.examples.arrow", shown.combine_chunks().to_batches(), examples.SCHEMA)
    return {"read": len(table)}


def _finish(work: Work, vectors: Table, scored: Folder, cut: Folder, described: Folder, fitted: Folder | None) -> Folder:
    urls = {"cuts": cut.file("cuts.npy"), "joined": cut.file("joined.npy")}
    tasks = [Task(name, write_shard, {"shard": shard, "scores": scored.file(f"{name}.scores.arrow"), **urls})
             for name, shard in _names(vectors).items()]
    summary = Task("domains.json", write_domains, {"files": tuple(map(described.file, described.files)),
                                                   "head": fitted.file("head.json") if fitted else None})
    inputs = (scored.fingerprint, cut.fingerprint, described.fingerprint, fitted.files["head.json"] if fitted else "")
    return work.do(Step("quality", VERSION, {}, inputs), [*tasks, summary])


def write_shard(out: Output, shard: str, scores: str, cuts: str, joined: str) -> Counts:
    table, band = banded(scores, cuts, joined)
    names = [domain_name(topic, each) for topic, each in zip(table["topic"].to_pylist(), band.tolist())]
    columns = [table["row"], table["id"], table["score"], pa.array(band), pa.array(names, pa.string())]
    out.table(f"{shard}.parquet", pa.table(columns, schema=QUALITY))
    return {"documents": len(table)}


def write_domains(out: Output, files: Sequence[str], head: str | None) -> Counts:
    """`domains.json`, in order of topic and band."""
    by_kind = {kind: [open_arrow(file).read_all() for file in files if file.endswith(f".{kind}.arrow")] for kind in ("domains", "examples")}
    shown = examples.merged(by_kind["examples"])
    summed = pa.concat_tables([DOMAINS.empty_table(), *by_kind["domains"]]).group_by(["topic", "band"]).aggregate(
        [("documents", "sum"), ("bytes", "sum"), ("low", "min"), ("high", "max")])
    summed = summed.sort_by([("topic", "ascending"), ("band", "ascending")]).rename_columns(DOMAINS.names)
    domains = [{"name": domain_name(each["topic"], each["band"]), **each, "examples": [
        {"row": example["row"], "score": example["value"], "text": example["text"]}
        for example in shown.get(each["topic"] * 256 + each["band"], [])]} for each in summed.to_pylist()]
    facts = read_json(head) if head is not None else {}
    out.json("domains.json", {"domains": domains, **{name: facts.get(name) for name in ("heldout_spearman", "labels", "heldout", "reason")}})
    return {"domains": len(domains)}
