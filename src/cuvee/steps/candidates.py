"""Pairs of documents that are alike: grouped by band, thinned by signature, verified on their full shingle sets.

Documents of one token sequence collapse to a representative before banding, so no bound on a band group can lose a
copy. All orders here are intrinsic (longer text, smaller id, place), so that a new priority re-runs nothing of it.
Documents are numbered 0, 1, ... over all shards in order (keepers.Rows).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Dedup
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.shuffle import gather, scatter
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, open_npy, read_table
from cuvee.kernels.minhash import BANDS, MINIMA, agreement, band_keys, sort_keys
from cuvee.kernels.pairs import candidate_blocks, group_offsets
from cuvee.kernels.shingles import containment_pairs, jaccard_pairs, shingles
from cuvee.kernels.text import buffers, cut, nfc
from cuvee.kernels.words import tokenize
from cuvee.steps.documents import Shard, shards
from cuvee.steps.keepers import Rows

VERSION = 1
FLOOR = 0.65               # Jaccard from which an edge is stored: a threshold above it re-runs no pair
AGREEMENT = 0.55           # share of equal minima under which a pair is not verified
PARTITION_ROWS = 4_000_000  # band rows, or documents, a partition: 32 bytes each
MOST_SHINGLES = 4_000_000  # a pair with a larger side is not verified
BATCH_BYTES = 16_000_000   # text held as tokens at a time
BLOCK_SHINGLES = 16_000_000  # shingles held at a time while pairs are verified

GROUP = pa.schema([("key_0", pa.uint64()), ("key_1", pa.uint64()), ("rank", pa.uint64()), ("document", pa.int64())])
BAND = pa.schema([("key", pa.uint64()), ("rank", pa.uint64()), ("sort", pa.uint64()), ("document", pa.int64())])
PAIR = pa.schema([("left", pa.int64()), ("right", pa.int64())])
MEMBER = pa.schema([("document", pa.int64()), ("leader", pa.int64())])
EDGE = pa.schema([("left", pa.int64()), ("right", pa.int64()), ("jaccard", pa.float64()), ("containment", pa.float64())])


def run(work: Work, config: Dedup, rows: Rows, documents: Table, signed: Sequence[Table],
        signatures: Table) -> tuple[Folder, Folder]:
    """The groups (which documents collapse to which leader) and the edges between leaders."""
    groups = _collapse(work, rows, signatures)
    floor = min(FLOOR, config.threshold)
    thin = config.containment is None  # an excerpt agrees in few minima
    pairs = _pairs(work, rows, signatures, groups, thin)
    sets = _shingles(work, rows, documents, signed, pairs)
    step = Step("dedup.edges", VERSION, {"floor": floor, "containment": config.containment}, (pairs.fingerprint, sets.fingerprint))
    tasks = [Task(name.removesuffix(".arrow"), verify, {"pairs": pairs.file(name), "name": name, "sets": _by_shard(rows, sets),
                                                        "rows": rows, "floor": floor, "containment": config.containment})
             for name in pairs.files if name.startswith("pairs.")]
    return groups, work.do(step, tasks)


def _partitions(count: int) -> int:
    return max(1, -(-count // PARTITION_ROWS))


# Collapse: rows of one token sequence, or of one id where there is no token.

def _collapse(work: Work, rows: Rows, signatures: Table) -> Folder:
    """Per partition a file of MEMBER rows, by shard: the documents that are not their own leader."""
    partitions = _partitions(rows.count)
    step = Step("dedup.scatter", VERSION, {"partitions": partitions}, (signatures.fingerprint,))
    tasks = [Task(_flat(shard), scatter_sequences, {"name": _flat(shard), "url": signatures.files[shard], "first": first, "partitions": partitions})
             for shard, first in zip(rows.shards, rows.firsts)]
    moved = work.do(step, tasks)
    files = tuple(moved.file(_flat(shard) + ".arrow") for shard in rows.shards)
    step = Step("dedup.groups", VERSION, {}, (moved.fingerprint,))
    return work.do(step, [Task(f"{number:05d}", collapse, {"name": f"{number:05d}", "files": files, "partition": number, "rows": rows})
                          for number in range(partitions)])


def scatter_sequences(out: Output, name: str, url: str, first: int, partitions: int) -> Counts:
    table = read_table(url, ["id", "bytes", "tokens", "sequence_0", "sequence_1"])
    high, low = id_halves(table["id"])
    silent = table["tokens"].to_numpy() == 0
    key_0 = np.where(silent, high, table["sequence_0"].to_numpy())
    key_1 = np.where(silent, low, table["sequence_1"].to_numpy())
    columns = [key_0, key_1, intrinsic_rank(table["bytes"].to_numpy(), high), first + np.arange(len(table))]
    scatter(out, f"{name}.arrow", pa.table(columns, schema=GROUP), _partition_of(key_0, partitions), partitions)
    return {"read": len(table)}


def collapse(out: Output, name: str, files: Sequence[str], partition: int, rows: Rows) -> Counts:
    """Leader of each group: the first in intrinsic order. Only documents with another leader are written, by shard."""
    table = gather(files, partition)
    key_0, key_1, rank, document = (table[each].to_numpy() for each in GROUP.names)
    order = np.lexsort((document, rank, key_1, key_0))
    key_0, key_1, document = key_0[order], key_1[order], document[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (key_0[1:] != key_0[:-1]) | (key_1[1:] != key_1[:-1])
    leader = document[np.flatnonzero(fresh)[np.cumsum(fresh) - 1]] if len(order) else document
    follows = ~fresh
    members = pa.table([document[follows], leader[follows]], schema=MEMBER)
    scatter(out, f"{name}.arrow", members, rows.shard_of(document[follows]), len(rows.shards))
    return {"read": len(order), "groups": int(fresh.sum())}


def id_halves(ids: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The two 64-bit halves of hexadecimal ids; they sort as the ids do."""
    raw = bytes.fromhex("".join(ids.to_pylist()))
    halves = np.frombuffer(raw, ">u8").astype(np.uint64).reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def intrinsic_rank(sizes: np.ndarray, id_high: np.ndarray) -> np.ndarray:
    """Longer text first, then smaller id (its first 32 bits): uint64, smaller is earlier."""
    longest = np.uint64(2**32 - 1)
    return ((longest - np.minimum(sizes.astype(np.uint64), longest)) << np.uint64(32)) | (id_high >> np.uint64(32))


