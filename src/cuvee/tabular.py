"""`cuvee fit`, `cuvee predict` and `cuvee mix` on CSV files: a swarm that somebody else trained, by name, never by position.

The first column of mixtures and scores is the run's key, whatever its name; tables are joined by it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from pydantic import ValidationError
from threadpoolctl import threadpool_limits

from cuvee.config import Mix, Stream, parse_count, parse_share
from cuvee.engine.progress import Progress
from cuvee.engine.store import exists, read_bytes, write_bytes, write_json
from cuvee.errors import DataError, UsageError, nearest
from cuvee.kernels import surrogate as models
from cuvee.kernels.agreement import regret_at_1, spearman
from cuvee.kernels.runs import Runs
from cuvee.steps.fit import uses
from cuvee.steps.gate import listed
from cuvee.steps.mix import TOLERANCE, Problem, describe

FORMAT = 1        # of surrogate.json
SUM_TOLERANCE = 0.01  # how far a run's weights may sum from 1: RegMix rounds its weights to 3 decimals, and is .996 to 1.003
SHOWN = 5         # keys or names that a message lists
BUDGET_FACTOR = 2.0  # epochs of weight 1 may differ from those of the fit by this; a swarm answers for its own budget


@dataclass(frozen=True)
class Rows:
    """A CSV: its file, the name of its first column, its keys and its other columns, as text."""

    path: str
    first: str
    keys: list[str]
    columns: list[str]
    cells: list[list[str]]

    def number(self, row: int, column: int) -> float:
        try:
            return float(self.cells[row][column])
        except ValueError:
            raise DataError(f"{self.path}, run {self.keys[row]}, column {self.columns[column]}: '{self.cells[row][column]}' is not a number.") from None


def read_rows(path: str) -> Rows:
    """A CSV with a header, a key in the first column, and no key or column twice."""
    if not exists(path):
        raise UsageError(f"no such file: {path}")
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}. Save it as UTF-8.") from None
    lines = [line for line in csv.reader(io.StringIO(text, newline="")) if line]
    if len(lines) < 2:
        raise DataError(f"{path}: {len(lines)} lines; a header and at least one row are needed.")
    head, cells = lines[0], lines[1:]
    for number, line in enumerate(cells, 1):
        if len(line) != len(head):
            raise DataError(f"{path}, row {number}: {len(line)} cells, the header has {len(head)}.")
    keys = [line[0].strip() for line in cells]
    for what, names in (("column", head), ("key", keys)):
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
        if twice:
            raise DataError(f"{path}: {what} {', '.join(twice[:SHOWN])} occurs more than once; each must be there once.")
    return Rows(path, head[0], keys, head[1:], [line[1:] for line in cells])


def read_mixtures(path: str) -> tuple[Rows, np.ndarray]:
    """Weights, divided by their sum. -> rows, (runs, domains)"""
    rows = read_rows(path)
    if not rows.columns:
        raise DataError(f"{path}: there is no domain beside the column {rows.first}.")
    weights = np.array([[rows.number(row, column) for column in range(len(rows.columns))] for row in range(len(rows.keys))])
    bad = np.argwhere(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        row, column = bad[0]
        raise DataError(f"{path}, run {rows.keys[row]}, domain {rows.columns[column]}: weight {weights[row, column]:g}; weights are finite and >= 0.")
    sums = weights.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE + 1e-12)
    if len(off):
        raise DataError(f"{path}, run {rows.keys[off[0]]}: weights sum to {sums[off[0]]:.6g}; they must sum to 1, give or take {SUM_TOLERANCE}.")
    return rows, weights / sums[:, None]


def read_scores(path: str, keys: Sequence[str], mixtures: str) -> tuple[list[str], np.ndarray]:
    """Scores in the order of `keys`, NaN where a cell is empty or NaN. -> tasks, (runs, tasks)"""
    rows = read_rows(path)
    if not rows.columns:
        raise DataError(f"{path}: there is no task beside the column {rows.first}.")
    same_names("run", (mixtures, keys), (path, rows.keys))
    at = {key: row for row, key in enumerate(rows.keys)}
    values = np.array([[_score(rows, at[key], column) for column in range(len(rows.columns))] for key in keys])
    return rows.columns, values


def _score(rows: Rows, row: int, column: int) -> float:
    if rows.cells[row][column].strip() == "":
        return math.nan
    value = rows.number(row, column)
    if math.isinf(value):
        raise DataError(f"{rows.path}, run {rows.keys[row]}, task {rows.columns[column]}: {value} is not a score. Leave the cell empty where a run failed.")
    return value


def read_counts(path: str, domains: Sequence[str], where: str) -> np.ndarray:
    """Tokens of `domains` from a CSV `domain,tokens`. -> (domains,) > 0"""
    rows = read_rows(path)
    if rows.columns != ["tokens"]:
        raise DataError(f"{path}: columns {rows.first}, {', '.join(rows.columns)}; a CSV of counts has domain,tokens.")
    same_names("domain", (where, domains), (path, rows.keys))
    tokens = {key: rows.number(row, 0) for row, key in enumerate(rows.keys)}
    for name, count in tokens.items():
        if not (math.isfinite(count) and count > 0):
            raise DataError(f"{path}, domain {name}: {count:g} tokens; it must have some. Leave a domain without tokens out of all files.")
    return np.array([tokens[name] for name in domains])


def same_names(what: str, one: tuple[str, Sequence[str]], other: tuple[str, Sequence[str]]) -> None:
    """Raise where two files do not name the same; each is its path and its names."""
    for (path, names), (beside, known) in ((one, other), (other, one)):
        seen = set(known)
        only = [name for name in names if name not in seen]
        if only:
            more = f" and {len(only) - SHOWN} more" if len(only) > SHOWN else ""
            raise DataError(f"{len(only)} {what}s of {path} are not in {beside}: {', '.join(only[:SHOWN])}{more}. Both must name the same {what}s.")


@threadpool_limits.wrap(limits=1)  # a matrix product differs bitwise with the number of threads
def fit(mixtures: str, scores: str, out: str, model: str, counts: str | None, budget: int | None, progress: Progress) -> None:
    """Fit every task and write `out`."""
    if model not in models.MODELS:
        raise UsageError(f"--model {model}: no such model. {nearest(model, models.MODELS)}")
    if (counts is None) != (budget is None):
        raise UsageError("--counts and --budget go together: tokens of each domain, and tokens of the training that the runs stand for")
    uses(model)
    rows, weights = read_mixtures(mixtures)
    tasks, values = read_scores(scores, rows.keys, mixtures)
    runs = _runs(rows, weights, counts, budget)
    for remark in [*models.remarks(model, runs), *_missing(tasks, values)]:
        progress.say(f"WARNING: {remark}")
    try:
        surrogate = models.fit_tasks(model, rows.columns, tasks, runs, values)
    except ValueError as error:
        raise DataError(f"fit: {error}") from None
    files = {name: _digest(path) for name, path in (("mixtures", mixtures), ("scores", scores), ("counts", counts)) if path is not None}
    write_json(out, {"version": FORMAT, "model": model, "fingerprints": files, **surrogate.to_dict()})
    _report(surrogate, values, progress)


def _runs(rows: Rows, weights: np.ndarray, counts: str | None, budget: int | None) -> Runs:
    if counts is None or budget is None:
        return Runs(weights)
    rate = _budget(budget) / read_counts(counts, rows.columns, rows.path)
    return Runs(weights, weights * rate, rate)


def _budget(budget: int) -> int:
    if budget <= 0:
        raise UsageError(f"--budget {budget}: tokens of the training run, over 0")
    return budget


def _missing(tasks: Sequence[str], values: np.ndarray) -> list[str]:
    count = np.isnan(values).sum(axis=0)
    named = [f"{task} ({number})" for task, number in zip(tasks, count) if number]
    return [f"{count.sum()} scores are missing; these runs are left out there: {listed(named)}"] if named else []


def _report(surrogate: models.Surrogate, values: np.ndarray, progress: Progress) -> None:
    """How well each task's runs are predicted without their fold, at the settings that were chosen."""
    progress.say("task: Spearman out of fold (inner folds), regret of its first choice, SD of the scores")
    for name, fitted, scores in zip(surrogate.tasks, surrogate.fits, values.T):
        has = np.isfinite(scores)
        held, seen = fitted.out_of_fold[has], scores[has]
        progress.say(f"  {name}: {spearman(held, seen):.3f}, {regret_at_1(held, seen):.4g}, {seen.std():.4g}")


