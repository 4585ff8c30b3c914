"""Scores of the swarm's runs from a trainer outside Cuvee: they take the place of training, and all else goes on as ever.

A run is named `KEY-MARK`: its key, and six digits of the data and budgets that it is of, so that scores of another
swarm are told even where mixtures agree.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output
from cuvee.errors import DataError
from cuvee.steps.proxies.gate import HELDOUT
from cuvee.steps.proxies.training import Regime, Run
from cuvee.steps.store import TokenStore

if TYPE_CHECKING:
    from cuvee.steps.proxies.rounds import Planned

VERSION = 1
SHOWN = 5  # names that an error lists


class Given(NamedTuple):
    """path: where they were read; scores: of a run's name, one for each task, NaN where it has none."""

    path: str
    tasks: tuple[str, ...]
    scores: Mapping[str, tuple[float, ...]]


class MissingScores(DataError):
    """Runs of a plan that have no row yet. planned: of all rounds so far; missing: those without a row."""

    def __init__(self, given: Given, planned: Sequence[Planned], missing: Sequence[Planned], mark: str) -> None:
        self.planned, self.missing = list(planned), list(missing)
        super().__init__(f"{given.path}: {len(missing)} of {len(planned)} runs have no row: {_listed([name(each.run, mark) for each in missing])}. "
                         "`cuvee swarm export RECIPE -o DIR` writes the runs that are to be trained; `cuvee swarm import RECIPE SCORES.csv` adds theirs.")


def mark(recipe: Recipe, tokens: TokenStore, regime: Regime) -> str:
    """Six digits of what a run's key leaves out: the data, and how much of it a run is offered."""
    identity = [tokens.fingerprint, regime.budget, recipe.budget.target, recipe.swarm.subset_documents]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:6]


def name(run: Run, mark: str) -> str:
    """What a run is called in files for other trainers."""
    return f"{run.key}-{mark}"


def take(work: Work, prefix: str, recipe: Recipe, tokens: TokenStore, regime: Regime, given: Given, planned: Sequence[Planned]) -> Folder:
    """`KEY.json` of every run, as training leaves it; a run without any score has failed."""
    digits = mark(recipe, tokens, regime)
    missing = [each for each in planned if name(each.run, digits) not in given.scores]
    if missing:
        raise MissingScores(given, planned, missing, digits)
    found = {each.run.key: {task: value for task, value in zip(given.tasks, given.scores[name(each.run, digits)]) if math.isfinite(value)}
             for each in planned}
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()
    step = Step(f"{prefix}.imported", VERSION, {"mark": digits}, (tokens.fingerprint, digest))
    return work.do(step, [Task("scores", write_runs, {"runs": [each.run for each in planned], "scores": found})])


def write_runs(out: Output, runs: Sequence[Run], scores: Mapping[str, Mapping[str, float]]) -> Counts:
    """A run draws its parts exactly: it is one period of a stream."""
    for run in runs:
        mine = scores[run.key]
        out.json(f"{run.key}.json", {"drawn": list(run.parts), "losses": [], "scores": mine, "half": None,
                                     "failure": None if mine else "no score was imported"})
    return {"runs": len(runs), "failed": sum(not scores[run.key] for run in runs)}


def asked(work: Work, prefix: str, tokens: TokenStore, given: Given) -> Folder:
    """`tasks.json`: the columns that were given; `heldout/NAME` is the held-out task of a domain."""
    strange = [task for task in given.tasks if task.startswith(HELDOUT) and task.removeprefix(HELDOUT) not in tokens.names]
    if strange:
        raise DataError(f"{given.path}: {len(strange)} columns are held-out tasks of no domain: {_listed(strange)}. Rename them, or leave them out.")
    step = Step(f"{prefix}.asked", VERSION, {"tasks": list(given.tasks)}, (tokens.fingerprint,))
    return work.do(step, [Task("tasks", write_tasks, {"tasks": given.tasks})])


def write_tasks(out: Output, tasks: Sequence[str]) -> Counts:
    rows: list[dict[str, Any]] = [{"name": task, "kind": "heldout" if task.startswith(HELDOUT) else "eval", "items": None, "bytes": None, "records": None}
                                  for task in tasks]
    out.json("tasks.json", rows)
    return {"tasks": len(rows)}


def check_known(given: Given, planned: Sequence[Planned], digits: str) -> None:
    """A DataError where rows are of no run of the plan."""
    strange = sorted(given.scores.keys() - {name(each.run, digits) for each in planned})
    if strange:
        raise DataError(f"{given.path}: {len(strange)} rows are of no run of this plan: {_listed(strange)}. They are of other data, another budget or "
                        "another plan; `cuvee swarm export RECIPE -o DIR` writes the runs of this one.")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
