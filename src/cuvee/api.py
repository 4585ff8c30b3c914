"""The Python interface: `run = cuvee.load("recipe.yaml")`, then what the run has left in its work folder.

Nothing here trains or writes; where a step is not done yet, the error names the command that does it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from cuvee import recipe as recipes
from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.store import read_json, read_table
from cuvee.record import DOCUMENTS
from cuvee.steps import finished
from cuvee.steps.stream import Stream


def load(path: str, overrides: Sequence[str] = ()) -> Run:
    """The recipe in a YAML file and what has been done of it. overrides: `section.key=value`, as for --set"""
    found = recipes.load(path, overrides)
    work = Work(found.work, LocalEngine(1))
    if changed := finished.differences(work, found):
        warnings.warn(f"{work.url} holds the results of another recipe: {'; '.join(changed[:3])}", stacklevel=2)
    return Run(found, work)


class Run:
    """A recipe and its work folder, to read from."""

    def __init__(self, recipe: Recipe, work: Work) -> None:
        self.recipe = recipe
        self._work = work

    def documents(self, edited: bool = True) -> Iterator[pa.Table]:
        """The documents that every step keeps, shard by shard: shard, row and the columns of record.DOCUMENTS.

        edited: with the changes that filter and decontaminate ask for; else as they were read
        """
        for shard in finished.kept(self._work, self.recipe):
            rows = shard.read(DOCUMENTS.names, edited)
            yield rows.add_column(0, "shard", pa.array([shard.name] * len(rows), pa.string()))

    def files(self, name: str) -> dict[str, str]:
        """Shard `source/part` -> URL of its Parquet file, of a step's newest table: for DuckDB, Polars or `datasets`."""
        return dict(finished.table(self._work, self.recipe, name).files)

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A step's newest table in memory, all shards in order; `source` and `shard` are put before it where it lacks them."""
        table = finished.table(self._work, self.recipe, name)
        return pa.concat_tables([_placed(table.read(shard, columns), shard) for shard in table.shards])

    def mixture(self) -> dict[str, Any]:
        """mixture.json: domains with weights, epochs and ranges, predicted scores, baselines."""
        return read_json(finished.folder(self._work, "mix").file("mixture.json"))

    def scores(self) -> dict[str, pa.Table]:
        """The swarm: `domains` (record.RUN_DOMAINS) and `scores` (record.RUN_SCORES), joined by run."""
        folder = finished.folder(self._work, "swarm")
        return {name: read_table(folder.file(f"run_{name}.parquet")) for name in ("domains", "scores")}

    def validation(self) -> dict[str, Any]:
        """validate.json: verdict and why, paired differences at every size, scaling curve, optimism."""
        return read_json(finished.folder(self._work, "validate").file("validate.json"))

    def stream(self, seed: int | None = None) -> Stream:
        """Tokens in training order: `run.stream()[k]`. seed: the recipe's where none is given"""
        return Stream.open(self._work.url, seed)


def _placed(table: pa.Table, shard: str) -> pa.Table:
    for at, (name, value) in enumerate(zip(("source", "shard"), shard.split("/", 1))):
        if name not in table.column_names:
            table = table.add_column(at, name, pa.array([value] * len(table), pa.string()))
    return table.replace_schema_metadata(None)
