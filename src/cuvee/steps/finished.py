"""What a work folder holds already, by the names that people use: tables, kept documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.store import exists, join, read_json, write_json
from cuvee.errors import DataError, UsageError, nearest
from cuvee.steps.documents import Shard, shards

PLACES = {"documents": "ingest"}  # tables that are not named as their step is
TABLES = ("documents", "filter", "decontaminate", "dedup", "embed", "topics", "quality", "tokenize")
NOTE = "recipe.json"
PATHS = ("path", "file", "fit", "labels", "ids", "urls", "hosts", "freeze", "reuse", "scores")  # keys that say where a file lies; its content is in the fingerprints
JUDGES = ("filter", "decontaminate", "dedup")


def identity(recipe: Recipe, sample: float | None) -> dict[str, Any]:
    """What a recipe asks for, flat, by dotted key; where its files lie is no part of it, and no resource."""
    resources = {"work": True, "swarm": {"gpus", "device_memory"}}
    return _flat({**recipe.model_dump(mode="json", by_alias=True, exclude=resources), "sample": sample})


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    if isinstance(value, (dict, list)) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for name, each in pairs if name not in PATHS or isinstance(each, dict) for k, v in _flat(each, f"{key}.{name}" if key else str(name)).items()}
    return {key: value}


def note(work: Work, recipe: Recipe, sample: float | None, reached: str | None) -> None:
    """`recipe.json`: what the newest results are of, and the last step that a run reached; None while it is at work."""
    write_json(join(work.url, NOTE), {"recipe": identity(recipe, sample), "reached": reached})


def noted(work: Work) -> dict[str, Any]:
    url = join(work.url, NOTE)
    return read_json(url) if exists(url) else {"recipe": {}, "reached": None}


def differences(work: Work, recipe: Recipe) -> list[str]:
    """In what the newest results are not of this recipe, a line each."""
    known = noted(work)["recipe"]
    if not known:
        return []
    asked = identity(recipe, None)
    if known["sample"] is not None:  # under a sample both budgets shrink, as they should
        known, asked = ({k: v for k, v in each.items() if not k.startswith("budget.")} for each in (known, asked))
    return [f"{key} was {known.get(key)!r}, is {asked.get(key)!r}" for key in sorted(known.keys() | asked.keys()) if known.get(key) != asked.get(key)]


def must_be_of(work: Work, recipe: Recipe) -> None:
    """A UsageError where the newest results are of another recipe, or a run did not end."""
    if found := differences(work, recipe):
        raise UsageError(f"{work.url} holds the results of another recipe: {'; '.join(found[:3])}. Run: cuvee run RECIPE")
    if noted(work)["recipe"] and noted(work)["reached"] is None:
        raise UsageError(f"the last run in {work.url} did not end. Run: cuvee run RECIPE")


def table(work: Work, recipe: Recipe, name: str) -> Table:
    """The newest finished table of a step, of the recipe's sources."""
    if name not in TABLES:
        raise UsageError(f"no table is named '{name}'. {nearest(name, TABLES)}")
    place, current = PLACES.get(name, name), work.current()
    sources = [source.name for source in recipe.sources]
    each = [f"{place}/{source}" for source in sources]
    if place not in current and not set(each) <= set(current):
        raise not_done(work, name)
    found = Table.of(name, [current[place]] if place in current else [current[one] for one in each])
    return replace(found, files={shard: url for shard, url in found.files.items() if shard.split("/")[0] in sources})


def kept(work: Work, recipe: Recipe) -> list[Shard]:
    """Every documents shard with the verdicts of all steps that judge."""
    documents, *verdicts = (table(work, recipe, name) for name in ("documents", *JUDGES))
    for verdict in verdicts:
        if verdict.files.keys() != documents.files.keys():
            raise DataError(f"{work.url}: the documents have changed since {verdict.name} was done. Run the recipe again.")
    return shards(documents, *verdicts)


def folder(work: Work, name: str) -> Folder:
    """A global step's newest finished folder."""
    current = work.current()
    if name not in current:
        raise not_done(work, name)
    return current[name]


def not_done(work: Work, name: str) -> UsageError:
    until = "ingest" if name == "documents" else name
    return UsageError(f"{name} is not done in {work.url}. Run: cuvee run RECIPE --until {until}")
