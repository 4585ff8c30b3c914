"""Swarm: small proxies trained on many mixtures, under the epochs that the real run will see.

The plan names the runs; `swarm.runs` (training.py) is their cache; `swarm` collects `run_domains.parquet`
(record.RUN_DOMAINS), `run_scores.parquet` (record.RUN_SCORES) and `runs.json`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, read_json
from cuvee.errors import DataError
from cuvee.kernels.proposals import plan_round
from cuvee.kernels.simplex import epoch_caps, proportional
from cuvee.record import RUN_DOMAINS, RUN_SCORES
from cuvee.steps import tasks, training
from cuvee.steps.store import TokenStore
from cuvee.steps.subsets import check_floors
from cuvee.steps.training import Regime, Run

VERSION = 2
KINDS = {"dirichlet": "proposal", "sparse": "proposal"}  # of the plan, as they are written


class Planned(NamedTuple):
    kind: str
    run: Run


def run(work: Work, recipe: Recipe, tokens: TokenStore) -> Folder:
    """Plan round 1, train what is not trained yet, collect."""
    floored = check_floors(tokens.domains, recipe)
    if floored:
        work.progress.say(f"WARNING: swarm: {floored:.1%} of natural tokens lie in floored domains, which a proxy repeats less than the target will")
    regime = training.regime(recipe, tokens, recipe.swarm.depth, recipe.budget.proxy)
    planned = plan(recipe, tokens, regime)
    scored = tasks.run(work, recipe, tokens)
    trained = training.train_all(work, "swarm.runs", recipe, tokens, regime, scored, [each.run for each in planned])
    step = Step("swarm", VERSION, {"runs": [[each.run.key, each.kind] for each in planned]}, (trained.fingerprint, scored.fingerprint))
    args = {"planned": planned, "files": {each.run.key: trained.file(f"{each.run.key}.json") for each in planned}, "regime": regime,
            "names": tokens.names, "tasks_file": scored.file("tasks.json")}
    return work.do(step, [Task("collect", collect, args)])


def plan(recipe: Recipe, tokens: TokenStore, regime: Regime) -> list[Planned]:
    """The runs of round 1. A domain without a row takes no part and has weight 0."""
    used = np.flatnonzero(tokens.tokens)
    caps = deployment_caps(recipe, tokens)
    topics, bands = groups([tokens.names[place] for place in used])
    rng = np.random.default_rng(recipe.seed)
    found = plan_round(proportional(tokens.tokens)[used], topics, bands, caps[used], rng, recipe.swarm.runs)
    mixtures = np.zeros((len(found), len(tokens.domains)))
    mixtures[:, used] = [each.weights for each in found]
    kinds = ["repeat" if each.kind == "proportional" and each.repeat else KINDS.get(each.kind, each.kind) for each in found]
    return [Planned(kind, run) for kind, run in zip(kinds, training.runs_of(recipe, regime, mixtures))]


def deployment_caps(recipe: Recipe, tokens: TokenStore) -> np.ndarray:
    """Largest weight of each domain in the real run, (domains,); caps that cannot hold the budget are a DataError."""
    target, most = recipe.budget.target, recipe.mix.max_epochs
    caps = epoch_caps(tokens.tokens, target, most)
    if caps.sum() < 1:
        raise DataError(f"{int(tokens.tokens.sum()):,} tokens seen at most {most:g} times each cannot fill budget.target = {target:,}. "
                        f"Lower the target to {int(most * tokens.tokens.sum()):,}, raise mix.max_epochs, or add data.")
    return caps


def groups(names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Topic and band of each domain, numbered from 0, int64 (domains,) x 2; a name unlike `t07.q5` is a topic of its own."""
    parsed = [(match[1], int(match[2]) - 1) if (match := re.fullmatch(r"(t\d+)\.q(\d+)", name)) else (name, 0) for name in names]
    return np.unique([topic for topic, _ in parsed], return_inverse=True)[1], np.array([band for _, band in parsed], np.int64)


def collect(out: Output, planned: Sequence[Planned], files: Mapping[str, str], regime: Regime, names: Sequence[str], tasks_file: str) -> Counts:
    found = {key: read_json(url) for key, url in files.items()}
    failed = [{"run": each.run.key, "reason": found[each.run.key]["failure"]} for each in planned if found[each.run.key]["failure"]]
    if len(failed) == len(planned):
        raise DataError(f"all {len(planned)} runs failed; the first: {failed[0]['reason']}")
    out.table("run_domains.parquet", _domains(planned, found, regime, names))
    out.table("run_scores.parquet", _scores(planned, found))
    mixtures = {parts: number for number, parts in enumerate(dict.fromkeys(each.run.parts for each in planned))}
    out.json("runs.json", {
        "runs": [{"run": run.key, "kind": kind, "mixture": mixtures[run.parts], "seed": run.seed, "tokens": regime.tokens,
                  "losses": found[run.key]["losses"]} for kind, run in planned],
        "tasks": read_json(tasks_file), "proxy": described(regime), "failed": failed})
    return {"runs": len(planned), "failed": len(failed), "tokens": len(planned) * regime.tokens}


def described(regime: Regime) -> dict[str, Any]:
    """The proxy in numbers, for people and for the report."""
    config = regime.config
    return {"vocab": config.vocab, "seq_len": config.seq_len, "depth": config.depth, "width": config.width, "batch": config.batch,
            "steps": regime.steps, "parameters": config.parameters, "flops_per_token": config.flops_per_token}


def _domains(planned: Sequence[Planned], found: Mapping[str, Any], regime: Regime, names: Sequence[str]) -> pa.Table:
    drawn = np.array([found[each.run.key]["drawn"] for each in planned], np.int64)  # (runs, domains)
    offered, seq_len = regime.subsets.rows, regime.config.seq_len
    epochs = np.divide(drawn, offered, out=np.zeros(drawn.shape), where=offered > 0)
    each = {"run": np.repeat([each.run.key for each in planned], len(names)), "kind": np.repeat([each.kind for each in planned], len(names)),
            "domain": np.tile(names, len(planned)), "weight": (drawn / regime.rows).ravel(), "rows_drawn": drawn.ravel(),
            "subset_tokens": np.tile(offered * seq_len, len(planned)), "tokens_drawn": drawn.ravel() * seq_len, "epochs": epochs.ravel(),
            "floored": np.tile(regime.subsets.floored, len(planned))}
    return pa.table({name: pa.array(column) for name, column in each.items()}).cast(RUN_DOMAINS)


def _scores(planned: Sequence[Planned], found: Mapping[str, Any]) -> pa.Table:
    rows = [{"run": each.run.key, "task": task, "score": score, "half": (found[each.run.key].get("half") or {}).get(task)}
            for each in planned for task, score in found[each.run.key]["scores"].items()]
    return pa.Table.from_pylist(rows, schema=RUN_SCORES)
