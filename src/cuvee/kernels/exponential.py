"""Models of the form score = floor + exp(c + coefficients . features): the fit, its error, its slopes."""
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from cuvee.kernels.factored import Factors
from cuvee.kernels.fitted import Fitted
from cuvee.kernels.laws import LogLinear, Saturating
from cuvee.kernels.ridge import growth
from cuvee.kernels.runs import Runs, anchor
from cuvee.kernels.scale import calibrated, held_deviation, scored_rows, spread
from cuvee.kernels.settings import FINAL_STEPS, Design, Scored

_REACH = np.e  # a draw's growth over the largest that was fitted to a run, from which on it bends towards twice that
_NULL = 1e-12  # of the largest eigenvalue of a precision: what is less is a direction that changes no coefficient


@dataclass(frozen=True)
class Exponential(Fitted):
    """A fitted law. `runs` are the scored ones; `out_of_fold` has every run of the swarm, NaN without a score.

    `factors` are what the coefficients are made of where domains are topic x band and that form was taken. `noise` is
    the SD of one run around the law, from out-of-fold residuals: run noise and misfit together. The coefficients vary by
    the covariance of the penalised Gauss-Newton fit, as if none stood at its bound.
    """

    runs: Runs
    settings: dict
    floor: float
    intercept: float
    coefficients: np.ndarray
    factors: Factors | None
    anchor: float
    spread: float
    noise: float
    out_of_fold: np.ndarray
    ceiling: float = np.inf  # of a fit that was drawn: its growth bends there
    model: ClassVar[str]
    law_of: ClassVar[type]
    smooth: ClassVar[bool] = True

    @classmethod
    def shared(cls, runs: Runs, scores: np.ndarray) -> Design:
        """Features, for the tasks that have all runs."""
        return Design(cls.law_of, runs)

    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray, shared: Design | None = None) -> "Exponential":
        """scores: (runs,) of one task, NaN where a run has none"""
        rows = scored_rows(scores)
        taken = runs.take(rows)
        task = Scored(shared if shared is not None and taken is shared.runs else Design(cls.law_of, taken), scores[rows])
        settings, held = task.best()
        fitted = task.solve(settings, task.design.features(settings), task.scores, FINAL_STEPS)
        whole = np.full(len(scores), np.nan)
        whole[rows] = held
        draft = cls(taken, settings, *fitted, anchor(task.scores, task.design.groups), spread(task.scores), 1.0, whole)
        found = replace(draft, noise=max(task.noise, calibrated(held - task.scores, draft.held_deviation())))
        found.__dict__["_roots"] = draft._roots  # in units of noise
        return found

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
        return self.floor + self._bent(self._at(weights, epochs)[1])[0]

    def _bent(self, grown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Growth g as it is up to the ceiling c, beyond it c (2 - c / g), under 2 c; and its slope in g. (runs,) -> (runs,) x 2"""
        if not np.isfinite(self.ceiling):
            return grown, np.ones_like(grown)
        share = self.ceiling / np.maximum(grown, self.ceiling)
        return np.where(share < 1, self.ceiling * (2 - share), grown), share ** 2

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """d predict / d weights. -> (runs, domains)"""
        _, grown, exposure = self._at(weights, None)
        return (grown * self._bent(grown)[1])[:, None] * self.coefficients * self.law.slopes(exposure, self.runs.exposure_rate) @ self._owner

    @cached_property
    def _owner(self) -> np.ndarray:
        """1 where a domain owns a feature. (k, domains)"""
        return (self.law.owners[:, None] == np.arange(self.law.domains)).astype(float)

    @cached_property
    def _roots(self) -> tuple[np.ndarray, np.ndarray]:
        """R R' is the covariance of (intercept, coefficients) in units of noise^2: by runs and ridge, and by the ridge alone.

        In the form topic x band the parameters are topics, bands and what each domain has beside these, each with its
        ridge, and coefficients move with them by the chain rule. -> (1 + k, parameters) x 2
        """
        features, grown, _ = self._at(self.runs.weights, self.runs.exposure)
        count, grid = features.shape[1], self.runs.grid
        unit = len(grown) * features.var(axis=0).mean() * (grown ** 2).mean()
        ridge, moves = unit * self.settings["penalty"] * np.eye(count), np.eye(count)
        if self.factors is not None:
            slopes, rest = self.factors.jacobian(grid, count - len(grid.topics)), self.settings["deviation"]
            ridge, moves = unit * self.settings["penalty"] * slopes.T @ slopes, slopes
            if rest is not None:
                ridge, moves = _beside(ridge, unit * rest * np.eye(count)), np.hstack([slopes, np.eye(count)])
        moves, ridge = _beside(np.eye(1), moves), _beside(np.zeros((1, 1)), ridge)
        jacobian = grown[:, None] * np.column_stack([np.ones(len(grown)), features]) @ moves
        return moves @ _inverse_root(jacobian.T @ jacobian + ridge), moves @ _inverse_root(ridge)

    @cached_property
    def _covariance(self) -> np.ndarray:
        """Of (intercept, coefficients), in units of noise^2. -> (1 + k, 1 + k)"""
        return self._roots[0] @ self._roots[0].T

    def contrasts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Covariance of the domains' coefficients by runs and ridge, and by the ridge alone; d score / d weight by coefficient.

        Slopes are at the mean mixture. Harm is left out: it begins beyond. -> (domains, domains) x 2, (domains,)
        """
        _, grown, exposure = self._at(self.runs.weights.mean(axis=0)[None], None)
        known, alone = (self.noise * root[1:1 + self.law.domains] for root in self._roots)
        return known @ known.T, alone @ alone.T, (grown * self.law.slopes(exposure, self.runs.exposure_rate))[0, :self.law.domains]

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

    @cached_property
    def _reach(self) -> float:
        """Ceiling of what is drawn from this fit."""
        return _REACH * float(self._at(self.runs.weights, self.runs.exposure)[1].max())

    def redrawn(self, rng: np.random.Generator) -> "Exponential":
        """A fit that might have been: coefficients drawn from their covariance, and cut at their bounds; its SDs are those of the fit.

        Where only the ridge holds a coefficient, one draw in many would otherwise predict exp(50), and every mean over draws be that.
        """
        root = self._roots[0]
        drawn = np.r_[self.intercept, self.coefficients] + self.noise * root @ rng.standard_normal(root.shape[1])
        found = replace(self, intercept=float(drawn[0]), coefficients=np.maximum(drawn[1:], self.law.lowest),
                        ceiling=self._reach)
        found.__dict__["_covariance"] = self._covariance
        return found

    def to_dict(self) -> dict:
        """Plain JSON values; the runs are kept apart, once for all tasks."""
        factors = self.factors and {"topic": self.factors.topic.tolist(), "band": self.factors.band.tolist(), "harm": self.factors.harm}
        return {"model": self.model, "settings": self.settings, "floor": self.floor, "intercept": self.intercept,
                "coefficients": self.coefficients.tolist(), "factors": factors, "anchor": self.anchor, "spread": self.spread,
                "noise": self.noise, "out_of_fold": [None if np.isnan(v) else float(v) for v in self.out_of_fold]}

    @classmethod
    def from_dict(cls, fields: dict, runs: Runs) -> "Exponential":
        """The fit that `to_dict` wrote; `runs` are all runs of its swarm."""
        values = {name: value for name, value in fields.items() if name != "model"}
        for name in ("coefficients", "out_of_fold"):
            values[name] = np.array(values[name], float)
        made = values.get("factors")
        values["factors"] = made and Factors(np.array(made["topic"], float), np.array(made["band"], float), made["harm"])
        return cls(runs=runs.take(np.isfinite(values["out_of_fold"])), **values)


def _beside(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Two blocks along the diagonal."""
    return np.block([[one, np.zeros((len(one), other.shape[1]))], [np.zeros((len(other), one.shape[1])), other]])


def _inverse_root(precision: np.ndarray) -> np.ndarray:
    """R with R R' = precision^-1 (its pseudo-inverse where a direction has no weight). (n, n) -> (n, n)"""
    values, vectors = np.linalg.eigh(precision)
    kept = values > _NULL * max(values.max(), 1e-300)
    return vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)


class SaturatingModel(Exponential):
    model = "saturating"
    law_of = Saturating


class LogLinearModel(Exponential):
    model = "loglinear"
    law_of = LogLinear
