"""A Gaussian process on sqrt(weights): lengths and noise shared by all tasks, each with its own mean and scale.

Prior of a task in units of its spread: a constant + a smooth function with kernel exp(-|s (x - x')|^2 / 2), x =
sqrt(weights), + noise (Rasmussen and Williams, 2006, ch. 2 and 5). Epochs are not looked at.
"""
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from cuvee.kernels import scale
from cuvee.kernels.fitted import Fitted
from cuvee.kernels.runs import Runs, anchor, repeats
from cuvee.kernels.scale import calibrated, scored_rows

_CONSTANT = 10.0  # prior variance of a task's mean, in units of its smooth part
_JITTER = 1e-8  # added to the noise, so that repeats can be told apart by rounding
_GRAIN = 1e-3  # of an equal share: the slope of the square root at weight 0 stays finite
_STEPS = 60  # of L-BFGS over lengths and noise
_FEATURES = 256  # cosines of a drawn function (Rahimi and Recht, 2007)
_START_NOISE = 1e-2  # variance over that of the smooth part


class Kernel(NamedTuple):
    """scales: (domains,) 1 / length in sqrt(weight); noise: variance over that of the smooth part."""

    scales: np.ndarray
    noise: float


class Drawn(NamedTuple):
    """A function of the prior: amplitudes @ cos(frequencies @ (s x) + phases). (features, domains), (features,) x 2"""

    frequencies: np.ndarray
    phases: np.ndarray
    amplitudes: np.ndarray


def roots(weights: np.ndarray) -> np.ndarray:
    """sqrt(weights + grain). (runs, domains) -> the same"""
    return np.sqrt(weights + _GRAIN / weights.shape[1])


def likeness(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """exp(-|x - y|^2 / 2). (m, domains), (n, domains), scaled -> (m, n)"""
    square = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2 * x @ y.T
    return np.exp(-np.maximum(square, 0.0) / 2)


def misfit(settings: np.ndarray, x: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
    """-log marginal likelihood of all tasks, each at its best signal variance, and its gradient.

    settings: log scales and log noise (domains + 1,); x: (runs, domains); z: (runs, tasks) standardised
    """
    scales, noise = np.exp(settings[:-1]), np.exp(settings[-1])
    near = likeness(x * scales, x * scales)
    factor = cho_factor(near + (noise + _JITTER) * np.eye(len(x)) + _CONSTANT, lower=True)
    inverse = cho_solve(factor, np.eye(len(x)))
    dual = inverse @ z
    signal = np.maximum((z * dual).sum(axis=0) / len(x), 1e-12)
    value = z.shape[1] * np.log(np.diag(factor[0])).sum() + 0.5 * len(x) * np.log(signal).sum()
    pull = z.shape[1] * inverse - (dual / signal) @ dual.T  # twice the gradient in the kernel matrix
    through = pull * near
    slopes = -(scales ** 2) * ((x * x).T @ through.sum(axis=1) - (x * (through @ x)).sum(axis=0))
    return float(value), np.append(slopes, 0.5 * noise * np.trace(pull))


def best_kernels(runs: Runs, scores: np.ndarray) -> list[Kernel]:
    """Of all runs, then without each fold in turn, so that what is said out of fold has not seen it.

    scores: (runs, tasks), NaN where missing
    """
    whole = best_kernel(runs.weights, scores, None)
    kept = [runs.folds != fold for fold in range(runs.folds.max() + 1)]
    return [whole, *(best_kernel(runs.weights[rows], scores[rows], whole) for rows in kept)]


def best_kernel(weights: np.ndarray, scores: np.ndarray, near: Kernel | None) -> Kernel:
    """Lengths and noise of the largest likelihood, looked for from `near` on.

    Lengths are held near each other by a prior of SD 1 on their logs. Tasks that miss the same runs share a factorisation.
    """
    has = np.isfinite(scores)
    patterns, of = np.unique(has, axis=1, return_inverse=True)
    parts = []
    for pattern in range(patterns.shape[1]):
        rows, tasks = patterns[:, pattern], of.reshape(-1) == pattern
        values = scores[np.ix_(rows, tasks)]
        spread = np.array([scale.spread(column) for column in values.T]) if len(values) else np.zeros(0)
        if (spread > 0).any():
            z = (values - values.mean(axis=0))[:, spread > 0] / spread[spread > 0]
            parts.append((roots(weights[rows]), z))

    def value(settings: np.ndarray) -> tuple[float, np.ndarray]:
        found = [misfit(settings, *part) for part in parts]
        off = settings[:-1] - settings[:-1].mean()
        return (sum(each[0] for each in found) + 0.5 * off @ off,
                np.sum([each[1] for each in found] or [np.zeros(len(settings))], axis=0) + np.append(off, 0.0))

    domains = weights.shape[1]
    start = np.append(np.zeros(domains), np.log(_START_NOISE)) if near is None else np.log(np.append(near.scales, near.noise))
    bounds = [(-6.0, 5.0)] * domains + [(np.log(1e-7), np.log(10.0))]
    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}).x
    return Kernel(np.exp(found[:-1]), float(np.exp(found[-1])))


