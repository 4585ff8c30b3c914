from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

import cuvee
from cuvee.engine.store import read_json
from cuvee.errors import UsageError
from cuvee.record import DOCUMENTS
from cuvee.steps import stream, swarm, validate
from tests.steps.corpus import write
from tests.steps.swarms import mixed


@pytest.fixture(scope="module")
def loaded(made, tmp_path_factory):
    """The run of a recipe file, with everything done but the training."""
    mix = mixed(made.work, made.recipe, made.tokens, dict(zip(made.tokens.names, [0.5, 0.5, 0, 0, 0, 0])))[1]
    stream.write(made.work, made.recipe, made.tokens, mix)
    path = tmp_path_factory.mktemp("api") / "recipe.yaml"
    path.write_text(yaml.safe_dump(made.recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
    return cuvee.load(str(path))


def test_documents_are_the_kept_rows_of_every_shard(loaded, made):
    tables = list(loaded.documents())
    assert [len(table) for table in tables] == [399] * 3 and tables[0].column_names == ["shard", "row", *DOCUMENTS.names]
    assert {name for table in tables for name in table["source"].unique().to_pylist()} == {"sea", "code", "law"}
    assert all(table["row"].to_pylist() == list(range(1, 400)) for table in tables)


def test_tables_come_with_their_place(loaded):
    quality, dedup = loaded.table("quality"), loaded.table("dedup", ["row", "keep"])
    assert quality.column_names[:4] == ["source", "shard", "row", "id"] and len(quality) == 1_197
    assert len(dedup) == 1_200 and dedup.filter(dedup["keep"]).num_rows == 1_197 and set(dedup.column_names) == {"source", "shard", "row", "keep"}
    assert list(loaded.files("quality")) == [f"{source}/{part}" for source, part in sorted(set(zip(quality["source"].to_pylist(), quality["shard"].to_pylist())))]


def test_mixture_and_stream_are_the_newest(loaded, made):
    assert [each["weight"] for each in loaded.mixture()["domains"]] == [0.5, 0.5, 0, 0, 0, 0]
    assert loaded.stream(seed=0)[12_345].shape == (17,)
    assert (loaded.stream()[7] == cuvee.open_stream(made.work.url)[7]).all() and (loaded.stream(1).take(0, 9) != loaded.stream().take(0, 9)).any()


def test_validation_is_what_the_step_left(loaded, made):
    fit, mix = mixed(made.work, made.recipe, made.tokens, dict(zip(made.tokens.names, [0.5, 0.5, 0, 0, 0, 0])))
    left = validate.run(made.work, made.recipe, made.tokens, fit, mix).file("validate.json")
    assert loaded.validation() == read_json(left) and len(loaded.validation()["sizes"]) == 3


def test_scores_join_by_run(loaded, made):
    swarm.run(made.work, made.recipe, made.tokens)
    tables = loaded.scores()
    assert set(tables["scores"]["run"].to_pylist()) == set(tables["domains"]["run"].to_pylist())


def test_what_is_not_done_names_the_command(tmp_path):
    recipe = {"work": "work", "sources": write(tmp_path, 20)}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
    run = cuvee.load(str(tmp_path / "r.yaml"))
    for call, until in ((lambda: next(run.documents()), "ingest"), (lambda: run.table("dedup"), "dedup"), (run.mixture, "mix")):
        with pytest.raises(UsageError, match=f"not done in .*work. Run: cuvee run RECIPE --until {until}"):
            call()
    with pytest.raises(UsageError, match="stream.json: no such file"):
        run.stream()
    with pytest.raises(UsageError, match="no table is named 'dedupe'. Did you mean 'dedup'"):
        run.table("dedupe")
    assert not (tmp_path / "work").exists()


def test_the_command_line_does_not_wait_for_the_interface():
    code = "import sys, cuvee.cli; sys.exit('numpy' in sys.modules or 'cuvee.api' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
