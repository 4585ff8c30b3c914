from __future__ import annotations

import pyarrow.parquet as pq

from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.store import Output
from cuvee.steps import dedup, ingest
from cuvee.steps.documents import shards
from cuvee.steps.outputs import File, Origins, dedup_rows, export_file
from cuvee.steps.reading.inputs import input_file, sha256
from tests.steps.duplicates.test_spans import corpus, unfiltered


def exported(folder, shard_bytes: int) -> tuple[list[dict], bytes, int]:
    """Rows of the table, the kept file, and how many shards there were, of one file that is read in shards of so many bytes."""
    recipe = unfiltered(folder, {"s": corpus(0, 80) + corpus(0, 80)[:20]}, ingest={"shard_bytes": shard_bytes, "meta": False})
    work = Work(recipe.work, LocalEngine(1))
    documents = ingest.run(work, recipe)
    verdict = dedup.run(work, recipe, documents, (), ())
    file = File(input_file(recipe.sources[0].path, "s.jsonl", "jsonl", sha256(recipe.sources[0].path)), "s")
    found = shards(documents, verdict)
    export_file(Output(str(folder)), file, found, dedup_rows, Origins({"s": "s.jsonl"}, documents.files), "text")
    return pq.read_table(folder / ".work" / "rows" / "s.parquet").to_pylist(), (folder / "kept" / "s.jsonl").read_bytes(), len(found)


def test_a_file_of_many_shards_is_exported_as_one_of_one_shard(tmp_path):
    rows, kept, many = exported(tmp_path / "a", 2_000)
    same, others, shards = exported(tmp_path / "b", 10**9)
    assert (rows, kept, shards) == (same, others, 1) and many > 5 and [row["row"] for row in rows] == list(range(100))
    assert {row["kept_by_row"] for row in rows} - {None} and kept.count(b"\n") == sum(row["keep"] for row in rows)
