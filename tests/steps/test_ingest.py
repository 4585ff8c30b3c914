from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
import zstandard

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.shard import Table
from cuvee.errors import DataError, UsageError
from cuvee.steps import ingest

LINES = [json.dumps({"text": f"text number {n}", "n": n}) for n in range(5)]
PLAIN = "\n".join(LINES).encode() + b"\n"


def read(tmp_path: Path, source: dict, **sections) -> tuple[Table, dict, list[dict]]:
    recipe = Recipe(work=str(tmp_path / "work"), sources=[{"name": "s", "license": "MIT", **source}], **sections)
    work = Work(recipe.work, LocalEngine(1))
    documents = ingest.run(work, recipe)
    folder = work.current()["ingest/s"]
    return documents, folder.counts, list(ingest.quarantine(folder))


def rows(documents: Table) -> list[dict]:
    return [row for shard in documents.shards for row in documents.read(shard).to_pylist()]


def put(tmp_path: Path, name: str, data: bytes) -> str:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


BROKEN = [  # data, documents, blank lines, [(row, reason)]
    pytest.param(PLAIN, 5, 0, [], id="plain"),
    pytest.param(PLAIN.rstrip(b"\n"), 5, 0, [], id="no newline at the end"),
    pytest.param(b"\xef\xbb\xbf" + PLAIN.replace(b"\n", b"\r\n") + b"\r\n", 5, 1, [], id="BOM, CRLF and a blank line"),
    pytest.param(b"\n\n" + PLAIN + b"  \n", 5, 3, [], id="blank lines"),
    pytest.param(PLAIN + b'{"text": "a', 5, 0, [(5, "bad_json")], id="a cut last line"),
    pytest.param(b"[1]\n3\nnull\n" + PLAIN, 5, 0, [(0, "bad_json"), (1, "bad_json"), (2, "bad_json")], id="rows that are no objects"),
    pytest.param(b'{"text": "caf\xe9"}\n' + PLAIN, 5, 0, [(0, "bad_utf8")], id="latin-1"),
    pytest.param(b'{"text": "a \\ud800 b"}\n' + PLAIN, 5, 0, [(0, "lone_surrogate")], id="a lone surrogate"),
    pytest.param(b'{"text": "fine", "other": "\\ud800"}\n', 1, 0, [], id="a lone surrogate in another column"),
    pytest.param(b'{"text": null}\n{"text": 5}\n{"body": ""}\n' + PLAIN, 5, 0, [(0, "no_text"), (1, "no_text"), (2, "no_text")], id="no text"),
    pytest.param(b'{"text": "nul \\u0000"}\n', 1, 0, [], id="NUL is text"),
    pytest.param(b'{"text": "", "x": NaN}\n', 1, 0, [], id="an empty text and NaN"),
    pytest.param(b"[" * 100_000 + b"\n" + PLAIN, 5, 0, [(0, "bad_json")], id="deep nesting"),
    pytest.param(json.dumps({"text": "x" * 2_000}).encode() + b"\n" + PLAIN, 5, 0, [(0, "too_long")], id="too long"),
    pytest.param(gzip.compress(PLAIN), 5, 0, [], id="gzip"),
    pytest.param(gzip.compress(PLAIN) + gzip.compress(PLAIN) + b"\0" * 512, 10, 0, [], id="two gzip members and padding"),
    pytest.param(bz2.compress(PLAIN), 5, 0, [], id="bzip2"),
    pytest.param(lzma.compress(PLAIN), 5, 0, [], id="xz"),
    pytest.param(zstandard.compress(PLAIN) + zstandard.compress(PLAIN), 10, 0, [], id="two zstd frames"),
]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize("data, documents, blank, faults", BROKEN)
def test_every_line_is_a_document_a_fault_or_blank(tmp_path, name, data, documents, blank, faults):
    table, counts, quarantined = read(tmp_path, {"path": put(tmp_path, name, data)}, ingest={"max_bytes": 1_000})
    assert (counts["read"], counts["blank"], counts["quarantined"]) == (documents, blank, len(faults))
    assert [(fault["row"], fault["reason"]) for fault in quarantined] == faults
    assert len(rows(table)) == documents and all(fault["file"] == name for fault in quarantined)


