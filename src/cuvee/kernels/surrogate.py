"""From mixture to score: one interface for every model, one fit per task.

A model is a class with the methods of `Fitted`; MODELS names them all, and every caller goes through it.
"""
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from cuvee.kernels import trees
from cuvee.kernels.ensemble import Ensemble
from cuvee.kernels.exponential import LogLinearModel, SaturatingModel
from cuvee.kernels.fitted import Fitted
from cuvee.kernels.gaussian import GaussianProcess
from cuvee.kernels.grid import Grid
from cuvee.kernels.laws import epoch_limits
from cuvee.kernels.linear import Linear
from cuvee.kernels.runs import Runs
from cuvee.kernels.settings import FREE
from cuvee.kernels.trees import Trees

MODELS: dict[str, type[Fitted]] = {
    model.model: model for model in (Ensemble, SaturatingModel, LogLinearModel, Trees, GaussianProcess, Linear)}


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
    if model == "lightgbm" and runs < trees.RUNS_PER_DOMAIN * domains:
        return [f"lightgbm: {runs} runs for {domains} domains; under {trees.RUNS_PER_DOMAIN} a domain its trees see little of each"]
    return []


def form(fitted: dict) -> str | None:
    """Which form of the saturating law a fit's `to_dict` has, free or topic x band; None for other models."""
    laws = [each for each in fitted.get("members", [fitted]) if each["model"] == SaturatingModel.model]
    return laws[0]["settings"].get("form", FREE) if laws else None


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

    @property
    def followed(self) -> tuple[Fitted, ...]:
        """The fits, for a search; a ValueError where one has no slopes to follow."""
        stuck = [name for name, fitted in zip(self.tasks, self.fits) if not fitted.smooth]
        if stuck:
            raise ValueError(f"lightgbm has no slopes for a search to follow (task {stuck[0]}). Fit the model ensemble or saturating.")
        return self.fits

    def epoch_limits(self) -> np.ndarray | None:
        """Cap in epochs where the runs cannot show harm, inf elsewhere; None without counts. -> (domains,)"""
        return epoch_limits(self.runs)

    def to_dict(self) -> dict:
        arrays = {name: None if value is None else value.tolist()
                  for name, value in (("weights", self.runs.weights), ("epochs", self.runs.epochs),
                                      ("rate", self.runs.rate))}
        grid = self.runs.grid and {"topics": self.runs.grid.topics.tolist(), "bands": self.runs.grid.bands.tolist()}
        return {"domains": list(self.domains), "runs": {**arrays, "grid": grid},
                "tasks": [{"name": name, **fitted.to_dict()} for name, fitted in zip(self.tasks, self.fits)]}

    @staticmethod
    def from_dict(fields: dict) -> "Surrogate":
        grid = fields["runs"].get("grid")
        runs = Runs(*(None if fields["runs"][name] is None else np.array(fields["runs"][name], float)
                      for name in ("weights", "epochs", "rate")), grid and Grid(*(np.array(grid[name], np.int64) for name in Grid._fields)))
        tasks = [dict(task) for task in fields["tasks"]]
        names = tuple(task.pop("name") for task in tasks)
        fits = tuple(MODELS[task["model"]].from_dict(task, runs) for task in tasks)
        return Surrogate(tuple(fields["domains"]), names, runs, fits)


def fit_tasks(model: str, domains: list[str], tasks: list[str], runs: Runs, scores: np.ndarray, threads: int = 1) -> Surrogate:
    """Fit every task on its own, alike on any number of threads (BLAS held to one). scores: (runs, tasks), NaN where missing"""
    if runs.weights.shape[1] != len(domains) or scores.shape != (len(runs.weights), len(tasks)):
        raise ValueError(f"weights {runs.weights.shape} and scores {scores.shape} do not match "
                         f"{len(domains)} domains and {len(tasks)} tasks.")
    if model not in MODELS:
        raise ValueError(f"unknown model {model!r}; known: {', '.join(sorted(MODELS))}.")
    shared = MODELS[model].shared(runs, scores)
    with ThreadPoolExecutor(threads) as pool:
        fits = tuple(pool.map(lambda task: MODELS[model].fit(runs, scores[:, task], shared), range(len(tasks))))
    return Surrogate(tuple(domains), tuple(tasks), runs, fits)
