"""Exact Jaccard of texts from the published definition of a shingle, by `re`, `unicodedata` and numpy: what benchmarks
hold every tool against, ours too. It shares nothing with `cuvee`.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

WIDTH = 5  # tokens in a shingle
UNSPACED = [range(0x0E00, 0x0F00), range(0x1000, 0x10A0), range(0x1780, 0x1800), range(0x3005, 0x3008), range(0x3040, 0x3100),
            range(0x31F0, 0x3200), range(0x3400, 0x4DC0), range(0x4E00, 0xA000), range(0xF900, 0xFB00), range(0xFF66, 0xFFA0),
            range(0x20000, 0x323B0)]  # fmt: skip
INVISIBLE = dict.fromkeys([0xAD, 0x200C, 0x200D, 0x180B, 0x180C, 0x180D, 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
PLAIN = INVISIBLE | {0x2019: "'"}


class Sets(NamedTuple):
    """Sorted distinct shingles of many documents, one after another; 64-bit hashes, so that one pair in 1e12 is off."""

    values: np.ndarray  # uint64 (shingles,)
    offsets: np.ndarray  # int64 (documents + 1,)

    def of(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]


@cache
def token_pattern() -> re.Pattern[str]:
    """Words of spaced scripts, single characters of unspaced ones, single symbols."""
    unspaced = {code for block in UNSPACED for code in block}
    found: dict[str, list[int]] = {"L": [], "M": [], "N": [], "S": [], "U": []}
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))[0]
        shape = "U" if category in "LMN" and code in unspaced else category
        if shape in found and code not in INVISIBLE:
            found[shape].append(code)
    letter, mark, number, symbol, alone = (_ranges(codes) for codes in found.values())
    joined = f"(?<=[{letter}])'(?=[{letter}])"
    return re.compile(f"[{letter}{number}](?:[{letter}{mark}{number}]|{joined})*|[{alone}]|[{symbol}]")


def _ranges(codes: Sequence[int]) -> str:
    """A character class of ascending code points, without its brackets."""
    runs = [list(run) for _, run in groupby(enumerate(codes), lambda place: place[1] - place[0])]
    return "".join(f"\\U{run[0][1]:08x}-\\U{run[-1][1]:08x}" for run in runs)


def tokens(text: str) -> list[str]:
    """Folded shingle tokens of a text."""
    return [_fold(token) for token in token_pattern().findall(unicodedata.normalize("NFC", text).translate(PLAIN))]


def _fold(token: str) -> str:
    if len(token) == 1 and unicodedata.category(token)[0] == "S":
        return token
    return token.lower() if token.isascii() else "".join(c.casefold() if len(c.casefold()) == 1 else c.lower() if len(c.lower()) == 1 else c for c in token)


def shingle_sets(texts: Sequence[str]) -> Sets:
    """Shingles hashed by tabulation: a sum of random numbers, one table for each place in the shingle."""
    numbers: dict[str, int] = {}
    documents = [np.array([numbers.setdefault(token, len(numbers)) for token in tokens(text)], np.int64) for text in texts]
    tables = np.random.default_rng(0).integers(0, 2**64, (WIDTH, len(numbers) + 1), np.uint64)
    sets = [_shingles(document, tables) for document in documents]
    return Sets(np.concatenate(sets), np.concatenate([[0], np.cumsum([each.size for each in sets])]).astype(np.int64))


def _shingles(document: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """int64 (tokens,), uint64 (WIDTH, vocabulary) -> sorted distinct uint64 (shingles,); one if there are few tokens"""
    width = min(WIDTH, document.size)
    if not width:
        return np.zeros(0, np.uint64)
    places = document.size - width + 1
    return np.unique(sum(tables[place][document[place : place + places]] for place in range(width)))


def jaccard(sets: Sets, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Shared over all shingles of documents left[i] and right[i]; 0 if both are empty -> float64 (pairs,)"""
    found = np.empty(len(left))
    for pair, (a, b) in enumerate(zip(left, right)):
        shared = np.intersect1d(sets.of(a), sets.of(b), assume_unique=True).size
        found[pair] = shared / max(1, sets.of(a).size + sets.of(b).size - shared)
    return found


def similar_pairs(sets: Sets, threshold: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs of documents with Jaccard of `threshold` or more, by counting each shingle of the whole corpus.

    -> left < right int64 (pairs,), Jaccard float64 (pairs,)
    """
    documents, sizes = sets.offsets.size - 1, np.diff(sets.offsets)
    columns = np.unique(sets.values, return_inverse=True)[1]
    matrix = csr_array((np.ones(columns.size, np.int32), columns, sets.offsets), (documents, int(columns.max(initial=0)) + 1))
    shared = (matrix @ matrix.T).tocoo()
    upper = shared.coords[0] < shared.coords[1]
    left, right, common = shared.coords[0][upper].astype(np.int64), shared.coords[1][upper].astype(np.int64), shared.data[upper]
    similarity = common / (sizes[left] + sizes[right] - common)
    near = similarity >= threshold
    return left[near], right[near], similarity[near]
