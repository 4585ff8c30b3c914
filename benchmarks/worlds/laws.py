"""What a mixture does to the scores of a world, without noise: one dataclass per law, drawn at random by `drawn`.

A law maps weights (n, domains) to values (n, tasks), lower is better, of any scale: a world rescales them. `rate` is
epochs of weight 1, budget / tokens, (domains,). Equations: docs/synthetic.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

_LARGEST = 30.0  # exponent: a law of harm stays finite at any epochs
_HALF_LIFE = 15.0  # epochs after which repeating has given 1 - 1/e of all it gives (Muennighoff et al. 2023, R*_D = 15.39)


class Law(Protocol):
    def __call__(self, weights: np.ndarray) -> np.ndarray: ...


def _shares(rng: np.random.Generator, tasks: int, domains: int, evenness: float) -> np.ndarray:
    """What part of each task's gain comes from each domain; small `evenness`: from few. (tasks, domains), rows sum to 1"""
    drawn = rng.gamma(evenness, 1.0, (tasks, domains)) + 1e-4
    return drawn / drawn.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Saturating:
    """exp(-sum_i a_ti (1 - exp(-(r e_i)^p)) + sum_i h_ti softplus(log(1 + e_i) - tau)^2), e = w rate: the form that we fit."""

    rate: np.ndarray
    gain: np.ndarray  # a, (tasks, domains)
    harm: np.ndarray  # h, (tasks, domains)
    speed: float
    power: float
    onset: float

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        epochs = weights * self.rate
        reach = -np.expm1(-((self.speed * epochs) ** self.power))
        worn = np.logaddexp(0.0, np.log1p(epochs) - self.onset) ** 2
        return np.exp(np.minimum(worn @ self.harm.T - reach @ self.gain.T, _LARGEST))

    @staticmethod
    def drawn(rng: np.random.Generator, rate: np.ndarray, tasks: int, harm: float = 0.0, gain: np.ndarray | None = None) -> Saturating:
        """harm: mean of h over the half of the domains that wear out; gain: if it has a form of its own"""
        domains = len(rate)
        if gain is None:
            gain = rng.uniform(1.5, 4.0, (tasks, 1)) * _shares(rng, tasks, domains, 0.4)
        worn = harm * rng.exponential(1.0, (tasks, domains)) * (rng.random(domains) < 0.5)
        return Saturating(rate, gain, worn, float(np.exp(rng.uniform(np.log(0.2), np.log(2.0)))), float(rng.uniform(0.5, 1.0)),
                          float(np.log(rng.uniform(4.0, 16.0))))


def banded_gain(rng: np.random.Generator, topics: np.ndarray, bands: np.ndarray, tasks: int) -> np.ndarray:
    """u_t,topic v_band exp(.15 normal), v growing with the band: better text of a topic is worth more of it. (tasks, domains)"""
    worth = np.cumsum(rng.gamma(1.0, 1.0, int(bands.max()) + 1))
    share = _shares(rng, tasks, int(topics.max()) + 1, 0.5)[:, topics] * (worth / worth[-1])[bands]
    share *= np.exp(0.15 * rng.standard_normal(share.shape))
    return rng.uniform(1.5, 4.0, (tasks, 1)) * share / share.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Pairs:
    """exp(-sum_i a_ti f_i - sum_(i,j) b_tij f_i f_j), f = log(1 + w / k) / log(1 + 1 / k): some domains need, others spoil each other."""

    gain: np.ndarray    # a, (tasks, domains)
    first: np.ndarray   # int (pairs,)
    second: np.ndarray  # int (pairs,)
    bond: np.ndarray    # b, (tasks, pairs), of either sign
    bend: float         # k

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        seen = np.log1p(weights / self.bend) / np.log1p(1 / self.bend)
        both = seen[:, self.first] * seen[:, self.second]
        return np.exp(-(seen @ self.gain.T) - both @ self.bond.T)

    @staticmethod
    def drawn(rng: np.random.Generator, domains: int, tasks: int) -> Pairs:
        """Two pairs a domain, each of them felt by half of the tasks, two thirds for the better."""
        gain = rng.uniform(1.0, 2.5, (tasks, 1)) * _shares(rng, tasks, domains, 0.5)
        first, second = np.array([rng.choice(domains, 2, replace=False) for _ in range(2 * domains)]).T
        sign = np.where(rng.random(2 * domains) < 2 / 3, 1.0, -1.0)
        bond = 6.0 / domains ** 0.5 * sign * rng.exponential(1.0, (tasks, 2 * domains)) * (rng.random((tasks, 2 * domains)) < 0.5)
        return Pairs(gain, first, second, bond, 0.02)


@dataclass(frozen=True)
class Thresholds:
    """-sum_i a_ti (s((w_i - theta_i) / width_i) - s(-theta_i / width_i)) - sum_i b_ti f_i, s the logistic function, f as in Pairs.

    Most of what a domain gives comes where its share passes theta, as a language or a format that is learned or not.
    """

    step: np.ndarray   # a, (tasks, domains)
    slope: np.ndarray  # b, (tasks, domains)
    threshold: np.ndarray  # theta, (domains,)
    width: np.ndarray      # (domains,)

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        passed = 1 / (1 + np.exp(-(weights - self.threshold) / self.width)) - 1 / (1 + np.exp(self.threshold / self.width))
        return -(passed @ self.step.T) - (np.log1p(weights / 0.02) / np.log1p(50.0)) @ self.slope.T

    @staticmethod
    def drawn(rng: np.random.Generator, domains: int, tasks: int) -> Thresholds:
        threshold = np.exp(rng.uniform(np.log(0.01), np.log(0.12), domains))
        return Thresholds(_shares(rng, tasks, domains, 0.4), _shares(rng, tasks, domains, 1.0), threshold, threshold / 5)


@dataclass(frozen=True)
class Effective:
    """(eps + sum_i q_ti D_i)^-alpha_t: a power law in tokens of use, where a repeated token is worth ever less.

    D_i = w_i / e_i (min(e_i, 1) + R (1 - exp(-(e_i - 1)+ / R))): effective tokens by the budget (Muennighoff et al. 2023, eq. 5).
    """

    rate: np.ndarray
    use: np.ndarray       # q, (tasks, domains)
    exponent: np.ndarray  # alpha, (tasks,)

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        epochs = weights * self.rate
        worth = np.minimum(epochs, 1.0) - _HALF_LIFE * np.expm1(-np.maximum(epochs - 1.0, 0.0) / _HALF_LIFE)
        return (0.02 + (worth / self.rate) @ self.use.T) ** -self.exponent

    @staticmethod
    def drawn(rng: np.random.Generator, rate: np.ndarray, tasks: int) -> Effective:
        """A token of another domain is worth 2 % of one of the best, at least."""
        use = rng.gamma(0.4, 1.0, (tasks, len(rate)))
        use = 0.02 + 0.98 * use / use.max(axis=1, keepdims=True)
        return Effective(rate, use, rng.uniform(0.1, 0.5, tasks))


@dataclass(frozen=True)
class WithNoise:
    """Another law, with tasks that no mixture moves put after it."""

    law: Law
    idle: int

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        moved = self.law(weights)
        return np.hstack([moved, np.zeros((len(moved), self.idle))])
