from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cuvee import summary
from cuvee.engine.store import Output, read_json
from cuvee.errors import DataError
from cuvee.kernels.scaling import Curve
from cuvee.report import validation as report
from cuvee.steps import validate
from cuvee.steps.proxies import training
from cuvee.steps.proxies.training import Run
from tests.report.reading import Reader
from tests.steps.swarms import mixed

NAMES = ["quiz", "maths"]
SEEDS = (0, 1, 2)
FIT = {"tasks": [{"name": name, "weight": 0.5, "noise_sd": 0.002} for name in NAMES], "runs": []}
LAW = Curve(0.0, 3.0, 0.2, 1e9)  # of proportional


def trained(made, folder, better, failed=(), worse=None, times=(1, 2, 4)):
    """Sizes whose scores follow LAW, the proposal's as if it had `better` times the compute; worse: (task, rise)"""
    sizes = []
    for at, factor in enumerate(times):
        regime = training.regime(made.recipe, made.tokens, 1 + at, factor * made.recipe.budget.proxy)
        runs = {name: [Run((number,), seed) for seed in SEEDS] for number, name in enumerate(validate.MIXTURES) if at or name != "unimax"}
        size = validate.Trained(regime, at > 0, SEEDS, runs, {run.key: str(folder / f"{at}-{run.key}.json") for each in runs.values() for run in each})
        for name, each in runs.items():
            for run in each:
                value = LAW.loss(size.flops * (better if name == "proposal" else 1)) + 0.01 * np.sin(run.seed + at) + 1e-4 * np.cos(run.seed * 5 + len(name))
                rise = [0.0, worse or 0.0] if name == "proposal" and at else [0.0, 0.0]
                broken = "loss is nan" if (at, name, run.seed) in failed else None
                found = {"drawn": [], "losses": [], "half": None, "failure": broken, "scores": {} if broken else dict(zip(NAMES, np.add(value, rise).tolist()))}
                (folder / f"{at}-{run.key}.json").write_text(json.dumps(found))
        sizes.append(size)
    return sizes


