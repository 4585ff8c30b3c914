"""The swarm as files, for a trainer outside Cuvee: `cuvee swarm export` writes the runs, `cuvee swarm import` takes their scores.

A folder of runs has `manifest.json`, `mixtures.csv`, the tasks, the tokenizer, and a folder for each run: its
`stream.json`, which `cuvee.open_stream` reads from the token store, or its tokens themselves, `tokens.npy`.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee import csv_files
from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.step import package_version
from cuvee.engine.store import create, exists, join, open_arrow, read_bytes, read_json, write_bytes, write_json, write_table
from cuvee.errors import DataError, UsageError
from cuvee.steps import swarm
from cuvee.steps.proxies import imported, tasks, training
from cuvee.steps.proxies.imported import Given, MissingScores
from cuvee.steps.proxies.rounds import Planned
from cuvee.steps.proxies.training import Regime
from cuvee.steps.store import TokenStore
from cuvee.steps.stream import FILE, Stream
from cuvee.steps.stream import VERSION as STREAM
from cuvee.steps.tokenize import token_type

VERSION = 1
MANIFEST = "manifest.json"
ROWS = 4_096  # of a run's tokens that are written at a time


@dataclass(frozen=True)
class Plan:
    """The runs that have no score yet, and what they are of."""

    recipe: Recipe
    tokens: TokenStore
    regime: Regime
    runs: Sequence[Planned]

    @property
    def mark(self) -> str:
        return imported.mark(self.recipe, self.tokens, self.regime)

    def name(self, planned: Planned) -> str:
        return imported.name(planned.run, self.mark)


def read(path: str) -> Given:
    """The scores in a CSV: the run's name, then a column for each task; an empty cell or NaN where a run has none."""
    keys = csv_files.read_rows(path).keys
    names, values = csv_files.read_scores(path, keys, path)
    return Given(path, tuple(names), dict(zip(keys, map(tuple, values.tolist()))))


def planned(work: Work, recipe: Recipe, tokens: TokenStore, given: Given | None) -> Plan:
    """What is to be trained next: round 1, or the round that follows from the scores so far; no run where all have scores."""
    regime = training.regime(recipe, tokens, recipe.swarm.depth, recipe.budget.proxy)
    if given is None:
        return Plan(recipe, tokens, regime, swarm.plan(recipe, tokens, regime))
    try:
        swarm.run(work, recipe, tokens, given=given)
    except MissingScores as error:
        return Plan(recipe, tokens, regime, error.missing)
    return Plan(recipe, tokens, regime, [])


def export(work: Work, recipe: Recipe, tokens: TokenStore, out: str, rows: bool) -> str:
    """Write the runs that have no score yet to folder `out`; what is to be said of it. rows: their tokens too"""
    path = recipe.swarm.scores
    plan = planned(work, recipe, tokens, read(path) if path is not None and exists(path) else None)
    if not plan.runs:
        return f"every run of the plan has a row in {path}; nothing is left to train. Next: cuvee run RECIPE"
    manifest = _manifest(plan, rows)
    _claim(out, manifest)
    write_json(join(out, MANIFEST), manifest | {"complete": False})
    has_tasks = tasks.askable(recipe, tokens)
    if has_tasks:
        _tasks(work, recipe, tokens, out)
    write_bytes(join(out, "tokenizer.json"), read_bytes(tokens.tokenizer))
    write_bytes(join(out, "mixtures.csv"), _mixtures(plan).encode())
    for each in plan.runs:
        _run(plan, each, join(out, "runs", plan.name(each)), rows)
    write_json(join(out, MANIFEST), manifest | {"complete": True, "tasks": "items.parquet" if has_tasks else None})
    return f"{len(plan.runs)} runs of round {plan.runs[-1].round}, {len(plan.runs) * plan.regime.tokens:,} tokens together; {out}"


