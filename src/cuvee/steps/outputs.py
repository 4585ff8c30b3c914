"""What the standalone commands write of each input file: its kept rows, and its verdicts by file and raw row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.engine.step import Counts
from cuvee.engine.store import Output, open_arrow, read_table
from cuvee.steps.documents import Shard
from cuvee.steps.inputs import Input
from cuvee.steps.kept import write_kept

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
        for number, shard in enumerate(known):
            found[owner == number] = self.rows(shard)[row[owner == number]]
        return pa.array(found, mask=owner < 0)


Rows = Callable[[Shard, Origins], pa.Table]


def export_file(out: Output, file: File, shards: Sequence[Shard], rows: Rows, origins: Origins, text: str) -> Counts:
    """Write `kept/NAME`, and the rows of the command's table as `.work/rows/SOURCE.parquet`."""
    table = pa.concat_tables([rows(shard, origins) for shard in shards])
    out.table(f".work/rows/{file.source}.parquet", table)
    edited = {row: new for shard in shards for row, new in _edited(shard, origins).items()}
    keep = table["row"].to_numpy()[table["keep"].to_numpy()]
    write_kept(out, f"kept/{file.input.name}", file.input.url, file.input.kind, keep, edited, text)
    gone = table.filter(pc.invert(table["keep"]))
    kinds = pc.value_counts(gone["kind"]).to_pylist() if "kind" in table.column_names else []
    return {"name": file.input.name, "read": len(table), "kept": len(keep), "kinds": {each["values"]: each["counts"] for each in kinds}}


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


def _edited(shard: Shard, origins: Origins) -> dict[int, str]:
    """Raw row -> text after edits, for the rows that a verdict edits."""
    verdict = read_table(shard.verdicts[-1])
    if "edits" not in verdict.column_names or verdict["edits"].null_count == len(verdict):
        return {}
    changed = {row for row, edits in zip(verdict["row"].to_pylist(), verdict["edits"].to_pylist()) if edits}
    texts, rows = shard.read(("text",)), origins.rows(shard.name)
    return {int(rows[row]): text for row, text in zip(texts["row"].to_pylist(), texts["text"].to_pylist()) if row in changed}
