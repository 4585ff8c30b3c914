"""One surrogate for a budget between those that swarms were trained for: linear in log budget, task by task.

A swarm answers for the budget whose repetition it simulated. What a mixture scores at another budget is drawn between
the two swarms on both sides of it, at the same weights, so that each sees the epochs of its own budget.
"""
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from cuvee.kernels.runs import Runs
from cuvee.kernels.surrogate import Fitted, Surrogate


@dataclass(frozen=True)
class Between:
    """One task's fits for a lower and an upper budget; the prediction has `share` of the upper one, outside [0, 1] drawn on.

    order: place of each domain in each fit's own order, int64 (2, domains); scale: each budget over that of the
    predictions, which turns epochs at that one into epochs at the fit's, (2,), or by the fit's own domains, (2, domains)
    """

    ends: tuple[Fitted, Fitted]
    share: float
    order: np.ndarray
    scale: np.ndarray
    model: ClassVar[str] = "between"

    @property
    def smooth(self) -> bool:
        return all(end.smooth for end in self.ends)

    @property
    def shares(self) -> np.ndarray:
        return np.array([1 - self.share, self.share])

    @property
    def anchor(self) -> float:
        return float(self.shares @ [end.anchor for end in self.ends])

    @property
    def spread(self) -> float:
        """Beyond the ends that of the nearer one: drawn on, it might reach 0."""
        return float(np.clip(self.shares, 0, 1) @ [end.spread for end in self.ends])

    @cached_property
    def _own(self) -> np.ndarray:
        """Place of each fit's domains in the order here. (2, domains)"""
        return np.argsort(self.order, axis=1)

    def _sum(self, method: str, shares: np.ndarray, weights: np.ndarray, epochs: np.ndarray | None) -> np.ndarray:
        passes = [None if epochs is None else epochs[:, own] * scale for own, scale in zip(self._own, self.scale)]
        return sum(share * getattr(end, method)(weights[:, own], each)
                   for share, end, own, each in zip(shares, self.ends, self._own, passes) if share)

    def _slopes(self, method: str, shares: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return sum(share * getattr(end, method)(weights[:, own])[:, order]
                   for share, end, own, order in zip(shares, self.ends, self._own, self.order) if share)

    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """epochs: passes at the budget of the predictions. (runs, domains) -> (runs,)"""
        return self._sum("predict", self.shares, weights, epochs)

    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """SD of a new run's score, as if both fits erred together; beyond the ends it grows. -> (runs,)"""
        return self._sum("deviation", np.abs(self.shares), weights, epochs)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """d predict / d weights. -> (runs, domains)"""
        return self._slopes("gradient", self.shares, weights)

    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray:
        """d deviation / d weights. -> (runs, domains)"""
        return self._slopes("deviation_gradient", np.abs(self.shares), weights)

    def redrawn(self, rng: np.random.Generator) -> "Between":
        """A fit that might have been: both ends drawn anew."""
        return replace(self, ends=tuple(end.redrawn(rng) for end in self.ends))


@dataclass(frozen=True)
class Interpolated(Surrogate):
    """The surrogate of a budget that lies between those of two `ends`; `runs` are all of theirs, with epochs at that budget.

    order, scale, share: as of `Between`
    """

    ends: tuple[Surrogate, Surrogate]
    order: np.ndarray
    scale: np.ndarray
    share: float

    @staticmethod
    def of(ends: tuple[Surrogate, Surrogate], order: np.ndarray, scale: np.ndarray, share: float) -> "Interpolated":
        runs = Runs(np.vstack([end.runs.weights[:, places] for end, places in zip(ends, order)]),
                    np.vstack([end.runs.epochs[:, places] / factor for end, places, factor in zip(ends, order, scale)]),
                    ends[0].runs.rate[order[0]] / scale[0])
        fits = [dict(zip(end.tasks, end.fits)) for end in ends]
        between = tuple(Between((fits[0][name], fits[1][name]), share, order, scale) for name in ends[0].tasks)
        return Interpolated(ends[0].domains, ends[0].tasks, runs, between, ends, order, scale, share)

    def epoch_limits(self) -> np.ndarray:
        """In epochs at this budget: no weight may be beyond what a swarm that is used can vouch for. -> (domains,)"""
        used = [each for each in zip((1 - self.share, self.share), self.ends, self.order, self.scale) if each[0]]
        return np.min([end.epoch_limits()[places] / factor for _, end, places, factor in used], axis=0)


def elsewhere(surrogate: Surrogate, rate: np.ndarray) -> Interpolated:
    """One swarm's fit asked about another budget or other counts: what it says of the same weights.

    rate: epochs of weight 1 there, (domains,). Its law in epochs would take as many passes of another budget for as much
    that was read, which is further off (benchmarks/budgets.py).
    """
    if surrogate.runs.rate is None:
        raise ValueError("the surrogate was fitted without counts and budget, so it knows no epochs.")
    scale, order = surrogate.runs.rate / rate, np.arange(len(rate))
    return Interpolated.of((surrogate, surrogate), np.stack([order, order]), np.stack([scale, scale]), 0.0)


def share_between(budgets: Sequence[float], budget: float) -> tuple[int, float]:
    """Where log `budget` lies among log `budgets`: the lower of the two neighbours, and the share of the upper one.

    Under the first budget or over the last the two nearest are drawn on: the share is under 0 or over 1.
    """
    if len(budgets) < 2 or not (np.diff(budgets) > 0).all() or min(*budgets, budget) <= 0:
        raise ValueError(f"two budgets or more, ascending and over 0, are needed to draw between; got {list(budgets)} for {budget}.")
    place = int(np.clip(np.searchsorted(budgets, budget, side="right") - 1, 0, len(budgets) - 2))
    low, high = np.log(budgets[place:place + 2])
    return place, float((np.log(budget) - low) / (high - low))


def beyond(budgets: Sequence[float], budget: float) -> float:
    """By what factor `budget` lies outside of `budgets`; 1 inside."""
    return float(max(min(budgets) / budget, budget / max(budgets), 1.0))


def interpolate(surrogates: Sequence[Surrogate], budgets: Sequence[float], budget: float) -> Interpolated:
    """What two or more surrogates, each fitted with counts for its own of `budgets` (ascending), say of `budget`.

    Domains and tasks are joined by name; all must have the same. They come in the order of the lower neighbour.
    """
    for what in ("domains", "tasks"):
        odd = sorted(set().union(*(getattr(each, what) for each in surrogates)) - set.intersection(*(set(getattr(each, what)) for each in surrogates)))
        if odd:
            raise ValueError(f"the surrogates do not have the same {what}: {', '.join(odd[:5])} in some alone. Fit all from the same {what}.")
    if any(each.runs.rate is None for each in surrogates):
        raise ValueError("a surrogate was fitted without counts and budget, so nothing says which budget it answers for. Fit it with both.")
    place, share = share_between(budgets, budget)
    ends = surrogates[place], surrogates[place + 1]
    order = np.array([[end.domains.index(name) for name in ends[0].domains] for end in ends], np.int64)
    return Interpolated.of(ends, order, np.array(budgets[place:place + 2]) / budget, share)