def _manifest(plan: Plan, rows: bool) -> dict[str, Any]:
    tokens, regime = plan.tokens, plan.regime
    domains = [{"name": domain.name, "tokens": domain.tokens, "subset_rows": int(count), "subset_tokens": int(count) * tokens.seq_len, "floored": bool(low)}
               for domain, count, low in zip(tokens.domains, regime.subsets.rows, regime.subsets.floored)]
    return {"version": VERSION, "cuvee": package_version("cuvee"), "mark": plan.mark, "fingerprints": {"tokens": tokens.fingerprint},
            "budget": {"target": plan.recipe.budget.target, "proxy": regime.budget}, "proxy": swarm.described(regime), "seq_len": tokens.seq_len,
            "vocab": tokens.vocab, "end": tokens.end, "pack": plan.recipe.tokenize.pack, "tokenizer": "tokenizer.json", "domains": domains,
            "runs": [_described(plan, each, rows) for each in plan.runs]}


def _described(plan: Plan, each: Planned, rows: bool) -> dict[str, Any]:
    parts, offered = np.array(each.run.parts), plan.regime.subsets.rows
    epochs = np.divide(parts, offered, out=np.zeros(len(parts)), where=offered > 0)
    name = plan.name(each)
    return {"run": name, "kind": each.kind, "round": each.round, "seed": each.run.seed, "rows": plan.regime.rows, "tokens": plan.regime.tokens,
            "weights": dict(zip(plan.tokens.names, (parts / plan.regime.rows).tolist())), "parts": dict(zip(plan.tokens.names, parts.tolist())),
            "epochs": dict(zip(plan.tokens.names, epochs.tolist())), "stream": f"runs/{name}/{FILE}",
            "tokens_file": f"runs/{name}/tokens.npy" if rows else None}


def _claim(out: str, manifest: Mapping[str, Any]) -> None:
    """A folder that holds something else is not written into; one that an export left half-way is filled."""
    url = join(out, MANIFEST)
    if exists(url):
        there = read_json(url)
        if [there.get(key) for key in ("mark", "runs")] != [manifest[key] for key in ("mark", "runs")]:
            raise UsageError(f"{out} holds other runs. Name another folder, or delete it.")
    elif os.path.isdir(out) and os.listdir(out):
        raise UsageError(f"{out} is not empty. Name another folder, or delete it.")


def _tasks(work: Work, recipe: Recipe, tokens: TokenStore, out: str) -> None:
    """`items.parquet`: what the swarm's own proxies are scored on; `tasks.json`: their names, items and bytes."""
    folder = tasks.run(work, recipe, tokens)
    names = [each["name"] for each in read_json(folder.file("tasks.json"))]
    items = open_arrow(folder.file("items.arrow")).read_all()
    named = pa.array(np.array(names, object)[items["task"].to_numpy()], pa.string())
    write_table(join(out, "items.parquet"), items.set_column(0, "task", named))
    write_bytes(join(out, "tasks.json"), read_bytes(folder.file("tasks.json")))


def _mixtures(plan: Plan) -> str:
    """A row a run: its weights, as it draws them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", *plan.tokens.names])
    writer.writerows([plan.name(each), *(np.array(each.run.parts) / plan.regime.rows).tolist()] for each in plan.runs)
    return text.getvalue()


def _run(plan: Plan, each: Planned, folder: str, rows: bool) -> None:
    """A run's stream, whose first and only period is the run; and its tokens, in the order of training."""
    tokens = plan.tokens
    described = {
        "version": STREAM, "seed": each.run.seed, "seq_len": tokens.seq_len, "vocab": tokens.vocab, "end": tokens.end,
        "pack": plan.recipe.tokenize.pack, "tokenizer": tokens.tokenizer, "budget": plan.regime.tokens,
        "domains": [{"name": domain.name, "rows": domain.rows_url, "count": int(count), "of": domain.rows}
                    for domain, count in zip(tokens.domains, plan.regime.subsets.rows)],
        "stages": [{"mixture": plan.name(each), "start": 0, "rows": plan.regime.rows,
                    "weights": dict(zip(tokens.names, (np.array(each.run.parts) / plan.regime.rows).tolist()))}],
        "segments": [{"start": 0, "parts": list(each.run.parts)}], "fingerprints": {"tokens": tokens.fingerprint}}
    write_json(join(folder, FILE), described)
    if rows and not exists(join(folder, "tokens.npy")):
        _write_rows(Stream(folder, described), plan, join(folder, "tokens.npy"))


