"""The worlds of the arena, by name. Their seeds were fixed before any procedure was run on them, and stay.

`FIRST` had been seen when rounds were tuned, on other worlds than `AGAIN`, which were written down after that and before
they were played.

A world of another seed or size: `built(Plan("mine", "pairs", 30, 9, 123))`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from worlds import published
from worlds.laws import Effective, Law, Pairs, Saturating, Thresholds, WithNoise, banded_gain
from worlds.world import SD, World

TOTAL = 1e12  # tokens of all domains together


class Plan(NamedTuple):
    """base: law of a family that is about noise; ratio: budget / tokens of all domains, None draws one in [.3, 2]."""

    name: str
    family: str
    domains: int
    tasks: int
    seed: int
    base: str = ""
    per_topic: int = 1  # bands of each topic
    ratio: float | None = None
    data: str = ""      # of the RegMix runs
    first: float = 0.0  # importance of the first task (Pile-CC) beyond its equal share
    drawn: bool = False  # importance of the tasks at random, uniform on the simplex, instead of equal


FIRST = (
    Plan("saturating-17", "saturating", 17, 7, 101), Plan("saturating-24", "saturating", 24, 10, 102), Plan("saturating-40", "saturating", 40, 13, 103),
    Plan("harm-17", "harm", 17, 7, 111), Plan("harm-24", "harm", 24, 9, 112), Plan("harm-32", "harm", 32, 10, 113),
    Plan("bands-24", "bands", 24, 8, 121, per_topic=3), Plan("bands-40", "bands", 40, 10, 122, per_topic=4),
    Plan("bands-200", "bands", 200, 50, 123, per_topic=5),
    Plan("loglinear-1m", "loglinear", 17, 13, 131, ratio=0.25, data="1m"), Plan("loglinear-web", "loglinear", 17, 13, 132, ratio=1.0, data="1m", first=0.5),
    Plan("loglinear-60m", "loglinear", 17, 13, 133, ratio=2.0, data="60m"),
    Plan("trees-1m", "trees", 17, 13, 141, ratio=0.25, data="1m"), Plan("trees-web", "trees", 17, 13, 142, ratio=1.0, data="1m", first=0.5),
    Plan("trees-60m", "trees", 17, 13, 143, ratio=2.0, data="60m"),
    Plan("gp-1m", "gp", 17, 13, 151, ratio=0.25, data="1m"), Plan("gp-web", "gp", 17, 13, 152, ratio=1.0, data="1m", first=0.5),
    Plan("gp-60m", "gp", 17, 13, 153, ratio=2.0, data="60m"),
    Plan("pairs-17", "pairs", 17, 7, 161), Plan("pairs-24", "pairs", 24, 10, 162), Plan("pairs-100", "pairs", 100, 20, 163),
    Plan("thresholds-17", "thresholds", 17, 8, 171), Plan("thresholds-20", "thresholds", 20, 10, 172), Plan("thresholds-30", "thresholds", 30, 12, 173),
    Plan("effective-20", "effective", 20, 8, 181), Plan("effective-30", "effective", 30, 12, 182), Plan("effective-120", "effective", 120, 20, 183),
    Plan("noise-saturating-20", "noise tasks", 20, 12, 191, base="saturating"), Plan("noise-effective-24", "noise tasks", 24, 12, 192, base="effective"),
    Plan("uneven-saturating-24", "uneven noise", 24, 9, 201, base="saturating"), Plan("uneven-pairs-20", "uneven noise", 20, 8, 202, base="pairs"),
)
AGAIN = (
    Plan("again-saturating-20", "saturating", 20, 8, 301), Plan("again-saturating-36", "saturating", 36, 12, 302),
    Plan("again-harm-20", "harm", 20, 8, 303), Plan("again-harm-28", "harm", 28, 10, 304),
    Plan("again-bands-20", "bands", 20, 8, 305, per_topic=4), Plan("again-bands-50", "bands", 50, 12, 306, per_topic=5),
    Plan("again-loglinear-1m", "loglinear", 17, 13, 307, ratio=0.5, data="1m", drawn=True),
    Plan("again-loglinear-60m", "loglinear", 17, 13, 308, ratio=0.25, data="60m", drawn=True),
    Plan("again-trees-1m", "trees", 17, 13, 309, ratio=1.0, data="1m", drawn=True), Plan("again-trees-60m", "trees", 17, 13, 310, ratio=0.5, data="60m", drawn=True),
    Plan("again-gp-1m", "gp", 17, 13, 311, ratio=1.0, data="1m", drawn=True), Plan("again-gp-60m", "gp", 17, 13, 312, ratio=0.5, data="60m", drawn=True),
    Plan("again-pairs-20", "pairs", 20, 8, 313), Plan("again-pairs-30", "pairs", 30, 12, 314),
    Plan("again-thresholds-18", "thresholds", 18, 8, 315), Plan("again-thresholds-26", "thresholds", 26, 10, 316),
    Plan("again-effective-16", "effective", 16, 8, 317), Plan("again-effective-40", "effective", 40, 12, 318),
    Plan("again-noise-saturating-28", "noise tasks", 28, 12, 319, base="saturating"), Plan("again-noise-effective-18", "noise tasks", 18, 10, 320, base="effective"),
    Plan("again-noise-pairs-22", "noise tasks", 22, 10, 321, base="pairs"),
    Plan("again-uneven-saturating-18", "uneven noise", 18, 8, 322, base="saturating"), Plan("again-uneven-effective-26", "uneven noise", 26, 10, 323, base="effective"),
)
PLANS = FIRST + AGAIN


def ours(plan: Plan) -> bool:
    """Whether the law is of the form that the package fits."""
    return (plan.base or plan.family) in ("saturating", "harm", "bands")


def named(name: str) -> World:
    """A world of the catalogue; `published.Missing` where what it is made from is not here."""
    return built(next(plan for plan in PLANS if plan.name == name))


def built(plan: Plan) -> World:
    rng = np.random.default_rng([plan.seed, 0])
    ratio = float(np.exp(rng.uniform(np.log(0.3), np.log(2.0)))) if plan.ratio is None else plan.ratio
    sizes = published.swarm(plan.data).sizes if plan.data else np.exp((2.0 if plan.family == "harm" else 1.2) * rng.standard_normal(plan.domains))
    tokens = np.maximum(np.round(TOTAL * sizes / sizes.sum()), 1.0)
    topics = np.arange(plan.domains) // plan.per_topic
    bands = np.arange(plan.domains) % plan.per_topic
    idle = plan.tasks // 2 if plan.family == "noise tasks" else 0
    law = _law(plan, rng, ratio * TOTAL / tokens, topics, bands, plan.tasks - idle)
    noise = SD / np.exp(rng.uniform(np.log(3.0), np.log(15.0), plan.tasks))
    if idle:
        law, noise[-idle:] = WithNoise(law, idle), SD
    importance = np.random.default_rng([plan.seed, 6]).dirichlet(np.ones(plan.tasks)) if plan.drawn else np.full(plan.tasks, (1 - plan.first) / plan.tasks)
    if plan.first:
        importance[published.swarm(plan.data).tasks.index("metric/the_pile_pile_cc_val_loss")] += plan.first
    return World(plan.name, plan.family, ours(plan), law, tokens, ratio * TOTAL, 300.0 if plan.family == "harm" else 8.0, topics, bands,
                 importance, rng.uniform(0.8, 3.5, plan.tasks), noise, 10.0 if plan.family == "uneven noise" else 0.0, plan.seed)


def _law(plan: Plan, rng: np.random.Generator, rate: np.ndarray, topics: np.ndarray, bands: np.ndarray, tasks: int) -> Law:
    if plan.data:
        return published.FITS[plan.family](plan.data)
    match plan.base or plan.family:
        case "saturating":
            return Saturating.drawn(rng, rate, tasks)
        case "harm":
            return Saturating.drawn(rng, rate, tasks, harm=0.05)
        case "bands":
            return Saturating.drawn(rng, rate, tasks, gain=banded_gain(rng, topics, bands, tasks))
        case "pairs":
            return Pairs.drawn(rng, plan.domains, tasks)
        case "thresholds":
            return Thresholds.drawn(rng, plan.domains, tasks)
        case "effective":
            return Effective.drawn(rng, rate, tasks)
        case other:
            raise ValueError(f"no law is named {other!r}; known: saturating, harm, bands, pairs, thresholds, effective, and those of the RegMix runs.")
