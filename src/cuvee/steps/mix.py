"""Mix: the mixture of least predicted loss that repeats no domain too often, in whole parts.

minimise sum_t omega_t z_t(w) + kl KL(w || natural) + risk SD(w) under epoch caps; writes `mixture.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cuvee.config import Mix, Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, exists, join, read_bytes, read_json, write_bytes
from cuvee.errors import DataError
from cuvee.kernels.search import Solution, minimise, mixture_objective
from cuvee.kernels.simplex import check_reach, epoch_caps, epochs, proportional, quantize_capped, uniform, unimax
from cuvee.kernels.surrogate import Surrogate
from cuvee.steps import store
from cuvee.steps.scores import same_domains

VERSION = 1
FORMAT = 1       # of mixture.json
FILE = "mixture.json"
TOLERANCE = 1e-6  # kkt, in SDs of the swarm
BEST_RUNS = 3    # mixtures of the swarm, best by the objective, that the search starts from too
DRAWS = 40       # fits that might have been; their optima give low and high
DRAW_TOLERANCE = 1e-3  # kkt of these
RANGE = (0.05, 0.95)   # quantiles of the optima; 77 % of the true ones lay inside (docs/decisions.md)


class Problem(NamedTuple):
    """What is minimised: fits of the tasks that count, over the domains that have tokens."""

    surrogate: Surrogate
    importance: np.ndarray  # (tasks,)
    tokens: np.ndarray      # (domains,) > 0
    budget: int
    config: Mix

    @property
    def natural(self) -> np.ndarray:
        return proportional(self.tokens)

    def objective(self, fits: Sequence[Any], risk: float):
        return mixture_objective(fits, self.importance, self.natural, self.config.kl, risk)


def run(work: Work, recipe: Recipe, tokens: store.TokenStore, fit: Folder) -> Folder:
    """A folder with `mixture.json`, which is also written to WORK when its bytes differ."""
    config = {"mix": recipe.mix.identity(), "budget": recipe.budget.target, "parts": recipe.stream.parts, "seed": recipe.seed}
    step = Step("mix", VERSION, config, (tokens.fingerprint, fit.fingerprint), ("numba", "numpy", "scipy"))
    args = {"fit": fit.url, "names": tuple(tokens.names), "tokens": tuple(tokens.tokens.tolist()), "budget": recipe.budget.target,
            "parts": recipe.stream.parts, "config": recipe.mix, "seed": recipe.seed,
            "fingerprints": {"tokens": tokens.fingerprint, "fit": fit.fingerprint, "mix": step.fingerprint}}
    folder = work.do(step, [Task("mix", mix, args)])
    data, url = read_bytes(folder.file(FILE)), join(work.url, FILE)
    if not exists(url) or read_bytes(url) != data:
        write_bytes(url, data)
    gap = read_json(url)["kkt"]
    if gap > TOLERANCE:
        work.progress.say(f"WARNING: mix: the search stopped early; a mixture better by up to {gap:.2g} SDs of the swarm may be left")
    return folder


def mix(out: Output, fit: str, names: Sequence[str], tokens: Sequence[int], budget: int, parts: int, config: Mix, seed: int,
        fingerprints: Mapping[str, str]) -> Counts:
    surrogate = Surrogate.from_dict(read_json(join(fit, "surrogate.json")))
    weights = {task["name"]: task["weight"] for task in read_json(join(fit, "fit.json"))["tasks"]}
    counts = dict(zip(names, tokens))
    same_domains(surrogate.domains, [name for name, count in counts.items() if count])
    sizes = np.array([counts[name] for name in surrogate.domains], float)
    problem = Problem(surrogate, np.array([weights[name] for name in surrogate.tasks]), sizes, budget, config)
    whole = cap_parts(problem, parts)
    best = solve(problem, whole / parts)
    chosen = quantize_capped(best.weights / best.weights.sum(), parts, whole)
    low, high = weight_range(problem, whole / parts, chosen / parts, np.random.default_rng(seed))
    found = {"version": FORMAT, "budget": budget, "parts": parts, "domains": _domains(counts, problem, chosen, parts, low, high),
             **_predicted(problem, chosen / parts), "kkt": best.kkt, "fingerprints": dict(fingerprints)}
    out.json(FILE, found)
    return {"domains": len(names), "tasks": len(weights), "iterations": best.iterations, "starts": best.starts}


def cap_parts(problem: Problem, parts: int) -> np.ndarray:
    """Most parts of each domain: by max_epochs, and by the epochs that the swarm can vouch for. int64 (domains,)"""
    most = np.minimum(problem.config.max_epochs, problem.surrogate.epoch_limits())
    whole = np.floor(epoch_caps(problem.tokens, problem.budget, most) * parts).astype(np.int64)
    try:
        check_reach(whole / parts)
    except ValueError as error:
        fewer = int((most < problem.config.max_epochs).sum())
        seen = f"; {fewer} domains have a lower one, the most epochs that the swarm tried" if fewer else ""
        raise DataError(f"mix: {error} The cap is mix.max_epochs = {problem.config.max_epochs:g}{seen}.") from None
    return whole


def solve(problem: Problem, caps: np.ndarray) -> Solution:
    """The best of several starts: natural, UniMax, uniform, and the swarm's best mixtures."""
    objective = problem.objective(problem.surrogate.fits, problem.config.risk)
    tried = np.unique(problem.surrogate.runs.weights, axis=0)
    values = np.array([objective(weights)[0] for weights in tried])
    best = tried[np.argsort(values, kind="stable")[:BEST_RUNS]]
    return minimise(objective, np.vstack([*baselines(problem).values(), best]), caps, TOLERANCE)


