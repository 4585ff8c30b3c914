"""What decontamination sets aside: n-grams that many texts of many sources hold without half of the item or a string of it.

`holders` counts, text by text and never in one process for all of them, which features stand together; `set_aside`
adds up and judges; `report` lists every item and every text that was set aside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Decontaminate
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.shuffle import gather, scatter
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_table
from cuvee.kernels import boilerplate as kernel
from cuvee.record import EVALS, SET_ASIDE
from cuvee.steps.overlap import evals

VERSION = 2
MIN_ROWS, MIN_SOURCES = 10_000, 3  # of all scanned documents; below, nothing is set aside
PARTITIONS = 64  # of the holders, by text
TASK_HITS = 4_000_000  # matches a `holders` task reads: about 100 MB

HOLDERS = pa.schema([("text", pa.uint64()), ("feature", pa.uint64())])  # the first 16 digits of the id; the hash
COUNTS = pa.schema([("at", pa.int64()), ("count", pa.int64())])
ASIDE = pa.schema([("feature", pa.int64()), ("documents", pa.int64()), ("sources", pa.int64())])


def run(work: Work, config: Decontaminate, features: Folder, scanned: Sequence[Folder]) -> Folder | None:
    """What is set aside, as `set_aside.arrow`; None where the rule is off."""
    rows = sum(folder.counts.get("read", 0) for folder in scanned)
    if not config.boilerplate or rows < MIN_ROWS or len(scanned) < MIN_SOURCES or not features.counts["features"]:
        return None
    files = [(folder.file(name), number) for number, folder in enumerate(scanned) for name in folder.files if name.endswith(".holders.arrow")]
    count = min(PARTITIONS, 1 + sum(folder.counts.get("hits", 0) for folder in scanned) // TASK_HITS)
    parts = np.array_split(np.arange(PARTITIONS), count)
    urls = {"features": features.file("features.arrow"), "items": features.file("items.arrow"), "records": features.file("records.parquet")}
    inputs = (features.fingerprint, *sorted(folder.fingerprint for folder in scanned))
    tasks = [Task(f"{number:02d}", count_holders, {"name": f"{number:02d}", "files": files, "partitions": part.tolist(), **urls})
             for number, part in enumerate(parts)]
    holders = work.do(Step("decontaminate.holders", VERSION, {}, inputs), tasks)
    names = [f"{number:02d}" for number in range(len(parts))]
    found = {kind: [holders.file(f"{name}.{kind}.arrow") for name in names] for kind in ("held", "supported", "sources")}
    task = Task("set_aside", judge_features, {**urls, "found": found, "sources": len(scanned)})
    return work.do(Step("decontaminate.set_aside", VERSION, {}, (holders.fingerprint,)), [task])


def scatter_holders(out: Output, name: str, ids: pa.ChunkedArray, bounds: np.ndarray, hits: pa.StructArray) -> None:
    """Which texts hold which features, distinct, grouped by text for `holders`."""
    counts = np.diff(bounds)
    holding = np.flatnonzero(counts)
    digits = pc.utf8_slice_codeunits(ids.take(pa.array(holding)), 0, 16).to_pylist()
    text = np.repeat(np.fromiter((int(digit, 16) for digit in digits), np.uint64, len(digits)), counts[holding])
    text, feature = kernel.distinct(text, hits.field("feature").to_numpy())
    table = pa.table([pa.array(text), pa.array(feature)], schema=HOLDERS)
    scatter(out, name, table, (text >> np.uint64(58)).astype(np.int64), PARTITIONS)


def count_holders(out: Output, name: str, files: Sequence[tuple[str, int]], partitions: Sequence[int], features: str, items: str,
                  records: str) -> Counts:
    """Of the texts of some partitions: how many hold each feature, with its items, and from which sources."""
    texts, found, sources = _held(files, partitions, features)
    starts, units, needed = _units(items, records)
    held, supported = kernel.support(*kernel.distinct(texts, found), starts, units, needed)
    for kind, counts in (("held", held), ("supported", supported)):
        at = np.flatnonzero(counts)
        out.arrow(f"{name}.{kind}.arrow", [pa.record_batch([at, counts[at]], schema=COUNTS)], COUNTS)
    out.arrow(f"{name}.sources.arrow", [pa.record_batch(list(kernel.distinct(found, sources)), schema=COUNTS)], COUNTS)
    return {"pairs": len(texts)}


def _units(items: str, records: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each feature's units begin, the units, and how many other features a text must hold of each."""
    starts, units = evals.lists(items, "units")
    count = len(read_table(records, ["features"]))
    return starts, units, kernel.needed(np.bincount(units, minlength=count), count)


