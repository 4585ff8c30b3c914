"""Recipes over broken inputs: each gives an error that says what, where and what to do, or a counted quarantine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import yaml

from cuvee import pipeline
from cuvee.engine.local import LocalEngine
from cuvee.engine.store import read_json
from cuvee.errors import DataError, RecipeError, UsageError

WORDS = "Each of these words is another one so that nothing here repeats itself and the text is long enough to be kept number {}."
GOOD = [json.dumps({"text": WORDS.format(n)}) for n in range(5)]
FAULTS = {
    "broken_json": ("\n".join([*GOOD[:2], '{"text": "cut', *GOOD[2:]]).encode(), 5, {"bad_json": 1}),
    "truncated": (gzip.compress("\n".join(GOOD * 2_000).encode())[:-300], None, {"truncated": 1}),
    "lone_surrogate": ("\n".join([*GOOD, '{"text": "x \\udc00"}']).encode(), 5, {"lone_surrogate": 1}),
    "latin_1": ("\n".join(GOOD).encode() + b'\n{"text": "caf\xe9"}', 5, {"bad_utf8": 1}),
    "no_text": ("\n".join([*GOOD, '{"txt": "x"}', '{"text": null}']).encode(), 5, {"no_text": 2}),
    "huge": (json.dumps({"text": "word and another " * 3_200_000}).encode() + b"\n" + "\n".join(GOOD).encode(), 6, {}),
    "too_long": (json.dumps({"text": "word and another " * 4_500_000}).encode() + b"\n" + "\n".join(GOOD).encode(), 5, {"too_long": 1}),
    "empty": (b"", 0, {}),
}


def run(tmp_path: Path, sources: list[dict], **sections) -> pipeline.Run:
    (tmp_path / "r.yaml").write_text(yaml.safe_dump({"work": "work", "sources": sources, **sections}))
    return pipeline.run(str(tmp_path / "r.yaml"), LocalEngine(1), until="dedup")


def source(tmp_path: Path, name: str, data: bytes) -> dict:
    (tmp_path / f"{name}.jsonl").write_bytes(data)
    return {"name": name, "path": f"{name}.jsonl", "license": "MIT"}


def test_every_fault_is_counted_and_counts_add_up(tmp_path, capsys):
    done = run(tmp_path, [source(tmp_path, name, data) for name, (data, _, _) in FAULTS.items()])
    current = done.work.current()
    for name, (_, read, reasons) in FAULTS.items():
        ingest, filtered = current[f"ingest/{name}"].counts, current[f"filter/{name}"].counts
        assert ingest["reasons"] == reasons and (read is None or ingest["read"] == read)
        assert ingest["documents"] == ingest["read"] == filtered["read"] == filtered["kept"] + sum(filtered["dropped"].values())
    kept = sum(current[f"filter/{name}"].counts["kept"] for name in FAULTS)
    assert current["decontaminate"].counts["read"] == current["dedup"].counts["read"] == kept
    assert sum(current["dedup"].counts["kinds"].values()) == kept
    said = capsys.readouterr().err
    assert "source truncated: 1 rows quarantined (1 truncated)" in said and "warning: source empty is empty" in said
    assert "WARNING: dedup removed" in said


@pytest.mark.parametrize("change, error, message", [
    ({"dedupe": {}}, RecipeError, "unknown key 'dedupe'.* Did you mean 'dedup'"),
    ({"sources": [{"name": "a", "path": "good.jsonl"}]}, RecipeError, "no licence"),
    ({"sources": [{"name": "a", "path": "gone.jsonl", "license": "MIT"}]}, UsageError, "source a: no such file: .*gone.jsonl"),
    ({"sources": [{"name": "a", "path": "*.none", "license": "MIT"}]}, UsageError, "source a: no file matches"),
    ({"sources": [{"name": "a", "path": "good.jsonl", "text": "body", "license": "MIT"}]}, DataError, "columns here: text"),
    ({"evals": [{"name": "e", "path": "gone.jsonl"}]}, UsageError, "e: no such file"),
    ({"evals": [{"name": "e", "path": "short.jsonl", "fields": ["questin"]}]}, DataError, "no record has the field 'questin'. Did you mean 'question'"),
    ({"evals": [{"name": "e", "path": "short.jsonl", "required": True}]}, DataError, "e.*short|short.*e|no feature"),
])
def test_what_cannot_be_run_is_an_error_that_names_it(tmp_path, change, error, message):
    good = source(tmp_path, "good", "\n".join(GOOD).encode())
    (tmp_path / "short.jsonl").write_text('{"question": "Why?"}')
    with pytest.raises(error, match=message):
        run(tmp_path, **{"sources": [good], **change})


def test_a_usage_error_comes_before_any_work(tmp_path):
    good = source(tmp_path, "good", "\n".join(GOOD).encode())
    with pytest.raises(UsageError):
        run(tmp_path, [good, {"name": "b", "path": "gone.jsonl", "license": "MIT"}])
    assert not (tmp_path / "work" / "ingest").exists()


def test_a_source_that_would_read_the_work_folder_is_refused(tmp_path):
    good = source(tmp_path, "good", "\n".join(GOOD).encode())
    run(tmp_path, [good])
    with pytest.raises(UsageError, match="source good would read .*which is in the work folder"):
        run(tmp_path, [{**good, "path": "**/*.jsonl"}])


def test_a_link_that_leads_nowhere_is_told(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").symlink_to("/gone")
    with pytest.raises(UsageError, match="a.jsonl: no such file"):
        run(tmp_path, [{"name": "a", "path": "in", "license": "MIT"}])


def test_a_corpus_of_which_nothing_is_left_says_so(tmp_path):
    good = source(tmp_path, "good", b'{"text": ""}\n{"text": "..."}')
    run(tmp_path, [good])
    with pytest.raises(DataError, match="no document is left to embed"):
        pipeline.run(str(tmp_path / "r.yaml"), LocalEngine(1))


def test_an_eval_that_is_missing_is_told_before_anything_is_read(tmp_path):
    good = source(tmp_path, "good", "\n".join(GOOD).encode())
    with pytest.raises(UsageError):
        run(tmp_path, [good], evals=[{"name": "e", "path": "gone.jsonl"}])
    assert not (tmp_path / "work" / "ingest").exists()


def test_the_broken_files_that_others_reported(shared, tmp_path):
    folder = shared / "cases" / "broken-files"
    expected = json.loads((folder / "expected.json").read_text())["files"]
    names = {name: f"s{number}" for number, name in enumerate(expected)}
    done = run(tmp_path, [{"name": own, "path": str(folder / name), "license": "MIT"} for name, own in names.items()])
    for name, want in expected.items():
        counts = done.work.current()[f"ingest/{names[name]}"].counts
        if isinstance(want, dict):
            assert {key: counts[key] for key in want} == want
        else:
            assert counts["read"] > 0 and counts["reasons"] == {"truncated": 1}
    assert read_json(str(tmp_path / "work" / "current.json"))
