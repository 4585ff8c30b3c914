"""Sections on domains: topics, quality bands, and the table of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuvee.report import svg
from cuvee.report.markup import Html, missing, note, percent, section, show, size, table, tag
from cuvee.report.passages import listed

EXAMPLES = 3  # texts a topic; a band shows one
SOURCES = 4   # largest sources named of a topic


def topics(found: Mapping[str, Any] | None) -> Html:
    """found: topics.json"""
    if found is None:
        return section("topics", "Topics", missing("topics"))
    every = found["topics"]
    total = sum(each["bytes"] for each in every)
    rows = [[f"t{each['topic']:02d}", each["name"], each["documents"], size(each["bytes"]), percent(each["bytes"], total),
             svg.share(each["bytes"] / max(total, 1)), _most(each["sources"])] for each in every]
    sums = ["all", "", sum(each["documents"] for each in every), size(total), "", "", ""]
    heads = ["topic", "name", "documents", "bytes", "share", "", "sources, share of bytes"]
    texts = [part for each in every for part in _topic(each)]
    said = [note(found["note"])] if found.get("note") else []
    return section("topics", "Topics", *said, table(heads, rows, sums, numbers=[3, 4]), *texts)


def _topic(each: Mapping[str, Any]) -> list[Html]:
    words = ", ".join(word for word, _ in each["words"])
    return [tag("h3", f"t{each['topic']:02d} {each['name']}"), note(words), listed(each["examples"][:EXAMPLES])]


def _most(shares: Mapping[str, float]) -> str:
    most = sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
    more = f", {len(most) - SOURCES} more" if len(most) > SOURCES else ""
    return ", ".join(f"{name} {percent(share)}" for name, share in most[:SOURCES]) + more


def bands(found: Mapping[str, Any] | None) -> Html:
    """found: domains.json"""
    if found is None:
        return section("bands", "Quality bands", missing("quality"))
    spearman, reason = found.get("heldout_spearman"), found.get("reason")
    trust = (f"Spearman of scores with held-out labels: {show(spearman)}." if spearman is not None else f"There are no scores: {reason}." if reason
             else "There are no held-out labels to compare scores with.")
    texts = [listed([{**example, "fact": f"{each['name']}, scores {show(each['low'])} to {show(each['high'])}; here {show(example['score'])}"}
                     for example in each["examples"][:1]]) for each in found["domains"]]
    return section("bands", "Quality bands", note("q1 is the worst band of its topic. ", trust), *texts)


def domains(found: Mapping[str, Any] | None, names: Mapping[int, str], store: Mapping[str, Mapping[str, int]] | None,
            portraits: Mapping[str, Any] | None) -> Html:
    """found: domains.json; names: topic -> name; store: domain -> counts of the token store; portraits: portraits.json"""
    if found is None:
        return section("domains", "Domains", missing("quality"))
    every, counts = found["domains"], store or {}
    total = sum(each["bytes"] for each in every)
    spoken = {each["name"]: each["languages"] for each in (portraits or {"domains": []})["domains"]}
    rows = [[each["name"], names.get(each["topic"], ""), each["documents"], size(each["bytes"]), percent(each["bytes"], total), each["low"],
             each["high"], *_stored(counts.get(each["name"])), _most(spoken.get(each["name"], {}))] for each in every]
    sums = ["all", "", sum(each["documents"] for each in every), size(total), "", "", "", *_total(list(counts.values())), ""]
    heads = ["domain", "topic", "documents", "bytes", "share", "lowest score", "highest score", "rows of tokens", "held-out documents",
             "languages, share of bytes"]
    state = [] if store is not None else [note("Token counts are not done yet.")]
    return section("domains", "Domains", *state, table(heads, rows, sums, numbers=[3, 4, 5, 6, 7, 8]))


def _stored(counts: Mapping[str, int] | None) -> list[int | None]:
    return [None, None] if counts is None else [counts["rows"], counts["heldout"]]


def _total(counts: Sequence[Mapping[str, int]]) -> list[int | None]:
    return [sum(each[name] for each in counts) if counts else None for name in ("rows", "heldout")]
