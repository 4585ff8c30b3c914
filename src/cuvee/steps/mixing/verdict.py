"""What runs of several sizes say of a proposal: paired differences, optimism of the prediction, one verdict.

The largest size of which two pairs finished decides: ship where the proposal is better by more than chance, hold where
it is worse, else no difference. It is hold, whatever that size says, where

* the proposal is better by more than chance at one size and worse at another, the proxy's own among them,
* a protected task rises by more than it may, beyond chance, at any larger size, or
* the prediction was too good (`optimism`), and not every larger size shows a gain of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95  # of an interval, both sides; of a protected task's rise, one side
PAIRS = 2          # fewer say nothing
TOO_GOOD = 2.0     # standard errors that a measured difference may lie over the predicted one
SHOWN = 5          # tasks that a sentence lists

Gap = Mapping[str, float]  # pairs, difference, se, low, high
Size = Mapping[str, Any]   # one of `sizes` of validate.json


def paired(base: np.ndarray, other: np.ndarray) -> dict[str, float] | None:
    """other - base over the pairs that both have, with Student's interval; None for under two. (seeds,) x 2, NaN where a run failed"""
    gaps = (other - base)[np.isfinite(other - base)]
    count = len(gaps)
    if count < PAIRS:
        return None
    middle, error = float(gaps.mean()), float(gaps.std(ddof=1) / math.sqrt(count))
    reach = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    return {"pairs": count, "difference": middle, "se": error, "low": middle - reach, "high": middle + reach}


def word(gap: Gap) -> str:
    return "better" if gap["high"] < 0 else "worse" if gap["low"] > 0 else "no difference"


def passes(gap: Gap | None, allowed: float | None) -> bool:
    """Whether a task rises by more than is allowed, beyond chance on that side; one without a limit never does."""
    return gap is not None and allowed is not None and gap["difference"] - float(stdtrit(gap["pairs"] - 1, CONFIDENCE)) * gap["se"] > allowed


def prediction(mixture: Mapping[str, Any], fit: Mapping[str, Any], weights: Mapping[str, float]) -> tuple[float, float] | None:
    """Predicted difference of the weighted mean, proposal less proportional, with its SE; None where a task has no prediction.

    A task's error is its SD without the noise of a run. What of it the tasks share shows out of fold: the error of the
    mean as a share of what it would be if all tasks erred together.
    """
    tasks, noise = {each["name"]: each for each in mixture["tasks"]}, {each["name"]: each.get("noise_sd") or 0.0 for each in fit["tasks"]}
    used = {name: weight for name, weight in weights.items() if weight > 0}
    if not used.keys() <= tasks.keys():
        return None
    expected = sum(weight * (tasks[name]["predicted"] - tasks[name]["proportional"]) for name, weight in used.items())
    errors = {name: math.sqrt(max(tasks[name]["sd"] ** 2 - noise[name] ** 2, 0.0)) for name in used}
    return expected, together(fit["runs"], used) * sum(weight * errors[name] for name, weight in used.items())


def together(runs: Sequence[Mapping[str, Any]], weights: Mapping[str, float]) -> float:
    """RMS of the mean's error out of fold, over the mean of the tasks' RMS errors: 1 where all err alike, or nothing is known."""
    residuals = [[run["predicted"][name] - run["measured"][name] for name in weights] for run in runs
                 if weights.keys() <= run["predicted"].keys() & run["measured"].keys()]
    if not residuals:
        return 1.0
    found, shares = np.array(residuals), np.array(list(weights.values()))
    most = float(np.sqrt((found ** 2).mean(axis=0)) @ shares)
    return float(np.sqrt(((found @ shares) ** 2).mean())) / most if most > 0 else 1.0


def optimism(expected: tuple[float, float] | None, measured: Gap | None) -> dict[str, Any] | None:
    """Measured less predicted difference at the proxy's size; `fires` where it lies over two standard errors of both."""
    if expected is None or measured is None:
        return None
    predicted, error = expected
    whole = math.hypot(error, measured["se"])
    over = measured["difference"] - predicted
    return {"predicted": predicted, "predicted_se": error, "measured": measured["difference"], "measured_se": measured["se"],
            "optimism": over, "se": whole, "fires": bool(over > TOO_GOOD * whole)}