def weight_range(problem: Problem, caps: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Where the optimum may lie: quantiles of the optima of fits drawn from their error, without caution. (domains,) x 2

    `risk` is left out there since it pulls all draws to one place; the range always holds the weight itself.
    """
    optima = []
    for _ in range(DRAWS):
        drawn = [fitted.redrawn(rng) if share else fitted for fitted, share in zip(problem.surrogate.fits, problem.importance)]
        optima.append(minimise(problem.objective(drawn, 0.0), weights, caps, DRAW_TOLERANCE).weights)
    low, high = np.quantile(optima, RANGE, axis=0)
    return np.minimum(low, weights), np.maximum(high, weights)


def baselines(problem: Problem) -> dict[str, np.ndarray]:
    """Only UniMax keeps the caps: the others are what they are called."""
    spread = unimax(problem.tokens, problem.budget, problem.config.max_epochs)
    return {"proportional": problem.natural, "unimax": spread, "uniform": uniform(len(problem.tokens))}


def _domains(counts: Mapping[str, int], problem: Problem, chosen: np.ndarray, parts: int, low: np.ndarray, high: np.ndarray) -> list[dict[str, Any]]:
    """All domains of the store, in its order; one without tokens has nothing of everything."""
    passes = epochs(chosen / parts, problem.budget, problem.tokens)
    rows = zip(problem.surrogate.domains, chosen.tolist(), passes.tolist(), problem.natural.tolist(), low.tolist(), high.tolist())
    found = {name: {"weight": share / parts, "parts": share, "epochs": passed, "natural": natural, "low": least, "high": most}
             for name, share, passed, natural, least, most in rows}
    nothing = {"weight": 0.0, "parts": 0, "epochs": 0.0, "natural": 0.0, "low": 0.0, "high": 0.0}
    return [{"name": name, "tokens": count, **found.get(name, nothing)} for name, count in counts.items()]


def _predicted(problem: Problem, weights: np.ndarray) -> dict[str, Any]:
    """Tasks, baselines and objective, at the weights in whole parts."""
    surrogate, others = problem.surrogate, baselines(problem)
    values = dict(zip(others, surrogate.predict(np.array(list(others.values()))).tolist()))
    mine, errors = surrogate.predict(weights[None])[0].tolist(), surrogate.deviation(weights[None])[0].tolist()
    return {
        "objective": float(problem.objective(surrogate.fits, problem.config.risk)(weights)[0]),
        "tasks": [{"name": name, "predicted": score, "sd": sd, "proportional": base}
                  for name, score, sd, base in zip(surrogate.tasks, mine, errors, values["proportional"])],
        "baselines": {name: {"weights": dict(zip(surrogate.domains, each.tolist())), "predicted": dict(zip(surrogate.tasks, values[name]))}
                      for name, each in others.items()}}