def _partition_of(keys: np.ndarray, partitions: int) -> np.ndarray:
    """By the high bits of well-mixed keys."""
    return ((keys >> np.uint64(32)) * np.uint64(partitions) >> np.uint64(32)).astype(np.int64)


# Bands: leaders that share a band key.

def _pairs(work: Work, rows: Rows, signatures: Table, groups: Folder, thin: bool) -> Folder:
    """`pairs.N.arrow`: pairs to verify, each once; `needed.N.arrow`: their documents, by shard."""
    leaders = groups.counts["groups"]
    partitions = _partitions(leaders * BANDS)
    inputs = (signatures.fingerprint, groups.fingerprint)
    members = tuple(groups.file(name) for name in groups.files)
    tasks = [Task(_flat(shard), band_shard, {"name": _flat(shard), "url": signatures.files[shard], "first": first, "members": members,
                                             "shard": number, "partitions": partitions})
             for number, (shard, first) in enumerate(zip(rows.shards, rows.firsts))]
    banded = work.do(Step("dedup.bands", VERSION, {"partitions": partitions}, inputs), tasks)
    files = tuple(banded.file(_flat(shard) + ".arrow") for shard in rows.shards)
    blocks = _partitions(rows.count)
    found = work.do(Step("dedup.candidates", VERSION, {"blocks": blocks}, (banded.fingerprint,)), [
        Task(f"{number:05d}", pair_partition, {"name": f"{number:05d}", "files": files, "partition": number, "rows": rows, "blocks": blocks})
        for number in range(partitions)])
    urls = tuple(found.file(name) for name in found.files)
    signature_urls = tuple(_signatures(signatures.files[shard]) for shard in rows.shards)
    return work.do(Step("dedup.pairs", VERSION, {"thin": thin}, (found.fingerprint, signatures.fingerprint)), [
        Task(f"{number:05d}", thin_pairs, {"name": f"{number:05d}", "files": urls, "block": number, "rows": rows,
                                           "signatures": signature_urls, "thin": thin}) for number in range(blocks)])


def _signatures(url: str) -> str:
    return url.removesuffix(".parquet") + ".signatures.npy"


def band_shard(out: Output, name: str, url: str, first: int, members: Sequence[str], shard: int, partitions: int) -> Counts:
    """Band keys of the leaders that have tokens, BANDS rows each."""
    table = read_table(url, ["id", "bytes", "tokens"])
    leads = table["tokens"].to_numpy() > 0
    leads[gather(members, shard)["document"].to_numpy() - first] = False
    places = np.flatnonzero(leads)
    minima = np.asarray(open_npy(_signatures(url)))[places]
    rank = intrinsic_rank(table["bytes"].to_numpy(), id_halves(table["id"])[0])[places]
    keys = band_keys(minima).ravel()
    columns = [keys, np.repeat(rank, BANDS), sort_keys(minima).ravel(), np.repeat(first + places, BANDS)]
    scatter(out, f"{name}.arrow", pa.table(columns, schema=BAND), _partition_of(keys, partitions), partitions)
    return {"read": len(places)}


