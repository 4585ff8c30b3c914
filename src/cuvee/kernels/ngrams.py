"""N-grams by weight, and an exact search for millions of them in text.

A word weighs 2 and a code point of an unspaced script 1; symbols are no words. A *feature* is a run of words: the
n-grams of a text that weighs 26 or more (from each word, the shortest run of that weight: 13 words of English), or all
of a text that weighs 16 to 25. A feature needs 6 distinct words and one letter. Its hash is that of its sequence of
words, whatever the length, so one set holds both kinds and the same run has the same hash everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from cuvee.kernels.words import SYMBOL, UNSPACED, Tokens

GRAM_WEIGHT = 26  # 13 words, as GPT-3 (Brown et al. 2020, appendix C) chose for most of its evaluations
WHOLE_WEIGHT = 16  # a lighter text is too common to be matched
DISTINCT = 6  # distinct words of a feature
ANCHOR = 8  # words: the fewest that weigh WHOLE_WEIGHT, so every feature has as many
LONGEST = GRAM_WEIGHT  # words: a feature of unspaced code points only

BASE = np.uint64(0xD6E8FEB86659FD93)  # odd, 3 mod 8, so that BASE**k - 1 is divisible by few powers of two
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd: Knuth, TAOCP vol. 3, sec. 6.4
MIX_1, MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)  # fmix64 of MurmurHash3
POWERS = np.cumprod(np.concatenate([np.ones(1, np.uint64), np.full(LONGEST, BASE)]), dtype=np.uint64)
BITS_A_FEATURE = 16  # of the filter: two bits set of each 64-bit word's 4 features let 1.6 % of other anchors pass


class Features(NamedTuple):
    """Features of many texts, one after another."""

    hashes: np.ndarray  # uint64 (features,)
    anchors: np.ndarray  # uint64 (features,), of the first ANCHOR words
    lengths: np.ndarray  # int64 (features,), words
    first: np.ndarray  # int64 (features,), token
    last: np.ndarray  # int64 (features,), token, the run's own last one
    offsets: np.ndarray  # int64 (documents + 1,), where each document's features start
    words: np.ndarray  # int64 (documents,)


class Matches(NamedTuple):
    """Features found in many texts, by document, then first word, then length."""

    features: np.ndarray  # int64 (matches,), place in the feature set
    words: np.ndarray  # int64 (matches,), first word, counted from 0 in its document
    lengths: np.ndarray  # int64 (matches,), words
    first: np.ndarray  # int64 (matches,), token
    last: np.ndarray  # int64 (matches,), token, the run's own last one
    offsets: np.ndarray  # int64 (documents + 1,), where each document's matches start
    document_words: np.ndarray  # int64 (documents,)


class Spans(NamedTuple):
    """Stretches of words that matches cover, those that touch as one, by document and place."""

    first: np.ndarray  # int64 (spans,), the match that a span begins with
    last: np.ndarray  # int64 (spans,), the match that it ends with
    offsets: np.ndarray  # int64 (documents + 1,), where each document's spans start
    covered: np.ndarray  # int64 (documents,), words in spans


@dataclass(frozen=True)
class FeatureSet:
    """An exact set of feature hashes. Most words are answered by one read of a filter over the features' first words.

    hashes: uint64 (features,), ascending; starts: uint32 (2**bits + 1,), where hashes with each leading `bits` begin;
    filter: uint64 (words of 64 bits,); lengths: int64, ascending, the lengths that occur.
    """

    hashes: np.ndarray
    starts: np.ndarray
    filter: np.ndarray
    lengths: np.ndarray

    @classmethod
    def build(cls, hashes: np.ndarray, anchors: np.ndarray, lengths: np.ndarray) -> FeatureSet:
        """hashes: uint64 (features,), ascending and distinct; anchors, lengths: of the same features."""
        if len(hashes) > 1 and not (hashes[1:] > hashes[:-1]).all():
            raise ValueError("hashes must be ascending and distinct; sort them with numpy.unique first.")
        hashes, anchors = _frozen(hashes), _frozen(anchors)
        bits = max(1, min(28, len(hashes).bit_length() - 1))
        leading = np.bincount((hashes >> np.uint64(64 - bits)).astype(np.int64), minlength=1 << bits)
        starts = np.concatenate([[0], np.cumsum(leading)]).astype(np.uint32)
        filter = np.zeros(1 << max(6, (len(hashes) * BITS_A_FEATURE // 64).bit_length()), np.uint64)
        _fill(filter, anchors, _filter_shift(filter))
        return cls(hashes, starts, filter, np.unique(lengths).astype(np.int64))


def features(tokens: Tokens) -> Features:
    """Features of each text: its n-grams, or all of it if it weighs less than one n-gram."""
    room = int((tokens.kinds != SYMBOL).sum())
    hashes, anchors = np.empty(room, np.uint64), np.empty(room, np.uint64)
    runs = np.empty((3, room), np.int64)
    offsets, words = np.zeros(len(tokens.offsets), np.int64), np.zeros(len(tokens.offsets) - 1, np.int64)
    _features(tokens.hashes, tokens.kinds, tokens.letters, tokens.offsets, POWERS, hashes, anchors, runs, offsets, words)
    found = offsets[-1]
    return Features(hashes[:found], anchors[:found], *runs[:, :found], offsets, words)


def scan(tokens: Tokens, known: FeatureSet) -> Matches:
    """Every place where a feature of the set stands in a text."""
    offsets, words = np.zeros(len(tokens.offsets), np.int64), np.zeros(len(tokens.offsets) - 1, np.int64)
    longest = int(np.diff(tokens.offsets).max(initial=0))
    found = _scan(tokens.hashes, tokens.kinds, tokens.offsets, POWERS, known.hashes, known.starts, known.filter,
                  _filter_shift(known.filter), known.lengths, longest, offsets, words)
    return Matches(*found[:, : offsets[-1]], offsets, words)


def spans(offsets: np.ndarray, words: np.ndarray, lengths: np.ndarray, standing: np.ndarray) -> Spans:
    """What the matches that are `standing`, bool (matches,), cover; the others are as if they had not been found."""
    first, last = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    cuts, covered = np.zeros(len(offsets), np.int64), np.zeros(len(offsets) - 1, np.int64)
    _spans(offsets, words, lengths, standing, first, last, cuts, covered)
    return Spans(first[: cuts[-1]], last[: cuts[-1]], cuts, covered)


def _frozen(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written, as one of a mapped file is: numba compiles one variant for both."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _filter_shift(filter: np.ndarray) -> np.uint64:
    return np.uint64(65 - len(filter).bit_length())


@njit(cache=True, nogil=True)
def _features(hashes, kinds, letters, offsets, powers, out_hashes, out_anchors, out_runs, out_offsets, out_words):
    longest = np.int64(1)
    for document in range(offsets.size - 1):
        longest = max(longest, offsets[document + 1] - offsets[document])
    places, prefix, found = np.empty(longest, np.int64), np.zeros(longest + 1, np.uint64), 0
    for document in range(offsets.size - 1):
        words = _words(hashes, kinds, offsets[document], offsets[document + 1], places, prefix)
        out_words[document] = words
        end, weight, total = 0, 0, _weight(kinds, places, 0, words)
        wanted = min(total, GRAM_WEIGHT) if total >= WHOLE_WEIGHT else words * 2 + 1
        for start in range(words):
            while end < words and weight < wanted:
                weight += 1 if kinds[places[end]] == UNSPACED else 2
                end += 1
            if weight < wanted:
                break
            if _is_telling(hashes, letters, places, start, end):
                out_hashes[found] = _run_hash(prefix, powers, start, end - start)
                out_anchors[found] = prefix[start + ANCHOR] - prefix[start] * powers[ANCHOR]
                out_runs[0, found], out_runs[1, found], out_runs[2, found] = end - start, places[start], places[end - 1]
                found += 1
            weight -= 1 if kinds[places[start]] == UNSPACED else 2
        out_offsets[document + 1] = found


@njit(cache=True, nogil=True)
def _words(hashes, kinds, start, end, places, prefix):
    """Tokens of a document that are words, and the polynomial hash of all up to each -> how many"""
    words = 0
    state = np.uint64(0)
    for token in range(start, end):
        if kinds[token] != SYMBOL:
            state = state * BASE + hashes[token]
            places[words] = token
            words += 1
            prefix[words] = state
    return words


@njit(cache=True, nogil=True)
def _weight(kinds, places, start, end):
    weight = 0
    for word in range(start, end):
        weight += 1 if kinds[places[word]] == UNSPACED else 2
    return weight


@njit(cache=True, nogil=True)
def _is_telling(hashes, letters, places, start, end):
    """DISTINCT words and one letter."""
    distinct, letter = 0, False
    for word in range(start, end):
        letter |= letters[places[word]]
        new = True
        for before in range(start, word):
            new &= hashes[places[before]] != hashes[places[word]]
        distinct += new
    return letter and distinct >= DISTINCT


@njit(cache=True, nogil=True, inline="always")
def _run_hash(prefix, powers, start, length):
    """Of `length` words from `start`: a polynomial over their hashes (Karp and Rabin 1987, mod 2**64), mixed."""
    state = prefix[start + length] - prefix[start] * powers[length] + np.uint64(length) * GOLDEN
    state = (state ^ (state >> np.uint64(33))) * MIX_1
    state = (state ^ (state >> np.uint64(33))) * MIX_2
    return state ^ (state >> np.uint64(33))


@njit(cache=True, nogil=True, inline="always")
def _filter_bits(spread):
    """Two of 64 bits, from bits of the spread anchor that do not choose the filter's word."""
    return (np.uint64(1) << ((spread >> np.uint64(14)) & np.uint64(63))) | (np.uint64(1) << ((spread >> np.uint64(20)) & np.uint64(63)))


