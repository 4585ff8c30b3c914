"""From mixture to score: one interface for every model, one fit per task.

A model is a class with the methods of `Fitted`; MODELS names them all, and every caller goes through it.
"""
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from cuvee.kernels import trees
from cuvee.kernels.ensemble import Ensemble
from cuvee.kernels.exponential import LogLinearModel, SaturatingModel
from cuvee.kernels.gaussian import GaussianProcess
from cuvee.kernels.laws import epoch_limits
from cuvee.kernels.linear import Linear
from cuvee.kernels.runs import Runs
from cuvee.kernels.trees import Trees

MODELS: dict[str, type["Fitted"]] = {
    model.model: model for model in (Ensemble, SaturatingModel, LogLinearModel, Trees, GaussianProcess, Linear)}


class Fitted(Protocol):
    """One task's surrogate. Scores are compared as z = (score - anchor) / spread, spread = SD over the swarm.

    smooth: whether it has slopes that lead anywhere; `shared`: what all tasks of a swarm have in common, for `fit`.
    """

    model: ClassVar[str]
    smooth: bool
    anchor: float
    spread: float
    out_of_fold: np.ndarray  # (runs,) inner cross-validation at the chosen settings; NaN where a run has no score

    @staticmethod
    def shared(runs: Runs, scores: np.ndarray) -> Any: ...
    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray, shared: Any = None) -> "Fitted": ...
    @classmethod
    def from_dict(cls, fields: dict, runs: Runs) -> "Fitted": ...
    def to_dict(self) -> dict: ...
    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray: ...
    def gradient(self, weights: np.ndarray) -> np.ndarray: ...
    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray: ...
    def held_deviation(self) -> np.ndarray: ...
    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray: ...
    def redrawn(self, rng: np.random.Generator) -> "Fitted": ...


def fit(model: str, runs: Runs, scores: np.ndarray, beside: np.ndarray | None = None) -> Fitted:
    """Fit one task. scores: (runs,), NaN where a run has none; beside: (runs, tasks), all tasks, where there are more"""
    if model not in MODELS:
        raise ValueError(f"unknown model {model!r}; known: {', '.join(sorted(MODELS))}.")
    if len(scores) != len(runs.weights):
        raise ValueError(f"{len(scores)} scores for {len(runs.weights)} runs; there must be one each.")
    return MODELS[model].fit(runs, scores, None if beside is None else MODELS[model].shared(runs, beside))


def cross_validate(model: str, runs: Runs, scores: np.ndarray, beside: np.ndarray | None = None) -> np.ndarray:
    """Predictions of each scored run by a fit, settings and all, without its fold. -> (runs,), NaN where no score"""
    predicted = np.full(len(scores), np.nan)
    scored = np.flatnonzero(np.isfinite(scores))
    fold = runs.take(scored).folds
    for held in range(fold.max() + 1):
        train, test = scored[fold != held], scored[fold == held]
        epochs = None if runs.epochs is None else runs.epochs[test]
        fitted = fit(model, runs.take(train), scores[train], None if beside is None else beside[train])
        predicted[test] = fitted.predict(runs.weights[test], epochs)
    return predicted


def remarks(model: str, swarm: Runs) -> list[str]:
    """What a person should know of this model on these runs."""
    runs, domains = swarm.weights.shape
    if model == "ensemble" and not trees.installed():
        return ["lightgbm is not installed, so the ensemble goes without it; pip install 'cuvee[lightgbm]' adds it"]
    if model == "ensemble" and not trees.can_split(swarm):
        return [f"{runs} runs are too few for lightgbm, so the ensemble goes without it"]
    if model == "lightgbm" and runs < trees.RUNS_PER_DOMAIN * domains:
        return [f"lightgbm: {runs} runs for {domains} domains; under {trees.RUNS_PER_DOMAIN} a domain its trees see little of each"]
    return []


@dataclass(frozen=True)
class Surrogate:
    """All tasks' fits over one swarm, with names, so that nothing is ever joined by position."""

    domains: tuple[str, ...]
    tasks: tuple[str, ...]
    runs: Runs
    fits: tuple[Fitted, ...]

    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """(mixtures, domains) -> (mixtures, tasks)"""
        return np.column_stack([fitted.predict(weights, epochs) for fitted in self.fits])

    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """SD of a new run's scores. (mixtures, domains) -> (mixtures, tasks)"""
        return np.column_stack([fitted.deviation(weights, epochs) for fitted in self.fits])

    def smoothed(self) -> "Surrogate":
        """The same without models that have no slopes, which a search cannot follow; an error where nothing is left."""
        stuck = [name for name, fitted in zip(self.tasks, self.fits) if not (fitted.smooth or isinstance(fitted, Ensemble))]
        if stuck:
            raise ValueError(f"lightgbm has no slopes for a search to follow (task {stuck[0]}). Fit the model ensemble or saturating.")
        return replace(self, fits=tuple(fitted if fitted.smooth else fitted.smoothed() for fitted in self.fits))

    def epoch_limits(self) -> np.ndarray | None:
        """Cap in epochs where the runs cannot show harm, inf elsewhere; None without counts. -> (domains,)"""
        return epoch_limits(self.runs)

    def to_dict(self) -> dict:
        arrays = {name: None if value is None else value.tolist()
                  for name, value in (("weights", self.runs.weights), ("epochs", self.runs.epochs),
                                      ("rate", self.runs.rate))}
        return {"domains": list(self.domains), "runs": arrays,
                "tasks": [{"name": name, **fitted.to_dict()} for name, fitted in zip(self.tasks, self.fits)]}

    @staticmethod
    def from_dict(fields: dict) -> "Surrogate":
        runs = Runs(*(None if fields["runs"][name] is None else np.array(fields["runs"][name], float)
                      for name in ("weights", "epochs", "rate")))
        tasks = [dict(task) for task in fields["tasks"]]
        names = tuple(task.pop("name") for task in tasks)
        fits = tuple(MODELS[task["model"]].from_dict(task, runs) for task in tasks)
        return Surrogate(tuple(fields["domains"]), names, runs, fits)


def fit_tasks(model: str, domains: list[str], tasks: list[str], runs: Runs, scores: np.ndarray) -> Surrogate:
    """Fit every task on its own. scores: (runs, tasks), NaN where missing"""
    if runs.weights.shape[1] != len(domains) or scores.shape != (len(runs.weights), len(tasks)):
        raise ValueError(f"weights {runs.weights.shape} and scores {scores.shape} do not match "
                         f"{len(domains)} domains and {len(tasks)} tasks.")
    if model not in MODELS:
        raise ValueError(f"unknown model {model!r}; known: {', '.join(sorted(MODELS))}.")
    shared = MODELS[model].shared(runs, scores)
    fits = tuple(MODELS[model].fit(runs, scores[:, task], shared) for task in range(len(tasks)))
    return Surrogate(tuple(domains), tuple(tasks), runs, fits)
