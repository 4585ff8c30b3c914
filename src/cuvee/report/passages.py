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
SOUGHT, RUN = 60, 8  # words of a place in a document that are looked for in the item; that many in a row at least
JOINERS = "\u200d\u200c\ufe0e\ufe0f"
BLANK = " \t\n"
PIECES = re.compile(rf"\w+|[{BLANK}]+|.", re.DOTALL)


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
    """An evaluation item around the words that it shares with `found`, which may be punctuated or written otherwise there."""
    words = re.findall(r"\w+", found)[:SOUGHT]
    first, place = next(((first, place) for first in range(max(1, len(words) - RUN + 1)) if (place := _place(text, words[first:first + RUN]))), (0, None))
    if place is None:
        return escape(shorten(text, LONG))
    for last in range(first + RUN + 1, len(words) + 1):
        longer = _place(text, words[first:last])
        if longer is None:
            break
        place = longer
    return span(text, len(text[:place.start()].encode()), len(text[:place.end()].encode()))


def _place(text: str, words: Sequence[str]) -> re.Match[str] | None:
    return re.search(r"\W+".join(map(re.escape, words)), text, re.IGNORECASE) if words else None


def differences(left: str, right: str, length: int = LONG) -> tuple[Html, Html]:
    """Both texts from shortly before their first difference on, with the words marked that the other lacks.

    White space is no difference, nor is an end that only one of the two shows because it is shortened.
    """
    common = len(os.path.commonprefix([left, right]))
    first = 0 if min(len(left), len(right), common + BEFORE) <= length else _boundary(left, max(0, common - BEFORE))
    windows = [text[first:_boundary(text, first + length)] for text in (left, right)]
    pieces = [PIECES.findall(window.replace("\r\n", "\n")) for window in windows]
    found = difflib.SequenceMatcher(None, *([piece.strip(BLANK) for piece in side] for side in pieces), autojunk=False).get_opcodes()
    cut = [first + len(window) < len(text) for window, text in zip(windows, (left, right))]
    if any(cut) and found[-1][0] != "equal":
        found.pop()
    changed = [[(op[side], op[side + 1]) for op in found if op[0] != "equal"] for side in (1, 3)]
    return tuple(join(["… " if first else "", _marked(*side), " …" if more else ""]) for *side, more in zip(pieces, changed, cut))


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
        changes = "".join(pieces[start:stop])
        out += ["".join(pieces[at:start]), changes if not changes.strip(BLANK) else tag("mark", changes)]
        at = stop
    return join([*out, "".join(pieces[at:])])


def _boundary(text: str, at: int) -> int:
    """The nearest place at or before `at` that parts no character from its marks."""
    while 0 < at < len(text) and (unicodedata.combining(text[at]) or text[at] in JOINERS or text[at - 1] in JOINERS[0]):
        at -= 1
    return at
