"""The best mixture among those that keep limits on other functions of it: augmented Lagrangian, with a certificate."""
from collections.abc import Sequence

import numpy as np

from cuvee.kernels.fitted import Fitted
from cuvee.kernels.groups import Groups
from cuvee.kernels.search import Objective, Solution, minimise, stationarity_gap

KEPT = 1e-6  # largest excess of a limit
_ROUNDS = 40
_HOPELESS = 1e7  # pressure from which limits that are not kept cannot be
_FIRST = 1e-2  # kkt of the first round; each is _MORE times nearer
_PRESSURE, _MORE = 10.0, 4.0  # weight of an excess squared, and its growth where an excess has not halved


def no_rise(fitted: Fitted, natural: np.ndarray, allowed: float, margin: float = 0.0) -> Objective:
    """(score - score of the natural mixture - allowed) / spread + margin, <= 0 where a protected task is kept."""
    most, spread = fitted.predict(natural[None])[0] + allowed, fitted.spread or 1.0
    return lambda weights: (float((fitted.predict(weights[None])[0] - most) / spread + margin), fitted.gradient(weights[None])[0] / spread)


def minimise_within(objective: Objective, limits: Sequence[Objective], starts: np.ndarray, caps: np.ndarray, tolerance: float = 1e-6,
                    most: int = 2000, groups: Groups | None = None) -> tuple[Solution, np.ndarray]:
    """`minimise` where every limit <= 0 too (Hestenes 1969, Powell 1969); the best start that keeps them, else the nearest.

    kkt is the Lagrangian's gap and what the multipliers lose by slack: where all is convex, no mixture that keeps the
    limits is better by more than it. -> solution, excess of each limit (limits,), <= KEPT where it is kept
    """
    if not limits:
        return minimise(objective, starts, caps, tolerance, most, groups), np.zeros(0)
    ends = [_from(objective, limits, start, caps, tolerance, most, groups) for start in np.atleast_2d(starts)]
    kept = [end for end in ends if end[1].max() <= KEPT]
    best = min(kept, key=lambda end: end[0].value) if kept else min(ends, key=lambda end: end[1].max())
    return best[0]._replace(starts=len(ends)), best[1]


def _from(objective: Objective, limits: Sequence[Objective], weights: np.ndarray, caps: np.ndarray, tolerance: float, most: int,
          groups: Groups | None) -> tuple[Solution, np.ndarray]:
    multipliers, pressure, before, taken = np.zeros(len(limits)), _PRESSURE, np.inf, 0
    for number in range(_ROUNDS):
        near = max(tolerance / 2, _FIRST / _MORE ** number)
        found = minimise(_pressed(objective, limits, multipliers, pressure), weights, caps, near, most, groups)
        weights, taken = found.weights, taken + found.iterations
        value, gradient = objective(weights)
        excess, slopes = _at(limits, weights)
        multipliers = np.maximum(multipliers + pressure * excess, 0.0)
        gap = stationarity_gap(weights, gradient + multipliers @ slopes, caps, groups) + float(multipliers @ np.maximum(-excess, 0.0))
        solution = Solution(weights, float(value), gap, taken, 1)
        if (excess.max() <= KEPT and gap <= tolerance) or pressure > _HOPELESS:
            break
        pressure = pressure * _MORE if excess.max() > max(before / 2, KEPT) else pressure
        before = excess.max()
    return solution, excess


def _at(limits: Sequence[Objective], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-> values (limits,), gradients (limits, domains)"""
    found = [limit(weights) for limit in limits]
    return np.array([value for value, _ in found]), np.array([gradient for _, gradient in found])


def _pressed(objective: Objective, limits: Sequence[Objective], multipliers: np.ndarray, pressure: float) -> Objective:
    """objective + sum (max(0, multiplier + pressure limit)^2 - multiplier^2) / 2 pressure"""
    def whole(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(weights)
        excess, slopes = _at(limits, weights)
        pushed = np.maximum(multipliers + pressure * excess, 0.0)
        return value + float((pushed @ pushed - multipliers @ multipliers) / (2 * pressure)), gradient + pushed @ slopes

    return whole
