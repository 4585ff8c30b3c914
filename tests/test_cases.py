"""The shared cases through the command line's own entry: every row, every column, every fault."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.commands import Done, call

ROWS = ("case-and-punctuation", "empty-texts", "long-and-excerpt", "many-copies", "numbers-differ", "same-source-id", "shared-template",
        "short-texts", "symbols-differ", "unspaced-scripts")
EVALS = ("answer-only", "chinese-item", "id-fields", "inline-question", "short-items")
BROKEN = ("bad-line.jsonl", "bad-utf8.jsonl", "bom-crlf.jsonl", "empty.jsonl", "gzip-named-plain.jsonl", "null-text.jsonl",
          "plain-named-gzip.jsonl.gz", "surrogate.jsonl", "truncated.jsonl.gz")


def expected(shared: Path, case: str) -> dict:
    return json.loads((shared / "cases" / case / "expected.json").read_text())


def run(shared: Path, case: str, out: Path, **options: str) -> Done:
    folder = shared / "cases" / case
    return call(expected(shared, case)["command"], [folder / name for name in expected(shared, case)["files"]], out, **options)


def short(row: dict) -> dict:
    """A row of dedup.parquet in the columns of expected.json."""
    return {"file": row["file"], "row": row["row"], "id": row["id"], "keep": row["keep"], "kind": None if row["keep"] else row["kind"],
            "kept_by": None if row["keep"] else [row["kept_by_file"], row["kept_by_row"]],
            "similarity": None if row["similarity"] is None else round(row["similarity"], 6)}


@pytest.mark.parametrize("case", ROWS)
def test_dedup_gives_every_row_of_the_case(case, shared, tmp_path):
    done = run(shared, case, tmp_path / "out")
    assert done.code == 0 and [short(row) for row in done.rows] == expected(shared, case)["rows"]
    kept_by = [(row["kept_by_file"], row["kept_by_row"]) for row in done.rows]
    place = {(row["file"], row["row"]): row for row in done.rows}
    for row in done.rows:
        if row["keep"]:
            assert (row["kind"], row["kept_by"], row["similarity"]) == ("unique", None, None)
            assert row["copies"] == 1 + kept_by.count((row["file"], row["row"]))
        else:
            assert row["copies"] is None and row["kept_by"] == place[row["kept_by_file"], row["kept_by_row"]]["id"]


def test_a_chain_is_cut_where_the_ends_differ(shared, tmp_path):
    case = expected(shared, "chain")
    found = [short(row) for row in run(shared, "chain", tmp_path / "out").rows]
    kept = [[row["file"], row["row"]] for row in found if row["keep"]]
    assert [row["id"] for row in found] == [row["id"] for row in case["rows"]] and len(kept) > 1
    for row in found:
        assert row["keep"] or (row["similarity"] >= 0.75 and row["kept_by"] in kept)
    assert found == case["rows"]  # LSH misses none of these pairs


@pytest.mark.parametrize("case", EVALS)
def test_decontaminate_keeps_what_the_case_keeps(case, shared, tmp_path):
    done = run(shared, case, tmp_path / "out", evals=str(shared / "cases" / case / "evals.jsonl"))
    assert done.code == 0 and [row["keep"] for row in done.rows] == expected(shared, case)["keep"]
    if "checkable" in expected(shared, case):
        assert pq.read_table(tmp_path / "out" / "evals.parquet")["checkable"].to_pylist() == expected(shared, case)["checkable"]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_loses_nothing_silently(name, shared, tmp_path):
    done = call("dedup", [shared / "cases" / "broken-files" / name], tmp_path / "out")
    counts = expected(shared, "broken-files")["files"][name]
    assert done.code == 0 and len(done.rows) == done.counts["read"] and len(done.faults) == done.counts["quarantined"]
    if name == "truncated.jsonl.gz":
        assert len(done.rows) > 0 and [fault["reason"] for fault in done.faults] == ["truncated"]
        assert done.faults[0]["row"] == len(done.rows)
    else:
        assert {key: done.counts[key] for key in counts} == counts
    assert ("quarantined" in done.err) == bool(done.faults) and ("holds no row" in done.err) == (name == "empty.jsonl")


@pytest.mark.parametrize("name", ["bad-line.jsonl", "bad-utf8.jsonl", "bom-crlf.jsonl", "null-text.jsonl", "surrogate.jsonl"])
def test_rows_and_faults_are_every_line_that_is_not_blank(name, shared, tmp_path):
    path = shared / "cases" / "broken-files" / name
    done = call("dedup", [path], tmp_path / "out")
    wanted = [row for row, line in enumerate(path.read_bytes().split(b"\n")) if line.strip()]
    assert sorted([row["row"] for row in done.rows] + [fault["row"] for fault in done.faults]) == wanted


def test_broken_files_together_are_the_sum_of_them(shared, tmp_path):
    folder = shared / "cases" / "broken-files"
    together = call("dedup", [folder / name for name in BROKEN], tmp_path / "all")
    apart = [call("dedup", [folder / name], tmp_path / name) for name in BROKEN]
    places = [[(row["file"], row["row"], row["id"]) for row in done.rows] for done in (together, *apart)]
    assert together.code == 0 and places[0] == sum(places[1:], []) and together.faults == sum((done.faults for done in apart), [])
    assert together.err.count("quarantined") == 1
