"""Validate: is the proposal better than proportional and UniMax at larger sizes too, by more than chance?

All mixtures are trained on the same seeds, so that what a seed does falls out of their differences. At the proxy's own
size only the proposal is new: proportional is there already, from the swarm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, read_json
from cuvee.errors import DataError
from cuvee.kernels.simplex import project_kl, proportional, quantize, uniform
from cuvee.steps.mixing import gains, verdict
from cuvee.steps.proxies import tasks, training
from cuvee.steps.proxies.rounds import deployment_caps
from cuvee.steps.proxies.training import Regime, Run
from cuvee.steps.store import TokenStore

VERSION = 2
FORMAT = 2     # of validate.json
REPEATS = 5    # pairs at the proxy's size at least: as often as the swarm repeats proportional
MIXTURES = ("proportional", "unimax", "proposal")


@dataclass(frozen=True)
class Trained:
    """The runs of one size. runs: mixture -> one run a seed; files: key of a run -> URL of its scores."""

    regime: Regime
    larger: bool  # than the proxy
    seeds: tuple[int, ...]
    runs: Mapping[str, Sequence[Run]]
    files: Mapping[str, str]

    @property
    def flops(self) -> float:
        """Of one training."""
        return float(self.regime.tokens) * self.regime.config.flops_per_token


def run(work: Work, recipe: Recipe, tokens: TokenStore, fit: Folder, mix: Folder) -> Folder:
    """Train what is not trained yet, compare. fit says what each task weighs, mix what is proposed."""
    warnings = too_long(recipe)
    for each in warnings:
        work.progress.say(f"WARNING: validate: {each}")
    weights = mixtures(recipe, tokens, read_json(mix.file("mixture.json")))
    scored = tasks.run(work, recipe, tokens)
    trained, sizes = zip(*[train(work, recipe, tokens, scored, weights, *size) for size in places(recipe)])
    sizes = sorted(sizes, key=lambda size: (size.larger, size.flops))
    keys = [{name: [run.key for run in each] for name, each in size.runs.items()} for size in sizes]
    protected = recipe.protected
    step = Step("validate", VERSION, {"runs": keys, "protected": protected, "seed": recipe.seed},
                (*(folder.fingerprint for folder in trained), fit.fingerprint, mix.fingerprint), ("numpy", "scipy"))
    args = {"sizes": sizes, "mixture": mix.file("mixture.json"), "fit": fit.file("fit.json"), "protected": protected, "warnings": warnings,
            "seed": recipe.seed}
    folder = work.do(step, [Task("compare", compare, args)])
    if not any(size["larger"] and size["proposal"] for size in read_json(folder.file("validate.json"))["sizes"]):
        work.progress.say("WARNING: validate: no larger size has two pairs of finished runs, so there is nothing to ship on. See report.html.")
    return folder


def places(recipe: Recipe) -> list[tuple[str, int, int, bool]]:
    """Step, depth, tokens of every size, and whether it is larger; the proxy's shares the runs of the swarm."""
    proxy = ("swarm.runs", recipe.swarm.depth, recipe.budget.proxy, False)
    return [proxy, *((f"validate.d{size.depth}x{size.budget_factor:g}", size.depth, round(size.budget_factor * recipe.budget.proxy), True)
                     for size in recipe.larger_sizes)]


def too_long(recipe: Recipe) -> list[str]:
    """What is to be said of sizes that see more tokens than the real run, and so cannot repeat a domain as it will."""
    return [f"depth {depth} sees {budget:,} tokens, over budget.target = {recipe.budget.target:,}, so it repeats domains more than the real run will. "
            "Lower its budget_factor." for _, depth, budget, larger in places(recipe) if larger and budget > recipe.budget.target]


