from __future__ import annotations

import importlib.util
import io
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from cuvee.engine import store
from cuvee.engine.shuffle import gather, scatter
from cuvee.engine.store import Output
from cuvee.errors import DataError, UsageError


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    return str(tmp_path) if request.param == "local" else f"memory://store-{tmp_path.name}"


def test_a_write_returns_the_checksum_of_its_bytes(folder):
    assert store.write_bytes(store.join(folder, "a", "b"), b"text") == xxhash.xxh3_128_hexdigest(b"text")
    assert store.read_bytes(store.join(folder, "a", "b")) == b"text"


def test_a_failed_write_leaves_what_stood_there(folder):
    url = store.join(folder, "file")
    store.write_bytes(url, b"old")
    with pytest.raises(ZeroDivisionError), store.create(url) as file:
        file.write(b"new")
        _ = 1 / 0
    assert store.read_bytes(url) == b"old"


def test_a_failed_write_leaves_no_temporary_file(tmp_path):
    with pytest.raises(ZeroDivisionError), store.create(str(tmp_path / "file")):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_a_manifest_names_and_is_gone_says_what_to_do(folder):
    with pytest.raises(DataError, match="no such file.*Delete its folder"):
        store.read_table(store.join(folder, "gone.parquet"))


def test_shuffle_gives_each_partition_its_rows_in_map_order(folder):
    rng = np.random.default_rng(0)
    out = store.Output(folder)
    tables = [pa.table({"partition": rng.integers(0, 5, size), "value": rng.integers(0, 9, size)}) for size in (40, 0, 7)]
    for number, table in enumerate(tables):
        scatter(out, f"{number}.arrow", table, table["partition"].to_numpy(), 6)
    urls = [store.join(folder, f"{number}.arrow") for number in range(3)]
    for partition in range(6):
        want = [pair for table in tables for pair in zip(*table.to_pydict().values()) if pair[0] == partition]
        assert list(zip(*gather(urls, partition).to_pydict().values())) == want


@pytest.mark.parametrize("url, message", [("s3://bucket/x", r"pip install 'cuvee\[s3\]'"), ("gs://bucket/x", r"pip install 'cuvee\[gcs\]'"),
                                          ("nonsense://x", "nonsense://x: ")])
def test_a_filesystem_that_is_not_installed_names_its_extra(url, message):
    package = {"s3": "s3fs", "gs": "gcsfs"}.get(url.split("://")[0])
    if package and importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(UsageError, match=message):
        store.filesystem(url)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.sampled_from(["uint32", "int64", "float32"]), st.sampled_from([(), (3,)]))
def test_an_array_in_pieces_is_the_array_that_numpy_writes(sizes, dtype, shape):
    pieces = [np.full((size, *shape), number, dtype) for number, size in enumerate(sizes)]
    whole, theirs = np.concatenate(pieces), io.BytesIO()
    np.save(theirs, whole)
    with tempfile.TemporaryDirectory() as folder:
        Output(folder).npy("a.npy", *pieces)
        assert (Path(folder) / "a.npy").read_bytes() == theirs.getvalue()


def test_pieces_of_unlike_arrays_are_refused(tmp_path):
    with pytest.raises(ValueError, match="do not follow"):
        Output(str(tmp_path)).npy("a.npy", np.zeros((2, 3)), np.zeros((2, 4)))
