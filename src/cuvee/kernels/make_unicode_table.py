"""Write unicode_table.npz, what the tokeniser and the NFC check know of each code point.

    python -m cuvee.kernels.make_unicode_table

Facts come from the `unicodedata` of the running Python; the file names that Unicode version. It is checked in, so that
every Python cuts words alike. Run it under the oldest supported Python (3.11: Unicode 14.0), whose facts hold in all
newer ones; a code point assigned later is no part of a word.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("unicode_table.npz")
CODE_POINTS = 0x110000

# Word table, uint32: the folded code point in bits 0-20, facts above.
FOLD = 0x1FFFFF
LETTER, MARK, NUMBER, SIGN, ALONE, SKIPPED, APOSTROPHE = (1 << bit for bit in range(21, 28))

# Normal table, uint16: the canonical combining class in bits 0-7, facts above.
CLASS = 0xFF
UNSURE = 1 << 8  # NFC changes it, or it is unassigned: only `unicodedata` can tell
COMPOSES = 1 << 9  # may merge into the starter before it (NFC_QC=Maybe)
OPEN = 1 << 10  # a starter into which something may merge, or which decomposes

UNSPACED_RANGES = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3040, 0x30FF), (0x31F0, 0x31FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x323AF),
)  # fmt: skip
# Soft hyphen, ZWNJ, ZWJ, and Variation_Selector=Yes (PropList.txt).
SKIPPED_RANGES = (
    (0x00AD, 0x00AD), (0x200C, 0x200D), (0x180B, 0x180D), (0x180F, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF),
)  # fmt: skip
HANGUL_LEAD, HANGUL_VOWEL, HANGUL_TAIL = (0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)  # Unicode 3.12


def fold(character: str) -> int:
    """One-to-one case folding: casefold if that is one code point, else lower if one, else the character."""
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return ord(folded)
    return ord(character)


def word_entry(code: int) -> int:
    """The word table's entry; only letters, marks and numbers are folded, all others keep their own code point."""
    if any(low <= code <= high for low, high in SKIPPED_RANGES):
        return SKIPPED | code
    if code in (0x27, 0x2019):
        return APOSTROPHE | 0x27
    character = chr(code)
    kind = {"L": LETTER, "M": MARK, "N": NUMBER, "S": SIGN}.get(unicodedata.category(character)[0], 0)
    if kind in (0, SIGN):
        return kind | code
    unspaced = any(low <= code <= high for low, high in UNSPACED_RANGES)
    return kind | fold(character) | (ALONE if unspaced else 0)


def word_table() -> np.ndarray:
    """-> uint32 (CODE_POINTS,)"""
    return np.fromiter(map(word_entry, range(CODE_POINTS)), np.uint32, CODE_POINTS)


def normal_table() -> np.ndarray:
    """Facts for the NFC quick check (Unicode Standard Annex 15, section 9)  ->  uint16 (CODE_POINTS,)"""
    table = np.zeros(CODE_POINTS, np.uint16)
    for code in range(CODE_POINTS):
        character = chr(code)
        table[code] |= unicodedata.combining(character)
        if unicodedata.category(character) == "Cn" or unicodedata.normalize("NFC", character) != character:
            table[code] |= UNSURE
        if unicodedata.normalize("NFD", character) == character:
            continue
        table[code] |= OPEN
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and unicodedata.normalize("NFC", character) == character:
            table[int(parts[0], 16)] |= OPEN
            table[int(parts[1], 16)] |= COMPOSES
    table[HANGUL_LEAD[0] : HANGUL_LEAD[1] + 1] |= OPEN
    for low, high in (HANGUL_VOWEL, HANGUL_TAIL):
        table[low : high + 1] |= COMPOSES
    return table


def main() -> None:
    """Words are stored as distance from their own code point, which packs ninety times smaller."""
    words = word_table()
    codes = np.arange(CODE_POINTS, dtype=np.uint32)
    shift = ((words & FOLD) - codes) & FOLD
    np.savez_compressed(FILE, version=np.array(unicodedata.unidata_version), normal=normal_table(),
                        words=(words & ~np.uint32(FOLD)) | shift)
    sys.stdout.write(f"{FILE.name}: Unicode {unicodedata.unidata_version}, {FILE.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