def pair_partition(out: Output, name: str, files: Sequence[str], partition: int, rows: Rows, blocks: int) -> Counts:
    """Pairs of every band group of a partition, by the block of documents that the left one stands in."""
    table = gather(files, partition)
    key, rank, sort, document = (table[each].to_numpy() for each in BAND.names)
    shared = _in_company(key)
    key, rank, sort, document = key[shared], rank[shared], sort[shared], document[shared]
    order = np.lexsort((document, rank, key))
    key, sort, document = key[order], sort[order], document[order]
    found, left_out = [np.zeros((2, 0), np.int64)], 0
    for block in candidate_blocks(group_offsets(key), sort):
        left_out += block.left_out
        found.append(_once(np.sort(np.stack([document[block.left], document[block.right]]), axis=0)))
    left, right = _once(np.concatenate(found, axis=1))
    scatter(out, f"{name}.arrow", pa.table([left, right], schema=PAIR), left * blocks // max(rows.count, 1), blocks)
    return {"read": len(table), "candidates": len(left), "left_out": left_out}


def _in_company(keys: np.ndarray) -> np.ndarray:
    """Which keys occur more than once."""
    order = np.argsort(keys, kind="stable")
    again = np.zeros(len(keys) + 1, bool)
    again[1:-1] = keys[order][1:] == keys[order][:-1]
    shared = np.zeros(len(keys), bool)
    shared[order] = again[1:] | again[:-1]
    return shared


def _once(pairs: np.ndarray) -> np.ndarray:
    """Distinct columns of (2, pairs), sorted."""
    pairs = pairs[:, np.lexsort((pairs[1], pairs[0]))]
    fresh = np.ones(pairs.shape[1], bool)
    fresh[1:] = (np.diff(pairs, axis=1) != 0).any(axis=0)
    return pairs[:, fresh]


def thin_pairs(out: Output, name: str, files: Sequence[str], block: int, rows: Rows, signatures: Sequence[str], thin: bool) -> Counts:
    """Pairs of a block of left documents, each once, without those whose signatures hardly agree."""
    table = gather(files, block)
    left, right = _once(np.stack([table["left"].to_numpy(), table["right"].to_numpy()]))
    if thin:
        stays = _agreement(signatures, rows, left, right) >= AGREEMENT
        left, right = left[stays], right[stays]
    pairs = pa.table([left, right], schema=PAIR)
    out.arrow(f"pairs.{name}.arrow", pairs.to_batches(), PAIR)
    needed = np.unique(np.concatenate([left, right]))
    scatter(out, f"needed.{name}.arrow", pa.table({"document": needed}), rows.shard_of(needed), len(rows.shards))
    return {"candidates": len(table), "pairs": len(left)}


def _agreement(urls: Sequence[str], rows: Rows, left: np.ndarray, right: np.ndarray, block: int = 1 << 16) -> np.ndarray:
    """Share of equal minima of each pair, a block at a time: float64 (pairs,)"""
    arrays = [open_npy(url) for url in urls]
    share = np.empty(len(left))
    for start in range(0, len(left), block):
        part = slice(start, start + block)
        share[part] = agreement(_minima(arrays, rows, left[part]), _minima(arrays, rows, right[part]))
    return share


def _minima(arrays: Sequence[np.ndarray], rows: Rows, documents: np.ndarray) -> np.ndarray:
    """Signatures of documents, uint32 (documents, MINIMA)"""
    minima = np.empty((len(documents), MINIMA), np.uint32)
    owner = rows.shard_of(documents)
    for number in np.unique(owner):
        here = owner == number
        minima[here] = arrays[number][documents[here] - rows.firsts[number]]
    return minima


# Verification on full shingle sets.

def _shingles(work: Work, rows: Rows, documents: Table, signed: Sequence[Table], pairs: Folder) -> Folder:
    """Sorted shingle sets of the documents that stand in pairs: `SHARD.{documents,offsets,values}.npy`."""
    needed = tuple(pairs.file(name) for name in pairs.files if name.startswith("needed."))
    by_name = {shard.name: shard for shard in shards(documents, *signed)}
    step = Step("dedup.shingles", VERSION, {}, (pairs.fingerprint,))
    return work.do(step, [Task(_flat(name), shingle_shard, {"shard": by_name[name], "needed": needed, "number": number, "first": first})
                          for number, (name, first) in enumerate(zip(rows.shards, rows.firsts))])


def shingle_shard(out: Output, shard: Shard, needed: Sequence[str], number: int, first: int) -> Counts:
    wanted = np.unique(gather(needed, number)["document"].to_numpy())
    name = _flat(shard.name)
    pieces = [_shingles_of(texts) for texts in cut(shard.read(("text",))["text"].take(pa.array(wanted - first)), BATCH_BYTES)] if len(wanted) else []
    sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(offsets) for _, offsets in pieces)])
    out.npy(f"{name}.documents.npy", wanted)
    out.npy(f"{name}.offsets.npy", np.cumsum(sizes))
    out.npy(f"{name}.values.npy", np.concatenate([np.zeros(0, np.uint64), *(values for values, _ in pieces)]))
    return {"read": len(wanted)}


