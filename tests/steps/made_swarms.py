"""A swarm made by hand from a known saturating law: six domains, two evaluations, one task of noise, one held-out task."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.progress import Progress
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Step, Task
from cuvee.kernels.proposals import plan_round
from cuvee.kernels.simplex import epoch_caps, proportional
from cuvee.record import RUN_DOMAINS, RUN_SCORES
from cuvee.steps import fit, mix
from cuvee.steps.store import Domain, TokenStore

NAMES = ["t00.q1", "t00.q2", "t01.q1", "t01.q2", "t02.q1", "t02.q2"]
TOKENS = np.array([400_000, 100_000, 250_000, 150_000, 50_000, 50_000])
TARGET, SHARE = 2_000_000, 0.01  # tokens of the real run; of it, a proxy's
GAIN = np.array([[0.1, 1.0, 0.0, 0.3, 0.0, 0.2], [0.0, 0.2, 0.1, 0.9, 0.0, 0.4]])  # of two evaluations from each domain
TASKS = {"quiz": "eval", "maths": "eval", "noise": "eval", "heldout/t00.q2": "heldout"}


def truth(weights: np.ndarray) -> np.ndarray:
    """Bits per byte of the evaluations and of the held-out task. (mixtures, 6) -> (mixtures, 3)"""
    seen = 1 - np.exp(-((0.8 * weights * TARGET / TOKENS) ** 0.8))
    return np.column_stack([*(1 + np.exp(0.2 - seen @ gain) for gain in GAIN), 1.5 - 0.3 * seen[:, 1]])


@dataclass
class World:
    """weights: (runs, 6); scores: (runs, 4), NaN where a run has none; half: (runs, 4), the same at half of the tokens, where it was taken"""

    kinds: list[str]
    weights: np.ndarray
    scores: np.ndarray
    names: list[str] = field(default_factory=lambda: list(NAMES))
    tokens: np.ndarray = field(default_factory=lambda: TOKENS)
    shuffled: bool = False  # the tables' rows
    half: np.ndarray | None = None

    def without(self, *places: tuple[int, int]) -> World:
        scores = self.scores.copy()
        scores[tuple(zip(*places))] = np.nan
        return replace(self, scores=scores)


def world(runs: int = 26, snr: float = 12.0) -> World:
    rng = np.random.default_rng(3)
    topics, bands = np.repeat(np.arange(3), 2), np.tile(np.arange(2), 3)
    planned = plan_round(proportional(TOKENS), topics, bands, epoch_caps(TOKENS, TARGET, 8.0), rng, runs)
    weights = np.array([each.weights for each in planned])
    true = truth(weights)
    scores = true + rng.normal(size=true.shape) * true.std(axis=0) / snr
    scores = np.insert(scores, 2, 2 + 0.01 * rng.normal(size=runs), axis=1)
    return World([each.kind for each in planned], weights, scores)


def leave(out, made: World) -> dict:
    keys = [f"run{number:02d}" for number in range(len(made.kinds))]
    subset, drawn = np.round(made.tokens * SHARE), made.weights * TARGET * SHARE
    rows = [{"run": key, "kind": kind, "domain": name, "weight": weight, "rows_drawn": 0, "subset_tokens": int(size), "tokens_drawn": int(round(used)),
             "epochs": 0.0, "floored": False} for key, kind, weights, draws in zip(keys, made.kinds, made.weights.tolist(), drawn.tolist())
            for name, weight, size, used in zip(made.names, weights, subset, draws)]
    half = np.full(made.scores.shape, None) if made.half is None else made.half
    scores = [{"run": key, "task": task, "score": score, "half": early} for key, row, earlier in zip(keys, made.scores.tolist(), half.tolist())
              for task, score, early in zip(TASKS, row, earlier) if score == score]
    for name, table, schema in (("run_domains", rows, RUN_DOMAINS), ("run_scores", scores, RUN_SCORES)):
        table = pa.Table.from_pylist(table, schema=schema)
        order = np.random.default_rng(0).permutation(len(table)) if made.shuffled else np.arange(len(table))
        out.table(f"{name}.parquet", table.take(pa.array(order)))
    failed = [{"run": key, "reason": "loss was nan"} for key, row in zip(keys, made.scores) if np.isnan(row).all()]
    out.json("runs.json", {"runs": [], "proxy": {}, "failed": failed, "tasks": [{"name": name, "kind": kind} for name, kind in TASKS.items()]})
    return {}


@dataclass
class Case:
    work: Work
    recipe: Recipe
    tokens: TokenStore
    swarm: Folder
    said: io.StringIO

    def fit(self) -> Folder:
        return fit.run(self.work, self.recipe, self.tokens, self.swarm)

    def mix(self) -> Folder:
        return mix.run(self.work, self.recipe, self.tokens, {self.recipe.budget.target: self.fit()})


def case(folder: Path, made: World, workers: int = 1, names: list[str] | None = None, **sections: Any) -> Case:
    """names: of the token store's domains, where they are not those of the swarm."""
    said = io.StringIO()
    recipe = Recipe(work=str(folder), sources=[{"name": "a", "path": "a", "license": "MIT"}], **{"budget": {"target": TARGET, "proxy": 20_000}, **sections})
    work = Work(recipe.work, LocalEngine(workers), Progress(said))
    domains = [Domain(name, "", "", 1, int(count), 1, 1, 0) for name, count in zip(names or made.names, made.tokens)]
    store = TokenStore(tuple(sorted(domains, key=lambda domain: domain.name)), 16, 300, 0, "", "store")
    return Case(work, recipe, store, work.do(Step("swarm", 1), [Task("swarm", leave, {"made": made})]), said)