@dataclass(frozen=True)
class GaussianProcess(Fitted):
    """One task's posterior. `runs` are the scored ones; `dual` weighs their likeness to a mixture, in spreads."""

    runs: Runs
    scales: np.ndarray
    noise: float
    dual: np.ndarray
    middle: float
    anchor: float
    spread: float
    widening: float  # of the SDs, so that 90 % of the runs lie within 1.645 of them out of fold
    out_of_fold: np.ndarray
    drawn: Drawn | None = None
    model: ClassVar[str] = "gp"
    smooth: ClassVar[bool] = True

    @staticmethod
    def shared(runs: Runs, scores: np.ndarray) -> list[Kernel]:
        """What all tasks share. scores: (runs, tasks), NaN where missing"""
        return best_kernels(runs, scores)

    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray, shared: list[Kernel] | None = None) -> "GaussianProcess":
        """scores: (runs,) of one task, NaN where a run has none"""
        rows = scored_rows(scores)
        if shared is None:
            shared = best_kernels(runs.take(rows), scores[rows, None])
            fold = runs.take(rows).folds
        else:
            fold = runs.folds[rows]
        held, deviation = np.empty(len(rows)), np.empty(len(rows))
        for number, kernel in enumerate(shared[1:]):
            new = fold == number
            without = cls._posterior(runs.take(rows[~new]), scores[rows[~new]], kernel)
            held[new], deviation[new] = without.predict(runs.weights[rows[new]]), without.deviation(runs.weights[rows[new]])
        whole = np.full(len(scores), np.nan)
        whole[rows] = held
        return replace(cls._posterior(runs.take(rows), scores[rows], shared[0]), out_of_fold=whole,
                       widening=calibrated(held - scores[rows], deviation))

    @classmethod
    def _posterior(cls, runs: Runs, scores: np.ndarray, kernel: Kernel) -> "GaussianProcess":
        middle, spread = float(scores.mean()), scale.spread(scores)
        draft = cls(runs, kernel.scales, kernel.noise, np.zeros(len(scores)), middle, anchor(scores, repeats(runs.weights)), spread, 1.0, scores)
        return replace(draft, dual=cho_solve(draft._factor, (scores - middle) / (spread or 1.0)))

    @cached_property
    def _points(self) -> np.ndarray:
        return roots(self.runs.weights) * self.scales

    @cached_property
    def _factor(self):
        return cho_factor(likeness(self._points, self._points) + (self.noise + _JITTER) * np.eye(len(self._points)) + _CONSTANT)

    @cached_property
    def _signal(self) -> float:
        """SD of the smooth part, in scores: (z' C^-1 z / n)^.5, z = C dual"""
        upper = np.triu(self._factor[0])
        return (self.spread or 1.0) * float(np.sqrt(((upper @ self.dual) ** 2).sum() / len(self.dual)))

    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """(runs, domains) -> (runs,)"""
        points = roots(weights) * self.scales
        z = (likeness(points, self._points) + _CONSTANT) @ self.dual
        if self.drawn is not None:
            z = z + np.cos(points @ self.drawn.frequencies.T + self.drawn.phases) @ self.drawn.amplitudes
        return self.middle + (self.spread or 1.0) * z

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """d predict / d weights. -> (runs, domains)"""
        points = roots(weights) * self.scales
        slope = self._slope(points, self.dual * likeness(points, self._points))
        if self.drawn is not None:
            falling = np.sin(points @ self.drawn.frequencies.T + self.drawn.phases) * self.drawn.amplitudes
            slope -= falling @ self.drawn.frequencies
        return (self.spread or 1.0) * slope * self._stretch(weights)

    def _slope(self, points: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """d (sum_j c_j likeness_j) / d points, shares = c_j likeness_j. (m, n) -> (m, domains)"""
        return shares @ self._points - shares.sum(axis=1)[:, None] * points

    def _stretch(self, weights: np.ndarray) -> np.ndarray:
        """d points / d weights. -> (runs, domains)"""
        return self.scales / (2 * roots(weights))

    def _spare(self, weights: np.ndarray):
        """-> variance of a new run in units of the smooth part (m,), points, likeness (m, n), C^-1 of it (n, m)"""
        points = roots(weights) * self.scales
        near = likeness(points, self._points)
        solved = cho_solve(self._factor, (near + _CONSTANT).T)
        variance = 1 + _CONSTANT + self.noise - ((near + _CONSTANT) * solved.T).sum(axis=1)
        return np.maximum(variance, _JITTER), points, near, solved

    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """SD of a new run's score: of the function and of the run. -> (runs,)"""
        return self.widening * self._signal * np.sqrt(self._spare(weights)[0])

    def held_deviation(self) -> np.ndarray:
        """`deviation` at each scored run as if it had not been fitted: 1 / diag(C^-1) (RW, eq. 5.12). -> (scored runs,)"""
        return self.widening * self._signal / np.sqrt(np.diag(cho_solve(self._factor, np.eye(len(self.dual)))))

    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray:
        """d deviation / d weights. -> (runs, domains)"""
        variance, points, near, solved = self._spare(weights)
        slope = -self._slope(points, near * solved.T) / np.sqrt(variance)[:, None]
        return self.widening * self._signal * slope * self._stretch(weights)

    def redrawn(self, rng: np.random.Generator) -> "GaussianProcess":
        """A function of the posterior: one of the prior, moved to the scores (Wilson et al. 2020, arXiv 2002.09309)."""
        size = self.widening * self._signal / (self.spread or 1.0)
        frequencies = rng.standard_normal((_FEATURES, len(self.scales)))
        phases = rng.uniform(0, 2 * np.pi, _FEATURES)
        amplitudes = size * np.sqrt(2 / _FEATURES) * rng.standard_normal(_FEATURES)
        level, noise = size * np.sqrt(_CONSTANT) * rng.standard_normal(), size * np.sqrt(self.noise) * rng.standard_normal(len(self.dual))
        start = np.cos(self._points @ frequencies.T + phases) @ amplitudes + level
        return replace(self, dual=self.dual - cho_solve(self._factor, start + noise), middle=self.middle + (self.spread or 1.0) * level,
                       drawn=Drawn(frequencies, phases, amplitudes))

    def to_dict(self) -> dict:
        """Plain JSON values; the runs are kept apart, once for all tasks."""
        return {"model": self.model, "scales": self.scales.tolist(), "noise": self.noise, "dual": self.dual.tolist(),
                "middle": self.middle, "anchor": self.anchor, "spread": self.spread, "widening": self.widening,
                "out_of_fold": [None if np.isnan(v) else float(v) for v in self.out_of_fold]}

    @classmethod
    def from_dict(cls, fields: dict, runs: Runs) -> "GaussianProcess":
        values = {name: value for name, value in fields.items() if name != "model"}
        for name in ("scales", "dual", "out_of_fold"):
            values[name] = np.array(values[name], float)
        return cls(runs=runs.take(np.isfinite(values["out_of_fold"])), **values)
