"""The frontier: the best mixture at every pull towards the natural shares, from none to strong.

Read from the strong end it says what the first step away from the data's own shares buys, and from the other what the
last SD of predicted gain costs in repetition.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import rel_entr

from cuvee.engine.store import write_bytes
from cuvee.kernels.simplex import epochs
from cuvee.steps.mixing.problem import Mean, Problem

GRID = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # kl, SDs of the swarm a nat
TOLERANCE = 1e-5  # kkt, in SDs of the swarm
FULL = 1e-6       # of a cap: a weight this near to it is at it


class Point(NamedTuple):
    """A pull and the mixture of least objective under it. divergence: KL(weights || natural), nats"""

    kl: float
    weights: np.ndarray  # (domains,)
    predicted: Mean
    divergence: float
    max_epochs: float
    capped: tuple[str, ...]  # domains that are at their cap
    chosen: bool  # it is the proposal


def frontier(problem: Problem, caps: np.ndarray, chosen: np.ndarray) -> list[Point]:
    """A point for each kl of GRID and that of the problem, whose mixture is `chosen`, (domains,).

    Each search starts where its neighbour ended, from `chosen` outwards, so all of them cost about one cold one.
    """
    own = problem.config.kl
    found = {own: chosen}
    for side in (sorted(kl for kl in GRID if kl > own), sorted((kl for kl in GRID if kl < own), reverse=True)):
        last = chosen
        for kl in side:
            objective = problem.objective(problem.fits, kl, problem.config.risk)
            last = problem.search(objective, problem.protection(np.zeros(len(problem.config.protect))), last, caps, TOLERANCE)[0].weights
            found[kl] = last / last.sum()
    return [_point(problem, caps, kl, weights, kl == own) for kl, weights in sorted(found.items())]


def _point(problem: Problem, caps: np.ndarray, kl: float, weights: np.ndarray, chosen: bool) -> Point:
    full = (weights >= caps * (1 - FULL)) & (caps < 1)
    capped = tuple(name for name, at in zip(problem.surrogate.domains, full) if at)
    passes = epochs(weights, problem.budget, problem.tokens)
    return Point(kl, weights, problem.at(weights), float(rel_entr(weights, problem.natural).sum()), float(passes.max()), capped, chosen)


def described(points: Sequence[Point]) -> list[dict[str, Any]]:
    """As `mixture.json` has them, without the weights."""
    return [{"kl": point.kl, **point.predicted._asdict(), "divergence": point.divergence, "max_epochs": point.max_epochs,
             "capped": list(point.capped), "chosen": point.chosen} for point in points]


def write_csv(path: str, domains: Sequence[str], points: Sequence[Point]) -> None:
    """A row for each point, with the weight of each domain; floats by repr."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kl", "predicted", "sd", "divergence", "max_epochs", "capped", "chosen", *domains])
    for point in points:
        numbers = (point.kl, *point.predicted, point.divergence, point.max_epochs)
        writer.writerow([*map(repr, numbers), len(point.capped), int(point.chosen), *map(repr, point.weights.tolist())])
    write_bytes(path, text.getvalue().encode())
