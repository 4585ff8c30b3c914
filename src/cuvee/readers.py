"""Readers of a stream for training loops: `Dataset` for torch's DataLoader, `Batches` for JAX and plain numpy.

Both give *global batches* of `batch` elements, one after another, of which a host (a rank, a process) reads its part:
host h of n reads the h-th of n equal runs of elements. So the global batch is the same on any number of hosts, and its
rows stand in the order in which `jax.make_array_from_process_local_data` joins them. A checkpoint is one integer, the
`position` of the next global batch; a reader that starts there, with any batch and any number of hosts, goes on as if
nothing had happened. Neither torch nor jax is imported here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from cuvee.errors import UsageError
from cuvee.steps.stream import Stream

__all__ = ["Batches", "Dataset", "Stream"]

Shard = tuple[int, int]  # host, hosts


class _Part(NamedTuple):
    """A host's part of every global batch: elements first to first + count - 1 of its `batch`."""

    batch: int
    first: int
    count: int


def _part(batch: int, shard: Shard, start: int) -> _Part:
    if not isinstance(start, (int, np.integer)) or start < 0:
        raise UsageError(f"start {start}: a reader starts at an element, a whole number from 0 on; `position` is one.")
    host, hosts = shard
    if batch < 1 or not 0 <= host < hosts or batch % hosts:
        raise UsageError(f"batch {batch}, shard ({host}, {hosts}): a global batch is shared evenly by hosts numbered from 0. "
                         f"Take a batch that {max(hosts, 1)} divides.")
    return _Part(batch, host * (batch // hosts), batch // hosts)


class Dataset:
    """A map-style dataset: what one host reads of the stream's elements start to stop - 1, in the order of training.

    `DataLoader(dataset, batch_size=batch // hosts)` without shuffling gives its part of one global batch after another.
    It is pickled for worker processes; each maps the files anew. The elements after the last whole batch are left out.
    """

    def __init__(self, stream: Stream, batch: int = 1, start: int = 0, stop: int | None = None, shard: Shard = (0, 1)) -> None:
        """stop: the end of the budget where none is given"""
        self.stream, self.start = stream, start
        self._part = _part(batch, shard, start)
        self._batches = max(0, (len(stream) if stop is None else stop) - start) // batch

    def __len__(self) -> int:
        return self._batches * self._part.count

    def __getitem__(self, i: int) -> np.ndarray:
        """int32 (seq_len + 1,)"""
        return self.__getitems__([i])[0]

    def __getitems__(self, indices: Sequence[int]) -> np.ndarray:
        """Rows at several places at once, int32 (many, seq_len + 1): the loader asks so for a batch."""
        i = np.asarray(indices, np.int64)
        if i.size and not -len(self) <= i.min() <= i.max() < len(self):
            raise IndexError(f"places must lie in [0, {len(self)}); got {i.min()} to {i.max()}.")
        number, inside = np.divmod(i % max(len(self), 1), self._part.count)
        return self.stream.gather(self.start + number * self._part.batch + self._part.first + inside)

    def position(self, batches: int) -> int:
        """The checkpoint after so many batches: `start` of the reader that goes on."""
        return self.start + batches * self._part.batch


class Batches:
    """An iterator of batches, int32 (batch // hosts, seq_len + 1), from `start` on; without `stop` it has no end.

    `position` is the checkpoint after the batches that were given out, whatever stands ready. `ahead` batches are read
    beforehand on a thread; 0 reads when asked.
    """

    def __init__(self, stream: Stream, batch: int, start: int = 0, stop: int | None = None, shard: Shard = (0, 1), ahead: int = 2) -> None:
        self.stream, self.position, self.stop = stream, start, stop
        self._part, self._ahead = _part(batch, shard, start), ahead
        if ahead < 0:
            raise UsageError(f"ahead {ahead}: batches that are read beforehand, 0 or more.")
        self._waiting: deque[Future[np.ndarray]] = deque()
        self._thread = ThreadPoolExecutor(1, "batches") if ahead else None

    def __iter__(self) -> Iterator[np.ndarray]:
        return self

    def __next__(self) -> np.ndarray:
        if not self._there_is(0):
            raise StopIteration
        rows = self._read(self.position) if self._thread is None else self._read_ahead(self._thread)
        self.position += self._part.batch
        return rows

    def _read_ahead(self, thread: ThreadPoolExecutor) -> np.ndarray:
        while len(self._waiting) <= self._ahead and self._there_is(len(self._waiting)):
            self._waiting.append(thread.submit(self._read, self.position + len(self._waiting) * self._part.batch))
        return self._waiting.popleft().result()

    def _there_is(self, number: int) -> bool:
        """Whether a batch comes so many places after the next one."""
        return self.stop is None or self.position + (number + 1) * self._part.batch <= self.stop

    def _read(self, position: int) -> np.ndarray:
        return self.stream.take(position + self._part.first, self._part.count)
