"""Train proxies: each run is cached by what it reads, so that a swarm can grow without training anything twice.

A task is a group of runs that train together (grouping.py). Runs that are missing make groups in the order of the plan;
a killed step makes the same ones again, since what is done of a plan is whole groups.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_npy
from cuvee.errors import DataError, UsageError
from cuvee.kernels.permute import derive, locate
from cuvee.kernels.simplex import quantize
from cuvee.steps.proxies import checkpoint, tasks
from cuvee.steps.proxies.grouping import grouping
from cuvee.steps.proxies.subsets import Subsets, offered
from cuvee.steps.store import TokenStore

if TYPE_CHECKING:
    from cuvee.proxy.model import ProxyConfig
    from cuvee.proxy.train import Group, State, Trained

VERSION = 3
USES = ("jax", "jaxlib", "numpy", "optax")
CURVE = 32  # points of a loss curve that are kept, each a mean over equal spans of steps
SPAN = 20   # steps between two looks at the clock

Scores = dict[str, float]


@dataclass(frozen=True)
class Regime:
    """What all runs of one size share: the model, its budget, and the rows of each domain that it may see."""

    config: ProxyConfig
    budget: int  # tokens
    subsets: Subsets

    @property
    def steps(self) -> int:
        return self.budget // (self.config.seq_len * self.config.batch)

    @property
    def rows(self) -> int:
        """Rows that a run reads: whole batches."""
        return self.steps * self.config.batch

    @property
    def tokens(self) -> int:
        return self.rows * self.config.seq_len


@dataclass(frozen=True)
class Run:
    """parts: rows drawn from each domain, in the order of the store; seed: of initial parameters and order of rows."""

    parts: tuple[int, ...]
    seed: int

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(json.dumps([self.parts, self.seed]).encode()).hexdigest()[:16]


def proxy(recipe: Recipe, vocab: int, seq_len: int, depth: int) -> ProxyConfig:
    from cuvee.proxy.model import ProxyConfig

    return ProxyConfig(vocab, seq_len, depth, recipe.swarm.batch, **recipe.swarm.model.identity())


def regime(recipe: Recipe, tokens: TokenStore, depth: int, budget: int) -> Regime:
    padding = tokens.end if recipe.tokenize.pack == "fit" else None
    config = replace(proxy(recipe, tokens.vocab, tokens.seq_len, depth), padding=padding)
    made = Regime(config, budget, offered(tokens.domains, budget, recipe.budget.target, recipe.swarm.subset_documents))
    if not made.steps:
        raise UsageError(f"a proxy budget of {budget:,} tokens is under one batch of {config.batch} rows of {config.seq_len} tokens. "
                         "Raise budget.proxy, or lower swarm.batch or tokenize.seq_len.")
    return made


def runs_of(recipe: Recipe, regime: Regime, mixtures: Sequence[np.ndarray], before: Sequence[Run] = ()) -> list[Run]:
    """A run for each mixture, (domains,) weights, in whole rows. Equal mixtures, those of `before` too, differ in their seeds alone."""
    runs = list(before)
    for weights in mixtures:
        parts = tuple(quantize(weights, regime.rows).tolist())
        runs.append(Run(parts, seed(recipe, sum(run.parts == parts for run in runs))))
    return runs[len(before):]


def seed(recipe: Recipe, repeat: int) -> int:
    """Seed of the run number `repeat` of its mixture: the same for all mixtures, so that they are compared in pairs."""
    return derive(recipe.seed, repeat) % 2**31


def train_all(work: Work, place: str, recipe: Recipe, tokens: TokenStore, regime: Regime, tasks_folder: Folder, runs: Sequence[Run]) -> Folder:
    """`KEY.json` of every run. The step's identity has no plan in it: another plan adds the runs that it lacks."""
    together = grouping(recipe, regime.config, work.engine)
    regime = replace(regime, config=replace(regime.config, compute=together.compute))
    config = {"depth": regime.config.depth, "batch": regime.config.batch, "budget": regime.budget, "target": recipe.budget.target,
              "subset_documents": recipe.swarm.subset_documents, "model": recipe.swarm.model.identity(), "group": together.size,
              "compute": together.compute}
    step = Step(place, VERSION, config, (tokens.fingerprint, tasks_folder.fingerprint), USES)
    args = {"regime": regime, "rows": tuple(domain.rows_url for domain in tokens.domains), "tasks_url": tasks_folder.url, "gpus": together.gpus}
    known = work.files(step)
    missing = [run for run in {run.key: run for run in runs}.values() if f"{run.key}.json" not in known]
    groups = [missing[start : start + together.size] for start in range(0, len(missing), together.size)]
    return work.do(step, [Task(name(each), train_group, {"runs": each, **args}, gpus=together.gpus) for each in groups])


