"""HTML by small functions: whatever is not `Html` already is text, and is escaped."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

# controls that a browser drops or refuses, and marks that turn the direction of all text after them (UAX 9)
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]")
VOID = frozenset({"meta", "br", "line", "rect", "circle", "path"})
NONE = "–"


class Html(str):
    """Text that is HTML; what `str` gives is not."""

    __slots__ = ()


def escape(text: str) -> Html:
    """`text` as it will be seen: markup means nothing, controls and marks of direction are spelled out."""
    return Html(html.escape(UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))))


def join(children: Iterable[Any]) -> Html:
    return Html("".join(child if isinstance(child, Html) else escape(show(child)) for child in children))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """One element. `class_` is `class`, `font_size` is `font-size`; an attribute that is None is left out."""
    pairs = [f' {key.strip("_").replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items() if value is not None]
    start = f"<{name}{''.join(pairs)}"
    return Html(f"{start}/>" if name in VOID and not children else f"{start}>{join(children)}</{name}>")


def show(value: Any) -> str:
    """A value as people read it: 12,345 and 0.1235; a dash where there is none."""
    if value is None or isinstance(value, float) and math.isnan(value):
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def percent(part: float | None, whole: float = 1.0) -> str:
    if part is None or not whole:
        return NONE
    share = 100 * part / whole
    return f"{share:.1f} %" if share == 0 or share >= 0.1 else f"{share:.2g} %"


def size(count: float | None) -> Html:
    """Bytes in decimal units; the exact number stands in the tooltip."""
    if count is None:
        return escape(NONE)
    unit, value = "B", float(count)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if abs(value) < 999.5 or unit == "PB":
            break
        value /= 1000
    return tag("span", f"{value:.3g} {unit}", title=f"{count:,.0f} bytes")


def seconds(value: float) -> str:
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def table(heads: Sequence[Any], rows: Iterable[Sequence[Any]], total: Sequence[Any] | None = None, numbers: Iterable[int] = ()) -> Html:
    """heads: one a column. rows: of cells. A number stands to the right, as does every cell of the columns `numbers`."""
    right = frozenset(numbers)
    rows = [list(row) for row in rows]
    aligned = right | {at for row in rows for at, cell in enumerate(row) if _is_number(cell)}
    classes = ["n" if at in aligned else None for at in range(len(heads))]
    head = tag("tr", *(tag("th", each, class_=kind) for each, kind in zip(heads, classes)))
    body = [tag("tr", *(tag("td", cell, class_=kind) for cell, kind in zip(row, classes))) for row in rows]
    foot = [tag("tfoot", tag("tr", *(tag("td", cell, class_=kind) for cell, kind in zip(total, classes))))] if total else []
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body), *foot), class_="wide")


def section(anchor: str, title: str, *children: Any) -> Html:
    return tag("section", tag("h2", title), *children, id=anchor)


def note(*children: Any, kind: str = "note") -> Html:
    """A paragraph beside the figures. kind: note, good or bad"""
    return tag("p", *children, class_=kind)


def missing(step: str) -> Html:
    """What a section says whose step is not done."""
    return note("Not done yet. ", tag("code", f"cuvee run RECIPE --until {step}"), " brings the work folder this far.", kind="note missing")


def is_missing(part: Html) -> bool:
    """Whether a section says that its step is not done; texts are escaped, so none of them can say so."""
    return '<p class="note missing">' in part


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)
