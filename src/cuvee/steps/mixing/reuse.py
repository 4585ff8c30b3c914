"""Reuse: the runs of another recipe's swarm as runs on the domains of this one.

`reuse.sample` reads which domain some documents, by hash, are in, then and now; `reuse` finds from these which old
domain each domain is part of, and leaves `old.json`: the map, and every old run with weights, epochs and scores by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, join, open_arrow, read_json, read_table
from cuvee.errors import DataError, UsageError
from cuvee.kernels import reuse as kernel
from cuvee.kernels.text import sampled
from cuvee.steps import finished
from cuvee.steps.proxies import scores
from cuvee.steps.proxies.gate import HELDOUT
from cuvee.steps.store import TokenStore

VERSION = 1
FILE = "old.json"
DOCUMENTS = 1_000_000  # that are looked at, by hash, of those of now
PURITY = 0.99  # of a domain's documents that must be in one old domain, and of an old domain's in its parts
SAMPLE = pa.schema([("id", pa.string()), ("domain", pa.string())])
CURE = "Its runs cannot be used here; mix.freeze keeps the proportions of what did not change."


def run(work: Work, recipe: Recipe, quality: Table, tokens: TokenStore, swarm: Folder) -> Folder | None:
    """A folder with `old.json`; None where the recipe reuses nothing."""
    if recipe.fit.reuse is None:
        return None
    old = Work(recipe.fit.reuse, work.engine)
    before = {name: finished.folder(old, name) for name in ("swarm", "quality", "tokens", "tokenizer.fit")}
    _check_alike(work, old, before, swarm, recipe)
    then = Table.of("quality", [before["quality"]])
    rows = sum(folder.counts.get("documents", 0) for folder in [work.current()["quality"]])
    share = min(1.0, DOCUMENTS / max(rows, 1))
    step = Step("reuse.sample", VERSION, {"share": share}, (quality.fingerprint, then.fingerprint))
    tasks = [Task(f"{when}.{shard.replace('/', '.')}", sample_shard, {"name": f"{when}.{shard.replace('/', '.')}.arrow", "url": url, "share": share})
             for when, table in (("now", quality), ("then", then)) for shard, url in table.files.items()]
    sample = work.do(step, tasks)
    counts = {name: result["counts"]["rows"] for name, result in before["tokens"].manifest["tasks"].items()}
    args = {"files": {when: tuple(sample.file(name) for name in sample.files if name.startswith(f"{when}.")) for when in ("now", "then")},
            "counts": dict(zip(tokens.names, tokens.tokens.tolist())), "old_counts": counts, "swarm": swarm.url, "old_swarm": before["swarm"].url}
    inputs = (sample.fingerprint, tokens.fingerprint, before["tokens"].fingerprint, swarm.fingerprint, before["swarm"].fingerprint)
    folder = work.do(Step("reuse", VERSION, {}, inputs), [Task("old", convert, args)])
    for note in read_json(folder.file(FILE))["notes"]:
        work.progress.say(f"fit: {note}")
    return folder


def _check_alike(work: Work, old: Work, before: Mapping[str, Folder], swarm: Folder, recipe: Recipe) -> None:
    """Raise where the two swarms differ in more than their mixtures: scores would not be of one scale."""
    then, now = (read_json(each.file("runs.json")) for each in (before["swarm"], swarm))
    target = finished.noted(old)["recipe"].get("budget.target")
    facts = {"proxy": (then["proxy"], now["proxy"]), "tokens of a run": tuple(sorted({run["tokens"] for run in each["runs"]}) for each in (then, now)),
             "budget.target": (target, recipe.budget.target),
             "tokenizer": (before["tokenizer.fit"].files.get("tokenizer.json"), work.current()["tokenizer.fit"].files.get("tokenizer.json"))}
    for what, (one, other) in facts.items():
        if one != other:
            raise UsageError(f"fit.reuse: the swarm of {old.url} has another {what}: {one} there, {other} here. Scores of the two cannot be compared; "
                             "use the same budgets, swarm and tokenizer (tokenizer.file), or leave fit.reuse out.")


def sample_shard(out: Output, name: str, url: str, share: float) -> Counts:
    table = read_table(url, ["id", "domain"])
    chosen = table.filter(pa.array(sampled(table["id"], "reuse", share))).combine_chunks()
    out.arrow(name, chosen.cast(SAMPLE).to_batches(), SAMPLE)
    return {"read": len(table), "sampled": len(chosen)}


def convert(out: Output, files: Mapping[str, Sequence[str]], counts: Mapping[str, int], old_counts: Mapping[str, int], swarm: str,
            old_swarm: str) -> Counts:
    """Find the map, and write every old run by the domains of now. counts, old_counts: tokens, rows of the domains that have some"""
    now, then = (pa.concat_tables([SAMPLE.empty_table(), *(open_arrow(file).read_all() for file in files[when])]) for when in ("now", "then"))
    names, old = [name for name, count in counts.items() if count], sorted(name for name, count in old_counts.items() if count)
    shared, lost = overlap(now, then, names, old)
    try:
        part_of = kernel.unions(shared, lost, (names, old), PURITY)
    except ValueError as error:
        raise DataError(f"fit.reuse: {error} {CURE}") from None
    sizes = np.array([counts[name] for name in names], float)
    before = scores.read(scores.Inputs(old_swarm, tuple(sorted(old_counts)), tuple(old_counts[name] for name in sorted(old_counts)), 1))
    order = [before.domains.index(name) for name in old]
    weights = kernel.split(before.runs.weights[:, order], part_of, sizes)
    epochs = kernel.carried(before.runs.epochs[:, order], part_of)
    same = same_tasks(before.tasks, read_json(join(swarm, "runs.json"))["tasks"], {name: old[place] for name, place in zip(names, part_of) if place != kernel.NEW})
    values = {name: before.of(was).tolist() for name, was in same.items()}
    found = {name: None if place == kernel.NEW else old[place] for name, place in zip(names, part_of.tolist())}
    out.json(FILE, {
        "map": found, "tasks": same, "notes": [_note(before, found, same)],
        "runs": [{"run": f"old/{key}", "kind": kind, "weights": dict(zip(names, weights[at].tolist())), "epochs": dict(zip(names, epochs[at].tolist())),
                  "scores": {name: each[at] for name, each in values.items() if np.isfinite(each[at])}}
                 for at, (key, kind) in enumerate(zip(before.keys, before.kinds))]})
    return {"runs": len(before.keys), "domains": len(names), "old": len(old)}


def overlap(now: pa.Table, then: pa.Table, names: Sequence[str], old: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Documents, by id, in each pair of domains (domains, old + 1), the last column in no old one; and of each old one in none now (old,)."""
    was = dict(zip(then["id"].to_pylist(), then["domain"].to_pylist()))
    number, place = {name: at for at, name in enumerate(names)}, {name: at for at, name in enumerate(old)}
    shared, lost = np.zeros((len(names), len(old) + 1)), np.zeros(len(old))
    for key, name in zip(now["id"].to_pylist(), now["domain"].to_pylist()):
        at = place.get(was.pop(key, ""), len(old))
        if name in number:
            shared[number[name], at] += 1
        elif at < len(old):
            lost[at] += 1
    for name in was.values():
        if name in place:
            lost[place[name]] += 1
    return shared, lost


def same_tasks(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], part_of: Mapping[str, str]) -> dict[str, str]:
    """Task of now -> the old task with the same items: evaluations by name and size, held-out documents where a domain is the whole of an old one."""
    sizes = {each["name"]: (each["kind"], each.get("items"), each.get("bytes")) for each in before}
    alone = {old for old in part_of.values() if list(part_of.values()).count(old) == 1}
    found = {}
    for each in now:
        name = each["name"]
        was = HELDOUT + part_of.get(name.removeprefix(HELDOUT), "") if each["kind"] == "heldout" else name
        known = each["kind"] != "heldout" or was.removeprefix(HELDOUT) in alone
        if known and sizes.get(was) == (each["kind"], each.get("items"), each.get("bytes")):
            found[name] = was
    return found


def _note(before: scores.Scores, found: Mapping[str, str | None], same: Mapping[str, str]) -> str:
    fresh = sum(old is None for old in found.values())
    said = f", {fresh} of them with texts of no old run" if fresh else ""
    return f"{len(before.keys)} old runs count too, on {len(found)} domains{said}; {len(same)} tasks have scores of them"
