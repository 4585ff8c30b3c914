"""Train proxies: one run a task, cached by what it reads, so that a swarm can grow without training anything twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from cuvee.steps import tasks
from cuvee.steps.store import TokenStore
from cuvee.steps.subsets import Subsets, offered

if TYPE_CHECKING:
    from cuvee.proxy.model import ProxyConfig

VERSION = 1
USES = ("jax", "jaxlib", "numpy", "optax")
CURVE = 32  # points of a loss curve that are kept, each a mean over equal spans of steps


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


def regime(recipe: Recipe, tokens: TokenStore, depth: int, budget: int) -> Regime:
    from cuvee.proxy.model import ProxyConfig

    config = ProxyConfig(tokens.vocab, tokens.seq_len, depth, recipe.swarm.batch)
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
    config = {"depth": regime.config.depth, "batch": regime.config.batch, "budget": regime.budget, "target": recipe.budget.target,
              "subset_documents": recipe.swarm.subset_documents}
    step = Step(place, VERSION, config, (tokens.fingerprint, tasks_folder.fingerprint), USES)
    args = {"regime": regime, "rows": tuple(domain.rows_url for domain in tokens.domains), "tasks_url": tasks_folder.url}
    return work.do(step, [Task(key, train_run, {"run": run, **args}) for key, run in {run.key: run for run in runs}.items()])


def train_run(out: Output, run: Run, regime: Regime, rows: Sequence[str], tasks_url: str) -> Counts:
    """One proxy and its scores. Where it diverges it has no score, and its file says why."""
    from cuvee.proxy.train import train

    drawn, read = _read(run, regime, rows)
    found: dict[str, Any] = {"drawn": drawn, "losses": [], "scores": {}, "failure": None}
    try:
        trained = train(regime.config, read, run.seed)
        found["losses"] = [float(piece.mean()) for piece in np.array_split(trained.losses, min(CURVE, len(trained.losses)))]
        found["scores"] = tasks.score(trained.params, regime.config, tasks_url)
    except FloatingPointError as error:
        found["failure"] = str(error)
    out.json(f"{run.key}.json", found)
    return {"tokens": regime.tokens, "failed": int(found["failure"] is not None)}


def _read(run: Run, regime: Regime, rows: Sequence[str]) -> tuple[list[int], np.ndarray]:
    """Rows drawn from each domain, and the rows themselves in the order of training, (rows, seq_len + 1)."""
    places = locate(np.arange(regime.rows), np.array(run.parts), regime.subsets.rows, run.seed)
    drawn = np.bincount(places.domain, minlength=len(rows))
    found = np.empty((regime.rows, regime.config.seq_len + 1), np.uint32)
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
