"""Which tasks of the swarm count, and how much: those whose signal stands out of the noise of repeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvee.errors import DataError
from cuvee.kernels.runs import repeat_noise, repeats

HELDOUT = "heldout/"  # a held-out task is named by this and its domain
SHOWN = 10            # tasks that a note lists

Found = Mapping[str, Mapping[str, Any]]  # task -> kind, fit, swarm_sd, noise_sd, snr, missing


def signal(weights: np.ndarray, scores: np.ndarray) -> dict[str, float | None]:
    """SD over the swarm, pooled SD of repeats, and their ratio; None is not known. (runs, domains), (runs,)"""
    if len(scores) == 0:
        return {"swarm_sd": None, "noise_sd": None, "snr": None}
    groups, spread = repeats(weights), float(scores.std())
    noise = repeat_noise(scores, groups) if len(np.unique(groups)) < len(groups) else None
    return {"swarm_sd": spread, "noise_sd": noise, "snr": spread / noise if noise else None}


def importance(found: Found, chosen: Mapping[str, float], min_snr: float, tokens: Mapping[str, int]) -> tuple[dict[str, float], list[str]]:
    """Weights of the tasks that count, of sum 1, and what must be said of them.

    The chosen tasks, else every evaluation alike, as far as they pass the gate. Where none does: held-out domains that
    pass, by natural share; then all held-out domains; last, the wanted tasks without a gate.
    """
    usable = {name for name, each in found.items() if each["fit"] is not None and each["swarm_sd"] > 0}
    passing = {name for name in usable if found[name]["snr"] is None or found[name]["snr"] >= min_snr}
    wanted = chosen or {name: 1.0 for name, each in found.items() if each["kind"] == "eval"}
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
            return {name: weight / total for name, weight in kept.items()}, [*_silent(found, passing, min_snr), *([said] if said else [])]
    raise DataError("the swarm has no task with scores that differ, of enough runs. See `failed` in its runs.json; raise swarm.runs or add evals.")


def _silent(found: Found, passing: set[str], min_snr: float) -> list[str]:
    """What is said of tasks under the gate, and of tasks whose noise is not known."""
    under = [f"{name} {_shown(each['snr'])}" for name, each in found.items() if name not in passing]
    unknown = [name for name in found if name in passing and found[name]["noise_sd"] is None]
    said = [f"{len(under)} of {len(found)} tasks have a signal to noise under {min_snr:g} and get weight 0: {listed(under)}"] if under else []
    return said + ([f"no repeated runs show the noise of {len(unknown)} tasks, which pass unseen: {listed(unknown)}"] if unknown else [])


def _shown(snr: float | None) -> str:
    return "(unknown)" if snr is None else f"({snr:.2f})"


def listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