def mixtures(recipe: Recipe, tokens: TokenStore, mixture: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Weights of each mixture, (domains,), those of the baselines under the caps of the real run, as the swarm has them."""
    used, caps = tokens.tokens > 0, deployment_caps(recipe, tokens)
    natural, spread = np.zeros(len(used)), np.zeros(len(used))
    natural[used] = project_kl(proportional(tokens.tokens)[used], caps[used])
    spread[used] = project_kl(uniform(int(used.sum())), caps[used])
    proposal = training.matched({each["name"]: each["weight"] for each in mixture["domains"]}, tokens, "mixture.json")
    return dict(zip(MIXTURES, (natural, spread, proposal)))


def train(work: Work, recipe: Recipe, tokens: TokenStore, scored: Folder, weights: Mapping[str, np.ndarray], place: str, depth: int, budget: int,
          larger: bool) -> tuple[Folder, Trained]:
    """A run for each mixture and seed of one size."""
    regime = training.regime(recipe, tokens, depth, budget)
    count = recipe.validation.seeds if larger else max(REPEATS, recipe.validation.seeds)
    seeds = tuple(training.seed(recipe, repeat) for repeat in range(count))
    runs = {name: [Run(tuple(quantize(each, regime.rows).tolist()), seed) for seed in seeds] for name, each in weights.items()
            if larger or name != "unimax"}
    folder = training.train_all(work, place, recipe, tokens, regime, scored, [run for each in runs.values() for run in each])
    files = {run.key: folder.file(f"{run.key}.json") for each in runs.values() for run in each}
    return folder, Trained(regime, larger, seeds, runs, files)


def compare(out: Output, sizes: Sequence[Trained], mixture: str, fit: str, protected: Mapping[str, float], warnings: Sequence[str],
            seed: int) -> Counts:
    found = [{key: read_json(url) for key, url in size.files.items()} for size in sizes]
    names = next((list(each["scores"]) for runs in found for each in runs.values() if not each["failure"]), None)
    if names is None:
        raise DataError(f"all {sum(map(len, found))} runs of validation failed; the first: {next(iter(found[0].values()))['failure']} "
                        "See the proxy's depth and batch in the recipe's swarm and validate.sizes.")
    fitted, shares = read_json(fit), _weights(read_json(fit)["tasks"], names)
    scores = [_scores(size, runs, names) for size, runs in zip(sizes, found)]
    described = [describe(*each, names, shares, protected) for each in zip(sizes, found, scores)]
    curve, worth = gains.scale(described, [_finished(each["proportional"] @ shares) for each in scores], seed)
    foreseen = verdict.optimism(verdict.prediction(read_json(mixture), fitted, dict(zip(names, shares.tolist()))), described[0]["proposal"])
    word, reasons = verdict.judge(described, foreseen)
    out.json("validate.json", {
        "version": FORMAT, "verdict": word, "explanation": " ".join(reasons), "remarks": [*verdict.remarks(described, foreseen), curve["said"], *warnings],
        "sizes": [size | {"gains": each} for size, each in zip(described, worth)], "curve": curve, "optimism": foreseen,
        "tasks": [{"name": name, "weight": weight, "protected": protected.get(name), "predicted": _predicted(read_json(mixture), name)}
                  for name, weight in zip(names, shares.tolist())],
        "scores": [row for size, each in zip(sizes, scores) for row in _listed(size, each, names)]})
    return {"runs": sum(map(len, found)), "failed": sum(bool(each["failure"]) for runs in found for each in runs.values()),
            "tokens": sum(len(runs) * size.regime.tokens for size, runs in zip(sizes, found))}


def _weights(fitted: Sequence[Mapping[str, Any]], names: Sequence[str]) -> np.ndarray:
    """Weight of each task in the mean, sum 1; all alike where the fit leaves none."""
    given = {each["name"]: each["weight"] for each in fitted}
    weights = np.array([given.get(name, 0.0) for name in names], np.float64)
    return weights / weights.sum() if weights.sum() > 0 else np.full(len(names), 1 / len(names))


def _predicted(mixture: Mapping[str, Any], name: str) -> float | None:
    return next((each["predicted"] - each["proportional"] for each in mixture["tasks"] if each["name"] == name), None)


def _scores(size: Trained, found: Mapping[str, Any], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Mixture -> (seeds, tasks), NaN where the run failed."""
    return {mixture: np.array([[found[run.key]["scores"].get(name, math.nan) for name in names] for run in runs]) for mixture, runs in size.runs.items()}


def _finished(scores: np.ndarray) -> np.ndarray:
    return scores[np.isfinite(scores)]


def describe(size: Trained, found: Mapping[str, Any], scores: Mapping[str, np.ndarray], names: Sequence[str], weights: np.ndarray,
             protected: Mapping[str, float]) -> dict[str, Any]:
    """One size: the model, what failed, and differences of the weighted mean and of every task."""
    config, means = size.regime.config, {mixture: each @ weights for mixture, each in scores.items()}
    failed = [{"mixture": mixture, "seed": run.seed, "reason": found[run.key]["failure"]}
              for mixture, runs in size.runs.items() for run in runs if found[run.key]["failure"]]
    return {"depth": config.depth, "parameters": config.parameters, "tokens": size.regime.tokens, "flops": size.flops, "larger": size.larger,
            "seeds": list(size.seeds), "failed": failed, **_compared(means),
            "tasks": [_task(name, {mixture: each[:, at] for mixture, each in scores.items()}, protected.get(name))
                      for at, name in enumerate(names)]}


def _compared(values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Means of the runs that finished, and paired differences: of proposal and UniMax from proportional, of proposal from UniMax."""
    base, other = values["proportional"], values.get("unimax")
    means = {mixture: float(done.mean()) if len(done := _finished(each)) else None for mixture, each in values.items()}
    return {"means": means, "proposal": verdict.paired(base, values["proposal"]), "unimax": None if other is None else verdict.paired(base, other),
            "over_unimax": None if other is None else verdict.paired(other, values["proposal"])}


def _task(name: str, values: Mapping[str, np.ndarray], allowed: float | None) -> dict[str, Any]:
    found = _compared(values)
    return {"name": name, "protected": allowed, "regressed": verdict.passes(found["proposal"], allowed),
            **{key: found[key] for key in ("means", "proposal", "unimax")}}


def _listed(size: Trained, scores: Mapping[str, np.ndarray], names: Sequence[str]) -> list[dict[str, Any]]:
    """Every score of a run that finished, a row each."""
    return [{"depth": size.regime.config.depth, "tokens": size.regime.tokens, "mixture": mixture, "seed": run.seed, "task": task, "score": score}
            for mixture, runs in size.runs.items() for run, row in zip(runs, scores[mixture].tolist())
            for task, score in zip(names, row) if math.isfinite(score)]
