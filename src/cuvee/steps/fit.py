"""Fit: one surrogate a task from the swarm's mixtures and scores, which tasks count, and how well runs are predicted.

`fit.tasks` fits every task and predicts each run without its fold; `fit` gathers `surrogate.json` and `fit.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, join, read_json
from cuvee.errors import UsageError, missing_extra, nearest
from cuvee.kernels import identify, trees
from cuvee.kernels import surrogate as models
from cuvee.kernels.agreement import regret_at_1, spearman, spearman_interval
from cuvee.kernels.runs import folds
from cuvee.kernels.text import hash64
from cuvee.steps import store
from cuvee.steps.proxies import gate, scores

VERSION = 7
LEAST_RUNS = 5  # that must be left without one fold, and that a rank correlation needs
USES = ("numba", "numpy", "scipy")


def run(work: Work, recipe: Recipe, tokens: store.TokenStore, swarm: Folder, old: Folder | None = None) -> Folder:
    """A folder with `surrogate.json` and `fit.json`; what is left out, and why, is said each time. old: what reuse.py left"""
    names = [task["name"] for task in read_json(swarm.file("runs.json"))["tasks"]]
    for name in recipe.mix.tasks:
        if name not in names:
            raise UsageError(f"mix.tasks: the swarm has no task '{name}'. {nearest(name, names)}")
    inputs = scores.Inputs.of(swarm.url, tokens, recipe.budget.target, None if old is None else old.file("old.json"))
    for name in recipe.protected:
        if name not in names:
            raise UsageError(f"mix.protect: the swarm has no task '{name}'. {nearest(name, names)}")
    shared = {"model": recipe.fit.model, "seed": recipe.seed}
    step = Step("fit.tasks", VERSION, {**shared, "target": recipe.budget.target}, (tokens.fingerprint, swarm.fingerprint, *([] if old is None else [old.fingerprint])), uses(recipe.fit.model))
    fits = work.do(step, [Task(name, fit_task, {"inputs": inputs, "name": _file(place), "task": name, **shared}) for place, name in enumerate(names)])
    rule = {"chosen": recipe.mix.tasks, "roles": gate.roles(recipe), "min_snr": recipe.fit.min_snr, "min_predictability": recipe.fit.min_predictability}
    folder = work.do(Step("fit", VERSION, {**shared, **rule}, (fits.fingerprint,), uses(recipe.fit.model)),
                     [Task("fit", gather, {"inputs": inputs, "folder": fits.url, **shared, **rule})])
    for note in read_json(folder.file("fit.json"))["notes"]:
        work.progress.say(f"WARNING: fit: {note}")
    return folder


def uses(model: str) -> tuple[str, ...]:
    """Packages that shape a fit."""
    if model != "lightgbm":
        return USES
    if not trees.installed():
        raise missing_extra("lightgbm", "lightgbm")
    return (*USES, "lightgbm")


def _file(place: int) -> str:
    """A task's file; its name may hold any character."""
    return f"{place:05d}.json"


def fit_task(out: Output, inputs: scores.Inputs, name: str, task: str, model: str, seed: int) -> Counts:
    """One task: the fit, each run predicted without its fold, signal and noise. SDs and regret are in bits per byte."""
    swarm = scores.read(inputs)
    values = swarm.of(task)
    has = np.isfinite(values)
    found = {"missing": int((~has).sum()), "fit": None, "predicted": None,
             **gate.signal(swarm.runs.weights[has], values[has], swarm.half[has, swarm.place(task)])}
    if _enough(swarm.runs.weights[has]):
        predicted = models.cross_validate(model, swarm.runs, values, swarm.values)
        found |= {"fit": models.fit(model, swarm.runs, values, swarm.values).to_dict(), "predicted": _plain(predicted),
                  "regret": regret_at_1(predicted[has], values[has]), **agreement(predicted[has], values[has], hash64(task, seed))}
    out.json(name, found)
    return {"scores": int(has.sum()), "missing": found["missing"]}


def _enough(weights: np.ndarray) -> bool:
    """Whether every fold leaves enough runs, of two mixtures at least. (runs, domains)"""
    if len(weights) <= LEAST_RUNS:
        return False
    sizes = np.bincount(folds(weights))
    return len(sizes) > 2 and len(weights) - sizes.max() >= LEAST_RUNS


def agreement(predicted: np.ndarray, observed: np.ndarray, seed: int) -> dict[str, float | None]:
    """Rank correlation with its 90 % bootstrap interval over runs; None for too few runs."""
    if len(observed) < LEAST_RUNS:
        return {"spearman": None, "low": None, "high": None}
    low, high = spearman_interval(predicted, observed, np.random.default_rng(seed))
    return {"spearman": spearman(predicted, observed), "low": low, "high": high}