def compared(made, folder, predicted=-0.2, protected=None, **given):
    sizes = trained(made, folder, **given)
    mixture = {"tasks": [{"name": name, "predicted": 2 + predicted, "proportional": 2.0, "sd": 0.01} for name in NAMES]}
    for name, value in (("mixture", mixture), ("fit", FIT)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    validate.compare(Output(str(folder)), sizes, str(folder / "mixture.json"), str(folder / "fit.json"), protected or {}, ("a warning",), 0)
    return read_json(str(folder / "validate.json"))


def test_a_proposal_that_is_worth_twice_the_compute_is_said_to_be(made, tmp_path):
    found = compared(made, tmp_path, better=2.0)
    gains = [size["gains"]["proposal"] for size in found["sizes"]]
    assert [gain["factor"] for gain in gains] == pytest.approx([2.0] * 3, rel=0.05) and [gain["beyond"] for gain in gains] == [False, False, True]
    assert all(gain["low"] < 2 < gain["high"] for gain in gains) and found["sizes"][2]["gains"]["unimax"]["factor"] == pytest.approx(1.0, rel=0.02)
    assert found["curve"]["form"] == "A C^-alpha" and found["curve"]["exponent"] == pytest.approx(0.2, rel=0.1)
    assert found["verdict"] == "ship" and "beyond the sizes trained" in found["curve"]["said"] and len(found["scores"]) == 2 * (6 + 9 + 9)


def test_no_gain_in_compute_from_two_sizes(made, tmp_path):
    found = compared(made, tmp_path, better=2.0, times=(1, 3))
    assert found["verdict"] == "ship" and found["curve"]["form"] is None and [size["gains"] for size in found["sizes"]] == [{}, {}]
    assert "takes 3 sizes with two finished runs of proportional, and there are 2" in found["remarks"][-2] and found["remarks"][-1] == "a warning"


def test_what_is_left_can_be_printed_and_shown(made, tmp_path):
    found = compared(made, tmp_path, better=2.0, failed=[(1, "proposal", 0), (2, "proposal", 0), (2, "proposal", 1)], predicted=-3.0)
    rows = summary.validation(found).splitlines()
    assert [row.split()[-1] for row in rows[1:3]] == ["x", "x"] and rows[1].startswith("the proxy's size (1,984 tokens)        3") and rows[3].endswith("     0")
    assert rows[4].startswith("verdict: ship. The proposal is better than proportional at depth 2 (3,968 tokens): -") and rows[-1] == "a warning"
    shown = Reader("<html>" + report.validation(found) + "</html>")
    assert len(shown.tables["validation"]) == 3 and not shown.open and "optimism +2." in shown.text and len(shown.tables["validation"][0]) == 4


def test_a_size_over_the_target_is_said(made):
    budget = made.recipe.budget.model_copy(update={"target": 5_000})
    assert validate.too_long(made.recipe) == []
    said, = validate.too_long(made.recipe.model_copy(update={"budget": budget}))
    assert said.startswith("depth 2 sees 6,000 tokens, over budget.target = 5,000")


def test_failed_runs_leave_fewer_pairs_and_under_two_none(made, tmp_path):
    found = compared(made, tmp_path, better=2.0, failed=[(1, "proposal", 0), (2, "proportional", 0), (2, "proposal", 2)])
    assert [size["proposal"] and size["proposal"]["pairs"] for size in found["sizes"]] == [3, 2, None]
    assert found["verdict"] == "ship" and "depth 2 (" in found["explanation"] and found["sizes"][2]["failed"][1]["reason"] == "loss is nan"
    assert "2 runs failed at depth 3" in " ".join(found["remarks"]) and len(found["scores"]) == 2 * (6 + 8 + 7)
    everywhere = [(at, name, seed) for at in range(3) for name in validate.MIXTURES for seed in SEEDS]
    held = compared(made, tmp_path, better=2.0, failed=[each for each in everywhere if each[0]])
    assert held["verdict"] == "hold" and "No larger size has two pairs" in held["explanation"]
    with pytest.raises(DataError, match="all 24 runs of validation failed; the first: loss is nan"):
        compared(made, tmp_path, better=2.0, failed=everywhere)


def test_a_protected_task_that_rises_holds_what_would_ship(made, tmp_path):
    found = compared(made, tmp_path, better=2.0, worse=0.3, protected={"maths": 0.02})
    tasks = [{each["name"]: each["regressed"] for each in size["tasks"]} for size in found["sizes"]]
    assert found["verdict"] == "hold" and "Protected task maths rises" in found["explanation"]
    assert [each["maths"] for each in tasks] == [False, False, True] and not any(each["quiz"] for each in tasks)


def test_the_gate_on_optimism_fires_at_the_size_of_the_proxy(made, tmp_path):
    true = LAW.loss(2 * training_flops(made)) - LAW.loss(training_flops(made))
    honest = compared(made, tmp_path, better=2.0, predicted=true - 0.01)["optimism"]
    assert honest["measured"] == pytest.approx(true, abs=1e-3) and honest["fires"] is False
    assert honest["predicted_se"] == pytest.approx((0.01**2 - 0.002**2) ** 0.5)
    fired = compared(made, tmp_path, better=2.0, predicted=true - 0.05)
    assert fired["optimism"]["fires"] and fired["optimism"]["optimism"] == pytest.approx(0.05, abs=1e-3) and fired["verdict"] == "ship"


def training_flops(made):
    regime = training.regime(made.recipe, made.tokens, 1, made.recipe.budget.proxy)
    return regime.tokens * regime.config.flops_per_token


def run(made, weights):
    fit, mix = mixed(made.work, made.recipe, made.tokens, weights)
    return read_json(validate.run(made.work, made.recipe, made.tokens, fit, mix).file("validate.json"))


def test_more_of_what_the_task_is_about_ships(made):
    """The quiz is about the sea, topic 0: four times its natural share must help, and what it takes away must hurt."""
    found = run(made, {name: 0.45 if name.startswith("t00") else 0.025 for name in made.tokens.names})
    sizes = found["sizes"]
    assert found["verdict"] == "ship" and [(size["depth"], size["tokens"]) for size in sizes] == [(1, 31 * 64), (2, 62 * 64), (2, 93 * 64)]
    assert [len(size["seeds"]) for size in sizes] == [5, 3, 3] and set(sizes[0]["seeds"]) > set(sizes[1]["seeds"]) == set(sizes[2]["seeds"])
    by_task = {each["name"]: each["proposal"]["difference"] for each in sizes[2]["tasks"]}
    assert sizes[2]["proposal"]["difference"] == by_task["quiz"] < 0 < by_task["heldout/t01.q1"] and "heldout/t01.q1" in " ".join(found["remarks"])
    assert found["optimism"]["predicted"] == pytest.approx(1.5 - 1.75) and len(found["scores"]) == 7 * (10 + 9 + 9)


def test_the_natural_mixture_itself_makes_no_difference(made):
    natural = dict(zip(made.tokens.names, (made.tokens.tokens / made.tokens.tokens.sum()).tolist()))
    found = run(made, natural)
    assert found["verdict"] == "no difference" and found["sizes"][2]["proposal"] == {"pairs": 3, "difference": 0, "se": 0, "low": 0, "high": 0}


def test_proportional_at_the_size_of_the_proxy_is_that_of_the_swarm(made):
    from cuvee.steps import swarm

    regime = training.regime(made.recipe, made.tokens, 1, made.recipe.budget.proxy)
    planned = {each.run.key: each.kind for each in swarm.plan(made.recipe, made.tokens, regime)}
    natural, spread, _ = validate.mixtures(made.recipe, made.tokens, {"domains": [{"name": name, "weight": 0.0} for name in made.tokens.names]}).values()
    kinds = [planned.get(each.key) for each in training.runs_of(made.recipe, regime, [natural] * validate.REPEATS + [spread])]
    assert kinds == ["proportional", *["repeat"] * 4, "unimax"]


def test_a_mixture_of_other_domains_is_refused(made):
    without = replace(made.tokens, domains=(*made.tokens.domains, replace(made.tokens.domains[0], name="t09.q1", rows=0, tokens=0)))
    assert training.matched(dict.fromkeys(made.tokens.names, 0.5), without, "mixture.json").tolist() == [0.5] * 6 + [0]
    with pytest.raises(DataError, match="do not have the same domains: t00.q1, t09.q1 in one alone"):
        training.matched({"t09.q1": 1.0, **dict.fromkeys(made.tokens.names[1:], 0.0)}, made.tokens, "mixture.json")
