"""Where a span of changed text stands in the text that it was changed from.

A change is a list of pieces, one after another: piece i takes bytes before[i]:before[i+1] of the old text to bytes
after[i]:after[i+1] of the new one; where `copied` they are the same bytes, so positions inside it carry over.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from cuvee.kernels.make_unicode_table import CLASS, COMPOSES, UNSURE
from cuvee.kernels.text import unicode_table


class Pieces(NamedTuple):
    after: np.ndarray  # int64 (pieces + 1,), bytes of the new text, from 0
    before: np.ndarray  # int64 (pieces + 1,), bytes of the old text, from 0
    copied: np.ndarray  # bool (pieces,)

    def starts(self, positions: np.ndarray) -> np.ndarray:
        """Starts of spans in the new text -> in the old text; inside a piece that is not copied, its start."""
        piece = np.searchsorted(self.after[:-1], positions, side="right") - 1
        return self.before[piece] + np.where(self.copied[piece], positions - self.after[piece], 0)

    def ends(self, positions: np.ndarray) -> np.ndarray:
        """Ends of spans likewise; inside a piece that is not copied, its end."""
        piece = np.maximum(np.searchsorted(self.after[:-1], positions, side="left") - 1, 0)
        return np.where(self.copied[piece], self.before[piece] + positions - self.after[piece], self.before[piece + 1])


def pieces(lengths: Iterable[tuple[int, int, bool]]) -> Pieces:
    """lengths: (bytes of the new text, bytes of the old text, copied) of each piece"""
    new, old, copied = (np.array(column, np.int64) for column in zip(*lengths))
    return Pieces(np.concatenate([[0], np.cumsum(new)]), np.concatenate([[0], np.cumsum(old)]), copied.astype(bool))


def normalised(text: str) -> Pieces:
    """What NFC does to a text: pieces that start where no normalisation reaches across (UAX 15, section 9.1)."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    if not len(codes):
        return pieces([(0, 0, True)])
    safe, changed, sizes = _facts(codes)
    safe[0] = True
    starts = np.flatnonzero(safe)
    ends = np.append(starts[1:], len(codes))
    old = np.add.reduceat(sizes, starts)
    new, copied = old.copy(), np.ones(len(starts), bool)
    for place in np.flatnonzero((ends - starts > 1) | np.maximum.reduceat(changed, starts)):
        piece = text[starts[place]:ends[place]]
        normal = unicodedata.normalize("NFC", piece)
        new[place], copied[place] = len(normal.encode()), normal == piece
    return pieces(zip(new, old, copied))


def _facts(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per code point: a piece may start here, NFC may change it alone, its bytes in UTF-8."""
    facts = unicode_table()[1][codes]
    safe, changed = (facts & (CLASS | COMPOSES)) == 0, (facts & UNSURE) != 0
    for code in np.unique(codes[changed & safe]).tolist():
        safe[codes == code] = _starts_apart(code)
    return safe, changed, 1 + (codes >= 0x80) + (codes >= 0x800).astype(np.int64) + (codes >= 0x10000)


@cache
def _starts_apart(code: int) -> bool:
    """Whether the first code point of the decomposition never joins or moves before what precedes it."""
    first = ord(unicodedata.normalize("NFD", chr(code))[0])
    return not unicode_table()[1][first] & (CLASS | COMPOSES) and unicodedata.combining(chr(first)) == 0


def edited(size: int, edits: Iterable[dict[str, object]]) -> Pieces:
    """What `apply_edits` does to a text. size: bytes of the new text; edits: start, end, replacement, of the old one

    Where two edits overlap, the earlier one wins and the other only deletes.
    """
    found: list[tuple[int, int, bool]] = []
    at = new = 0
    for edit in sorted(edits, key=lambda edit: (edit["start"], edit["end"])):
        start, end, replacement = edit["start"], edit["end"], 0
        if start >= at:
            found.append((start - at, start - at, True))
            replacement, new = len(edit["replacement"].encode()), new + start - at
            at = start
        found.append((replacement, max(end - at, 0), False))
        new, at = new + replacement, max(at, end)
    return pieces([*found, (size - new, size - new, True)])
