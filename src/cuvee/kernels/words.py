"""Cut NFC text into words and symbols, each with a 64-bit hash of its folded code points.

A word is a maximal run of letters, marks and numbers that starts with a letter or a number. An apostrophe between two
letters joins; soft hyphen, ZWJ, ZWNJ and variation selectors are as if they were not there; marks outside a word are
ignored. A code point of an unspaced script (Han, kana, Thai, Khmer, ...) is a word of its own, a symbol (category S) a
token of its own; all other code points separate. The facts come from the checked-in Unicode table.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from cuvee.kernels.make_unicode_table import ALONE, APOSTROPHE, FOLD, LETTER, MARK, NUMBER, SIGN, SKIPPED
from cuvee.kernels.text import ASCII_END, decode, unicode_table

WORD, UNSPACED, SYMBOL = 0, 1, 2
HAS_LETTER = 1 << 7  # beside the kind, while tokens are made
WIDE = 1 << 28  # beside the facts: a byte that is not a whole code point

SEED = np.uint64(0x9FB21C651E98DF25)
STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads code points below 2^21 at least 2^42 apart
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # Stafford's variant 13, as in splitmix64


class Tokens(NamedTuple):
    """Tokens of many documents, one after another; filters and n-grams take kinds != SYMBOL, shingles take all."""

    hashes: np.ndarray  # uint64 (tokens,), of the folded token: equal text, equal hash, everywhere
    starts: np.ndarray  # int64 (tokens,), byte positions in the NFC buffer
    ends: np.ndarray  # int64 (tokens,), one past the last byte
    kinds: np.ndarray  # uint8 (tokens,), WORD, UNSPACED or SYMBOL
    letters: np.ndarray  # bool (tokens,), holds a code point of category L
    offsets: np.ndarray  # int64 (documents + 1,), where each document's tokens start


@cache
def word_tables() -> tuple[np.ndarray, np.ndarray]:
    """Facts by first byte and by code point -> uint32 (256,), uint32 (code points,)"""
    words = unicode_table()[0]
    lead = words[:256].copy()
    lead[ASCII_END:] = WIDE
    return lead, words


def tokenize(buffer: np.ndarray, offsets: np.ndarray) -> Tokens:
    """Tokens of NFC texts: buffer uint8 (bytes,), offsets int64 (documents + 1,), as `text.buffers` gives them."""
    room = buffer.size // 5 + 64  # English has a token every 6 bytes; where that is too little, arrays grow by half
    arrays = [np.empty(room, dtype) for dtype in (np.uint64, np.int64, np.int64, np.uint8)]
    cuts, document, position = np.zeros(offsets.size, np.int64), 0, offsets[0]
    while True:
        document, position = _fill(buffer, offsets, word_tables(), *arrays, cuts, document, position)
        if document == offsets.size - 1:
            break
        arrays = [np.concatenate([array, np.empty(array.size // 2, array.dtype)]) for array in arrays]
    hashes, starts, ends, kinds = (array[: cuts[-1]] for array in arrays)
    return Tokens(hashes, starts, ends, kinds & np.uint8(HAS_LETTER - 1), kinds >= HAS_LETTER, cuts)


@njit(cache=True, nogil=True)
def _fill(buffer, offsets, tables, hashes, starts, ends, kinds, cuts, document, position):
    """Write tokens from `position` in `document` on -> where it stopped; all done if that is past the last document

    cuts[document + 1], how many tokens there are up to its end, counts those written so far.
    """
    while document < offsets.size - 1:
        total = max(cuts[document], cuts[document + 1])
        end = offsets[document + 1]
        position, found = scan(
            buffer, position, end, tables, hashes[total:], starts[total:], ends[total:], kinds[total:]
        )
        cuts[document + 1] = total + found
        if position < end:
            return document, position
        document += 1
    return document, position


@njit(cache=True, nogil=True)
def scan(buffer, position, end, tables, hashes, starts, ends, kinds):
    """Write tokens of buffer[position:end] until its end or the arrays' -> (where it stopped, tokens written)

    A call that starts where the last one stopped goes on as if there had been no stop.
    """
    lead, count = tables[0], 0
    while position < end:
        facts, width = _facts(buffer, position, end, tables)
        if not facts & (LETTER | NUMBER | SIGN | ALONE):
            position += width
            continue
        if count == hashes.size:
            return position, count
        starts[count] = position
        position += width
        stop, state = position, SEED * STEP + np.uint64(facts & FOLD)
        if not facts & (SIGN | ALONE):
            last = facts
            while position < end:  # ASCII letters and digits; in a function of its own this loop runs at half the speed
                entry = np.int64(lead[buffer[np.uint64(position)]])
                if not entry & (LETTER | NUMBER):
                    break
                state = state * STEP + np.uint64(entry & FOLD)
                facts |= entry
                last = entry
                position += 1
            stop = position
            if position < end and lead[buffer[position]] & (WIDE | APOSTROPHE):
                position, stop, state, facts = _rest_of_word(buffer, position, end, tables, state, facts, last)
        ends[count] = stop
        hashes[count] = finish(state)
        kind = SYMBOL if facts & SIGN else UNSPACED if facts & ALONE else WORD
        kinds[count] = kind | HAS_LETTER if facts & LETTER else kind
        count += 1
    return end, count


@njit(cache=True, nogil=True)
def _facts(buffer, position, end, tables):
    """Word table entry of the code point at `position`, and its width."""
    lead, words = tables
    entry = np.int64(lead[buffer[np.uint64(position)]])  # an unsigned index spares the test for a negative one
    if not entry & WIDE:
        return entry, 1
    code, width = decode(buffer, position, end)
    return np.int64(words[code]), width


@njit(cache=True, nogil=True)
def _rest_of_word(buffer, position, end, tables, state, facts, last):
    """Go on after a word's first code point -> (where to go on, end of its last code point, state, all its facts)"""
    stop = position
    while position < end:
        entry, width = _facts(buffer, position, end, tables)
        if entry & (LETTER | MARK | NUMBER) and not entry & ALONE:
            stop = position + width
            facts |= entry
        elif entry & SKIPPED:
            position += width
            continue
        elif not (entry & APOSTROPHE and last & LETTER and _letter_follows(buffer, position + width, end, tables)):
            break
        state = state * STEP + np.uint64(entry & FOLD)
        last = entry
        position += width
    return position, stop, state, facts


@njit(cache=True, nogil=True)
def _letter_follows(buffer, position, end, tables):
    while position < end:
        entry, width = _facts(buffer, position, end, tables)
        if not entry & SKIPPED:
            return entry & LETTER and not entry & ALONE
        position += width
    return False


@njit(cache=True, nogil=True)
def finish(state):
    """splitmix64's finaliser: every bit of the result hangs on every bit of `state`; one to one."""
    state = (state ^ (state >> np.uint64(30))) * MIX_1
    state = (state ^ (state >> np.uint64(27))) * MIX_2
    return state ^ (state >> np.uint64(31))
