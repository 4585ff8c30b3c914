"""The mixture's frontier: what stays of the predicted gain as the mixture is pulled towards the natural shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cuvee.report import svg
from cuvee.report.markup import Html, missing, note, section, show, table

Json = Mapping[str, Any]
NAMED = 6  # domains at their cap that a row names


def frontier(found: Json | None) -> Html:
    """found: mixture.json"""
    if found is None:
        return section("frontier", "Frontier", missing("mix"))
    points = found["frontier"]
    chosen = next(point for point in points if point["chosen"])
    line = [(point["divergence"], point["predicted"]) for point in points]
    marks = [("proposal", [(chosen["divergence"], chosen["predicted"])]),
             *((name, [(_divergence(each["weights"], found["domains"]), each["mean"]["predicted"])]) for name, each in sorted(found["baselines"].items()))]
    drawn = svg.lines([("frontier", sorted(line))], marks, "divergence from natural, nats", "predicted mean, SDs of the swarm",
                      "Predicted mean score of the best mixtures by their divergence from the natural one, and of the baselines")
    rows = [["→" if point["chosen"] else "", point["kl"], point["predicted"], point["sd"], point["divergence"], point["max_epochs"], _named(point["capped"])]
            for point in points]
    said = ("The best mixture at each strength of the pull towards the natural shares (mix.kl); less is better. "
            "Where the line is flat, a stronger pull costs nothing that the swarm can see. Baselines need not keep the caps.")
    return section("frontier", "Frontier", note(said), *_optimism(found), drawn,
                   table(["", "kl", "predicted", "SD", "divergence", "most epochs", "domains at their cap"], rows, numbers=range(1, 6)))


def _divergence(weights: Mapping[str, float], domains: Any) -> float:
    """KL of a baseline to the natural shares, nats."""
    natural = {each["name"]: each["natural"] for each in domains}
    return sum(weight * math.log(weight / natural[name]) for name, weight in weights.items() if weight > 0)


def _optimism(found: Json) -> list[Html]:
    """What a best of predictions is better than it will be, where mix has worked it out."""
    value = found.get("optimism")
    if value is None:
        return []
    return [note(f"Optimism: part of the best of many predictions is luck. Of the predicted {show(found['mean']['predicted'])}, {show(value)} SDs of "
                 "the swarm are expected to be lost when the proposal is measured.")]


def _named(names: Any) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
