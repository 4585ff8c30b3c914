"""The signed documents of all shards under one number each, and what the shuffles of dedup share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.engine.shard import Folder, Table
from cuvee.kernels.text import buffers

PARTITION_ROWS = 2_000_000  # rows of a shuffle's partition at most: 32 bytes each, and some times that while they are sorted
FEW_ROWS, FEW = 250_000, 16  # up to 16 partitions may be so small, so that two workers and more share the work
FEW_BYTES = 64_000_000  # and so little text may stand in a block of documents whose pairs are verified together


@dataclass(frozen=True)
class Rows:
    """Signed documents of all shards, numbered 0, 1, ... in the order source, part, row.

    shards: `source/part`; firsts: number of each shard's first document; urls: their record.SIGN tables; bytes: UTF-8, of all.
    """

    shards: tuple[str, ...]
    firsts: tuple[int, ...]
    urls: tuple[str, ...]
    count: int
    bytes: int

    @classmethod
    def of(cls, signatures: Table, folders: Sequence[Folder]) -> Rows:
        sizes = {f"{folder.source}/{part}": result["counts"]["read"] for folder in folders for part, result in folder.manifest["tasks"].items()}
        shards = sorted(signatures.shards, key=lambda shard: shard.split("/", 1))
        ends = np.cumsum([sizes[shard] for shard in shards]).astype(int).tolist()
        return cls(tuple(shards), (0, *ends[:-1]), tuple(signatures.files[shard] for shard in shards), ends[-1],
                   sum(folder.counts["bytes"] for folder in folders))

    def shard_of(self, documents: np.ndarray) -> np.ndarray:
        """Number of the shard that holds each document, int64"""
        return np.searchsorted(np.array(self.firsts), documents, side="right") - 1

    def by_shard(self, documents: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """For every shard that holds some of them: its number, which of `documents`, and their rows in its table."""
        owner = self.shard_of(documents)
        order = np.argsort(owner, kind="stable")
        shards, starts = np.unique(owner[order], return_index=True)
        found = zip(shards.tolist(), np.split(order, starts[1:]))
        return [(shard, here, documents[here] - self.firsts[shard]) for shard, here in found]


def partitions(count: int) -> int:
    """How many partitions so many rows are cut into; a matter of the rows alone, never of the workers."""
    return max(1, -(-count // PARTITION_ROWS), min(FEW, -(-count // FEW_ROWS)))


def blocks(rows: Rows) -> int:
    """How many blocks of neighbouring documents pairs are cut into, by the left one."""
    return max(partitions(rows.count), min(FEW, -(-rows.bytes // FEW_BYTES)))


def partition_of(keys: np.ndarray, count: int) -> np.ndarray:
    """By the high bits of well-mixed keys."""
    return ((keys >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)


def in_company(keys: np.ndarray) -> np.ndarray:
    """Which keys occur more than once, bool (keys,)"""
    order = np.argsort(keys)
    again = np.zeros(len(keys) + 1, bool)
    again[1:-1] = keys[order[1:]] == keys[order[:-1]]
    shared = np.zeros(len(keys), bool)
    shared[order] = again[1:] | again[:-1]
    return shared


def source_ranks(rows: Rows, recipe: Recipe) -> np.ndarray:
    """Of each shard's source, in priority order: frozen ones first, then larger priority: int64 (shards,)"""
    order = {source.name: (not source.frozen, -source.priority) for source in recipe.sources}
    known = sorted(set(order.values()))
    return np.array([known.index(order[shard.split("/", 1)[0]]) for shard in rows.shards], np.int64)


def id_halves(ids: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The two 64-bit halves of hexadecimal ids; they sort as the ids do."""
    raw = bytes.fromhex(buffers(ids)[0].tobytes().decode())
    halves = np.frombuffer(raw, ">u8").astype(np.uint64).reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def id_strings(high: np.ndarray, low: np.ndarray) -> pa.Array:
    """Ids of their two halves."""
    digits = np.stack([high, low], 1).astype(">u8").tobytes().hex().encode()
    return pa.StringArray.from_buffers(len(high), pa.py_buffer(np.arange(0, len(digits) + 1, 32, dtype=np.int32)), pa.py_buffer(digits))


def intrinsic_rank(sizes: np.ndarray, id_high: np.ndarray) -> np.ndarray:
    """Longer text first, then smaller id (its first 32 bits): uint64, smaller is earlier."""
    longest = np.uint64(2**32 - 1)
    return ((longest - np.minimum(sizes.astype(np.uint64), longest)) << np.uint64(32)) | (id_high >> np.uint64(32))


def places(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of `wanted` stands in the sorted documents `known`; -1 where it does not."""
    at = np.searchsorted(known, wanted)
    return np.where(np.append(known, -1)[at] == wanted, at, -1)


def flat(shard: str) -> str:
    """A shard's name as a file name in one folder; source names have no `/`, and `//` stands in none."""
    return shard.replace("/", "..")
