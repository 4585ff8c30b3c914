"""Mix: the mixture of least predicted loss that repeats no domain too often, in whole parts.

minimise sum_t omega_t z_t(w) + kl KL(w || natural) + risk SD(w) under epoch caps, limits of groups and of protected
tasks; writes `mixture.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np

from cuvee.config import Mix, Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, exists, join, read_bytes, read_json, write_bytes
from cuvee.errors import DataError, UsageError, nearest
from cuvee.kernels.groups import Groups, excess, quantize_groups
from cuvee.kernels.protect import KEPT, minimise_within
from cuvee.kernels.search import Objective, Solution, minimise, mixture_objective
from cuvee.kernels.simplex import check_reach, epoch_caps, epochs, proportional, uniform, unimax
from cuvee.kernels.surrogate import Fitted, Surrogate
from cuvee.steps import store
from cuvee.steps.scores import same_domains

VERSION = 1
FORMAT = 1       # of mixture.json
FILE = "mixture.json"
TOLERANCE = 1e-6  # kkt, in SDs of the swarm
BEST_RUNS = 3    # mixtures of the swarm, best by the objective, that the search starts from too
DRAWS = 40       # fits that might have been; their optima give low and high
DRAW_TOLERANCE = 1e-3  # kkt of these
ROUNDINGS = 4    # solutions with ever more margin, until whole parts protect all tasks
RANGE = (0.05, 0.95)   # quantiles of the optima; 77 % of the true ones lay inside (docs/decisions.md)


@dataclass(frozen=True)
class Problem:
    """What is minimised: fits of the tasks that count, over the domains that have tokens."""

    surrogate: Surrogate
    importance: np.ndarray  # (tasks,)
    tokens: np.ndarray      # (domains,) > 0
    budget: int
    config: Mix
    parts: int

    @property
    def natural(self) -> np.ndarray:
        return proportional(self.tokens)

    @cached_property
    def fits(self) -> tuple[Fitted, ...]:
        """What the search follows: every task's models that have slopes."""
        try:
            return self.surrogate.smoothed().fits
        except ValueError as error:
            raise DataError(f"mix: {error}") from None

    def objective(self, fits: Sequence[Fitted], risk: float) -> Objective:
        return mixture_objective(fits, self.importance, self.natural, self.config.kl, risk)

    @cached_property
    def groups(self) -> Groups:
        """Limits in whole parts, as weights."""
        found = self.config.groups.values()
        members = [[any(fnmatchcase(name, glob) for glob in group.domains) for name in self.surrogate.domains] for group in found]
        low = np.ceil([group.low * self.parts - 1e-6 for group in found])
        high = np.floor([group.high * self.parts + 1e-6 for group in found])
        return Groups(np.array(members, bool).reshape(len(found), len(self.tokens)), low / self.parts, high / self.parts)

    def protection(self, margin: np.ndarray) -> list[Objective]:
        """(score - natural score - allowed) / spread + margin of every protected task, <= 0 where it is kept."""
        fits = dict(zip(self.surrogate.tasks, self.fits))

        def limit(fitted: Fitted, allowed: float, more: float) -> Objective:
            most, spread = fitted.predict(self.natural[None])[0] + allowed, fitted.spread or 1.0
            return lambda weights: (float((fitted.predict(weights[None])[0] - most) / spread + more), fitted.gradient(weights[None])[0] / spread)

        return [limit(fits[name], allowed, more) for (name, allowed), more in zip(self.config.protect.items(), margin)]


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
    problem = Problem(surrogate, np.array([weights[name] for name in surrogate.tasks]), sizes, budget, config, parts)
    found, best = describe(problem, counts, np.random.default_rng(seed), fingerprints)
    out.json(FILE, found)
    return {"domains": len(names), "tasks": len(weights), "iterations": best.iterations, "starts": best.starts}


def describe(problem: Problem, counts: Mapping[str, int], rng: np.random.Generator,
             fingerprints: Mapping[str, str]) -> tuple[dict[str, Any], Solution]:
    """What `mixture.json` holds, and how it was found. counts: tokens of all domains, in the order that is wanted"""
    check_limits(problem)
    whole = cap_parts(problem)
    best, chosen = choose(problem, whole)
    low, high = weight_range(problem, whole / problem.parts, chosen / problem.parts, rng)
    return {"version": FORMAT, "budget": problem.budget, "parts": problem.parts, "domains": _domains(counts, problem, chosen, low, high),
            **_predicted(problem, chosen / problem.parts), "kkt": best.kkt, "fingerprints": dict(fingerprints)}, best


def check_limits(problem: Problem) -> None:
    """Groups hold a domain each, protected tasks exist."""
    for name, members in zip(problem.config.groups, problem.groups.members):
        if not members.any():
            globs = " ".join(problem.config.groups[name].domains)
            raise UsageError(f"group '{name}': no domain is named {globs}. {nearest(globs, problem.surrogate.domains)}")
    for name in problem.config.protect:
        if name not in problem.surrogate.tasks:
            raise UsageError(f"protect: the surrogate has no task '{name}'. {nearest(name, problem.surrogate.tasks)}")


