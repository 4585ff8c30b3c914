from __future__ import annotations

from cuvee.engine.step import Step
from cuvee.report import counts
from tests.report import tiny


def test_a_sample_is_said(tmp_path):
    work = tiny.corpus(tmp_path, "ingest")
    taken = {"read": 9, "blank": 0, "documents": 4, "bytes": 40, "quarantined": 2, "reasons": {"no_text": 2}}
    work.do(Step("ingest", 2, source="web"), [tiny.task("00000", taken)])
    first = counts.flows(work.current(), tiny.RECIPE)[0].steps[0]
    assert (first.read, first.kept, first.dropped, first.fault) == (11, 4, {"no_text": 2, "not_sampled": 5}, None)


def test_a_manifest_that_says_all_is_believed(tmp_path):
    work = tiny.corpus(tmp_path, "decontaminate")
    from_columns = counts.flows(work.current(), tiny.RECIPE)
    tables = work.current()["decontaminate"]
    tasks = [tiny.task(shard, {**result["counts"], "kept_bytes": 1_000 * at}, {f"{shard}.parquet": counts.read_table(tables.file(f"{shard}.parquet"))})
             for at, (shard, result) in enumerate(sorted(tables.manifest["tasks"].items()))]
    work.do(Step("decontaminate", 2), tasks)
    told = counts.flows(work.current(), tiny.RECIPE)
    assert [flow.steps[-1].bytes for flow in told] == [1_000, 2_000]
    assert [(flow.steps[-1].read, flow.steps[-1].kept, flow.steps[-1].dropped) for flow in told] == \
        [(flow.steps[-1].read, flow.steps[-1].kept, flow.steps[-1].dropped) for flow in from_columns]


def test_licences_before_dedup_are_of_all_documents(tmp_path):
    work = tiny.corpus(tmp_path, "filter")
    documents = counts.table_of("ingest", work.current(), ["web", "wiki"])
    assert counts.licenses(documents, None) == [("MIT", 11), ("CC0-1.0", 5)]
