"""Examples for the page: the same ones every time, from a bounded number of shards and row groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cuvee.engine.shard import Table
from cuvee.engine.store import open_input, read_table
from cuvee.errors import DataError
from cuvee.record import row_name
from cuvee.report.facts import Drop, Example

SHARDS = 24          # of a table that are looked at; their thin columns only
DROPS = 3            # texts a drop reason
PAIRS = {"exact": 2, "normalised": 2, "near": 5}  # removed next to kept
COPIED = 3           # texts with most copies
CONTAMINATED = 6     # documents next to the item they hold
PLACE = ["shard", "row"]

Item = TypeVar("Item")
Place = tuple[str, int]  # shard, row


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` items, the first and the last among them, evenly apart."""
    if len(items) <= most:
        return list(items)
    return [items[at * (len(items) - 1) // (most - 1)] for at in range(most)]


def looked_at(table: Table) -> list[str]:
    return evenly(table.shards, SHARDS)


def drops(filtered: Table, documents: Table, counts: Mapping[str, int]) -> list[Drop]:
    """Every reason with its documents, most first; values and texts of the shards looked at."""
    columns = ["row", "id", "keep", "reason", "value", "threshold"]
    found = _rows(filtered, columns, lambda table: pc.and_(pc.invert(table["keep"]), pc.is_valid(table["reason"])))
    chosen = {reason: found.filter(pc.equal(found["reason"], reason)).sort_by([(name, "ascending") for name in ("value", *PLACE)])
              for reason in sorted(counts)}
    examples = {reason: _at(table, DROPS).to_pylist() for reason, table in chosen.items()}
    texts = Texts(documents, [row for rows in examples.values() for row in rows])
    order = sorted(counts, key=lambda reason: (-counts[reason], reason))
    return [Drop(reason, counts[reason], *_values(chosen[reason]), [_listed(texts, row, _measured(row)) for row in examples[reason]])
            for reason in order]


def _values(rows: pa.Table) -> tuple[float | None, tuple[float, float, float] | None]:
    """Threshold, and lowest, middle and highest value, where anything was measured."""
    values = rows["value"].drop_null().to_pylist()
    thresholds = rows["threshold"].drop_null().to_pylist()
    return (thresholds[0] if thresholds else None), ((values[0], values[len(values) // 2], values[-1]) if values else None)


def _measured(row: Mapping[str, Any]) -> str:
    return "" if row["value"] is None else f"value {row['value']:.4g}"


def duplicates(dedup: Table, documents: Table) -> tuple[list[Example], list[Example]]:
    """Removed next to kept, near ones from lowest to highest similarity; and the texts with most copies."""
    columns = ["row", "id", "keep", "kind", "kept_by", "kept_by_source", "kept_by_shard", "kept_by_row", "similarity", "copies"]
    found = _rows(dedup, columns, lambda table: pc.or_kleene(pc.invert(table["keep"]), pc.greater(table["copies"], 1)))
    gone = found.filter(pc.invert(found["keep"])).sort_by([(name, "ascending") for name in ("similarity", *PLACE)])
    removed = [row for kind, most in PAIRS.items() for row in _at(gone.filter(pc.equal(gone["kind"], kind)), most).to_pylist()]
    keepers = [{"shard": f"{row['kept_by_source']}/{row['kept_by_shard']}", "row": row["kept_by_row"], "id": row["kept_by"]} for row in removed]
    copied = found.filter(found["keep"]).sort_by([("copies", "descending"), *((name, "ascending") for name in PLACE)]).slice(0, COPIED).to_pylist()
    texts = Texts(documents, [*removed, *keepers, *copied])
    pairs = [{"kind": row["kind"], "similarity": row["similarity"], "removed": texts[row], "removed_name": _name(row),
              "kept": texts[keeper], "kept_name": _name(keeper)} for row, keeper in zip(removed, keepers)]
    return pairs, [_listed(texts, row, f"{row['copies']:,} copies") for row in copied]


def contaminated(judged: Table, documents: Table, records: str) -> list[Example]:
    """Documents from fewest to most hits, around the first place, next to the first item found. records: URL of the items' texts"""
    columns = ["row", "id", "keep", "hits", "items", "first_start", "first_end"]
    found = _rows(judged, columns, lambda table: pc.and_(pc.is_valid(table["first_start"]), pc.greater(table["hits"], 0)))
    rows = _at(found.sort_by([(name, "ascending") for name in ("hits", *PLACE)]), CONTAMINATED).to_pylist()
    texts = Texts(documents, rows)
    items = _items(records, [row["items"][0] for row in rows])
    return [{"kind": "kept or cut" if row["keep"] else "dropped", "hits": row["hits"], "removed": texts[row], "removed_name": _name(row),
             "start": row["first_start"], "end": row["first_end"], "kept": items[row["items"][0]], "kept_name": row["items"][0]} for row in rows]


def _items(records: str, names: Sequence[str]) -> dict[str, str]:
    table = read_table(records, ["name", "text"])
    mine = table.filter(pc.is_in(table["name"], pa.array(names, pa.string())))
    return dict(zip(mine["name"].to_pylist(), mine["text"].to_pylist()))


def _rows(table: Table, columns: Sequence[str], wanted: Any) -> pa.Table:
    """`columns` and `shard` of the rows that `wanted(table)` chooses, from the shards looked at."""
    parts = []
    for shard in looked_at(table):
        part = table.read(shard, columns)
        part = part.filter(wanted(part))
        parts.append(part.append_column("shard", pa.array([shard] * len(part), pa.string())))
    return pa.concat_tables(parts)


def _at(rows: pa.Table, most: int) -> pa.Table:
    return rows.take(pa.array(evenly(range(len(rows)), most), pa.int64()))


def _name(row: Mapping[str, Any]) -> str:
    return row_name(row["shard"], row["row"])


def _listed(texts: Texts, row: Mapping[str, Any], fact: str) -> Example:
    return {"row": _name(row), "text": texts[row], "fact": fact}


class Texts:
    """Stored texts of some rows, by `shard` and `row`; of each shard only the row groups that hold them are read."""

    def __init__(self, documents: Table, rows: Iterable[Mapping[str, Any]]) -> None:
        wanted: dict[str, dict[int, str]] = {}
        for row in rows:
            wanted.setdefault(row["shard"], {})[row["row"]] = row["id"]
        self._texts: dict[Place, str] = {}
        for shard, ids in sorted(wanted.items()):
            if shard not in documents.files:
                raise DataError(f"documents have no shard {shard}, though a table names row {shard}:{min(ids)}. Run the recipe again.")
            self._texts |= {(shard, row): text for row, text in _texts(documents.files[shard], ids).items()}

    def __getitem__(self, row: Mapping[str, Any]) -> str:
        return self._texts[row["shard"], row["row"]]


def _texts(url: str, ids: Mapping[int, str]) -> dict[int, str]:
    """row -> text. ids: row -> id"""
    found: dict[int, str] = {}
    with open_input(url) as opened:
        file = pq.ParquetFile(opened)
        ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)])
        rows = np.array(sorted(ids), np.int64)
        groups = np.searchsorted(ends, rows, side="right")
        for group in np.unique(groups):
            mine = rows[groups == group]
            part = file.read_row_group(int(group), ["id", "text"]).take(pa.array(mine - (ends[group - 1] if group else 0)))
            for row, id, text in zip(mine.tolist(), part["id"].to_pylist(), part["text"].to_pylist()):
                if id != ids[row]:
                    raise DataError(f"{url}, row {row}: id {id} where a table has {ids[row]}. "
                                    "The two do not belong together: delete the step's folder and run again.")
                found[row] = text
    return found
