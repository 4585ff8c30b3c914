"""MinHash signatures of shingle sets, and the band keys by which likely pairs are found.

Minimum i of a set is the least `high + MULTIPLIERS[i] * low` modulo 2^32 over its 64-bit shingles (low and high half):
one multiplication, one sum, and all 64 bits count. The share of equal minima of two sets estimates their Jaccard
similarity J (Broder, 1997); with 20 bands of 7 rows a pair shares a band key with probability 1 - (1 - J^7)^20.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from cuvee.kernels.shingles import WIDTH, absorb, absorb_all, sequence_hash, shingles_in_order, write_shingles
from cuvee.kernels.text import buffers, nfc
from cuvee.kernels.words import MIX_1, MIX_2, STEP, finish, scan, word_tables

BANDS, ROWS = 20, 7
MINIMA = BANDS * ROWS
SEED = 0x6375766565  # "cuvee"
NOTHING = 0xFFFFFFFF  # every minimum of an empty set
BLOCK = 2048  # shingles held at a time: the work arrays stay in the first two cache levels
PAD = 64  # a block is filled up to whole vectors by repeating its last shingle
SORT_MINIMA = 4  # minima in a sort key, 16 bits of each


def splitmix64(seed: int, count: int) -> list[int]:
    """The first `count` 64-bit outputs of splitmix64 (Steele, Lea and Flood, 2014)."""
    outputs = []
    for step in range(1, count + 1):
        z = (seed + step * int(STEP)) % 2**64
        z = (z ^ (z >> 30)) * int(MIX_1) % 2**64
        z = (z ^ (z >> 27)) * int(MIX_2) % 2**64
        outputs.append(z ^ (z >> 31))
    return outputs


MULTIPLIERS = np.array([output >> 32 | 1 for output in splitmix64(SEED, MINIMA)], np.uint32)


class Signed(NamedTuple):
    """What dedup keeps of each document; one without tokens has only `NOTHING` and must not be banded."""

    signatures: np.ndarray  # uint32 (documents, MINIMA)
    sequence: np.ndarray  # uint64 (documents, 2), identity of the token sequence
    tokens: np.ndarray  # int64 (documents,)


def sign(texts: pa.Array | pa.ChunkedArray, n: int = WIDTH) -> Signed:
    """Normalise, tokenise, shingle and sign texts in one pass; memory does not grow with a document's length."""
    buffer, offsets = buffers(nfc(texts))
    return Signed(*_sign(buffer, offsets, word_tables(), n, MULTIPLIERS))


def sign_tokens(hashes: np.ndarray, offsets: np.ndarray, n: int = WIDTH) -> Signed:
    """The same from tokens that are there already: hashes uint64 (tokens,), offsets int64 (documents + 1,)"""
    minima = signatures(*shingles_in_order(hashes, offsets, n))
    return Signed(minima, sequence_hash(hashes, offsets), np.diff(offsets))


@njit(cache=True, nogil=True)
def _sign(buffer, offsets, tables, n, multipliers):
    documents = offsets.size - 1
    minima = np.full((documents, multipliers.size), NOTHING, np.uint32)
    sequence, tokens = np.zeros((documents, 2), np.uint64), np.zeros(documents, np.int64)
    hashes, kinds = np.empty(BLOCK + n - 1, np.uint64), np.empty(BLOCK + n - 1, np.uint8)
    starts, ends = np.empty(hashes.size, np.int64), np.empty(hashes.size, np.int64)
    values, halves = np.empty(BLOCK, np.uint64), np.empty((2, BLOCK), np.uint32)
    for document in range(documents):
        position, end, held = offsets[document], offsets[document + 1], 0
        while position < end:
            position, found = scan(buffer, position, end, tables, hashes[held:], starts, ends, kinds)
            absorb_all(sequence[document], hashes[held : held + found])
            tokens[document] += found
            held += found
            if held >= n or (position == end and 0 < tokens[document] < n):
                block = values[: max(1, held - n + 1)]
                write_shingles(hashes[:held], n, block)
                take_minima(block, halves, multipliers, minima[document])
                hashes[: n - 1] = hashes[held - n + 1 : held] if held >= n else hashes[: n - 1]
                held = min(held, n - 1)
    return minima, sequence, tokens


