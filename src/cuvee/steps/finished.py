"""What a work folder holds already, by the names that people use: tables, kept documents."""

from __future__ import annotations

from dataclasses import replace

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.errors import DataError, UsageError, nearest
from cuvee.steps.documents import Shard, shards

PLACES = {"documents": "ingest"}  # tables that are not named as their step is
TABLES = ("documents", "filter", "decontaminate", "dedup", "embed", "topics", "quality", "tokenize")
JUDGES = ("filter", "decontaminate", "dedup")


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
