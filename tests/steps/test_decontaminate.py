from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.errors import DataError
from cuvee.steps import decontaminate, ingest
from cuvee.steps.documents import shards

CASES = ("answer-only", "chinese-item", "id-fields", "inline-question", "short-items")
QUESTION = "which river flows through seven countries before it reaches the wide delta on the shallow northern sea"
FILLER = "nobody asked about anything of that kind in this long and winding story about other matters entirely"


def write(path: Path, records: list[dict]) -> str:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return str(path)


def decontaminated(tmp_path: Path, sources: dict[str, str], evals: list[dict], workers: int = 1, **section):
    recipe = Recipe(work=str(tmp_path / "work"), sources=[{"name": name, "path": path, "license": "MIT"} for name, path in sources.items()],
                    evals=evals, decontaminate=section)
    engine = LocalEngine(workers)
    work = Work(recipe.work, engine)
    documents = ingest.run(work, recipe)
    table = decontaminate.run(work, recipe, documents)
    engine.close()
    return work, documents, table


def rows(table) -> list[dict]:
    return [row for shard in table.shards for row in table.read(shard).to_pylist()]


def report(work: Work, name: str) -> list[dict]:
    return pq.read_table(work.current()["decontaminate.report"].file(name)).to_pylist()


@pytest.mark.parametrize("case", CASES)
def test_shared_case(case, shared, tmp_path):
    folder = shared / "cases" / case
    expected = json.loads((folder / "expected.json").read_text())
    work, _, table = decontaminated(tmp_path, {"s": str(folder / "docs.jsonl")}, [{"name": "e", "path": str(folder / "evals.jsonl")}])
    assert [row["keep"] for row in rows(table)] == expected["keep"]
    if "checkable" in expected:
        assert [row["checkable"] for row in report(work, "evals.parquet")] == expected["checkable"]