def _digest(path: str) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


def read_surrogate(path: str, rate: dict[str, float] | None = None) -> models.Surrogate:
    """What `fit` wrote; rate: epochs of weight 1 of each domain, where they differ from those of the fit."""
    if not exists(path):
        raise UsageError(f"no such file: {path}")
    try:
        fields = orjson.loads(read_bytes(path))
        if fields.get("version", FORMAT) != FORMAT:
            raise DataError(f"{path}: version {fields['version']}; this Cuvee reads version {FORMAT}. Fit it again.")
        if rate is not None and fields["runs"]["rate"] is not None:
            fields["runs"]["rate"] = _near(path, dict(zip(fields["domains"], fields["runs"]["rate"])), rate)
        return models.Surrogate.from_dict(fields)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not a surrogate that `cuvee fit` wrote ({type(error).__name__}: {error}).") from None


def _near(path: str, fitted: dict[str, float], wanted: dict[str, float]) -> list[float]:
    """The rates that are wanted, in the fit's order, if none is far from the fit's."""
    for name, rate in fitted.items():
        if not 1 / BUDGET_FACTOR <= wanted[name] / rate <= BUDGET_FACTOR:
            raise DataError(f"{path} was fitted where domain {name} alone would be seen {rate:.4g} times, by its --counts and --budget; here it is "
                            f"{wanted[name]:.4g}, over {BUDGET_FACTOR:g} times off. Fit again with these counts and this budget, or mix for that one.")
    return [wanted[name] for name in fitted]