def _plain(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def gather(out: Output, inputs: scores.Inputs, folder: str, model: str, seed: int, chosen: Mapping[str, float], roles: Mapping[str, str],
           min_snr: float, min_predictability: float) -> Counts:
    """All fits in one file; which tasks count and how much; how well the runs' weighted mean is predicted."""
    swarm = scores.read(inputs)
    found = {task["name"]: {"kind": task["kind"], "role": roles.get(task["name"], gate.TARGET), **read_json(join(folder, _file(place)))}
             for place, task in enumerate(swarm.tasks)}
    weights, notes = gate.importance(found, chosen, min_snr, dict(zip(inputs.names, inputs.tokens)), min_predictability)
    why = gate.why_zero(found, weights, min_snr, min_predictability)
    fits = {name: models.MODELS[model].from_dict(each["fit"], swarm.runs) for name, each in found.items() if each["fit"] is not None}
    out.json("surrogate.json", models.Surrogate(swarm.domains, tuple(fits), swarm.runs, tuple(fits.values())).to_dict())
    measured = {name: swarm.of(name) for name in found}
    predicted = {name: np.array(found[name]["predicted"], float) for name in fits}
    means = mean_z(measured, fits, weights), mean_z(predicted, fits, weights)
    whole = np.isfinite(means[0])
    mean = agreement(means[1][whole], means[0][whole], seed) | _noise(swarm.runs.weights[whole], means[0][whole])
    missing = {name: each["missing"] for name, each in found.items() if each["missing"]}
    blurred = identify.named(identify.identify(list(fits.values()), np.array([weights.get(name, 0.0) for name in fits])), swarm.domains)
    out.json("fit.json", {
        "model": model, "tasks": [_task(name, each, weights.get(name, 0.0), why[name]) for name, each in found.items()],
        "mean": mean, "identified": blurred, "runs": _runs(swarm, measured, predicted, means),
        "notes": [*swarm.notes, *models.remarks(model, swarm.runs), *_missing(missing), *notes, *_blind(mean), *identify.remarks(blurred)]})
    return {"runs": len(swarm.keys), "tasks": len(found), "weighted": len(weights), "missing": sum(missing.values())}


def mean_z(values: Mapping[str, np.ndarray], fits: Mapping[str, models.Fitted], weights: Mapping[str, float]) -> np.ndarray:
    """Weighted mean of z = (score - anchor) / SD over the swarm, as the mixture's objective has it; NaN where one is missing. (runs,)"""
    return np.sum([weight * (values[name] - fits[name].anchor) / fits[name].spread for name, weight in weights.items()], axis=0)


def _task(name: str, found: Mapping[str, Any], weight: float, why: str | None) -> dict[str, Any]:
    shown = ("kind", "role", "swarm_sd", "noise_sd", "freedom", "snr", "resolves", "noise_ratio", "noise_p", "predictability",
             "spearman", "low", "high", "regret", "missing")
    form = found["fit"] and models.form(found["fit"])
    return {"name": name, "weight": weight, "why": why, "form": form, **{key: found.get(key) for key in shown}}


def _noise(weights: np.ndarray, means: np.ndarray) -> dict[str, float | int | None]:
    """Noise of the weighted mean, in SDs of the swarm, and the difference between two runs that it lets see."""
    found = gate.signal(weights, means)
    return {name: found[name] for name in ("noise_sd", "freedom", "resolves")}


def _runs(swarm: scores.Scores, measured: Mapping[str, np.ndarray], predicted: Mapping[str, np.ndarray],
          means: tuple[np.ndarray, np.ndarray]) -> list[dict[str, Any]]:
    """Every run's scores, measured and predicted out of fold: by task in bits per byte, as mean in z."""
    columns = [_plain(mean) for mean in means]
    return [{"run": key, "kind": swarm.kinds[at], "measured": _at(measured, at), "predicted": _at(predicted, at),
             "measured_mean": columns[0][at], "predicted_mean": columns[1][at]} for at, key in enumerate(swarm.keys)]


def _at(values: Mapping[str, np.ndarray], run: int) -> dict[str, float]:
    return {name: float(each[run]) for name, each in values.items() if np.isfinite(each[run])}


def _missing(missing: Mapping[str, int]) -> list[str]:
    shown = gate.listed([f"{name} ({count})" for name, count in missing.items()])
    return [f"{sum(missing.values())} scores of single tasks are missing; these runs are left out there: {shown}"] if missing else []


def _blind(mean: Mapping[str, float | None]) -> list[str]:
    """What is said where predictions may rank runs no better than chance."""
    if mean["low"] is None:
        return ["too few runs have all scores that count, so nothing shows whether predictions rank mixtures"]
    if mean["low"] > 0:
        return []
    return [f"out of fold, predictions do not surely rank the runs: Spearman {mean['spearman']:.2f}, 90 % interval {mean['low']:.2f} to "
            f"{mean['high']:.2f}. Take the mixture for a guess; raise swarm.runs or budget.proxy."]
