"""Evaluation records: the text of each, and what of it is looked for in documents.

The step leaves `features.arrow` (hash, anchor, length: what a scan needs), `items.arrow` (of the same features: the
records and the strings that hold each, and where it stands in the first record), `records.parquet` and `quarantine.jsonl`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cuvee.config import Eval
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, open_input
from cuvee.errors import DataError, nearest
from cuvee.kernels import ngrams
from cuvee.kernels.boilerplate import distinct
from cuvee.kernels.text import NFC, buffers
from cuvee.kernels.words import tokenize
from cuvee.steps.reading import raw
from cuvee.steps.reading.inputs import expand, sha256

VERSION = 2
SHARED = (3, 20, 100)  # a string in 3 records, and in 1 / 20 or 100 of its evaluation's, is an instruction or a passage, not an item's own
SKIPPED = frozenset({"id", "url", "source", "split", "subject"})  # keys that say where a record is from, and `*_id`

RECORDS = pa.schema([
    ("eval", pa.string()), ("file", pa.string()), ("row", pa.int64()), ("source_id", pa.string()), ("words", pa.int64()),
    ("features", pa.int64()), ("checkable", pa.bool_()),
    ("name", pa.string()),        # eval:row, or eval/file:row where an evaluation has several files
    ("text", pa.large_string())])  # its string leaves, joined by newlines, in NFC

READ = RECORDS.append(pa.field("strings", pa.list_(pa.large_string())))  # the leaves one by one

FEATURES = pa.schema([("hash", pa.uint64()), ("anchor", pa.uint64()), ("length", pa.int64())])

ITEMS = pa.schema([
    ("items", pa.large_list(pa.int64())),  # rows of records.parquet, ascending
    ("units", pa.large_list(pa.int64())),  # these, then as many + the number of a string that holds it and is an item's own
    ("start", pa.int64()), ("end", pa.int64())])  # bytes of the first item's text


@dataclass(frozen=True)
class File:
    eval: Eval
    url: str
    name: str
    sha256: str
    prefix: str  # of the names of its items


def run(work: Work, evals: Sequence[Eval]) -> Folder:
    files = [file for each in evals for file in files_of(each)]
    config = {"evals": [{"name": each.name, "fields": each.fields, "required": each.required} for each in evals], "nfc": NFC}
    inputs = tuple(f"{file.eval.name} {file.name} {file.sha256}" for file in files)
    task = Task("features", write_features, {"evals": tuple(evals), "files": tuple(files)})
    return work.do(Step("decontaminate.features", VERSION, config, inputs, ("orjson", "pyarrow")), [task])


def files_of(each: Eval) -> list[File]:
    found = expand(each.path, f"evaluation {each.name}")
    return [File(each, url, name, sha256(url), each.name if len(found) == 1 else f"{each.name}/{name}") for url, name in found]


def write_features(out: Output, evals: Sequence[Eval], files: Sequence[File]) -> Counts:
    faults: list[raw.Fault] = []
    records = pa.concat_tables([_read(file, faults) for file in files] or [READ.empty_table()]).combine_chunks()
    buffer, starts = buffers(records["text"])
    tokens = tokenize(buffer, starts)
    found = ngrams.features(tokens)
    record = np.repeat(np.arange(len(records)), np.diff(found.offsets))
    hashes, first, feature = np.unique(found.hashes, return_index=True, return_inverse=True)
    out.arrow("features.arrow", [pa.record_batch([hashes, found.anchors[first], found.lengths[first]], schema=FEATURES)], FEATURES)
    start, end = tokens.starts[found.first] - starts[record], tokens.ends[found.last] - starts[record]
    items = _lists(feature, record, len(hashes))
    string, own = _strings(records, record, start, end)
    units = _lists(np.append(feature, feature[own]), np.append(record, len(records) + string[own]), len(hashes))
    out.arrow("items.arrow", [pa.record_batch([items, units, start[first], end[first]], schema=ITEMS)], ITEMS)
    features = np.bincount(items.values.to_numpy(), minlength=len(records))
    for name, column in (("words", found.words), ("features", features), ("checkable", features > 0)):
        records = records.set_column(RECORDS.get_field_index(name), name, pa.array(column))
    _require(evals, records)
    out.table("records.parquet", records.select(RECORDS.names).cast(RECORDS))
    out.bytes("quarantine.jsonl", b"".join(orjson.dumps(fault._asdict()) + b"\n" for fault in faults))
    return {"records": len(records), "quarantined": len(faults), "features": len(first), "checkable": int((features > 0).sum()),
            "not_checkable": int((features == 0).sum())}


def _lists(feature: np.ndarray, holder: np.ndarray, features: int) -> pa.LargeListArray:
    """The distinct holders of each feature, ascending."""
    pairs = distinct(feature, holder)
    bounds = np.searchsorted(pairs[0], np.arange(features + 1))
    return pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), pa.array(pairs[1], pa.int64()))


def _strings(records: pa.Table, record: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The string that each n-gram begins in, and whether it also ends there and the string is its item's own.

    record: (n-grams,); start, end: (n-grams,), bytes of the record's text  ->  int64, bool (n-grams,)
    """
    lists = records["strings"].combine_chunks()
    sizes = pc.binary_length(lists.values).to_numpy()
    begins = np.concatenate([[0], np.cumsum(sizes + 1)])
    text = begins[lists.offsets.to_numpy()[record]]
    string = np.searchsorted(begins, text + start, side="right") - 1
    return string, (text + end <= begins[string] + sizes[string]) & _own(records)[string]


