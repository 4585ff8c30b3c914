"""Which mixtures a swarm trains: a procedure's first round, then what it asks for when it has seen the scores so far.

Every later round's plan is a step of its own, `swarm.round2` and on, so a run that is killed goes on from the last plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cuvee.config import Recipe, Swarm
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, read_json
from cuvee.errors import DataError
from cuvee.kernels.grid import topic_and_band
from cuvee.kernels.groups import Groups, excess
from cuvee.kernels.procedures.base import Procedure, Round, Seen, Setting
from cuvee.kernels.procedures.ours import Ours
from cuvee.kernels.procedures.registry import PROCEDURES
from cuvee.kernels.simplex import epoch_caps
from cuvee.steps import fit
from cuvee.steps.proxies import gate, training
from cuvee.steps.proxies.training import Regime, Run
from cuvee.steps.store import TokenStore

VERSION = 3
KINDS = {"dirichlet": "proposal", "sparse": "proposal"}  # of the plan, as they are written
FLAT = "lightgbm"  # the one model that a search cannot follow; rounds are then led by the default
LEAST_RUNS = 6  # with a score, for a task to count


class Planned(NamedTuple):
    kind: str
    run: Run
    round: int = 1


def procedure(config: Swarm, model: str) -> Procedure:
    """Who chooses the mixtures."""
    return Ours(config.rounds, _leader(model), config.stop) if config.procedure == "ours" else PROCEDURES[config.procedure]()


def _leader(model: str) -> str:
    return Ours.model if model == FLAT else model


def sizes(recipe: Recipe, names: Sequence[str]) -> list[int]:
    """Runs of each round, at most, for domains of these names."""
    return procedure(recipe.swarm, recipe.fit.model).sizes(setting(recipe, names, np.ones(len(names))))


def setting(recipe: Recipe, names: Sequence[str], tokens: np.ndarray, importance: np.ndarray | None = None, tasks: Sequence[str] = ()) -> Setting:
    """What is to be mixed: domains with their tokens, (domains,) > 0, and tasks with their weights where they are known."""
    config, (topics, bands) = recipe.mix, groups(names)
    protect = np.array([recipe.protected.get(name, np.inf) for name in tasks])
    return Setting(tokens.astype(float), recipe.budget.target, config.max_epochs, np.zeros(0) if importance is None else importance, topics, bands,
                   recipe.swarm.runs, config.kl, config.risk, limits(recipe, names), protect)


def groups(names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Topic and band of each domain, numbered from 0, int64 (domains,) x 2; a name unlike `t07.q5` is a topic of its own."""
    parsed = [topic_and_band(name) or (name, 1) for name in names]
    return np.unique([topic for topic, _ in parsed], return_inverse=True)[1], np.array([band for _, band in parsed], np.int64) - 1


def limits(recipe: Recipe, names: Sequence[str]) -> Groups:
    """What groups of domains may hold together."""
    found = recipe.mix.groups.values()
    members = [[group.holds(name) for name in names] for group in found]
    return Groups(np.array(members, bool).reshape(len(found), len(names)), np.array([group.low for group in found]), np.array([group.high for group in found]))


def deployment_caps(recipe: Recipe, tokens: TokenStore) -> np.ndarray:
    """Largest weight of each domain in the real run, (domains,); caps that cannot hold the budget are a DataError."""
    target, most = recipe.budget.target, recipe.mix.max_epochs
    caps = epoch_caps(tokens.tokens, target, most)
    if caps.sum() < 1:
        raise DataError(f"{int(tokens.tokens.sum()):,} tokens seen at most {most:g} times each cannot fill budget.target = {target:,}. "
                        f"Lower the target to {int(most * tokens.tokens.sum()):,}, raise mix.max_epochs, or add data.")
    return caps


def first(recipe: Recipe, tokens: TokenStore, regime: Regime) -> list[Planned]:
    """The runs of round 1. A domain without a row takes no part and has weight 0."""
    deployment_caps(recipe, tokens)
    used = np.flatnonzero(tokens.tokens)
    names = [tokens.names[place] for place in used]
    asked = setting(recipe, names, tokens.tokens[used])
    over = excess(asked.caps, asked.limits) if recipe.mix.groups else np.zeros(0)
    if (over > 0).any():
        wrong = ", ".join(f"'{name}'" for name, each in zip(recipe.mix.groups, over) if each > 0)
        raise DataError(f"mix.groups: no mixture keeps the limits of all groups under the epoch caps; {wrong} would have to give way. "
                        f"Widen them, or raise mix.max_epochs = {recipe.mix.max_epochs:g}.")
    if len(sizes(recipe, names)) > 1:
        _uses(recipe)  # what a later round needs is there
    nothing = Seen.nothing(len(used), 0)
    found = procedure(recipe.swarm, recipe.fit.model).propose(asked, nothing, np.random.default_rng(recipe.seed))
    return _planned(recipe, regime, _spread(found.weights, used, len(tokens.names)), _kinds(found), [], 1)


def _spread(weights: np.ndarray, used: np.ndarray, domains: int) -> np.ndarray:
    """Weights of all domains, 0 where one has no row. (n, used) -> (n, domains)"""
    whole = np.zeros((len(weights), domains))
    whole[:, used] = weights
    return whole


