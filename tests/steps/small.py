"""A small corpus of three vocabularies in two sources, for the steps from embed on."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.progress import Progress
from cuvee.engine.run import Work
from cuvee.engine.shard import Table
from cuvee.steps import embed, ingest

VOCABULARY = {
    "sea": "whale ship harpoon captain sailor wave mast anchor storm deck".split(),
    "law": "court judge statute clause appeal verdict treaty witness plaintiff counsel".split(),
    "code": "python import function variable compile loop module class return string".split(),
}
USUAL = "the of and to in is that for with as".split()


def text(kind: str, words: int, rng: np.random.Generator) -> str:
    return " ".join(rng.choice(VOCABULARY[kind] + USUAL, words))


def corpus(folder: Path, documents: int) -> list[dict]:
    """Sources: `a` has sea and law, `b` has law and code, `documents` of each kind. Texts of 20 to 60 words."""
    rng = np.random.default_rng(5)
    sources = []
    for name, kinds in (("a", ("sea", "law")), ("b", ("law", "code"))):
        rows = [{"text": text(kind, rng.integers(20, 60), rng), "kind": kind} for kind in kinds for _ in range(documents)]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        sources.append({"name": name, "path": str(folder / f"{name}.jsonl"), "license": "MIT"})
    return sources


def begin(folder: Path, documents: int = 60, workers: int = 1, **sections) -> tuple[Work, Recipe, Table, io.StringIO]:
    """Work, recipe, documents, and what is said. embed.dimensions is 32 unless a section says otherwise."""
    said = io.StringIO()
    recipe = Recipe(work=str(folder / "work"), sources=corpus(folder, documents), **{"embed": {"dimensions": 32}, **sections})
    work = Work(recipe.work, LocalEngine(workers), Progress(said))
    return work, recipe, ingest.run(work, recipe), said


def vectors(folder: Path, documents: int = 60, **sections) -> tuple[Work, Recipe, Table, Table, io.StringIO]:
    """The same with the vectors, before what is said."""
    work, recipe, table, said = begin(folder, documents, **sections)
    return work, recipe, table, embed.run(work, recipe, table, []), said


def rows(table: Table) -> list[dict]:
    """All rows of all shards, each with the name of its shard."""
    return [{**row, "shard": shard} for shard in table.shards for row in table.read(shard).to_pylist()]


def kinds(documents: Table) -> list[str]:
    """The vocabulary of every document, in the order of `rows`."""
    return [json.loads(row["meta"])["kind"] for row in rows(documents)]
