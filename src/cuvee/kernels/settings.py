"""Which settings a law has for a task: inner cross-validation over a grid, then by ever smaller factors.

A setting is `kappa` (the floor), `penalty` (the ridge) or one of the law's own; domains that are topic x band have a
second form, with the setting `deviation`, and the form that predicts better out of fold is taken.
"""
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numba import njit

from cuvee.kernels.factored import Factors, fit_factored
from cuvee.kernels.ridge import fit_exponential, growth
from cuvee.kernels.runs import Runs, anchor, repeat_noise, repeats

FREE, FACTORED = "free", "topic x band"
# floor = anchor - kappa gap; under 1 it lies above the best run: from 512 RegMix runs the log-linear law then ranks the
# 1M test set at .967, with kappa >= 1 at .93
KAPPAS = (0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # ridge in units of the features' mean variance
DEVIATIONS = (None, 1.0, 0.1, 0.01, 1e-3, 1e-4)  # ridge on what a domain has beside its topic and band, same unit; None: nothing
_START = {"kappa": 0.85, "penalty": 1e-3}
_FACTORS = (1.4, 1.2, 1.2, 1.1, 1.05)  # how far each setting but the ridges is then moved, both ways
_ROUNDS = 5  # passes over the blocks of settings, fewer where one changes nothing
_SEARCH_STEPS, FINAL_STEPS = 3, 50  # Gauss-Newton steps while settings are compared, and at the end


@dataclass(frozen=True)
class Design:
    """A law's features of the runs; those of its grid are kept, for the next task."""

    law_of: type
    runs: Runs
    _kept: dict = field(default_factory=dict)

    @cached_property
    def grid(self) -> dict:
        return self.law_of.grid(self.runs)

    @cached_property
    def groups(self) -> np.ndarray:
        return repeats(self.runs.weights)

    @cached_property
    def splits(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows that are fitted and rows that are held out, fold by fold."""
        fold = self.runs.folds
        return [(np.flatnonzero(fold != held), np.flatnonzero(fold == held)) for held in range(fold.max() + 1)]

    def features(self, settings: dict) -> np.ndarray:
        """(runs, k)"""
        key = tuple((name, settings[name]) for name in self.grid)
        if key in self._kept:
            return self._kept[key]
        found = np.ascontiguousarray(self.law_of.of(settings, self.runs).features(self.runs.weights, self.runs.exposure))
        if all(value in self.grid[name] for name, value in key):
            self._kept[key] = found
        return found


class Solved(NamedTuple):
    """coefficients: (k,); factors: what they are made of, in the form topic x band"""

    floor: float
    intercept: float
    coefficients: np.ndarray
    factors: Factors | None


@njit(cache=True, nogil=True)
def mean_variance(features):
    """Mean over columns of their variance. (runs, k) -> float"""
    total = 0.0
    for column in range(features.shape[1]):
        total += features[:, column].var()
    return total / features.shape[1]


@dataclass(frozen=True)
class Scored:
    """One task's scores of the design's runs, and what a choice of settings gives on them."""

    design: Design
    scores: np.ndarray

    @cached_property
    def noise(self) -> float:
        return repeat_noise(self.scores, self.design.groups)

    def floor(self, kappa: float) -> float:
        """anchor - max(kappa gap, 3 noise), gap = anchor - best, at least the noise. Of all runs, in every fold."""
        middle = anchor(self.scores, self.design.groups)
        gap = max(middle - self.scores.min(), self.noise)
        return middle - max(kappa * gap, 3 * self.noise, 1e-9 * (1 + abs(middle)))

    def solve(self, settings: dict, features: np.ndarray, scores: np.ndarray, steps: int) -> Solved:
        """Fit some of the runs: their features and scores."""
        floor, unit, count = self.floor(settings["kappa"]), mean_variance(features), features.shape[1]
        lower, centre, penalty, factors = np.full(count, self.design.law_of.lowest), np.zeros(count), settings["penalty"], None
        if settings["form"] == FACTORED:
            grid = self.design.runs.grid
            intercept, factors = fit_factored(features, grid, scores, floor, penalty * unit, steps)
            centre, penalty = factors.coefficients(grid, count - len(grid.topics)), settings["deviation"]
            if penalty is None:
                return Solved(floor, intercept, centre, factors)
        return Solved(floor, *fit_exponential(features, scores, floor, penalty * unit, lower, centre, steps), factors)

    def by_fold(self, settings: dict, steps: int):
        """Yield each fold's rows with their predictions from the other folds."""
        features = self.design.features(settings)
        for kept, held in self.design.splits:
            found = self.solve(settings, features[kept], self.scores[kept], steps)
            yield held, found.floor + growth(features[held], found.intercept, found.coefficients)

    def out_of_fold(self, settings: dict) -> np.ndarray:
        """-> (runs,)"""
        predicted = np.empty(len(self.scores))
        for rows, values in self.by_fold(settings, FINAL_STEPS):
            predicted[rows] = values
        return predicted

    def loss(self, settings: dict, limit: float) -> float:
        """Sum of squared errors out of fold; inf as soon as it passes `limit`, which saves most of the work."""
        total = 0.0
        for rows, predicted in self.by_fold(settings, _SEARCH_STEPS):
            total += ((predicted - self.scores[rows]) ** 2).sum()
            if total > limit:
                return np.inf
        return float(total)

    def best(self) -> tuple[dict, np.ndarray]:
        """Settings of the form that predicts better, and its predictions out of fold (runs,)."""
        start = {**{name: values[(len(values) - 1) // 2] for name, values in self.design.grid.items()}, **_START}
        both = self.design.law_of.factors and self.design.runs.grid is not None
        tried = []
        for form in (FREE, FACTORED) if both else (FREE,):
            found = self.choose({**start, "form": form, "deviation": None})
            tried.append((found, self.out_of_fold(found)))
        return min(tried, key=lambda each: ((each[1] - self.scores) ** 2).sum())

    def choose(self, start: dict) -> dict:
        """Settings of least loss: block by block over the grid, then by ever smaller factors around the best."""
        grid = {**self.design.grid, "kappa": KAPPAS, "penalty": PENALTIES}
        best, least = start, self.loss(start, np.inf)
        for _ in range(_ROUNDS):
            before = least
            for block in (*self.design.law_of.blocks, ("kappa",), ("penalty",)):
                tried = (dict(zip(block, values)) for values in product(*(grid[name] for name in block)))
                best, least = self.better(best, least, tried)
            if least == before:
                break
        for factor in _FACTORS:
            for name in (name for name in grid if name != "penalty"):
                low, high = min(grid[name]), max(grid[name])
                tried = [{name: float(np.clip(best[name] * f, low, high))} for f in (factor, 1 / factor)]
                best, least = self.better(best, least, tried)
        if best["form"] == FACTORED:
            best, least = self.better(best, least, [{"deviation": value} for value in DEVIATIONS])
        return best

    def better(self, best: dict, least: float, changes) -> tuple[dict, float]:
        """The best settings and their loss after trying each of `changes`."""
        start = best
        for change in changes:
            settings = {**start, **change}
            loss = self.loss(settings, least) if settings != best else least
            if loss < least:
                best, least = settings, loss
        return best, least
