"""The best mixture under caps: exponentiated gradient with line search, and a certificate of what is left to gain."""
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import rel_entr

from cuvee.kernels.groups import Groups, best_corner, no_groups, project_groups
from cuvee.kernels.simplex import check_reach, uniform
from cuvee.kernels.surrogate import Fitted

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]  # (domains,) -> value, gradient (domains,)

_LEAST_WEIGHT = 1e-15  # a multiplicative step cannot leave 0, so no weight goes below while searching
_INWARD = 1e-3  # share of uniform mixed into each start
_LONGER, _SHORTER = 1.5, 0.5  # step length after a step that was taken, or refused
_SHORTEST, _LONGEST = 1e-12, 1e12
_GROUPED = 20  # steps between two certificates under groups, each a linear programme


class Solution(NamedTuple):
    """A mixture under the caps and how good it is.

    kkt: the largest first-order gain of moving to any mixture under the caps, in units of the objective: 0 exactly
    where the KKT conditions hold; where the objective is convex, no mixture is better by more than it.
    iterations: of the start that won; starts: how many were tried.
    """

    weights: np.ndarray
    value: float
    kkt: float
    iterations: int
    starts: int


def stationarity_gap(weights: np.ndarray, gradient: np.ndarray, caps: np.ndarray, groups: Groups | None = None) -> float:
    """Largest gradient . (weights - other) over mixtures `other` under the limits (Frank and Wolfe, 1956). (domains,) x 3 -> >= 0"""
    other = best_corner(gradient, caps, no_groups(len(caps)) if groups is None else groups)
    return float(max(gradient @ (weights - other), 0.0))


def minimise(objective: Objective, starts: np.ndarray, caps: np.ndarray, tolerance: float = 1e-6,
             most: int = 2000, groups: Groups | None = None) -> Solution:
    """Least objective over mixtures under `caps` and `groups`, the best of all `starts` (a convex objective needs one).

    Stops where kkt <= tolerance or after `most` steps; look at kkt. starts: (starts, domains), caps: (domains,)
    """
    check_reach(caps)
    groups = no_groups(len(caps)) if groups is None else groups
    ends = [_descend(objective, _inside(start, caps, groups), caps, groups, tolerance, most) for start in np.atleast_2d(starts)]
    return min(ends, key=lambda end: end.value)._replace(starts=len(ends))


def _inside(weights: np.ndarray, caps: np.ndarray, groups: Groups) -> np.ndarray:
    """A mixture under the limits near `weights` that has some of every domain."""
    return _mixed((1 - _INWARD) * weights + _INWARD * uniform(len(weights)), caps, groups)


def _mixed(weights: np.ndarray, caps: np.ndarray, groups: Groups) -> np.ndarray:
    return np.maximum(project_groups(np.maximum(weights, _LEAST_WEIGHT), caps, groups), _LEAST_WEIGHT)


def _near(weights: np.ndarray, gradient: np.ndarray, caps: np.ndarray, groups: Groups, tolerance: float, taken: int) -> bool:
    """Whether the gap is within tolerance; under groups the gap without them, which is no smaller, is looked at first."""
    if stationarity_gap(weights, gradient, caps) <= tolerance:
        return True
    return len(groups.low) > 0 and taken % _GROUPED == 0 and stationarity_gap(weights, gradient, caps, groups) <= tolerance


def _descend(objective: Objective, weights: np.ndarray, caps: np.ndarray, groups: Groups, tolerance: float, most: int) -> Solution:
    """Steps weights * exp(-length gradient), KL-projected onto the caps (Kivinen and Warmuth, 1997).

    A step holds if the gradient changed by no more than the divergence allows: curvature relative to the entropy
    (Lu, Freund and Nesterov, 2018), which copes with slopes that grow without bound towards weight 0.
    """
    value, gradient = objective(weights)
    length, taken = min(1.0 / (np.ptp(gradient) + 1e-300), _LONGEST), 0
    while taken < most and length > _SHORTEST and not _near(weights, gradient, caps, groups, tolerance, taken):
        tilt = np.exp(-length * (gradient - gradient.min()))
        new = _mixed(weights * tilt, caps, groups)
        new_value, new_gradient = objective(new)
        move = new - weights
        allowed = np.log(new / weights) @ move / length
        if (new_gradient - gradient) @ move <= allowed and new_value <= value + 1e-12 * (1 + abs(value)):
            weights, value, gradient, taken = new, new_value, new_gradient, taken + 1
            length = min(length * _LONGER, _LONGEST)
        else:
            length *= _SHORTER
    return Solution(weights, float(value), stationarity_gap(weights, gradient, caps, groups), taken, 1)


def mixture_objective(fits: Sequence[Fitted], importance: np.ndarray, natural: np.ndarray, kl: float,
                      caution: float) -> Objective:
    """sum_t importance_t z_t(w) + kl KL(w || natural) + caution sum_t importance_t SD_t(w), in SDs of each task's swarm.

    z = (score - anchor) / spread; SD of a new run, summed as if all tasks erred together. importance: (tasks,)
    """
    used = [(fitted, share) for fitted, share in zip(fits, importance, strict=True) if share != 0]
    for fitted, share in used:
        if not (share > 0 and fitted.spread > 0):
            raise ValueError(f"importance and spread must be > 0; got {share} and {fitted.spread}. "
                             "Give a task on which all runs agree importance 0.")
    if kl > 0 and not (natural > 0).all():
        raise ValueError(f"natural weights must be > 0 for a KL term; domain {int(np.argmin(natural))} has "
                         f"{natural.min():.3g}. Leave it out of the mixture.")

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        row, value, gradient = weights[None], 0.0, np.zeros(len(weights))
        for fitted, share in used:
            scale = share / fitted.spread
            value += scale * (fitted.predict(row)[0] - fitted.anchor)
            gradient += scale * fitted.gradient(row)[0]
            if caution:
                value += scale * caution * fitted.deviation(row)[0]
                gradient += scale * caution * fitted.deviation_gradient(row)[0]
        if kl:
            value += kl * rel_entr(weights, natural).sum()
            gradient += kl * (np.log(np.maximum(weights, _LEAST_WEIGHT) / natural) + 1)
        return value, gradient

    return objective
