"""Counts for the page: of documents from manifests, of licences and bytes also from thin columns of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from cuvee.config import Recipe
from cuvee.engine.shard import Folder, Table, add
from cuvee.engine.store import read_table
from cuvee.errors import DataError
from cuvee.record import positions
from cuvee.report.facts import Eval, Flow, Passed

GLOBAL = ("decontaminate", "dedup")
STAYS = ("unique", "not_candidate")  # kinds of documents that dedup keeps
BYTES_ROWS = 20_000_000  # of a source: beyond, bytes after decontaminate and dedup are left out rather than added up row by row
Folders = Mapping[str, Folder]


def place_of(step: str, folders: Folders) -> str | None:
    """Where a global step's verdict stands: under its name, or under `STEP.decide`."""
    return next((place for place in (step, f"{step}.decide") if place in folders), None)


def table_of(step: str, folders: Folders, sources: Iterable[str]) -> Table | None:
    """A step's table, of the sources of the recipe; None where the step is not done for any."""
    sources = list(sources)
    found = [folders[f"{step}/{source}"] for source in sources if f"{step}/{source}" in folders]
    place = place_of(step, folders)
    found = found or ([folders[place]] if place else [])
    table = Table.of(step, found)
    files = {shard: url for shard, url in table.files.items() if shard.split("/")[0] in sources}
    return replace(table, files=files) if found else None


def flows(folders: Folders, recipe: Recipe) -> list[Flow]:
    names = [source.name for source in recipe.sources if f"ingest/{source.name}" in folders]
    tables = {step: table for step in ("filter", *GLOBAL) if (table := table_of(step, folders, names))}
    return [_flow(source, folders, tables) for source in names]


def _flow(source: str, folders: Folders, tables: Mapping[str, Table]) -> Flow:
    steps = [_ingest(folders[f"ingest/{source}"].counts)]
    if f"filter/{source}" in folders:
        steps.append(_judged("filter", folders[f"filter/{source}"].counts))
    for step in GLOBAL:
        place = place_of(step, folders)
        if place and "filter" in tables and tables[step].of_source(source):
            told = _told(source, folders[place])
            if "kept_bytes" not in told:
                told["kept_bytes"] = _bytes(source, tables[step], tables["filter"])
            steps.append(_judged(step, told))
    tokens = folders[f"tokenize/{source}"].counts if f"tokenize/{source}" in folders else None
    if tokens:
        steps.append(Passed("tokenize", tokens["read"], tokens["read"], tokens["bytes"], {}))
    return Flow(source, tuple(steps), tokens["tokens"] if tokens else None)


def _ingest(counts: Mapping[str, Any]) -> Passed:
    """Blank lines are no rows. Under a sample fewer documents are written than rows read, and the rest is said."""
    left_out = counts["read"] - counts["documents"]
    sampled = {"not_sampled": left_out} if left_out else {}
    return Passed("ingest", counts["read"] + counts["quarantined"], counts["documents"], counts["bytes"], {**counts["reasons"], **sampled})


def _judged(step: str, counts: Mapping[str, Any]) -> Passed:
    """Dropped documents by reason: `dropped`, or `kinds` of all documents, those that stay among them."""
    dropped = counts.get("dropped", {kind: count for kind, count in counts.get("kinds", {}).items() if kind not in STAYS})
    return Passed(step, counts["read"], counts["kept"], counts["kept_bytes"], dict(dropped))


def _told(source: str, folder: Folder) -> dict[str, Any]:
    """What the manifest of a global step says of one source: its tasks are named by shard, `source/part`."""
    return add(result["counts"] for name, result in sorted(folder.manifest["tasks"].items()) if name.split("/")[0] == source)


def _bytes(source: str, judged: Table, filtered: Table) -> int | None:
    """Bytes of the stored texts that a step kept, which its manifest does not say; the filter's table has them by row.

    None for very many rows, and where the tables do not meet: one may stem from an earlier state of the recipe.
    """
    size = rows = 0
    for shard in judged.of_source(source):
        try:
            stored = filtered.read(shard, ["row", "id", "bytes"])
            table = judged.read(shard, ["row", "id", "keep"])
            place = positions(stored, table["row"], table["id"], shard)
        except DataError:
            return None
        rows += len(table)
        if rows > BYTES_ROWS or (place < 0).any():
            return None
        size += int(stored["bytes"].to_numpy()[place[table["keep"].to_numpy(zero_copy_only=False).astype(bool)]].sum())
    return size


def licenses(documents: Table, dedup: Table | None) -> list[tuple[str, int]]:
    """Licences of kept documents over their copies, or of all documents before dedup; most frequent first."""
    found: Counter[str] = Counter()
    for shard in (dedup or documents).shards:
        if dedup is not None:
            table = dedup.read(shard, ["keep", "licenses"])
            names = pc.binary_join(table.filter(table["keep"])["licenses"], " + ")
        else:
            names = documents.read(shard, ["license"])["license"]
        for each in pc.value_counts(names).to_pylist():
            found[each["values"] or "none stated"] += each["counts"]
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))


def evals(url: str) -> list[Eval]:
    """By evaluation, in the order of the recipe. url: of evals.parquet"""
    table = read_table(url, ["eval", "checkable", "documents"])
    names = np.array(table["eval"].to_pylist(), object)
    checkable, documents = table["checkable"].to_numpy(zero_copy_only=False).astype(bool), table["documents"].to_numpy()
    return [Eval(name, int((mine := names == name).sum()), int(checkable[mine].sum()), int((documents[mine] > 0).sum()), int(documents[mine].sum()))
            for name in dict.fromkeys(names.tolist())]