def judge(sizes: Sequence[Size], optimism: Mapping[str, Any] | None) -> tuple[str, list[str]]:
    """The verdict, and why in sentences, what weighs most first. sizes: smallest first"""
    seen = [(size, word(size["proposal"])) for size in sizes if size["proposal"] is not None]
    larger = [(size, found) for size, found in seen if size["larger"]]
    if not larger:
        return "hold", ["No larger size has two pairs of finished runs, so nothing shows what the proposal does there."]
    decides, found = larger[-1]
    against = [*_contradiction(seen), *_regressions(larger), *_too_good(optimism, larger, found)]
    verdict = {"better": "ship", "worse": "hold"}.get(found, "no difference")
    return "hold" if against else verdict, [*against, _deciding(decides, found)]


def _deciding(size: Size, found: str) -> str:
    said = {"better": "The proposal is better than proportional", "worse": "The proposal is worse than proportional"}
    return f"{said.get(found, 'Proposal and proportional cannot be told apart')} at {name(size)}: {shown(size['proposal'])}."


def _contradiction(seen: Sequence[tuple[Size, str]]) -> list[str]:
    better, worse = ([name(size) for size, found in seen if found == each] for each in ("better", "worse"))
    return [f"The sizes contradict each other: better at {', '.join(better)}, worse at {', '.join(worse)}."] if better and worse else []


def _regressions(larger: Sequence[tuple[Size, str]]) -> list[str]:
    return [f"Protected task {task['name']} rises at {name(size)} by {task['proposal']['difference']:+.4f} (SE {task['proposal']['se']:.4f}), "
            f"beyond chance more than the {task['protected']:g} that it may."
            for size, _ in larger for task in size["tasks"] if task["regressed"]]


def _too_good(optimism: Mapping[str, Any] | None, larger: Sequence[tuple[Size, str]], found: str) -> list[str]:
    """Why a gain is not shipped whose prediction did not hold where it was made."""
    lacking = [name(size) for size, each in larger if each != "better"]
    if not (optimism and optimism["fires"] and found == "better" and lacking):
        return []
    return [f"The prediction was too good at the proxy's size, and no gain of its own shows at {', '.join(lacking)}."]


def remarks(sizes: Sequence[Size], optimism: Mapping[str, Any] | None) -> list[str]:
    """What else is to be known, whatever the verdict."""
    decides = next((size for size in reversed(sizes) if size["larger"] and size["proposal"] is not None), None)
    return [*_foreseen(optimism), *([] if decides is None else [*_worse_tasks(decides), *_unimax(decides)]),
            *[f"{len(size['failed'])} runs failed at {name(size)}, the first: {size['failed'][0]['reason']}" for size in sizes if size["failed"]]]


def _foreseen(optimism: Mapping[str, Any] | None) -> list[str]:
    if optimism is None:
        return ["Optimism is not known: the prediction, or the pairs at the proxy's size, are missing."]
    kept = "more than two standard errors worse than predicted" if optimism["fires"] else "within two standard errors, or better"
    return [f"At the proxy's size {optimism['predicted']:+.4f} (SE {optimism['predicted_se']:.4f}) was predicted and {optimism['measured']:+.4f} "
            f"(SE {optimism['measured_se']:.4f}) measured: optimism {optimism['optimism']:+.4f}, {kept}."]


def _worse_tasks(size: Size) -> list[str]:
    worse = [task["name"] for task in size["tasks"] if task["proposal"] is not None and task["proposal"]["difference"] > 2 * task["proposal"]["se"] > 0]
    more = f" and {len(worse) - SHOWN} more" if len(worse) > SHOWN else ""
    return [f"Worse by over two standard errors at {name(size)}: {', '.join(worse[:SHOWN])}{more}."] if worse else []


def _unimax(size: Size) -> list[str]:
    gap = size["over_unimax"]
    said = {"worse": "UniMax, which needs no swarm, is better than the proposal", "no difference": "UniMax, which needs no swarm, cannot be told from the proposal"}
    return [] if gap is None or word(gap) == "better" else [f"{said[word(gap)]} at {name(size)}: {shown(gap)}."]


def name(size: Size) -> str:
    """A size in words."""
    return f"depth {size['depth']} ({size['tokens']:,} tokens)" if size["larger"] else f"the proxy's size ({size['tokens']:,} tokens)"


def shown(gap: Gap) -> str:
    return (f"{gap['difference']:+.4f} bits per byte, {CONFIDENCE:.0%} interval {gap['low']:+.4f} to {gap['high']:+.4f}, "
            f"{gap['pairs']} paired seeds")
