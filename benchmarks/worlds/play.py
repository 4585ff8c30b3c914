"""One game of the arena: a procedure asks a world for runs, answers with a mixture, and the truth judges it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from cuvee.kernels.procedures.base import Answer, Procedure, Seen, Setting
from cuvee.kernels.simplex import project_kl
from worlds.optimum import Optimum
from worlds.world import SD, World

NINETY = 1.645   # SDs on either side of 90 %
FRESH = 200      # mixtures on which intervals are held against new runs
_TOLERANCE = 1e-6  # of caps and sums


def setting(world: World, runs: int) -> Setting:
    """What a procedure is told of the world: not its law, nor which tasks are noise."""
    return Setting(world.tokens, world.budget, world.max_epochs, world.importance, world.topics, world.bands, runs)


def played(world: World, best: Optimum, procedure: Procedure, runs: int, seed: int) -> dict[str, Any]:
    """A line of the results: regret, what was predicted, how honest the intervals were."""
    told, rng, luck = setting(world, runs), np.random.default_rng([world.seed, 3, seed]), np.random.default_rng([world.seed, 4, seed])
    start = time.perf_counter()
    seen = Seen.nothing(len(world.tokens), len(world.importance))
    while len(asked := procedure.ask(told, seen, rng)):
        check_mixtures(asked, procedure.name)
        seen = seen.joined(asked, world.observe(asked, luck))
    if len(seen.weights) > runs:
        raise ValueError(f"{procedure.name} asked for {len(seen.weights)} runs of {runs}")
    answer = procedure.answer(told, seen, rng)
    seconds = time.perf_counter() - start
    weights = within_caps(answer.weights, world, procedure.name)
    found = float(world.objective(weights[None])[0])
    return {"regret": best.regret(found), "trained": len(seen.weights), "rounds": seen.asked, "seconds": round(seconds, 2),
            "truth": found, **predicted(world, answer, weights), **covered(world, answer, seed), "weights": [round(each, 6) for each in weights.tolist()]}


def check_mixtures(weights: np.ndarray, who: str) -> None:
    off = np.abs(weights.sum(axis=1) - 1)
    if not (np.isfinite(weights).all() and (weights >= -_TOLERANCE).all() and (off < _TOLERANCE).all()):
        raise ValueError(f"{who}: weights must be >= 0 and sum to 1; got least {weights.min():.3g}, sum off by {off.max():.3g}")


def within_caps(weights: np.ndarray, world: World, who: str) -> np.ndarray:
    """The answer, exactly under the caps; one that passes them is an error, or it would be judged on more data than there is."""
    check_mixtures(weights[None], who)
    over = float((weights - world.caps).max())
    if over > 1e-4:
        raise ValueError(f"{who} on {world.name}: the answer passes the epoch caps by {over:.3g}")
    return project_kl(np.maximum(weights, 0.0), world.caps)


def predicted(world: World, answer: Answer, weights: np.ndarray) -> dict[str, Any]:
    """Predicted objective and its SD: tasks erring `together`, as mix counts it, or `apart`; tasks within 2 SDs of the truth."""
    if answer.predicted is None:
        return {}
    facts = {"predicted": float((answer.predicted - world.level) @ world.importance / SD)}
    if answer.sd is not None:
        near = np.abs(answer.predicted - world.truth(weights[None])[0]) <= 2 * answer.sd
        facts |= {"together": float(answer.sd @ world.importance / SD), "apart": float(np.sqrt(((answer.sd * world.importance) ** 2).sum()) / SD),
                  "near": float(near.mean())}
    return facts


def covered(world: World, answer: Answer, seed: int) -> dict[str, Any]:
    """Share of fresh runs' scores within the 90 % intervals of the surrogate, and its rank correlation on the objective."""
    if answer.surrogate is None:
        return {}
    rng = np.random.default_rng([world.seed, 5, seed])
    weights = world.drawn(FRESH, rng)
    miss = np.abs(answer.surrogate.predict(weights) - world.observe(weights, rng))
    return {"covered": float((miss <= NINETY * answer.surrogate.deviation(weights)).mean())}