def _shingles_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    tokens = tokenize(*buffers(nfc(texts)))
    return shingles(tokens.hashes, tokens.offsets)


def _by_shard(rows: Rows, sets: Folder) -> tuple[tuple[str, str, str], ...]:
    return tuple(tuple(sets.file(f"{_flat(shard)}.{part}.npy") for part in ("documents", "offsets", "values")) for shard in rows.shards)


def verify(out: Output, name: str, pairs: str, sets: Sequence[tuple[str, str, str]], rows: Rows, floor: float,
           containment: float | None) -> Counts:
    """Edges: pairs of exact Jaccard `floor` or more, or of `containment`; `unverified.*`: documents too long to compare."""
    table = open_arrow(pairs).read_all()
    left, right = table["left"].to_numpy(), table["right"].to_numpy()
    shelf = _Sets(sets, rows)
    long = np.maximum(shelf.sizes(left), shelf.sizes(right)) > MOST_SHINGLES
    edges = [EDGE.empty_table()]
    for block in _blocks(shelf, left[~long], right[~long]):
        edge = shelf.compare(*block)
        stays = pc.greater_equal(edge["jaccard"], floor)
        edges.append(edge.filter(stays if containment is None else pc.or_(stays, pc.greater_equal(edge["containment"], containment))))
    found = pa.concat_tables(edges).combine_chunks()
    out.arrow(f"edges.{name}", found.to_batches(), EDGE)
    giants = np.unique(np.concatenate([left[long], right[long]]))
    out.npy(f"unverified.{name.removesuffix('.arrow')}.npy", giants[shelf.sizes(giants) > MOST_SHINGLES])
    return {"verified": int((~long).sum()), "unverified": int(long.sum()), "edges": len(found)}


def _blocks(shelf: _Sets, left: np.ndarray, right: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Neighbouring pairs with about BLOCK_SHINGLES shingles together."""
    number = np.cumsum(shelf.sizes(left) + shelf.sizes(right)) // BLOCK_SHINGLES
    cuts = np.flatnonzero(np.diff(number)) + 1
    return list(zip(np.split(left, cuts), np.split(right, cuts)))


class _Sets:
    """Shingle sets of documents in pairs, read from every shard's file as they are needed."""

    def __init__(self, sets: Sequence[tuple[str, str, str]], rows: Rows) -> None:
        self.rows = rows
        self.documents, self.offsets, self.values = ([open_npy(urls[part]) for urls in sets] for part in range(3))

    def sizes(self, documents: np.ndarray) -> np.ndarray:
        """Shingles of each document, int64 (documents,)"""
        size = np.zeros(len(documents), np.int64)
        for shard, here, place in self._places(documents):
            size[here] = np.diff(self.offsets[shard])[place]
        return size

    def compare(self, left: np.ndarray, right: np.ndarray) -> pa.Table:
        documents, at = np.unique(np.concatenate([left, right]), return_inverse=True)
        pieces = [self.values[shard][self.offsets[shard][place]:self.offsets[shard][place + 1]]
                  for shard, _, places in self._places(documents) for place in places]
        values = np.concatenate([np.zeros(0, np.uint64), *pieces])
        offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
        pair = (values, offsets, at[:len(left)], at[len(left):])
        return pa.table([left, right, jaccard_pairs(*pair), containment_pairs(*pair)], schema=EDGE)

    def _places(self, documents: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """For every shard that holds some of them: its number, which of `documents`, and their places in its file."""
        owner = self.rows.shard_of(documents)
        found = [(int(shard), np.flatnonzero(owner == shard)) for shard in np.unique(owner)]
        return [(shard, here, np.searchsorted(self.documents[shard], documents[here])) for shard, here in found]


def _flat(shard: str) -> str:
    """A shard's name as a file name in one folder; source names have no `/`, and `//` stands in none."""
    return shard.replace("/", "..")
