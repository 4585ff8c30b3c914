"""`cuvee fit --reuse` and `cuvee mix` with several surrogates, a frontier, and frozen proportions, on CSV files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from cuvee.kernels.simplex import proportional
from tests.commands import cuvee

DOMAINS, TASKS = ["web", "code", "books", "maths"], ["quiz", "prose"]
TOKENS = np.array([600.0, 120.0, 60.0, 20.0])
GAIN = np.array([[0.3, 0.9, 0.2, 1.2], [0.4, 0.1, 1.0, 0.6]])
BUDGETS = (100, 1000)


def write(path: Path, head: list[str], rows: list[list[object]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def truth(weights: np.ndarray, budget: float) -> np.ndarray:
    """A proxy's tokens of a domain teach ever less, and those that it repeats less still. (runs, 4) -> (runs, 2)"""
    passes = np.maximum(weights * budget / TOKENS, 1e-12)
    counted = weights * (1 - np.exp(-passes / 4)) * 4 / passes
    return 0.5 + 0.5 * (counted**0.75 @ GAIN.T) ** -0.5


def swarm(folder: Path, name: str, budget: float, seed: int, runs: int = 40) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(4), runs)
    write(folder / f"m{name}.csv", ["run", *DOMAINS], [[f"r{n}", *row] for n, row in enumerate(weights.tolist())])
    write(folder / f"s{name}.csv", ["run", *TASKS], [[f"r{n}", *row] for n, row in enumerate(truth(weights, budget).tolist())])


def fit(name: str, budget: float, *more: str):
    return cuvee("fit", "--mixtures", f"m{name}.csv", "--scores", f"s{name}.csv", "--counts", "c.csv", "--budget", str(budget), "--model", "saturating",
                 "-o", f"f{name}.json", *more)


def mix(*arguments: str):
    done = cuvee("mix", *arguments, "--counts", "c.csv", "-o", "x.json")
    return done, json.loads(Path("x.json").read_text()) if done.code == 0 else None


