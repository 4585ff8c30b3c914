"""What the standalone commands write of each input file: its kept rows, and its verdicts by file and raw row."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cuvee.engine.step import Counts
from cuvee.engine.store import Output, open_arrow, open_input, read_table, sink
from cuvee.steps.documents import Shard
from cuvee.steps.kept import write_kept
from cuvee.steps.reading.inputs import Input

DEDUP_FILE = pa.schema([
    ("file", pa.string()), ("row", pa.int64()), ("source_id", pa.string()), ("id", pa.string()), ("keep", pa.bool_()),
    ("kind", pa.string()), ("kept_by", pa.string()), ("kept_by_file", pa.string()), ("kept_by_row", pa.int64()),
    ("similarity", pa.float64()), ("copies", pa.int64())])

DECONTAMINATE_FILE = pa.schema([
    ("file", pa.string()), ("row", pa.int64()), ("source_id", pa.string()), ("id", pa.string()), ("keep", pa.bool_()),
    ("hits", pa.int64()), ("fraction", pa.float64()), ("items", pa.list_(pa.string())), ("first_start", pa.int64()),
    ("first_end", pa.int64())])


@dataclass(frozen=True)
class File:
    """An input file under its base name, and the source that it is in the work folder."""

    input: Input
    source: str


@dataclass(frozen=True)
class Origins:
    """Where documents came from. names: source -> base name; documents: shard -> URL of its documents."""

    names: Mapping[str, str]
    documents: Mapping[str, str]

    def rows(self, shard: str) -> np.ndarray:
        """Raw row of every row of a documents shard."""
        with open_arrow(self.documents[shard].removesuffix(".parquet") + ".origin.arrow") as reader:
            return reader.read_all()["row"].to_numpy()

    def rows_of(self, shards: pa.ChunkedArray, rows: pa.ChunkedArray) -> pa.Array:
        """Raw rows of rows of many shards; null where there is no shard."""
        known = pc.unique(shards.drop_null()).to_pylist()
        owner = pc.fill_null(pc.index_in(shards, pa.array(known, pa.string())), -1).to_numpy()
        row, found = pc.fill_null(rows, -1).to_numpy(), np.zeros(len(rows), np.int64)
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(known) + 1))
        for shard, start, end in zip(known, bounds, bounds[1:]):
            found[order[start:end]] = self.rows(shard)[row[order[start:end]]]
        return pa.array(found, mask=owner < 0)


Rows = Callable[[Shard, Origins], pa.Table]


def export_file(out: Output, file: File, shards: Sequence[Shard], rows: Rows, origins: Origins, text: str) -> Counts:
    """Write `kept/NAME`, and the rows of the command's table as `.work/rows/SOURCE.parquet`; a shard is held at a time."""
    read, keep, kinds = 0, [np.zeros(0, np.int64)], Counter()
    with out.create(f".work/rows/{file.source}.parquet") as target:
        writer = None
        for shard in shards:
            table = rows(shard, origins)
            writer = writer or pq.ParquetWriter(sink(target), table.schema)
            writer.write_table(table)
            read, stays = read + len(table), table["keep"].to_numpy()
            keep.append(table["row"].to_numpy()[stays])
            kinds.update(table["kind"].to_numpy(zero_copy_only=False)[~stays].tolist() if "kind" in table.column_names else [])
        if writer:
            writer.close()
    kept = np.concatenate(keep)
    edited = _Edited(shards, origins)
    write_kept(out, f"kept/{file.input.name}", file.input.url, file.input.kind, kept, edited, text)
    return {"name": file.input.name, "read": read, "kept": len(kept), "edited": len(edited), "kinds": dict(sorted(kinds.items()))}


def dedup_rows(shard: Shard, origins: Origins) -> pa.Table:
    table = read_table(shard.verdicts[-1])
    names = pa.array(list(origins.names.values())).take(pc.index_in(table["kept_by_source"], pa.array(list(origins.names))))
    keepers = pc.binary_join_element_wise(table["kept_by_source"], table["kept_by_shard"], "/")
    columns = {"file": pa.repeat(origins.names[shard.source], len(table)), "row": origins.rows(shard.name)[table["row"].to_numpy()],
               "kept_by_file": names, "kept_by_row": origins.rows_of(keepers, table["kept_by_row"])}
    return _table(DEDUP_FILE, table, columns)


def decontaminate_rows(shard: Shard, origins: Origins) -> pa.Table:
    table = read_table(shard.verdicts[-1])
    own = read_table(shard.documents, ["source_id"])["source_id"].take(table["row"])
    columns = {"file": pa.repeat(origins.names[shard.source], len(table)), "row": origins.rows(shard.name)[table["row"].to_numpy()],
               "source_id": own}
    return _table(DECONTAMINATE_FILE, table, columns)


def _table(schema: pa.Schema, table: pa.Table, columns: Mapping[str, pa.Array | np.ndarray]) -> pa.Table:
    return pa.table({name: columns.get(name, table[name] if name in table.column_names else None) for name in schema.names}).cast(schema)


class _Edited(Mapping[int, str]):
    """Raw row -> text after edits, for the rows that a verdict edits; the texts of one shard are held at a time.

    shards: of one file, so that their raw rows are in order
    """

    def __init__(self, shards: Sequence[Shard], origins: Origins) -> None:
        self._origins = origins
        self._shards, self._rows = [], []
        for shard in shards:
            if len(rows := _edited_rows(shard)):
                self._shards.append(shard)
                self._rows.append(origins.rows(shard.name)[rows])
        self._lasts = [int(rows[-1]) for rows in self._rows]
        self._place, self._texts = -1, {}

    def __getitem__(self, row: int) -> str:
        place = bisect.bisect_left(self._lasts, row)
        if place == len(self._shards):
            raise KeyError(row)
        if place != self._place:
            table = self._shards[place].read(("text",))
            raw = self._origins.rows(self._shards[place].name)[table["row"].to_numpy()]
            mine = np.isin(raw, self._rows[place])
            self._place, self._texts = place, dict(zip(raw[mine].tolist(), table["text"].filter(pa.array(mine)).to_pylist()))
        return self._texts[row]

    def __iter__(self) -> Iterator[int]:
        return iter(np.concatenate([np.zeros(0, np.int64), *self._rows]).tolist())

    def __len__(self) -> int:
        return sum(map(len, self._rows))


def _edited_rows(shard: Shard) -> np.ndarray:
    """Rows of the documents shard that its last verdict edits and keeps, int64 (rows,)"""
    with open_input(shard.verdicts[-1]) as file:
        reader = pq.ParquetFile(file)
        if "edits" not in reader.schema_arrow.names:
            return np.zeros(0, np.int64)
        verdict = reader.read(["row", "keep", "edits"])
    edited = pc.and_(verdict["keep"], pc.greater(pc.fill_null(pc.list_value_length(verdict["edits"]), 0), 0))
    return verdict["row"].filter(edited).to_numpy()
