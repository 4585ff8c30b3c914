"""Part of the section on the fit: domains that the swarm does not tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuvee.report.markup import Html, note, percent, show, table, tag


def blurred(found: Mapping[str, Any] | None) -> list[Html]:
    """found: `identified` of fit.json, None where the model does not say"""
    if found is None:
        return []
    rows = [[", ".join(group["domains"]), percent(group["told"]), show(group["error"])] for group in found["blurred"]]
    silent = [note(f"Of these the runs say next to nothing: {', '.join(found['silent'])}.", kind="bad")] if found["silent"] else []
    said = ("What the runs, and not the fit's own ridge, say of the difference between two domains of a group is the share told; the error is the SD "
            "of what moving one point of weight from one to the other gains, in SDs of the swarm, at most.") if rows else (
            "" if silent else "The runs tell all domains apart.")
    return [tag("h3", "Domains that the swarm does not tell apart"), *([note(said)] if said else []),
            *([table(["domains", "told", "error"], rows, numbers=(1, 2))] if rows else []), *silent]
