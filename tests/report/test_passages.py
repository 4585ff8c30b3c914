from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.report.markup import UNSEEN, escape, percent, show, size
from cuvee.report.passages import beside, differences, item, passage, shorten, span

TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
MARKUP = re.compile("<.*?>")
MARK = re.compile("<mark>(.*?)</mark>", re.DOTALL)


@given(st.text())
def test_escaped_text_is_the_text_and_no_markup(text):
    shown = escape(text)
    assert not UNSEEN.search(shown) and not re.search("[<>\"']", shown)
    if not UNSEEN.search(text):
        assert html.unescape(shown) == text


@pytest.mark.parametrize("value, shown", [(None, "–"), (float("nan"), "–"), (True, "yes"), (1234567, "1,234,567"), (0.123456, "0.1235"),
                                         (12345.6, "12,346"), (0.0, "0"), ("<", "<")])
def test_values_are_shown_as_people_read_them(value, shown):
    assert show(value) == shown


def test_sizes_are_decimal_with_the_exact_number_beside():
    assert [MARKUP.sub("", size(count)) for count in (0, 999, 999_600, 1_230_000, 45 * 10**12)] == ["0 B", "999 B", "1 MB", "1.23 MB", "45 TB"]
    assert 'title="1,230,000 bytes"' in size(1_230_000) and (percent(1, 3), percent(1, 10**6), percent(0, 5), percent(1, 0)) == ("33.3 %", "0.0001 %", "0.0 %", "–")


def test_controls_are_spelled_out():
    assert escape("a\x00b\u202ec\r\nd\te") == "a⟨U+0000⟩b⟨U+202E⟩c\nd\te"


@given(TEXT, st.integers(1, 50))
def test_a_short_text_is_a_prefix(text, length):
    short = shorten(text, length)
    assert short == text if len(text) <= length else text.startswith(short[:-2]) and len(short) <= length + 2 and short.endswith(" …")


def test_a_mark_stays_with_its_letter():
    assert shorten("cafe\u0301 au lait", 4) == "caf …"
    assert shorten("go \U0001f468\u200d\U0001f469\u200d\U0001f467 x", 6) == "go  …"


@given(TEXT, TEXT, TEXT)
def test_a_span_is_marked_in_bytes(before, inside, after):
    start = len(before.encode())
    marked = MARK.findall(span(before + inside + after, start, start + len(inside.encode()), length=1_000))
    assert marked == [escape(inside)]


def test_a_span_far_inside_is_in_sight():
    text = "é" * 5_000 + "HERE" + "z" * 5_000
    shown = span(text, 10_000, 10_004)
    assert shown == "… " + "é" * 120 + "<mark>HERE</mark>" + "z" * 120 + " …"


@given(TEXT, TEXT)
def test_unmarked_is_what_both_texts_have(left, right):
    one, other = (re.sub("[ \t\n]", "", MARK.sub("", side)) for side in differences(left, right, length=10_000))
    assert one == other


def test_a_late_difference_is_in_sight():
    left, right = differences("same words " * 500 + "red end", "same words " * 500 + "blue end")
    assert left == "… " + ("same words " * 500)[-120:] + "<mark>red</mark> end" and right.endswith("<mark>blue</mark> end")


def test_an_item_is_found_whatever_its_punctuation():
    assert MARK.findall(item("Context. " * 99 + "Which -- METAL, is liquid? Mercury.", "which metal is liquid")) == ["Which -- METAL, is liquid"]
    assert MARK.findall(item("It ends: he shall slay the dragon that is in the sea.", "and he shall slay the dragon that is in the sea")) == \
        ["he shall slay the dragon that is in the sea"]
    assert item("short", "absent words") == "short"


def test_white_space_and_shortened_ends_are_no_difference():
    left, right = differences("one  two\nthree", "one two three four")
    assert (left, right) == ("one  two\nthree", "one two three<mark> four</mark>")
    numbers = [f"word{n}" for n in range(400)]
    left, right = differences(" ".join(numbers), " ".join(["word0", "new", *numbers[1:]]))
    assert MARK.findall(left) == [] and MARK.findall(right) == [" new"]


def test_each_text_has_its_own_direction():
    shown = beside({"kind": "near", "similarity": 0.81234, "removed": "مرحبا", "removed_name": "a:1", "kept": "<i>x", "kept_name": "b:2"})
    assert shown.count('<blockquote dir="auto">') == 2 and "near, similarity 0.8123" in shown and "<i>" not in shown
    assert passage("") == '<blockquote dir="auto"><em>no text</em></blockquote>'
