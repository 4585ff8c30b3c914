"""Ingest: raw files to documents. Text is written here, once; every later step adds a table beside it.

A shard is three files: `part.parquet` (documents), `part.origin.arrow` (which file and row each came from)
and `part.quarantine.jsonl` (what could not be read, one JSON line each).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cuvee.config import Ingest, Recipe, Source
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_input, read_bytes
from cuvee.errors import DataError
from cuvee.kernels.text import sampled
from cuvee.record import DOCUMENTS
from cuvee.steps.reading import raw
from cuvee.steps.reading.columns import ORIGIN, Documents, documents_of, needed, tables_of
from cuvee.steps.reading.inputs import Input, inputs_of

VERSION = 1
SAMPLE_ROWS = 1_000  # documents a source at least, however small the share


@dataclass(frozen=True)
class Piece:
    """A part of one raw file: all of it, a byte range of plain JSONL, or row groups of Parquet."""

    input: Input
    start: int = 0
    end: int | None = None
    first_row: int = 0
    groups: tuple[int, ...] = ()


def run(work: Work, recipe: Recipe, sample: float | None = None) -> Table:
    """Documents of every source, as `read`; says what was not read. A source of which no row can be read is an error."""
    folders = read(work, recipe, sample)
    for name, folder in folders.items():
        _say(work, name, folder)
    return Table.of("documents", list(folders.values()))


def read(work: Work, recipe: Recipe, sample: float | None = None) -> dict[str, Folder]:
    """Documents by source. sample: share of ids to keep, at least SAMPLE_ROWS a source; None for all."""
    found = {source.name: inputs_of(work, source) for source in recipe.sources}
    shares = dict.fromkeys(found, sample)
    folders = _ingest(work, recipe, found, shares)
    while small := [name for name, folder in folders.items()
                    if shares[name] is not None and shares[name] < 1 and folder.counts["documents"] < SAMPLE_ROWS]:
        for name in small:
            shares[name] = min(1.0, max(1.2 * SAMPLE_ROWS / max(folders[name].counts["read"], 1), 1.5 * shares[name]))
        folders = _ingest(work, recipe, found, shares)
    return folders


def _ingest(work: Work, recipe: Recipe, found: Mapping[str, Sequence[Input]],
            shares: Mapping[str, float | None]) -> dict[str, Folder]:
    planned = []
    for source in recipe.sources:
        files, share = found[source.name], shares[source.name]
        planned.append((_step(recipe, source, files, share), _tasks(work, recipe, source, files, share)))
    return dict(zip(found, work.do_all(planned)))


def _step(recipe: Recipe, source: Source, files: Sequence[Input], sample: float | None) -> Step:
    config = {"ingest": recipe.ingest.identity(), "sample": sample,
              "source": source.model_dump(mode="json", exclude={"path", "priority", "frozen"})}
    return Step("ingest", VERSION, config, tuple(f"{file.name} {file.identity}" for file in files),
                ("pyarrow", "orjson"), source.name)


def _tasks(work: Work, recipe: Recipe, source: Source, files: Sequence[Input], sample: float | None) -> list[Task]:
    pieces = [piece for file in files for piece in _cut(work, source, file, recipe.ingest.shard_bytes)]
    groups = _packed(pieces, recipe.ingest.shard_bytes)
    return [Task(f"{number:05d}", ingest_pieces,
                 {"name": f"{number:05d}", "pieces": group, "source": source, "config": recipe.ingest, "sample": sample})
            for number, group in enumerate(groups)]


def _cut(work: Work, source: Source, file: Input, shard_bytes: int) -> list[Piece]:
    """One file as pieces of about `shard_bytes`; a compressed stream is one piece, and its task writes several shards."""
    if file.kind == "parquet":
        return row_groups(file, shard_bytes)
    if file.kind == "text" or file.compression or file.size <= shard_bytes:
        return [Piece(file)]
    starts = list(range(0, file.size, shard_bytes))
    ranges = list(zip(starts, [*starts[1:], file.size]))
    step = Step("ingest.split", VERSION, {"bytes": shard_bytes}, (file.name, file.identity), source=source.name)
    folder = work.do(step, [Task(f"{start:015d}", count_lines, {"url": file.url, "start": start, "end": end})
                            for start, end in ranges])
    pieces, first_row = [], 0
    for (start, end), (_, result) in zip(ranges, sorted(folder.manifest["tasks"].items())):
        pieces.append(Piece(file, start, end, first_row))
        first_row += result["counts"]["lines"]
    return pieces


def count_lines(out: Output, url: str, start: int, end: int) -> Counts:
    return {"lines": raw.count_lines(url, start, end)}


def row_groups(file: Input, shard_bytes: int) -> list[Piece]:
    try:
        with open_input(file.url) as opened:
            metadata = pq.ParquetFile(opened).metadata
    except (pa.ArrowInvalid, OSError):
        return [Piece(file)]  # the task finds the fault again, and counts it
    pieces, groups, held, first, row = [], [], 0, 0, 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        held += metadata.row_group(group).total_byte_size
        row += metadata.row_group(group).num_rows
        if held >= shard_bytes or group == metadata.num_row_groups - 1:
            pieces.append(Piece(file, first_row=first, groups=tuple(groups)))
            groups, held, first = [], 0, row
    return pieces or [Piece(file)]


def _packed(pieces: Sequence[Piece], shard_bytes: int) -> list[list[Piece]]:
    """Neighbouring plain text files share a task, up to `shard_bytes`; anything else has its own."""
    groups: list[list[Piece]] = []
    held = 0
    for piece in pieces:
        joins = piece.input.kind == "text" and groups and groups[-1][-1].input.kind == "text"
        if joins and held + piece.input.size <= shard_bytes:
            groups[-1].append(piece)
            held += piece.input.size
        else:
            groups.append([piece])
            held = piece.input.size
    return groups


def ingest_pieces(out: Output, name: str, pieces: Sequence[Piece], source: Source, config: Ingest,
                  sample: float | None) -> Counts:
    """Write the documents of some pieces as one or more shards of about `shard_bytes` of text."""
    shelf = _Shelf(out, name, source.name, config, sample)
    read = None if config.meta else needed(source)
    for piece in pieces:
        for batch in batches(piece, read):
            _stop_at_a_broken_file(batch, config)
            shelf.take(documents_of(batch, source, config, piece.input.name), batch.blank, piece.input.name)
    return shelf.finish()


def _stop_at_a_broken_file(batch: raw.Batch, config: Ingest) -> None:
    fault = next((fault for fault in batch.faults if fault.reason in ("truncated", "corrupt")), None)
    if fault is not None and config.on_bad_file == "stop":
        raise DataError(f"{fault.file}, row {fault.row}: {fault.reason}: {fault.detail}. Mend the file, or set "
                        "ingest.on_bad_file to quarantine to go on without the rest of it.")


def batches(piece: Piece, columns: set[str] | None) -> Iterator[raw.Batch]:
    """columns: of Parquet, that are read; None for all."""
    file = piece.input
    if file.kind == "jsonl":
        return raw.jsonl(file.url, file.name, piece.start, piece.end, piece.first_row)
    return _parquet(piece, columns) if file.kind == "parquet" else _plain(piece)


def _plain(piece: Piece) -> Iterator[raw.Batch]:
    """A text file is one document; its id is its path."""
    file = piece.input
    try:
        with open_input(file.url) as opened:
            data = b"".join(raw.chunks(opened)).removeprefix(raw.BOM)
        yield raw.Batch([0], [{"text": data.decode(), "id": file.name}], [], 0)
    except UnicodeDecodeError as error:
        yield raw.Batch([], [], [raw.Fault(file.name, 0, "bad_utf8", f"byte {error.start}: {error.reason}")], 0)
    except raw.Broken as broken:
        yield raw.Batch([], [], [raw.Fault(file.name, 0, broken.reason, broken.detail)], 0)


def _parquet(piece: Piece, columns: set[str] | None) -> Iterator[raw.Batch]:
    try:
        with open_input(piece.input.url) as opened:
            reader = pq.ParquetFile(opened)
            wanted = [name for name in reader.schema_arrow.names if columns is None or name in columns]
            row = piece.first_row
            for group in piece.groups:
                yield from raw.row_group(reader, group, row, wanted, piece.input.name)
                row += reader.metadata.row_group(group).num_rows
    except (pa.ArrowInvalid, OSError) as error:
        yield raw.Batch([], [], [raw.Fault(piece.input.name, piece.first_row, "corrupt", f"Parquet: {error}")], 0)


class _Shelf:
    """Collects documents and writes a shard whenever enough text is held."""

    def __init__(self, out: Output, name: str, source: str, config: Ingest, sample: float | None) -> None:
        self.out, self.name, self.source, self.config, self.sample = out, name, source, config, sample
        self.counts: Counter[str] = Counter(read=0, blank=0, documents=0, bytes=0)
        self.reasons: Counter[str] = Counter()
        self.number = 0
        self._clear()

    def _clear(self) -> None:
        self.documents: list[pa.Table] = []
        self.origins: list[pa.Table] = []
        self.faults: list[raw.Fault] = []
        self.held = 0

    def take(self, found: Documents, blank: int, file: str) -> None:
        self.counts["read"] += len(found.rows)
        self.counts["blank"] += blank
        documents, origin = tables_of(found, self.source, file)
        if self.sample is not None:
            chosen = pa.array(sampled(documents["id"], "sample", self.sample))
            documents, origin = documents.filter(chosen), origin.filter(chosen)
        self.documents.append(documents)
        self.origins.append(origin)
        self.faults += found.faults
        self.held += pc.sum(pc.binary_length(documents["text"])).as_py() or 0
        if self.held >= self.config.shard_bytes:
            self.write()

    def write(self) -> None:
        part = f"{self.name}-{self.number:05d}"
        documents = pa.concat_tables([DOCUMENTS.empty_table(), *self.documents])
        origins = pa.concat_tables([ORIGIN.empty_table(), *self.origins]).combine_chunks()
        self.out.table(f"{part}.parquet", documents)
        self.out.arrow(f"{part}.origin.arrow", origins.to_batches(), ORIGIN)
        self.out.bytes(f"{part}.quarantine.jsonl", b"".join(orjson.dumps(fault._asdict()) + b"\n" for fault in self.faults))
        self.counts["documents"] += len(documents)
        self.counts["bytes"] += self.held
        self.reasons.update(fault.reason for fault in self.faults)
        self.number += 1
        self._clear()

    def finish(self) -> Counts:
        if self.documents or self.faults or self.number == 0:
            self.write()
        return {**self.counts, "quarantined": self.reasons.total(), "reasons": dict(sorted(self.reasons.items()))}


def _say(work: Work, source: str, folder: Folder) -> None:
    """What was not read; a source of which nothing could be read is an error."""
    counts = folder.counts
    if (fault := unreadable(folder)) is not None:
        raise DataError(f"source {source}: no row could be read. First: {fault['file']}, row {fault['row']}: {fault['reason']}: "
                        f"{fault['detail']}")
    if counts["quarantined"]:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts["reasons"].items())
        work.progress.say(f"source {source}: {counts['quarantined']:,} rows quarantined ({reasons}); see {folder.url}/*.quarantine.jsonl")
    if counts["read"] == 0:
        work.progress.say(f"warning: source {source} is empty: its files hold no row")


def unreadable(folder: Folder) -> dict[str, Any] | None:
    """The first fault of a source of which no row could be read; None where some could, or where there is none."""
    counts = folder.counts
    return next(quarantine(folder)) if counts["quarantined"] and not counts["read"] else None


def quarantine(folder: Folder) -> Iterator[dict[str, Any]]:
    """Every fault of a source, in file order."""
    for name in folder.files:
        if name.endswith(".quarantine.jsonl"):
            yield from (orjson.loads(line) for line in read_bytes(folder.file(name)).splitlines())
