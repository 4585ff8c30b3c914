from __future__ import annotations

import bz2
import gzip
import json
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from cuvee.engine.store import Output
from cuvee.steps.kept import write_kept

LINES = [b'{"text": "zero",   "n": 1e2}', b"", b"broken {", b'{"n": 3, "text": "three"}\r', b'{"text": "four"}']
UNPACK = {"a.jsonl": bytes, "a.jsonl.gz": gzip.decompress, "a.jsonl.bz2": bz2.decompress, "a.jsonl.xz": lzma.decompress,
          "a.jsonl.zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)}


@pytest.mark.parametrize("name", UNPACK)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_are_copied_byte_for_byte_and_compressed_as_the_name_says(tmp_path, name, pack):
    (tmp_path / "in").write_bytes(pack(b"\xef\xbb\xbf" + b"\n".join(LINES)))
    write_kept(Output(str(tmp_path)), name, str(tmp_path / "in"), "jsonl", np.array([0, 3, 4]), {}, "text")
    assert UNPACK[name]((tmp_path / name).read_bytes()) == b"".join(LINES[n] + b"\n" for n in (0, 3, 4))


def test_an_edited_line_changes_its_text_alone(tmp_path):
    (tmp_path / "in").write_bytes(b"\n".join(LINES))
    write_kept(Output(str(tmp_path)), "a.jsonl", str(tmp_path / "in"), "jsonl", np.array([0, 3]), {3: "drei"}, "text")
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_bytes().splitlines()] == [
        {"text": "zero", "n": 100.0}, {"n": 3, "text": "drei"}]


def test_a_cut_stream_gives_its_kept_rows(tmp_path):
    data = gzip.compress(b"\n".join(b'{"text": "%d"}' % n for n in range(50_000)), mtime=0)
    (tmp_path / "in").write_bytes(data[:-100])
    write_kept(Output(str(tmp_path)), "a.jsonl", str(tmp_path / "in"), "jsonl", np.array([0, 7]), {}, "text")
    assert (tmp_path / "a.jsonl").read_bytes() == b'{"text": "0"}\n{"text": "7"}\n'


@pytest.mark.parametrize("keep", [[], [0], [3, 4, 5, 9], list(range(10))])
def test_parquet_keeps_its_schema_metadata_and_columns(tmp_path, keep):
    schema = pa.schema([("text", pa.string()), ("n", pa.int16()), ("tags", pa.list_(pa.string()))], metadata={"who": "me"})
    table = pa.table([[f"t{n}" for n in range(10)], list(range(10)), [["x"]] * 10], schema=schema)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=4)
    edited = {n: "new" for n in keep if n == 4}
    write_kept(Output(str(tmp_path)), "out.parquet", str(tmp_path / "in.parquet"), "parquet", np.array(keep, np.int64), edited, "text")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.equals(pq.read_schema(tmp_path / "in.parquet"), check_metadata=True) and found["n"].to_pylist() == keep
    assert found["text"].to_pylist() == ["new" if n == 4 else f"t{n}" for n in keep]
