"""Map -> partition -> reduce in files: a map task writes one file sorted by partition, a reduce task reads its part of all.

The file is Arrow IPC with one record batch per partition, so its footer is the offset index.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cuvee.engine.store import Output, open_arrow


def scatter(out: Output, name: str, table: pa.Table, partition: np.ndarray, partitions: int) -> None:
    """Write the rows of `table` to file `name`, grouped by `partition` (rows,) in [0, partitions), order kept inside."""
    order = np.argsort(partition, kind="stable")
    ends = np.searchsorted(partition[order], np.arange(partitions), side="right")
    grouped = table.take(pa.array(order)).combine_chunks()
    starts = np.concatenate([[0], ends[:-1]])
    batches = [_one_batch(grouped.slice(start, end - start)) for start, end in zip(starts, ends)]
    out.arrow(name, batches, table.schema)


def gather(urls: Sequence[str], partition: int) -> pa.Table:
    """Rows of one partition from every map file, in the order of `urls`."""
    return pa.Table.from_batches([open_arrow(url).get_batch(partition) for url in urls])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
