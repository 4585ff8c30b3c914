"""Candidate pairs: documents that share a band key, without those whose signatures hardly agree.

LSH only retrieves: what is found here is verified by edges.py. All orders are intrinsic, as in sequences.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cuvee.config import Dedup
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.shuffle import gather, scatter
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_npy, read_table
from cuvee.kernels.minhash import BANDS, MINIMA, agreement_pairs, band_keys, sort_keys
from cuvee.kernels.pairs import candidate_blocks, group_offsets
from cuvee.kernels.shingles import WIDTH
from cuvee.steps.duplicates.rows import Rows, blocks, flat, id_halves, in_company, intrinsic_rank, partition_of, partitions

VERSION = 1
FLOOR = 0.65      # Jaccard from which an edge is stored: a threshold above it re-runs no pair
AGREEMENT = 0.55  # share of equal minima under which a pair is not verified ...
MARGIN = 0.1      # ... and how far under a low threshold that is: 2.5 standard errors at .65
BLOCK = 1 << 16   # pairs whose signatures are held at a time: 73 MB at most
SIDE, FAR = np.uint64(32), np.uint64(40)  # bits of the right side where a pair is one number

BAND = pa.schema([("key", pa.uint64()), ("rank", pa.uint64()), ("sort", pa.uint64()), ("document", pa.int64())])
PAIR = pa.schema([("left", pa.int64()), ("right", pa.int64())])


def floor(config: Dedup) -> float:
    """Jaccard from which an edge is stored."""
    return min(FLOOR, config.threshold)


def run(work: Work, config: Dedup, rows: Rows, signatures: Table, groups: Folder) -> Folder:
    """`pairs.N.arrow`: pairs to verify, each once; `needed.N.arrow`: their documents, by shard."""
    found = _found(work, rows, groups, _banded(work, config, rows, signatures, groups))
    least = min(AGREEMENT, config.threshold - MARGIN) if config.containment is None else None  # an excerpt agrees in few minima
    files = tuple(found.file(name) for name in found.files)
    return work.do(Step("dedup.pairs", VERSION, {"agreement": least}, (found.fingerprint, signatures.fingerprint)), [
        Task(f"{number:05d}", thin_pairs, {"name": f"{number:05d}", "files": files, "block": number, "rows": rows, "least": least})
        for number in range(blocks(rows))])


def _banded(work: Work, config: Dedup, rows: Rows, signatures: Table, groups: Folder) -> Folder:
    settings = {"partitions": partitions(groups.counts["groups"] * BANDS), "longest": config.max_shingles + WIDTH - 1}
    args = {"members": tuple(groups.file(name) for name in groups.files), **settings}
    return work.do(Step("dedup.bands", VERSION, settings, (signatures.fingerprint, groups.fingerprint)), [
        Task(flat(shard), band_shard, {"name": flat(shard), "url": url, "first": first, "shard": number, **args})
        for number, (shard, url, first) in enumerate(zip(rows.shards, rows.urls, rows.firsts))])


def _found(work: Work, rows: Rows, groups: Folder, banded: Folder) -> Folder:
    files = tuple(banded.file(f"{flat(shard)}.arrow") for shard in rows.shards)
    count = blocks(rows)
    return work.do(Step("dedup.candidates", VERSION, {"blocks": count}, (banded.fingerprint,)), [
        Task(f"{number:05d}", pair_partition, {"name": f"{number:05d}", "files": files, "partition": number, "rows": rows, "blocks": count})
        for number in range(partitions(groups.counts["groups"] * BANDS))])


def signatures_of(url: str) -> np.ndarray:
    """The signatures beside a record.SIGN table, uint32 (rows, MINIMA); mapped, so only what is touched is read."""
    return np.asarray(open_npy(url.removesuffix(".parquet") + ".signatures.npy"))


def band_shard(out: Output, name: str, url: str, first: int, members: Sequence[str], shard: int, partitions: int, longest: int) -> Counts:
    """Band keys, BANDS rows each, of the leaders of 1 to `longest` tokens."""
    table = read_table(url, ["id", "bytes", "tokens"])
    tokens = table["tokens"].to_numpy()
    leads = (tokens > 0) & (tokens <= longest)
    leads[gather(members, shard)["document"].to_numpy() - first] = False
    places = np.flatnonzero(leads)
    minima = signatures_of(url)[places]
    rank = intrinsic_rank(table["bytes"].to_numpy(), id_halves(table["id"])[0])[places]
    keys = band_keys(minima).ravel()
    columns = [keys, np.repeat(rank, BANDS), sort_keys(minima).ravel(), np.repeat(first + places, BANDS)]
    scatter(out, f"{name}.arrow", pa.table(columns, schema=BAND), partition_of(keys, partitions), partitions)
    return {"read": len(places), "too_long": int((tokens > longest).sum())}


def pair_partition(out: Output, name: str, files: Sequence[str], partition: int, rows: Rows, blocks: int) -> Counts:
    """Pairs of every band group of a partition, by the block of documents that the left one stands in."""
    table = gather(files, partition)
    key, rank, sort, document = (table[each].to_numpy() for each in BAND.names)
    shared = in_company(key)
    key, rank, sort, document = key[shared], rank[shared], sort[shared], document[shared]
    order = np.lexsort((document, rank, key))
    known, document = np.unique(document[order], return_inverse=True)  # under 2^32 of them: a pair is one number
    found, left_out = [np.zeros(0, np.uint64)], 0
    for block in candidate_blocks(group_offsets(key[order]), sort[order]):
        left_out += block.left_out
        found.append(_joined(document[block.left], document[block.right]))
    pairs = _distinct(np.concatenate(found))
    left, right = known[pairs >> SIDE], known[pairs & np.uint64(2**32 - 1)]
    scatter(out, f"{name}.arrow", pa.table([left, right], schema=PAIR), left * blocks // max(rows.count, 1), blocks)
    return {"read": len(table), "candidates": len(pairs), "left_out": left_out}


def _joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pairs as one number each, distinct and sorted, the smaller side above: uint64 (pairs,)"""
    return _distinct(np.minimum(a, b).astype(np.uint64) << SIDE | np.maximum(a, b).astype(np.uint64))


