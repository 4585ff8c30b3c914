"""What mix solves: the objective over a surrogate, its limits, and the searches in it.

minimise sum_t omega_t z_t(w) + kl KL(w || natural) + risk SD(w) under epoch caps, limits of groups and of protected
tasks, with what is frozen kept in its proportions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import rel_entr

from cuvee.config import Mix
from cuvee.errors import DataError, UsageError, nearest
from cuvee.kernels.frozen import Frozen
from cuvee.kernels.groups import Groups, excess, quantize_groups
from cuvee.kernels.optimism import draw_optima, optimism
from cuvee.kernels.protect import KEPT, minimise_within, no_rise
from cuvee.kernels.search import Objective, Solution, mixture_objective
from cuvee.kernels.simplex import check_reach, epoch_caps, proportional, temperature, uniform, unimax
from cuvee.kernels.surrogate import Fitted, Surrogate

TOLERANCE = 1e-6  # kkt, in SDs of the swarm
BEST_RUNS = 3     # mixtures of the swarm, best by the objective, that the search starts from too
DRAW_TOLERANCE = 1e-3  # kkt of the optima of drawn fits
ROUNDINGS = 4     # solutions with ever more margin, until whole parts protect all tasks
RANGE = (0.05, 0.95)   # quantiles of the optima; 77 % of the true ones lay inside (docs/decisions.md)
TEMPERATURE = 2.0      # of the baseline: weights go with the square root of tokens (XLM, Lample and Conneau 2019, alpha .5)


class Mean(NamedTuple):
    """A mixture's weighted mean of z = (score - anchor) / SD over the swarm, and the SD of a new run's, summed as if all tasks erred together."""

    predicted: float
    sd: float


@dataclass(frozen=True)
class Problem:
    """What is minimised: fits of the tasks that count, over the domains that have tokens."""

    surrogate: Surrogate
    importance: np.ndarray  # (tasks,)
    tokens: np.ndarray      # (domains,) > 0
    budget: int
    config: Mix
    parts: int
    frozen: Mapping[str, float] = field(default_factory=dict)  # domain -> weight in the mixture whose proportions are kept

    @property
    def natural(self) -> np.ndarray:
        return proportional(self.tokens)

    @cached_property
    def fits(self) -> tuple[Fitted, ...]:
        """What the search follows."""
        try:
            return self.surrogate.followed
        except ValueError as error:
            raise DataError(f"mix: {error}") from None

    @cached_property
    def baselines(self) -> dict[str, np.ndarray]:
        """Mixtures that need no surrogate. Only UniMax keeps the caps: the others are what they are called."""
        return {"proportional": self.natural, "unimax": unimax(self.tokens, self.budget, self.config.max_epochs),
                "uniform": uniform(len(self.tokens)), "temperature": temperature(self.tokens, TEMPERATURE)}

    @cached_property
    def groups(self) -> Groups:
        """Limits in whole parts, as weights."""
        found = self.config.groups.values()
        members = [[group.holds(name) for name in self.surrogate.domains] for group in found]
        low = np.ceil([group.low * self.parts - 1e-6 for group in found])
        high = np.floor([group.high * self.parts + 1e-6 for group in found])
        return Groups(np.array(members, bool).reshape(len(found), len(self.tokens)), low / self.parts, high / self.parts)

    @cached_property
    def reduced(self) -> Frozen | None:
        """None where nothing is frozen."""
        if not self.frozen:
            return None
        kept = np.array([name in self.frozen for name in self.surrogate.domains])
        return Frozen.of(np.array([self.frozen.get(name, 0.0) for name in self.surrogate.domains]), kept)

    def objective(self, fits: Sequence[Fitted], kl: float, risk: float) -> Objective:
        return mixture_objective(fits, self.importance, self.natural, kl, risk)

    def values(self, weights: np.ndarray) -> np.ndarray:
        """The objective of many mixtures at once. (mixtures, domains) -> (mixtures,)"""
        config, used = self.config, [(share / fitted.spread, fitted) for share, fitted in zip(self.importance, self.fits) if share]
        z = sum(scale * (fitted.predict(weights) - fitted.anchor + config.risk * fitted.deviation(weights)) for scale, fitted in used)
        return z + config.kl * rel_entr(weights, self.natural).sum(axis=1)

    def at(self, weights: np.ndarray) -> Mean:
        """What is predicted of a mixture (domains,)."""
        scale = np.array([share / fitted.spread if share else 0.0 for share, fitted in zip(self.importance, self.surrogate.fits)])
        anchors = np.array([fitted.anchor for fitted in self.surrogate.fits])
        scores, errors = self.surrogate.predict(weights[None])[0], self.surrogate.deviation(weights[None])[0]
        return Mean(float(scale @ (scores - anchors)), float(scale @ errors))

    def protection(self, margin: np.ndarray) -> list[Objective]:
        """What holds every protected task. margin: (protected,)"""
        fits = dict(zip(self.surrogate.tasks, self.fits))
        return [no_rise(fits[name], self.natural, allowed, more) for (name, allowed), more in zip(self.config.protect.items(), margin)]

    def search(self, objective: Objective, limits: Sequence[Objective], starts: np.ndarray, caps: np.ndarray,
               tolerance: float = TOLERANCE) -> tuple[Solution, np.ndarray]:
        """The best mixture under caps (domains,), groups, limits and what is frozen; and the excess of each limit."""
        if self.reduced is None:
            return minimise_within(objective, limits, starts, caps, tolerance, groups=self.groups)
        space = self.reduced
        found, over = minimise_within(space.objective(objective), [space.objective(limit) for limit in limits], space.nearest(np.atleast_2d(starts)),
                                      space.caps(caps), tolerance, groups=space.groups(self.groups))
        return found._replace(weights=space.mixtures(found.weights)), over


def check_limits(problem: Problem) -> None:
    """Groups hold a domain each, and all or nothing of what is frozen; protected tasks exist."""
    for name, members in zip(problem.config.groups, problem.groups.members):
        if not members.any():
            globs = " ".join(problem.config.groups[name].domains)
            raise UsageError(f"group '{name}': no domain is named {globs}. {nearest(globs, problem.surrogate.domains)}")
    for name in problem.config.protect:
        if name not in problem.surrogate.tasks:
            raise UsageError(f"protect: the surrogate has no task '{name}'. {nearest(name, problem.surrogate.tasks)}")
    if problem.reduced is not None:
        try:
            problem.reduced.groups(problem.groups)
        except ValueError as error:
            raise UsageError(f"mix: {error} The groups are, in order: {', '.join(problem.config.groups)}.") from None


def cap_parts(problem: Problem) -> np.ndarray:
    """Most parts of each domain: by max_epochs, and by the epochs that the swarm can vouch for. int64 (domains,)"""
    seen, parts = problem.surrogate.epoch_limits(), problem.parts
    most = np.full(len(problem.tokens), problem.config.max_epochs) if seen is None else np.minimum(problem.config.max_epochs, seen)
    whole = np.floor(epoch_caps(problem.tokens, problem.budget, most) * parts).astype(np.int64)
    try:
        check_reach(whole / parts if problem.reduced is None else problem.reduced.caps(whole / parts))
    except ValueError as error:
        fewer = int((most < problem.config.max_epochs).sum())
        said = [f"The cap is mix.max_epochs = {problem.config.max_epochs:g}"]
        said += [f"{fewer} domains have a lower one, the most epochs that the swarm tried"] if fewer else []
        said += [f"the {len(problem.frozen)} frozen domains go no further than the first of them that is full"] if problem.frozen else []
        raise DataError(f"mix: {error} {'; '.join(said)}.") from None
    return whole


def choose(problem: Problem, whole: np.ndarray) -> tuple[Solution, np.ndarray]:
    """The best mixture and its whole parts, which keep all limits too. whole: int64 (domains,), most parts of each"""
    _check_groups(problem, whole)
    in_parts = problem.groups._replace(low=np.round(problem.groups.low * problem.parts), high=np.round(problem.groups.high * problem.parts))
    best, chosen, margin = None, None, np.zeros(len(problem.config.protect))
    for _ in range(ROUNDINGS):
        found, over = solve(problem, whole / problem.parts, margin)
        if best is None and (over > KEPT).any():
            parts = [f"'{name}' by {each:.3g}" for name, each in zip(problem.config.protect, over) if each > KEPT]
            raise DataError(f"mix: no mixture was found that protects all tasks; the nearest passes {', '.join(parts)} SDs of the swarm. "
                            "Allow more, or protect fewer.")
        if best is not None and (over > KEPT).any():
            break
        best, chosen = found, quantize_groups(found.weights / found.weights.sum(), problem.parts, whole, in_parts)
        rounded = np.array([limit(chosen / problem.parts)[0] for limit in problem.protection(np.zeros(len(margin)))])
        if not (rounded > KEPT).any():
            break
        margin = margin + 2 * np.maximum(rounded, 0.0)  # what rounding cost is kept free
    return best, chosen


def _check_groups(problem: Problem, whole: np.ndarray) -> None:
    """Raise where no mixture keeps the limits of all groups, naming those at fault."""
    if not problem.config.groups:
        return
    caps, groups = whole / problem.parts, problem.groups
    over = excess(caps, groups) if problem.reduced is None else excess(problem.reduced.caps(caps), problem.reduced.groups(groups))
    if (over > 0).any():
        parts = [f"'{name}' by {each:.4g}" for name, each in zip(problem.config.groups, over) if each > 0]
        raise DataError(f"mix: no mixture keeps the limits of all groups under the caps; these would have to give way: {', '.join(parts)}. "
                        f"Widen them, or allow more epochs (max_epochs = {problem.config.max_epochs:g}).")


def solve(problem: Problem, caps: np.ndarray, margin: np.ndarray) -> tuple[Solution, np.ndarray]:
    """The best of several starts, the baselines and the swarm's best mixtures; and the excess of each protected task."""
    objective = problem.objective(problem.fits, problem.config.kl, problem.config.risk)
    tried = np.unique(problem.surrogate.runs.weights, axis=0)
    best = tried[np.argsort(problem.values(tried), kind="stable")[:BEST_RUNS]]
    return problem.search(objective, problem.protection(margin), np.vstack([*problem.baselines.values(), best]), caps)


class Ranges(NamedTuple):
    """Where the optimum may lie: low and high weight of each domain (domains,); and by how much its own fit flatters it, SDs of the swarm."""

    low: np.ndarray
    high: np.ndarray
    optimism: float


def ranges(problem: Problem, caps: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> Ranges:
    """From the optima of fits drawn from their error, without caution: their quantiles, and what each says of the others' optima.

    `risk` is left out there since it pulls all draws to one place, and protection since a draw may leave nothing that
    protects; the range always holds the weight itself.
    """
    def optimum(fits: Sequence[Fitted]) -> np.ndarray:
        return problem.search(problem.objective(fits, problem.config.kl, 0.0), [], weights, caps, DRAW_TOLERANCE)[0].weights

    drawn = draw_optima(problem.fits, problem.importance, optimum, rng)
    low, high = np.quantile(drawn.optima, RANGE, axis=0)
    return Ranges(np.minimum(low, weights), np.maximum(high, weights), optimism(drawn))
