"""Units that may stand in many documents: paragraphs, and windows of three sentences; each with a 64-bit hash.

A *paragraph* is a line, as in CCNet (Wenzek et al. 2020, section 3.1), with the blank lines that follow it. A *sentence*
ends with its line; after a run of . ! ? where white space or the end of the text follows; after a full stop of a script
that puts no space there, such as U+3002. Closing quotes and brackets after the stop are part of it, and so is the
white space that follows. What has no token is no paragraph and no sentence. Three sentences in a row are the unit of
C4 (Raffel et al. 2020, section 2.2).

A hash is over shingle tokens in order: case, spacing and punctuation do not matter, `x + y` is not `x < y`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from cuvee.kernels.text import decode
from cuvee.kernels.words import SEED, STEP, SYMBOL, Tokens, finish

WORDS = 8   # a shorter unit is none
WINDOW = 3  # sentences
NEWLINE, SPACE = 10, 32  # bytes up to SPACE are white space
STOPS = (0x2E, 0x21, 0x3F)  # . ! ? need white space after them; these do not:
FULL_STOPS = (0x3002, 0xFF01, 0xFF1F, 0xFF61, 0xFF0E, 0x0964, 0x0965, 0x06D4, 0x061F, 0x1362, 0x104B)
CLOSERS = (0x22, 0x27, 0x29, 0x5D, 0x7D, 0x2019, 0x201D, 0xBB, 0x3009, 0x300B, 0x300D, 0x300F, 0x3011, 0xFF09)


class Units(NamedTuple):
    """Units of many documents, one after another, in the order of their starts, which is that of their ends too."""

    hashes: np.ndarray   # uint64 (units,)
    starts: np.ndarray   # int64 (units,), byte positions in the NFC buffer
    ends: np.ndarray     # int64 (units,), one past the last byte
    offsets: np.ndarray  # int64 (documents + 1,), where each document's units start


def paragraphs(buffer: np.ndarray, offsets: np.ndarray, tokens: Tokens) -> Units:
    """buffer uint8 (bytes,), offsets int64 (documents + 1,) of NFC text, and `tokenize` of them."""
    return _long(*_parts(_line_ends(buffer, offsets), offsets, *_facts(tokens)))


def three_sentences(buffer: np.ndarray, offsets: np.ndarray, tokens: Tokens) -> Units:
    """Every window of three sentences of a document, likewise."""
    hashes, starts, ends, words, bounds = _parts(_sentence_ends(buffer, offsets), offsets, *_facts(tokens))
    last = np.repeat(bounds[1:], np.diff(bounds))  # one past the document's last sentence, per sentence
    first = np.flatnonzero(np.arange(len(hashes)) + WINDOW <= last)
    joined, spoken = np.full(len(first), SEED), np.zeros(len(first), np.int64)
    for step in range(WINDOW):
        joined = finish(joined * STEP + hashes[first + step])
        spoken += words[first + step]
    return _long(joined, starts[first], ends[first + WINDOW - 1], spoken, np.searchsorted(first, bounds))


def _facts(tokens: Tokens) -> tuple[np.ndarray, ...]:
    return tokens.hashes, tokens.starts, tokens.kinds, tokens.offsets


def _long(hashes: np.ndarray, starts: np.ndarray, ends: np.ndarray, words: np.ndarray, bounds: np.ndarray) -> Units:
    """Those of `WORDS` words or more."""
    enough = words >= WORDS
    before = np.concatenate([[0], np.cumsum(enough)])
    return Units(hashes[enough], starts[enough], ends[enough], before[bounds])


@njit(cache=True, nogil=True)
def _parts(ends, offsets, hashes, starts, kinds, cuts):
    """What lies between neighbouring `ends` and has a token -> hash, start, end, words (parts,), bounds (documents + 1,)"""
    room = min(hashes.size, ends.size)
    value, first, last, words = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    bounds = np.zeros(offsets.size, np.int64)
    count, part = 0, 0
    for document in range(offsets.size - 1):
        token, stop, begin = cuts[document], cuts[document + 1], offsets[document]
        while part < ends.size and ends[part] <= offsets[document + 1]:
            state, spoken, before = SEED, 0, token
            while token < stop and starts[token] < ends[part]:
                state = finish(state * STEP + hashes[token])
                spoken += kinds[token] != SYMBOL
                token += 1
            if token > before:
                value[count], first[count], last[count], words[count] = state, begin, ends[part], spoken
                count += 1
            begin = ends[part]
            part += 1
        bounds[document + 1] = count
    return value[:count], first[:count], last[:count], words[:count], bounds


@njit(cache=True, nogil=True)
def _line_ends(buffer, offsets):
    """Where each line of each document ends, with its newline and the blank lines after it: int64 (lines,)"""
    ends, count = np.empty(buffer.size, np.int64), 0
    for document in range(offsets.size - 1):
        position, end = offsets[document], offsets[document + 1]
        while position < end:
            while position < end and buffer[position] != NEWLINE:
                position += 1
            ahead = position
            while ahead < end and buffer[ahead] <= SPACE:
                ahead += 1
                if buffer[ahead - 1] == NEWLINE or ahead == end:
                    position = ahead
            ends[count] = position
            count += 1
    return ends[:count]


@njit(cache=True, nogil=True)
def _sentence_ends(buffer, offsets):
    """Where each sentence of each document ends: int64 (sentences,)"""
    ends, count = np.empty(buffer.size, np.int64), 0
    for document in range(offsets.size - 1):
        position, end = offsets[document], offsets[document + 1]
        while position < end:
            position = _sentence_end(buffer, position, end)
            ends[count] = position
            count += 1
    return ends[:count]


@njit(cache=True, nogil=True)
def _sentence_end(buffer, position, end):
    """Where the sentence that starts at `position` ends, with the white space after it."""
    while position < end:
        code, width = decode(buffer, position, end)
        position += width
        if code == NEWLINE:
            break
        if code in STOPS or code in FULL_STOPS:
            closed = code in FULL_STOPS
            while position < end:
                code, width = decode(buffer, position, end)
                if not (code in STOPS or code in FULL_STOPS or code in CLOSERS):
                    break
                closed = closed or code in FULL_STOPS
                position += width
            if closed or position == end or buffer[position] <= SPACE:
                break
    while position < end and buffer[position] <= SPACE:
        position += 1
    return position