def _own(records: pa.Table) -> np.ndarray:
    """Which strings are not shared by many records of their evaluation -> bool (strings,)"""
    read = list(zip(records["eval"].to_pylist(), records["strings"].to_pylist()))
    counts = Counter((name, string) for name, strings in read for string in set(strings))
    least, part, most = SHARED
    limit = {name: min(most, max(least, count // part)) for name, count in Counter(name for name, _ in read).items()}
    return np.array([counts[name, string] < limit[name] for name, strings in read for string in strings], bool)


def _require(evals: Sequence[Eval], records: pa.Table) -> None:
    names, features = np.array(records["eval"].to_pylist(), object), records["features"].to_numpy()
    for each in evals:
        mine = features[names == each.name]
        if each.required and not mine.any():
            raise DataError(f"evaluation {each.name} ({each.path}): none of its {len(mine)} records yields a feature, and it is "
                            "required. A record needs 8 words, 6 of them distinct: name the text in `fields`, or drop `required`.")


def _read(file: File, faults: list[raw.Fault]) -> pa.Table:
    """The records of one file; what cannot be read joins `faults`. A file with faults only is a DataError."""
    columns: dict[str, list[Any]] = {"row": [], "source_id": [], "text": [], "strings": []}
    before, seen = len(faults), set()
    for batch in batches(file):
        faults += batch.faults
        for row, record in zip(batch.rows, batch.records):
            seen.update(_keys(record) if file.eval.fields else ())
            strings = [unicodedata.normalize("NFC", string) for string in leaves(record, file.eval.fields)]
            text = "\n".join(strings)
            if not _is_unicode(text):
                faults.append(raw.Fault(file.name, row, "lone_surrogate", "half of a surrogate pair in a string"))
                continue
            for column, value in zip(columns.values(), (row, _own_id(record), text, strings)):
                column.append(value)
    if unknown := sorted(set(file.eval.fields or ()) - seen):
        raise DataError(f"evaluation {file.eval.name}, {file.url}: no record has the field '{unknown[0]}'. {nearest(unknown[0], seen)}")
    if not columns["row"] and len(faults) > before:
        raise DataError(f"evaluation {file.eval.name}, {file.url}: no readable record; line {faults[before].row}: "
                        f"{faults[before].reason}, {faults[before].detail}. It must be JSONL or Parquet.")
    count = len(columns["row"])
    names = [f"{file.prefix}:{row}" for row in columns["row"]]
    ready = {"eval": [file.eval.name] * count, "file": [file.name] * count, **columns, "name": names}
    return pa.table([pa.array(ready[field.name], field.type) if field.name in ready else pa.nulls(count, field.type)
                     for field in READ], schema=READ)


def _keys(value: Any) -> Iterator[str]:
    """Every key of a record, at any depth."""
    if isinstance(value, dict):
        yield from value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(each)


def batches(file: File) -> Iterator[raw.Batch]:
    with open_input(file.url) as opened:
        if opened.read(len(raw.PARQUET)) != raw.PARQUET:
            yield from raw.jsonl(file.url, file.name)
            return
        opened.seek(0)
        try:
            reader, row = pq.ParquetFile(opened), 0
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"evaluation {file.eval.name}, {file.url}: not readable as Parquet: {error}") from None
        for group in range(reader.num_row_groups):
            yield from raw.row_group(reader, group, row, reader.schema_arrow.names, file.name)
            row += reader.metadata.row_group(group).num_rows


def leaves(record: Any, fields: Sequence[str] | None, named: bool = False) -> Iterator[str]:
    """The strings of a record in file order; of those under a key in `fields` where there are any."""
    if isinstance(record, str):
        if fields is None or named:
            yield record
    elif isinstance(record, Mapping):
        for key, value in record.items():
            wanted = fields is not None and key in fields
            if wanted or not _is_skipped(key):
                yield from leaves(value, fields, named or wanted)
    elif isinstance(record, (list, tuple)):
        for value in record:
            yield from leaves(value, fields, named)


def _is_skipped(key: str) -> bool:
    return key in SKIPPED or key.endswith("_id")


def _own_id(record: Mapping[str, Any]) -> str | None:
    value = record.get("id")
    return value if isinstance(value, str) else None if value is None else str(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def places(features: str, hashes: np.ndarray) -> np.ndarray:
    """Where each hash stands in features.arrow, which holds them all."""
    return np.searchsorted(open_arrow(features).get_batch(0)["hash"].to_numpy(), hashes)


def lists(items: str, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Where each feature's `items` or `units` begin, int64 (features + 1,), and these."""
    found = open_arrow(items).get_batch(0)[column]
    return found.offsets.to_numpy(), found.values.to_numpy()


def items_of(items: str, documents: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct (document, item), sorted, of (document, feature) pairs."""
    starts, entries = lists(items, "items")
    counts = starts[features + 1] - starts[features]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return distinct(np.repeat(documents, counts), entries[np.repeat(starts[features], counts) + within])
