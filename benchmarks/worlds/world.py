"""A world: a law in the units of scores, the sizes of its domains, the noise of its runs, and what counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cuvee.kernels.simplex import epoch_caps, project_kl, proportional
from worlds.laws import Law

SD = 0.1  # of every task's score over the reference swarm, bits per byte: plain means and means of z want the same mixture
REFERENCE = 512  # mixtures of the reference swarm
_TRACE = 1e-9  # weight of a domain that a draw left out, so that the caps can be met


@dataclass(frozen=True)
class World:
    """score = level + SD (law - middle) / spread + noise; middle and spread are the law's over the reference swarm.

    tokens: (domains,); budget: tokens of the real run; max_epochs: of any domain; topics, bands: int (domains,);
    importance: (tasks,), sum 1; noise: (tasks,), SD of a run at the natural mixture; growth: what concentration adds to
    it. ours: whether the law is of the form that the package fits. seed: of everything that was drawn.
    """

    name: str
    family: str
    ours: bool
    law: Law
    tokens: np.ndarray
    budget: float
    max_epochs: float
    topics: np.ndarray
    bands: np.ndarray
    importance: np.ndarray
    level: np.ndarray
    noise: np.ndarray
    growth: float
    seed: int

    @cached_property
    def natural(self) -> np.ndarray:
        return proportional(self.tokens)

    @cached_property
    def caps(self) -> np.ndarray:
        return epoch_caps(self.tokens, self.budget, self.max_epochs)

    def drawn(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Mixtures around the natural one, near to far, under the caps. -> (count, domains)"""
        domains = len(self.tokens)
        strength = domains * np.exp(rng.uniform(np.log(0.25), np.log(4.0), count))
        centre = 0.9 * self.natural + 0.1 / domains
        return np.array([project_kl(np.maximum(rng.dirichlet(each * centre), _TRACE), self.caps) for each in strength])

    @cached_property
    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        """-> middle, spread (tasks,) of the law; spread 1 for a task that nothing moves"""
        values = self.law(self.drawn(REFERENCE, np.random.default_rng([self.seed, 1])))
        spread = values.std(axis=0)
        return values.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def truth(self, weights: np.ndarray) -> np.ndarray:
        """Scores without noise, lower is better. (n, domains) -> (n, tasks)"""
        middle, spread = self._units
        return self.level + SD * (self.law(weights) - middle) / spread

    def noise_sd(self, weights: np.ndarray) -> np.ndarray:
        """SD of a run: noise (1 + growth (sum w^2 - sum natural^2)+). (n, domains) -> (n, tasks)"""
        denser = np.maximum((weights ** 2).sum(axis=1) - (self.natural ** 2).sum(), 0.0)
        return (1 + self.growth * denser)[:, None] * self.noise

    def observe(self, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Scores of one run of each mixture. (n, domains) -> (n, tasks)"""
        return self.truth(weights) + self.noise_sd(weights) * rng.standard_normal((len(weights), len(self.noise)))

    def objective(self, weights: np.ndarray) -> np.ndarray:
        """Weighted mean of the tasks in SDs of the reference swarm. (n, domains) -> (n,)"""
        return (self.truth(weights) - self.level) @ self.importance / SD
