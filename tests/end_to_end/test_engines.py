"""The same recipe on one worker, on two, and on Ray gives the same files."""

from __future__ import annotations

import hashlib

import fsspec
import pytest

from cuvee import pipeline
from cuvee.engine.local import LocalEngine
from tests.end_to_end import small

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    output = small.finish(small.write_recipe(folder), "--workers", "2")
    return folder, output, small.files(folder / "work")


@pytest.mark.parametrize("options", [("--workers", "1"), ("--engine", "ray", "--workers", "2")], ids=["one worker", "ray"])
def test_every_engine_leaves_the_same_files(two_workers, options, tmp_path):
    if "ray" in options:
        pytest.importorskip("ray")
    folder, _, expected = two_workers
    small.finish(small.write_recipe(folder, f"{options[1]}.yaml", str(tmp_path / "work")), *options)
    assert small.files(tmp_path / "work") == expected


def test_an_object_store_holds_the_same_files(two_workers):
    """Every write is one PUT; memory:// stands for them all."""
    folder, _, expected = two_workers
    pipeline.run(str(folder / "recipe.yaml"), LocalEngine(1), overrides=["work=memory://engines"])
    store = fsspec.filesystem("memory")
    found = {path.removeprefix("/engines/"): hashlib.sha256(store.cat_file(path)).hexdigest() for path in store.find("/engines")}
    assert {name: sum_ for name, sum_ in found.items() if name.rpartition("/")[2] not in small.VOLATILE} == expected


def test_a_second_run_does_no_step_again(two_workers):
    folder, _, expected = two_workers
    again = small.finish(folder / "recipe.yaml", "--workers", "2")
    assert "\n0 steps done" in again and small.files(folder / "work") == expected
