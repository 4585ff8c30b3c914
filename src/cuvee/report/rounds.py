"""Section on the rounds of the swarm: what led to each, and why the search ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuvee.report.markup import Html, note, section, table

WHAT = {"best": "best mixture tried, predicted", "goal": "best mixture, predicted", "expected_improvement": "expected improvement",
        "noise": "noise of a run", "missed": "missed by the fits", "radius": "trust region"}  # facts of a round, as columns


def rounds(found: Mapping[str, Any] | None) -> Html:
    """found: rounds.json; nothing without it, since the swarm's section says what is missing."""
    if found is None:
        return Html("")
    each = found["rounds"]
    total = sum(one["runs"] for one in each)
    ended = f"No round {each[-1]['round']}: {each[-1]['why']}." if each[-1]["why"] else "All rounds were trained."
    parts = [note(f"Procedure {found['procedure']}: {total:,} runs. {ended}")]
    known = [name for name in WHAT if any(name in one for one in each)]
    if known:
        parts.append(note("The weighted mean score is in SDs of the swarm so far, with the pull towards natural shares; lower is better. A round is trained "
                          "where runs are expected to improve on the best mixture tried by swarm.stop times the noise of a run. The trust region is a distance "
                          "between square roots of weights."))
    rows = [[one["round"], one["runs"], *(one.get(name) for name in known)] for one in each]
    return section("rounds", "Rounds", *parts, table(["round", "runs", *(WHAT[name] for name in known)], rows, numbers=range(2 + len(known))))
