from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
import zstandard

from tests.commands import call

BASE = " ".join(f"word{n}" for n in range(40))
TEXTS = [BASE, BASE.upper(), "something else entirely", BASE + " end", BASE]  # row 3 stays for 0, 1, 3 and 4
KEPT = [2, 3]
UNPACK = {".jsonl": bytes, ".jsonl.gz": gzip.decompress, ".jsonl.bz2": bz2.decompress, ".jsonl.xz": lzma.decompress,
          ".jsonl.zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)}
PACK = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.bz2": bz2.compress, ".jsonl.xz": lzma.compress, ".jsonl.zst": zstandard.compress}
QUESTION = "which river flows through seven countries before it reaches the wide delta on the shallow northern sea"
DEDUP_COLUMNS = {"file": "string", "row": "int64", "source_id": "string", "id": "string", "keep": "bool", "kind": "string", "kept_by": "string",
                 "kept_by_file": "string", "kept_by_row": "int64", "similarity": "double", "copies": "int64"}
DECONTAMINATE_COLUMNS = {"file": "string", "row": "int64", "source_id": "string", "id": "string", "keep": "bool", "hits": "int64", "fraction": "double",
                         "items": "list<element: string>", "first_start": "int64", "first_end": "int64"}


def lines(texts: list[str] = TEXTS, **columns: Any) -> bytes:
    return b"".join(json.dumps({"text": text, "n": n, **columns}).encode() + b"\n" for n, text in enumerate(texts))


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


# kept/NAME.

@pytest.mark.parametrize("suffix", PACK)
def test_kept_lines_are_the_same_bytes_under_the_same_name(suffix, tmp_path):
    data = b"\xef\xbb\xbf" + lines().replace(b'{"text": "something', b'{ "text":"something')[:-1]  # a BOM, and no newline at the end
    done = call("dedup", [put(tmp_path / f"a{suffix}", PACK[suffix](data))], tmp_path / "out")
    wanted = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert UNPACK[suffix]((tmp_path / "out" / "kept" / f"a{suffix}").read_bytes()) == b"".join(wanted[row] + b"\n" for row in KEPT)
    assert [row["row"] for row in done.rows if row["keep"]] == KEPT and done.counts["kinds"] == {"near": 3}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()])
def test_parquet_columns_are_untouched(kind, tmp_path):
    table = pa.table({"n": pa.array(range(5), pa.int16()), "text": pa.array(TEXTS).cast(pa.string()), "tags": [[{"k": n}] for n in range(5)]})
    table = table.set_column(1, pa.field("text", kind, metadata={"lang": "en"}), table["text"].combine_chunks().cast(kind)).replace_schema_metadata({"who": "me"})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    done = call("dedup", [tmp_path / "a.parquet"], tmp_path / "out")
    found = pq.read_table(tmp_path / "out" / "kept" / "a.parquet")
    assert found.schema.equals(pq.read_schema(tmp_path / "a.parquet"), check_metadata=True)
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert found.to_pylist() == [rows[n] for n in KEPT] and [row["row"] for row in done.rows] == list(range(5))


def test_files_of_several_formats_are_one_corpus(tmp_path):
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "b.parquet")
    files = [put(tmp_path / "c.jsonl.gz", gzip.compress(lines())), tmp_path / "b.parquet", put(tmp_path / "a.jsonl", b"\n" + lines())]
    done = call("dedup", files, tmp_path / "out", workers=2)
    assert [row["file"] for row in done.rows] == ["c.jsonl.gz"] * 5 + ["b.parquet"] * 5 + ["a.jsonl"] * 5  # input order
    assert [(row["file"], row["row"], row["copies"]) for row in done.rows if row["keep"]] == [("a.jsonl", 3, 3), ("a.jsonl", 4, 12)]
    assert {(row["kept_by_file"], row["kept_by_row"]) for row in done.rows if not row["keep"]} == {("a.jsonl", 3), ("a.jsonl", 4)}
    assert pq.read_table(tmp_path / "out" / "kept" / "b.parquet").num_rows == 0 and gzip.decompress((tmp_path / "out" / "kept" / "c.jsonl.gz").read_bytes()) == b""


@pytest.mark.parametrize("name", ["a b.jsonl", "a#b%20.jsonl", "a::b.jsonl", "[a].jsonl", "wörter-日本.jsonl", "a'\"b.jsonl", "-a.jsonl", "a.b.JSONL", "noname", "{text}.jsonl"])
def test_file_names_of_any_characters(name, tmp_path):
    done = call("dedup", [put(tmp_path / "in" / name, lines())], tmp_path / "out", priority=[str(tmp_path / "in" / name)])
    assert done.code == 0 and {row["file"] for row in done.rows} == {name} and (tmp_path / "out" / "kept" / name).read_bytes().count(b"\n") == 2


