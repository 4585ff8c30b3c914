"""Text as bytes and offsets, its canonical form, and its identities.

Every text kernel reads Arrow's own buffers: UTF-8 bytes and one offset more than there are documents.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numba import njit

from cuvee.kernels.make_unicode_table import CLASS, CODE_POINTS, COMPOSES, FILE, FOLD, OPEN, UNSURE

NFC = f"unicodedata {unicodedata.unidata_version}"  # whose normal form it is: belongs in a step's `uses`
ASCII_END, TWO_END, THREE_END = 0x80, 0xE0, 0xF0  # lead bytes below these start 1, 2, 3 bytes; the others 4
FIRST_COMBINING_LEAD = 0xCC  # lead byte of U+0300; all text below it is in NFC


@cache
def unicode_table() -> tuple[np.ndarray, np.ndarray]:
    """The checked-in facts of each code point -> words uint32 (CODE_POINTS,), normal uint16 (CODE_POINTS,)"""
    with np.load(FILE) as stored:
        words, normal = stored["words"], stored["normal"]
    codes = np.arange(CODE_POINTS, dtype=np.uint32)
    return (words & ~np.uint32(FOLD)) | ((words + codes) & np.uint32(FOLD)), normal


def large(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous large_string array without nulls."""
    if texts.null_count:
        row = pc.index(pc.is_null(texts), True).as_py()
        raise ValueError(f"texts must not be null; got {texts.null_count} nulls, the first at row {row}. "
                         "Quarantine rows without text (no_text) first.")
    kind = texts.type.value_type if pa.types.is_dictionary(texts.type) else texts.type
    if not any(check(kind) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        raise TypeError(f"texts must be strings; got an Arrow array of {kind}. Name the column that holds the text.")
    texts = texts.cast(pa.large_string())
    if isinstance(texts, pa.ChunkedArray):
        chunks = texts.chunks or [pa.array([], pa.large_string())]
        texts = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    return texts


def buffers(texts: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and offsets of a string array -> uint8 (bytes,), int64 (documents + 1,) starting at 0; no copy of text"""
    texts = large(texts)
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        data, offsets = pa.py_buffer(b""), np.zeros(len(texts) + 1, np.int64)
    else:
        offsets = np.frombuffer(offsets, np.int64, count=len(texts) + 1, offset=8 * texts.offset)
    raw = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    raw.setflags(write=False)  # always: kernels are compiled once for read-only bytes, not again for writable ones
    return raw, offsets - offsets[0]


def cut(texts: pa.Array | pa.ChunkedArray, limit: int) -> list[pa.Array]:
    """Neighbouring texts in pieces of at most `limit` bytes, or one text; at least one piece."""
    array = large(texts)
    ends = np.cumsum(pc.binary_length(array).to_numpy())
    pieces, start = [], 0
    while start < len(array):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + limit, side="right")), start + 1)
        pieces.append(array.slice(start, stop - start))
        start = stop
    return pieces or [array]


def nfc(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The texts in Normalisation Form C, as large_string.

    A compiled quick check clears all but a few; only texts that it cannot clear go through `unicodedata`.
    """
    texts = large(texts)
    unclear = ~are_nfc(*buffers(texts), unicode_table()[1])
    if not unclear.any():
        return texts
    normal = [unicodedata.normalize("NFC", text) for text in texts.filter(pa.array(unclear)).to_pylist()]
    return pc.replace_with_mask(texts, pa.array(unclear), pa.array(normal, pa.large_string()))


def text_ids(texts: pa.Array | pa.ChunkedArray) -> list[str]:
    """xxh3-128 of each text's UTF-8, as 32 hex digits."""
    data, offsets = buffers(texts)
    view, cuts = memoryview(data), offsets.tolist()
    return [xxhash.xxh3_128_hexdigest(view[start:end]) for start, end in zip(cuts, cuts[1:])]


def hash64(a: str, b: object) -> int:
    """xxh3-64 of UTF-8 `a + "\\0" + str(b)`: a draw that hangs on the id and its purpose alone."""
    return xxhash.xxh3_64_intdigest(f"{a}\0{b}".encode())


def hash64_many(ids: Sequence[str] | pa.Array | pa.ChunkedArray, b: object) -> np.ndarray:
    """`hash64` of each id -> uint64 (ids,)"""
    data, offsets = buffers(ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids, pa.large_string()))
    raw, cuts, tail = data.tobytes(), offsets.tolist(), f"\0{b}".encode()
    digests = (xxhash.xxh3_64_intdigest(raw[start:end] + tail) for start, end in zip(cuts, cuts[1:]))
    return np.fromiter(digests, np.uint64, len(offsets) - 1)


def sampled(ids: Sequence[str] | pa.Array | pa.ChunkedArray, purpose: object, share: float) -> np.ndarray:
    """Which ids belong to a by-hash sample: hash64(id, purpose) under `share` of its range -> bool (ids,)

    A smaller share of one purpose gives a subset; a share of 1 gives all.
    """
    return (hash64_many(ids, purpose) >> np.uint64(11)) * 2.0**-53 < share


@njit(cache=True, nogil=True)
def decode(data, position, end):
    """The code point at `position` and its width in bytes; a malformed one reads as (0, 1), never past `end`."""
    lead = np.int64(data[position])
    if lead < ASCII_END:
        return lead, 1
    width = 2 if lead < TWO_END else 3 if lead < THREE_END else 4
    if position + width > end:
        return 0, 1
    code = lead & (0xFF >> (width + 1))
    for following in range(position + 1, position + width):
        code = (code << 6) | (np.int64(data[following]) & 0x3F)
    return (code, width) if code < CODE_POINTS else (0, 1)


@njit(cache=True, nogil=True)
def are_nfc(data, offsets, normal):
    """Texts that are surely in NFC -> bool (documents,); False means: ask `unicodedata`"""
    sure = np.ones(offsets.size - 1, np.bool_)
    for document in range(sure.size):
        highest = np.uint8(0)
        for position in range(offsets[document], offsets[document + 1]):
            highest = max(highest, data[position])
        if highest >= FIRST_COMBINING_LEAD:
            sure[document] = _is_nfc(data, offsets[document], offsets[document + 1], normal)
    return sure


@njit(cache=True, nogil=True)
def _is_nfc(data, position, end, normal):
    """Quick check of UAX 15, section 9, sharpened: a mark that may compose is fine after a starter that never does.

    Only code points from U+0300 are decoded; of those below, which are all starters, the one before a mark.
    """
    start, low = position, position
    open_starter, last_class = False, 0
    while position < end:
        if data[position] < FIRST_COMBINING_LEAD:
            position += 1
            continue
        if low < position:
            last_class = 0
            open_starter = _ends_open(data, start, position, normal)
        code, width = decode(data, position, end)
        facts = np.int64(normal[code])
        position += width
        low = position
        combining = facts & CLASS
        if facts & UNSURE or (facts & COMPOSES and open_starter) or 0 < combining < last_class:
            return False
        last_class = combining
        if combining == 0:
            open_starter = facts & OPEN != 0
    return True


@njit(cache=True, nogil=True)
def _ends_open(data, start, end, normal):
    """Whether the text before `end`, whose last code point is under U+0300, ends in a starter that may compose."""
    last = end - 1
    if last > start and data[last] >= ASCII_END:
        last -= 1
    code, _ = decode(data, last, end)
    return normal[code] & OPEN != 0
