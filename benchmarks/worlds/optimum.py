"""The best mixture of a world, as well as many starts can find it: the truth is known, so only the search can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cuvee.kernels.search import minimise
from cuvee.kernels.simplex import project_kl, uniform
from worlds.world import World

_POOL = 8192      # mixtures drawn, of which the best are starts
_STARTS = 30      # of the pool; natural and UniMax come on top
_STEP, _LEAST_STEP = 1e-5, 1e-7  # of the finite differences: half the weight between these
_POLISHED = 8     # ends that are moved on by exchanges
_ROUNDS, _MOVES = 80, 64  # of exchanges; at most, and tried in each
_SAME = 0.01      # ends this near the best, of the gain over natural, have found it too

Values = Callable[[np.ndarray], np.ndarray]  # (n, domains) -> (n,)


class Optimum(NamedTuple):
    """value, natural: the objective there and at the natural mixture; sure: share of starts that ended within 1 % of the gain."""

    weights: np.ndarray
    value: float
    natural: float
    sure: float

    def regret(self, value: float) -> float:
        """0 at the optimum, 1 at the natural mixture."""
        return (value - self.value) / (self.natural - self.value)


def optimum(world: World) -> Optimum:
    """Many descents with numeric gradients, then exchanges between pairs of domains, which need none. Same world, same answer."""
    rng, caps = np.random.default_rng([world.seed, 2]), world.caps
    ends = np.array([minimise(numeric(world.objective), start, caps, 1e-4, 300).weights for start in starts(world, rng)])
    ends = np.array([project_kl(end, caps) for end in ends])
    values = world.objective(ends)
    order = np.argsort(values, kind="stable")
    polished = [exchanged(world.objective, ends[end], caps, rng) for end in order[:_POLISHED]]
    values[order[:_POLISHED]] = [value for _, value in polished]
    weights, value = min(polished, key=lambda end: end[1])
    natural = float(world.objective(world.natural[None])[0])
    return Optimum(weights, value, natural, float((values <= value + _SAME * (natural - value)).mean()))


def starts(world: World, rng: np.random.Generator) -> np.ndarray:
    """Natural, UniMax and the best of many draws. -> (starts, domains)"""
    pool = world.drawn(_POOL, rng)
    best = pool[np.argsort(world.objective(pool), kind="stable")[:_STARTS]]
    return np.vstack([world.natural, project_kl(uniform(len(world.tokens)), world.caps), best])


def numeric(values: Values):
    """Value and differences along each weight by itself: central, one-sided at 0."""
    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        step, many = np.clip(weights / 2, _LEAST_STEP, _STEP), len(weights)
        below = np.minimum(step, weights)
        found = values(np.vstack([weights + np.diag(step), weights - np.diag(below), weights]))
        return float(found[-1]), (found[:many] - found[many:-1]) / (step + below)

    return objective


def exchanged(values: Values, weights: np.ndarray, caps: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Weight moves from one domain to another while that helps; moves get smaller where none did. -> weights, value"""
    value, size = float(values(weights[None])[0]), 0.05
    for _ in range(_ROUNDS):
        source, target = rng.integers(0, len(weights), (2, _MOVES))
        moved = np.minimum(size * np.exp(rng.uniform(-2.0, 1.0, _MOVES)), np.minimum(weights[source], caps[target] - weights[target]))
        tried = np.repeat(weights[None], _MOVES, axis=0)
        rows = np.arange(_MOVES)
        np.subtract.at(tried, (rows, source), moved)
        np.add.at(tried, (rows, target), moved)
        found = values(np.maximum(tried, 0.0))
        best = int(found.argmin())
        if found[best] < value:
            weights, value = np.maximum(tried[best], 0.0), float(found[best])
        else:
            size *= 0.7
    return weights, value
