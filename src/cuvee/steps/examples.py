"""Example documents of groups (topics, domains): found in each shard's kept beginnings, then the first of all shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.kernels.text import hash64_many
from cuvee.record import row_name

EACH = 3     # examples a group of one kind
CHARS = 300  # of a text that is shown
SCHEMA = pa.schema([
    ("group", pa.int32()),
    ("key", pa.float64()),     # smaller is shown first
    ("id", pa.string()),
    ("row", pa.string()),      # source/part:row
    ("value", pa.float32()),   # what is shown beside it: cosine, score
    ("text", pa.string()),
])


def by_hash(ids: pa.ChunkedArray) -> np.ndarray:
    """Keys that choose at random, the same rows every time. -> float64 (ids,) in [0, 1)"""
    return (hash64_many(ids, "example") >> np.uint64(11)) * 2.0**-53


def candidates(shard: str, sample: pa.Table, group: np.ndarray, key: np.ndarray, value: pa.Array) -> pa.Table:
    """The examples that one shard offers. sample: row, id, text; the others: one a row of it."""
    rows = pa.array([row_name(shard, row) for row in sample["row"].to_pylist()], pa.string())
    texts = pc.utf8_slice_codeunits(sample["text"], 0, CHARS)
    columns = [group, key, sample["id"], rows, value, texts]
    return first(pa.table(dict(zip(SCHEMA.names, columns))).cast(SCHEMA))


def first(table: pa.Table) -> pa.Table:
    """The EACH rows of smallest key of each group; equal keys in order of id, then row; a text once."""
    table = table.sort_by([(name, "ascending") for name in ("group", "key", "id", "row")])
    group, ids = table["group"].to_numpy(), table["id"].to_numpy(zero_copy_only=False)
    again = np.zeros(len(table), bool)
    again[1:] = (group[1:] == group[:-1]) & (ids[1:] == ids[:-1])
    table, group = table.filter(pa.array(~again)), group[~again]
    place = np.arange(len(group)) - np.searchsorted(group, group)
    return table.filter(pa.array(place < EACH))


def merged(tables: Sequence[pa.Table]) -> dict[int, list[dict[str, Any]]]:
    """group -> its examples over all shards, best first: row, value, text."""
    found: dict[int, list[dict[str, Any]]] = {}
    for each in first(pa.concat_tables([SCHEMA.empty_table(), *tables])).to_pylist():
        found.setdefault(each["group"], []).append({name: each[name] for name in ("row", "value", "text")})
    return found
