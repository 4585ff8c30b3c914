from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cuvee.engine.store import read_bytes, read_json
from cuvee.errors import DataError, UsageError
from cuvee.kernels.agreement import spearman
from cuvee.kernels.surrogate import Surrogate
from cuvee.steps.proxies import gate
from tests.steps import made_swarms as mixing

FILES = ("fit.json", "surrogate.json")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    case = mixing.case(tmp_path_factory.mktemp("fit"), mixing.world())
    folder = case.fit()
    return case, folder, read_json(folder.file("fit.json"))


def bytes_of(case: mixing.Case) -> list[bytes]:
    folder = case.fit()
    return [read_bytes(folder.file(name)) for name in FILES]


def test_a_task_of_noise_gets_weight_0_and_is_named(done):
    case, _, found = done
    tasks = {each["name"]: each for each in found["tasks"]}
    assert {name: each["weight"] for name, each in tasks.items()} == {"quiz": 0.5, "maths": 0.5, "noise": 0.0, "heldout/t00.q2": 0.0}
    assert tasks["noise"]["snr"] < 2 < tasks["quiz"]["snr"]
    assert "1 of 4 tasks have a signal to noise under 2 and get weight 0: noise" in case.said.getvalue()


def test_signal_and_noise_golden():  # SD of 1 3 1 3 4 6; two pairs of repeats, each 1 off its mean: 4 squares over 2 spare
    weights = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0.5, 0.5], [0.2, 0.8]])
    found = gate.signal(weights, np.array([1.0, 3, 1, 3, 4, 6]))
    assert found["noise_sd"] == pytest.approx(np.sqrt(4 / 2)) and found["swarm_sd"] == pytest.approx(np.sqrt(72 / 6 - 9))
    assert found["snr"] == pytest.approx(np.sqrt(3 / 2)) and found["freedom"] == 2
    assert found["resolves"] == pytest.approx(4.303 * np.sqrt(2) * found["noise_sd"], rel=1e-3)  # Student's t of two degrees
    assert gate.signal(weights[3:], np.arange(3.0))["snr"] is None and gate.signal(weights[:0], np.zeros(0))["swarm_sd"] is None
    assert gate.signal(weights, np.full(6, 0.1))["swarm_sd"] == 0  # a mean of tenths is not a tenth


def test_a_task_that_ranks_mixtures_otherwise_at_half_of_the_tokens_gets_weight_0(tmp_path):
    made = mixing.world()
    early = made.scores + 0.3
    early[:, 1] = np.random.default_rng(5).permutation(early[:, 1])
    case = mixing.case(tmp_path, replace(made, half=early))
    tasks = {each["name"]: each for each in read_json(case.fit().file("fit.json"))["tasks"]}
    assert tasks["quiz"]["predictability"] == pytest.approx(1) and tasks["maths"]["predictability"] < 0.5
    assert tasks["quiz"]["weight"] == 1 and (tasks["maths"]["weight"], tasks["maths"]["why"]) == (0, "unpredictable")
    assert "1 of 4 tasks rank mixtures otherwise at half of the tokens" in case.said.getvalue()


def test_protected_and_reported_tasks_are_never_optimised(tmp_path):
    evals = [{"name": name, "path": "e.jsonl", "continuation": "a", "role": role} for name, role in (("quiz", "protected"), ("noise", "report"))]
    case = mixing.case(tmp_path, mixing.world(), evals=evals)
    found = {each["name"]: (each["role"], each["weight"], each["why"]) for each in read_json(case.fit().file("fit.json"))["tasks"]}
    assert found == {"quiz": ("protected", 0, "protected"), "maths": ("target", 1, None), "noise": ("report", 0, "low_signal"),
                     "heldout/t00.q2": ("target", 0, "not_asked_for")}
    assert case.recipe.protected == {"quiz": 0.0}


def test_noise_that_differs_between_mixtures_is_said_and_the_mean_says_what_it_resolves(done, tmp_path):
    made = mixing.world()
    made.scores[5:8, 0] += np.array([-0.5, 0.5, 0.0])  # the concentrated proposal's repeats
    case = mixing.case(tmp_path, made)
    found = read_json(case.fit().file("fit.json"))
    assert "noise is not the same everywhere: 1 tasks" in case.said.getvalue() and found["tasks"][0]["noise_ratio"] > 10
    assert "noise is not" not in done[0].said.getvalue()
    mean = done[2]["mean"]
    assert mean["freedom"] == 7  # five proportional, three concentrated; and uniform keeps the caps here, so it is UniMax again
    assert 0 < mean["noise_sd"] < 0.3 and mean["resolves"] == pytest.approx(2.365 * np.sqrt(2) * mean["noise_sd"], rel=1e-3)


def test_runs_are_predicted_out_of_fold_and_ranked(done):
    case, folder, found = done
    made = mixing.world()
    surrogate = Surrogate.from_dict(read_json(folder.file("surrogate.json")))
    assert surrogate.domains == tuple(mixing.NAMES) and surrogate.tasks == tuple(mixing.TASKS)
    np.testing.assert_allclose(surrogate.runs.epochs, made.weights * mixing.TARGET / mixing.TOKENS, atol=0.002)
    measured, predicted = ([run[name]["quiz"] for run in found["runs"]] for name in ("measured", "predicted"))
    assert measured == made.scores[:, 0].tolist()
    task = found["tasks"][0]
    assert task["spearman"] == pytest.approx(spearman(np.array(predicted), np.array(measured)))
    assert task["low"] < task["spearman"] < task["high"] and task["spearman"] > 0.8 and task["regret"] >= 0
    assert np.abs(surrogate.predict(made.weights)[:, 0] - predicted).max() > 1e-4  # not the predictions of the whole fit
    z = (made.scores[:, :2] - [fitted.anchor for fitted in surrogate.fits[:2]]) / made.scores[:, :2].std(axis=0)
    np.testing.assert_allclose([run["measured_mean"] for run in found["runs"]], z.mean(axis=1))
    assert found["mean"]["spearman"] > 0.75


