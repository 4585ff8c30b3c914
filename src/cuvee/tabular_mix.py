"""`cuvee mix` on CSV files: the best mixture for a budget, by one surrogate or by those of swarms for several budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError
from threadpoolctl import threadpool_limits

from cuvee.config import Mix, Stream, parse_share
from cuvee.csv_files import check_outputs, read_counts, same_names
from cuvee.engine.progress import Progress
from cuvee.engine.store import write_json
from cuvee.errors import DataError, UsageError, nearest
from cuvee.kernels.ratios import elsewhere
from cuvee.kernels.surrogate import Surrogate
from cuvee.steps.mix import check_reach, describe, joined, unchanged
from cuvee.steps.mixing import frontier as frontiers
from cuvee.steps.mixing.problem import TOLERANCE, Problem
from cuvee.steps.proxies.gate import listed
from cuvee.tabular import checked, digest, read_surrogate

BUDGET_FACTOR = 2.0  # epochs of weight 1 may differ from those of the fit by this; a swarm answers for its own budget
COUNTS_AGREE = 0.01  # share by which the budgets may differ that a fit's domains stand for, one by one, by the counts that mix is given


@threadpool_limits.wrap(limits=1)
def mix(paths: Sequence[str], counts: str, budget: int, out: str, config: Mix, seed: int, progress: Progress,
        frontier: str | None = None) -> dict[str, Any]:
    """Write the best mixture of the domains for a training of `budget` tokens, in whole parts.

    paths: one surrogate, or those of swarms for several budgets; frontier: a CSV of the best mixtures at other values of kl
    """
    check_outputs({"-o": out, "--frontier": frontier}, [*paths, counts, config.freeze])
    domains = read_surrogate(paths[0]).domains
    sizes = read_counts(counts, domains, paths[0])
    tokens = dict(zip(domains, sizes.tolist()))
    read = _one(paths[0], tokens, checked(budget), config.extrapolate) if len(paths) == 1 else _several(paths, tokens, checked(budget), config.extrapolate)
    whole = {name: int(tokens[name]) if tokens[name] == int(tokens[name]) else tokens[name] for name in read.domains}
    frozen = {} if config.freeze is None else unchanged(config.freeze, whole)
    problem = Problem(read, importance(read, config, progress), np.array([tokens[name] for name in read.domains]), budget, config, Stream().parts, frozen)
    marks = {"surrogate" if len(paths) == 1 else f"surrogate.{number}": digest(path) for number, path in enumerate(paths, 1)}
    try:
        found = describe(problem, whole, np.random.default_rng(seed), {**marks, "counts": digest(counts)})
    except ValueError as error:
        raise DataError(f"mix: {error}") from None
    write_json(out, found.mixture)
    if frontier is not None:
        frontiers.write_csv(frontier, read.domains, found.points)
    if found.solution.kkt > TOLERANCE:
        progress.say(f"WARNING: the search stopped early; a mixture better by up to {found.solution.kkt:.2g} SDs of the swarm may be left")
    return found.mixture


def _one(path: str, tokens: Mapping[str, float], budget: int, anywhere: bool) -> Surrogate:
    """A single surrogate, which answers for budgets and counts near its own, by what it says of the same weights; anywhere: for all."""
    surrogate = read_surrogate(path)
    fitted, wanted = surrogate.runs.rate, np.array([budget / tokens[name] for name in surrogate.domains])
    if fitted is None or np.allclose(fitted, wanted, rtol=1e-9, atol=0):
        return surrogate
    far = np.flatnonzero(np.maximum(wanted / fitted, fitted / wanted) > BUDGET_FACTOR)
    if len(far) and not anywhere:
        raise DataError(f"{path} was fitted where domain {surrogate.domains[far[0]]} alone would be seen {fitted[far[0]]:.4g} times, by its --counts and "
                        f"--budget; here it is {wanted[far[0]]:.4g}, over {BUDGET_FACTOR:g} times off. Fit a swarm for this budget too and name both, or "
                        "allow it with --extrapolate.")
    return elsewhere(surrogate, wanted)


def _several(paths: Sequence[str], tokens: Mapping[str, float], budget: int, anywhere: bool) -> Surrogate:
    """Surrogates of swarms for several budgets, as one for `budget`."""
    found = sorted(((_stands_for(path, surrogate, tokens), path, surrogate) for path in paths for surrogate in [read_surrogate(path)]), key=lambda each: each[0])
    budgets = [each[0] for each in found]
    for (one, path, _), (other, beside, _) in zip(found, found[1:]):
        if other < one * (1 + COUNTS_AGREE):
            raise DataError(f"{path} and {beside} were both fitted for {one:,} tokens; fit the runs of one budget together.")
    check_reach(budgets, budget, anywhere)
    return joined([each[2] for each in found], budgets, budget)


def _stands_for(path: str, surrogate: Surrogate, tokens: Mapping[str, float]) -> int:
    """Tokens of the training that a surrogate was fitted for."""
    if surrogate.runs.rate is None:
        raise DataError(f"{path} was fitted without --counts and --budget, so nothing says which budget it answers for. Fit it again with both.")
    same_names("domain", (path, surrogate.domains), ("the first surrogate", list(tokens)))
    budgets = surrogate.runs.rate * np.array([tokens[name] for name in surrogate.domains])
    if np.ptp(budgets) > COUNTS_AGREE * budgets.min():
        raise DataError(f"{path}: fitted with other counts: by those given here its domains stand for {budgets.min():,.0f} to {budgets.max():,.0f} tokens. "
                        "Fit it again with these counts.")
    return round(float(np.median(budgets)))


def importance(surrogate: Surrogate, config: Mix, progress: Progress) -> np.ndarray:
    """Weights of the tasks, of sum 1: those that were named, else all alike; one on which all runs agree has none. (tasks,)"""
    for name in config.tasks:
        if name not in surrogate.tasks:
            raise UsageError(f"--task {name}: the surrogate has no such task. {nearest(name, surrogate.tasks)}")
    wanted = np.array([config.tasks.get(name, 0.0) if config.tasks else 1.0 for name in surrogate.tasks])
    flat = [name for name, fitted in zip(surrogate.tasks, surrogate.fits) if fitted.spread == 0]
    if flat:
        progress.say(f"WARNING: all runs score alike on {listed(flat)}; weight 0")
    wanted[[fitted.spread == 0 for fitted in surrogate.fits]] = 0.0
    if wanted.sum() == 0:
        raise DataError("mix: no task is left whose scores differ between runs; there is nothing to choose by.")
    return wanted / wanted.sum()


def settings(tasks: Sequence[str], groups: Sequence[str], protect: Sequence[str], **plain: Any) -> Mix:
    """The options of `cuvee mix` as a section of a recipe. plain: those that are a key and a value"""
    found = {**plain, "tasks": _once("--task", [_named("--task", text) for text in tasks]),
             "groups": _once("--group", [_group(text) for text in groups]), "protect": _once("--protect", [_named("--protect", text) for text in protect])}
    try:
        return Mix.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = [*first["loc"], *([] if isinstance(first["input"], dict) else [first["input"]])]
        raise UsageError(f"mix: {' '.join(map(str, where))}{': ' if where else ''}{first['msg'].removeprefix('Value error, ')}") from None


def _once(option: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """As a mapping; a name that is given twice is an error, since one of the two would be lost."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{option} {name} is given {names.count(name)} times; keep one")
    return dict(pairs)


def _named(option: str, text: str) -> tuple[str, float]:
    """`name=number`; a name may hold any character."""
    name, equals, number = text.rpartition("=")
    try:
        if not (equals and name):
            raise ValueError
        return name, float(number)
    except ValueError:
        raise UsageError(f"{option} {text}: write task=number, such as 'mmlu=0.5'") from None


def _group(text: str) -> tuple[str, dict[str, Any]]:
    """`name=domains:low:high`; domains is a name or a glob, an empty limit is none."""
    name, equals, rest = text.partition("=")
    parts = rest.rsplit(":", 2)
    try:
        if not (equals and name and len(parts) == 3):
            raise ValueError
        limits = {key: float(parse_share(part)) for key, part in zip(("low", "high"), parts[1:]) if part.strip()}
    except ValueError:
        raise UsageError(f"--group {text}: write name=domains:low:high, such as 'code=t03.*:0.05:0.20'") from None
    return name, {"domains": [parts[0]], **limits}
