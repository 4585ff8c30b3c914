"""Stages of the stream: one mixture after another, under epoch caps over all of them.

A stage becomes whole periods and, where it ends inside one, a last shorter period of exactly its shares: a *segment*
each. So every stage gives its shares exactly, and the next one starts clean. The last stage has no end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuvee.config import Recipe
from cuvee.engine.store import read_json
from cuvee.errors import DataError
from cuvee.kernels.simplex import quantize_capped
from cuvee.steps.proxies.training import matched
from cuvee.steps.store import TokenStore

TOLERANCE = 1e-6  # rows by which a sum of weights may pass a cap: rounding of floats


class Stage(NamedTuple):
    """mixture: its name, or where it was read; rows: elements of the stream; weights: (domains,)"""

    mixture: str
    rows: int
    weights: np.ndarray


class Segment(NamedTuple):
    """Periods of one length. start: first element; parts: rows of each domain in a period, int64 (domains,)"""

    start: int
    parts: np.ndarray


def stages(recipe: Recipe, tokens: TokenStore, mixture: str) -> list[Stage]:
    """What the recipe asks for, in whole rows; without stages the proposal alone. mixture: URL of the newest mixture.json"""
    asked = [(each.mixture, each.tokens) for each in recipe.stream.stages] or [("proposal", None)]
    ends = np.cumsum([count or 0 for _, count in asked[:-1]] + [0])
    ends[-1] = recipe.budget.target
    rows = np.diff(ends // tokens.seq_len, prepend=0)
    if (empty := np.flatnonzero(rows < 1)).size and recipe.stream.stages:
        raise DataError(f"stream: stage {empty[0]} holds less than one row of {tokens.seq_len} tokens. Give it more, or leave it out.")
    return [Stage(name, max(1, int(count)), _weights(name, tokens, mixture)) for (name, _), count in zip(asked, rows)]


def _weights(name: str, tokens: TokenStore, mixture: str) -> np.ndarray:
    """The weights of a named mixture, or those in another file like mixture.json; (domains,) in the order of the store."""
    url = name if name.endswith(".json") else mixture
    found = read_json(url)
    try:
        named = {each["name"]: each["weight"] for each in found["domains"]} if name in ("proposal", url) else found["baselines"][name]["weights"]
        weights = matched(named, tokens, f"{url}, {name}")
    except (KeyError, TypeError):
        raise DataError(f"{url} has no weights of the mixture '{name}'. A stage takes a mixture.json as `cuvee mix` writes it.") from None
    if abs(weights.sum() - 1) > TOLERANCE or weights.min() < 0:
        raise DataError(f"{url}: the weights of '{name}' must be >= 0 and sum to 1; they sum to {weights.sum():.6g}, the least is {weights.min():.3g}.")
    return weights / weights.sum()


def check_caps(found: list[Stage], tokens: TokenStore, max_epochs: float) -> None:
    """A DataError where the stages together repeat a domain more often than `max_epochs`: with every stage's share of it."""
    rows = np.array([domain.rows for domain in tokens.domains])
    drawn = np.array([stage.rows * stage.weights for stage in found])  # (stages, domains)
    over = np.flatnonzero(drawn.sum(axis=0) > max_epochs * rows + TOLERANCE)
    if over.size:
        worst = over[np.argmax(drawn.sum(axis=0)[over] / rows[over])]
        each = drawn[:, worst] / rows[worst]
        shares = " + ".join(f"{count:.3g} ({stage.mixture})" for count, stage in zip(each, found))
        raise DataError(f"stream: the stages repeat {over.size} domains more than mix.max_epochs = {max_epochs:g} times, {tokens.names[worst]} most: "
                        f"{shares} = {each.sum():.4g} epochs. Shorten a stage, take another mixture for it, or allow more epochs.")


def segments(found: list[Stage], most: int, room: np.ndarray) -> list[Segment]:
    """Stages as segments, with parts that keep the caps after rounding too.

    most: elements of a period; room: rows that each domain may give over all stages, (domains,), at least what they ask
    """
    made: list[Segment] = []
    start, slack = 0, room - sum(stage.rows * stage.weights for stage in found)
    for number, stage in enumerate(found):
        for length, times in _periods(stage.rows, most, last=number == len(found) - 1):
            share = stage.weights * length
            caps = np.floor(share + np.maximum(slack, 0) / times + TOLERANCE).astype(np.int64)
            try:
                parts = quantize_capped(stage.weights, length, caps)
            except ValueError as error:
                raise DataError(f"stream: stage {number} ({stage.mixture}): {error}") from None
            slack = slack - times * (parts - share)
            made.append(Segment(start, parts))
            start += round(times * length)
    return made


def _periods(rows: int, most: int, last: bool) -> list[tuple[int, float]]:
    """Lengths of a stage's periods and how many of each. The last stage repeats one length, its end inside a period or not."""
    length = min(rows, most)
    if last:
        return [(length, rows / length)]
    whole, rest = divmod(rows, length)
    return [(length, whole)] + ([(rest, 1)] if rest else [])