COMPRESS = {"gzip": gzip.compress, "zstd": zstandard.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_cut_stream_gives_what_stands_before_the_cut(tmp_path, kind):
    lines = [json.dumps({"text": xxhash.xxh64_hexdigest(str(n).encode()) * 8}) for n in range(30_000)]
    data = COMPRESS[kind]("\n".join(lines).encode())
    table, counts, quarantined = read(tmp_path, {"path": put(tmp_path, "a.jsonl", data[:len(data) * 3 // 4])})
    found = [row["text"] for row in rows(table)]
    assert 0 < len(found) < 30_000 and found == [json.loads(line)["text"] for line in lines[:len(found)]]
    assert [(fault["row"], fault["reason"]) for fault in quarantined] == [(len(found), "truncated")]


@pytest.mark.parametrize("data, message", [
    (b'{"body": "x"}\n', "no row could be read.*column 'text' is missing; columns here: body"),
    (gzip.compress(PLAIN)[:12], "truncated"), (b"PAR1 and no more", "corrupt: Parquet")])
def test_a_source_of_which_nothing_can_be_read_is_an_error(tmp_path, data, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, {"path": put(tmp_path, "a.jsonl", data)})


def test_an_empty_file_is_an_empty_table(tmp_path):
    table, counts, _ = read(tmp_path, {"path": put(tmp_path, "a.jsonl", b"")})
    assert rows(table) == [] and len(table.shards) == 1 and counts["read"] == 0


def test_a_broken_file_stops_the_run_where_the_recipe_says_so(tmp_path):
    path = put(tmp_path, "a.jsonl", gzip.compress(PLAIN)[:-20])
    with pytest.raises(DataError, match="truncated: .*ingest.on_bad_file"):
        read(tmp_path, {"path": path}, ingest={"on_bad_file": "stop"})


@pytest.mark.parametrize("path", ["missing.jsonl", "*.nothing", "empty-folder"])
def test_a_path_that_gives_no_file_is_an_error_before_any_work(tmp_path, path):
    (tmp_path / "empty-folder").mkdir()
    with pytest.raises(UsageError, match="source s: "):
        read(tmp_path, {"path": str(tmp_path / path)})


def test_columns_go_where_they_belong(tmp_path):
    record = {"title": "T", "body": "B", "page": 7, "link": "http://x.org/a", "lic": "CC0-1.0", "tags": [1], "when": None}
    source = {"path": put(tmp_path, "a.jsonl", json.dumps(record).encode()), "text": "{title}\n{body}", "id": "page", "url": "link",
              "license": None, "license_column": "lic"}
    table, _, _ = read(tmp_path, source)
    assert rows(table) == [{"id": xxhash.xxh3_128_hexdigest(b"T\nB"), "text": "T\nB", "source": "s", "license": "CC0-1.0",
                            "url": "http://x.org/a", "source_id": "7", "meta": '{"tags":[1],"when":null}'}]


def test_a_row_without_its_licence_is_an_error_that_names_it(tmp_path):
    path = put(tmp_path, "a.jsonl", b'{"text": "x", "lic": "MIT"}\n{"text": "y", "lic": ""}\n')
    with pytest.raises(DataError, match="source s, a.jsonl, row 1: no licence in column 'lic'"):
        read(tmp_path, {"path": path, "license": None, "license_column": "lic"})


def test_parquet_is_cut_by_row_groups_and_keeps_its_row_numbers(tmp_path):
    pq.write_table(pa.table({"text": [f"text {n} " * 50 for n in range(100)], "id": list(range(100))}), tmp_path / "a.parquet", row_group_size=10)
    table, counts, _ = read(tmp_path, {"path": str(tmp_path / "a.parquet")}, ingest={"shard_bytes": 2_000})
    assert len(table.shards) > 3 and [row["source_id"] for row in rows(table)] == [str(n) for n in range(100)]


def test_a_parquet_file_without_a_named_column_is_an_error_before_any_work(tmp_path):
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="a.parquet: no column 'text'. Columns: body"):
        read(tmp_path, {"path": str(tmp_path / "a.parquet")})


@pytest.mark.parametrize("shard_bytes", [1, 7, 64, 100, 1_000])
def test_plain_files_split_by_bytes_lose_and_double_nothing(tmp_path, shard_bytes):
    data = b"\n" + PLAIN + b'{"text": 3}\n' + b'{"text": "last"}'
    table, counts, quarantined = read(tmp_path, {"path": put(tmp_path, "a.jsonl", data)}, ingest={"shard_bytes": shard_bytes})
    assert [row["text"] for row in rows(table)] == [*(f"text number {n}" for n in range(5)), "last"]
    assert (counts["blank"], [fault["row"] for fault in quarantined]) == (1, [6])


def test_a_compressed_stream_is_cut_into_shards(tmp_path):
    table, _, _ = read(tmp_path, {"path": put(tmp_path, "a.gz", gzip.compress(PLAIN * 2_000))}, ingest={"shard_bytes": 50_000})
    assert len(table.shards) > 1 and len(rows(table)) == 10_000


def test_a_text_file_is_one_document_named_by_its_path(tmp_path):
    for name in ("b/y.txt", "a/x.txt"):
        put(tmp_path / "in", name, name.encode())
    put(tmp_path / "in", "c.txt", b"\xff")
    table, counts, quarantined = read(tmp_path, {"path": str(tmp_path / "in" / "**" / "*.txt")})
    assert [row["source_id"] for row in rows(table)] == ["a/x.txt", "b/y.txt"] and len(table.shards) == 1
    assert [fault["reason"] for fault in quarantined] == ["bad_utf8"]


def test_a_document_of_50_mb_is_one_document(tmp_path):
    text = "word " * 10_000_000
    table, counts, _ = read(tmp_path, {"path": put(tmp_path, "a.jsonl", json.dumps({"text": text}).encode())})
    assert counts["bytes"] == 50_000_000 and rows(table)[0]["text"] == text


def test_any_fsspec_url_is_a_source():
    import fsspec

    with fsspec.open("memory://ingest/a.jsonl", "wb") as file:
        file.write(PLAIN)
    recipe = Recipe(work="memory://ingest-work", sources=[{"name": "s", "license": "MIT", "path": "memory://ingest/*.jsonl"}])
    assert len(rows(ingest.run(Work(recipe.work, LocalEngine(1)), recipe))) == 5


def test_a_changed_file_is_read_again_and_a_moved_one_is_not(tmp_path):
    source = {"name": "s", "license": "MIT", "path": put(tmp_path, "in/a.jsonl", PLAIN)}
    work = Work(str(tmp_path / "work"), LocalEngine(1))
    first = ingest.run(work, Recipe(work=work.url, sources=[source]))
    (tmp_path / "in").rename(tmp_path / "moved")
    moved = {**source, "path": str(tmp_path / "moved" / "a.jsonl")}
    assert ingest.run(work, Recipe(work=work.url, sources=[moved])) == first
    put(tmp_path, "moved/a.jsonl", PLAIN + b'{"text": "more"}\n')
    assert len(rows(ingest.run(work, Recipe(work=work.url, sources=[moved])))) == 6


def test_a_sample_keeps_the_same_ids_and_at_least_a_thousand(tmp_path):
    lines = "\n".join(json.dumps({"text": f"text {n}"}) for n in range(20_000)).encode()
    recipe = Recipe(work=str(tmp_path / "work"), sources=[{"name": "s", "license": "MIT", "path": put(tmp_path, "a.jsonl", lines)}])
    work = Work(recipe.work, LocalEngine(1))
    tenth, few = ({row["id"] for row in rows(ingest.run(work, recipe, share))} for share in (0.1, 0.0001))
    counts = work.current()["ingest/s"].counts
    assert counts["documents"] == len(few) and counts["bytes"] == sum(len(row["text"]) for row in rows(ingest.run(work, recipe, 0.0001)))
    assert 1_800 < len(tenth) < 2_200 and 1_000 <= len(few) < 1_500 and few < tenth


def test_a_broken_page_costs_the_rest_of_its_row_group_and_says_how_much(tmp_path):
    texts = [xxhash.xxh64_hexdigest(str(n).encode()) * 4 for n in range(4_000)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=1_000, use_dictionary=False, compression="zstd")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    start = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(2).column(0).data_page_offset
    data[start + 40:start + 4_000] = b"\xff" * 3_960
    table, counts, quarantined = read(tmp_path, {"path": put(tmp_path, "b.parquet", bytes(data))})
    assert [row["text"] for row in rows(table)] == texts[:2_000] + texts[3_000:]
    assert [(fault["row"], fault["reason"]) for fault in quarantined] == [(2_000, "corrupt")] and "1000 rows of row group 2" in quarantined[0]["detail"]


def test_a_cell_that_is_not_utf_8_costs_its_row_alone(tmp_path):
    raw_text = pa.array([b"zero", b"caf\xe9", b"two"]).cast(pa.binary())
    text = pa.StringArray.from_buffers(3, *raw_text.buffers()[1:])
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    table, _, quarantined = read(tmp_path, {"path": str(tmp_path / "a.parquet")})
    assert [row["text"] for row in rows(table)] == ["zero", "two"]
    assert [(fault["row"], fault["reason"]) for fault in quarantined] == [(1, "bad_utf8")]


@pytest.mark.parametrize("column", [pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")), pa.array([2**62], pa.timestamp("us")),
                                    pa.array([2**30], pa.date32()), pa.array([2**62], pa.duration("s"))], ids=lambda column: str(column.type))
def test_a_value_that_python_has_no_type_for_goes_to_meta_as_arrow_has_it(tmp_path, column):
    pq.write_table(pa.table({"text": ["x"], "when": column}), tmp_path / "a.parquet")
    table, _, _ = read(tmp_path, {"path": str(tmp_path / "a.parquet")})
    assert str(column[0].value) in rows(table)[0]["meta"]


def test_a_gzip_stream_with_a_wrong_checksum_gives_what_stands_before_it(tmp_path):
    table, _, quarantined = read(tmp_path, {"path": put(tmp_path, "a.gz", gzip.compress(PLAIN)[:-8] + b"\0" * 8)})
    assert len(rows(table)) == 5 and [fault["reason"] for fault in quarantined] == ["corrupt"]


@pytest.mark.parametrize("make, message", [
    (lambda path: pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), path), "two columns are named 'text'"),
    (lambda path: path.write_bytes(b"PK\x03\x04 and more"), "is a zip archive. Unpack it first")])
def test_what_would_be_misread_is_refused_before_any_work(tmp_path, make, message):
    make(tmp_path / "a.data")
    with pytest.raises(UsageError, match=message):
        read(tmp_path, {"path": str(tmp_path / "a.data")})


@pytest.mark.parametrize("text", ["{", "{}", "{0}", "{a.b}", "{a[0]}", "{text:d}", "{text:{id}}", "{text!r}", ""])
def test_a_template_is_column_names_in_braces(tmp_path, text):
    with pytest.raises(UsageError, match="is no template"):
        read(tmp_path, {"path": put(tmp_path, "a.jsonl", PLAIN), "text": text})
