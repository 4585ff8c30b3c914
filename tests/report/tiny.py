"""A work folder of 16 documents with every step's files, made by hand in the formats of the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, write_json
from cuvee.record import DECONTAMINATE, DEDUP, DOCUMENTS, EVALS, FILTER, SET_ASIDE

LONG = "The quick brown fox jumps over the lazy dog while seventeen sailors sing songs of distant harbours and salt. "
ITEM = "Which metal is liquid at room temperature and was once used in every thermometer of a ship?"
TEXTS = {
    "web/00000-000": ["", "a few words", LONG * 4, LONG * 4, "<script>alert('x')</script> & \u202eevil \x00 nul " + LONG,
                      LONG.upper() * 4, "Ye olde quiz. " + ITEM + " Answer below."],
    "web/00001-000": [LONG * 3 + "An end of its own.", "مرحبا بالعالم هذا نص طويل من اليمين إلى اليسار " * 6, "buy now " * 90, "Plain words. " * 40],
    "wiki/00000-000": [LONG * 3 + "Another end.", "日本語の文章です。" * 30, "Mathematics is older than writing. " * 9, "A ship. " + ITEM,
                       "Salt and sail."],
}
REASONS = {("web/00000-000", 0): ("empty", 0.0, 1.0), ("web/00000-000", 1): ("too_few_words", 3.0, 20.0), ("web/00001-000", 2): ("repetition", 0.98, 0.5),
           ("wiki/00000-000", 4): ("too_few_words", 3.0, 20.0)}
HITS = {("web/00000-000", 6): ("quiz:0", 3), ("wiki/00000-000", 3): ("quiz:0", 1)}
GONE = {("web/00000-000", 3): ("exact", ("web/00000-000", 2), 1.0), ("web/00000-000", 5): ("normalised", ("web/00000-000", 2), 1.0),
        ("web/00001-000", 0): ("near", ("wiki/00000-000", 0), 0.875)}
RECIPE = Recipe(work="work", seed=7, licenses={"allow": ["MIT", "CC0-1.0"]}, sources=[
    {"name": "web", "path": "web.jsonl", "license": "MIT"}, {"name": "wiki", "path": "wiki.jsonl", "license": "CC0-1.0"}])


def put(out: Output, tables: dict[str, pa.Table], jsons: dict[str, Any], counts: Counts) -> Counts:
    for name, table in tables.items():
        out.table(name, table)
    for name, value in jsons.items():
        out.json(name, value)
    return counts


def task(name: str, counts: Counts, tables: dict[str, pa.Table] | None = None, jsons: dict[str, Any] | None = None) -> Task:
    return Task(name, put, {"tables": tables or {}, "jsons": jsons or {}, "counts": counts})


def identity(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())


def rows(schema: pa.Schema, found: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in found], schema=schema)


def kept(shard: str, *verdicts: dict) -> list[dict[str, Any]]:
    """`row` and `id` of the rows of a shard that no verdict names."""
    return [{"row": row, "id": identity(text)} for row, text in enumerate(TEXTS[shard]) if not any((shard, row) in each for each in verdicts)]


def size(shard: str, found: list[dict[str, Any]]) -> int:
    return sum(len(TEXTS[shard][row["row"]].encode()) for row in found)


def ingest(work: Work) -> None:
    for source in RECIPE.sources:
        tasks = []
        for shard in (shard for shard in TEXTS if shard.startswith(f"{source.name}/")):
            documents = [{**row, "text": TEXTS[shard][row["row"]], "source": source.name, "license": source.license} for row in kept(shard)]
            counts = {"read": len(documents), "blank": 1, "documents": len(documents), "bytes": size(shard, documents), "quarantined": 1,
                      "reasons": {"bad_json": 1}}
            part = shard.split("/")[1]
            tasks.append(task(part.split("-")[0], counts, {f"{part}.parquet": rows(DOCUMENTS, documents)}))
        work.do(Step("ingest", 1, source=source.name, uses=("numpy",)), tasks)


def filtered(work: Work) -> None:
    for source in RECIPE.sources:
        tasks = []
        for shard in (shard for shard in TEXTS if shard.startswith(f"{source.name}/")):
            stay = kept(shard, REASONS)
            found = [{**row, "keep": (shard, row["row"]) not in REASONS, "bytes": len(TEXTS[shard][row["row"]].encode()),
                      **dict(zip(("reason", "value", "threshold"), REASONS.get((shard, row["row"]), ())))} for row in kept(shard)]
            reasons = [row["reason"] for row in found if not row["keep"]]
            counts = {"read": len(found), "bytes": size(shard, found), "kept": len(stay), "kept_bytes": size(shard, stay),
                      "dropped": {reason: reasons.count(reason) for reason in sorted(set(reasons))}}
            tasks.append(task(shard.split("/")[1], counts, {f"{shard.split('/')[1]}.parquet": rows(FILTER, found)}))
        work.do(Step("filter", 1, source=source.name), tasks)


def decontaminated(work: Work) -> None:
    records = pa.table({"name": ["quiz:0", "quiz:1"], "text": [ITEM, "Too short."]})
    work.do(Step("decontaminate.features", 1), [task("features", {}, {"records.parquet": records})])
    tasks = []
    for shard in TEXTS:
        found = []
        for row in kept(shard, REASONS):
            item, hits = HITS.get((shard, row["row"]), (None, 0))
            start = TEXTS[shard][row["row"]].find(ITEM) if item else None
            found.append({**row, "keep": not item, "hits": hits, "fraction": 0.9 if item else 0.0, "items": [item] if item else [],
                          "first_start": start, "first_end": start + len(ITEM) if item else None})
        stay = sum(row["keep"] for row in found)
        tasks.append(task(shard, {"read": len(found), "kept": stay, "dropped": {"contaminated": len(found) - stay}},
                          {f"{shard}.parquet": rows(DECONTAMINATE, found)}))
    work.do(Step("decontaminate", 1), tasks)
    evals = [{"eval": "quiz", "file": "quiz.jsonl", "row": row, "checkable": row == 0, "documents": 2 * (row == 0)} for row in (0, 1)]
    work.do(Step("decontaminate.report", 1), [task("report", {}, {"evals.parquet": rows(EVALS, evals), "set_aside.parquet": rows(SET_ASIDE, [
        {"text": "choose the <best> answer", "documents": 60, "sources": 3, "items": ["quiz:0"]}])})])


def deduplicated(work: Work) -> None:
    tasks = []
    for shard in TEXTS:
        found = []
        for row in kept(shard, REASONS, HITS):
            kind, (keeper, at), similarity = GONE.get((shard, row["row"]), (None, (None, None), None))
            mine = {**row, "source": shard.split("/")[0], "shard": shard.split("/")[1], "keep": kind is None, "kind": kind or "unique"}
            if kind:
                mine |= {"kept_by": identity(TEXTS[keeper][at]), "kept_by_source": keeper.split("/")[0], "kept_by_shard": keeper.split("/")[1],
                         "kept_by_row": at, "similarity": similarity}
            else:
                copies = 1 + sum(by == (shard, row["row"]) for _, by, _ in GONE.values())
                mine |= {"copies": copies, "licenses": ["CC0-1.0", "MIT"] if copies == 2 else ["MIT"]}
            found.append(mine)
        kinds = [row["kind"] for row in found]
        counts = {"read": len(found), "kept": kinds.count("unique"), "kinds": {kind: kinds.count(kind) for kind in sorted(set(kinds))}}
        tasks.append(task(shard, counts, {f"{shard}.parquet": rows(DEDUP, found)}))
    work.do(Step("dedup", 1), tasks)


def tokenized(work: Work) -> None:
    for source, documents, size_, tokens in (("web", 4, 1_000, 250), ("wiki", 3, 2_000, 400)):
        work.do(Step("tokenize", 1, source=source), [task("all", {"read": documents, "bytes": size_, "tokens": tokens})])


STEPS = {"ingest": ingest, "filter": filtered, "decontaminate": decontaminated, "dedup": deduplicated, "tokenize": tokenized}


def corpus(folder: Path, until: str = "tokenize") -> Work:
    """The work folder after the steps up to `until`."""
    work = Work(str(folder / "work"), LocalEngine(1))
    for name, step in STEPS.items():
        step(work)
        if name == until:
            break
    write_json(f"{work.url}/timings.json", {"ingest/web": 1.5, "ingest x 2": 75.0})
    return work
