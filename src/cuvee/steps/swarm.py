"""Swarm: small proxies trained on many mixtures, under the epochs that the real run will see.

The plan names the runs, round after round (rounds.py); `swarm.runs` (training.py) is their cache; `swarm` collects
`run_domains.parquet` (record.RUN_DOMAINS), `run_scores.parquet` (record.RUN_SCORES), `runs.json` and `rounds.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, read_json
from cuvee.errors import DataError
from cuvee.record import RUN_DOMAINS, RUN_SCORES
from cuvee.steps.proxies import imported, rounds, tasks, training
from cuvee.steps.proxies.imported import Given
from cuvee.steps.proxies.rounds import Planned
from cuvee.steps.proxies.subsets import check_floors
from cuvee.steps.proxies.training import Regime
from cuvee.steps.store import TokenStore

VERSION = 3


def run(work: Work, recipe: Recipe, tokens: TokenStore, prefix: str = "swarm", given: Given | None = None) -> Folder:
    """Plan a round, train what is not trained yet, and again until the procedure has enough; collect.

    prefix: of the places of its steps, where one recipe has several swarms; given: scores of another trainer, in place of training
    """
    floored = check_floors(tokens.domains, recipe)
    if floored:
        work.progress.say(f"WARNING: swarm: {floored:.1%} of natural tokens lie in floored domains, which a proxy repeats less than the target will")
    regime = training.regime(recipe, tokens, recipe.swarm.depth, recipe.budget.proxy)
    planned = plan(recipe, tokens, regime)
    scored, train = _trainer(work, prefix, recipe, tokens, regime, given)
    facts: list[dict[str, Any]] = [{"round": 1, "runs": len(planned), "why": ""}]
    trained = train(planned)
    for number in range(2, len(rounds.sizes(recipe, [domain.name for domain in tokens.domains if domain.rows])) + 1):
        more, found = rounds.later(work, recipe, tokens, regime, trained, scored, planned, number, prefix)
        facts.append(found)
        work.progress.say(said(found))
        if not more:
            break
        planned = [*planned, *more]
        trained = train(planned)
    if given is not None:
        imported.check_known(given, planned, imported.mark(recipe, tokens, regime))
    step = Step(prefix, VERSION, {"runs": [[each.run.key, each.kind, each.round] for each in planned], "rounds": facts},
                (trained.fingerprint, scored.fingerprint))
    args = {"planned": planned, "files": {each.run.key: trained.file(f"{each.run.key}.json") for each in planned}, "regime": regime,
            "names": tokens.names, "tasks_file": scored.file("tasks.json"), "facts": {"procedure": recipe.swarm.procedure, "rounds": facts}}
    return work.do(step, [Task("collect", collect, args)])


def _trainer(work: Work, prefix: str, recipe: Recipe, tokens: TokenStore, regime: Regime,
             given: Given | None) -> tuple[Folder, Callable[[Sequence[Planned]], Folder]]:
    """The tasks, and what gives runs their scores: training here, or a file that another trainer filled."""
    if given is not None:
        return imported.asked(work, prefix, tokens, given), partial(imported.take, work, prefix, recipe, tokens, regime, given)
    scored = tasks.run(work, recipe, tokens)
    return scored, lambda planned: training.train_all(work, f"{prefix}.runs", recipe, tokens, regime, scored, [each.run for each in planned])


def plan(recipe: Recipe, tokens: TokenStore, regime: Regime) -> list[Planned]:
    """The runs of round 1."""
    return rounds.first(recipe, tokens, regime)


def said(found: Mapping[str, Any]) -> str:
    """What a person is told of a round that was planned from scores."""
    if found["why"]:
        return f"swarm: no round {found['round']}: {found['why']}"
    expected = f"; expected improvement {found['expected_improvement']:.3g}, noise of a run {found['noise']:.3g} SDs of the swarm" if "noise" in found else ""
    return f"swarm: round {found['round']}: {found['runs']} runs{expected}"


def collect(out: Output, planned: Sequence[Planned], files: Mapping[str, str], regime: Regime, names: Sequence[str], tasks_file: str,
            facts: Mapping[str, Any]) -> Counts:
    found = {key: read_json(url) for key, url in files.items()}
    failed = [{"run": each.run.key, "reason": found[each.run.key]["failure"]} for each in planned if found[each.run.key]["failure"]]
    if len(failed) == len(planned):
        raise DataError(f"all {len(planned)} runs failed; the first: {failed[0]['reason']}")
    out.table("run_domains.parquet", _domains(planned, found, regime, names))
    out.table("run_scores.parquet", _scores(planned, found))
    mixtures = {parts: number for number, parts in enumerate(dict.fromkeys(each.run.parts for each in planned))}
    out.json("rounds.json", facts)
    out.json("runs.json", {
        "runs": [{"run": run.key, "kind": kind, "round": number, "mixture": mixtures[run.parts], "seed": run.seed, "tokens": regime.tokens,
                  "losses": found[run.key]["losses"]} for kind, run, number in planned],
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
            "round": np.repeat([each.round for each in planned], len(names)),
            "domain": np.tile(names, len(planned)), "weight": (drawn / regime.rows).ravel(), "rows_drawn": drawn.ravel(),
            "subset_tokens": np.tile(offered * seq_len, len(planned)), "tokens_drawn": drawn.ravel() * seq_len, "epochs": epochs.ravel(),
            "floored": np.tile(regime.subsets.floored, len(planned))}
    return pa.table({name: pa.array(column) for name, column in each.items()}).cast(RUN_DOMAINS)


def _scores(planned: Sequence[Planned], found: Mapping[str, Any]) -> pa.Table:
    rows = [{"run": each.run.key, "task": task, "score": score, "half": (found[each.run.key]["half"] or {}).get(task)}
            for each in planned for task, score in found[each.run.key]["scores"].items()]
    return pa.Table.from_pylist(rows, schema=RUN_SCORES)
