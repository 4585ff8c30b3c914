"""Text of documents in the page: short, with the place that matters in sight, and two versions with their differences marked."""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from cuvee.report.markup import Html, escape, join, tag

SHORT = 240      # characters of a document in a list
LONG = 700       # characters of a document beside another
BEFORE = 120     # characters in front of the place that matters
WORDS_SOUGHT = 13  # of a place in a document, to find it in the item
JOINERS = "\u200d\u200c\ufe0e\ufe0f"
PIECES = re.compile(r"\w+|\s+|.", re.DOTALL)


def shorten(text: str, length: int = SHORT) -> str:
    """The first `length` characters, never parted from their marks, and an ellipsis where there is more."""
    return text if len(text) <= length else text[:_boundary(text, length)] + " …"


def passage(text: str | Html) -> Html:
    """A text of its own direction, whatever stands around it."""
    return tag("blockquote", text or tag("em", "no text"), dir="auto")


def span(text: str, start: int, end: int, length: int = LONG) -> Html:
    """`text` around its bytes [start, end), which are marked."""
    raw = text.encode()
    before, inside, after = (part.decode(errors="replace") for part in (raw[:start], raw[start:end], raw[end:]))
    first = _boundary(before, max(0, len(before) - BEFORE))
    lead = ("… " if first else "") + before[first:]
    return join([lead, tag("mark", shorten(inside, length - BEFORE)), shorten(after, BEFORE)])


def item(text: str, found: str) -> Html:
    """An evaluation item around the first words of `found`, which may be punctuated or written otherwise there."""
    words = re.findall(r"\w+", found[:SHORT])[:WORDS_SOUGHT]
    place = re.search(r"\W+".join(map(re.escape, words)), text, re.IGNORECASE) if words else None
    if place is None:
        return escape(shorten(text, LONG))
    return span(text, len(text[:place.start()].encode()), len(text[:place.end()].encode()))


def differences(left: str, right: str, length: int = LONG) -> tuple[Html, Html]:
    """Both texts from shortly before their first difference on, with the words marked that the other lacks."""
    common = len(os.path.commonprefix([left, right]))
    first = 0 if min(len(left), len(right), common + BEFORE) <= length else _boundary(left, max(0, common - BEFORE))
    windows = [("… " if first else "") + shorten(text[first:], length) for text in (left, right)]
    pieces = [PIECES.findall(window) for window in windows]
    found = difflib.SequenceMatcher(None, *pieces, autojunk=False).get_opcodes()
    return (_marked(pieces[0], [(start, stop) for kind, start, stop, _, _ in found if kind != "equal"]),
            _marked(pieces[1], [(start, stop) for kind, _, _, start, stop in found if kind != "equal"]))


def beside(example: Mapping[str, Any]) -> Html:
    """Two texts side by side.

    example: `kind`; `removed`, `kept` texts; `removed_name`, `kept_name` where they stand; perhaps `similarity`, `hits`,
    and `start`, `end`, the bytes of `removed` that are to be seen.
    """
    facts = [f"{name} {example[name]:.4g}" for name in ("similarity", "hits") if example.get(name) is not None]
    if example.get("start") is not None:
        left = span(example["removed"], example["start"], example["end"])
        right = item(example["kept"], example["removed"].encode()[example["start"]:example["end"]].decode(errors="replace"))
    else:
        left, right = differences(example["removed"], example["kept"])
    labels = ("in the document", "in the evaluation") if example.get("start") is not None else ("removed", "kept")
    halves = [tag("div", tag("p", label, " ", tag("code", example[name]), class_="where"), passage(text))
              for label, name, text in zip(labels, ("removed_name", "kept_name"), (left, right))]
    return tag("div", tag("h4", ", ".join([example["kind"], *facts])), tag("div", *halves, class_="pair"), class_="example")


def listed(examples: Sequence[Mapping[str, Any]]) -> Html:
    """Texts one under the other, each with where it stands and what was measured. examples: `row`, `text`, perhaps `fact`"""
    return join(tag("div", tag("p", tag("code", each["row"]), f" · {each['fact']}" if each.get("fact") else "", class_="where"),
                    passage(shorten(each["text"])), class_="example") for each in examples)


def _marked(pieces: Sequence[str], changed: Sequence[tuple[int, int]]) -> Html:
    out, at = [], 0
    for start, stop in changed:
        out += ["".join(pieces[at:start]), tag("mark", "".join(pieces[start:stop])) if stop > start else ""]
        at = stop
    return join([*out, "".join(pieces[at:])])


def _boundary(text: str, at: int) -> int:
    """The nearest place at or before `at` that parts no character from its marks."""
    while 0 < at < len(text) and (unicodedata.combining(text[at]) or text[at] in JOINERS or text[at - 1] in JOINERS[0]):
        at -= 1
    return at
