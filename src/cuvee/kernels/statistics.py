"""Statistics of documents that filters judge, from the text's bytes and its tokens.

The measures follow MassiveText (Rae et al. 2021, arXiv 2112.11446, table A1) in what they count; words are Cuvee's
own (kernels/words.py), and the unit of each is stated beside its name.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from cuvee.kernels.words import SYMBOL, Tokens

GRAM = 5  # words of a repeated sequence
SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Statistics(NamedTuple):
    """One value per document, (documents,)."""

    words: np.ndarray                 # int64
    unique_words: np.ndarray          # int64
    lines: np.ndarray                 # int64, lines that are not blank
    mean_word_length: np.ndarray      # float64, characters; 0 without words
    duplicate_line_share: np.ndarray  # float64, bytes in lines that occurred before / bytes in lines
    repetition: np.ndarray            # float64, words in 5-grams that occurred before / words
    symbol_share: np.ndarray          # float64, symbols / tokens


def statistics(buffer: np.ndarray, offsets: np.ndarray, tokens: Tokens) -> Statistics:
    """buffer uint8 (bytes,), offsets int64 (documents + 1,) of NFC text, and `tokenize` of them."""
    return Statistics(*_statistics(buffer, offsets, tokens.hashes, tokens.starts, tokens.ends, tokens.kinds, tokens.offsets))


@njit(cache=True, nogil=True)
def _statistics(buffer, offsets, hashes, starts, ends, kinds, cuts):
    documents = len(offsets) - 1
    words, unique, lines = np.zeros(documents, np.int64), np.zeros(documents, np.int64), np.zeros(documents, np.int64)
    length, duplicate = np.zeros(documents), np.zeros(documents)
    repetition, symbols = np.zeros(documents), np.zeros(documents)
    for document in range(documents):
        first, last = cuts[document], cuts[document + 1]
        spoken = hashes[first:last][kinds[first:last] != SYMBOL]
        words[document] = len(spoken)
        lines[document], duplicate[document] = _lines(buffer[offsets[document]:offsets[document + 1]])
        if last > first:
            symbols[document] = 1 - len(spoken) / (last - first)
        if len(spoken):
            seen = _table(len(spoken))
            for word in spoken:
                unique[document] += _insert(seen, word)
            length[document] = _characters(buffer, starts, ends, kinds, first, last) / len(spoken)
            repetition[document] = _repeated(spoken) / len(spoken)
    return words, unique, lines, length, duplicate, repetition, symbols


@njit(cache=True, nogil=True)
def _table(items):
    """An empty open-addressing set with room for `items`; 0 marks a free slot."""
    size = 16
    while size < 2 * items:
        size *= 2
    return np.zeros(size, np.uint64)


@njit(cache=True, nogil=True)
def _insert(table, value):
    """1 where `value` is new to the set, else 0."""
    key = value | np.uint64(1)
    mask = np.uint64(len(table) - 1)
    slot = (key * SPREAD >> np.uint64(32)) & mask
    while table[slot] != np.uint64(0):
        if table[slot] == key:
            return 0
        slot = (slot + np.uint64(1)) & mask
    table[slot] = key
    return 1


@njit(cache=True, nogil=True)
def _repeated(words):
    """How many words stand in a 5-gram that occurred before."""
    seen = _table(len(words))
    covered, until = 0, 0
    for start in range(len(words) - GRAM + 1):
        gram = np.uint64(0)
        for place in range(start, start + GRAM):
            gram = (gram ^ words[place]) * SPREAD
            gram ^= gram >> np.uint64(29)
        if not _insert(seen, gram):
            covered += start + GRAM - max(until, start)
            until = start + GRAM
    return covered


@njit(cache=True, nogil=True)
def _characters(buffer, starts, ends, kinds, first, last):
    """Code points in the words of one document: the bytes that start one."""
    total = 0
    for token in range(first, last):
        if kinds[token] != SYMBOL:
            for place in range(starts[token], ends[token]):
                total += (buffer[place] & 0xC0) != 0x80
    return total


@njit(cache=True, nogil=True)
def _lines(text):
    """Lines that are not blank, and the share of their bytes in lines that occurred before."""
    newlines = 1
    for byte in text:
        newlines += byte == 10
    seen = _table(newlines)
    lines, held, repeated = 0, 0, 0
    start = 0
    for place in range(len(text) + 1):
        if place == len(text) or text[place] == 10:
            if not _blank(text[start:place]):
                lines += 1
                held += place - start
                if not _insert(seen, _hash(text[start:place])):
                    repeated += place - start
            start = place + 1
    return lines, repeated / held if held else 0.0


@njit(cache=True, nogil=True)
def _blank(line):
    for byte in line:
        if byte > 32:
            return False
    return True


@njit(cache=True, nogil=True)
def _hash(line):
    value = np.uint64(len(line))
    for byte in line:
        value = (value ^ np.uint64(byte)) * SPREAD
        value ^= value >> np.uint64(31)
    return value