@njit(cache=True, nogil=True)
def _fill(filter, anchors, shift):
    for anchor in anchors:
        spread = anchor * GOLDEN
        filter[np.int64(spread >> shift)] |= _filter_bits(spread)


@njit(cache=True, nogil=True)
def _scan(hashes, kinds, offsets, powers, known, starts, filter, shift, lengths, longest, out_offsets, out_words):
    places, prefix = np.empty(longest + 1, np.int64), np.zeros(longest + 1, np.uint64)
    matches, found = np.empty((5, 1024), np.int64), 0
    power = powers[ANCHOR]
    for document in range(offsets.size - 1):
        words = _words(hashes, kinds, offsets[document], offsets[document + 1], places, prefix)
        out_words[document] = words
        for word in range(words - ANCHOR + 1):
            spread = (prefix[word + ANCHOR] - prefix[word] * power) * GOLDEN
            bits = _filter_bits(spread)
            if filter[spread >> shift] & bits == bits:
                if found + LONGEST > matches.shape[1]:
                    matches = _grown(matches, found)
                found = _match(prefix, powers, word, words, known, starts, lengths, places, matches, found)
        out_offsets[document + 1] = found
    return matches


@njit(cache=True, nogil=True)
def _match(prefix, powers, word, words, known, starts, lengths, places, matches, found):
    """Write every feature that starts at `word` -> matches so far"""
    bits = np.uint64(64)
    size = starts.size - 1
    while size > 1:
        size >>= 1
        bits -= np.uint64(1)
    for length in lengths:
        if word + length > words:
            break
        wanted = _run_hash(prefix, powers, word, length)
        lead = np.int64(wanted >> bits)
        for place in range(np.int64(starts[lead]), np.int64(starts[lead + 1])):
            if known[place] == wanted:
                matches[0, found], matches[1, found], matches[2, found] = place, word, length
                matches[3, found], matches[4, found] = places[word], places[word + length - 1]
                found += 1
    return found


@njit(cache=True, nogil=True)
def _grown(matches, found):
    larger = np.empty((5, 2 * matches.shape[1]), np.int64)
    larger[:, :found] = matches[:, :found]
    return larger


@njit(cache=True, nogil=True)
def _spans(offsets, words, lengths, standing, out_first, out_last, out_offsets, out_covered):
    found = 0
    for document in range(offsets.size - 1):
        end = -1
        for match in range(offsets[document], offsets[document + 1]):
            if not standing[match]:
                continue
            stop = words[match] + lengths[match]
            if words[match] > end:
                out_first[found], out_last[found] = match, match
                out_covered[document] += lengths[match]
                found += 1
                end = stop
            elif stop > end:
                out_covered[document] += stop - end
                out_last[found - 1] = match
                end = stop
        out_offsets[document + 1] = found
