"""Export and import of a swarm: another trainer's runs are the plan's, and what comes back is checked by name."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import cuvee
from cuvee import swarm_files
from cuvee.config import Recipe
from cuvee.engine.store import read_json, read_table
from cuvee.errors import DataError, UsageError
from cuvee.steps import fit, swarm
from cuvee.steps.proxies import training
from tests.commands import cuvee as command
from tests.steps.swarms import Made


@pytest.fixture(scope="module")
def brought(made, tmp_path_factory) -> Made:
    """The recipe with a place for scores, and one round of runs."""
    sections = made.recipe.model_dump(by_alias=True)
    sections["swarm"] |= {"scores": str(tmp_path_factory.mktemp("brought") / "scores.csv"), "rounds": 1}
    return Made(made.work, Recipe.model_validate(sections), made.tokens)


@pytest.fixture(scope="module")
def exported(brought, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "runs"
    swarm_files.export(*brought, str(out), rows=True)
    return out


def score(weights: dict[str, float]) -> list[float]:
    """Two tasks that follow from a mixture: what another trainer measured."""
    sea, code = weights["t00.q2"], weights["t01.q1"]
    return [1 + np.exp(-3 * sea), 1 + np.exp(-4 * code)]


def write(path: Path, manifest: dict, names=("quiz", "ours"), runs=slice(None)) -> Path:
    rng = np.random.default_rng(4)
    rows = [[run["run"], *(np.array(score(run["weights"])) + 0.003 * rng.normal(size=2)).tolist()] for run in manifest["runs"]]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["run", *names], *rows[runs]])
    return path


def test_the_exported_runs_are_those_that_would_be_trained(brought, exported):
    manifest = read_json(f"{exported}/manifest.json")
    regime = training.regime(brought.recipe, brought.tokens, 1, 2_000)
    planned = swarm.plan(brought.recipe, brought.tokens, regime)
    assert manifest["complete"] and [run["run"].split("-")[0] for run in manifest["runs"]] == [each.run.key for each in planned]
    for each, run in zip(planned, manifest["runs"]):
        drawn, rows = training._read(each.run, regime, [domain.rows_url for domain in brought.tokens.domains])
        assert (np.load(exported / run["tokens_file"]) == rows).all() and np.load(exported / run["tokens_file"]).dtype == np.uint16
        assert (cuvee.open_stream(str(exported / run["stream"])).take(0, run["rows"]) == rows).all()
        assert [round(run["weights"][name] * run["rows"]) for name in brought.tokens.names] == drawn and run["seed"] == each.run.seed
    rows = list(csv.reader((exported / "mixtures.csv").read_text().splitlines()))
    assert rows[0] == ["run", *brought.tokens.names] and all(sum(map(float, row[1:])) == pytest.approx(1) for row in rows[1:])


def test_the_tasks_are_those_of_our_own_proxies(brought, exported):
    items, tasks = read_table(f"{exported}/items.parquet"), json.loads((exported / "tasks.json").read_text())
    assert {name: items["task"].to_pylist().count(name) for name in ("quiz", "heldout/t00.q1")} == {"quiz": 20, "heldout/t00.q1": 4}
    assert [task["name"] for task in tasks] == ["quiz", *(f"heldout/{name}" for name in brought.tokens.names)]
    assert sum(items["bytes"].to_pylist()) == sum(task["bytes"] for task in tasks)


def test_an_export_goes_on_where_it_was_stopped_and_never_over_other_files(brought, exported, tmp_path):
    run = read_json(f"{exported}/manifest.json")["runs"][0]
    before = (exported / "manifest.json").read_bytes()
    (exported / run["tokens_file"]).unlink()
    swarm_files.export(*brought, str(exported), rows=True)
    assert (exported / run["tokens_file"]).exists() and (exported / "manifest.json").read_bytes() == before
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        swarm_files.export(*brought, str(tmp_path), rows=False)
    other = brought.recipe.model_copy(update={"seed": 5})
    with pytest.raises(UsageError, match="holds other runs"):
        swarm_files.export(brought.work, other, brought.tokens, str(exported), rows=False)


def test_imported_scores_take_the_place_of_training(brought, exported, tmp_path):
    manifest = read_json(f"{exported}/manifest.json")
    said = swarm_files.take(*brought, str(write(tmp_path / "s.csv", manifest)))
    place = brought.recipe.swarm.scores
    assert said == f"scores of 12 runs on 2 tasks; {place} has 12 runs. Next: cuvee run RECIPE"
    assert swarm_files.take(*brought, str(tmp_path / "s.csv")) == said  # the same scores again
    head, first, *rows = (tmp_path / "s.csv").read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([head, f"{first.split(',')[0]},,1.5", *rows]))
    assert f"scores of 12 runs on 2 tasks; 1 of them had others before: {first.split(',')[0]}; " in swarm_files.take(*brought, str(tmp_path / "other.csv"))
    swarm_files.take(*brought, str(tmp_path / "s.csv"))
    folder = swarm.run(*brought, given=swarm_files.read(place))
    scores = {(row["run"], row["task"]): row["score"] for row in read_table(folder.file("run_scores.parquet")).to_pylist()}
    domains = read_table(folder.file("run_domains.parquet")).to_pylist()
    for run in manifest["runs"]:
        mine = {row["domain"]: row for row in domains if row["run"] == run["run"].split("-")[0]}
        assert {name: row["weight"] for name, row in mine.items()} == run["weights"] and {name: row["epochs"] for name, row in mine.items()} == run["epochs"]
        assert scores[run["run"].split("-")[0], "ours"] == pytest.approx(score(run["weights"])[1], abs=0.02)
    found = read_json(fit.run(brought.work, brought.recipe, brought.tokens, folder).file("fit.json"))
    assert {task["name"]: task["weight"] for task in found["tasks"]} == {"quiz": 0.5, "ours": 0.5}
    assert "every run of the plan has a row" in swarm_files.export(*brought, str(tmp_path / "none"), rows=False)


@pytest.mark.parametrize("change, said", [
    (lambda rows: rows[:3] + rows[4:], r"1 of 12 runs have no row: [0-9a-f]{16}-[0-9a-f]{6}\. `cuvee swarm export"),
    (lambda rows: rows[:3], r"10 of 12 runs have no row: ([0-9a-f-]{23}, ){4}[0-9a-f-]{23} and 5 more"),
    (lambda rows: [*rows, ["0123456789abcdef-012345", "1", "1"]], r"1 rows are of no run of this plan: 0123456789abcdef-012345"),
    (lambda rows: [*rows, rows[3]], "occurs more than once"),
    (lambda rows: [*rows[:3], [rows[3][0], "low", "1"], *rows[4:]], "column quiz: 'low' is not a number"),
    (lambda rows: [*rows[:3], [rows[3][0], "inf", "1"], *rows[4:]], "inf is not a score"),
    (lambda rows: [["run", "quiz", "heldout/t09.q9"], *rows[1:]], "1 columns are held-out tasks of no domain: heldout/t09.q9"),
    (lambda rows: [[row[0]] for row in rows], "no task beside the column run")])
def test_scores_that_do_not_fit_the_plan_are_refused(brought, exported, tmp_path, change, said):
    recipe = brought.recipe.model_copy(update={"swarm": brought.recipe.swarm.model_copy(update={"scores": str(tmp_path / "place.csv")})})
    rows = list(csv.reader(write(tmp_path / "s.csv", read_json(f"{exported}/manifest.json")).read_text().splitlines()))
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows(change(rows))
    with pytest.raises(DataError, match=said):
        swarm_files.take(brought.work, recipe, brought.tokens, str(tmp_path / "t.csv"))
    assert not (tmp_path / "place.csv").exists()


def test_a_run_without_any_score_has_failed(brought, exported, tmp_path):
    rows = list(csv.reader(write(tmp_path / "s.csv", read_json(f"{exported}/manifest.json")).read_text().splitlines()))
    rows[10][1:] = ["", "nan"]
    with open(tmp_path / "s.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    folder = swarm.run(*brought, given=swarm_files.read(str(tmp_path / "s.csv")))
    assert read_json(folder.file("runs.json"))["failed"] == [{"run": rows[10][0].split("-")[0], "reason": "no score was imported"}]


def test_scores_of_other_data_or_budgets_are_no_scores_of_this_plan(brought, exported, tmp_path):
    path = write(tmp_path / "s.csv", read_json(f"{exported}/manifest.json"))
    budget = brought.recipe.budget.model_copy(update={"target": 140_000})
    with pytest.raises(DataError, match="12 rows are of no run of this plan"):
        swarm_files.take(brought.work, brought.recipe.model_copy(update={"budget": budget, "swarm": brought.recipe.swarm.model_copy(
            update={"scores": str(tmp_path / "none.csv")})}), brought.tokens, str(path))
    with pytest.raises(UsageError, match="no swarm.scores"):
        swarm_files.take(brought.work, brought.recipe.model_copy(update={"swarm": brought.recipe.swarm.model_copy(update={"scores": None})}),
                         brought.tokens, str(path))


def test_the_next_round_follows_from_the_scores_of_the_first(brought, tmp_path):
    recipe = brought.recipe.model_copy(update={"swarm": brought.recipe.swarm.model_copy(
        update={"scores": str(tmp_path / "place.csv"), "rounds": 2, "runs": 16})})
    for number, (runs, following) in enumerate([(11, "round 2 has 5 runs"), (5, "Next: cuvee run RECIPE")], 1):
        swarm_files.export(brought.work, recipe, brought.tokens, str(tmp_path / str(number)), rows=False)
        manifest = read_json(f"{tmp_path}/{number}/manifest.json")
        assert [run["round"] for run in manifest["runs"]] == [number] * runs
        assert following in swarm_files.take(brought.work, recipe, brought.tokens, str(write(tmp_path / f"{number}.csv", manifest)))
    assert len(swarm_files.read(str(tmp_path / "place.csv")).scores) == 16


@pytest.mark.parametrize("arguments, said", [
    (["import", "r.yaml", "s.csv"], "no swarm.scores"), (["import", "r.yaml", "no.csv", "--set", "swarm.scores=place.csv"], "no such file: no.csv"),
    (["import", "r.yaml", ".", "--set", "swarm.scores=place.csv"], "is a folder; name a file"), (["export", "r.yaml", "-o", "s.csv"], "s.csv is a file; name a folder"),
    (["export", "r.yaml", "-o", "out", "--set", "budget.targets=[20K, 80K]"], "an export is of one")])
def test_a_wrong_call_is_told_before_any_work(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"text": "a"}')
    (tmp_path / "s.csv").write_text("run,quiz\nr,1\n")
    (tmp_path / "r.yaml").write_text("work: w\nsources: [{name: a, path: in.jsonl, license: MIT}]\nbudget: {target: 40K, proxy: 8K}\n")
    done = command("swarm", *arguments)
    assert done.code == 2 and said in done.err and not (tmp_path / "w").exists()
