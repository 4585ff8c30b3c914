"""Another trainer, from the export to the mixture, through the command line: here one that counts tokens."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from tests.commands import cuvee
from tests.end_to_end import small

pytestmark = pytest.mark.slow


def train(folder: Path, out: Path) -> None:
    """Bits per byte of every task by the frequencies of tokens in each run: a language model of the simplest kind."""
    manifest = json.loads((folder / "manifest.json").read_text())
    items = pq.read_table(folder / "items.parquet").to_pylist()
    tasks = list(dict.fromkeys(item["task"] for item in items))
    rows = []
    for run in manifest["runs"]:
        counts = 1 + np.bincount(np.load(folder / run["tokens_file"]).ravel(), minlength=manifest["vocab"])
        cost = -np.log2(counts / counts.sum())
        mine = [[item for item in items if item["task"] == task] for task in tasks]
        rows.append([run["run"], *(sum(cost[item["continuation"]].sum() for item in each) / sum(item["bytes"] for item in each) for each in mine)])
    with open(out, "w", newline="") as file:
        csv.writer(file).writerows([["run", *tasks], *rows])


def test_a_swarm_that_was_trained_elsewhere_gives_a_mixture(tmp_path):
    path = small.write_recipe(tmp_path)
    recipe = yaml.safe_load(path.read_text())
    recipe["swarm"] |= {"scores": "scores/all.csv", "runs": 16, "rounds": 2}
    path.write_text(yaml.safe_dump(recipe))
    early = cuvee("run", str(path), "--workers", "1")
    assert early.code == 2 and "scores/all.csv. `cuvee swarm export RECIPE -o DIR`" in early.err and not (tmp_path / "work").exists()
    for number, runs, following in ((1, 11, "round 2 has 5 runs"), (2, 5, "has 16 runs. Next: cuvee run RECIPE")):
        folder = tmp_path / f"round{number}"
        done = cuvee("swarm", "export", str(path), "-o", str(folder), "--tokens", "--workers", "1")
        assert done.code == 0 and f"{runs} runs of round {number}" in done.out
        train(folder, tmp_path / "s.csv")
        done = cuvee("swarm", "import", str(path), str(tmp_path / "s.csv"), "--workers", "1")
        assert done.code == 0 and following in done.out
    done = cuvee("run", str(path), "--workers", "1")
    assert done.code == 0 and "validate is left out" in done.err
    found = {each["name"]: each["weight"] for each in json.loads((tmp_path / "work" / "mixture.json").read_text())["domains"]}
    assert sum(found.values()) == pytest.approx(1) and not {"swarm.runs", "validate"} & json.loads((tmp_path / "work" / "current.json").read_text()).keys()
    assert "\n0 steps done" in cuvee("run", str(path), "--workers", "1").out
