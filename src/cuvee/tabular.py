"""`cuvee fit` and `cuvee predict` on CSV files: a swarm that somebody else trained, by name, never by position.

The first column of mixtures and scores is the run's key, whatever its name; tables are joined by it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import orjson
from threadpoolctl import threadpool_limits

from cuvee.config import MOST, parse_count
from cuvee.csv_files import Rows, check_outputs, read_counts, read_groups, read_map, read_mixtures, read_scores, same_names
from cuvee.engine.local import cores
from cuvee.engine.progress import Progress
from cuvee.engine.store import exists, read_bytes, write_bytes, write_json
from cuvee.errors import DataError, UsageError, nearest
from cuvee.kernels import identify
from cuvee.kernels import reuse as old_runs
from cuvee.kernels import surrogate as models
from cuvee.kernels.agreement import regret_at_1, spearman
from cuvee.kernels.grid import Grid, grid_of, named_grid
from cuvee.kernels.runs import Runs
from cuvee.kernels.scale import LEAST_RUNS
from cuvee.kernels.settings import FACTORED
from cuvee.steps.fit import uses
from cuvee.steps.proxies.gate import listed

FORMAT = 1        # of surrogate.json


@dataclass(frozen=True)
class Old:
    """Files of an earlier swarm, and of which old domain each domain is part of."""

    mixtures: str
    scores: str
    map: str


@threadpool_limits.wrap(limits=1)  # a matrix product differs bitwise with the number of threads
def fit(mixtures: str, scores: str, out: str, model: str, counts: str | None, budget: int | None, progress: Progress, old: Old | None = None,
        groups: str | None = None) -> None:
    """Fit every task and write `out`; groups: a CSV of each domain's topic and band."""
    if model not in models.MODELS:
        raise UsageError(f"--model {model}: no such model. {nearest(model, models.MODELS)}")
    if (counts is None) != (budget is None):
        raise UsageError("--counts and --budget go together: tokens of each domain, and tokens of the training that the runs stand for")
    check_outputs({"-o": out}, [mixtures, scores, counts, groups, *(() if old is None else (old.mixtures, old.scores, old.map))])
    uses(model)
    rows, weights = read_mixtures(mixtures)
    tasks, values = read_scores(scores, rows.keys, mixtures)
    runs = _runs(rows, weights, counts, budget)
    runs = replace(runs, grid=_grid(groups, rows, model, progress))
    if old is not None:
        runs, values = _with_old(old, rows, runs, tasks, values, counts, progress)
    for remark in [*models.remarks(model, runs), *_missing(tasks, values)]:
        progress.say(f"WARNING: {remark}")
    _check_enough(tasks, values, runs)
    try:
        surrogate = models.fit_tasks(model, rows.columns, tasks, runs, values, cores())
        fields = surrogate.to_dict()
        json.dumps(fields, allow_nan=False)
    except ValueError as error:
        if isinstance(error, np.linalg.LinAlgError) or "JSON compliant" in str(error):
            raise DataError(f"fit: scores from {np.nanmin(values):.3g} to {np.nanmax(values):.3g} are too far apart, or too small, to be fitted. "
                            "Give them in another unit, and leave cells of failed runs empty.") from None
        raise DataError(f"fit: {error}") from None
    named = {"mixtures": mixtures, "scores": scores, "counts": counts, "groups": groups}
    named |= {} if old is None else {"reuse": old.mixtures, "reuse_scores": old.scores, "map": old.map}
    files = {name: digest(path) for name, path in named.items() if path is not None}
    write_json(out, {"version": FORMAT, "model": model, "fingerprints": files, **fields})
    _report(surrogate, values, progress)


def _check_enough(tasks: Sequence[str], values: np.ndarray, runs: Runs) -> None:
    """Raise where a task has too few runs, or all runs are of one mixture. values: (runs, tasks)"""
    for task, count in zip(tasks, np.isfinite(values).sum(axis=0).tolist()):
        if count < LEAST_RUNS:
            raise DataError(f"fit: task {task}: a surrogate needs at least {LEAST_RUNS} runs with a score; got {count}. Add runs, or leave the task out.")
    if not np.ptp(runs.weights, axis=0).any():
        raise DataError(f"fit: all {len(runs.weights)} runs are of the same mixture, which says nothing of others. Train some of other weights.")
    for task, scored in zip(tasks, np.isfinite(values).T):
        if not np.ptp(runs.weights[scored], axis=0).any():
            raise DataError(f"fit: task {task}: all {scored.sum()} runs with a score are of the same mixture, which says nothing of others. "
                            "Score others, or leave the task out.")


