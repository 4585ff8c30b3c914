import numpy as np
import pyarrow as pa
import pytest

from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.shard import Table
from cuvee.engine.step import Step, Task
from cuvee.engine.store import read_json
from cuvee.record import QUALITY, embed_schema
from cuvee.steps.store import Domain, TokenStore
from cuvee.steps.vectors import portraits

VECTORS = {"sea/0": [[10, 0], [0, 10], [10, 0]], "law/0": [[0, 30], [0, 10]]}
DOMAINS = {"sea/0": ["t00.q1", "t01.q1", "t00.q1"], "law/0": ["t00.q1", "t01.q1"]}
TEXTS = {"sea/0": "the sea was calm and there was no wind in the sails of it", "law/0": "le juge n'est pas dans la salle et il ne vient pas avec nous !"}
SCORES = {"sea/0": [1.0, None, 3.0], "law/0": [-2.0, None]}


def embedded(out, shard: str):
    rows, schema = np.arange(len(VECTORS[shard])), embed_schema(2)
    columns = [rows, [f"{shard}{row}" for row in rows], 100 * (rows + 1), VECTORS[shard]]
    out.table("0.parquet", pa.table([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema))
    sample = pa.table({"row": rows[:2], "id": columns[1][:2], "text": [TEXTS[shard]] * 2})
    out.arrow("0.sample.arrow", sample.to_batches(), sample.schema)
    return {}


def judged(out, shard: str):
    rows = np.arange(len(VECTORS[shard]))
    columns = [rows, [f"{shard}{row}" for row in rows], SCORES[shard], [1] * len(rows), DOMAINS[shard]]
    out.table(f"{shard}.parquet", pa.table([pa.array(column, field.type) for column, field in zip(columns, QUALITY)], schema=QUALITY))
    return {}


def test_portraits_golden(tmp_path):
    work = Work(str(tmp_path), LocalEngine(1))
    vectors = Table.of("embed", [work.do(Step("embed", 1, source=shard[:3]), [Task("0", embedded, {"shard": shard})]) for shard in VECTORS])
    quality = Table.of("quality", [work.do(Step("quality", 1), [Task(shard, judged, {"shard": shard}) for shard in VECTORS])])
    tokens = TokenStore(tuple(Domain(name, "", "", 1, count, 1, 1, 0) for name, count in (("t00.q1", 50), ("t01.q1", 20))), 16, 300, 0, "", "store")
    first, second = read_json(portraits.run(work, vectors, quality, tokens).file("portraits.json"))["domains"]
    assert (first["name"], first["documents"], first["bytes"], first["tokens"]) == ("t00.q1", 3, 500, 50)
    assert first["quality"] == {"mean": pytest.approx(2 / 3), "low": -2.0, "high": 3.0} and second["quality"] is None
    assert first["sources"] == {"law": 0.2, "sea": 0.8} and second["sources"] == {"law": 0.5, "sea": 0.5}
    assert first["languages"] == {"en": pytest.approx(57 / 119), "fr": pytest.approx(62 / 119)} == second["languages"]
    assert first["centroid"] == pytest.approx([20 / 1300**0.5, 30 / 1300**0.5], abs=1e-5) and second["centroid"] == [0.0, 1.0]
