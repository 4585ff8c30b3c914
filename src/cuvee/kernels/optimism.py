"""What choosing a mixture by its own fit flatters it by, from fits that might have been."""
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cuvee.kernels.fitted import Fitted

DRAWS = 40


class Drawn(NamedTuple):
    """optima: (draws, domains), each draw's own best mixture; values: (draws, draws), mean z by draw i of the optimum of j."""

    optima: np.ndarray
    values: np.ndarray


def draw_optima(fits: Sequence[Fitted], importance: np.ndarray, optimum: Callable[[Sequence[Fitted]], np.ndarray], rng: np.random.Generator,
                draws: int = DRAWS) -> Drawn:
    """Optima of `draws` redrawn fits, and what every draw says of every optimum.

    optimum: from the fits of all tasks to their best mixture, (domains,); importance: (tasks,), a task of 0 is not drawn
    """
    redrawn = [[fitted.redrawn(rng) if share else fitted for fitted, share in zip(fits, importance)] for _ in range(draws)]
    optima = np.array([optimum(each) for each in redrawn])
    return Drawn(optima, np.array([mean_z(each, importance, optima) for each in redrawn]))


def mean_z(fits: Sequence[Fitted], importance: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sum_t importance_t (score_t - anchor_t) / spread_t. (mixtures, domains) -> (mixtures,)"""
    used = [(fitted, share) for fitted, share in zip(fits, importance) if share]
    return np.sum([share * (fitted.predict(weights) - fitted.anchor) / fitted.spread for fitted, share in used], axis=0)


def optimism(drawn: Drawn) -> float:
    """How much worse than said the optimum of a fit is, in SDs of the swarm: parametric bootstrap (Efron, 2004, "covariance penalties").

    A draw chooses its own optimum j; what the other draws say of it stands for the truth: the mean over j of
    (mean over i != j of values[i, j]) - values[j, j]. Settings and misfit, which all draws share, are not in it, nor is what
    the ridge holds back: see docs/surrogates.md.
    """
    count = len(drawn.values)
    own = np.diag(drawn.values)
    others = (drawn.values.sum(axis=0) - own) / (count - 1)
    return float((others - own).mean())
