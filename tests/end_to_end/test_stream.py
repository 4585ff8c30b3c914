"""Documents packed whole and a stream in stages, from the command line to the rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

import cuvee
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.steps.tokenize import token_lists
from tests import commands
from tests.end_to_end import small

pytestmark = pytest.mark.slow
OPTIONS = ("tokenize={seq_len: 128, pack: fit}", "stream.stages=[{tokens: 12800, mixture: uniform}, {mixture: proposal}]", "swarm.rounds=1")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages")
    recipe = small.write_recipe(folder)
    small.finish(recipe, "--workers", "1", *(part for option in OPTIONS for part in ("--set", option)))
    return folder


def test_documents_that_fit_into_a_row_are_whole_and_padding_is_counted(made):
    work, run = Work(str(made / "work"), LocalEngine(1)), cuvee.load(str(made / "recipe.yaml"), OPTIONS)
    stream, counts = run.stream(), work.current()["tokens"].counts
    rows = np.vstack([stream._load(place) for place in range(len(stream.names))]).tolist()
    text = "\n".join(f",{','.join(map(str, row))}," for row in rows)
    documents = [ids for url in run.files("tokenize").values() for ids in token_lists(url).to_pylist()]
    whole = [ids for ids in documents if len(ids) <= 128 and f",{','.join(map(str, [*ids, stream.description['end']]))}," in text]
    assert len(whole) > 300 and len(whole) >= sum(len(ids) <= 128 for ids in documents) - counts["heldout"]
    assert counts["cut_tokens"] == 0 < counts["padding_tokens"]
    padding = sum((~stream.predicted(np.array(row))).sum() for row in rows)
    assert counts["padding_tokens"] <= padding <= counts["padding_tokens"] + counts["documents"] / 20  # and end marks that a cut left alone


def test_the_stages_hold_their_mixtures(made):
    stream = cuvee.open_stream(str(made / "work"))
    first = np.bincount(stream.places(np.arange(100)).domain, minlength=len(stream.names))
    assert first.max() - first.min() <= 1 and len(stream) == 312
    weights = stream.description["stages"][1]["weights"]
    rest = np.bincount(stream.places(np.arange(100, 312)).domain, minlength=len(stream.names))
    assert np.abs(rest - 212 * np.array([weights[name] for name in stream.names])).max() < 1


def test_levanter_has_a_file_for_each_stage(made, tmp_path):
    options = [part for option in OPTIONS for part in ("--set", option)]
    done = commands.cuvee("export", str(made / "recipe.yaml"), "--format", "levanter", "-o", str(tmp_path / "out"), *options)
    assert done.code == 0, done.err
    stages = [yaml.safe_load((tmp_path / f"out/levanter.stage{number}.yaml").read_text())["data"]["train_weights"] for number in (1, 2)]
    found = json.loads((tmp_path / "out/mixture.json").read_text())
    assert [each["weights"] for each in found["stages"]] == stages and stages[0] != stages[1] and not (tmp_path / "out/levanter.yaml").exists()
    assert [each["tokens"] for each in found["stages"]] == [12_800, 212 * 128]
