"""Read from a work folder what its page says: whatever is done, and nothing of what is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import package_version
from cuvee.engine.store import exists, join, read_json, read_table
from cuvee.errors import DataError
from cuvee.report import counts, pick
from cuvee.report.facts import Done, Facts

ORDER = ("ingest", "exclude", "filter", "decontaminate", "dedup", "embed", "topics", "quality", "tokenizer", "tokenize", "tokens", "swarm",
         "fit", "mix", "validate", "export", "stream")
JSON = {"topics": ("topics", "topics.json"), "domains": ("quality", "domains.json"), "portraits": ("portraits", "portraits.json"), "swarm": ("swarm", "runs.json"), "rounds": ("swarm", "rounds.json"),
        "fit": ("fit", "fit.json"), "mixture": ("mix", "mixture.json"), "validation": ("validate", "validate.json")}
ASIDE = 20  # texts set aside as boilerplate that are listed

Folders = Mapping[str, Folder]


def gather(work: Work, recipe: Recipe) -> Facts:
    sources = [source.name for source in recipe.sources]
    folders = {place: folder for place, folder in work.current().items() if folder.source is None or folder.source in sources}
    found: dict[str, Any] = {"flows": counts.flows(folders, recipe), **_jsons(folders)}
    documents = counts.table_of("ingest", folders, sources)
    if documents is not None:
        found |= _judged(folders, documents, sources)
    if "tokens" in folders:
        found["store"] = {name: result["counts"] for name, result in folders["tokens"].manifest["tasks"].items()}
    if "swarm" in folders and "run_domains.parquet" in folders["swarm"].files:
        found["drawn"] = read_table(folders["swarm"].file("run_domains.parquet")).to_pylist()
    return Facts(work.url, package_version("cuvee"), recipe.seed, _recipe(recipe), _done(work, folders), **found)


def _jsons(folders: Folders) -> dict[str, Any]:
    return {name: read_json(folders[place].file(file)) for name, (place, file) in JSON.items()
            if place in folders and file in folders[place].files}


def _judged(folders: Folders, documents: Table, sources: Sequence[str]) -> dict[str, Any]:
    """What the verdicts on documents say, with texts as examples; `stale` says which do not belong to the documents."""
    filtered, judged, dedup = (counts.table_of(step, folders, sources) for step in ("filter", "decontaminate", "dedup"))
    found: dict[str, Any] = {"shards": (len(pick.looked_at(documents)), len(documents.shards)), "licenses": counts.licenses(documents, dedup)}
    stale: list[str] = []
    parts = ((filtered, lambda: _filtered(folders, filtered, documents, sources)), (judged, lambda: _evals(folders, judged, documents)),
             (dedup, lambda: dict(zip(("duplicates", "copied"), pick.duplicates(dedup, documents)))))
    for table, read in parts:
        try:
            found |= read() if table is not None else {}
        except DataError as error:
            stale.append(str(error))
    return {**found, "stale": stale}


def _filtered(folders: Folders, filtered: Table, documents: Table, sources: Sequence[str]) -> dict[str, Any]:
    reasons: Counter[str] = Counter()
    for source in sources:
        reasons.update(folders[f"filter/{source}"].counts["dropped"] if f"filter/{source}" in folders else {})
    return {"drops": pick.drops(filtered, documents, reasons)}


def _evals(folders: Folders, judged: Table, documents: Table) -> dict[str, Any]:
    report, records = folders["decontaminate.report"], folders["decontaminate.features"].file("records.parquet")
    return {"evals": counts.evals(report.file("evals.parquet")), "contaminated": pick.contaminated(judged, documents, records),
            "set_aside": read_table(report.file("set_aside.parquet")).slice(0, ASIDE).to_pylist()}


def _recipe(recipe: Recipe) -> str:
    changed = recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump(changed, sort_keys=False, allow_unicode=True, width=120)


def _done(work: Work, folders: Folders) -> list[Done]:
    """Every finished step, in the order of the pipeline."""
    url = join(work.url, "timings.json")
    timings = read_json(url) if exists(url) else {}
    steps: dict[str, list[Folder]] = {}
    for place, folder in sorted(folders.items()):
        steps.setdefault(place.split("/")[0], []).append(folder)
    return [_one(step, steps[step], timings) for step in sorted(steps, key=_order)]


def _one(step: str, folders: Sequence[Folder], timings: Mapping[str, float]) -> Done:
    alone = step if folders[0].source is None else f"{step}/{folders[0].source}"
    label = alone if len(folders) == 1 else f"{step} x {len(folders)}"
    uses = {name: version for folder in folders for name, version in sorted(folder.manifest["uses"].items())}
    return Done(step, tuple(folder.fingerprint[:12] for folder in folders), sum(len(folder.manifest["tasks"]) for folder in folders),
                timings.get(label), uses)


def _order(step: str) -> tuple[int, str]:
    first = step.split(".")[0]
    return (ORDER.index(first) if first in ORDER else len(ORDER)), step
