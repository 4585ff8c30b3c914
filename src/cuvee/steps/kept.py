"""A raw file written again with only its kept rows: same name and format, columns untouched, in order."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from cuvee.engine.store import Output, open_input, sink
from cuvee.steps import raw

Texts = Mapping[int, str]  # raw row -> its text after edits


def write_kept(out: Output, name: str, url: str, kind: str, keep: np.ndarray, edited: Texts, text: str) -> None:
    """Write file `name` with the rows of `url` that `keep` names.

    keep: raw row numbers, sorted; edited: rows of which column `text` is replaced.
    JSONL lines are copied byte for byte and ended by a newline, without BOM, compressed as the name says;
    a line of `edited` is written anew. Parquet keeps its schema and metadata.
    """
    write = _write_parquet if kind == "parquet" else _write_jsonl
    with out.create(name) as file:
        write(file, name, url, keep, edited, text)


def _write_jsonl(file: Any, name: str, url: str, keep: np.ndarray, edited: Texts, text: str) -> None:
    wanted = iter(keep.tolist())
    awaited = next(wanted, None)
    with open_input(url) as opened, _compressed(file, name) as target, contextlib.suppress(raw.Broken):
        for row, line in enumerate(raw.lines(raw.chunks(opened))):
            if row != awaited:
                continue
            line = line.removeprefix(raw.BOM) if row == 0 else line
            if row in edited:
                line = orjson.dumps({**raw.parse(line), text: edited[row]})
            target.write(line + b"\n")
            awaited = next(wanted, None)
            if awaited is None:
                break


def _write_parquet(file: Any, name: str, url: str, keep: np.ndarray, edited: Texts, text: str) -> None:
    with open_input(url) as opened:
        reader = pq.ParquetFile(opened)
        with pq.ParquetWriter(sink(file), reader.schema_arrow) as writer:
            first = 0
            for group in range(reader.num_row_groups):
                rows = reader.read_row_group(group)
                inside = keep[np.searchsorted(keep, first):np.searchsorted(keep, first + len(rows))]
                first += len(rows)
                writer.write_table(_edited(rows.take(pa.array(inside - (first - len(rows)))), inside, edited, text))


def _edited(rows: pa.Table, numbers: np.ndarray, edited: Texts, text: str) -> pa.Table:
    if not edited:
        return rows
    place = rows.column_names.index(text)
    texts = [edited.get(number, old) for number, old in zip(numbers.tolist(), rows[text].to_pylist())]
    return rows.set_column(place, rows.schema.field(place), pa.array(texts, rows.schema.field(place).type))


@contextlib.contextmanager
def _compressed(file: Any, name: str) -> Iterator[Any]:
    """`file`, compressed as the suffix of `name` says; no time stamp, so equal rows give equal bytes."""
    packed: Any
    if name.endswith(".gz"):
        packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)
    elif name.endswith((".zst", ".zstd")):
        packed = zstandard.ZstdCompressor().stream_writer(file, closefd=False)
    elif name.endswith(".bz2"):
        packed = bz2.BZ2File(file, "wb")
    elif name.endswith(".xz"):
        packed = lzma.LZMAFile(file, "wb")
    else:
        yield file
        return
    with packed:
        yield packed
