"""Copies: documents of one token sequence, or of one id where there is no token, collapse to a leader.

They collapse before banding, so no bound on a band group can lose a copy. The leader is the first in an intrinsic order
(longer text, smaller id, place), so that a new priority re-runs nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.shuffle import gather, scatter
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, read_table
from cuvee.steps.duplicates.rows import Rows, flat, id_halves, intrinsic_rank, partition_of, partitions

VERSION = 1

SEQUENCE = pa.schema([("key_0", pa.uint64()), ("key_1", pa.uint64()), ("rank", pa.uint64()), ("document", pa.int64())])
MEMBER = pa.schema([("document", pa.int64()), ("leader", pa.int64())])


def collapse(work: Work, rows: Rows, signatures: Table) -> Folder:
    """Per partition a file of MEMBER rows, by shard: the documents that are not their own leader."""
    count = partitions(rows.count)
    moved = work.do(Step("dedup.scatter", VERSION, {"partitions": count}, (signatures.fingerprint,)), [
        Task(flat(shard), scatter_sequences, {"name": flat(shard), "url": url, "first": first, "count": count})
        for shard, url, first in zip(rows.shards, rows.urls, rows.firsts)])
    files = tuple(moved.file(f"{flat(shard)}.arrow") for shard in rows.shards)
    return work.do(Step("dedup.groups", VERSION, {}, (moved.fingerprint,)), [
        Task(f"{number:05d}", collapse_partition, {"name": f"{number:05d}", "files": files, "partition": number, "rows": rows})
        for number in range(count)])


def scatter_sequences(out: Output, name: str, url: str, first: int, count: int) -> Counts:
    table = read_table(url, ["id", "bytes", "tokens", "sequence_0", "sequence_1"])
    high, low = id_halves(table["id"])
    silent = table["tokens"].to_numpy() == 0
    key_0 = np.where(silent, high, table["sequence_0"].to_numpy())
    key_1 = np.where(silent, low, table["sequence_1"].to_numpy())
    columns = [key_0, key_1, intrinsic_rank(table["bytes"].to_numpy(), high), first + np.arange(len(table))]
    scatter(out, f"{name}.arrow", pa.table(columns, schema=SEQUENCE), partition_of(key_0, count), count)
    return {"read": len(table)}


def collapse_partition(out: Output, name: str, files: Sequence[str], partition: int, rows: Rows) -> Counts:
    """Leader of each group: the first in intrinsic order. Only documents with another leader are written, by shard."""
    table = gather(files, partition)
    key_0, key_1, rank, document = (table[each].to_numpy() for each in SEQUENCE.names)
    order = np.lexsort((document, rank, key_1, key_0))
    key_0, key_1, document = key_0[order], key_1[order], document[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (key_0[1:] != key_0[:-1]) | (key_1[1:] != key_1[:-1])
    follower = document[~fresh]
    leader = document[fresh][np.cumsum(fresh) - 1][~fresh]
    scatter(out, f"{name}.arrow", pa.table([follower, leader], schema=MEMBER), rows.shard_of(follower), len(rows.shards))
    return {"read": len(order), "groups": int(fresh.sum())}