def cap_parts(problem: Problem) -> np.ndarray:
    """Most parts of each domain: by max_epochs, and by the epochs that the swarm can vouch for. int64 (domains,)"""
    seen, parts = problem.surrogate.epoch_limits(), problem.parts
    most = np.full(len(problem.tokens), problem.config.max_epochs) if seen is None else np.minimum(problem.config.max_epochs, seen)
    whole = np.floor(epoch_caps(problem.tokens, problem.budget, most) * parts).astype(np.int64)
    try:
        check_reach(whole / parts)
    except ValueError as error:
        fewer = int((most < problem.config.max_epochs).sum())
        seen = f"; {fewer} domains have a lower one, the most epochs that the swarm tried" if fewer else ""
        raise DataError(f"mix: {error} The cap is mix.max_epochs = {problem.config.max_epochs:g}{seen}.") from None
    return whole


def choose(problem: Problem, whole: np.ndarray) -> tuple[Solution, np.ndarray]:
    """The best mixture and its whole parts, which keep all limits too. whole: int64 (domains,), most parts of each"""
    over = excess(whole / problem.parts, problem.groups) if problem.config.groups else np.zeros(0)
    if (over > 0).any():
        parts = [f"'{name}' by {each:.4g}" for name, each in zip(problem.config.groups, over) if each > 0]
        raise DataError(f"mix: no mixture keeps the limits of all groups under the caps; these would have to give way: {', '.join(parts)}. "
                        f"Widen them, or allow more epochs (max_epochs = {problem.config.max_epochs:g}).")
    in_parts = problem.groups._replace(low=np.round(problem.groups.low * problem.parts), high=np.round(problem.groups.high * problem.parts))
    best, chosen, margin = None, None, np.zeros(len(problem.config.protect))
    for _ in range(ROUNDINGS):
        found, over = solve(problem, whole / problem.parts, margin)
        if best is None and (over > KEPT).any():
            parts = [f"'{name}' by {each:.3g}" for name, each in zip(problem.config.protect, over) if each > KEPT]
            raise DataError(f"mix: no mixture was found that protects all tasks; the nearest passes {', '.join(parts)} SDs of the swarm. "
                            "Allow more, or protect fewer.")
        if best is not None and (over > KEPT).any():
            break
        best, chosen = found, quantize_groups(found.weights / found.weights.sum(), problem.parts, whole, in_parts)
        rounded = np.array([limit(chosen / problem.parts)[0] for limit in problem.protection(np.zeros(len(margin)))])
        if not (rounded > KEPT).any():
            break
        margin = margin + 2 * np.maximum(rounded, 0.0)  # what rounding cost is kept free
    return best, chosen


def solve(problem: Problem, caps: np.ndarray, margin: np.ndarray) -> tuple[Solution, np.ndarray]:
    """The best of several starts, natural, UniMax, uniform and the swarm's best mixtures; and the excess of each protected task."""
    objective = problem.objective(problem.fits, problem.config.risk)
    tried = np.unique(problem.surrogate.runs.weights, axis=0)
    values = np.array([objective(weights)[0] for weights in tried])
    best = tried[np.argsort(values, kind="stable")[:BEST_RUNS]]
    return minimise_within(objective, problem.protection(margin), np.vstack([*baselines(problem).values(), best]), caps, TOLERANCE, groups=problem.groups)


def weight_range(problem: Problem, caps: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Where the optimum may lie: quantiles of the optima of fits drawn from their error, without caution. (domains,) x 2

    `risk` is left out there since it pulls all draws to one place, and protection since a draw may leave nothing that
    protects; the range always holds the weight itself.
    """
    optima = []
    for _ in range(DRAWS):
        drawn = [fitted.redrawn(rng) if share else fitted for fitted, share in zip(problem.fits, problem.importance)]
        optima.append(minimise(problem.objective(drawn, 0.0), weights, caps, DRAW_TOLERANCE, groups=problem.groups).weights)
    low, high = np.quantile(optima, RANGE, axis=0)
    return np.minimum(low, weights), np.maximum(high, weights)


def baselines(problem: Problem) -> dict[str, np.ndarray]:
    """Only UniMax keeps the caps: the others are what they are called."""
    spread = unimax(problem.tokens, problem.budget, problem.config.max_epochs)
    return {"proportional": problem.natural, "unimax": spread, "uniform": uniform(len(problem.tokens))}


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
    surrogate, others = problem.surrogate, baselines(problem)
    values = dict(zip(others, surrogate.predict(np.array(list(others.values()))).tolist()))
    mine, errors = surrogate.predict(weights[None])[0].tolist(), surrogate.deviation(weights[None])[0].tolist()
    return {
        "objective": float(problem.objective(problem.fits, problem.config.risk)(weights)[0]),
        "tasks": [{"name": name, "predicted": score, "sd": sd, "proportional": base}
                  for name, score, sd, base in zip(surrogate.tasks, mine, errors, values["proportional"])],
        "baselines": {name: {"weights": dict(zip(surrogate.domains, each.tolist())), "predicted": dict(zip(surrogate.tasks, values[name]))}
                      for name, each in others.items()}}
