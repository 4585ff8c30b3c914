"""Models of the form score = floor + exp(c + coefficients . features): settings by cross-validation, then the fit."""
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np

from cuvee.kernels.laws import LogLinear, Saturating
from cuvee.kernels.ridge import fit_exponential, growth
from cuvee.kernels.runs import Runs, anchor, folds, repeat_noise, repeats

KAPPAS = (0.7, 1.0, 1.5, 2.5, 4.0)  # floor = anchor - kappa gap; the log-linear law needs one above the best run
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # ridge in units of the features' mean variance
_ROUNDS = 2  # passes over the blocks of settings
_SEARCH_STEPS, _FINAL_STEPS = 6, 50  # Gauss-Newton steps while settings are compared, and at the end
_LEAST_RUNS = 5  # one per fold


@dataclass(frozen=True)
class _Task:
    """Scored runs of one task, and what one choice of settings gives on them."""

    law_of: type
    runs: Runs
    scores: np.ndarray

    @cached_property
    def groups(self) -> np.ndarray:
        return repeats(self.runs.weights)

    @cached_property
    def folds(self) -> np.ndarray:
        return folds(self.runs.weights)

    def floor(self, rows: np.ndarray, kappa: float, noise: float) -> float:
        """anchor - max(kappa gap, 3 noise), gap = anchor - best, at least the noise."""
        scores = self.scores[rows]
        middle = anchor(scores, self.groups[rows])
        gap = max(middle - scores.min(), noise)
        return middle - max(kappa * gap, 3 * noise, 1e-9 * (1 + abs(middle)))

    def fit(self, settings: dict, rows: np.ndarray, noise: float, steps: int):
        """-> floor, intercept, coefficients (k,)"""
        law = self.law_of.of(settings, self.runs)
        features = law.features(self.runs.weights[rows], self.runs.exposure[rows])
        floor = self.floor(rows, settings["kappa"], noise)
        lower = np.full(features.shape[1], law.lowest)
        penalty = settings["penalty"] * features.var(axis=0).mean()
        return floor, *fit_exponential(features, self.scores[rows], floor, penalty, lower, steps)

    def out_of_fold(self, settings: dict, noise: float, steps: int) -> np.ndarray:
        """Each run's prediction from the other folds. -> (runs,)"""
        law = self.law_of.of(settings, self.runs)
        features = law.features(self.runs.weights, self.runs.exposure)
        predicted = np.empty(len(self.scores))
        for fold in range(self.folds.max() + 1):
            held = self.folds == fold
            floor, intercept, coefficients = self.fit(settings, np.flatnonzero(~held), noise, steps)
            predicted[held] = floor + growth(features[held], intercept, coefficients)
        return predicted

    def choose(self, noise: float) -> dict:
        """Settings of least squared error out of fold: one block after the other, twice."""
        grid = {**self.law_of.grid(self.runs), "kappa": KAPPAS, "penalty": PENALTIES}
        best = {name: values[len(values) // 2] for name, values in grid.items()}
        losses = {}

        def loss(settings: dict) -> float:
            key = tuple(settings.values())
            if key not in losses:
                losses[key] = ((self.out_of_fold(settings, noise, _SEARCH_STEPS) - self.scores) ** 2).mean()
            return losses[key]

        for _ in range(_ROUNDS):
            for block in (*self.law_of.blocks, ("kappa",), ("penalty",)):
                tried = [{**best, **dict(zip(block, values))} for values in product(*(grid[name] for name in block))]
                best = min(tried, key=loss)
        return best


@dataclass(frozen=True)
class Exponential:
    """A fitted law. `runs` are the scored ones; `out_of_fold` has every run of the swarm, NaN without a score.

    `noise` is the SD of one run around the law, from out-of-fold residuals: run noise and misfit together. The
    coefficients vary by the covariance of the penalised Gauss-Newton fit, as if none stood at its bound.
    """

    runs: Runs
    settings: dict
    floor: float
    intercept: float
    coefficients: np.ndarray
    anchor: float
    spread: float
    noise: float
    out_of_fold: np.ndarray
    model: ClassVar[str]
    law_of: ClassVar[type]

    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray) -> "Exponential":
        """scores: (runs,) of one task, NaN where a run has none"""
        scored = np.isfinite(scores)
        if scored.sum() < _LEAST_RUNS:
            raise ValueError(f"a surrogate needs at least {_LEAST_RUNS} runs with a score; got {scored.sum()}.")
        task = _Task(cls.law_of, runs.take(scored), scores[scored])
        known = repeat_noise(task.scores, task.groups)
        settings = task.choose(known or 0.0)
        held = task.out_of_fold(settings, known or 0.0, _FINAL_STEPS)
        residual = held - task.scores
        noise = np.sqrt((residual ** 2).mean()) if known is None else known
        fitted = task.fit(settings, np.arange(len(held)), noise, _FINAL_STEPS)
        whole = np.full(len(scores), np.nan)
        whole[scored] = held
        draft = cls(task.runs, settings, *fitted, anchor(task.scores, task.groups), float(task.scores.std()), 1.0, whole)
        inflation = draft.deviation(task.runs.weights, task.runs.exposure) ** 2
        return replace(draft, noise=float(np.sqrt((residual ** 2 / inflation).mean())))

    @cached_property
    def law(self):
        return self.law_of.of(self.settings, self.runs)

    def _at(self, weights: np.ndarray, epochs: np.ndarray | None):
        """-> features (runs, k), score above the floor (runs,), exposure (runs, domains)"""
        exposure = weights * self.runs.exposure_rate if epochs is None else epochs
        features = self.law.features(weights, exposure)
        return features, growth(features, self.intercept, self.coefficients), exposure

    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """Score of each mixture; epochs default to those of the target budget. (runs, domains) -> (runs,)"""
        return self.floor + self._at(weights, epochs)[1]

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """d predict / d weights. -> (runs, domains)"""
        _, grown, exposure = self._at(weights, None)
        return self._scatter(grown[:, None] * self.coefficients * self.law.slopes(exposure, self.runs.exposure_rate))

    def _scatter(self, per_feature: np.ndarray) -> np.ndarray:
        """Sum features by the domain that owns them. (runs, k) -> (runs, domains)"""
        owner = self.law.owners[:, None] == np.arange(self.law.domains)
        return per_feature @ owner

    @cached_property
    def _covariance(self) -> np.ndarray:
        """Of (intercept, coefficients), in units of noise^2. -> (1 + k, 1 + k)"""
        features, grown, _ = self._at(self.runs.weights, self.runs.exposure)
        jacobian = grown[:, None] * np.column_stack([np.ones(len(grown)), features])
        unit = (grown ** 2).mean()
        ridge = len(grown) * self.settings["penalty"] * features.var(axis=0).mean() * unit
        precision = jacobian.T @ jacobian + ridge * np.diag(np.r_[0.0, np.ones(features.shape[1])])
        return np.linalg.pinv(precision, hermitian=True)

    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """SD of a new run's score: of the coefficients and of the run. -> (runs,)"""
        features, grown, _ = self._at(weights, epochs)
        jacobian = grown[:, None] * np.column_stack([np.ones(len(grown)), features])
        return self.noise * np.sqrt(1 + np.maximum(((jacobian @ self._covariance) * jacobian).sum(axis=1), 0.0))

    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray:
        """d deviation / d weights. -> (runs, domains)"""
        features, grown, exposure = self._at(weights, None)
        rows = np.column_stack([np.ones(len(grown)), features])
        pull = (rows * grown[:, None]) @ self._covariance
        variance = (pull * rows).sum(axis=1) * grown
        slopes = self.law.slopes(exposure, self.runs.exposure_rate)
        change = slopes * (variance[:, None] * self.coefficients + grown[:, None] * pull[:, 1:])
        return self.noise * self._scatter(change) / np.sqrt(1 + variance)[:, None]

    def to_dict(self) -> dict:
        """Plain JSON values; the runs are kept apart, once for all tasks."""
        return {"model": self.model, "settings": self.settings, "floor": self.floor, "intercept": self.intercept,
                "coefficients": self.coefficients.tolist(), "anchor": self.anchor, "spread": self.spread,
                "noise": self.noise, "out_of_fold": [None if np.isnan(v) else float(v) for v in self.out_of_fold]}

    @classmethod
    def from_dict(cls, fields: dict, runs: Runs) -> "Exponential":
        """The fit that `to_dict` wrote; `runs` are all runs of its swarm."""
        values = {name: value for name, value in fields.items() if name != "model"}
        values["coefficients"] = np.array(values["coefficients"], float)
        values["out_of_fold"] = np.array(values["out_of_fold"], float)
        return cls(runs=runs.take(np.isfinite(values["out_of_fold"])), **values)


class SaturatingModel(Exponential):
    model = "saturating"
    law_of = Saturating


class LogLinearModel(Exponential):
    model = "loglinear"
    law_of = LogLinear
