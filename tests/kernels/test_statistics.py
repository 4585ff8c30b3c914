from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.kernels.statistics import GRAM, Statistics, statistics
from cuvee.kernels.text import buffers
from cuvee.kernels.words import tokenize


def measure(*texts: str) -> Statistics:
    buffer, offsets = buffers(pa.array(texts, pa.large_string()))
    return statistics(buffer, offsets, tokenize(buffer, offsets))


def repeated_words(words: list[str]) -> int:
    """By definition: words that stand in a 5-gram of which an earlier copy exists."""
    seen, covered = set(), set()
    for start in range(len(words) - GRAM + 1):
        gram = tuple(words[start:start + GRAM])
        if gram in seen:
            covered |= set(range(start, start + GRAM))
        seen.add(gram)
    return len(covered)


texts = st.lists(st.sampled_from(["a", "bb", "Ccc", "\n", "\n\n", "é", "+", "日"]), max_size=60).map(" ".join)


@given(st.lists(texts, min_size=1, max_size=4))
def test_statistics_are_what_their_definitions_say(documents):
    found = measure(*documents)
    for place, text in enumerate(documents):
        words = [word.casefold() for word in text.split() if word != "+"]
        lines = [line for line in text.split("\n") if line.strip()]
        again = [line for number, line in enumerate(lines) if line in lines[:number]]
        assert (found.words[place], found.unique_words[place], found.lines[place]) == (len(words), len(set(words)), len(lines))
        assert found.repetition[place] == pytest.approx(repeated_words(words) / max(len(words), 1))
        assert found.mean_word_length[place] == pytest.approx(sum(map(len, words)) / max(len(words), 1))
        held = sum(len(line.encode()) for line in lines)
        assert found.duplicate_line_share[place] == pytest.approx(sum(len(line.encode()) for line in again) / max(held, 1))
        assert found.symbol_share[place] == pytest.approx(Counter(text)["+"] / max(len(words) + Counter(text)["+"], 1))


def test_golden():
    found = measure("One two three four five. One two three four five!\nMore\nMore", "")
    assert [value.tolist() for value in found] == [[12, 0], [6, 0], [3, 0], [pytest.approx(46 / 12), 0.0],
                                                  [pytest.approx(4 / 57), 0.0], [pytest.approx(5 / 12), 0.0], [0.0, 0.0]]
    assert found.words.dtype == np.int64
