"""Models of the form score = floor + exp(c + coefficients . features): settings by cross-validation, then the fit."""
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np

from cuvee.kernels.laws import LogLinear, Saturating
from cuvee.kernels.ridge import fit_exponential, growth
from cuvee.kernels.runs import Runs, anchor, repeat_noise, repeats
from cuvee.kernels.scale import calibrated, held_deviation, scored_rows

# floor = anchor - kappa gap; under 1 it lies above the best run: from 512 RegMix runs the log-linear law then ranks the
# 1M test set at .967, with kappa >= 1 at .93
KAPPAS = (0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # ridge in units of the features' mean variance
_START = {"kappa": 0.85, "penalty": 1e-3}
_FACTORS = (1.4, 1.2, 1.2, 1.1, 1.05)  # how far each setting but the ridge is then moved, both ways
_ROUNDS = 5  # passes over the blocks of settings, fewer where one changes nothing
_SEARCH_STEPS, _FINAL_STEPS = 3, 50  # Gauss-Newton steps while settings are compared, and at the end


@dataclass(frozen=True)
class _Task:
    """Scored runs of one task, and what one choice of settings gives on them."""

    law_of: type
    runs: Runs
    scores: np.ndarray

    @cached_property
    def groups(self) -> np.ndarray:
        return repeats(self.runs.weights)

    def floor(self, kappa: float, noise: float) -> float:
        """anchor - max(kappa gap, 3 noise), gap = anchor - best, at least the noise. Of all runs, in every fold."""
        middle = anchor(self.scores, self.groups)
        gap = max(middle - self.scores.min(), noise)
        return middle - max(kappa * gap, 3 * noise, 1e-9 * (1 + abs(middle)))

    def fit(self, settings: dict, rows: np.ndarray, noise: float, steps: int):
        """-> floor, intercept, coefficients (k,)"""
        law = self.law_of.of(settings, self.runs)
        features = law.features(self.runs.weights[rows], self.runs.exposure[rows])
        floor = self.floor(settings["kappa"], noise)
        lower = np.full(features.shape[1], law.lowest)
        penalty = settings["penalty"] * features.var(axis=0).mean()
        return floor, *fit_exponential(features, self.scores[rows], floor, penalty, lower, steps)

    def by_fold(self, settings: dict, noise: float, steps: int):
        """Yield each fold's rows with their predictions from the other folds."""
        law = self.law_of.of(settings, self.runs)
        features = law.features(self.runs.weights, self.runs.exposure)
        for fold in range(self.runs.folds.max() + 1):
            rows = np.flatnonzero(self.runs.folds == fold)
            floor, intercept, coefficients = self.fit(settings, np.flatnonzero(self.runs.folds != fold), noise, steps)
            yield rows, floor + growth(features[rows], intercept, coefficients)

    def out_of_fold(self, settings: dict, noise: float) -> np.ndarray:
        """-> (runs,)"""
        predicted = np.empty(len(self.scores))
        for rows, values in self.by_fold(settings, noise, _FINAL_STEPS):
            predicted[rows] = values
        return predicted

    def loss(self, settings: dict, noise: float, limit: float) -> float:
        """Sum of squared errors out of fold; inf as soon as it passes `limit`, which saves most of the work."""
        total = 0.0
        for rows, predicted in self.by_fold(settings, noise, _SEARCH_STEPS):
            total += ((predicted - self.scores[rows]) ** 2).sum()
            if total > limit:
                return np.inf
        return float(total)

    def choose(self, noise: float) -> dict:
        """Settings of least loss: block by block over the grid, then by ever smaller factors around the best."""
        grid = {**self.law_of.grid(self.runs), "kappa": KAPPAS, "penalty": PENALTIES}
        best = {**{name: values[(len(values) - 1) // 2] for name, values in grid.items()}, **_START}
        least = self.loss(best, noise, np.inf)
        for _ in range(_ROUNDS):
            before = least
            for block in (*self.law_of.blocks, ("kappa",), ("penalty",)):
                tried = (dict(zip(block, values)) for values in product(*(grid[name] for name in block)))
                best, least = self.better(best, least, tried, noise)
            if least == before:
                break
        for factor in _FACTORS:
            for name in (name for name in grid if name != "penalty"):
                low, high = min(grid[name]), max(grid[name])
                tried = [{name: float(np.clip(best[name] * f, low, high))} for f in (factor, 1 / factor)]
                best, least = self.better(best, least, tried, noise)
        return best

    def better(self, best: dict, least: float, changes, noise: float) -> tuple[dict, float]:
        """The best settings and their loss after trying each of `changes`."""
        start = best
        for change in changes:
            settings = {**start, **change}
            loss = self.loss(settings, noise, least) if settings != best else least
            if loss < least:
                best, least = settings, loss
        return best, least


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
    smooth: ClassVar[bool] = True

    @staticmethod
    def shared(runs: Runs, scores: np.ndarray) -> None:
        """Nothing is shared by tasks."""

    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray, shared: None = None) -> "Exponential":
        """scores: (runs,) of one task, NaN where a run has none"""
        scored = scored_rows(scores)
        task = _Task(cls.law_of, runs.take(scored), scores[scored])
        noise = repeat_noise(task.scores, task.groups)
        settings = task.choose(noise)
        held = task.out_of_fold(settings, noise)
        residual = held - task.scores
        fitted = task.fit(settings, np.arange(len(held)), noise, _FINAL_STEPS)
        whole = np.full(len(scores), np.nan)
        whole[scored] = held
        draft = cls(task.runs, settings, *fitted, anchor(task.scores, task.groups), float(task.scores.std()), 1.0, whole)
        return replace(draft, noise=max(noise, calibrated(residual, draft.held_deviation())))

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
        return grown[:, None] * self.coefficients * self.law.slopes(exposure, self.runs.exposure_rate) @ self._owner

    @cached_property
    def _owner(self) -> np.ndarray:
        """1 where a domain owns a feature. (k, domains)"""
        return (self.law.owners[:, None] == np.arange(self.law.domains)).astype(float)

    @cached_property
    def _covariance(self) -> np.ndarray:
        """Of (intercept, coefficients), in units of noise^2. -> (1 + k, 1 + k)"""
        features, grown, _ = self._at(self.runs.weights, self.runs.exposure)
        jacobian = grown[:, None] * np.column_stack([np.ones(len(grown)), features])
        unit = (grown ** 2).mean()
        ridge = len(grown) * self.settings["penalty"] * features.var(axis=0).mean() * unit
        precision = jacobian.T @ jacobian + ridge * np.diag(np.r_[0.0, np.ones(features.shape[1])])
        return np.linalg.pinv(precision, hermitian=True)

    def _leverage(self, weights: np.ndarray, epochs: np.ndarray | None) -> np.ndarray:
        """Variance of the prediction in units of noise^2. -> (runs,)"""
        features, grown, _ = self._at(weights, epochs)
        jacobian = grown[:, None] * np.column_stack([np.ones(len(grown)), features])
        return np.maximum(((jacobian @ self._covariance) * jacobian).sum(axis=1), 0.0)

    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """SD of a new run's score: of the coefficients and of the run. -> (runs,)"""
        return self.noise * np.sqrt(1 + self._leverage(weights, epochs))

    def held_deviation(self) -> np.ndarray:
        """`deviation` at each scored run as if it had not been fitted. -> (scored runs,)"""
        return held_deviation(self.noise, self._leverage(self.runs.weights, self.runs.exposure))

    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray:
        """d deviation / d weights. -> (runs, domains)"""
        features, grown, exposure = self._at(weights, None)
        rows = np.column_stack([np.ones(len(grown)), features])
        pull = (rows * grown[:, None]) @ self._covariance
        variance = (pull * rows).sum(axis=1) * grown
        slopes = self.law.slopes(exposure, self.runs.exposure_rate)
        change = slopes * (variance[:, None] * self.coefficients + grown[:, None] * pull[:, 1:])
        return self.noise * (change @ self._owner) / np.sqrt(1 + variance)[:, None]

    def redrawn(self, rng: np.random.Generator) -> "Exponential":
        """A fit that might have been: coefficients drawn from their covariance, and cut at their bounds."""
        found = np.r_[self.intercept, self.coefficients]
        drawn = rng.multivariate_normal(found, self.noise ** 2 * self._covariance, check_valid="ignore", method="eigh")
        return replace(self, intercept=float(drawn[0]), coefficients=np.maximum(drawn[1:], self.law.lowest))

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