@pytest.fixture
def swarms(tmp_path, monkeypatch):
    """f100.json and f1000.json, the fits of swarms for two budgets."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "c.csv", ["domain", "tokens"], [[name, int(count)] for name, count in zip(DOMAINS, TOKENS)])
    for budget in BUDGETS:
        swarm(tmp_path, str(budget), budget, budget)
        assert fit(str(budget), budget).code == 0
    return tmp_path


def test_a_budget_between_two_swarms_is_drawn_between_their_predictions(swarms):
    _, found = mix("f1000.json", "f100.json", "--budget", "300", "--max-epochs", "4", "--kl", "0.0")
    weights = np.array([[each["weight"] for each in found["domains"]], proportional(TOKENS)])
    mine = np.array([[each[key] for each in found["tasks"]] for key in ("predicted", "proportional")])
    np.testing.assert_allclose(mine, truth(weights, 300), atol=0.03)
    assert set(found["fingerprints"]) == {"surrogate.1", "surrogate.2", "counts"} and found["budget"] == 300
    ends = [mix(f"f{budget}.json", "--budget", str(budget), "--max-epochs", "4", "--kl", "0.0")[1] for budget in BUDGETS]
    maths = [each["domains"][3]["weight"] for each in (ends[0], found, ends[1])]
    assert maths[0] > maths[1] > maths[2]  # the small good domain is used up as the budget grows


def test_far_outside_of_the_swarms_is_an_error_that_an_option_lifts(swarms):
    done, _ = mix("f100.json", "f1000.json", "--budget", "2500")
    assert done.code == 2 and "lies 2.5 times outside of 100 to 1,000" in done.err and "--extrapolate" in done.err
    assert mix("f100.json", "f1000.json", "--budget", "2500", "--extrapolate")[1]["budget"] == 2500
    assert mix("f100.json", "f1000.json", "--budget", "1900")[0].code == 0
    done, _ = mix("f100.json", "--budget", "300")
    assert done.code == 1 and "over 2 times off" in done.err
    assert mix("f100.json", "--budget", "300", "--extrapolate")[0].code == 0


def test_surrogates_that_do_not_belong_together_are_refused(swarms):
    cuvee("fit", "--mixtures", "m100.csv", "--scores", "s100.csv", "--model", "saturating", "-o", "plain.json")
    assert "plain.json was fitted without --counts and --budget" in mix("f100.json", "plain.json", "--budget", "300")[0].err
    assert "were both fitted for 100 tokens" in mix("f100.json", "f100.json", "--budget", "300")[0].err
    write(swarms / "c.csv", ["domain", "tokens"], [[name, int(2 * count) if name == "web" else int(count)] for name, count in zip(DOMAINS, TOKENS)])
    assert "f100.json: fitted with other counts" in mix("f100.json", "f1000.json", "--budget", "300")[0].err


def test_the_frontier_is_a_table(swarms):
    _, found = mix("f100.json", "--budget", "100", "--kl", "0.03", "--frontier", "front.csv")
    with open("front.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["kl", "predicted", "sd", "divergence", "max_epochs", "capped", "chosen", *DOMAINS]
    assert [float(row["kl"]) for row in rows] == [0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0]
    chosen = next(row for row in rows if row["chosen"] == "1")
    assert float(chosen["kl"]) == 0.03 and [float(chosen[name]) for name in DOMAINS] == [each["weight"] for each in found["domains"]]
    assert float(rows[-1]["divergence"]) < float(chosen["divergence"]) < float(rows[0]["divergence"])
    assert all(sum(float(row[name]) for name in DOMAINS) == pytest.approx(1) for row in rows)


def test_frozen_domains_keep_their_proportions(swarms):
    _, old = mix("f100.json", "--budget", "100")
    Path("old.json").write_text(json.dumps(old))
    write(swarms / "c.csv", ["domain", "tokens"], [[name, int(count) - (name == "maths")] for name, count in zip(DOMAINS, TOKENS)])
    _, found = mix("f100.json", "--budget", "100", "--kl", "0.5", "--freeze", "old.json")
    was, now = (np.array([each["parts"] for each in mixture["domains"][:3]]) for mixture in (old, found))
    assert found["frozen"] == ["books", "code", "web"] and np.abs(now - now.sum() * was / was.sum()).max() <= 1 and now.sum() != was.sum()
    done, _ = mix("f100.json", "--budget", "100", "--freeze", "old.json", "--group", "g=web:0.1:0.9")
    assert done.code == 2 and "group must hold all of them or none" in done.err
    assert "no such file: none.json" in mix("f100.json", "--budget", "100", "--freeze", "none.json")[0].err


def old_swarm(folder: Path) -> None:
    """30 runs from before `text` was split into web and books; maths is new since."""
    weights = np.random.default_rng(5).dirichlet(np.ones(2), 30)
    whole = TOKENS[0] + TOKENS[2]
    now = np.column_stack([weights[:, 0] * TOKENS[0] / whole, weights[:, 1], weights[:, 0] * TOKENS[2] / whole, np.zeros(30)])
    write(folder / "om.csv", ["run", "text", "programs"], [[f"r{n}", *row] for n, row in enumerate(weights.tolist())])
    write(folder / "os.csv", ["run", "quiz", "retired"], [[f"r{n}", score, 1.0] for n, score in enumerate(truth(now, 100)[:, 0].tolist())])
    write(folder / "map.csv", ["domain", "old"], [["maths", ""], ["books", "text"], ["code", "programs"], ["web", "text"]])


def test_old_runs_help_where_domains_were_split(swarms):
    old_swarm(swarms)
    swarm(swarms, "few", 100, 9, runs=12)
    assert fit("few", 100).code == 0
    alone, weights = json.loads(Path("ffew.json").read_text()), np.random.default_rng(2).dirichlet(np.ones(4), 50)
    done = fit("few", 100, "--reuse", "om.csv", "--reuse-scores", "os.csv", "--map", "map.csv")
    assert done.code == 0 and "no longer scored are left out: retired" in done.err and "prose (30)" in done.err
    both = json.loads(Path("ffew.json").read_text())
    assert (len(alone["runs"]["weights"]), len(both["runs"]["weights"])) == (12, 42) and {"reuse", "reuse_scores", "map"} < both["fingerprints"].keys()
    write(swarms / "n.csv", ["run", *DOMAINS], [[f"n{n}", *row] for n, row in enumerate(weights.tolist())])
    errors = []
    for name, fields in (("alone", alone), ("both", both)):
        Path(f"{name}.json").write_text(json.dumps(fields))
        cuvee("predict", f"{name}.json", "--mixtures", "n.csv", "-o", "p.csv")
        with open("p.csv", encoding="utf-8", newline="") as file:
            found = np.array([float(row["quiz"]) for row in csv.DictReader(file)])
        errors.append(np.sqrt(((found - truth(weights, 100)[:, 0]) ** 2).mean()))
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("rows, said", [
    ([["maths", ""], ["books", "text"], ["code", "programs"]], "1 domains of the new mixtures are not in map.csv: web"),
    ([["maths", ""], ["books", "text"], ["code", "prog"], ["web", "text"]], "1 old domains of map.csv are not in om.csv: prog"),
    ([["maths", ""], ["books", "text"], ["code", ""], ["web", "text"]], "1 old domains of om.csv are not in map.csv: programs")])
def test_a_map_that_leaves_something_out_is_an_error(swarms, rows, said):
    old_swarm(swarms)
    write(swarms / "map.csv", ["domain", "old"], rows)
    done = fit("100", 100, "--reuse", "om.csv", "--reuse-scores", "os.csv", "--map", "map.csv")
    assert done.code == 1 and said in done.err


def test_reuse_needs_its_three_files_and_counts(swarms):
    old_swarm(swarms)
    assert "--reuse, --reuse-scores and --map go together" in fit("100", 100, "--reuse", "om.csv").err
    done = cuvee("fit", "--mixtures", "m100.csv", "--scores", "s100.csv", "-o", "f.json", "--reuse", "om.csv", "--reuse-scores", "os.csv", "--map", "map.csv")
    assert done.code == 2 and "--reuse needs --counts" in done.err
