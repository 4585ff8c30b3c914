"""Limits on what groups of domains hold together: projection, the best corner, whole parts. Groups may overlap."""
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from cuvee.kernels.simplex import project_kl, quantize_capped

_SWEEPS = 10_000  # of the projection over the groups
_EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # of HiGHS, its least
_SETTLED = 1e-12  # largest sum that a sweep still moves, and largest excess of a group


class Groups(NamedTuple):
    """low[g] <= weights of the members of g, together <= high[g].

    members: bool (groups, domains); low, high: (groups,) weights
    """

    members: np.ndarray
    low: np.ndarray
    high: np.ndarray


def no_groups(domains: int) -> Groups:
    return Groups(np.zeros((0, domains), bool), np.zeros(0), np.zeros(0))


def excess(caps: np.ndarray, groups: Groups) -> np.ndarray:
    """How far each group's limit must give way, in weight, for any mixture under `caps` to exist. (groups,) >= 0

    The least sum of what gives way (a linear programme), so that the limits at fault are named.
    """
    count, domains = groups.members.shape
    inside, slack = groups.members.astype(float), np.eye(count)
    found = linprog(np.r_[np.zeros(domains), np.ones(count)], A_ub=np.block([[inside, -slack], [-inside, -slack]]),
                    b_ub=np.r_[groups.high, -groups.low], A_eq=np.r_[np.ones(domains), np.zeros(count)][None], b_eq=[1.0],
                    bounds=[*((0, cap) for cap in caps), *[(0, None)] * count], method="highs")
    return np.where(found.x[domains:] > 1e-9, found.x[domains:], 0.0)


def project_groups(weights: np.ndarray, caps: np.ndarray, groups: Groups) -> np.ndarray:
    """Mixture u under `caps` and `groups` with the least KL(u || weights): u = min(caps, weights x a scale per group).

    One scale after the other is set exactly (ascent of the dual by coordinates, Hildreth's rule for entropy), the scale
    of all domains last in each sweep. The limits must leave some mixture. weights: (domains,) > 0  ->  (domains,)
    """
    if len(groups.low) == 0:
        return project_kl(weights, caps)
    scaled = _sweep(weights, np.minimum(caps, 1.0), groups.members, groups.low, groups.high)
    return np.minimum(caps, scaled)


@njit(cache=True, nogil=True)
def _sweep(weights, caps, members, low, high):
    """-> weights times all their scales (domains,)"""
    scaled, scales = weights * _scale(weights, caps, 1.0), np.ones(len(low))
    before = np.minimum(caps, scaled)
    for _ in range(_SWEEPS):
        for place in range(len(low)):
            inside = members[place]
            free = scaled[inside] / scales[place]
            held = np.minimum(caps[inside], free).sum()
            wanted = min(max(held, low[place]), high[place])
            scales[place] = 1.0 if wanted == held else _scale(free, caps[inside], wanted)
            scaled[inside] = free * scales[place]
        scaled *= _scale(scaled, caps, 1.0)
        mixture = np.minimum(caps, scaled)
        off = 0.0
        for place in range(len(low)):
            held = mixture[members[place]].sum()
            off = max(off, low[place] - held, held - high[place])
        if max(off, np.abs(mixture - before).sum()) < _SETTLED:
            break
        before = mixture
    return scaled


@njit(cache=True, nogil=True)
def _scale(weights, caps, total):
    """s for which min(caps, s x weights) sums to `total`, or one that reaches all caps where they sum to no more.

    Domains at their caps are set aside until none is added; s only grows.
    """
    scale, count = max(total, 1e-300) / weights.sum(), -1
    while True:
        full = scale * weights >= caps
        if full.sum() == count:
            return scale
        count = full.sum()
        left, free = total - caps[full].sum(), weights[~full].sum()
        if count == len(weights) or left <= 0.0:
            return max(scale, (caps / weights).max()) if count == len(weights) else scale
        scale = max(scale, left / free)


def best_corner(gradient: np.ndarray, caps: np.ndarray, groups: Groups) -> np.ndarray:
    """The mixture of least gradient . mixture under all limits; without groups, caps filled in the gradient's order."""
    if len(groups.low) == 0:
        order = np.argsort(gradient, kind="stable")
        corner = np.empty(len(caps))
        corner[order] = np.diff(np.minimum(np.cumsum(caps[order]), 1.0), prepend=0.0)
        return corner
    inside = groups.members.astype(float)
    found = linprog(gradient, A_ub=np.vstack([inside, -inside]), b_ub=np.r_[groups.high, -groups.low], A_eq=np.ones((1, len(caps))),
                    b_eq=[1.0], bounds=[(0, cap) for cap in caps], method="highs", options=_EXACT)
    if found.x is None:
        raise ValueError(f"the limits of the groups leave no mixture: {found.message}")
    return found.x


def quantize_groups(weights: np.ndarray, parts: int, caps_parts: np.ndarray, groups: Groups) -> np.ndarray:
    """`quantize_capped` that keeps the groups too; their limits are whole numbers of parts here. -> int64 (domains,)

    The least sum of moves |parts - share| (an integer programme), within the fewest parts of each share that suffice.
    """
    if len(groups.low) == 0:
        return quantize_capped(weights, parts, caps_parts)
    share, count = weights * (parts / weights.sum()), len(weights)
    whole, one, inside = np.minimum(np.floor(share), caps_parts), np.eye(count), groups.members.astype(float)
    rows = np.block([[inside, np.zeros_like(inside)], [np.ones((1, count)), np.zeros((1, count))], [one, -one], [-one, -one]])
    endless = np.full(2 * count, -np.inf)
    limits = LinearConstraint(rows, np.r_[groups.low, parts, endless], np.r_[groups.high, parts, share, -share])
    for more in (0, 1, 8, parts):
        bounds = Bounds(np.r_[np.maximum(whole - more, 0), np.zeros(count)], np.r_[np.minimum(whole + 1 + more, caps_parts), np.full(count, parts)])
        found = milp(np.r_[np.zeros(count), np.ones(count)], constraints=limits, bounds=bounds, integrality=np.r_[np.ones(count), np.zeros(count)])
        if found.x is not None:
            return np.round(found.x[:count]).astype(np.int64)
    raise ValueError(f"the limits of the groups cannot be met in {parts} whole parts. Widen them, or use more parts.")
