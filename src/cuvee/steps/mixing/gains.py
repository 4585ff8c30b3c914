"""What differences at several sizes are worth in compute, by the curve of proportional through them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvee.kernels import scaling
from cuvee.steps.mixing import verdict

DRAWS = 400  # curves that might have been; they give the interval of a gain

Gains = dict[str, dict[str, Any]]  # mixture -> factor, low, high, beyond


def scale(sizes: Sequence[verdict.Size], scores: Sequence[np.ndarray], seed: int) -> tuple[dict[str, Any], list[Gains]]:
    """The curve, and of every size the times the compute that proportional would need; without a curve no gains.

    sizes: smallest first; scores: (runs,) of proportional's weighted mean, of each size
    """
    usable = [(size["flops"], each) for size, each in zip(sizes, scores) if len(each) >= verdict.PAIRS]
    if len(usable) < scaling.LEAST_SIZES:
        return _without(f"it takes {scaling.LEAST_SIZES} sizes with two finished runs of proportional, and there are {len(usable)}", sizes)
    compute, losses = zip(*usable)
    points = scaling.Points(np.array(compute), np.array([each.mean() for each in losses]), scaling.pooled_error(losses))
    chosen = scaling.choose(points)
    if chosen is None:
        return _without("more compute does not lower its loss", sizes)
    curve, floored = chosen
    rng = np.random.default_rng(seed)
    drawn = scaling.redrawn(points, floored, DRAWS, rng)
    gains = [{name: _gain(curve, drawn, size["flops"], size[name], max(compute), rng) for name in ("proposal", "unimax") if size[name]} for size in sizes]
    return _described(curve, floored, points) | {"said": _said(curve, floored, sizes[-1], gains[-1])}, gains


def _without(why: str, sizes: Sequence[verdict.Size]) -> tuple[dict[str, Any], list[Gains]]:
    return {"form": None, "points": [], "said": f"No compute-equivalent gain: {why}."}, [{} for _ in sizes]


def _described(curve: scaling.Curve, floored: bool, points: scaling.Points) -> dict[str, Any]:
    columns = zip(*(each.tolist() for each in points))
    return {"form": _form(floored), **curve._asdict(), "misfit": scaling.misfit(curve, points),
            "points": [{"flops": at, "loss": loss, "se": error, "fitted": curve.loss(at)} for at, loss, error in columns]}


def _form(floored: bool) -> str:
    return "E + A C^-alpha" if floored else "A C^-alpha"


def _gain(curve: scaling.Curve, drawn: list[scaling.Curve], flops: float, gap: verdict.Gap, most: float, rng: np.random.Generator) -> dict[str, Any]:
    """Times the compute, None where no compute reaches it; beyond: over the largest size that was trained."""
    factor = curve.gain(flops, gap["difference"])
    low, high = scaling.gain_interval(drawn, flops, gap["difference"], gap["se"], gap["pairs"] - 1, rng)
    factor, low, high = (value if math.isfinite(value) else None for value in (factor, low, high))
    return {"factor": factor, "low": low, "high": high, "beyond": factor is None or factor * flops > most}


def _said(curve: scaling.Curve, floored: bool, size: verdict.Size, gains: Mapping[str, Mapping[str, Any]]) -> str:
    """The curve in words, and what the proposal is worth at the largest size."""
    floor = f" and E {curve.floor:.3f}" if floored else "; its sizes do not carry a floor E"
    shape = f"Proportional's loss follows {_form(floored)} with alpha {curve.exponent:.3f}{floor}"
    gain = gains.get("proposal")
    if gain is None:
        return f"{shape}."
    low, high = ("no limit" if value is None else f"{value:.2f}" for value in (gain["low"], gain["high"]))
    needs = "no compute would bring proportional to the proposal" if gain["factor"] is None else (
        f"proportional would need {gain['factor']:.2f} times the compute to reach the proposal")
    far = ", which lies beyond the sizes trained and is extrapolated" if gain["beyond"] else ""
    return f"{shape}. At {verdict.name(size)} {needs} (90 % interval {low} to {high}){far}."
