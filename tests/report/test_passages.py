from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from cuvee.report.markup import UNSEEN, escape
from cuvee.report.passages import beside, differences, item, passage, shorten, span

TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
MARK = re.compile("<mark>(.*?)</mark>", re.DOTALL)


@given(st.text())
def test_escaped_text_is_the_text_and_no_markup(text):
    shown = escape(text)
    assert not UNSEEN.search(shown) and not re.search("[<>\"']", shown)
    if not UNSEEN.search(text):
        assert html.unescape(shown) == text


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
    one, other = (MARK.sub("", side).removeprefix("… ").removesuffix(" …") for side in differences(left, right, length=10_000))
    assert one == other


def test_a_late_difference_is_in_sight():
    left, right = differences("same words " * 500 + "red end", "same words " * 500 + "blue end")
    assert left.startswith("… ") and left.endswith("<mark>red</mark> end") and right.endswith("<mark>blue</mark> end")


def test_an_item_is_found_whatever_its_punctuation():
    assert MARK.findall(item("Context. " * 99 + "Which -- METAL, is liquid? Mercury.", "which metal is liquid")) == ["Which -- METAL, is liquid"]
    assert item("short", "absent words") == "short"


def test_each_text_has_its_own_direction():
    shown = beside({"kind": "near", "similarity": 0.81234, "removed": "مرحبا", "removed_name": "a:1", "kept": "<i>x", "kept_name": "b:2"})
    assert shown.count('<blockquote dir="auto">') == 2 and "near, similarity 0.8123" in shown and "<i>" not in shown
    assert passage("") == '<blockquote dir="auto"><em>no text</em></blockquote>'
