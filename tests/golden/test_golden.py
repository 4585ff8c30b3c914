"""One version, one set of bytes: what each step gives for five sources of the bundled corpus.

A step whose values change without a new VERSION fails here. After raising the version of a step on purpose, write the
new values with `python -m tests.golden.test_golden` and look at the difference.
"""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import xxhash

from cuvee import recipe as recipes
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.shard import Table
from cuvee.pipeline import STEPS, Run
from tests.conftest import ROOT

pytestmark = pytest.mark.slow
FILE = Path(__file__).with_name("golden.json")
SOURCES = ("cpython", "handbook_en", "licences", "plays", "pypy")
EXACT = {"documents": "ingest", "filter": "filter", "decontaminate": "decontaminate", "dedup": "dedup", "tokenize": "tokenize"}
FLOATS = {"embed": "embed", "topics": "topics", "quality": "quality"}
TOLERANCE = 1e-4


def run(work: str) -> Run:
    """All steps up to the token store, in this process."""
    recipe = recipes.load(str(ROOT / "examples" / "demo.yaml"), [
        f"work={work}", "tokenizer.train.bytes=500000", "quality.target=[plays]", "topics.count=3", "embed.dimensions=32"])
    recipe = recipe.model_copy(update={"sources": [source for source in recipe.sources if source.name in SOURCES]})
    done = Run(recipe, Work(work, LocalEngine(1)))
    for name, step in STEPS.items():
        step(done)
        if name == "tokenize":
            return done
    raise AssertionError("there is no step tokenize")


def values(table: Table) -> str:
    """xxh3-128 of all column values in row order."""
    digest = xxhash.xxh3_128()
    for shard in table.shards:
        for name, column in zip((found := table.read(shard)).column_names, found.columns):
            digest.update(orjson.dumps([shard, name, column.to_pylist()]))
    return digest.hexdigest()


def figures(table: Table) -> dict[str, list[float]]:
    """Rows, mean and standard deviation of every column of numbers, over all shards."""
    shards = [table.read(shard).drop_columns(["id"]) for shard in table.shards]
    found = {}
    for name in shards[0].column_names:
        flat = [np.asarray(shard[name].combine_chunks().flatten() if name == "vector" else shard[name], dtype=object) for shard in shards]
        column = np.concatenate(flat)
        if not isinstance(column[0], str):
            found[name] = [len(column), float(column.astype(float).mean()), float(column.astype(float).std())]
    return found


def observed() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as work:
        done = run(work)
        exact = {name: {"version": version(step), "values": values(done.tables[name])} for name, step in EXACT.items()}
        floats = {name: {"version": version(step), "figures": figures(done.tables[name])} for name, step in FLOATS.items()}
        rows = xxhash.xxh3_128_hexdigest(b"".join(domain.load().tobytes() for domain in done.tokens.domains))
        names = [[domain.name, domain.rows, domain.heldout] for domain in done.tokens.domains]
    return exact | floats | {"store": {"version": version("store"), "values": rows, "domains": names}}


def version(step: str) -> int:
    return importlib.import_module(f"cuvee.steps.{step}").VERSION


@pytest.fixture(scope="module")
def found():
    return observed()


@pytest.mark.parametrize("name", [*EXACT, *FLOATS, "store"])
def test_values_change_with_the_version_only(found, name):
    known, new = json.loads(FILE.read_text())[name], found[name]
    module = f"steps/{(EXACT | FLOATS).get(name, name)}.py"
    assert new["version"] == known["version"], f"{module} has a new version: python -m tests.golden.test_golden"
    same = new.get("values") == known.get("values") and _near(new.get("figures", {}), known.get("figures", {}))
    assert same, f"{name} gives other values than before: bump VERSION in {module}"


def _near(new: dict[str, list[float]], known: dict[str, list[float]]) -> bool:
    return set(new) == set(known) and all(np.allclose(new[name], known[name], rtol=TOLERANCE, atol=TOLERANCE) for name in known)


if __name__ == "__main__":
    FILE.write_text(json.dumps(observed(), indent=1) + "\n")
