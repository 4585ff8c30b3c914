"""Sections on the run itself: recipe, seed, steps with their fingerprints, times and versions."""

from __future__ import annotations

from collections.abc import Sequence

from cuvee.report.facts import Done, Facts
from cuvee.report.markup import NONE, Html, join, note, seconds, section, table, tag

FINGERPRINTS = 4  # listed of one step; a step has one a source


def header(facts: Facts) -> Html:
    documents = sum(flow.steps[0].kept for flow in facts.flows)
    kept = sum(flow.steps[-1].kept for flow in facts.flows)
    said = f"{len(facts.flows):,} sources, {documents:,} documents, {kept:,} kept so far." if facts.flows else "Nothing is done yet."
    return tag("header", tag("h1", "Cuvee run"), note(tag("code", facts.work), f" · seed {facts.seed} · Cuvee {facts.version}"), note(said),
               *(note(f"A step stems from an earlier state of the recipe: {each}", kind="bad") for each in facts.stale))


def steps(done: Sequence[Done]) -> Html:
    """Which steps are done, from what, in how long."""
    rows = [[each.step, each.tasks, NONE if each.seconds is None else seconds(each.seconds), _fingerprints(each.fingerprints),
             ", ".join(f"{name} {version}" for name, version in sorted(each.uses.items()))] for each in done]
    total = ["all", sum(each.tasks for each in done), seconds(sum(each.seconds or 0 for each in done)), "", ""]
    return section("steps", "Steps", note("Times are of the last call that had work to do; what was done before is not in them."),
                   table(["step", "tasks", "time", "fingerprints", "versions that shape the bytes"], rows, total, numbers=[2]))


def _fingerprints(prints: Sequence[str]) -> Html:
    more = [f" and {len(prints) - FINGERPRINTS:,} more"] if len(prints) > FINGERPRINTS else []
    return join([part for each in prints[:FINGERPRINTS] for part in (tag("code", each), " ")] + more)


def recipe(text: str) -> Html:
    return section("recipe", "Recipe", note("What differs from the defaults."), tag("pre", text))
