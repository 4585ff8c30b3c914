"""Tokenize: token counts and token ids of every kept document.

`tokenizer.fit` gives the tokenizer (a file, or byte-level BPE trained on a by-hash sample); `tokenize` runs it per
source: `part.parquet` (record.TOKENS) and beside it `part.tokens.arrow`, one list of token ids a row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe, TrainTokenizer
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_bytes
from cuvee.errors import UsageError
from cuvee.kernels.text import hash64_many, sampled
from cuvee.record import TOKENS
from cuvee.steps.documents import Shard, identity, shards
from cuvee.steps.reading.inputs import sha256

VERSION = 1
BATCH = 1_000           # documents encoded at a time
FILE = "tokenizer.json"


def fit(work: Work, recipe: Recipe, documents: Table, verdicts: Sequence[Table]) -> Folder:
    """A folder with `tokenizer.json`; its counts have `vocab` and `end`, the id of the end mark."""
    config = recipe.tokenizer
    if config.file is not None:
        step = Step("tokenizer.fit", VERSION, {"end": config.end}, (sha256(config.file),))
        return work.do(step, [Task("tokenizer", copy_tokenizer, {"url": config.file, "end": config.end})])
    inputs = tuple(part for source in recipe.sources for part in identity(source.name, documents, *verdicts))
    current = work.current()
    total = sum(current[f"filter/{source.name}"].counts["kept_bytes"] for source in recipe.sources)
    share = min(1.0, config.train.bytes / max(total, 1))
    tasks = [Task(shard.name.replace("/", "."), sample_shard, {"shard": shard, "share": share}) for shard in shards(documents, *verdicts)]
    sample = work.do(Step("tokenizer.sample", VERSION, {"share": share}, inputs), tasks)
    files = tuple(sample.file(name) for name in sample.files)
    step = Step("tokenizer.fit", VERSION, {"train": config.train.identity(), "end": config.end}, (sample.fingerprint,), ("tokenizers",))
    return work.do(step, [Task("tokenizer", train_tokenizer, {"files": files, "config": config.train, "end": config.end})])


def run(work: Work, recipe: Recipe, documents: Table, verdicts: Sequence[Table], tokenizer: Folder) -> Table:
    """Token counts and ids of every document that all verdicts keep."""
    config = {"seed": recipe.seed, "tokenizer": tokenizer.files[FILE]}
    kept = shards(documents, *verdicts)
    args = {"tokenizer": tokenizer.file(FILE), "vocab": tokenizer.counts["vocab"], "seed": recipe.seed}
    steps = [(Step("tokenize", VERSION, config, identity(source.name, documents, *verdicts), ("tokenizers",), source.name),
              [Task(shard.part, tokenize_shard, {"shard": shard, **args}) for shard in kept if shard.source == source.name])
             for source in recipe.sources]
    return Table.of("tokenize", work.do_all(steps))


def tokenize_shard(out: Output, shard: Shard, tokenizer: str, vocab: int, seed: int) -> Counts:
    documents = shard.read(("text",))
    texts = documents["text"].to_pylist()
    encoder = load(tokenizer)
    encoded = [ids for start in range(0, len(texts), BATCH) for ids in _encode(encoder, texts[start:start + BATCH])]
    sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    counts = np.fromiter(map(len, encoded), np.int64, len(encoded))
    u = hash64_many(documents["id"].to_pylist(), seed)
    out.table(f"{shard.part}.parquet", pa.table([documents["row"], documents["id"], sizes, counts, u], schema=TOKENS))
    lists = pa.array(encoded, pa.large_list(token_type(vocab)))
    schema = pa.schema([("tokens", lists.type)])
    out.arrow(f"{shard.part}.tokens.arrow", [pa.record_batch([lists], schema)], schema)
    return {"read": len(texts), "bytes": int(sizes.sum()), "tokens": int(counts.sum())}


def token_type(vocab: int) -> pa.DataType:
    return pa.uint16() if vocab <= 2**16 else pa.uint32()


def token_lists(table_url: str) -> pa.LargeListArray:
    """The token ids beside a shard of the table, one list a row."""
    return open_arrow(table_url.removesuffix(".parquet") + ".tokens.arrow").read_all()["tokens"].combine_chunks()


def load(url: str) -> Any:
    """A tokenizers.Tokenizer. Its threads are off: tasks are the unit of parallel work."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import tokenizers

    return tokenizers.Tokenizer.from_str(read_bytes(url).decode())


def _encode(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return [each.ids for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def sample_shard(out: Output, shard: Shard, share: float) -> Counts:
    """Texts whose hash lies under `share`, one JSON string a line."""
    documents = shard.read(("text",))
    chosen = sampled(documents["id"], "tokenizer", share)
    texts = documents["text"].filter(pa.array(chosen)).to_pylist()
    out.bytes(f"{shard.name.replace('/', '.')}.jsonl", "".join(json.dumps(text) + "\n" for text in texts).encode())
    return {"read": len(documents), "sampled": len(texts)}


def train_tokenizer(out: Output, files: Sequence[str], config: TrainTokenizer, end: str) -> Counts:
    """Byte-level BPE (Radford et al. 2019) with one special token, the end mark, as id 0."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer as Built
    from tokenizers import decoders, models, pre_tokenizers, trainers

    texts = (json.loads(line) for file in files for line in read_bytes(file).splitlines())
    built = Built(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=config.vocab, special_tokens=[end], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    built.train_from_iterator(texts, trainer)
    return _written(out, built, end)


def copy_tokenizer(out: Output, url: str, end: str) -> Counts:
    return _written(out, load(url), end)


def _written(out: Output, tokenizer: Any, end: str) -> Counts:
    mark = tokenizer.token_to_id(end)
    if mark is None:
        raise UsageError(f"the tokenizer has no token '{end}'. Name its end mark in tokenizer.end.")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    out.bytes(FILE, tokenizer.to_str().encode())
    return {"vocab": tokenizer.get_vocab_size(), "end": mark}
