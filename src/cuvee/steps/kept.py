"""A raw file written again with only its kept rows: same name and format, columns untouched, in order."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import itertools
import lzma
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from cuvee.engine.store import Output, open_input, sink
from cuvee.steps.reading import raw

LINES = 256  # that are joined and written at a time
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
    with open_input(url) as opened, _compressed(file, name) as target:
        lines = _kept_lines(raw.lines(raw.chunks(opened)), keep)
        if edited:
            lines = (orjson.dumps({**raw.parse(line), text: edited[row]}) if row in edited else line
                     for row, line in zip(keep.tolist(), lines))
        while held := list(itertools.islice(lines, LINES)):
            target.write(b"\n".join([*held, b""]))


def _kept_lines(lines: Iterator[bytes], keep: np.ndarray) -> Iterator[bytes]:
    """The lines that `keep` numbers, up to where the stream breaks."""
    wanted = np.zeros(keep[-1] + 1 if len(keep) else 0, np.uint8)
    wanted[keep] = 1
    with contextlib.suppress(raw.Broken):
        chosen = itertools.compress(lines, memoryview(wanted))
        if len(wanted) and wanted[0]:
            yield from (line.removeprefix(raw.BOM) for line in itertools.islice(chosen, 1))
        yield from chosen


def _write_parquet(file: Any, name: str, url: str, keep: np.ndarray, edited: Texts, text: str) -> None:
    with open_input(url) as opened:
        reader = pq.ParquetFile(opened)
        with pq.ParquetWriter(sink(file), reader.schema_arrow) as writer:
            first = 0
            for group in range(reader.num_row_groups):
                rows = _readable(reader, group)
                inside = keep[np.searchsorted(keep, first):np.searchsorted(keep, first + len(rows))]
                writer.write_table(_edited(_chosen(rows, inside - first), inside, edited, text))
                first += len(rows)
                if len(rows) < reader.metadata.row_group(group).num_rows:
                    return


def _chosen(rows: pa.Table, places: np.ndarray) -> pa.Table:
    """Rows by place; run by run where there is a type that pyarrow cannot take from, such as a string view."""
    try:
        return rows.take(pa.array(places))
    except pa.ArrowNotImplementedError:
        runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
        return pa.concat_tables([rows.slice(0, 0), *(rows.slice(int(run[0]), len(run)) for run in runs if len(run))])


def _readable(reader: pq.ParquetFile, group: int) -> pa.Table:
    """The rows of a row group up to where it is broken, as ingest reads them."""
    batches = []
    with contextlib.suppress(pa.ArrowInvalid, OSError):
        batches += reader.iter_batches(raw.BATCH, row_groups=[group])
    return pa.Table.from_batches(batches, reader.schema_arrow)


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
