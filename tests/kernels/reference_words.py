"""Words and shingle tokens from their definition, by `unicodedata` alone: slow, plain, and shares nothing with cuvee."""

import unicodedata
from typing import NamedTuple

UNSPACED = [range(0x0E00, 0x0F00), range(0x1000, 0x10A0), range(0x1780, 0x1800), range(0x3005, 0x3008),
            range(0x3040, 0x3100), range(0x31F0, 0x3200), range(0x3400, 0x4DC0), range(0x4E00, 0xA000),
            range(0xF900, 0xFB00), range(0xFF66, 0xFFA0), range(0x20000, 0x323B0)]  # fmt: skip
INVISIBLE = {0xAD, 0x200C, 0x200D, 0x180B, 0x180C, 0x180D, 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}


class Token(NamedTuple):
    text: str  # folded
    kind: str  # word, unspaced, symbol
    letter: bool
    start: int  # byte position in the NFC text
    end: int


def fold(c: str) -> str:
    return c.casefold() if len(c.casefold()) == 1 else c.lower() if len(c.lower()) == 1 else c


def shape(c: str) -> str:
    """L, M, N inside spaced words; U for one-character words; S; ' for an apostrophe; - for all else."""
    category = unicodedata.category(c)[0]
    if category in "LMN" and any(ord(c) in block for block in UNSPACED):
        return "U"
    return category if category in "LMNS" else "'" if c in "'\u2019" else "-"


def tokens(text: str) -> list[Token]:
    """Tokens of an NFC text."""
    seen, place = [], 0
    for c in text:
        if ord(c) not in INVISIBLE:
            seen.append((c, shape(c), place))
        place += len(c.encode())
    shapes = "".join(s for _, s, _ in seen) + "--"
    found, i = [], 0
    while i < len(seen):
        j = i + 1
        if shapes[i] in "LN":
            while shapes[j] in "LMN" or (shapes[j] == "'" and shapes[j - 1] == "L" and shapes[j + 1] == "L"):
                j += 1
        if shapes[i] in "LNUS":
            found.append(_token(seen[i:j], shapes[i]))
        i = j
    return found


def _token(run: list[tuple[str, str, int]], first: str) -> Token:
    kind = {"U": "unspaced", "S": "symbol"}.get(first, "word")
    text = "".join(c if s == "S" else "'" if s == "'" else fold(c) for c, s, _ in run)
    letter = any(unicodedata.category(c)[0] == "L" for c, _, _ in run)
    return Token(text, kind, letter, run[0][2], run[-1][2] + len(run[-1][0].encode()))


def words(text: str) -> list[str]:
    return [token.text for token in tokens(text) if token.kind != "symbol"]


def token_hash(text: str) -> int:
    """The published hash: a polynomial of the code points modulo 2**64, then splitmix64's finaliser."""
    state = 0x9FB21C651E98DF25
    for c in text:
        state = (state * 0x9E3779B97F4A7C15 + ord(c)) % 2**64
    return finish(state)


def finish(state: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        state = (state ^ (state >> shift)) * factor % 2**64
    return state