def signatures(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Minima of each document's shingles, repeats or none: uint64 (shingles,), int64 (documents + 1,) -> uint32
    (documents, MINIMA). The shingles must be well-mixed hashes, as `shingles` gives them.
    """
    return _signatures(values, offsets, MULTIPLIERS)


@njit(cache=True, nogil=True)
def _signatures(values, offsets, multipliers):
    minima = np.full((offsets.size - 1, multipliers.size), NOTHING, np.uint32)
    halves = np.empty((2, BLOCK), np.uint32)
    for document in range(offsets.size - 1):
        for start in range(offsets[document], offsets[document + 1], BLOCK):
            stop = min(start + BLOCK, offsets[document + 1])
            take_minima(values[start:stop], halves, multipliers, minima[document])
    return minima


@njit(cache=True, nogil=True)
def take_minima(values, halves, multipliers, minima):
    """Lower `minima`, uint32 (MINIMA,), to those of 1 to BLOCK more shingles; halves: uint32 (2, BLOCK) to work in"""
    low, high = halves[0], halves[1]
    for place in range(values.size):
        low[place] = np.uint32(values[place])
        high[place] = np.uint32(values[place] >> np.uint64(32))
    padded = (values.size + PAD - 1) // PAD * PAD
    low[values.size : padded] = low[values.size - 1]
    high[values.size : padded] = high[values.size - 1]
    for i in range(0, minima.size, 4):  # four at a time: the halves are loaded once for all
        a, b, c, d = multipliers[i], multipliers[i + 1], multipliers[i + 2], multipliers[i + 3]
        p, q, r, s = minima[i], minima[i + 1], minima[i + 2], minima[i + 3]
        for place in range(padded):
            x, y = low[place], high[place]
            p = min(p, np.uint32(y + a * x))
            q = min(q, np.uint32(y + b * x))
            r = min(r, np.uint32(y + c * x))
            s = min(s, np.uint32(y + d * x))
        minima[i], minima[i + 1], minima[i + 2], minima[i + 3] = p, q, r, s


@njit(cache=True, nogil=True)
def band_keys(signatures, bands=BANDS, rows=ROWS):
    """Hash of each band's rows and its number: uint32 (documents, bands * rows) -> uint64 (documents, bands)"""
    keys = np.empty((signatures.shape[0], bands), np.uint64)
    for document in range(signatures.shape[0]):
        for band in range(bands):
            state = np.uint64(band + 1) * STEP
            for row in range(rows):
                state = absorb(state, np.uint64(signatures[document, band * rows + row]), MIX_1)
            keys[document, band] = finish(state)
    return keys


@njit(cache=True, nogil=True)
def sort_keys(signatures, bands=BANDS, rows=ROWS):
    """What rows of one band group are sorted by, to bring alike signatures together -> uint64 (documents, bands)

    The low 16 bits of the four minima that follow the band (from the last band on to the first): a group's rows agree
    within their band, and a minimum's high bits are nearly always 0.
    """
    keys = np.zeros((signatures.shape[0], bands), np.uint64)
    for document in range(signatures.shape[0]):
        for band in range(bands):
            for place in range(SORT_MINIMA):
                minimum = signatures[document, ((band + 1) * rows + place) % (bands * rows)]
                keys[document, band] = (keys[document, band] << np.uint64(16)) | np.uint64(minimum & 0xFFFF)
    return keys


@njit(cache=True, nogil=True)
def agreement(left, right):
    """Share of equal minima, an estimate of Jaccard: two uint32 (pairs, MINIMA) -> float64 (pairs,)"""
    share = np.empty(left.shape[0], np.float64)
    for pair in range(share.size):
        share[pair] = (left[pair] == right[pair]).sum() / left.shape[1]
    return share


@njit(cache=True, nogil=True)
def agreement_pairs(signatures, left, right):
    """`agreement` of documents left[i] and right[i] of one table, without copies of their rows -> float64 (pairs,)"""
    share = np.empty(left.size, np.float64)
    for pair in range(left.size):
        share[pair] = (signatures[left[pair]] == signatures[right[pair]]).sum() / signatures.shape[1]
    return share
