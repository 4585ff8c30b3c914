from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.shard import Table
from cuvee.engine.step import Step, Task
from cuvee.engine.store import Output, read_bytes
from cuvee.errors import DataError
from cuvee.record import EDITS
from cuvee.steps import decontaminate, ingest
from cuvee.steps.documents import shards
from cuvee.steps.overlap.evals import lists

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


def test_the_rule_any_is_that_of_a_slow_reference(tmp_path):
    rng = random.Random(0)
    words = [f"w{n}" for n in range(30)]
    items = [" ".join(rng.choices(words, k=rng.randint(5, 30))) for _ in range(40)]
    docs = [" ".join(rng.choices(words, k=50)) for _ in range(60)]
    docs += [" ".join([*rng.choices(words, k=9), *rng.choice(items).split()[rng.randint(0, 9):], *rng.choices(words, k=9)]) for _ in range(140)]
    path = write(tmp_path / "docs.jsonl", [{"text": text} for text in docs])
    evals = [{"name": "e", "path": write(tmp_path / "e.jsonl", [{"question": item} for item in items])}]
    work, _, table = decontaminated(tmp_path, {"s": path}, evals)
    known = [runs(item.split(), min(13, max(8, len(item.split())))) for item in items]
    for row, text in zip(rows(table), docs):
        have = {n: runs(text.split(), n) for n in range(8, 14)}
        found = {run for item in known for run in item if run in have[len(run)]}
        covered = {place for run in found for place in places(text.split(), run)}
        holding = [f"e:{n}" for n, item in enumerate(known) if item & found]
        assert (row["keep"], row["hits"], row["items"]) == (not found, len(found), holding)
        assert row["fraction"] == pytest.approx(len(covered) / len(text.split()))
    assert 20 < sum(row["keep"] for row in rows(table)) < 180
    assert [item["documents"] for item in report(work, "evals.parquet")] == [
        sum(f"e:{n}" in row["items"] for row in rows(table)) for n in range(len(items))]


def runs(words: list[str], length: int) -> set[tuple[str, ...]]:
    found = {tuple(words[start:start + length]) for start in range(len(words) - length + 1)}
    return {run for run in found if len(set(run)) >= 6}


def places(words: list[str], run: tuple[str, ...]) -> set[int]:
    starts = [start for start in range(len(words)) if tuple(words[start:start + len(run)]) == run]
    return {start + place for start in starts for place in range(len(run))}


def questions(tmp_path: Path, **more) -> list[dict]:
    return [{"name": "e", "path": write(tmp_path / "e.jsonl", [{"question": QUESTION}]), **more}]


DOCS = [f"Before. {QUESTION.upper()}? After.", FILLER, QUESTION, f"{' '.join(QUESTION.split()[:13])} {FILLER}"]


def documents_of(tmp_path: Path) -> dict[str, str]:
    return {"s": write(tmp_path / "docs.jsonl", [{"text": text} for text in DOCS])}


@pytest.mark.parametrize("rule, keep", [("any", [0, 1, 0, 0]), ("hits:2", [0, 1, 0, 1]), ("fraction:0.5", [0, 1, 0, 1]),
                                        ("fraction:0.4", [0, 1, 0, 0]), ("cut", [1, 1, 0, 1])])
def test_rules_by_hand(rule, keep, tmp_path):  # 17 words are 5 features; 13 of 30 words are 43 %
    _, _, table = decontaminated(tmp_path, documents_of(tmp_path), questions(tmp_path), rule=rule)
    assert [row["keep"] for row in rows(table)] == keep
    assert [row["hits"] for row in rows(table)] == [5, 0, 5, 1]
    assert (rows(table)[0]["first_start"], rows(table)[0]["first_end"], rows(table)[1]["first_start"]) == (8, 8 + len(QUESTION), None)


def test_cut_leaves_the_text_without_the_span(tmp_path):
    _, documents, table = decontaminated(tmp_path, documents_of(tmp_path), questions(tmp_path), rule="cut")
    texts = shards(documents, table)[0].read(("text",))["text"].to_pylist()
    assert texts == ["Before. ? After.", FILLER, f" {FILLER}"]


def test_a_rule_change_decides_again_and_reads_no_text(tmp_path):
    decontaminated(tmp_path, documents_of(tmp_path), questions(tmp_path))
    work, *_ = decontaminated(tmp_path, documents_of(tmp_path), questions(tmp_path), rule="hits:2")
    assert work.done == ["decontaminate", "decontaminate.report"]


def test_a_span_is_in_bytes_of_the_stored_text_whatever_was_normalised_or_edited(tmp_path):
    composed = QUESTION.replace("reaches", "réaches")
    stored = "e\u0301e\u0301 mail me@x.org " + composed.replace("é", "e\u0301") + " e\u0301e\u0301"
    path = write(tmp_path / "docs.jsonl", [{"text": stored}])
    evals = [{"name": "e", "path": write(tmp_path / "e.jsonl", [{"question": composed.replace("é", "e\u0301")}])}]
    work, documents, _ = decontaminated(tmp_path, {"s": path}, evals)
    at = stored.encode().index(b"me@x.org")
    shard = documents.read("s/" + documents.shards[0].split("/")[1])
    filtered = pa.table({"row": [0], "id": shard["id"], "keep": [True],
                         "edits": pa.array([[{"start": at, "end": at + 8, "replacement": "SOMEBODY SOMEWHERE"}]], EDITS)})
    step = work.do(Step("filter", 1, source="s"), [Task("t", put_table, {"name": documents.shards[0].split("/")[1], "table": filtered})])
    recipe = Recipe(work=work.url, sources=[{"name": "s", "path": path, "license": "MIT"}], evals=evals, decontaminate={"rule": "cut"})
    verdict = Table.of("filter", [step])
    row = rows(decontaminate.run(work, recipe, documents, verdict))[0]
    assert stored.encode()[row["first_start"]:row["first_end"]].decode() == composed.replace("é", "e\u0301")
    left = shards(documents, verdict, decontaminate.run(work, recipe, documents, verdict))[0].read(("text",))["text"].to_pylist()
    assert left == ["e\u0301e\u0301 mail SOMEBODY SOMEWHERE  e\u0301e\u0301"]


