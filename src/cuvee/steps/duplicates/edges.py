"""Edges: candidate pairs verified on their full shingle sets, so that no estimate ever decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Dedup
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.shuffle import gather
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, open_npy
from cuvee.kernels.shingles import containment_pairs, jaccard_pairs, shingles
from cuvee.kernels.text import buffers, cut, nfc
from cuvee.kernels.words import tokenize
from cuvee.steps.documents import Shard, shards
from cuvee.steps.duplicates.candidates import floor
from cuvee.steps.duplicates.rows import Rows, flat

VERSION = 1
BATCH_BYTES = 500_000       # text held as tokens at a time: so little that its arrays stay in memory that is in use
BLOCK_SHINGLES = 4_000_000  # shingles held at a time while pairs are verified; one pair may have more
PARTS = ("documents", "offsets", "values")

EDGE = pa.schema([("left", pa.int64()), ("right", pa.int64()), ("jaccard", pa.float64()), ("containment", pa.float64())])


def run(work: Work, config: Dedup, rows: Rows, documents: Table, signed: Sequence[Table], pairs: Folder) -> Folder:
    """Files of EDGE rows: pairs of exact Jaccard `floor` or more, or of the containment that the recipe asks."""
    sets = _sets(work, rows, documents, signed, pairs)
    urls = tuple(tuple(sets.file(f"{flat(shard)}.{part}.npy") for part in PARTS) for shard in rows.shards)
    config = {"floor": floor(config), "containment": config.containment}
    return work.do(Step("dedup.edges", VERSION, config, (pairs.fingerprint, sets.fingerprint)), [
        Task(name.removesuffix(".arrow"), verify, {"name": name, "pairs": pairs.file(name), "sets": urls, "rows": rows, **config})
        for name in pairs.files if name.startswith("pairs.")])


def _sets(work: Work, rows: Rows, documents: Table, signed: Sequence[Table], pairs: Folder) -> Folder:
    """Sorted shingle sets of the documents that stand in pairs: `SHARD.{documents,offsets,values}.npy`."""
    needed = tuple(pairs.file(name) for name in pairs.files if name.startswith("needed."))
    by_name = {shard.name: shard for shard in shards(documents, *signed)}
    return work.do(Step("dedup.shingles", VERSION, {}, (pairs.fingerprint,)), [
        Task(flat(name), shingle_shard, {"shard": by_name[name], "needed": needed, "number": number, "first": first})
        for number, (name, first) in enumerate(zip(rows.shards, rows.firsts))])


def shingle_shard(out: Output, shard: Shard, needed: Sequence[str], number: int, first: int) -> Counts:
    wanted = np.unique(gather(needed, number)["document"].to_numpy())
    pieces = [_shingles_of(texts) for texts in cut(_texts(shard, wanted - first), BATCH_BYTES)]
    name = flat(shard.name)
    out.npy(f"{name}.documents.npy", wanted)
    out.npy(f"{name}.offsets.npy", np.cumsum(np.concatenate([[0], *(np.diff(offsets) for _, offsets in pieces)])))
    out.npy(f"{name}.values.npy", *(values for values, _ in pieces))
    return {"read": len(wanted)}


def _texts(shard: Shard, places: np.ndarray) -> pa.Array | pa.ChunkedArray:
    return shard.read(("text",))["text"].take(pa.array(places)) if len(places) else pa.array([], pa.large_string())


def _shingles_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    tokens = tokenize(*buffers(nfc(texts)))
    return shingles(tokens.hashes, tokens.offsets)


def verify(out: Output, name: str, pairs: str, sets: Sequence[tuple[str, str, str]], rows: Rows, floor: float,
           containment: float | None) -> Counts:
    table = open_arrow(pairs).read_all()
    shelf = _Shelf(sets, rows)
    edges = [EDGE.empty_table()]
    for left, right in _blocks(shelf, table["left"].to_numpy(), table["right"].to_numpy()):
        edge = shelf.compare(left, right, containment is not None)
        stays = pc.greater_equal(edge["jaccard"], floor)
        edges.append(edge.filter(stays if containment is None else pc.or_(stays, pc.greater_equal(edge["containment"], containment))))
    found = pa.concat_tables(edges).combine_chunks()
    out.arrow(f"edges.{name}", found.to_batches(), EDGE)
    return {"verified": len(table), "edges": len(found)}


def _blocks(shelf: _Shelf, left: np.ndarray, right: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Neighbouring pairs with about BLOCK_SHINGLES shingles together."""
    number = np.cumsum(shelf.sizes(left) + shelf.sizes(right)) // BLOCK_SHINGLES
    cuts = np.flatnonzero(np.diff(number)) + 1
    return list(zip(np.split(left, cuts), np.split(right, cuts))) if len(left) else []


class _Shelf:
    """Shingle sets of documents in pairs, read from every shard's file as they are needed."""

    def __init__(self, sets: Sequence[tuple[str, str, str]], rows: Rows) -> None:
        self.rows = rows
        self.documents, self.offsets = ([np.asarray(open_npy(urls[part])) for urls in sets] for part in range(2))
        self.values = [urls[2] for urls in sets]  # mapped one at a time, for mapped pages count as memory

    def sizes(self, documents: np.ndarray) -> np.ndarray:
        """Shingles of each document, int64 (documents,)"""
        size = np.zeros(len(documents), np.int64)
        for shard, here, place in self._places(documents):
            size[here] = self.offsets[shard][place + 1] - self.offsets[shard][place]
        return size

    def compare(self, left: np.ndarray, right: np.ndarray, contained: bool) -> pa.Table:
        """EDGE rows of pairs; containment is null where nobody asks for it, for it takes as long as Jaccard."""
        documents, at = np.unique(np.concatenate([left, right]), return_inverse=True)
        sets, sizes = zip(*(self._sets(shard, place) for shard, _, place in self._places(documents)))  # sorted, as `documents` are
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        pair = (np.concatenate(sets), offsets, at[:len(left)], at[len(left):])
        containment = pa.array(containment_pairs(*pair)) if contained else pa.nulls(len(left), pa.float64())
        return pa.table([left, right, jaccard_pairs(*pair), containment], schema=EDGE)

    def _sets(self, shard: int, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shingles of documents of one shard, one after another, and how many each has."""
        start, end, values = self.offsets[shard][place], self.offsets[shard][place + 1], np.asarray(open_npy(self.values[shard]))
        return np.concatenate([values[first:last] for first, last in zip(start.tolist(), end.tolist())]), end - start

    def _places(self, documents: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """For every shard that holds some of them: its number, which of `documents`, and their places in its file."""
        return [(shard, here, np.searchsorted(self.documents[shard], documents[here])) for shard, here, _ in self.rows.by_shard(documents)]