def test_a_glob_names_its_files_in_order(tmp_path):
    for name in ("b", "a"):
        put(tmp_path / f"{name}.jsonl", lines())
    assert [row["file"] for row in call("dedup", [tmp_path / "*.jsonl"], tmp_path / "out").rows] == ["a.jsonl"] * 5 + ["b.jsonl"] * 5


# dedup.parquet, quarantine.jsonl, manifest.json, report.html.

def test_the_tables_of_dedup(tmp_path):
    done = call("dedup", [put(tmp_path / "a.jsonl", lines())], tmp_path / "out")
    schema = pq.read_schema(tmp_path / "out" / "dedup.parquet")
    assert {field.name: str(field.type) for field in schema} == DEDUP_COLUMNS
    assert [row["id"] for row in done.rows] == [xxhash.xxh3_128_hexdigest(text.encode()) for text in TEXTS]
    assert done.rows[0] == {"file": "a.jsonl", "row": 0, "source_id": None, "id": done.rows[0]["id"], "keep": False, "kind": "near", "kept_by": done.rows[3]["id"],
                            "kept_by_file": "a.jsonl", "kept_by_row": 3, "similarity": pytest.approx(36 / 37), "copies": None}
    assert done.rows[3]["copies"] == 4 and done.rows[3]["kind"] == "unique" and done.rows[3]["similarity"] is None
    assert done.counts == {"read": 5, "kept": 2, "removed": 3, "edited": 0, "quarantined": 0, "reasons": {}, "kinds": {"near": 3}}
    assert done.manifest["settings"]["dedup"]["threshold"] == 0.75 and done.manifest["versions"]["cuvee"] and done.manifest["complete"] is True
    page = (tmp_path / "out" / "report.html").read_text()
    assert "a.jsonl:3" in page and "Counts add up" in page and not (tmp_path / "out" / ".work").exists()


def test_faults_are_written_with_place_and_reason(tmp_path):
    data = b'{"text": "one"}\n\nbroken {\n{"text": null}\n{"no": 1}\n[1]\n{"text": "\\ud800"}\n{"text": "\xff"}\n{"text": "two"}'
    files = [put(tmp_path / "a.jsonl", data), put(tmp_path / "b.jsonl", data)]
    done = call("dedup", files, tmp_path / "out")
    reasons = {2: "bad_json", 3: "no_text", 4: "no_text", 5: "bad_json", 6: "lone_surrogate", 7: "bad_utf8"}
    assert [(fault["file"], fault["row"], fault["reason"]) for fault in done.faults] == [(file.name, *each) for file in files for each in reasons.items()]
    assert all(list(fault) == ["file", "row", "reason", "detail"] and fault["detail"] for fault in done.faults)
    assert [row["row"] for row in done.rows] == [0, 8, 0, 8] and done.counts["quarantined"] == 12 and done.counts["reasons"]["no_text"] == 4
    assert done.code == 0 and [line for line in done.err.splitlines() if "quarantined" in line] == [
        f"12 rows quarantined (4 bad_json, 2 bad_utf8, 2 lone_surrogate, 4 no_text); see {tmp_path}/out/quarantine.jsonl"]


def test_an_empty_file_gives_empty_outputs_and_a_warning(tmp_path):
    done = call("dedup", [put(tmp_path / "a.jsonl", b"")], tmp_path / "out")
    assert (done.code, done.rows, (tmp_path / "out" / "kept" / "a.jsonl").read_bytes()) == (0, [], b"") and "a.jsonl holds no row" in done.err
    assert done.counts["read"] == 0


@pytest.mark.parametrize("texts, loud", [(["one", "two"], "removed 0 of 2 rows"), (["one"] * 9, "removed 8 of 9 rows"), (["one", "one", "two"], None)])
def test_removing_nothing_or_most_is_a_warning(texts, loud, tmp_path):
    done = call("dedup", [put(tmp_path / "a.jsonl", lines(texts))], tmp_path / "out")
    assert done.code == 0 and ("WARNING" in done.err) == (loud is not None) and (loud or "") in done.err
    assert ((loud or "never") in (tmp_path / "out" / "report.html").read_text()) == (loud is not None)


# Options.