@threadpool_limits.wrap(limits=1)
def predict(path: str, mixtures: str, out: str) -> int:
    """Write the predicted scores of each mixture, and their SDs; how many mixtures."""
    surrogate = read_surrogate(path)
    rows, weights = read_mixtures(mixtures)
    same_names("domain", (path, surrogate.domains), (mixtures, rows.columns))
    weights = weights[:, [rows.columns.index(name) for name in surrogate.domains]]
    head = [name for task in surrogate.tasks for name in (task, f"{task}_sd")]
    if len({rows.first, *head}) <= len(head):
        raise DataError(f"{path}: a task has the name of another's column of SDs, or of the key {rows.first}. Rename it and fit again.")
    values = np.stack([surrogate.predict(weights), surrogate.deviation(weights)], axis=2).reshape(len(weights), -1)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([rows.first, *head])
    writer.writerows([key, *map(repr, line)] for key, line in zip(rows.keys, values.tolist()))
    write_bytes(out, text.getvalue().encode())
    return len(weights)


@threadpool_limits.wrap(limits=1)
def mix(path: str, counts: str, budget: int, out: str, config: Mix, seed: int, progress: Progress) -> dict[str, Any]:
    """Write the best mixture of the domains for a training of `budget` tokens, in whole parts."""
    surrogate = read_surrogate(path)
    tokens = read_counts(counts, surrogate.domains, path)
    surrogate = read_surrogate(path, dict(zip(surrogate.domains, (_budget(budget) / tokens).tolist())))
    whole = [int(count) if count == int(count) else count for count in tokens.tolist()]
    problem = Problem(surrogate, importance(surrogate, config, progress), tokens, budget, config, Stream().parts)
    fingerprints = {"surrogate": _digest(path), "counts": _digest(counts)}
    try:
        found, best = describe(problem, dict(zip(surrogate.domains, whole)), np.random.default_rng(seed), fingerprints)
    except ValueError as error:
        raise DataError(f"mix: {error}") from None
    write_json(out, found)
    if best.kkt > TOLERANCE:
        progress.say(f"WARNING: the search stopped early; a mixture better by up to {best.kkt:.2g} SDs of the swarm may be left")
    return found


def importance(surrogate: models.Surrogate, config: Mix, progress: Progress) -> np.ndarray:
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


def settings(max_epochs: float, kl: float, tasks: Sequence[str], groups: Sequence[str], protect: Sequence[str]) -> Mix:
    """The options of `cuvee mix` as a section of a recipe."""
    found = {"max_epochs": max_epochs, "kl": kl, "tasks": dict(_named("--task", text) for text in tasks),
             "groups": dict(_group(text) for text in groups), "protect": dict(_named("--protect", text) for text in protect)}
    try:
        return Mix.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"mix: {' '.join(map(str, first['loc']))} {first['input']}: {first['msg']}") from None


def tokens_of(option: str, text: str) -> int:
    """`50M` -> 50,000,000."""
    try:
        return int(float(parse_count(text)))
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {text}: a number of tokens, such as 1000000 or 50M") from None


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
