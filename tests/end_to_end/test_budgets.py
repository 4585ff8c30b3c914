"""Whole runs: swarms for two budgets and a mixture between them; and a swarm that is used again after its domains were split."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from cuvee.engine.store import read_json
from tests.commands import cuvee
from tests.end_to_end import small

pytestmark = pytest.mark.slow


def changed(path: Path, name: str, **sections: dict) -> Path:
    """A recipe beside `path`, with keys of some sections changed."""
    recipe = yaml.safe_load(path.read_text())
    recipe |= {section: {**recipe.get(section, {}), **values} for section, values in sections.items()}
    recipe["work"] = str(path.parent / name)
    made = path.parent / f"{name}.yaml"
    made.write_text(yaml.safe_dump(recipe))
    return made


def newest(work: Path, step: str, file: str) -> dict:
    return read_json(str(work / step / json.loads((work / "current.json").read_text())[step] / file))


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return small.write_recipe(tmp_path_factory.mktemp("budgets"))


def test_a_target_between_two_that_swarms_were_trained_for(recipe):
    two = changed(recipe, "two", budget={"targets": [20_000, 60_000]}, swarm={"subset_documents": 1})
    small.finish(two, "--until", "mix", "--workers", "2")
    work = recipe.parent / "two"
    found = json.loads((work / "mixture.json").read_text())
    assert found["budget"] == 40_000 and {"fit.20000", "fit.60000"} < found["fingerprints"].keys()
    assert sum(each["parts"] for each in found["domains"]) == found["parts"]
    assert len(list((work / "swarm").iterdir())) == len(list((work / "swarm.runs").iterdir())) == 2
    done = cuvee("run", str(changed(recipe, "far", budget={"targets": [4_000, 10_000]})))
    assert done.code == 2 and "lies 4 times outside of 4,000 to 10,000" in done.err and not (recipe.parent / "far" / "swarm").exists()
    assert "fit.reuse holds runs for one budget" in cuvee("check", str(changed(recipe, "both", budget={"targets": [1, 2]}, fit={"reuse": "work"}))).err


def test_runs_from_before_bands_were_split_are_used_again(recipe):
    """One band became two, so every old domain is a union of two; its runs stand in the fit at their natural shares."""
    small.finish(changed(recipe, "coarse", quality={"bands": 1}), "--until", "swarm", "--workers", "2")
    fine = changed(recipe, "fine", fit={"reuse": str(recipe.parent / "coarse")})
    said = small.finish(fine, "--until", "mix", "--workers", "2")
    old, new = newest(recipe.parent / "fine", "reuse", "old.json"), newest(recipe.parent / "fine", "fit", "fit.json")
    portraits = {each["name"]: each for each in newest(recipe.parent / "fine", "portraits", "portraits.json")["domains"]}
    assert all(now.split(".")[0] == was.split(".")[0] for now, was in old["map"].items()) and len(set(old["map"].values())) < len(old["map"])
    run, parts = old["runs"][0], [name for name, was in old["map"].items() if was == "t00.q1"]
    whole = sum(portraits[name]["tokens"] for name in parts)
    held = sum(run["weights"][name] for name in parts)
    assert sum(run["weights"].values()) == pytest.approx(1) and [run["weights"][name] for name in parts] == pytest.approx(
        [held * portraits[name]["tokens"] / whole for name in parts])
    assert len(set(run["epochs"][name] for name in parts)) == 1 and set(old["tasks"]) == {"qa"}
    count = len(newest(recipe.parent / "coarse", "swarm", "runs.json")["runs"])
    assert f"{count} old runs count too" in said and sum(each["run"].startswith("old/") for each in new["runs"]) == count == len(old["runs"]) < len(new["runs"])
    other = changed(recipe, "other", fit={"reuse": str(recipe.parent / "coarse")}, swarm={"batch": 4})
    assert "has another proxy" in cuvee("run", str(other), "--until", "fit").err
