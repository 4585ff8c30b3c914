from __future__ import annotations

import warnings

import pytest
import yaml

import cuvee
from cuvee import pipeline
from cuvee.engine.local import LocalEngine
from cuvee.errors import UsageError
from tests.steps import corpus


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump({"work": "work", "sources": corpus.write(tmp_path / "raw", 40)}))
    return str(path)


def run(recipe, *overrides, until="filter", sample=None):
    return pipeline.run(recipe, LocalEngine(1), until, sample, overrides)


def test_results_of_another_recipe_are_said_to_be(recipe, capsys):
    run(recipe)
    pipeline.status(recipe, ["filter.min_words=30"])
    assert "NOT OF THIS RECIPE: filter.min_words was 20, is 30" in capsys.readouterr().out
    with pytest.raises(UsageError, match="results of another recipe: filter.min_words was 20, is 30"):
        pipeline.export(recipe, "json", "anywhere", ["filter.min_words=30"])
    with pytest.warns(UserWarning, match="another recipe"):
        cuvee.load(recipe, ["filter.min_words=30"])


def test_results_of_this_recipe_are_not(recipe, capsys):
    run(recipe)
    run(recipe, until="ingest")  # nothing to do: what was reached before still stands
    pipeline.status(recipe)
    assert "NOT OF" not in capsys.readouterr().out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cuvee.load(recipe).table("filter").num_rows == 120


def test_a_sample_is_another_recipe(recipe, capsys):
    run(recipe, sample="50%")
    pipeline.status(recipe)
    assert "NOT OF THIS RECIPE: sample was 0.5, is None" in capsys.readouterr().out


def test_a_run_that_did_not_end_is_not_exported(recipe):
    with pytest.raises(UsageError, match="such file"):
        run(recipe, "exclude.ids=gone.txt")
    run(recipe)
    with pytest.raises(UsageError, match="needs budget"):
        run(recipe, until="swarm")
    with pytest.raises(UsageError, match="did not end"):
        pipeline.export(recipe, "json", "anywhere")
