from __future__ import annotations

import re
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.kernels.text import buffers
from cuvee.kernels.units import Units, paragraphs, three_sentences
from cuvee.kernels.words import tokenize
from tests.end_to_end.brute_force import tokens

STOP, FULL, CLOSE = ".!?", "。！？｡．।॥۔؟።။", "\"')]}’”»〉》」』】）"
texts = st.lists(st.sampled_from([*"abc", "don't ", "e\u0301", "\u0301", " ", "  ", "\n", "\n\n", "\r\n", ".", "! ", "?”", "。", "」", "天", "+", "3.14", "one two three four ",
                                  "five six seven eight. "]), max_size=40).map("".join).map(lambda text: unicodedata.normalize("NFC", text))


def found(kind, documents: list[str]) -> list[list[tuple[str, int]]]:
    """Text and hash of every unit, by document."""
    buffer, offsets = buffers(pa.array(documents, pa.large_string()))
    units: Units = kind(buffer, offsets, tokenize(buffer, offsets))
    each = [(bytes(buffer[start:end]).decode(), int(value)) for value, start, end in zip(units.hashes, units.starts, units.ends)]
    return [each[start:end] for start, end in zip(units.offsets, units.offsets[1:])]


def words(text: str) -> int:
    return len(tokens(text, symbols=False))


def lines_of(text: str, least: int = 8) -> list[str]:
    """Lines of so many words, with the blank ones after them."""
    cuts = [match.end() for match in re.finditer(r"\n(?:[\x00-\x20]*\n)*(?:[\x00-\x20]+\Z)?", text)]
    return [piece for start, end in zip([0, *cuts], [*cuts, len(text)]) if tokens(piece := text[start:end], symbols=True) and words(piece) >= least]


def sentences_of(text: str) -> list[str]:
    """A character at a time, by the rule as it is written."""
    pieces, start, at = [], 0, 0
    while at < len(text):
        char, at = text[at], at + 1
        if char in STOP + FULL:
            run = re.compile(rf"[{re.escape(STOP + FULL + CLOSE)}]*").match(text, at).group()
            at += len(run)
            ends = set(char + run) & set(FULL) or at == len(text) or text[at] <= " "
        else:
            ends = char == "\n"
        if ends or at == len(text):
            at = re.compile(r"[\x00-\x20]*").match(text, at).end()
            pieces, start = [*pieces, text[start:at]], at
    return [piece for piece in pieces if tokens(piece, symbols=True)]


@given(st.lists(texts, max_size=4))
def test_paragraphs_are_the_lines_that_a_plain_reference_finds(documents):
    assert [[text for text, _ in each] for each in found(paragraphs, documents)] == [lines_of(text) for text in documents]


@given(st.lists(texts, max_size=4))
def test_windows_are_three_sentences_in_a_row(documents):
    for text, units in zip(documents, found(three_sentences, documents)):
        parts = sentences_of(text)
        windows = [parts[at:at + 3] for at in range(len(parts) - 2)]
        assert len(units) == sum(sum(map(words, window)) >= 8 for window in windows)
        long = [window for window in windows if sum(map(words, window)) >= 8]
        assert all(unit.startswith(window[0]) and unit.endswith(window[2]) for (unit, _), window in zip(units, long))


@given(st.lists(texts, min_size=1, max_size=6))
def test_hashes_are_equal_where_the_tokens_are(documents):
    units = [unit for each in found(paragraphs, documents) for unit in each]
    assert len({value for _, value in units}) == len({tuple(tokens(text, symbols=True)) for text, _ in units})


@pytest.mark.parametrize("kind, text, expected", [
    (paragraphs, "a b c d e f g h\n\n \ni j\nA, b c D e f g h!", ["a b c d e f g h\n\n \n", "A, b c D e f g h!"]),
    (paragraphs, "a b c d e f g + + +\n - \na b c d e f g h\n\n  ", ["a b c d e f g h\n\n  "]),
    (three_sentences, "春天来了!。花开了)花。鸟儿唱歌", ["春天来了!。花开了)花。鸟儿唱歌"]),
    (paragraphs, "a b c d e f g\nx + y\n  a b c d e f g h\n", ["  a b c d e f g h\n"]),
    (three_sentences, "It is 3.14 now. He said: “Go!” And so on... She went. No.", ["It is 3.14 now. He said: “Go!” And so on... ",
                                                                                         "He said: “Go!” And so on... She went. "]),
    (three_sentences, "春天来了。花开了！「好。」鸟儿唱歌", ["春天来了。花开了！「好。」", "花开了！「好。」鸟儿唱歌"])])
def test_units_golden(kind, text, expected):
    assert [unit for unit, _ in found(kind, [text])[0]] == expected
