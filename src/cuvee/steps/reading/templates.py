"""Templates of evaluation records: text with columns in braces; `{choices[answer]}` is the choice that `answer` points at.

What points at a choice is its number, counted from 0, or its letter: 2, "2" and "C" are the third.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any, NamedTuple

from cuvee.errors import UsageError

NAME = re.compile(r"([^][.{}]*[^][.{}\d][^][.{}]*)(?:\[([^][.{}]+)\])?")  # a column, not only digits; maybe the column that points into it


class Piece(NamedTuple):
    """Literal text, then the value of a column where there is one; `pointer` is the column that says which item of its list."""

    literal: str
    column: str | None = None
    pointer: str | None = None


def parse(template: str) -> list[Piece]:
    """The pieces of a template; one without braces is the name of a column."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise UsageError(f"'{template}' is no template: {error}. Write columns in braces; a brace of the text is written twice.") from None
    pieces = [_piece(template, *part) for part in parts]
    if not template:
        raise UsageError("'' is no template: write a column name, or columns in braces, as in '{question}\\n'.")
    return pieces if any(piece.column for piece in pieces) else [Piece("", template)]


def _piece(template: str, literal: str, name: str | None, spec: str | None, conversion: str | None) -> Piece:
    if name is None:
        return Piece(literal)
    found = NAME.fullmatch(name)
    if not found or spec or conversion:
        raise UsageError(f"'{template}' is no template: write column names alone in braces, as in '{{question}}', or a list and the column "
                         "that points into it, as in '{choices[answer]}'.")
    return Piece(literal, found[1], found[2])


def columns(template: str) -> list[str]:
    """The columns that a template needs, in order."""
    return list(dict.fromkeys(name for piece in parse(template) for name in (piece.column, piece.pointer) if name))


def render(template: str, record: Mapping[str, Any]) -> str | None:
    """The text of a record; None where a value is missing, is no text or number, or points at no choice."""
    texts = []
    for piece in parse(template):
        value = "" if piece.column is None else _text(_value(piece, record))
        if value is None:
            return None
        texts += [piece.literal, value]
    return "".join(texts)


def _value(piece: Piece, record: Mapping[str, Any]) -> Any:
    value = record.get(piece.column or "")
    if piece.pointer is None:
        return value
    place = _place(record.get(piece.pointer))
    return value[place] if isinstance(value, list) and place is not None and 0 <= place < len(value) else None


def _place(pointer: Any) -> int | None:
    """2, "2", "C" and "c" -> 2"""
    if isinstance(pointer, str) and re.fullmatch("[A-Za-z]", pointer.strip()):
        return ord(pointer.strip().upper()) - ord("A")
    if isinstance(pointer, str) and re.fullmatch("[0-9]+", pointer.strip()):
        return int(pointer)
    return pointer if isinstance(pointer, int) and not isinstance(pointer, bool) else None


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