def _distinct(values: np.ndarray) -> np.ndarray:
    """Sorts in place; ten times as fast as numpy's own `unique`, which hashes."""
    values.sort()
    return values[np.append(True, values[1:] != values[:-1])[:len(values)]]


def thin_pairs(out: Output, name: str, files: Sequence[str], block: int, rows: Rows, least: float | None) -> Counts:
    """Pairs of a block of left documents, each once, without those whose signatures agree in under `least`."""
    table = gather(files, block)
    left, right = _once(table["left"].to_numpy(), table["right"].to_numpy())
    if least is not None:
        stays = _agreement(rows, left, right) >= least
        left, right = left[stays], right[stays]
    out.arrow(f"pairs.{name}.arrow", pa.table([left, right], schema=PAIR).to_batches(), PAIR)
    needed = np.unique(np.concatenate([left, right]))
    scatter(out, f"needed.{name}.arrow", pa.table({"document": needed}), rows.shard_of(needed), len(rows.shards))
    return {"candidates": len(table), "pairs": len(left)}


def _once(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs, sorted. left: documents of one block, less than 2^24 apart; right: below 2^40"""
    base = left.min() if len(left) else 0
    pairs = _distinct((left - base).astype(np.uint64) << FAR | right.astype(np.uint64))
    return (pairs >> FAR).astype(np.int64) + base, (pairs & np.uint64(2**40 - 1)).astype(np.int64)


def _agreement(rows: Rows, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Share of equal minima of each pair, a block at a time: float64 (pairs,)"""
    share = np.empty(len(left))
    for start in range(0, len(left), BLOCK):
        part = slice(start, start + BLOCK)
        documents, at = np.unique(np.concatenate([left[part], right[part]]), return_inverse=True)
        share[part] = agreement_pairs(_minima(rows, documents), *np.split(at, 2))
    return share


def _minima(rows: Rows, documents: np.ndarray) -> np.ndarray:
    """Signatures of documents, uint32 (documents, MINIMA); one shard is mapped at a time, for mapped pages count as memory."""
    minima = np.empty((len(documents), MINIMA), np.uint32)
    for shard, here, row in rows.by_shard(documents):
        minima[here] = signatures_of(rows.urls[shard])[row]
    return minima
