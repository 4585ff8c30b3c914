"""Which features are boilerplate: many texts hold them, and few of those hold what else their items say.

A *unit* is what a text must hold of an item for a feature of it to be more than boilerplate: half of the item, or one
of its strings whole.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MIN_TEXTS, MIN_SOURCES = 50, 3  # distinct texts and sources that hold a feature
MAX_SHARE = 10  # 1 / share of those texts that may hold a unit of the feature too
MIN_FEATURES = 3  # of an item: with fewer it says nothing about one of them


def needed(sizes: np.ndarray, items: int) -> np.ndarray:
    """How many of its other features a text must hold: half of an item's, all of a string's; of a small item's none.

    sizes: (units,), distinct features of each; the first `items` units are items, the others strings  ->  int64 (units,)
    """
    half = np.where(sizes < MIN_FEATURES, 0, sizes // 2)
    return np.where(np.arange(len(sizes)) < items, half, sizes - 1).astype(np.int64)


def support(texts: np.ndarray, features: np.ndarray, starts: np.ndarray, units: np.ndarray, needed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many texts hold each feature, and of these, what is needed of the other features of each of its units.

    texts, features: (pairs,), distinct pairs sorted by text; starts: (features + 1,), units: (entries,), the units of
    each feature; needed: (units,)  ->  int64 (features,), int64 (entries,)
    """
    held, supported = np.zeros(len(starts) - 1, np.int64), np.zeros(len(units), np.int64)
    _support(texts, features, starts, units, needed, held, supported)
    return held, supported


@njit(cache=True, nogil=True)
def _support(texts, features, starts, units, needed, held, supported):
    seen = np.zeros(needed.size, np.int64)
    begin = 0
    while begin < texts.size:
        end = begin
        while end < texts.size and texts[end] == texts[begin]:
            held[features[end]] += 1
            for entry in range(starts[features[end]], starts[features[end] + 1]):
                seen[units[entry]] += 1
            end += 1
        for pair in range(begin, end):
            for entry in range(starts[features[pair]], starts[features[pair] + 1]):
                supported[entry] += seen[units[entry]] - 1 >= needed[units[entry]]
        for pair in range(begin, end):
            for entry in range(starts[features[pair]], starts[features[pair] + 1]):
                seen[units[entry]] = 0
        begin = end


def set_aside(held: np.ndarray, sources: np.ndarray, supported: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Features that are boilerplate for every unit that holds them -> bool (features,)

    sources: (features,), distinct sources that hold each; the others as in `support`
    """
    feature = np.repeat(np.arange(len(held)), np.diff(starts))
    stays = np.bincount(feature[supported * MAX_SHARE >= held[feature]], minlength=len(held)) > 0
    return (held >= MIN_TEXTS) & (sources >= MIN_SOURCES) & ~stays


def distinct(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs, sorted by first, then second."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.ones(len(first), bool)
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return first[new], second[new]