def test_text_and_id_columns(tmp_path):
    data = b"".join(json.dumps({"body": text, "key": key, "id": "mine"}).encode() + b"\n" for text, key in zip(TEXTS, [7, "x", None, [1], 2.5]))
    done = call("dedup", [put(tmp_path / "a.jsonl", data)], tmp_path / "out", text="body", id="key")
    assert [row["source_id"] for row in done.rows] == ["7", "x", None, "[1]", "2.5"] and done.counts["kept"] == 2
    assert {row["source_id"] for row in call("dedup", [tmp_path / "a.jsonl"], tmp_path / "b", text="body").rows} == {"mine"}


def test_a_template_joins_columns(tmp_path):
    records = [{"title": "A {b}", "body": BASE}, {"title": "a b", "body": BASE.upper()}, {"title": "another thing", "body": "x"}, {"title": None, "body": "y"}]
    done = call("dedup", [put(tmp_path / "a.jsonl", b"".join(json.dumps(each).encode() + b"\n" for each in records))], tmp_path / "out", text="{title}\n\n{body}")
    assert sorted(row["kind"] for row in done.rows) == ["normalised", "unique", "unique"]
    assert done.rows[0]["id"] == xxhash.xxh3_128_hexdigest(f"A {{b}}\n\n{BASE}".encode()) and "'title' is NoneType" in done.faults[0]["detail"]


def test_priority_files_win_in_the_order_named(tmp_path):
    files = [put(tmp_path / f"{name}.jsonl", lines([BASE + " x" * n])) for n, name in enumerate("abc")]
    keeper = [next(row["file"] for row in call("dedup", files, tmp_path / f"o{n}", priority=priority).rows if row["keep"]) for n, priority in enumerate(
        [[], [files[0]], [files[1], files[0]], ["a.jsonl", files[1]], [files[2], files[0], files[2]]])]
    assert keeper == ["c.jsonl", "a.jsonl", "b.jsonl", "a.jsonl", "c.jsonl"]


def test_threshold_and_containment(tmp_path):
    path = put(tmp_path / "a.jsonl", lines([BASE, " ".join(BASE.split()[:34])]))  # 30 of 36 shingles
    assert [call("dedup", [path], tmp_path / str(n), **options).counts["kept"] for n, options in enumerate(
        [{}, {"threshold": 0.9}, {"threshold": 0.9, "containment": 1}])] == [1, 2, 1]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("spans", ["paragraph", "three_sentences"])
def test_spans_change_the_text_alone(spans, suffix, tmp_path):
    said = "Öne has been said. Two has been said too. Three is the last of them."
    texts = [f"{said}\n{BASE}", f"{BASE.replace('word', 'other')}\n{said}", "clean as it was", f"Ah. {said.upper()}"]
    records = [{"n": n, "text": text, "x": [n]} for n, text in enumerate(texts)]
    path = put(tmp_path / "a.jsonl", b"".join(json.dumps(each).encode() + b"\n" for each in records)) if suffix == "jsonl" else tmp_path / "a.parquet"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    done = call("dedup", [path], tmp_path / "out", spans=spans)
    kept = tmp_path / "out" / "kept" / path.name
    found = pq.read_table(kept).to_pylist() if suffix == "parquet" else [json.loads(line) for line in kept.read_bytes().splitlines()]
    cut = {**records[0], "text": BASE}  # the shorter of the two, filtered again: it has 20 words
    last = [records[3]] if spans == "paragraph" else []
    assert found == [cut, records[1], records[2], *last] and [row["kind"] for row in done.rows][3] == ("unique" if last else "filtered_again")
    assert done.counts["edited"] == 1 and done.counts["kinds"] == ({} if last else {"filtered_again": 1}) and list(done.rows[0]) == list(DEDUP_COLUMNS)


# What is refused, before any work.

@pytest.mark.parametrize("files, options, said", [
    (["missing.jsonl"], {}, "no such file: .*missing.jsonl"), (["pipe.jsonl"], {}, "pipe.jsonl is not a regular file .* Write it to disk"), (["*.nothing"], {}, "no file matches"), (["a.jsonl", "sub/a.jsonl"], {}, "files are named a.jsonl"),
    (["a.jsonl", "a.jsonl"], {}, "files are named a.jsonl"), (["a.parquet"], {}, "a.parquet: no column 'text'. Columns: body"),
    (["a.jsonl", "b.parquet"], {"id": "key"}, "no column 'key'"), (["a.jsonl"], {"priority": "other.jsonl"}, "--priority other.jsonl: not among"),
    (["a.jsonl"], {"threshold": 0}, "--threshold 0"), (["a.jsonl"], {"threshold": 1.5}, "--threshold 1.5"), (["a.jsonl"], {"engine": "slurm"}, "--engine slurm"),
    (["a.jsonl"], {"text": "{open"}, "is no template"), (["a.jsonl"], {"spans": "words"}, "--spans words"),
    (["a.jsonl"], {"text": "{text} {n}", "spans": "paragraph"}, "--spans with --text .* cannot be cut"), (["a.jsonl"], {"workers": 0}, "--workers 0")])
