"""`cuvee fit --groups G.csv`: topics and quality bands of domains that have names of their own."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.commands import cuvee

DOMAINS = [f"{topic}, {level}" for topic in ("maths", "news", "code") for level in ("low", "mid", "high")]
GAIN = np.outer([0.9, 0.3, 0.6], [0.2, 0.5, 1.0]).ravel()


def write(path: Path, head: list[str], rows: list[list[object]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def groups(band=lambda level: {"low": "q1", "mid": "2", "high": "q10"}[level]) -> list[list[object]]:
    return [[name, name.split(", ")[0], band(name.split(", ")[1])] for name in reversed(DOMAINS)]


@pytest.fixture
def swarm(tmp_path, monkeypatch):
    """20 runs of a law of three topics and three bands."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(9), 20)
    scores = 1 + np.exp(-(1 - np.exp(-3 * weights)) @ GAIN) + 0.01 * rng.normal(size=20)
    write(tmp_path / "m.csv", ["run", *DOMAINS], [[f"r{i}", *row] for i, row in enumerate(weights.tolist())])
    write(tmp_path / "s.csv", ["run", "quiz"], [[f"r{i}", score] for i, score in enumerate(scores.tolist())])
    write(tmp_path / "g.csv", ["domain", "topic", "band"], groups())
    return tmp_path


def fit(*more: str):
    return cuvee("fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "f.json", "--model", "saturating", *more)


def test_groups_switch_on_topic_x_band_with_bands_in_order_of_their_numbers(swarm):
    done = fit("--groups", "g.csv")
    assert done.code == 0 and "on 1 of 1 tasks: quiz" in done.err
    found = json.loads(Path("f.json").read_text())
    assert found["runs"]["grid"] == {"topics": [1, 1, 1, 2, 2, 2, 0, 0, 0], "bands": [0, 1, 2] * 3}  # topics in order of their names
    band = found["tasks"][0]["factors"]["band"]
    assert band == sorted(band) and band[2] > 1.5 * band[0]
    assert fit().code == 0 and json.loads(Path("f.json").read_text())["runs"]["grid"] is None


@pytest.mark.parametrize("head, rows, more, code, said", [
    (["domain", "band", "topic"], groups(), (), 1, "a CSV of groups has domain,topic,band"),
    (["domain", "topic", "band"], groups(lambda level: level), (), 1, "domain code, high: band 'high'; a band is a whole number such as 5, or q5"),
    (["domain", "topic", "band"], groups()[1:], (), 1, "1 domains of m.csv are not in g.csv: code, high"),
    (["domain", "topic", "band"], groups(), ("--model", "gp"), 2, "the model gp makes nothing of topics and bands"),
    (["domain", "topic", "band"], groups(lambda level: 1), (), 0, "every domain stands for itself")])
def test_what_is_wrong_with_groups_is_said(swarm, head, rows, more, code, said):
    write(swarm / "g.csv", head, rows)
    done = fit("--groups", "g.csv", *more)
    assert done.code == code and said in done.err


def test_domains_that_move_together_are_named(swarm):
    rows = list(csv.reader(open("m.csv", newline="")))
    for row in rows[1:]:
        row[1] = row[2]
        total = sum(map(float, row[1:]))
        row[1:] = [float(each) / total for each in row[1:]]
    write(swarm / "m.csv", rows[0], rows[1:])
    assert "the runs do not tell apart maths, low, maths, mid: what moving a point of weight between them does is known to" in fit().err