def _write_rows(stream: Stream, plan: Plan, url: str) -> None:
    kind = np.dtype(token_type(plan.tokens.vocab).to_pandas_dtype())
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (plan.regime.rows, plan.tokens.seq_len + 1)}
    with create(url) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, plan.regime.rows, ROWS):
            file.write(stream.take(start, min(ROWS, plan.regime.rows - start)).astype(kind).tobytes())


def place(recipe: Recipe) -> str:
    """Where imported scores go."""
    if recipe.swarm.scores is None:
        raise UsageError("the recipe has no swarm.scores, where imported scores go. Add to it: swarm: {scores: swarm-scores.csv}")
    return recipe.swarm.scores


def take(work: Work, recipe: Recipe, tokens: TokenStore, path: str) -> str:
    """Add the scores in a CSV to those where the recipe's swarm.scores points; what is to be said of it."""
    url = place(recipe)
    new, old = read(path), read(url) if exists(url) else None
    if old is not None and set(old.tasks) != set(new.tasks):
        odd = sorted(set(old.tasks) ^ set(new.tasks))
        raise DataError(f"{path} and {url} do not have the same tasks: {', '.join(odd[:5])} in one alone. Import the same columns, or delete {url}.")
    merged = Given(path, new.tasks, {**(_ordered(old, new.tasks) if old else {}), **new.scores})
    following: list[Planned] = []
    gone: list[str] = []
    try:
        swarm.run(work, recipe, tokens, given=merged)
    except MissingScores as error:
        following = error.missing
        if len(following) < sum(each.round == following[-1].round for each in error.planned):
            raise  # some runs of a round, not all
        digits = imported.mark(recipe, tokens, training.regime(recipe, tokens, recipe.swarm.depth, recipe.budget.proxy))
        imported.check_known(new, error.planned, digits)
        names = {imported.name(each.run, digits) for each in error.planned}
        gone = [name for name in merged.scores if name not in names]
        merged = merged._replace(scores={name: row for name, row in merged.scores.items() if name in names})  # other scores led to another round
    _write_scores(url, merged)
    more = f"; round {following[0].round} has {len(following)} runs: cuvee swarm export RECIPE -o DIR" if following else ". Next: cuvee run RECIPE"
    changed = [name for name, row in (_ordered(old, new.tasks) if old else {}).items() if repr(new.scores.get(name, row)) != repr(row)]
    other = f"; {len(changed)} of them had others before: {', '.join(changed[:csv_files.SHOWN])}" if changed else ""
    left = f"; {len(gone)} runs were of rounds to which other scores led, and are left out: {', '.join(gone[:csv_files.SHOWN])}" if gone else ""
    return f"scores of {len(new.scores)} runs on {len(new.tasks)} tasks{other}{left}; {url} has {len(merged.scores)} runs{more}"


def _ordered(old: Given, order: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """The scores of `old` with its columns in another order."""
    at = [old.tasks.index(task) for task in order]
    return {name: tuple(row[place] for place in at) for name, row in old.scores.items()}


def _write_scores(url: str, given: Given) -> None:
    """By name, floats by repr, an empty cell where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", *given.tasks])
    writer.writerows([name, *("" if value != value else repr(value) for value in row)] for name, row in sorted(given.scores.items()))
    write_bytes(url, text.getvalue().encode())