def name(runs: Sequence[Run]) -> str:
    """Of a group: its run's key, or one made from all."""
    keys = [run.key for run in runs]
    return keys[0] if len(keys) == 1 else hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:16]


def train_group(out: Output, runs: Sequence[Run], regime: Regime, rows: Sequence[str], tasks_url: str, gpus: int = 0,
                every: float = checkpoint.SECONDS) -> Counts:
    """Proxies trained together, and their scores. One that diverges has no score, its file says why, and the others go on.

    every: seconds between two checkpoints
    """
    from cuvee.proxy.train import Group

    drawn, read = zip(*(_read(run, regime, rows) for run in runs))
    group = Group(regime.config, read, [run.seed for run in runs], gpus)
    kept = checkpoint.url_of(out.folder, name(runs))
    state, half = _train(group, kept, tasks_url, every)
    found = [_outcome(state.of(place), run, regime, tasks_url) for place, run in enumerate(runs)]
    for run, counts, middle, each in zip(runs, drawn, half, found):
        out.json(f"{run.key}.json", {"drawn": counts, "half": None if each["failure"] else middle, **each})
    checkpoint.remove(kept)
    return {"tokens": len(runs) * regime.tokens, "failed": sum(each["failure"] is not None for each in found)}


def _train(group: Group, kept: str, tasks_url: str, every: float) -> tuple[State, list[Scores | None]]:
    """The group at its end, and each run's scores at half of the steps; None where it has none."""
    state, notes = checkpoint.resume(kept, group)
    half: list[Scores | None] = notes or [None] * len(group.seeds)
    middle, saved = group.steps // 2, time.monotonic()
    while state.step < group.steps:
        stop = min(state.step + SPAN, middle if state.step < middle else group.steps)
        state = group.advance(state, stop)
        if stop == middle:
            half = [_scores(state.of(place).params, group.config, tasks_url) for place in range(len(half))]
        if time.monotonic() - saved >= every:
            checkpoint.save(kept, state, half)
            saved = time.monotonic()
    return state, half


def _scores(params: dict, config: ProxyConfig, tasks_url: str) -> Scores | None:
    try:
        return tasks.score(params, config, tasks_url)
    except FloatingPointError:  # the whole run fails, and says so at its end
        return None


def _outcome(trained: Trained, run: Run, regime: Regime, tasks_url: str) -> dict[str, Any]:
    """What a run leaves: its loss curve and its scores, or why it has none."""
    from cuvee.proxy.train import finite

    try:
        finite(trained.losses, run.seed, regime.config)
        scores = tasks.score(trained.params, regime.config, tasks_url)
    except FloatingPointError as error:
        return {"losses": [], "scores": {}, "failure": str(error)}
    pieces = np.array_split(trained.losses, min(CURVE, len(trained.losses)))
    return {"losses": [float(piece.mean()) for piece in pieces], "scores": scores, "failure": None}


def _read(run: Run, regime: Regime, rows: Sequence[str]) -> tuple[list[int], np.ndarray]:
    """Rows drawn from each domain, and the rows themselves in the order of training, (rows, seq_len + 1)."""
    places = locate(np.arange(regime.rows), np.array(run.parts), regime.subsets.rows, run.seed)
    drawn = np.bincount(places.domain, minlength=len(rows))
    found = np.empty((regime.rows, regime.config.seq_len + 1), np.uint16 if regime.config.vocab <= 2**16 else np.uint32)
    for domain in np.flatnonzero(drawn):
        mine = places.domain == domain
        found[mine] = open_npy(rows[domain])[places.row[mine]]
    return drawn.tolist(), found


def matched(values: Mapping[str, float], tokens: TokenStore, where: str) -> np.ndarray:
    """Values by domain name in the order of the store, (domains,); a domain without tokens may be missing and gets 0."""
    needed = {domain.name for domain in tokens.domains if domain.rows}
    odd = sorted(values.keys() - set(tokens.names) | needed - values.keys())
    if odd:
        raise DataError(f"{where} and the token store do not have the same domains: {', '.join(odd[:5])} in one alone. "
                        "The mixture is of other data; run the recipe again.")
    return np.array([values.get(name, 0) for name in tokens.names])
