"""Reading raw files: what they are (by content, not name), their rows, and what is wrong with them.

A stream that breaks gives its complete rows, then one fault; nothing is skipped without one.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from cuvee.engine.store import open_input

CHUNK = 1 << 20  # bytes a read of a compressed file
PLAIN = 1 << 18  # and of another
BATCH = 4096     # rows a batch at most ...
BATCH_BYTES = 1 << 22  # ... and bytes of JSONL, so that the memory of one batch serves the next
BOM = b"\xef\xbb\xbf"
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
PARQUET = b"PAR1"
ZIP = b"PK\x03\x04"


class Fault(NamedTuple):
    """Something that could not be read; row is the 0-based physical line, record or row index."""

    file: str
    row: int
    reason: str
    detail: str


class Batch(NamedTuple):
    rows: list[int]
    records: list[dict[str, Any]]
    faults: list[Fault]
    blank: int


class Broken(Exception):
    """A stream ended before its end (`truncated`) or holds what its format forbids (`corrupt`)."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


def compression(head: bytes) -> str | None:
    """gzip, zstd, bzip2 or xz by the first bytes of a file; None where it is none of them."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def _decompressor(name: str) -> Any:
    if name == "gzip":
        return zlib.decompressobj(wbits=31)
    if name == "zstd":
        return zstandard.ZstdDecompressor().decompressobj()
    return bz2.BZ2Decompressor() if name == "bzip2" else lzma.LZMADecompressor()


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of `file`, decompressed if its first bytes say so. Raises Broken where the stream breaks."""
    head = file.read(CHUNK)
    name = compression(head)
    if name is not None:
        yield from _decompressed(file, head, name)
        return
    while head:
        yield head
        head = file.read(PLAIN)


def _decompressed(file: BinaryIO, data: bytes, name: str) -> Iterator[bytes]:
    """Members one after the other, as `cat a.gz b.gz` leaves them; zero padding behind them is no fault."""
    member = _decompressor(name)
    fresh = False  # nothing of this member was read yet
    try:
        while data:
            if fresh and not data.strip(b"\0"):
                data = file.read(CHUNK)
                continue
            fresh, before = False, member.copy() if name == "gzip" else None
            try:
                yield member.decompress(data)
            except zlib.error:
                yield from _until_the_fault(before, data)
            data = member.unused_data if member.eof else b""
            if member.eof:
                member, fresh = _decompressor(name), True
            data = data or file.read(CHUNK)
    except (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError) as error:
        raise Broken("corrupt", f"{name}: {error}") from None
    if not fresh:
        raise Broken("truncated", f"the {name} stream ends before its end mark")


def _until_the_fault(member: Any, data: bytes) -> Iterator[bytes]:
    """What a gzip member gives before the byte that breaks it, which is raised again."""
    for place in range(len(data)):
        yield member.decompress(data[place:place + 1])


def lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    r"""Lines without their `\n`. What stands behind the last newline is a line too, unless the stream broke there."""
    rest: list[bytes] = []
    for piece in pieces:
        first, *others = piece.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest = [others[-1]]
    if last := b"".join(rest):
        yield last


def ranged(file: BinaryIO, start: int, end: int | None) -> Iterator[bytes]:
    """Lines of a plain file that start in bytes [start, end)."""
    file.seek(max(start - 1, 0))
    at = start
    if start > 0:
        at += len(file.readline()) - 1  # the rest of a line that started before; `\n` alone where one ended there
    while end is None or at < end:
        line = file.readline()
        if not line:
            return
        at += len(line)
        yield line.removesuffix(b"\n")


def jsonl(url: str, name: str, start: int = 0, end: int | None = None, first_row: int = 0) -> Iterator[Batch]:
    """Rows of a JSONL file, a batch at a time; `first_row` is the number of the line that starts the range.

    A row that is no JSON object, or is not UTF-8, is a fault; a blank line is neither.
    """
    rows, records, faults, blank, held = [], [], [], 0, 0
    row = first_row - 1
    with open_input(url) as file:
        stream = lines(chunks(file)) if start == 0 and end is None else ranged(file, start, end)
        try:
            for row, line in enumerate(stream, first_row):  # noqa: B007 - the fault below names the row
                line = line.removeprefix(BOM) if row == 0 else line
                if not line.strip():
                    blank += 1
                    continue
                record = parse(line)
                if isinstance(record, dict):
                    rows.append(row)
                    records.append(record)
                else:
                    faults.append(Fault(name, row, *record))
                held += len(line)
                if len(rows) + len(faults) >= BATCH or held >= BATCH_BYTES:
                    yield Batch(rows, records, faults, blank)
                    rows, records, faults, blank, held = [], [], [], 0, 0
        except Broken as broken:
            faults.append(Fault(name, row + 1, broken.reason, broken.detail))
    yield Batch(rows, records, faults, blank)


def row_group(reader: pq.ParquetFile, group: int, row: int, columns: list[str], name: str) -> Iterator[Batch]:
    """Rows of a Parquet row group that starts at `row`. Where a page is broken the rest of the group is one fault."""
    end = row + reader.metadata.row_group(group).num_rows
    try:
        for batch in reader.iter_batches(BATCH, row_groups=[group], columns=columns):
            yield _records(batch, row, name)
            row += len(batch)
    except (pa.ArrowInvalid, OSError) as error:
        yield Batch([], [], [Fault(name, row, "corrupt", f"Parquet: {error}; {end - row} rows of row group {group} are lost")], 0)


def _records(batch: pa.RecordBatch, row: int, name: str) -> Batch:
    """Rows as dictionaries; cell by cell where the batch holds what Python cannot."""
    try:
        return Batch(list(range(row, row + len(batch))), batch.to_pylist(), [], 0)
    except (ValueError, OverflowError):  # UnicodeDecodeError is a ValueError
        found = Batch([], [], [], 0)
    for place in range(len(batch)):
        try:
            record = {column: _cell(values[place]) for column, values in zip(batch.schema.names, batch.columns)}
        except UnicodeDecodeError as error:
            found.faults.append(Fault(name, row + place, "bad_utf8", f"byte {error.start} of a cell: {error.reason}"))
            continue
        found.rows.append(row + place)
        found.records.append(record)
    return found


def _cell(value: pa.Scalar) -> Any:
    """A cell as Python's value; a time that Python has none for as Arrow writes it."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        raise
    except (ValueError, OverflowError):
        return str(value.value if hasattr(value, "value") else value)


def parse(line: bytes) -> dict[str, Any] | tuple[str, str]:
    """The JSON object on a line, or (reason, detail)."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        record = _parse_slowly(line)
    if isinstance(record, (dict, tuple)):
        return record
    return "bad_json", f"a row must be a JSON object; got {type(record).__name__}"


def _parse_slowly(line: bytes) -> Any:
    """What the strict parser refuses and the standard library reads: NaN, lone surrogates as escapes, huge numbers."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return "bad_utf8", f"byte {error.start} of the line: {error.reason}"
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        return "bad_json", str(error)


def count_lines(url: str, start: int, end: int) -> int:
    """How many lines of a plain file start in bytes [start, end)."""
    total = 1 if start == 0 else 0
    with open_input(url) as file:
        at = max(start - 1, 0)
        file.seek(at)
        while at < end - 1:
            piece = file.read(min(PLAIN, end - 1 - at))
            if not piece:
                break
            total += piece.count(b"\n")
            at += len(piece)
    return total