def _runs(rows: Rows, weights: np.ndarray, counts: str | None, budget: int | None) -> Runs:
    if counts is None or budget is None:
        return Runs(weights)
    rate = checked(budget) / read_counts(counts, rows.columns, rows.path)
    return Runs(weights, weights * rate, rate)


def _grid(groups: str | None, rows: Rows, model: str, progress: Progress) -> Grid | None:
    """Topic and band of each domain, from a file or from names like `t07.q5`."""
    if groups is None:
        return named_grid(rows.columns)
    if model not in ("ensemble", "saturating"):
        raise UsageError(f"--groups: the model {model} makes nothing of topics and bands; fit ensemble or saturating")
    found = grid_of(*read_groups(groups, rows.columns, rows.path))
    if found is None:
        progress.say(f"WARNING: {groups}: fewer topics and bands than domains are needed, two of each at least; every domain stands for itself")
    return found


def _with_old(old: Old, rows: Rows, runs: Runs, tasks: Sequence[str], values: np.ndarray, counts: str | None,
              progress: Progress) -> tuple[Runs, np.ndarray]:
    """The new runs and, after them, those of an earlier swarm on the domains of now; tasks that are new have no score there."""
    if counts is None:
        raise UsageError("--reuse needs --counts: an old domain is split among its parts by their tokens")
    then, weights = read_mixtures(old.mixtures)
    parts = read_map(old.map, rows.columns, then.columns, old.mixtures)
    part_of = np.array([old_runs.NEW if parts[name] is None else then.columns.index(parts[name]) for name in rows.columns], np.int64)
    weights = old_runs.split(weights, part_of, read_counts(counts, rows.columns, rows.path))
    known, scored = read_scores(old.scores, then.keys, old.mixtures)
    gone = [name for name in known if name not in tasks]
    if len(gone) == len(known):
        raise DataError(f"{old.scores}: no task of it is among {', '.join(tasks[:5])}. Name old tasks as they are named now.")
    if gone:
        progress.say(f"WARNING: tasks of the old runs that are no longer scored are left out: {listed(gone)}")
    columns = [scored[:, known.index(name)] if name in known else np.full(len(scored), np.nan) for name in tasks]
    rate = runs.rate
    joined = Runs(np.vstack([runs.weights, weights]), None if rate is None else np.vstack([runs.epochs, weights * rate]), rate, runs.grid)
    return joined, np.vstack([values, np.column_stack(columns)])


def checked(budget: int) -> int:
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
    grouped = [name for name, fitted in zip(surrogate.tasks, surrogate.fits) if models.form(fitted.to_dict()) == FACTORED]
    if surrogate.runs.grid is not None:
        progress.say(f"topic x band predicts better than a coefficient for each domain on {len(grouped)} of {len(surrogate.tasks)} tasks"
                     + (f": {listed(grouped)}" if grouped else ""))
    even = np.array([1.0 if fitted.spread else 0.0 for fitted in surrogate.fits])
    for remark in identify.remarks(identify.named(identify.identify(surrogate.fits, even), surrogate.domains)):
        progress.say(f"WARNING: {remark}")


def digest(path: str) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


def read_surrogate(path: str) -> models.Surrogate:
    """What `fit` wrote."""
    if not exists(path):
        raise UsageError(f"no such file: {path}")
    try:
        fields = orjson.loads(read_bytes(path))
        if fields.get("version", FORMAT) != FORMAT:
            raise DataError(f"{path}: version {fields['version']}; this Cuvee reads version {FORMAT}. Fit it again.")
        return models.Surrogate.from_dict(fields)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not a surrogate that `cuvee fit` wrote ({type(error).__name__}: {error}).") from None


@threadpool_limits.wrap(limits=1)
def predict(path: str, mixtures: str, out: str) -> int:
    """Write the predicted scores of each mixture, and their SDs; how many mixtures."""
    check_outputs({"-o": out}, [path, mixtures])
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


def tokens_of(option: str, text: str) -> int:
    """`50M` -> 50,000,000."""
    try:
        count = float(parse_count(text))
        if count > MOST or count != int(count):
            raise OverflowError
        return int(count)
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {text}: a whole number of tokens, such as 1000000 or 50M, and {MOST:.0e} at most") from None