def put_table(out: Output, name: str, table: pa.Table) -> dict:
    out.table(f"{name}.parquet", table)
    return {}


def test_a_shared_prompt_is_set_aside_but_not_the_questions(tmp_path):
    prompt = " ".join(QUESTION.split()[:13])
    own = [" ".join(f"q{item}x{word}" for word in range(15)) for item in range(3)]
    evals = [{"name": "e", "path": write(tmp_path / "e.jsonl", [{"question": f"{prompt} {text}"} for text in own])}]
    filler = [f"{prompt} {number}" if number < 60 else f"nothing {number}" for number in range(10_000)]
    filler += [own[1], f"{prompt} {own[2]}"]
    sources = {name: write(tmp_path / f"{name}.jsonl", [{"text": text} for text in filler[part::3]]) for part, name in enumerate("abc")}
    work, _, table = decontaminated(tmp_path, sources, evals)
    assert sorted(tuple(row["items"]) for row in rows(table) if not row["keep"]) == [("e:1",), ("e:2",)]
    aside = {"text": prompt, "documents": 61, "sources": 3, "items": ["e:0", "e:1", "e:2"]}
    assert report(work, "set_aside.parquet") == [aside]
    assert [(item["set_aside"], item["documents"]) for item in report(work, "evals.parquet")] == [(1, 0), (1, 1), (1, 1)]
    *_, table = decontaminated(tmp_path, sources, evals, boilerplate=False)
    assert sum(not row["keep"] for row in rows(table)) == 62


def test_two_workers_write_what_one_writes(tmp_path):
    found = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        folder.mkdir()
        sources = {name: write(folder / f"{name}.jsonl", [{"text": f"{text} {name}"} for text in DOCS]) for name in "ab"}
        work, _, table = decontaminated(folder, sources, questions(folder), workers)
        found.append((table.digests, work.current()["decontaminate.report"].files, work.current()["decontaminate.scan/a"].files))
    assert found[0] == found[1]


def test_without_evaluations_every_row_is_kept_and_no_text_is_read(tmp_path):
    work, _, table = decontaminated(tmp_path, documents_of(tmp_path), [])
    assert [row["keep"] for row in rows(table)] == [True] * 4
    assert work.current()["decontaminate.scan/s"].counts["bytes"] == 0


def test_a_required_evaluation_without_a_feature_stops(tmp_path):
    evals = [{"name": "e", "path": write(tmp_path / "e.jsonl", [{"question": "why?", "id": QUESTION}]), "required": True}]
    with pytest.raises(DataError, match="e .*none of its 1 records"):
        decontaminated(tmp_path, documents_of(tmp_path), evals)


def test_records_are_read_in_file_order_and_what_is_broken_is_counted(tmp_path):
    nested = {"id": 7, "doc_id": "no", "question": "a", "turns": [{"text": "b", "url": "no"}, "c", 3], "answer": None, "Z": "d"}
    path = tmp_path / "e.jsonl.gz"
    lines = [json.dumps(nested), "{broken", "", '{"turns": "\\ud800"}', json.dumps({"subject": QUESTION, "question": "e"})]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    evals = [{"name": "e", "path": str(path)}, {"name": "named", "path": str(path), "fields": ["subject", "turns"]}]
    work, *_ = decontaminated(tmp_path, documents_of(tmp_path), evals)
    folder = work.current()["decontaminate.features"]
    records = pq.read_table(folder.file("records.parquet")).to_pylist()
    assert [(r["name"], r["source_id"], r["text"]) for r in records] == [
        ("e:0", "7", "a\nb\nc\nd"), ("e:4", None, "e"), ("named:0", "7", "b\nc"), ("named:4", None, QUESTION)]
    faults = [json.loads(line) for line in read_bytes(folder.file("quarantine.jsonl")).splitlines()]
    assert [(f["row"], f["reason"]) for f in faults] == [(1, "bad_json"), (3, "lone_surrogate")] * 2 and folder.counts["quarantined"] == 4


def test_a_unit_is_an_item_or_a_string_of_its_own_by_hand(tmp_path):
    shared = " ".join(QUESTION.split()[:13])
    own = [{"rule": shared, "q": " ".join(f"e\u0301{n}q{word}" for word in range(14)), "a": [" ".join(f"a{n}{word}" for word in range(13)), ""]} for n in range(3)]
    work, *_ = decontaminated(tmp_path, documents_of(tmp_path), [{"name": "e", "path": write(tmp_path / "e.jsonl", own)}])
    _, units = lists(work.current()["decontaminate.features"].file("items.arrow"), "units")
    assert np.bincount(units, minlength=15).tolist() == [28] * 3 + [0, 2, 1, 0] * 3  # 40 words; then rule, q, a[0], a[1] of each