def _held(files: Sequence[tuple[str, int]], partitions: Sequence[int], features: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Text, feature and source of every match in these partitions."""
    read = [(gather([url], partition), source) for url, source in files for partition in partitions]
    columns = [np.concatenate([table[column].to_numpy() for table, _ in read]) for column in HOLDERS.names]
    return columns[0], evals.places(features, columns[1]), np.repeat([source for _, source in read], [len(table) for table, _ in read])


def judge_features(out: Output, found: dict[str, Sequence[str]], sources: int, features: str, items: str, records: str) -> Counts:
    """The features that are boilerplate, with how many texts and sources hold each."""
    starts, units, _ = _units(items, records)
    held, supported = _added(found["held"], len(starts) - 1), _added(found["supported"], len(units))
    pairs = [open_arrow(url).get_batch(0) for url in found["sources"]]
    from_sources = kernel.distinct(*(np.concatenate([pair[column].to_numpy() for pair in pairs]) for column in COUNTS.names))
    spread = np.bincount(from_sources[0], minlength=len(held))
    aside = np.flatnonzero(kernel.set_aside(held, spread, supported, starts))
    out.arrow("set_aside.arrow", [pa.record_batch([aside, held[aside], spread[aside]], schema=ASIDE)], ASIDE)
    return {"set_aside": len(aside)}


def _added(urls: Sequence[str], size: int) -> np.ndarray:
    total = np.zeros(size, np.int64)
    for url in urls:
        batch = open_arrow(url).get_batch(0)
        total[batch["at"].to_numpy()] += batch["count"].to_numpy()
    return total


def report(work: Work, features: Folder, aside: Folder | None, decided: Folder) -> Folder:
    """`evals.parquet`, a row for every item, and `set_aside.parquet`, a row for every text that was set aside."""
    args = {"items": features.file("items.arrow"), "records": features.file("records.parquet"),
            "aside": aside.file("set_aside.arrow") if aside else None,
            "counts": [decided.file(name) for name in decided.files if name.endswith(".items.arrow")]}
    step = Step("decontaminate.report", VERSION, {}, (features.fingerprint, decided.fingerprint), ("pyarrow",))
    return work.do(step, [Task("report", write_report, args)])


def write_report(out: Output, items: str, records: str, aside: str | None, counts: Sequence[str]) -> Counts:
    table = read_table(records)
    lost = set_aside_features(aside)
    starts, entries = evals.lists(items, "items")
    gone = np.isin(np.repeat(np.arange(len(starts) - 1), np.diff(starts)), lost)
    added = {"set_aside": np.bincount(entries[gone], minlength=len(table)), "documents": _added(counts, len(table))}
    for name, column in added.items():
        table = table.append_column(name, pa.array(column))
    out.table("evals.parquet", table.select(EVALS.names).cast(EVALS))
    out.table("set_aside.parquet", _set_aside_table(aside, items, table))
    return {"items": len(table), "set_aside": len(lost)}


def _set_aside_table(aside: str | None, items: str, records: pa.Table) -> pa.Table:
    if aside is None:
        return SET_ASIDE.empty_table()
    found = pa.Table.from_batches([open_arrow(aside).get_batch(0)])
    stored = open_arrow(items).get_batch(0).take(found["feature"].combine_chunks())
    names = [records["name"].take(pa.array(mine)).to_pylist() for mine in stored["items"].to_pylist()]
    texts = [records["text"][mine[0]].as_py().encode()[start:end].decode() for mine, start, end in
             zip(stored["items"].to_pylist(), stored["start"].to_pylist(), stored["end"].to_pylist())]
    columns = [pa.array(texts, pa.string()), found["documents"], found["sources"], pa.array(names, pa.list_(pa.string()))]
    return pa.table(columns, schema=SET_ASIDE)


def set_aside_features(aside: str | None) -> np.ndarray:
    return np.zeros(0, np.int64) if aside is None else open_arrow(aside).get_batch(0)["feature"].to_numpy()


def write_item_counts(out: Output, name: str, items: np.ndarray) -> None:
    """In how many documents each item was found. items: one entry a document and item"""
    batch = pa.record_batch(list(np.unique(items, return_counts=True)), schema=COUNTS)
    out.arrow(name, [batch], COUNTS)
