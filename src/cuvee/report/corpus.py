"""Sections on documents: where they went, what was quarantined and dropped, duplicates, evaluation items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cuvee.report import svg
from cuvee.report.facts import Drop, Eval, Example, Flow
from cuvee.report.markup import Html, join, missing, note, percent, section, show, size, table, tag
from cuvee.report.passages import beside, listed, shorten

INGEST, TOKENIZE = "ingest", "tokenize"


def funnel(flows: Sequence[Flow]) -> Html:
    """Documents and bytes of every source, step by step, and whether the counts add up."""
    if not flows:
        return section("funnel", "Documents, step by step", missing(INGEST))
    return section("funnel", "Documents, step by step", _checked(flows), _overview(flows), tag("h3", "Documents"), _documents(flows),
                   tag("h3", "Bytes of text kept after each step"), _bytes(flows))


def _checked(flows: Sequence[Flow]) -> Html:
    faults = [f"{flow.source}: {fault}" for flow in flows for fault in flow.faults]
    if not faults:
        return note("Counts add up: every step read what the step before kept, and each row read is kept or dropped for one reason.", kind="good")
    return note(f"Counts do not add up: {'; '.join(faults)}. A step may stem from an earlier state of the recipe: run the recipe again.", kind="bad")


def _overview(flows: Sequence[Flow]) -> Html:
    names = _steps(flows)
    totals = [sum(step.kept for flow in flows for step in flow.steps if step.step == name) for name in names]
    rows = sum(flow.steps[0].read for flow in flows)
    bars = [("raw rows", rows, show(rows))]
    bars += [(f"after {name}", kept, f"{show(kept)}  ({percent(kept, rows)})") for name, kept in zip(names, totals) if name != TOKENIZE]
    return svg.bars(bars, "Documents left after each step")


def _steps(flows: Sequence[Flow]) -> list[str]:
    return list(dict.fromkeys(step.step for flow in flows for step in flow.steps))


def _documents(flows: Sequence[Flow]) -> Html:
    """One row a source: raw rows, dropped by step and reason, kept; numbers of a row add up from left to right."""
    reasons = [(name, reason) for name in _steps(flows)
               for reason in sorted({reason for flow in flows for step in flow.steps if step.step == name for reason in step.dropped})]
    rows = [_row(flow, reasons) for flow in flows]
    with_tokens = any(flow.tokens is not None for flow in flows)
    total = ["all", *(sum(row[at] for row in rows) for at in range(1, len(reasons) + 3))]
    heads = ["source", "raw rows", *(join([name, " ", tag("span", reason)]) for name, reason in reasons), "kept"]
    body = [[*row, percent(row[-1], row[1]), *([flow.tokens] if with_tokens else []), _tick(flow)] for row, flow in zip(rows, flows)]
    tokens = [sum(flow.tokens or 0 for flow in flows)] if with_tokens else []
    foot = [*total, percent(total[-1], total[1]), *tokens, ""]
    share = len(heads)
    return table([*heads, "share", *(["tokens"] if with_tokens else []), "adds up"], body, foot, numbers=[share])


def _row(flow: Flow, reasons: Sequence[tuple[str, str]]) -> list:
    dropped = {(step.step, reason): count for step in flow.steps for reason, count in step.dropped.items()}
    return [flow.source, flow.steps[0].read, *(dropped.get(each, 0) for each in reasons), flow.steps[-1].kept]


def _tick(flow: Flow) -> Html:
    return tag("span", "no", class_="bad") if flow.faults else tag("span", "yes", class_="good")


def _bytes(flows: Sequence[Flow]) -> Html:
    names = _steps(flows)
    held = [{step.step: step.bytes for step in flow.steps} for flow in flows]
    rows = [[flow.source, *(size(each.get(name)) for name in names)] for flow, each in zip(flows, held)]
    sums = [_sum([each.get(name) for each in held]) for name in names]
    return table(["source", *names], rows, ["all", *map(size, sums)], numbers=range(1, len(names) + 1))


def _sum(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(values)


def quarantine(flows: Sequence[Flow]) -> Html:
    """Raw rows that could not be read, by reason and source."""
    counts = {flow.source: {reason: count for reason, count in flow.steps[0].dropped.items() if reason != "not_sampled"} for flow in flows}
    reasons = sorted({reason for each in counts.values() for reason in each})
    if not reasons:
        return section("quarantine", "Quarantine", note("No raw row was quarantined.") if flows else missing(INGEST))
    rows = [[source, *(each.get(reason, 0) for reason in reasons), sum(each.values())] for source, each in counts.items()]
    total = ["all", *(sum(row[at] for row in rows) for at in range(1, len(reasons) + 2))]
    return section("quarantine", "Quarantine", note("Each fault stands with file, row and detail in ", tag("code", "*.quarantine.jsonl"),
                   " beside its documents shard."), table(["source", *reasons, "all"], rows, total))


def licenses(found: Sequence[tuple[str, int]], deduplicated: bool) -> Html:
    """Licences of what is left. found: (licences of a document over its copies, documents)"""
    whose = "Of kept documents; a document bears the licences of all its copies." if deduplicated else "Of documents as read: dedup is not done yet."
    total = sum(count for _, count in found)
    rows = [[name, count, percent(count, total)] for name, count in found]
    return section("licences", "Licences", note(whose), table(["licence", "documents", "share"], rows, ["all", total, ""], numbers=[2]))


def drops(found: Sequence[Drop] | None, shards: tuple[int, int]) -> Html:
    """Why the filter dropped documents, with what was measured."""
    title = "Dropped by the filter"
    if found is None:
        return section("filter", title, missing("filter"))
    if not found:
        return section("filter", title, note("The filter dropped nothing."))
    rows = [[each.reason, each.documents, each.threshold, *(each.values or (None,) * 3)] for each in found]
    texts = [part for each in found if each.examples for part in (tag("h3", each.reason), listed(each.examples))]
    return section("filter", title, table(["reason", "documents", "threshold", "lowest value", "middle", "highest"], rows, numbers=range(2, 6)),
                   _looked(shards), *texts)


def duplicates(found: Sequence[Example] | None, copied: Sequence[Example], flows: Sequence[Flow], shards: tuple[int, int]) -> Html:
    """What dedup removed, next to what stays instead."""
    if found is None:
        return section("duplicates", "Duplicates", missing("dedup"))
    kinds: Counter[str] = Counter()
    for flow in flows:
        kinds.update(next((step.dropped for step in flow.steps if step.step == "dedup"), {}))
    counts = table(["kind", "documents removed"], sorted(kinds.items()))
    most = [tag("h3", "Texts with most copies"), listed(copied)] if copied else []
    shown = [tag("h3", "Removed next to kept"), note("From the first difference on; marked is what the other text lacks."),
             *map(beside, found)] if found else [note("Nothing was removed in the shards looked at.")]
    return section("duplicates", "Duplicates", counts, _looked(shards), *shown, *most)


def evals(found: Sequence[Eval] | None, aside: Sequence[Mapping], examples: Sequence[Example], shards: tuple[int, int]) -> Html:
    """Evaluations: what could be looked for, what was found, and the places."""
    if found is None:
        return section("evals", "Evaluations in documents", missing("decontaminate"))
    if not found:
        return section("evals", "Evaluations in documents", note("The recipe names no evaluation: nothing was looked for.", kind="bad"))
    rows = [[each.name, each.items, each.checkable, each.items - each.checkable, each.found, each.matches] for each in found]
    heads = ["evaluation", "items", "checkable", "too short", "items found", "matches"]
    return section("evals", "Evaluations in documents", note("A match is a document that holds some of an item."), table(heads, rows), *_aside(aside), _looked(shards), *map(beside, examples))


def _aside(rows: Sequence[Mapping]) -> list[Html]:
    if not rows:
        return [note("No text was set aside as boilerplate.")]
    cells = [[shorten(row["text"]), row["documents"], row["sources"], ", ".join(row["items"][:5])] for row in rows]
    return [tag("h3", "Set aside as boilerplate"), table(["text", "documents", "sources", "items"], cells)]


def _looked(shards: tuple[int, int]) -> Html:
    return note(f"Values and examples are from {shards[0]:,} of {shards[1]:,} shards; texts are shown as stored, shortened.")
