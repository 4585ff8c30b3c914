"""Shingles: 64-bit hashes of n tokens in a row; the set of a document's shingles is what similarity is measured on.

Also the 128-bit identity of a whole token sequence, by which documents that differ only in case, spacing and
punctuation are found.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit

from cuvee.kernels.words import MIX_1, MIX_2, STEP, finish

WIDTH = 5  # tokens in a shingle


def shingles(hashes: np.ndarray, offsets: np.ndarray, n: int = WIDTH) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct shingles of each document.

    A document of fewer than n tokens has one shingle of them all, one without tokens none.
    hashes: uint64 (tokens,), offsets: int64 (documents + 1,)  ->  uint64 (shingles,), int64 (documents + 1,)
    """
    values, cuts = shingles_in_order(hashes, offsets, n)
    for start, end in pairwise(cuts.tolist()):  # numpy sorts uint64 several times faster than compiled numba does
        values[start:end].sort()
    return _distinct(values, cuts)


def sequence_hash(hashes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Identity of each document's whole token sequence -> uint64 (documents, 2); (0, 0) where there is no token

    128 bits: among 1e10 documents two different sequences meet with probability 1.5e-19.
    """
    return _sequence_hash(hashes, offsets)


def jaccard(a: np.ndarray, b: np.ndarray) -> float:
    """Shared over all shingles of two sorted distinct arrays; 0 if both are empty."""
    shared = _shared(a, b)
    return shared / max(1, a.size + b.size - shared)


def jaccard_pairs(values: np.ndarray, offsets: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`jaccard` of documents left[i] and right[i], values and offsets as `shingles` gives them -> float64 (pairs,)"""
    shared, sizes = shared_pairs(values, offsets, left, right), np.diff(offsets)
    return shared / np.maximum(1, sizes[left] + sizes[right] - shared)


def containment_pairs(values: np.ndarray, offsets: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Shared over the smaller document's shingles; 0 if that is empty -> float64 (pairs,)"""
    shared, sizes = shared_pairs(values, offsets, left, right), np.diff(offsets)
    return shared / np.maximum(1, np.minimum(sizes[left], sizes[right]))


@njit(cache=True, nogil=True)
def shared_pairs(values, offsets, left, right):
    """Shingles that documents left[i] and right[i] have in common -> int64 (pairs,)"""
    shared = np.empty(left.size, np.int64)
    for pair in range(left.size):
        a, b = left[pair], right[pair]
        shared[pair] = _shared(values[offsets[a] : offsets[a + 1]], values[offsets[b] : offsets[b + 1]])
    return shared


@njit(cache=True, nogil=True)
def _shared(a, b):
    """Merge without a branch on the values: which side moves is as random as the shingles."""
    shared, i, j = 0, 0, 0
    while i < a.size and j < b.size:
        x, y = a[i], b[j]
        shared += x == y
        i += x <= y
        j += y <= x
    return shared


@njit(cache=True, nogil=True)
def shingles_in_order(hashes, offsets, n):
    """Shingles in text order, repeats and all -> uint64 (shingles,), int64 (documents + 1,)"""
    cuts = np.zeros(offsets.size, np.int64)
    for document in range(offsets.size - 1):
        size = offsets[document + 1] - offsets[document]
        cuts[document + 1] = cuts[document] + max(size - n + 1, min(size, 1))
    values = np.empty(cuts[-1], np.uint64)
    for document in range(offsets.size - 1):
        tokens = hashes[offsets[document] : offsets[document + 1]]
        write_shingles(tokens, n, values[cuts[document] : cuts[document + 1]])
    return values, cuts


@njit(cache=True, nogil=True)
def write_shingles(hashes, n, out):
    """Write the shingles of `hashes`; out.size is 1 where there are at most n tokens, else tokens - n + 1."""
    width = min(n, hashes.size)
    out[:] = np.uint64(width)
    for place in range(width):
        window = hashes[place : place + out.size]
        for shingle in range(out.size):
            out[shingle] = out[shingle] * STEP + window[shingle]
    for shingle in range(out.size):
        out[shingle] = finish(out[shingle])


@njit(cache=True, nogil=True)
def _distinct(values, offsets):
    """Squeeze repeats out of each document's sorted values."""
    kept, cuts = 0, np.zeros(offsets.size, np.int64)
    for document in range(offsets.size - 1):
        for place in range(offsets[document], offsets[document + 1]):
            if place == offsets[document] or values[place] != values[kept - 1]:
                values[kept] = values[place]
                kept += 1
        cuts[document + 1] = kept
    return values[:kept], cuts


@njit(cache=True, nogil=True)
def _sequence_hash(hashes, offsets):
    identity = np.zeros((offsets.size - 1, 2), np.uint64)
    for document in range(offsets.size - 1):
        absorb_all(identity[document], hashes[offsets[document] : offsets[document + 1]])
    return identity


@njit(cache=True, nogil=True)
def absorb_all(identity, hashes):
    """Take further tokens into a sequence's identity, uint64 (2,), in place; it starts as zeros."""
    first, second = identity
    for token in hashes:
        first = absorb(first, token, MIX_1)
        second = absorb(second, token, MIX_2)
    identity[0], identity[1] = first, second


@njit(cache=True, nogil=True)
def absorb(state, value, factor):
    """One step of a hash over a sequence; one to one in `state` and in `value`."""
    state = (state ^ value) * factor
    return state ^ (state >> np.uint64(32))
