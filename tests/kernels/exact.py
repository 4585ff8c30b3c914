"""An exact solver for convex problems under caps, independent of the package: a log barrier and Newton's method.

Boyd and Vandenberghe, Convex Optimization (2004), sections 10.2 and 11.3: with m inequalities the centre for t is within
m / t of the optimum.
"""
from typing import NamedTuple

import numpy as np


class Law(NamedTuple):
    """sum_t exp(-gain_t . (1 - exp(-rate w))) + kl KL(w || natural), with all derivatives.

    gains: (tasks, domains) >= 0; rate, natural: (domains,)
    """

    gains: np.ndarray
    rate: np.ndarray
    natural: np.ndarray
    kl: float

    def __call__(self, w):
        return self.value(w), self.slopes(w)

    def value(self, w):
        return np.exp(-self.gains @ (1 - np.exp(-self.rate * w))).sum() + self.kl * w @ np.log(w / self.natural)

    def slopes(self, w):
        fading = np.exp(-self.rate * w)
        heights = np.exp(-self.gains @ (1 - fading))
        return -(heights @ self.gains) * self.rate * fading + self.kl * (np.log(w / self.natural) + 1)

    def curvature(self, w):
        fading = np.exp(-self.rate * w)
        heights, steep = np.exp(-self.gains @ (1 - fading)), self.gains * self.rate * fading
        return (steep.T * heights) @ steep + np.diag(heights @ (steep * self.rate) + self.kl / w)


def law(seed: int, domains: int, tasks: int, kl: float = 0.02) -> tuple[Law, np.ndarray]:
    """A random law, and caps that bind for some domains."""
    rng = np.random.default_rng(seed)
    natural, rate = rng.dirichlet(np.full(domains, 3.0)), rng.uniform(0.5, 6.0, domains) * domains / 5
    return Law(rng.gamma(0.5, 0.7, (tasks, domains)) * 8 / domains, rate, natural, kl), np.minimum(natural * rng.uniform(1.5, 4.0, domains), 1.0)


def centred(objective: Law, caps: np.ndarray, t: float, w: np.ndarray) -> float:
    return t * objective.value(w) - np.log(w).sum() - np.log(caps - w).sum()


def by_barrier(objective: Law, caps: np.ndarray, gap: float = 1e-8) -> float:
    """The least value over mixtures under `caps`, to within `gap`."""
    w, t = caps / caps.sum(), 1.0
    while 2 * len(caps) / t > gap:
        t *= 8
        for _ in range(50):
            gradient = t * objective.slopes(w) - 1 / w + 1 / (caps - w)
            hessian = t * objective.curvature(w) + np.diag(1 / w**2 + 1 / (caps - w) ** 2)
            system = np.block([[hessian, np.ones((len(w), 1))], [np.ones((1, len(w))), np.zeros((1, 1))]])
            move = np.linalg.solve(system, np.r_[-gradient, 0.0])[:-1]
            length = 1.0
            while not ((w + length * move > 0) & (w + length * move < caps)).all():
                length /= 2
            start = centred(objective, caps, t, w)
            while length > 1e-10 and centred(objective, caps, t, w + length * move) > start + 0.1 * length * gradient @ move + 1e-9:
                length /= 2
            w = w + length * move
            if -gradient @ move < 1e-8:
                break
    return objective.value(w)