def _kinds(found: Round) -> list[str]:
    """As they are written: the first proportional run is the anchor, the others its repeats."""
    first = found.kinds.index("proportional") if "proportional" in found.kinds else -1
    return ["repeat" if kind == "proportional" and place > first else KINDS.get(kind, kind) for place, kind in enumerate(found.kinds)]


def _planned(recipe: Recipe, regime: Regime, mixtures: np.ndarray, kinds: Sequence[str], before: Sequence[Planned], number: int) -> list[Planned]:
    runs = training.runs_of(recipe, regime, mixtures, [each.run for each in before])
    return [Planned(kind, run, number) for kind, run in zip(kinds, runs)]


def later(work: Work, recipe: Recipe, tokens: TokenStore, regime: Regime, trained: Folder, scored: Folder, planned: Sequence[Planned],
          number: int, prefix: str) -> tuple[list[Planned], dict[str, Any]]:
    """The runs of round `number`, and the facts that led to them; no run where the search ends."""
    rule = {"swarm": {"procedure": recipe.swarm.procedure, "rounds": recipe.swarm.rounds, "runs": recipe.swarm.runs, "stop": recipe.swarm.stop}, "mix": recipe.mix.identity(),
            "protected": recipe.protected, "fit": recipe.fit.identity(), "roles": gate.roles(recipe), "target": recipe.budget.target, "seed": recipe.seed}
    step = Step(f"{prefix}.round{number}", VERSION, {**rule, "runs": [[each.run.key, each.round] for each in planned]},
                (tokens.fingerprint, trained.fingerprint, scored.fingerprint), _uses(recipe))
    args = {"recipe": recipe, "planned": planned, "files": {each.run.key: trained.file(f"{each.run.key}.json") for each in planned},
            "regime": regime, "tokens": dict(zip(tokens.names, tokens.tokens.tolist())), "tasks_file": scored.file("tasks.json")}
    found = read_json(work.do(step, [Task("propose", propose, args)]).file("round.json"))
    mixtures = np.array(found.pop("mixtures")).reshape(-1, len(tokens.names))
    return _planned(recipe, regime, mixtures, found.pop("kinds"), planned, number), {"round": number, **found}


def _uses(recipe: Recipe) -> tuple[str, ...]:
    return fit.uses(_leader(recipe.fit.model) if recipe.swarm.procedure == "ours" else FLAT)


def propose(out: Output, recipe: Recipe, planned: Sequence[Planned], files: Mapping[str, str], regime: Regime, tokens: Mapping[str, int],
            tasks_file: str) -> Counts:
    """`round.json`: the mixtures of the next round with their kinds, the facts that led to them, and why it ends where it does."""
    described, found = read_json(tasks_file), [read_json(files[each.run.key]) for each in planned]
    used = np.flatnonzero(np.array(list(tokens.values())))
    names = [list(tokens)[place] for place in used]
    seen = _seen(planned, found, regime, used, [task["name"] for task in described])
    half = _table([each.get("half") or {} for each in found], [task["name"] for task in described])
    weights, notes = _importance(recipe, described, seen, half, tokens)
    asked = setting(recipe, names, np.array(list(tokens.values()))[used], weights, [task["name"] for task in described])
    number = seen.asked + 1
    chosen = procedure(recipe.swarm, recipe.fit.model).propose(asked, seen, np.random.default_rng([recipe.seed, number]))
    out.json("round.json", {"runs": len(chosen.weights), **chosen.facts, "why": chosen.why, "notes": notes, "kinds": _kinds(chosen),
                            "mixtures": _spread(chosen.weights, used, len(tokens)).tolist()})
    return {"runs": len(chosen.weights), "seen": len(planned)}


def _seen(planned: Sequence[Planned], found: Sequence[Mapping[str, Any]], regime: Regime, used: np.ndarray, tasks: Sequence[str]) -> Seen:
    """Runs as a procedure sees them: realised weights and epochs of the domains that have rows; a run that failed has no score."""
    drawn, offered = np.array([each["drawn"] for each in found], float)[:, used], regime.subsets.rows[used]
    return Seen(drawn / regime.rows, _table([each["scores"] for each in found], tasks), np.array([each.round - 1 for each in planned]), drawn / offered)


def _table(rows: Sequence[Mapping[str, float]], tasks: Sequence[str]) -> np.ndarray:
    """(runs, tasks), NaN where a run has no finite score."""
    values = np.array([[row.get(task, np.nan) for task in tasks] for row in rows], float)
    return np.where(np.isfinite(values), values, np.nan)


def _importance(recipe: Recipe, described: Sequence[Mapping[str, Any]], seen: Seen, half: np.ndarray, tokens: Mapping[str, int]) -> tuple[np.ndarray, list[str]]:
    """Weights of the tasks by the gate, as fit will find them, with the runs so far. (tasks,)"""
    roles, found = gate.roles(recipe), {}
    for place, task in enumerate(described):
        values = seen.scores[:, place]
        has = np.isfinite(values)
        found[task["name"]] = {"kind": task["kind"], "role": roles.get(task["name"], gate.TARGET), "fit": True if has.sum() >= LEAST_RUNS else None,
                               **gate.signal(seen.weights[has], values[has], half[has, place])}
    weights, notes = gate.importance(found, recipe.mix.tasks, recipe.fit.min_snr, tokens, recipe.fit.min_predictability)
    return np.array([weights.get(task["name"], 0.0) for task in described]), notes
