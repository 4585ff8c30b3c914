"""A plane: score = intercept + weights . coefficients, by ridge; the plainest model, to hold the others against."""
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from cuvee.kernels.fitted import Fitted
from cuvee.kernels.runs import Runs, anchor, repeats
from cuvee.kernels.scale import calibrated, held_deviation, scored_rows, spread

PENALTIES = tuple(10.0 ** power for power in range(-6, 3))  # in units of the weights' mean variance


@dataclass(frozen=True)
class Linear(Fitted):
    """One task's plane. `noise` is the SD of one run around it; coefficients vary by the ridge's covariance."""

    runs: Runs
    penalty: float
    intercept: float
    coefficients: np.ndarray
    anchor: float
    spread: float
    noise: float
    out_of_fold: np.ndarray
    model: ClassVar[str] = "linear"
    smooth: ClassVar[bool] = True

    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray, shared: None = None) -> "Linear":
        """scores: (runs,) of one task, NaN where a run has none"""
        rows = scored_rows(scores)
        runs, values, whole = runs.take(rows), scores[rows], np.full(len(scores), np.nan)
        held = [_out_of_fold(runs, values, penalty) for penalty in PENALTIES]
        best = int(np.argmin([((each - values) ** 2).sum() for each in held]))
        whole[rows] = held[best]
        draft = cls(runs, PENALTIES[best], *_ridge(runs.weights, values, PENALTIES[best]), anchor(values, repeats(runs.weights)),
                    spread(values), 1.0, whole)
        return replace(draft, noise=calibrated(held[best] - values, draft.held_deviation()))

    @cached_property
    def _covariance(self) -> np.ndarray:
        """Of the coefficients, in units of noise^2. -> (domains, domains)"""
        return np.linalg.inv(_gram(self.runs.weights, self.penalty))

    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """(runs, domains) -> (runs,)"""
        return self.intercept + weights @ self.coefficients

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """d predict / d weights. -> (runs, domains)"""
        return np.tile(self.coefficients, (len(weights), 1))

    def _away(self, weights: np.ndarray):
        """-> weights less their mean (runs, domains), that times the covariance, variance of a new run (runs,)"""
        off = weights - self.runs.weights.mean(axis=0)
        pull = off @ self._covariance
        return off, pull, 1 + 1 / len(self.runs.weights) + (pull * off).sum(axis=1)

    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """SD of a new run's score: of the plane and of the run. -> (runs,)"""
        return self.noise * np.sqrt(self._away(weights)[2])

    def held_deviation(self) -> np.ndarray:
        """`deviation` at each scored run as if it had not been fitted. -> (scored runs,)"""
        return held_deviation(self.noise, self._away(self.runs.weights)[2] - 1)

    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray:
        """d deviation / d weights. -> (runs, domains)"""
        _, pull, variance = self._away(weights)
        return self.noise * pull / np.sqrt(variance)[:, None]

    def redrawn(self, rng: np.random.Generator) -> "Linear":
        """A plane that might have been: coefficients drawn from their covariance, through the middle of the runs."""
        move = rng.multivariate_normal(np.zeros(len(self.coefficients)), self.noise ** 2 * self._covariance, method="eigh")
        return replace(self, coefficients=self.coefficients + move, intercept=float(self.intercept - self.runs.weights.mean(axis=0) @ move))

    def to_dict(self) -> dict:
        """Plain JSON values; the runs are kept apart, once for all tasks."""
        return {"model": self.model, "penalty": self.penalty, "intercept": self.intercept, "coefficients": self.coefficients.tolist(),
                "anchor": self.anchor, "spread": self.spread, "noise": self.noise,
                "out_of_fold": [None if np.isnan(v) else float(v) for v in self.out_of_fold]}

    @classmethod
    def from_dict(cls, fields: dict, runs: Runs) -> "Linear":
        values = {name: value for name, value in fields.items() if name != "model"}
        for name in ("coefficients", "out_of_fold"):
            values[name] = np.array(values[name], float)
        return cls(runs=runs.take(np.isfinite(values["out_of_fold"])), **values)


def _gram(weights: np.ndarray, penalty: float) -> np.ndarray:
    """Of the centred weights, with the ridge: its share of the mean variance, and 1e-12 against a domain never drawn."""
    centred = weights - weights.mean(axis=0)
    ridge = len(weights) * penalty * max(float(weights.var(axis=0).mean()), 1e-12)
    return centred.T @ centred + ridge * np.eye(weights.shape[1])


def _ridge(weights: np.ndarray, scores: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
    """-> intercept, which carries no penalty, and coefficients (domains,)"""
    middle = weights.mean(axis=0)
    coefficients = np.linalg.solve(_gram(weights, penalty), (weights - middle).T @ (scores - scores.mean()))
    return float(scores.mean() - middle @ coefficients), coefficients


def _out_of_fold(runs: Runs, scores: np.ndarray, penalty: float) -> np.ndarray:
    weights, fold, predicted = runs.weights, runs.folds, np.empty(len(scores))
    for held in range(fold.max() + 1):
        intercept, coefficients = _ridge(weights[fold != held], scores[fold != held], penalty)
        predicted[fold == held] = intercept + weights[fold == held] @ coefficients
    return predicted
