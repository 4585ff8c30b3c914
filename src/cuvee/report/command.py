"""The page of `cuvee dedup` and `cuvee decontaminate` on files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from cuvee.report import svg
from cuvee.report.facts import Example
from cuvee.report.markup import Html, note, percent, section, show, table, tag
from cuvee.report.page import document
from cuvee.report.passages import beside


def standalone_page(command: str, counts: Mapping[str, Any], settings: Mapping[str, Any], examples: Sequence[Example],
                    warnings: Sequence[str] = (), files: Sequence[Mapping[str, Any]] = ()) -> Html:
    """One HTML file on what a command did.

    counts: read, kept, removed, quarantined, reasons and kinds (name -> rows), as in manifest.json
    settings: JSON values  examples: as passages.beside takes them  files: name, read, kept of every input, in order
    """
    head = tag("header", tag("h1", f"cuvee {command}"),
               note(f"{counts['read']:,} rows read, {counts['kept']:,} kept, {counts['removed']:,} removed, {counts['quarantined']:,} quarantined."),
               *(note(each, kind="bad") for each in warnings))
    sections = [_rows(counts), *([_files(files)] if files else []), _examples(command, examples),
                section("settings", "Settings", tag("pre", yaml.safe_dump(dict(settings), sort_keys=True, allow_unicode=True)))]
    return document(f"cuvee {command}", head, sections)


def _rows(counts: Mapping[str, Any]) -> Html:
    """Rows by what became of them, and whether they add up."""
    kinds = counts["kinds"] or ({"removed": counts["removed"]} if counts["removed"] else {})
    raw = counts["read"] + counts["quarantined"]
    fates = [("kept", counts["kept"]), *sorted(kinds.items()), *((f"quarantined: {name}", count) for name, count in sorted(counts["reasons"].items()))]
    accounted = sum(count for _, count in fates)
    check = (note("Counts add up: every row is kept, removed for one reason, or quarantined.", kind="good") if accounted == raw else
             note(f"Counts do not add up: {raw:,} rows, {accounted:,} accounted for.", kind="bad"))
    rows = [[name, count, percent(count, raw)] for name, count in fates]
    return section("rows", "Rows", check, svg.bars([(name, count, show(count)) for name, count in fates], "Rows by what became of them"),
                   table(["", "rows", "share"], rows, ["all", accounted, ""], numbers=[2]))


def _files(files: Sequence[Mapping[str, Any]]) -> Html:
    rows = [[each["name"], each["read"], each["kept"], each["read"] - each["kept"], percent(each["read"] - each["kept"], each["read"])]
            for each in files]
    return section("files", "Files", table(["file", "rows", "kept", "removed", "share removed"], rows, numbers=[4]))


def _examples(command: str, examples: Sequence[Example]) -> Html:
    if not examples:
        return section("examples", "Examples", note("Nothing was removed."))
    said = ("From the first difference on; marked is what the other text lacks." if command == "dedup"
            else "The first place in the document, and the item it holds.")
    return section("examples", "Examples", note(said), *map(beside, examples))
