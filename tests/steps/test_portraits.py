import numpy as np
import pyarrow as pa
import pytest

from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.shard import Table
from cuvee.engine.step import Step, Task
from cuvee.engine.store import read_json
from cuvee.record import QUALITY, embed_schema
from cuvee.steps import portraits
from cuvee.steps.store import Domain, TokenStore

VECTORS = {"sea/0": [[10, 0], [0, 10], [10, 0]], "law/0": [[0, 30], [0, 10]]}
DOMAINS = {"sea/0": ["t00.q1", "t01.q1", "t00.q1"], "law/0": ["t00.q1", "t01.q1"]}
SCORES = {"sea/0": [1.0, None, 3.0], "law/0": [-2.0, None]}


def leave(out, kind: str):
    for shard, vectors in VECTORS.items():
        rows, ids = np.arange(len(vectors)), [f"{shard}{row}" for row in range(len(vectors))]
        if kind == "embed":
            columns = [rows, ids, [100 * (row + 1) for row in rows], vectors]
            out.table(f"{shard}.parquet", pa.table([pa.array(column, field.type) for column, field in zip(columns, embed_schema(2))], schema=embed_schema(2)))
        else:
            columns = [rows, ids, SCORES[shard], [1] * len(rows), DOMAINS[shard]]
            out.table(f"{shard}.parquet", pa.table([pa.array(column, field.type) for column, field in zip(columns, QUALITY)], schema=QUALITY))
    return {}


def test_portraits_golden(tmp_path):
    work = Work(str(tmp_path), LocalEngine(1))
    vectors, quality = (Table.of(kind, [work.do(Step(kind, 1), [Task("all", leave, {"kind": kind})])]) for kind in ("embed", "quality"))
    tokens = TokenStore(tuple(Domain(name, "", "", 1, count, 1, 1, 0) for name, count in (("t00.q1", 50), ("t01.q1", 20))), 16, 300, 0, "", "store")
    first, second = read_json(portraits.run(work, vectors, quality, tokens).file("portraits.json"))["domains"]
    assert (first["name"], first["documents"], first["bytes"], first["tokens"]) == ("t00.q1", 3, 500, 50)
    assert first["quality"] == {"mean": pytest.approx(2 / 3), "low": -2.0, "high": 3.0} and second["quality"] is None
    assert first["sources"] == {"law": 0.2, "sea": 0.8} and second["sources"] == {"law": 0.5, "sea": 0.5}
    assert first["centroid"] == pytest.approx([20 / 1300**0.5, 30 / 1300**0.5], abs=1e-5) and second["centroid"] == [0.0, 1.0]
