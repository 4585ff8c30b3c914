"""Filter: statistics of every document, and the first rule that drops it.

Rules in order: excluded (takedown and opt-out lists), license_not_allowed, then the profile's. Profile `minimal`:
empty, too_few_words, repetition.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Exclude, Filter, Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, read_bytes, read_json
from cuvee.errors import UsageError
from cuvee.kernels.statistics import Statistics, statistics
from cuvee.kernels.text import NFC, buffers, cut, nfc
from cuvee.kernels.words import tokenize
from cuvee.record import EDITS, FILTER
from cuvee.steps.documents import Shard, shards

VERSION = 1
ALWAYS = ("excluded", "license_not_allowed")  # drops that `mode: tag` does not lift
BATCH_BYTES = 64_000_000  # text held as tokens at a time: about 8 bytes of arrays a byte of text
Verdict = tuple[str, np.ndarray, np.ndarray, float]  # reason, where it holds, what was measured, the threshold


def run(work: Work, recipe: Recipe, documents: Table) -> Table:
    excluded = _excluded(work, recipe.exclude, documents)
    allow = recipe.licenses.allow if recipe.licenses.on_conflict == "keeper" else []
    config = {"filter": recipe.filter.identity(), "allow": sorted(allow), "nfc": NFC}
    args = {"config": recipe.filter, "allow": frozenset(allow), "excluded": excluded.file("ids.json") if excluded else None}
    steps = []
    for source in recipe.sources:
        inputs = (documents.digests[source.name], excluded.fingerprint if excluded else "")
        tasks = [Task(shard.part, filter_shard, {"shard": shard, **args})
                 for shard in shards(documents) if shard.source == source.name]
        steps.append((Step("filter", VERSION, config, inputs, source=source.name), tasks))
    return Table.of("filter", work.do_all(steps))


def filter_shard(out: Output, shard: Shard, config: Filter, allow: frozenset[str], excluded: str | None) -> Counts:
    documents = shard.read(("text", "license", "source_id", "url"))
    found = _statistics(documents["text"])
    sizes = pc.binary_length(documents["text"]).to_numpy().astype(np.int64)
    verdicts = [*_listed(documents, excluded), *_licensed(documents, allow), *_profile(found, config)]
    reason, value, threshold = _first(verdicts, len(documents))
    keep = np.array([each is None or config.mode == "tag" and each not in ALWAYS for each in reason], bool)
    columns = [documents["row"], documents["id"], keep, pa.array(reason, pa.string()), _nullable(value), _nullable(threshold),
               sizes, *found, pa.nulls(len(documents), EDITS)]
    out.table(f"{shard.part}.parquet", pa.table(dict(zip(FILTER.names, columns))).cast(FILTER))
    dropped = Counter(each for each, kept in zip(reason, keep) if not kept)
    return {"read": len(documents), "bytes": int(sizes.sum()), "kept": int(keep.sum()), "kept_bytes": int(sizes[keep].sum()),
            "dropped": dict(sorted(dropped.items()))}


def fails(texts: pa.Array, config: Filter) -> np.ndarray:
    """Which texts the profile drops, bool (texts,): for steps that change a text after it was filtered."""
    drops = np.zeros(len(texts), bool)
    if config.mode == "drop" and len(texts):
        for _, holds, _, _ in _profile(_statistics(texts), config):
            drops |= holds
    return drops


def _statistics(texts: pa.Array | pa.ChunkedArray) -> Statistics:
    """Statistics of all texts, computed a bounded piece at a time."""
    pieces = [_statistics_of(piece) for piece in cut(texts, BATCH_BYTES)]
    return Statistics(*(np.concatenate(columns) for columns in zip(*pieces)))


def _statistics_of(texts: pa.Array) -> Statistics:
    buffer, offsets = buffers(nfc(texts))
    return statistics(buffer, offsets, tokenize(buffer, offsets))


def _profile(found: Statistics, config: Filter) -> list[Verdict]:
    """Profile `minimal`: a document must have words, at least `min_words`, and at most `max_repetition` of them repeated."""
    if config.profile is None:
        return []
    return [("empty", found.words == 0, found.words, 1),
            ("too_few_words", found.words < config.min_words, found.words, config.min_words),
            ("repetition", found.repetition > config.max_repetition, found.repetition, config.max_repetition)]


def _licensed(documents: pa.Table, allow: frozenset[str]) -> list[Verdict]:
    if not allow:
        return []
    bad = np.array([each not in allow for each in documents["license"].to_pylist()], bool)
    return [("license_not_allowed", bad, np.full(len(bad), np.nan), np.nan)]


def _listed(documents: pa.Table, excluded: str | None) -> list[Verdict]:
    if excluded is None:
        return []
    ids = frozenset(read_json(excluded))
    bad = np.array([each in ids for each in documents["id"].to_pylist()], bool)
    return [("excluded", bad, np.full(len(bad), np.nan), np.nan)]


def _first(verdicts: Sequence[Verdict], documents: int) -> tuple[list[str | None], np.ndarray, np.ndarray]:
    """The first verdict that holds, per document: its reason, value and threshold."""
    reason: list[str | None] = [None] * documents
    value, threshold = np.full(documents, np.nan), np.full(documents, np.nan)
    for name, holds, measured, limit in reversed(verdicts):
        for place in np.flatnonzero(holds):
            reason[place] = name
        value[holds], threshold[holds] = measured[holds], limit
    return reason, value, threshold


def _nullable(values: np.ndarray) -> pa.Array:
    return pa.array(values, from_pandas=True)


def _excluded(work: Work, exclude: Exclude, documents: Table) -> Folder | None:
    """Ids of all texts of which one copy is on a takedown or opt-out list, as `ids.json`; None without lists."""
    lists = {name: _entries(path) for name, path in exclude if path is not None}
    if not lists:
        return None
    digest = hashlib.sha256(json.dumps(lists).encode()).hexdigest()
    tasks = [Task(shard.name.replace("/", "."), exclude_shard, {"shard": shard, "lists": lists}) for shard in shards(documents)]
    matched = work.do(Step("exclude.scan", VERSION, {}, (documents.fingerprint, digest)), tasks)
    files = tuple(matched.file(name) for name in matched.files)
    return work.do(Step("exclude", VERSION, {}, (matched.fingerprint,)), [Task("ids", merge_ids, {"files": files})])


def _entries(path: str) -> list[str]:
    try:
        entries = [line.strip() for line in read_bytes(path).decode().splitlines()]
    except UnicodeDecodeError as error:
        raise UsageError(f"exclude: {path} is not UTF-8: byte {error.start}: {error.reason}") from None
    if not any(entries):
        raise UsageError(f"exclude: {path} has no entry. Remove it from the recipe, or put one entry on a line.")
    return sorted({entry for entry in entries if entry})


def exclude_shard(out: Output, shard: Shard, lists: dict[str, list[str]]) -> Counts:
    documents = shard.read(("source_id", "url"))
    ids, urls, hosts = (frozenset(lists.get(name, ())) for name in ("ids", "urls", "hosts"))
    rows = zip(documents["id"].to_pylist(), documents["source_id"].to_pylist(), documents["url"].to_pylist())
    found = {id for id, own, url in rows if id in ids or own in ids or url in urls or _host(url) in hosts}
    out.json(f"{shard.name.replace('/', '.')}.json", sorted(found))
    return {"read": len(documents), "matched": len(found)}


def merge_ids(out: Output, files: Sequence[str]) -> Counts:
    ids = sorted({id for file in files for id in read_json(file)})
    out.json("ids.json", ids)
    return {"excluded": len(ids)}


def _host(url: str | None) -> str | None:
    return urlsplit(url).hostname if url else None
