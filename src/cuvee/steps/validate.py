"""Validate: is the proposal better than proportional at a larger size too, by more than chance?

Both are trained on the same seeds, so that what a seed does to both falls out of their difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, read_json
from cuvee.errors import DataError
from cuvee.kernels.simplex import project_kl, proportional, quantize
from cuvee.steps import tasks, training
from cuvee.steps.store import TokenStore
from cuvee.steps.swarm import deployment_caps, described
from cuvee.steps.training import Regime, Run

VERSION = 1
CONFIDENCE = 0.95  # of the interval that the verdict rests on; both sides

Runs = Mapping[str, Sequence[Run]]  # mixture -> one run per seed


def run(work: Work, recipe: Recipe, tokens: TokenStore, fit: Folder, mix: Folder) -> Folder:
    """Proportional and the proposal at a larger size. fit says what each task weighs, mix what is proposed."""
    config = recipe.validation
    regime = training.regime(recipe, tokens, config.depth or 2 * recipe.swarm.depth, round(config.budget_factor * recipe.budget.proxy))
    mixture = read_json(mix.file("mixture.json"))
    runs = plan(recipe, tokens, regime, mixture)
    scored = tasks.run(work, recipe, tokens)
    trained = training.train_all(work, "validate.runs", recipe, tokens, regime, scored, [run for each in runs.values() for run in each])
    keys = {name: [run.key for run in each] for name, each in runs.items()}
    step = Step("validate", VERSION, {"runs": keys}, (trained.fingerprint, fit.fingerprint, mix.fingerprint), ("scipy",))
    args = {"runs": runs, "files": {run.key: trained.file(f"{run.key}.json") for each in runs.values() for run in each},
            "regime": regime, "mixture": mix.file("mixture.json"), "fit": fit.file("fit.json")}
    return work.do(step, [Task("compare", compare, args)])


def plan(recipe: Recipe, tokens: TokenStore, regime: Regime, mixture: Mapping[str, Any]) -> dict[str, list[Run]]:
    """A run for each mixture and seed."""
    proposal = training.matched({each["name"]: each["weight"] for each in mixture["domains"]}, tokens, "mixture.json")
    weights = {"proportional": project_kl(proportional(tokens.tokens), deployment_caps(recipe, tokens)), "proposal": proposal}
    seeds = [training.seed(recipe, repeat) for repeat in range(recipe.validation.seeds)]
    return {name: [Run(tuple(quantize(each, regime.rows).tolist()), seed) for seed in seeds] for name, each in weights.items()}


def compare(out: Output, runs: Runs, files: Mapping[str, str], regime: Regime, mixture: str, fit: str) -> Counts:
    found = {key: read_json(url) for key, url in files.items()}
    failed = [f"{key}: {each['failure']}" for key, each in found.items() if each["failure"]]
    if failed:
        raise DataError(f"{len(failed)} of {len(found)} runs at the larger size failed, so there are no pairs to compare. "
                        f"{failed[0]} Try validate.depth = the proxy's.")
    names = list(next(iter(found.values()))["scores"])
    scores = {name: np.array([[found[run.key]["scores"][task] for task in names] for run in each]) for name, each in runs.items()}
    weights = _weights(read_json(fit)["tasks"], names)
    predicted = {each["name"]: each["predicted"] - each["proportional"] for each in read_json(mixture)["tasks"]}
    mean, per_task = differences(scores["proportional"], scores["proposal"], weights)
    expected = _expected(predicted, dict(zip(names, weights)))
    out.json("validate.json", {
        "proxy": described(regime), "tokens": regime.tokens, "seeds": [run.seed for run in runs["proposal"]],
        "scores": [{"mixture": name, "seed": run.seed, "task": task, "score": score} for name, each in runs.items()
                   for run, row in zip(each, scores[name].tolist()) for task, score in zip(names, row)],
        "tasks": [{"name": task, "weight": weight, **values} for task, weight, values in zip(names, weights.tolist(), per_task)],
        "mean": mean, "predicted_difference": expected, "verdict": verdict(mean),
        "explanation": explain(mean, expected, names, per_task, regime.tokens, len(runs["proposal"]))})
    return {"runs": len(found), "tokens": len(found) * regime.tokens}


def _weights(fitted: Sequence[Mapping[str, Any]], names: Sequence[str]) -> np.ndarray:
    """Weight of each task in the mean, sum 1; all alike where the fit leaves none."""
    given = {each["name"]: each["weight"] for each in fitted}
    weights = np.array([given.get(name, 0.0) for name in names], np.float64)
    return weights / weights.sum() if weights.sum() > 0 else np.full(len(names), 1 / len(names))


def _expected(predicted: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """Predicted difference of the weighted mean; None where a task that weighs has no prediction."""
    used = {name: weight for name, weight in weights.items() if weight > 0}
    return sum(weight * predicted[name] for name, weight in used.items()) if used.keys() <= predicted.keys() else None


def differences(base: np.ndarray, proposal: np.ndarray, weights: np.ndarray) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Paired differences, proposal less base: of the weighted mean with its interval by Student's t, and of each task.

    base, proposal: (seeds, tasks), bits per byte; weights: (tasks,), sum 1
    """
    paired = proposal - base
    count = len(paired)
    overall = paired @ weights
    error = float(overall.std(ddof=1) / np.sqrt(count))
    middle, reach = float(overall.mean()), float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    errors = paired.std(axis=0, ddof=1) / np.sqrt(count)
    columns = zip(base.mean(axis=0).tolist(), proposal.mean(axis=0).tolist(), paired.mean(axis=0).tolist(), errors.tolist())
    per_task = [dict(zip(("proportional", "proposal", "difference", "se"), values)) for values in columns]
    return {"difference": middle, "se": error, "low": middle - reach, "high": middle + reach}, per_task


def verdict(mean: Mapping[str, float]) -> str:
    """ship: better by more than chance; hold: worse by more than chance; no difference: neither can be said."""
    return "ship" if mean["high"] < 0 else "hold" if mean["low"] > 0 else "no difference"


def explain(mean: Mapping[str, float], expected: float | None, names: Sequence[str], per_task: Sequence[Mapping[str, float]], tokens: int,
            seeds: int) -> str:
    said = {"ship": "The proposal is better", "hold": "The proposal is worse", "no difference": "The two cannot be told apart"}[verdict(mean)]
    worse = [name for name, each in zip(names, per_task) if each["difference"] > 2 * each["se"] > 0]
    also = f" Worse by over two standard errors: {', '.join(worse[:5])}." if worse else ""
    foreseen = "" if expected is None else f"; {expected:+.4f} was predicted at the proxy's size"
    return (f"{said}: {mean['difference']:+.4f} bits per byte against proportional, {CONFIDENCE:.0%} interval {mean['low']:+.4f} to "
            f"{mean['high']:+.4f}, {seeds} paired seeds of {tokens:,} tokens{foreseen}.{also}")
