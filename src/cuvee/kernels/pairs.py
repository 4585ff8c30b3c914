"""Which rows of a band group are compared, and which documents the similar pairs let stand.

Both work on priority order, so that their answer does not hang on the order of files or of workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

SMALL = 64  # rows; a group up to this size gives all its pairs
FIRST = 16  # in a larger group every row meets so many rows of highest priority,
NEAR = 16  # and so many before it in the order of signatures
BLOCK = 1 << 18  # rows whose pairs are made at a time: at most 63 pairs each (264 MB), mostly one or two


class Candidates(NamedTuple):
    """Pairs to verify: positions of rows, `left` before `right` in priority order, no pair twice in a group."""

    left: np.ndarray  # int64 (pairs,)
    right: np.ndarray  # int64 (pairs,)
    left_out: int  # pairs of the groups that are not among them


def group_offsets(keys: np.ndarray) -> np.ndarray:
    """Where the groups of equal neighbours start, and the end: (rows,) -> int64 (groups + 1,)"""
    starts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    return np.concatenate([[0], starts, [keys.size] if keys.size else []]).astype(np.int64)


def group_pairs(sort_keys: np.ndarray) -> Candidates:
    """Candidates of one band group whose rows stand in priority order: see `candidate_pairs`."""
    return candidate_pairs(np.array([0, sort_keys.size], np.int64), sort_keys)


def candidate_pairs(groups: np.ndarray, sort_keys: np.ndarray) -> Candidates:
    """Candidates of many band groups, one after another, each with its rows in priority order.

    A group of up to `SMALL` rows gives all pairs. In a larger one each row meets the `FIRST` rows and the `NEAR` rows
    before it when the group is sorted by (sort key, priority): pairs grow with rows, not with their square.
    groups: int64 (groups + 1,), sort_keys: uint64 (rows,), as `minhash.sort_keys` gives for the group's band
    """
    blocks = list(candidate_blocks(groups, sort_keys, max(1, sort_keys.size)))
    return blocks[0] if blocks else Candidates(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)


def candidate_blocks(groups: np.ndarray, sort_keys: np.ndarray, rows: int = BLOCK) -> Iterator[Candidates]:
    """The same pairs in blocks of so many rows, for groups whose pairs do not fit in memory together.

    Only the sum of the blocks' `left_out` has a meaning.
    """
    if groups[-1] != sort_keys.size:
        raise ValueError(f"groups must end at the number of rows; got {groups[-1]} for {sort_keys.size} sort keys. "
                         "Make them by group_offsets(band keys of the same rows).")
    order = _order_in_groups(groups, sort_keys)
    for start in range(0, sort_keys.size, rows):
        left, right, left_out = _pairs_of_rows(groups, order, start, min(start + rows, sort_keys.size))
        yield Candidates(left, right, left_out)


def _order_in_groups(groups: np.ndarray, sort_keys: np.ndarray) -> np.ndarray:
    """Rows of each large group by (sort key, priority), row positions; small groups stay as they are -> int64 (rows,)"""
    order, sizes = np.arange(sort_keys.size), np.diff(groups)
    for group in np.flatnonzero(sizes > SMALL):
        start, end = groups[group], groups[group + 1]
        order[start:end] = start + np.argsort(sort_keys[start:end], kind="stable")
    return order


@njit(cache=True, nogil=True)
def _pairs_of_rows(groups, order, start, end):
    """The pairs that rows start..end bring in: each with earlier ones -> left, right, pairs left out"""
    first = np.searchsorted(groups, start, side="right") - 1
    room = 0
    for group in range(first, groups.size - 1):
        base, stop = groups[group], groups[group + 1]
        for row in range(max(start, base), min(end, stop)):
            room += row - base if stop - base <= SMALL else min(row - base, FIRST) + min(row - base, NEAR)
        if stop >= end:
            break
    left, right = np.empty(room, np.int64), np.empty(room, np.int64)
    count, possible = 0, 0
    for group in range(first, groups.size - 1):
        base, stop = groups[group], groups[group + 1]
        for row in range(max(start, base), min(end, stop)):
            possible += row - base
            if stop - base <= SMALL:
                count = _join(row, base, row, left, right, count)
            else:
                count = _join(row, base, min(row, base + FIRST), left, right, count)
                count = _join_near(order, base, row, left, right, count)
        if stop >= end:
            break
    return left[:count], right[:count], possible - count


@njit(cache=True, nogil=True)
def _join(row, first, last, left, right, count):
    for other in range(first, last):
        left[count], right[count] = other, row
        count += 1
    return count


@njit(cache=True, nogil=True)
def _join_near(order, base, place, left, right, count):
    """Pair the row at `place` of the signature order with those just before it, but for the `FIRST`: all know these."""
    for before in range(max(base, place - NEAR), place):
        a, b = min(order[before], order[place]), max(order[before], order[place])
        if a >= base + FIRST:
            left[count], right[count] = a, b
            count += 1
    return count


def decide(order: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Lexicographically first maximal independent set: in priority order, drop whoever has an earlier kept neighbour.

    order: int64 (documents,), every document once, highest priority first; left, right: int64 (edges,) documents
    -> kept_by int64 (documents,): the earliest kept neighbour in priority order, -1 where the document is kept
    """
    rank = np.full(order.size, -1, np.int64)
    rank[order] = np.arange(order.size)
    if (rank < 0).any():
        raise ValueError(f"order must hold every document once; {int((rank < 0).sum())} of {order.size} are missing, "
                         f"the first is {int(np.argmin(rank))}. Sort all documents by priority.")
    for side in (left, right):
        if side.size and not 0 <= side.min() <= side.max() < order.size:
            raise ValueError(f"edges must join documents 0 to {order.size - 1}; got {side.min()} to {side.max()}. "
                             "Number edges as the documents in order.")
    if (left == right).any():
        raise ValueError(f"edges must join two documents; got document {int(left[np.argmax(left == right)])} with "
                         "itself. Leave such edges out.")
    keeper = _sweep(rank[left], rank[right], order.size)
    kept_by = np.full(order.size, -1, np.int64)
    dropped = keeper >= 0
    kept_by[order[dropped]] = order[keeper[dropped]]
    return kept_by


@njit(cache=True, nogil=True)
def _sweep(left, right, documents):
    """Edges by rank -> rank of each rank's keeper, or -1: int64 (documents,)"""
    starts = np.zeros(documents + 1, np.int64)
    for edge in range(left.size):
        starts[max(left[edge], right[edge]) + 1] += 1
    starts = np.cumsum(starts)
    earlier, filled = np.empty(left.size, np.int64), starts[:-1].copy()
    for edge in range(left.size):
        later = max(left[edge], right[edge])
        earlier[filled[later]] = min(left[edge], right[edge])
        filled[later] += 1
    keeper = np.full(documents, -1, np.int64)
    for rank in range(documents):
        for neighbour in earlier[starts[rank] : starts[rank + 1]]:
            if keeper[neighbour] < 0 and (keeper[rank] < 0 or neighbour < keeper[rank]):
                keeper[rank] = neighbour
    return keeper
