"""Mix: the mixture of least predicted loss that repeats no domain too often, in whole parts: `mixture.json`.

`problem.py` has what is minimised and how; for a budget between those of several swarms, kernels/ratios.py what is
predicted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cuvee.config import Mix, Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, exists, join, read_bytes, read_json, write_bytes
from cuvee.errors import DataError, UsageError
from cuvee.kernels.ratios import beyond, interpolate, share_between
from cuvee.kernels.search import Solution
from cuvee.kernels.simplex import epochs
from cuvee.kernels.surrogate import Surrogate
from cuvee.steps import store
from cuvee.steps.mixing.frontier import Point, described, frontier
from cuvee.steps.mixing.problem import TOLERANCE, Problem, cap_parts, check_limits, choose, ranges
from cuvee.steps.proxies.scores import same_domains

VERSION = 3
FORMAT = 1       # of mixture.json
FILE = "mixture.json"
REACH = 2.0      # a budget further outside of those of the swarms than by this factor needs mix.extrapolate
SHOWN = 5        # names that a message lists


class Described(NamedTuple):
    """`mixture.json`, how it was found, and the frontier with its weights."""

    mixture: dict[str, Any]
    solution: Solution
    points: list[Point]


def run(work: Work, recipe: Recipe, tokens: store.TokenStore, fits: Mapping[int, Folder]) -> Folder:
    """A folder with `mixture.json`, which is also written to WORK when its bytes differ. fits: target budget -> its fit"""
    budgets, counts = sorted(fits), dict(zip(tokens.names, tokens.tokens.tolist()))
    check_reach(budgets, recipe.budget.target, recipe.mix.extrapolate)
    config = recipe.mix.model_copy(update={"protect": recipe.protected})
    frozen = {} if config.freeze is None else unchanged(config.freeze, counts)
    shared = {"budget": recipe.budget.target, "parts": recipe.stream.parts, "seed": recipe.seed, "frozen": frozen}
    inputs = tuple(fits[target].fingerprint for target in budgets)
    identity = {name: value for name, value in config.identity().items() if name not in ("freeze", "extrapolate")}
    step = Step("mix", VERSION, {"mix": identity, "targets": budgets, **shared}, (tokens.fingerprint, *inputs), ("numba", "numpy", "scipy"))
    marks = dict(zip(["fit"] if len(fits) == 1 else [f"fit.{target}" for target in budgets], inputs))
    args = {"fits": {target: fits[target].url for target in budgets}, "counts": counts, "config": config, **shared,
            "fingerprints": {"tokens": tokens.fingerprint, **marks, "mix": step.fingerprint}}
    folder = work.do(step, [Task("mix", mix, args)])
    data, url = read_bytes(folder.file(FILE)), join(work.url, FILE)
    if not exists(url) or read_bytes(url) != data:
        write_bytes(url, data)
    gap = read_json(url)["kkt"]
    if gap > TOLERANCE:
        work.progress.say(f"WARNING: mix: the search stopped early; a mixture better by up to {gap:.2g} SDs of the swarm may be left")
    return folder


def mix(out: Output, fits: Mapping[int, str], counts: Mapping[str, int], budget: int, parts: int, config: Mix, seed: int, frozen: Mapping[str, float],
        fingerprints: Mapping[str, str]) -> Counts:
    """fits: target budget -> URL of its fit; counts: tokens of every domain of the store"""
    budgets = sorted(fits)
    surrogates = [Surrogate.from_dict(read_json(join(fits[target], "surrogate.json"))) for target in budgets]
    weights = [{task["name"]: task["weight"] for task in read_json(join(fits[target], "fit.json"))["tasks"]} for target in budgets]
    for surrogate in surrogates:
        same_domains(surrogate.domains, [name for name, count in counts.items() if count])
    surrogate = joined(_alike(surrogates), budgets, budget)
    sizes = np.array([counts[name] for name in surrogate.domains], float)
    problem = Problem(surrogate, importance(surrogate, weights, budgets, budget), sizes, budget, config, parts, frozen)
    found = describe(problem, counts, np.random.default_rng(seed), fingerprints)
    out.json(FILE, found.mixture)
    return {"domains": len(counts), "tasks": len(surrogate.tasks), "iterations": found.solution.iterations, "starts": found.solution.starts}


def check_reach(budgets: Sequence[int], budget: int, extrapolate: bool) -> None:
    """Raise where `budget` lies further from what the swarms stand for than the surrogates can say."""
    off = beyond(budgets, budget)
    if len(budgets) > 1 and off > REACH and not extrapolate:
        raise UsageError(f"a budget of {budget:,} tokens lies {off:.3g} times outside of {budgets[0]:,} to {budgets[-1]:,}, for which the swarms were "
                         f"trained; up to {REACH:g} times is drawn on. Train a swarm for that budget (budget.targets), or allow it: mix.extrapolate, --extrapolate.")


def joined(surrogates: Sequence[Surrogate], budgets: Sequence[int], budget: int) -> Surrogate:
    """What the surrogates of `budgets` say of `budget`: the only one, or a line in log budget between two."""
    if len(surrogates) == 1:
        return surrogates[0]
    try:
        return interpolate(surrogates, budgets, budget)
    except ValueError as error:
        raise DataError(f"mix: {error}") from None


def importance(surrogate: Surrogate, weights: Sequence[Mapping[str, float]], budgets: Sequence[int], budget: int) -> np.ndarray:
    """Weight of each task, drawn between the two fits that are used and no further. -> (tasks,), sum 1"""
    if len(weights) == 1:
        return np.array([weights[0][name] for name in surrogate.tasks])
    place, share = share_between(budgets, budget)
    share = min(max(share, 0.0), 1.0)
    found = np.array([(1 - share) * weights[place][name] + share * weights[place + 1][name] for name in surrogate.tasks])
    if found.sum() <= 0:
        raise DataError(f"mix: no task that counts was fitted for all of {', '.join(f'{each:,}' for each in budgets)} tokens. See `notes` in each fit.json.")
    return found / found.sum()


def _alike(surrogates: Sequence[Surrogate]) -> list[Surrogate]:
    """With the tasks that all of them have: one may be too noisy or too often missing in a swarm to be fitted there."""
    common = set.intersection(*(set(each.tasks) for each in surrogates))
    kept = [[(name, fitted) for name, fitted in zip(each.tasks, each.fits) if name in common] for each in surrogates]
    return [replace(each, tasks=tuple(name for name, _ in pairs), fits=tuple(fitted for _, fitted in pairs)) for each, pairs in zip(surrogates, kept)]


def read_old(path: str) -> dict[str, tuple[int | float, float]]:
    """Tokens and weight of each domain in a mixture.json."""
    if not exists(path):
        raise UsageError(f"freeze: no such file: {path}")
    try:
        return {each["name"]: (each["tokens"], float(each["weight"])) for each in json.loads(read_bytes(path))["domains"]}
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: not a mixture.json that `cuvee run` or `cuvee mix` wrote") from None


def unchanged(path: str, counts: Mapping[str, int | float]) -> dict[str, float]:
    """Weights, in the mixture of a file, of the domains that are what they were: the same name and the same tokens.

    counts: tokens of the domains now. A number of a topic alone says nothing: clusters are numbered anew.
    """
    old = read_old(path)
    same = {name: old[name][1] for name, count in counts.items() if count and name in old and old[name][0] == count}
    if not sum(same.values()):
        other = [name for name in counts if name in old and name not in same]
        said = f"; {len(other)} have the name but other tokens: {', '.join(other[:SHOWN])}" if other else ""
        raise DataError(f"{path}: no domain that it gives weight has the same name and the same tokens as here, so there is nothing to freeze{said}.")
    return same


def describe(problem: Problem, counts: Mapping[str, int], rng: np.random.Generator, fingerprints: Mapping[str, str]) -> Described:
    """The best mixture and all that is said of it. counts: tokens of all domains, in the order that is wanted"""
    check_limits(problem)
    whole = cap_parts(problem)
    best, chosen = choose(problem, whole)
    caps, weights = whole / problem.parts, chosen / problem.parts
    spread = ranges(problem, caps, weights, rng)
    points = frontier(problem, caps, weights)
    said = {"version": FORMAT, "budget": problem.budget, "parts": problem.parts, "domains": _domains(counts, problem, chosen, spread.low, spread.high),
            **_predicted(problem, weights), "optimism": spread.optimism, "kkt": best.kkt, "frontier": described(points),
            **({"frozen": sorted(problem.frozen)} if problem.frozen else {}), "fingerprints": dict(fingerprints)}
    return Described(said, best, points)


def _domains(counts: Mapping[str, int], problem: Problem, chosen: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[dict[str, Any]]:
    """All domains of the store, in its order; one without tokens has nothing of everything."""
    parts = problem.parts
    passes = epochs(chosen / parts, problem.budget, problem.tokens)
    rows = zip(problem.surrogate.domains, chosen.tolist(), passes.tolist(), problem.natural.tolist(), low.tolist(), high.tolist())
    found = {name: {"weight": share / parts, "parts": share, "epochs": passed, "natural": natural, "low": least, "high": most}
             for name, share, passed, natural, least, most in rows}
    nothing = {"weight": 0.0, "parts": 0, "epochs": 0.0, "natural": 0.0, "low": 0.0, "high": 0.0}
    return [{"name": name, "tokens": count, **found.get(name, nothing)} for name, count in counts.items()]


def _predicted(problem: Problem, weights: np.ndarray) -> dict[str, Any]:
    """Tasks, baselines and objective, at the weights in whole parts."""
    surrogate, others = problem.surrogate, problem.baselines
    values = dict(zip(others, surrogate.predict(np.array(list(others.values()))).tolist()))
    mine, errors = surrogate.predict(weights[None])[0].tolist(), surrogate.deviation(weights[None])[0].tolist()
    return {
        "objective": float(problem.objective(problem.fits, problem.config.kl, problem.config.risk)(weights)[0]),
        "tasks": [{"name": name, "predicted": score, "sd": sd, "proportional": base}
                  for name, score, sd, base in zip(surrogate.tasks, mine, errors, values["proportional"])],
        "mean": problem.at(weights)._asdict(),
        "baselines": {name: {"weights": dict(zip(surrogate.domains, each.tolist())), "predicted": dict(zip(surrogate.tasks, values[name])),
                             "mean": problem.at(each)._asdict()}
                      for name, each in others.items()}}