def test_a_wrong_call_is_exit_2_and_leaves_nothing(files, options, said, tmp_path):
    for name in ("a.jsonl", "sub/a.jsonl"):
        put(tmp_path / name, lines())
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "b.parquet")
    os.mkfifo(tmp_path / "pipe.jsonl")
    done = call("dedup", [tmp_path / name for name in files], tmp_path / "out", **options)
    assert done.code == 2 and re.search(said, done.err) and done.err.startswith("error: ") and not (tmp_path / "out").exists()


@pytest.mark.parametrize("data, said", [(lines().replace(b'"text"', b'"body"'), "columns here: body, n"), (b"not json\n" * 3, "bad_json"), (b"PAR1 and then nothing", "corrupt")])
def test_a_file_without_a_readable_row_is_exit_1_and_the_folder_can_be_used_again(data, said, tmp_path):
    done = call("dedup", [put(tmp_path / "a.jsonl", data), put(tmp_path / "b.jsonl", lines())], tmp_path / "out")
    assert done.code == 1 and "a.jsonl: no row could be read" in done.err and said in done.err
    again = call("dedup", [tmp_path / "a.jsonl"], tmp_path / "out", text="body")
    assert again.code == (0 if b"body" in data else 1)


def test_a_folder_of_other_results_is_refused(tmp_path):
    path = put(tmp_path / "a.jsonl", lines())
    before = call("dedup", [path], tmp_path / "out") and contents(tmp_path / "out")
    for options in ({"threshold": 0.9}, {"text": "n"}, {"priority": "a.jsonl"}):
        done = call("dedup", [path], tmp_path / "out", **options)
        assert done.code == 2 and "holds the results of other inputs or settings" in done.err
    put(path, lines() + lines())
    assert call("dedup", [path], tmp_path / "out").code == 2 and contents(tmp_path / "out") == before
    put(tmp_path / "other" / "manifest.json", b"[]")
    assert call("dedup", [path], tmp_path / "other").code == 2 and call("dedup", [path], path).code == 2


def test_the_same_call_again_does_nothing(tmp_path):
    path = put(tmp_path / "a.jsonl", lines())
    first = call("dedup", [path], tmp_path / "out")
    stamps = {file: os.stat(file).st_mtime_ns for file in (tmp_path / "out").rglob("*")}
    again = call("dedup", [path], tmp_path / "out")
    assert again.code == 0 and "done before" in again.err and again.out == first.out
    assert {file: os.stat(file).st_mtime_ns for file in (tmp_path / "out").rglob("*")} == stamps


@pytest.mark.slow
@pytest.mark.parametrize("step", ["ingest", "dedup.sign", "dedup.edges", "rows"])
def test_a_call_that_is_killed_in_a_step_ends_as_an_undisturbed_one(step, tmp_path):
    rng = random.Random(0)
    texts = [" ".join(rng.choices(BASE.split(), k=100)) for _ in range(3_000)]
    path = put(tmp_path / "a.jsonl", lines([rng.choice(texts) + rng.choice(["", " end", " word1"]) for _ in range(9_000)]))
    running = subprocess.Popen([sys.executable, "-m", "cuvee", "dedup", str(path), "-o", str(tmp_path / "out"), "--workers", "1"], stderr=subprocess.DEVNULL)
    while not (tmp_path / "out" / ".work" / step).exists() and running.poll() is None:
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL and not json.loads((tmp_path / "out" / "manifest.json").read_text())["complete"]
    assert call("dedup", [path], tmp_path / "out").code == 0 and call("dedup", [path], tmp_path / "other").code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "other")


def test_a_text_of_four_million_words_is_not_compared(tmp_path):
    words = " ".join(map(str, range(1_000)))
    long = " ".join([words] * 4_100)
    done = call("dedup", [put(tmp_path / "a.jsonl", lines([long, long.replace(" ", ", "), words]))], tmp_path / "out")
    assert [row["kind"] for row in done.rows] == ["normalised", "not_candidate", "unique"] and done.rows[1]["copies"] == 2


# Decontaminate.

@pytest.fixture
def quiz(tmp_path):
    put(tmp_path / "quiz.jsonl", lines([QUESTION, "too short"]))
    return tmp_path


