"""Which tasks of the swarm count, and how much: targets whose signal stands out of the noise of repeats and lasts.

Three kinds of tasks are kept apart: targets, which may count; protected ones, whose score may not rise; and those that
are only reported, so that something is left that nobody optimised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvee.config import Fit, Recipe
from cuvee.errors import DataError
from cuvee.kernels import noise, scale
from cuvee.kernels.runs import repeats

HELDOUT = "heldout/"  # a held-out task is named by this and its domain
TARGET = "target"
SHOWN = 10            # tasks that a note lists
CHANCE = 0.05         # of a note on noise that differs between mixtures, over all tasks together

Found = Mapping[str, Mapping[str, Any]]  # task -> kind, fit, what `signal` says; role where it is not a target


def signal(weights: np.ndarray, scores: np.ndarray, half: np.ndarray | None = None) -> dict[str, float | int | None]:
    """What a task's scores are worth; None is not known. weights: (runs, domains); scores, half: (runs,)

    swarm_sd: SD over the swarm · noise_sd, freedom: pooled SD of repeats, its degrees of freedom · snr: their ratio ·
    resolves: smallest difference between two runs that is no chance (95 %) · noise_ratio, noise_p: SD of the other
    repeated mixtures over that of the most repeated one, and its chance · predictability: rank correlation of `half`
    """
    groups = repeats(weights) if len(weights) else np.zeros(0, np.int64)
    spread = scale.spread(scores) if len(scores) else None
    found = noise.noise(scores, groups)
    lasting = None if half is None else noise.predictability(half, scores, groups)
    if found is None:
        return {"swarm_sd": spread, "noise_sd": None, "freedom": 0, "snr": None, "resolves": None, "noise_ratio": None, "noise_p": None,
                "predictability": lasting}
    return {"swarm_sd": spread, "noise_sd": found.sd, "freedom": found.freedom, "snr": spread / found.sd if found.sd else None,
            "resolves": noise.resolvable(found.sd, found.freedom), "noise_ratio": found.ratio, "noise_p": found.p, "predictability": lasting}


def roles(recipe: Recipe) -> dict[str, str]:
    """Role of every task that is no target."""
    return {each.name: each.role for each in recipe.evals if each.role != TARGET}


def importance(found: Found, chosen: Mapping[str, float], min_snr: float, tokens: Mapping[str, int],
               min_predictability: float = Fit().min_predictability) -> tuple[dict[str, float], list[str]]:
    """Weights of the tasks that count, of sum 1, and what must be said of them.

    The chosen tasks, else every evaluation that is a target alike, as far as they pass the gate. Where none does:
    held-out domains that pass, by natural share; then all held-out domains; last, the wanted tasks without a gate.
    """
    shut = {name: _shut(each, min_snr, min_predictability) for name, each in found.items()}
    usable = {name for name, why in shut.items() if why not in ("too_few_runs", "no_spread")}
    passing = {name for name, why in shut.items() if why is None}
    wanted = chosen or {name: 1.0 for name, each in found.items() if each["kind"] == "eval" and _role(each) == TARGET}
    held = {name: float(tokens[name.removeprefix(HELDOUT)]) for name, each in found.items() if each["kind"] == "heldout"}
    only = "the mixture is fitted to the held-out domains by natural share"
    more = "Train proxies on more tokens (budget.proxy), or more of them (swarm.runs)."
    ladder = [(wanted, passing, ""), (held, passing, f"no task that was asked for stands out of the noise, so {only}. {more}" if wanted else ""),
              (held, usable, f"no task at all stands out of the noise; {only} all the same. {more}"),
              (wanted, usable, f"no task at all stands out of the noise; they are used all the same. {more}")]
    for weights, allowed, said in ladder:
        kept = {name: weights[name] for name in found if name in allowed and weights.get(name, 0) > 0}
        if kept:
            total = sum(kept.values())
            notes = [*_silent(found, shut, min_snr, min_predictability), *_unknown(found, passing), *_uneven(found)]
            return {name: weight / total for name, weight in kept.items()}, [*notes, *([said] if said else [])]
    raise DataError("the swarm has no task with scores that differ, of enough runs. See `failed` in its runs.json; raise swarm.runs or add evals.")


def why_zero(found: Found, weights: Mapping[str, float], min_snr: float, min_predictability: float) -> dict[str, str | None]:
    """Why a task has weight 0, as a fact; None where it counts."""
    return {name: None if weights.get(name) else _shut(each, min_snr, min_predictability) or (_role(each) if _role(each) != TARGET else "not_asked_for")
            for name, each in found.items()}


def _shut(each: Mapping[str, Any], min_snr: float, min_predictability: float) -> str | None:
    """What shuts the gate for a task."""
    if each["fit"] is None:
        return "too_few_runs"
    if not each["swarm_sd"]:
        return "no_spread"
    if each["snr"] is not None and each["snr"] < min_snr:
        return "low_signal"
    lasting = each.get("predictability")
    return "unpredictable" if lasting is not None and lasting < min_predictability else None


def _role(each: Mapping[str, Any]) -> str:
    return each.get("role", TARGET)


def _silent(found: Found, shut: Mapping[str, str | None], min_snr: float, min_predictability: float) -> list[str]:
    """What is said of tasks that the gate shuts out, a line for each reason."""
    reasons = {"too_few_runs": ("have scores of too few runs", ""), "no_spread": ("have one score in all runs", ""),
               "low_signal": (f"have a signal to noise under {min_snr:g}", "snr"),
               "unpredictable": ("rank mixtures otherwise at half of the tokens than at the end (rank correlation under "
                                 f"{min_predictability:g})", "predictability")}
    said = []
    for reason, (sentence, figure) in reasons.items():
        names = [f"{name} ({found[name][figure]:.2f})" if figure else name for name, why in shut.items() if why == reason]
        said += [f"{len(names)} of {len(found)} tasks {sentence} and get weight 0: {listed(names)}"] if names else []
    return said


def _unknown(found: Found, passing: set[str]) -> list[str]:
    unknown = [name for name in found if name in passing and found[name]["noise_sd"] is None]
    return [f"no repeated runs show the noise of {len(unknown)} tasks, which pass unseen: {listed(unknown)}"] if unknown else []


def _uneven(found: Found) -> list[str]:
    """Tasks whose noise differs between mixtures by more than chance, Bonferroni over all tasks."""
    tested = {name: each["noise_p"] for name, each in found.items() if each.get("noise_p") is not None}
    uneven = [f"{name} (x {found[name]['noise_ratio']:.2g})" for name, p in tested.items() if p * len(tested) < CHANCE]
    return [f"noise is not the same everywhere: {len(uneven)} tasks have another SD over the other repeated mixtures than over the most repeated "
            f"one, and one SD between the two is used: {listed(uneven)}"] if uneven else []


def listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
