"""CSV files of a swarm: mixtures, scores, counts, and which domains an old one became. Joined by name, never by position.

The first column of mixtures and scores is the run's key, whatever its name.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cuvee.config import MOST, parse_count
from cuvee.engine.store import exists, read_bytes
from cuvee.errors import DataError, UsageError

SUM_TOLERANCE = 0.01  # how far a run's weights may sum from 1: RegMix rounds its weights to 3 decimals, and is .996 to 1.003
SHOWN = 5         # keys or names that a message lists


@dataclass(frozen=True)
class Rows:
    """A CSV: its file, the name of its first column, its keys and its other columns, as text."""

    path: str
    first: str
    keys: list[str]
    columns: list[str]
    cells: list[list[str]]

    def number(self, row: int, column: int) -> float:
        try:
            return float(self.cells[row][column])
        except ValueError:
            raise DataError(f"{self.path}, {self.first or 'row'} {self.keys[row]}, column {self.columns[column]}: '{self.cells[row][column]}' is not a number.") from None

    def count(self, row: int, column: int) -> float:
        """A number that may be written as in a recipe, `600B`."""
        try:
            return float(parse_count(self.cells[row][column]))
        except ValueError:
            return self.number(row, column)


def read_rows(path: str) -> Rows:
    """A CSV with a header, a key in the first column, and no key or column twice."""
    if not exists(path):
        raise UsageError(f"no such file: {path}")
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}. Save it as UTF-8.") from None
    lines = [line for line in csv.reader(io.StringIO(text, newline="")) if line]
    if len(lines) < 2:
        raise DataError(f"{path}: {len(lines)} lines; a header and at least one row are needed.")
    head, cells = [name.strip() for name in lines[0]], lines[1:]
    for number, line in enumerate(cells, 1):
        if len(line) != len(head):
            raise DataError(f"{path}, row {number}: {len(line)} cells, the header has {len(head)}.")
    keys = [line[0].strip() for line in cells]
    for what, names in (("column", head[1:]), ("key", keys)):
        if "" in names:
            raise DataError(f"{path}: {what} {names.index('') + 1} has no name; give it one, or delete it.")
    for what, names in (("column", head), ("key", keys)):
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
        if twice:
            raise DataError(f"{path}: {what} {', '.join(twice[:SHOWN])} occurs more than once; each must be there once.")
    return Rows(path, head[0], keys, head[1:], [line[1:] for line in cells])


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str | None]) -> None:
    """Raise where a file to be written is a folder, or one that the same call reads or writes too. outputs: option -> path"""
    taken = {os.path.realpath(path) for path in inputs if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        if os.path.isdir(path):
            raise UsageError(f"{option} {path} is a folder; name a file")
        if os.path.realpath(path) in taken:
            raise UsageError(f"{option} {path}: the same call reads or writes that file too, and it would be lost. Name another.")
        taken.add(os.path.realpath(path))


def read_mixtures(path: str) -> tuple[Rows, np.ndarray]:
    """Weights, divided by their sum. -> rows, (runs, domains)"""
    rows = read_rows(path)
    if not rows.columns:
        raise DataError(f"{path}: there is no domain beside the column {rows.first}.")
    weights = np.array([[rows.number(row, column) for column in range(len(rows.columns))] for row in range(len(rows.keys))])
    bad = np.argwhere(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        row, column = bad[0]
        raise DataError(f"{path}, run {rows.keys[row]}, domain {rows.columns[column]}: weight {weights[row, column]:g}; weights are finite and >= 0.")
    sums = weights.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE + 1e-12)
    if len(off):
        raise DataError(f"{path}, run {rows.keys[off[0]]}: weights sum to {sums[off[0]]:.6g}; they must sum to 1, give or take {SUM_TOLERANCE}.")
    return rows, weights / sums[:, None]


def read_scores(path: str, keys: Sequence[str], mixtures: str) -> tuple[list[str], np.ndarray]:
    """Scores in the order of `keys`, NaN where a cell is empty or NaN. -> tasks, (runs, tasks)"""
    rows = read_rows(path)
    if not rows.columns:
        raise DataError(f"{path}: there is no task beside the column {rows.first}.")
    same_names("run", (mixtures, keys), (path, rows.keys))
    at = {key: row for row, key in enumerate(rows.keys)}
    values = np.array([[_score(rows, at[key], column) for column in range(len(rows.columns))] for key in keys])
    return rows.columns, values


def _score(rows: Rows, row: int, column: int) -> float:
    if rows.cells[row][column].strip() == "":
        return math.nan
    value = rows.number(row, column)
    if math.isinf(value):
        raise DataError(f"{rows.path}, run {rows.keys[row]}, task {rows.columns[column]}: {value} is not a score. Leave the cell empty where a run failed.")
    return value


def read_counts(path: str, domains: Sequence[str], where: str) -> np.ndarray:
    """Tokens of `domains` from a CSV `domain,tokens`. -> (domains,) > 0"""
    rows = read_rows(path)
    if rows.columns != ["tokens"]:
        raise DataError(f"{path}: columns {rows.first}, {', '.join(rows.columns)}; a CSV of counts has domain,tokens.")
    same_names("domain", (where, domains), (path, rows.keys))
    tokens = {key: rows.count(row, 0) for row, key in enumerate(rows.keys)}
    for name, count in tokens.items():
        if count > MOST:
            raise DataError(f"{path}, domain {name}: {count:g} tokens; {MOST:.0e} is the most.")
        if not (math.isfinite(count) and count > 0):
            raise DataError(f"{path}, domain {name}: {count:g} tokens; it must have some. Leave a domain without tokens out of all files.")
    return np.array([tokens[name] for name in domains])


def read_map(path: str, domains: Sequence[str], old: Sequence[str], mixtures: str) -> dict[str, str | None]:
    """Which old domain each domain is part of, from a CSV `domain,old`; an empty cell says that its texts are new.

    domains: of now; old: of the old runs, whose file is `mixtures`. Every old domain must have a part.
    """
    rows = read_rows(path)
    if rows.columns != ["old"]:
        raise DataError(f"{path}: columns {rows.first}, {', '.join(rows.columns)}; a map has domain,old.")
    same_names("domain", (path, rows.keys), ("the new mixtures", domains))
    found = {key: cells[0].strip() or None for key, cells in zip(rows.keys, rows.cells)}
    same_names("old domain", (path, [name for name in dict.fromkeys(found.values()) if name is not None]), (mixtures, old))
    return found


def read_groups(path: str, domains: Sequence[str], where: str) -> tuple[list[str], list[int]]:
    """Topic and quality band of `domains` from a CSV `domain,topic,band`; a band is a whole number, or q and one, higher is better."""
    rows = read_rows(path)
    if rows.columns != ["topic", "band"]:
        raise DataError(f"{path}: columns {rows.first}, {', '.join(rows.columns)}; a CSV of groups has domain,topic,band.")
    same_names("domain", (where, domains), (path, rows.keys))
    found = {key: (topic.strip(), _band(path, key, band.strip())) for key, (topic, band) in zip(rows.keys, rows.cells)}
    return [found[name][0] for name in domains], [found[name][1] for name in domains]


def _band(path: str, domain: str, text: str) -> int:
    number = text.removeprefix("q")
    if not number.isdecimal():
        raise DataError(f"{path}, domain {domain}: band '{text}'; a band is a whole number such as 5, or q5, and a higher one is better text.")
    return int(number)


def same_names(what: str, one: tuple[str, Sequence[str]], other: tuple[str, Sequence[str]]) -> None:
    """Raise where two files do not name the same; each is its path and its names."""
    for (path, names), (beside, known) in ((one, other), (other, one)):
        seen = set(known)
        only = [name for name in names if name not in seen]
        if only:
            more = f" and {len(only) - SHOWN} more" if len(only) > SHOWN else ""
            raise DataError(f"{len(only)} {what}s of {path} are not in {beside}: {', '.join(only[:SHOWN])}{more}. Both must name the same {what}s.")
