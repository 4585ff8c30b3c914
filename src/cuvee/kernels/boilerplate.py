"""Which features are boilerplate: many texts hold them, and few of those hold what else their items say."""

from __future__ import annotations

import numpy as np
from numba import njit

MIN_TEXTS, MIN_SOURCES = 50, 3  # distinct texts and sources that hold a feature
MAX_SHARE = 10  # 1 / share of those texts that may hold half of an item's other features too
MIN_FEATURES = 3  # of an item: with fewer it says nothing about one of them


def support(texts: np.ndarray, features: np.ndarray, starts: np.ndarray, items: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many texts hold each feature, and of these, half or more of the other features of each of its items.

    texts, features: (pairs,), distinct pairs sorted by text; starts: (features + 1,), items: (entries,), the items of
    each feature; sizes: (items,), distinct features of each item  ->  int64 (features,), int64 (entries,)
    """
    held, supported = np.zeros(len(starts) - 1, np.int64), np.zeros(len(items), np.int64)
    _support(texts, features, starts, items, sizes, held, supported)
    return held, supported


@njit(cache=True, nogil=True)
def _support(texts, features, starts, items, sizes, held, supported):
    seen = np.zeros(sizes.size, np.int64)
    begin = 0
    while begin < texts.size:
        end = begin
        while end < texts.size and texts[end] == texts[begin]:
            held[features[end]] += 1
            for entry in range(starts[features[end]], starts[features[end] + 1]):
                seen[items[entry]] += 1
            end += 1
        for pair in range(begin, end):
            for entry in range(starts[features[pair]], starts[features[pair] + 1]):
                supported[entry] += 2 * (seen[items[entry]] - 1) >= sizes[items[entry]] - 1
        for pair in range(begin, end):
            for entry in range(starts[features[pair]], starts[features[pair] + 1]):
                seen[items[entry]] = 0
        begin = end


def set_aside(held: np.ndarray, sources: np.ndarray, supported: np.ndarray, starts: np.ndarray, items: np.ndarray,
              sizes: np.ndarray) -> np.ndarray:
    """Features that are boilerplate for every item that holds them -> bool (features,)

    An item of fewer than MIN_FEATURES, one matched whole among them, lets none of its features be set aside.
    sources: (features,), distinct sources that hold each; the others as in `support`
    """
    feature = np.repeat(np.arange(len(held)), np.diff(starts))
    passes = (supported * MAX_SHARE >= held[feature]) | (sizes[items] < MIN_FEATURES)
    stays = np.bincount(feature[passes], minlength=len(held)) > 0
    return (held >= MIN_TEXTS) & (sources >= MIN_SOURCES) & ~stays


def distinct(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs, sorted by first, then second."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.ones(len(first), bool)
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return first[new], second[new]
