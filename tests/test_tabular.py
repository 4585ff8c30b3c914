"""`cuvee fit`, `cuvee predict`, `cuvee mix` on CSV files: every rule with its message, and a swarm of a known law."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from cuvee.kernels.agreement import spearman
from tests.commands import cuvee

DOMAINS = ["web", "code, python", "t03.q1", "t03.q2"]
TOKENS = [400, 100, 60, 40]
TASKS = ["mmlu", "häufig = oft"]
GAIN = np.array([[0.2, 1.0, 0.1, 0.5], [0.1, 0.0, 0.3, 0.9]])


def write(path: Path, head: list[str], rows: list[list[object]]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def truth(weights: np.ndarray) -> np.ndarray:
    return 1 + np.exp(-(1 - np.exp(-2 * weights)) @ GAIN.T)


@pytest.fixture
def swarm(tmp_path, monkeypatch):
    """m.csv, s.csv in another order of runs and with another name of the key, c.csv; 40 runs of a known law."""
    monkeypatch.chdir(tmp_path)
    weights = np.round(np.random.default_rng(0).dirichlet(np.ones(4), 40), 6)
    scores = truth(weights / weights.sum(axis=1, keepdims=True))
    order = np.random.default_rng(1).permutation(40)
    write(tmp_path / "m.csv", ["run", *DOMAINS], [[f"r{i}", *row] for i, row in enumerate(weights.tolist())])
    write(tmp_path / "s.csv", ["index", *TASKS], [[f"r{i}", *scores[i].tolist()] for i in order.tolist()])
    write(tmp_path / "c.csv", ["domain", "tokens"], [[name, count] for name, count in zip(DOMAINS[::-1], TOKENS[::-1])])
    return tmp_path


def fit(*more: str):
    return cuvee("fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "f.json", "--model", "saturating", *more)


def mix(*more: str, budget: str = "300"):
    done = cuvee("mix", "f.json", "--counts", "c.csv", "--budget", budget, "-o", "x.json", *more)
    return done, json.loads(Path("x.json").read_text()) if done.code == 0 else None


def test_counts_may_be_written_as_in_a_recipe(swarm):
    assert fit("--counts", "c.csv", "--budget", "300").code == 0
    plain = json.loads(Path("f.json").read_text())["tasks"]
    write(swarm / "c.csv", ["domain", "tokens"], [[name, f"{count / 1000}K"] for name, count in zip(DOMAINS, TOKENS)])
    assert fit("--counts", "c.csv", "--budget", "0.3K").code == 0 and json.loads(Path("f.json").read_text())["tasks"] == plain


def test_predictions_follow_the_law_in_input_order_with_floats_by_repr(swarm):
    assert fit().code == 0
    weights = np.random.default_rng(2).dirichlet(np.ones(4), 9)
    turned = [2, 0, 3, 1]
    write(swarm / "n.csv", ["Mix", *(DOMAINS[i] for i in turned)], [[f"new{9 - i}", *weights[i, turned].tolist()] for i in range(9)])
    assert cuvee("predict", "f.json", "--mixtures", "n.csv", "-o", "p.csv").code == 0
    rows = read(swarm / "p.csv")
    assert list(rows[0]) == ["Mix", "mmlu", "mmlu_sd", "häufig = oft", "häufig = oft_sd"]
    assert [row["Mix"] for row in rows] == [f"new{9 - i}" for i in range(9)]
    found = np.array([[float(row[task]) for task in TASKS] for row in rows])
    np.testing.assert_allclose(found, truth(weights), atol=0.02)
    assert all(repr(float(value)) == value for row in rows for key, value in row.items() if key != "Mix")
    assert all(0 < float(row["mmlu_sd"]) < 0.05 for row in rows)


def test_weights_are_divided_by_their_sum(swarm):
    assert fit().code == 0
    for name, scale in (("a", 1.0), ("b", 1.0095)):
        write(swarm / f"{name}.csv", ["k", *DOMAINS], [["x", *(scale * np.array([0.25, 0.25, 0.25, 0.25])).tolist()]])
        cuvee("predict", "f.json", "--mixtures", f"{name}.csv", "-o", f"p{name}.csv")
    assert float(read(swarm / "pb.csv")[0]["mmlu"]) == pytest.approx(float(read(swarm / "pa.csv")[0]["mmlu"]), rel=1e-12)


def change(path: Path, row: int, column: int, value: str | None) -> None:
    """Set a cell (0: the header, the key), or delete the row."""
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    if value is None:
        del lines[row]
    else:
        lines[row][column] = value
    write(path, lines[0], lines[1:])


@pytest.mark.parametrize("file, row, column, value, said", [
    ("m.csv", 3, 2, "-0.1", r"run r2, domain code, python: weight -0.1; weights are finite and >= 0"),
    ("m.csv", 3, 2, "inf", r"weight inf; weights are finite"), ("m.csv", 3, 2, "nan", r"weight nan; weights are finite"),
    ("m.csv", 3, 2, "", r"m.csv, run r2, column code, python: '' is not a number"),
    ("m.csv", 3, 2, "1.9", r"m.csv, run r2: weights sum to 2"), ("m.csv", 3, 0, "r1", "key r1 occurs more than once"),
    ("m.csv", 0, 2, "web", "column web occurs more than once"), ("m.csv", 3, None, None, "1 runs of s.csv are not in m.csv: r2. Both must name the same runs"),
    ("m.csv", 0, 2, " ", "column 2 has no name"), ("m.csv", 3, 0, "", "key 3 has no name"),
    ("s.csv", 3, None, None, "1 runs of m.csv are not in s.csv: "), ("s.csv", 3, 1, "x", "'x' is not a number"), ("s.csv", 3, 1, "inf", "inf is not a score"),
    ("c.csv", 1, 0, "t04", "1 domains of m.csv are not in c.csv: t03.q2"), ("c.csv", 1, 1, "0", "domain t03.q2: 0 tokens"), ("c.csv", 1, 1, "1e19", "domain t03.q2: 1e+19 tokens; 1e+18 is the most"), ("c.csv", 0, 1, "size", "a CSV of counts has domain,tokens")])
def test_what_is_off_is_said_with_its_place(swarm, file, row, column, value, said):
    change(swarm / file, row, column, value)
    done = fit("--counts", "c.csv", "--budget", "300")
    assert done.code == 1 and said in done.err and not (swarm / "f.json").exists()


def test_five_keys_of_one_side_are_named(swarm):
    for row in range(8):
        change(swarm / "s.csv", row + 1, 0, f"other{row}")
    done = fit()
    assert "8 runs of m.csv are not in s.csv: " in done.err and " and 3 more. " in done.err and done.err.split(": ")[2].count(",") == 4


def test_empty_and_nan_cells_leave_out_that_run_for_that_task(swarm):
    change(swarm / "s.csv", 1, 1, "")
    change(swarm / "s.csv", 5, 1, "NaN")
    done = fit()
    assert done.code == 0 and "2 scores are missing; these runs are left out there: mmlu (2)" in done.err
    held = {task["name"]: task["out_of_fold"] for task in json.loads((swarm / "f.json").read_text())["tasks"]}
    assert [each.count(None) for each in held.values()] == [2, 0]


def test_a_task_that_was_scored_on_one_mixture_alone_is_an_error(swarm):
    weights = np.vstack([np.tile([0.4, 0.3, 0.2, 0.1], (6, 1)), np.random.default_rng(3).dirichlet(np.ones(4), 9)])
    write(swarm / "m.csv", ["run", *DOMAINS], [[f"r{i}", *row] for i, row in enumerate(weights.tolist())])
    write(swarm / "s.csv", ["run", *TASKS], [[f"r{i}", 1 + i / 100 if i < 6 else "", 2 + i / 50] for i in range(15)])
    done = cuvee("fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "f.json")
    assert done.code == 1 and f"task {TASKS[0]}: all 6 runs with a score are of the same mixture" in done.err


def test_too_few_runs_and_trees_that_cannot_split_are_errors(swarm):
    for path in (swarm / "m.csv", swarm / "s.csv"):
        rows = [line for line in path.read_text().splitlines() if line.split(",")[0] in ("run", "index", "r1", "r2", "r3", "r4", "r5", "r6")]
        path.write_text("\n".join(rows) + "\n")
    done = cuvee("fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "f.json", "--model", "lightgbm")
    assert done.code == 1 and "6 runs with a score cannot fill two leaves of 3" in done.err
    change(swarm / "s.csv", 1, 1, "")
    change(swarm / "s.csv", 2, 1, "")
    assert "at least 5 runs with a score; got 4" in fit().err


def test_trees_of_few_runs_a_domain_are_said(swarm):
    for path in (swarm / "m.csv", swarm / "s.csv"):
        path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("r3")) + "\n")
    done = cuvee("fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "f.json", "--model", "lightgbm")
    assert done.code == 0 and "lightgbm: 29 runs for 4 domains; under 8 a domain" in done.err
    assert "lightgbm has no slopes" in mix()[0].err


@pytest.mark.parametrize("arguments, said", [
    (["fit", "--mixtures", "no.csv", "--scores", "s.csv", "-o", "f.json"], "no such file: no.csv"),
    (["fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "f.json", "--model", "linaer"], "Did you mean 'linear'?"),
    (["fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "f.json", "--counts", "c.csv"], "--counts and --budget go together"),
    (["predict", "no.json", "--mixtures", "m.csv", "-o", "p.csv"], "no such file: no.json"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "much", "-o", "x.json"], "--budget much: a whole number of tokens"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "1K", "--group", "code=t03.*:0.1", "-o", "x.json"], "write name=domains:low:high"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "1K", "--group", "code=t03.*:0.3:0.1", "-o", "x.json"], "low 0.3 is over high 0.1"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "1K", "--protect", "mmlu", "-o", "x.json"], "write task=number"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "1K", "--max-epochs", "0", "-o", "x.json"], "max_epochs 0.0"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "1K", "--task", "mmlu=0", "-o", "x.json"], "error: mix: tasks gives every task weight 0"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "1K", "--task", "mmlu=1", "--task", "mmlu=2", "-o", "x.json"], "--task mmlu is given 2 times"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "1K", "--group", "a=web::.1", "--group", "a=web:.1:", "-o", "x.json"], "--group a is given 2 times"),
    (["mix", "f.json", "--counts", "c.csv", "--budget", "1e30", "-o", "x.json"], "1e+18 at most")])
def test_a_wrong_call_is_exit_2(swarm, arguments, said):
    done = cuvee(*arguments)
    assert done.code == 2 and said in done.err


@pytest.mark.parametrize("arguments", [
    ["fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "s.csv"], ["fit", "--mixtures", "m.csv", "--scores", "s.csv", "-o", "."],
    ["predict", "f.json", "--mixtures", "m.csv", "-o", "./m.csv"], ["mix", "f.json", "--counts", "c.csv", "--budget", "300", "-o", "f.json"],
    ["mix", "f.json", "--counts", "c.csv", "--budget", "300", "-o", "x.json", "--frontier", "x.json"],
    ["mix", "f.json", "--counts", "c.csv", "--budget", "300", "-o", "x.json", "--freeze", "x.json"]])
def test_no_file_is_written_over_what_the_same_call_reads_or_writes(swarm, arguments):
    (swarm / "f.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in swarm.iterdir()}
    done = cuvee(*arguments)
    assert done.code == 2 and "ame" in done.err and {path.name: path.read_bytes() for path in swarm.iterdir()} == before


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("model", ["linear", "saturating"])
def test_scores_beyond_floats_are_no_surrogate(swarm, model):
    change(swarm / "s.csv", 3, 1, "1e300")
    done = fit("--model", model)
    assert done.code == 1 and "Give them in another unit" in done.err and not (swarm / "f.json").exists()


def test_runs_of_one_mixture_are_no_swarm(swarm):
    write(swarm / "m.csv", ["run", *DOMAINS], [[f"r{i}", .4, .3, .2, .1] for i in range(40)])
    assert "all 40 runs are of the same mixture" in fit().err and not (swarm / "f.json").exists()


def test_predict_needs_the_same_domains(swarm):
    assert fit().code == 0
    change(swarm / "m.csv", 0, 1, "net")
    done = cuvee("predict", "f.json", "--mixtures", "m.csv", "-o", "p.csv")
    assert done.code == 1 and "1 domains of f.json are not in m.csv: web" in done.err


def test_a_mixture_keeps_epochs_groups_and_protected_tasks(swarm):
    assert fit().code == 0
    free = mix()[1]
    limits = ["--max-epochs", "1.25", "--group", "third=t03.*:0.05:0.2", "--group", "web=web::0.6", "--task", "häufig = oft=2"]
    before = mix(*limits)[1]["tasks"][0]
    allowed = before["predicted"] - before["proportional"] - 0.005  # less than it rises unprotected
    _, found = mix(*limits, "--protect", f"mmlu={allowed}")
    given = {each["name"]: each for each in found["domains"]}
    held = sum(given[name]["parts"] for name in ("t03.q1", "t03.q2"))
    assert 0.05 * 2**20 <= held <= 0.2 * 2**20 < sum(each["parts"] for each in free["domains"][2:]) and given["web"]["weight"] <= 0.6
    assert all(each["epochs"] <= 1.25 for each in found["domains"]) and sum(each["parts"] for each in found["domains"]) == 2**20 and found["kkt"] <= 1e-6
    mmlu = found["tasks"][0]
    assert mmlu["predicted"] == pytest.approx(mmlu["proportional"] + allowed, abs=1e-5)
    assert set(found["fingerprints"]) == {"surrogate", "counts"}


def test_limits_that_cannot_be_kept_are_named(swarm):
    assert fit().code == 0
    assert "these would have to give way: 'third' by 0.1" in mix("--max-epochs", "1.2", "--group", "third=t03.*:0.5:1")[0].err
    assert "no domain is named t04.*" in mix("--group", "none=t04.*:0:1")[0].err
    assert "the surrogate has no task 'mmul'. Did you mean 'mmlu'?" in mix("--protect", "mmul=0")[0].err
    assert "protects all tasks; the nearest passes 'mmlu' by" in mix("--protect", "mmlu=-0.5")[0].err


def test_a_fit_with_counts_answers_for_its_own_budget(swarm):
    assert fit("--counts", "c.csv", "--budget", "300").code == 0
    assert mix(budget="400")[1]["budget"] == 400
    assert "would be seen 0.75 times" in mix(budget="700")[0].err


def test_public_files_are_read_as_they_are(shared, tmp_path):
    data = shared / "data" / "regmix"
    done = cuvee("fit", "--mixtures", f"{data}/train_mixture_1m.csv", "--scores", f"{data}/train_pile_loss_1m.csv", "-o", f"{tmp_path}/f.json", "--model", "gp")
    assert done.code == 0
    cuvee("predict", f"{tmp_path}/f.json", "--mixtures", f"{data}/test_mixture_60m.csv", "-o", f"{tmp_path}/p.csv")
    name, seen = "metric/the_pile_pile_cc_val_loss", {row["index"]: row for row in read(data / "test_pile_loss_60m.csv")}
    rows = read(tmp_path / "p.csv")
    assert len(rows) == 256 and spearman(np.array([float(row[name]) for row in rows]), np.array([float(seen[row["index"]][name]) for row in rows])) > 0.985