def test_the_tables_of_decontaminate(quiz):
    texts = ["clean and plain text of no item", f"So: {QUESTION.title()}? Well."]
    done = call("decontaminate", [put(quiz / "a.jsonl", b"\n" + lines(texts, id=3))], quiz / "out", evals=str(quiz / "quiz.jsonl"), fields="text")
    assert {field.name: str(field.type) for field in pq.read_schema(quiz / "out" / "decontaminate.parquet")} == DECONTAMINATE_COLUMNS
    start = texts[1].index("Which")
    words = len(QUESTION.split())
    assert [{name: row[name] for name in DECONTAMINATE_COLUMNS if name != "id"} for row in done.rows] == [
        {"file": "a.jsonl", "row": 1, "source_id": "3", "keep": True, "hits": 0, "fraction": 0.0, "items": [], "first_start": None, "first_end": None},
        {"file": "a.jsonl", "row": 2, "source_id": "3", "keep": False, "hits": words - 12, "fraction": words / (words + 2), "items": ["quiz.jsonl:0"],
         "first_start": start, "first_end": start + len(QUESTION)}]
    assert pq.read_table(quiz / "out" / "evals.parquet").to_pylist() == [
        {"file": "quiz.jsonl", "row": 0, "source_id": None, "words": words, "features": words - 12, "set_aside": 0, "checkable": True, "documents": 1},
        {"file": "quiz.jsonl", "row": 1, "source_id": None, "words": 2, "features": 0, "set_aside": 0, "checkable": False, "documents": 0}]
    assert pq.read_table(quiz / "out" / "set_aside.parquet").column_names == ["text", "documents", "sources", "items"]
    assert (quiz / "out" / "kept" / "a.jsonl").read_bytes() == lines(texts, id=3).split(b"\n")[0] + b"\n"
    assert done.counts == {"read": 2, "kept": 1, "removed": 1, "edited": 0, "quarantined": 0, "reasons": {}, "kinds": {}}
    assert "quiz.jsonl:0" in (quiz / "out" / "report.html").read_text() and "a.jsonl:2" in (quiz / "out" / "report.html").read_text()


@pytest.mark.parametrize("rule, kept", [("any", 1), ("hits:99", 2), ("fraction:0.5", 1), ("fraction:0.95", 2), ("cut", 2)])
def test_rules(rule, kept, quiz):
    done = call("decontaminate", [put(quiz / "a.jsonl", lines(["clean", f"So: {QUESTION}? Well."]))], quiz / "out", evals=str(quiz / "quiz.jsonl"), rule=rule)
    assert done.counts["kept"] == kept and [row["hits"] > 0 for row in done.rows] == [False, True]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_cut_changes_the_text_alone(suffix, quiz):
    records = [{"n": 1, "text": "clean", "x": [1]}, {"n": 2, "text": f"Só: {QUESTION}? Well.", "x": [2]}, {"n": 3, "text": QUESTION, "x": []}]
    path = put(quiz / "a.jsonl", b"".join(json.dumps(each).encode() + b"\n" for each in records)) if suffix == "jsonl" else quiz / "a.parquet"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    done = call("decontaminate", [path], quiz / "out", evals=str(quiz / "quiz.jsonl"), rule="cut")
    assert done.counts["edited"] == 1
    kept = quiz / "out" / "kept" / path.name
    found = pq.read_table(kept).to_pylist() if suffix == "parquet" else [json.loads(line) for line in kept.read_bytes().splitlines()]
    assert found == [records[0], {**records[1], "text": "Só: ? Well."}]
    assert suffix == "parquet" or kept.read_bytes().split(b"\n")[0] == json.dumps(records[0]).encode()


@pytest.mark.parametrize("change, said", [
    ({"evals": "a.jsonl"}, "named both as input and as --evals"), ({"evals": "sub/../a.jsonl"}, "named both as input"), ({"evals": "missing.jsonl"}, "no such file"), ({"evals": "pipe.jsonl"}, "not a regular file"),
    ({"rule": "hits:0"}, "--rule hits:0: write any, hits:N"), ({"rule": "some"}, "--rule some"), ({"rule": "cut", "text": "{text} {n}"}, "a span of several columns cannot be cut"),
    ({"evals": ["quiz.jsonl", "sub/quiz.jsonl"]}, "files are named quiz.jsonl")])
def test_a_wrong_call_of_decontaminate_is_exit_2(change, said, quiz):
    put(quiz / "sub" / "quiz.jsonl", lines())
    os.mkfifo(quiz / "pipe.jsonl")
    evals = change.get("evals", "quiz.jsonl")
    options = {**change, "evals": [str(quiz / name) for name in (evals if isinstance(evals, list) else [evals])]}
    done = call("decontaminate", [put(quiz / "a.jsonl", lines())], quiz / "out", **options)
    assert done.code == 2 and said in done.err and not (quiz / "out").exists()
