"""Documents to rows of seq_len + 1 tokens: `pack_concat` joins and cuts, `pack_fit` keeps documents whole where it can.

Both take documents flat (`tokens`, `offsets`) and end every document, the last one too, with EOS. A row is
seq_len + 1 tokens because a model reads row[:-1] and predicts row[1:]; rows do not overlap, so each row trains on
seq_len tokens, and tokens of a domain are rows x seq_len everywhere, padding included. `predicted` says which of them
a loss may count. Rows stand in the order of the documents, so that the first rows of documents in random order are a
random subset.
"""

from typing import NamedTuple

import numpy as np
from numba import njit


class Packed(NamedTuple):
    """Rows and what did not become training text: documents' tokens with EOS = rows.size - padding + dropped."""

    rows: np.ndarray  # (n, seq_len + 1), dtype of the tokens
    dropped: int  # tokens of the last, partial row
    padding: int  # places filled with EOS after a row's last document


def pack_concat(tokens: np.ndarray, offsets: np.ndarray, eos: int, seq_len: int) -> Packed:
    """Join documents by EOS and cut the result into rows; the last partial row is dropped and counted.

    tokens: (total,) integers · offsets: (documents + 1,), document i is tokens[offsets[i]:offsets[i + 1]]
    """
    tokens, offsets, eos = _checked(tokens, offsets, eos, seq_len)
    joined = np.insert(tokens[offsets[0] : offsets[-1]], offsets[1:] - offsets[0], eos)
    whole = joined.size // (seq_len + 1) * (seq_len + 1)
    return Packed(joined[:whole].reshape(-1, seq_len + 1), joined.size - whole, 0)


def pack_fit(tokens: np.ndarray, offsets: np.ndarray, eos: int, seq_len: int) -> Packed:
    """Best-fit decreasing: the longest piece first, each into the fullest row that holds it, else into a new row.

    A document with its EOS is one piece; one longer than a row is cut in row-sized pieces, of which only the last one
    shares its row. Equal pieces go in document order, equal rows newest first. The rest of a row is filled with EOS.
    ("Fewer truncations improve language modeling", Ding et al., ICML 2024, sec. 3.) Rows are then put in the order of
    the documents of their longest pieces: as packed, the longest texts would stand first.
    """
    tokens, offsets, eos = _checked(tokens, offsets, eos, seq_len)
    width = seq_len + 1
    document, start, length = _pieces(offsets, width)
    order = np.lexsort((start, -length))
    row, place, count = _best_fit(length[order], width)
    row = _ranks(document[order][place == 0])[row]
    rows = np.full((count, width), eos, tokens.dtype)
    last = offsets[document[order] + 1]
    _fill(rows, tokens, start[order], np.minimum(start[order] + length[order], last), row, place)
    return Packed(rows, 0, rows.size - int(length.sum()))


def predicted(rows: np.ndarray, eos: int) -> np.ndarray:
    """Which targets row[1:] a loss counts: all but an EOS that follows an EOS, for that is what padding looks like.

    A loss that counted them would teach that EOS follows EOS. In rows of `pack_concat` only an empty document gives one.
    rows: (..., seq_len + 1), of numpy or jax  ->  bool (..., seq_len)
    """
    return (rows[..., :-1] != eos) | (rows[..., 1:] != eos)


@njit(cache=True, nogil=True)
def copy_rows(rows, places, out, where):
    """out[where[i]] = rows[places[i]], in the type of `out`; rows may be a map of a file. places, where: int64 (many,)"""
    for i in range(places.size):
        row, copy = rows[places[i]], out[where[i]]
        for t in range(row.size):  # over both indexed in place this is 4x slower
            copy[t] = row[t]


def _checked(tokens: np.ndarray, offsets: np.ndarray, eos: int, seq_len: int):
    tokens, offsets = np.ascontiguousarray(tokens), np.ascontiguousarray(offsets, np.int64)
    if seq_len < 1:
        raise ValueError(f"a row must predict at least one token; got seq_len = {seq_len}.")
    if not 0 <= eos <= np.iinfo(tokens.dtype).max:
        raise ValueError(f"EOS {eos} does not fit into tokens of type {tokens.dtype}; use a wider type.")
    if offsets.size < 1 or (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > tokens.size:
        raise ValueError(f"offsets must rise from >= 0 to at most {tokens.size} (the number of tokens); got {offsets.size} "
                         f"offsets from {offsets[:1]} to {offsets[-1:]}.")
    return tokens, offsets, tokens.dtype.type(eos)


def _pieces(offsets: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Document, first token and length (EOS counted) of each piece, three int64 arrays in document order."""
    lengths = np.diff(offsets) + 1
    cuts = -(-lengths // width)
    document = np.repeat(np.arange(lengths.size), cuts)
    inside = np.arange(document.size) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    length = np.minimum(width, lengths[document] - inside * width)
    return document, offsets[document] + inside * width, length


def _ranks(first: np.ndarray) -> np.ndarray:
    """New number of each row, in the order of the documents that opened them; a document's rows in reading order."""
    ranks = np.empty(first.size, np.int64)
    ranks[np.argsort(first, kind="stable")] = np.arange(first.size)
    return ranks


@njit(cache=True, nogil=True)
def _best_fit(length, width):
    """Row and place in it of each piece (longest first), and the number of rows. Rows with equal room form a stack."""
    row, place = np.empty(length.size, np.int64), np.empty(length.size, np.int64)
    top, below = np.full(width + 1, -1, np.int64), np.empty(length.size, np.int64)
    count = 0
    for i in range(length.size):
        room = length[i]
        while room < width and top[room] < 0:
            room += 1
        if room < width:
            row[i] = top[room]
            top[room] = below[row[i]]
        else:
            room, row[i] = width, count
            count += 1
        place[i] = width - room
        room -= length[i]
        below[row[i]] = top[room]
        top[room] = row[i]
    return row, place, count


@njit(cache=True, nogil=True)
def _fill(rows, tokens, start, stop, row, place):
    """Copy tokens[start:stop] of each piece into its row; an EOS that ends the piece is there already."""
    for i in range(row.size):
        for t in range(stop[i] - start[i]):
            rows[row[i], place[i] + t] = tokens[start[i] + t]