def test_order_of_rows_and_number_of_workers_change_nothing(done, tmp_path):
    case, _, _ = done
    for workers, shuffled in ((1, True), (2, False)):
        assert bytes_of(mixing.case(tmp_path / str(workers), replace(mixing.world(), shuffled=shuffled), workers)) == bytes_of(case)


def test_missing_scores_leave_out_a_run_task_by_task_and_are_counted(tmp_path):
    made = mixing.world().without((9, 0), (11, 0), (11, 1), *((14, task) for task in range(4)))
    case = mixing.case(tmp_path, made)
    found = read_json(case.fit().file("fit.json"))
    assert [each["missing"] for each in found["tasks"]] == [2, 1, 0, 0]
    runs = {run["run"]: run for run in found["runs"]}
    assert len(runs) == 25 and "run14" not in runs
    assert runs["run09"]["measured_mean"] is None and "quiz" not in runs["run09"]["predicted"] and "maths" in runs["run09"]["predicted"]
    assert "1 of 26 runs have no score and are left out. run14: loss was nan" in case.said.getvalue()
    assert "3 scores of single tasks are missing; these runs are left out there: quiz (2), maths (1)" in case.said.getvalue()


def test_scores_that_no_mixture_explains_are_said_to_be_a_guess(done, tmp_path):
    made = mixing.world()
    made.scores[8:] = np.random.default_rng(0).permutation(made.scores[8:])  # repeats come first and stay
    case = mixing.case(tmp_path, made)
    case.fit()
    assert "do not surely rank the runs" in case.said.getvalue() and "surely" not in done[0].said.getvalue()


def rows(**given):
    """Tasks as the gate sees them, by name: (kind, snr)."""
    return {name.replace("_", "/"): {"kind": kind, "fit": {}, "swarm_sd": 1.0, "noise_sd": 1.0, "snr": snr} for name, (kind, snr) in given.items()}


@pytest.mark.parametrize("evals, held, chosen, weights, said", [
    ((3, 9), (9, 9), {}, {"a": 0.5, "b": 0.5}, None),
    ((3, 1), (9, 9), {}, {"a": 1.0}, "get weight 0: b (1.00)"),
    ((3, 9), (9, 9), {"b": 3.0, "heldout/x": 1.0}, {"b": 0.75, "heldout/x": 0.25}, None),
    ((1, 1), (9, 9), {}, {"heldout/x": 0.2, "heldout/y": 0.8}, "no task that was asked for stands out"),
    ((1, 1), (9, 1), {}, {"heldout/x": 1.0}, "no task that was asked for stands out"),
    ((1, 1), (1, 1), {}, {"heldout/x": 0.2, "heldout/y": 0.8}, "no task at all stands out"),
])
def test_which_tasks_count(evals, held, chosen, weights, said):
    found = rows(a=("eval", evals[0]), b=("eval", evals[1]), heldout_x=("heldout", held[0]), heldout_y=("heldout", held[1]))
    given, notes = gate.importance(found, chosen, 2.0, {"x": 100, "y": 400})
    assert given == pytest.approx(weights)
    assert said in " ".join(notes) if said else notes == []


def test_without_evaluations_held_out_domains_are_the_target_and_no_warning():
    assert gate.importance(rows(heldout_x=("heldout", 5)), {}, 2.0, {"x": 100}) == ({"heldout/x": 1.0}, [])
    measured = rows(a=("eval", 9), heldout_x=("heldout", 5))
    measured["a"]["role"] = "report"  # high signal, and no target all the same
    assert gate.importance(measured, {}, 2.0, {"x": 100}) == ({"heldout/x": 1.0}, [])
    given, notes = gate.importance(rows(a=("eval", 1)), {}, 2.0, {})
    assert given == {"a": 1.0} and "used all the same" in notes[-1]


def test_a_domain_or_task_of_another_name_is_an_error(tmp_path):
    made = mixing.world()
    with pytest.raises(DataError, match=r"1 domains of the swarm are not in the token store: t02\.q2"):
        mixing.case(tmp_path / "a", made, names=[*mixing.NAMES[:5], "t09.q9"]).fit()
    with pytest.raises(DataError, match=r"1 domains of the token store are not in the swarm: t03\.q1"):
        mixing.case(tmp_path / "b", replace(made, tokens=np.append(mixing.TOKENS, 50)), names=[*mixing.NAMES, "t03.q1"]).fit()
    with pytest.raises(UsageError, match=r"no task 'quizz'\. Did you mean 'quiz'\?"):
        mixing.case(tmp_path / "c", made, mix={"tasks": {"quizz": 1}}).fit()


def test_a_swarm_without_scores_is_an_error(tmp_path):
    made = mixing.world()
    made.scores[:] = np.nan
    with pytest.raises(DataError, match="no task with scores that differ, of enough runs"):
        mixing.case(tmp_path, made).fit()
