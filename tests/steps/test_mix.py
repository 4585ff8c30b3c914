from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cuvee.engine.store import join, read_bytes, read_json
from cuvee.errors import DataError, UsageError
from cuvee.kernels.search import minimise
from cuvee.kernels.simplex import proportional, uniform
from cuvee.kernels.surrogate import Surrogate
from cuvee.steps import mix
from tests.steps import made_swarms as mixing
from tests.steps.made_swarms import NAMES, TARGET, TOKENS, truth

PARTS = 1_048_576
KEYS = {"version", "budget", "parts", "domains", "tasks", "mean", "optimism", "objective", "kkt", "baselines", "frontier", "fingerprints"}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    case = mixing.case(tmp_path_factory.mktemp("mix"), mixing.world())
    return case, read_json(case.mix().file("mixture.json"))


def weights_of(found: dict) -> np.ndarray:
    """In the order of NAMES, whatever that of the file is."""
    given = {each["name"]: each["weight"] for each in found["domains"]}
    return np.array([given[name] for name in NAMES])


def true_loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean of the two evaluations in SDs of the swarm, plus the pull to natural; its gradient by differences."""
    spread, natural = truth(mixing.world().weights)[:, :2].std(axis=0), proportional(TOKENS)

    def value(w):
        return (truth(w[None])[0, :2] / spread).mean() + 0.05 * (w * np.log(np.maximum(w, 1e-300) / natural)).sum()

    moves = [(value(weights + 1e-6 * axis) - value(np.maximum(weights - 1e-6 * axis, 0))) / 2e-6 for axis in np.eye(len(weights))]
    return value(weights), np.array(moves)


def test_gains_most_of_what_the_true_law_offers(done):
    _, found = done
    limits = 8 * TOKENS / TARGET
    best = minimise(true_loss, np.array([proportional(TOKENS)]), np.minimum(limits, 1), 1e-5, 500).value
    natural, mine = true_loss(proportional(TOKENS))[0], true_loss(weights_of(found))[0]
    assert (mine - best) / (natural - best) < 0.25  # of the possible gain is lost


def test_mixture_json_holds_what_it_says(done):
    case, found = done
    assert set(found) == KEYS and (found["version"], found["budget"], found["parts"]) == (1, TARGET, PARTS)
    assert sum(each["parts"] for each in found["domains"]) == PARTS
    for each, count in zip(found["domains"], TOKENS):
        assert set(each) == {"name", "weight", "parts", "tokens", "epochs", "natural", "low", "high"}
        assert each["weight"] == each["parts"] / PARTS and each["tokens"] == count
        assert each["epochs"] == pytest.approx(each["weight"] * TARGET / count) and each["natural"] == count / TOKENS.sum()
        assert 0 <= each["low"] <= each["weight"] <= each["high"] <= 1
    surrogate = Surrogate.from_dict(read_json(case.fit().file("surrogate.json")))
    mine, base = surrogate.predict(np.array([weights_of(found), proportional(TOKENS)]))
    assert [each["predicted"] for each in found["tasks"]] == pytest.approx(mine.tolist())
    assert [each["proportional"] for each in found["tasks"]] == pytest.approx(base.tolist())
    assert [each["name"] for each in found["tasks"]] == list(mixing.TASKS) and all(each["sd"] > 0 for each in found["tasks"])
    assert set(found["baselines"]) == {"proportional", "unimax", "uniform", "temperature"}
    root = np.sqrt(TOKENS)  # temperature 2
    assert found["baselines"]["temperature"]["weights"] == pytest.approx(dict(zip(NAMES, root / root.sum())))
    assert found["baselines"]["uniform"]["weights"] == dict(zip(NAMES, uniform(6)))
    assert found["baselines"]["proportional"]["predicted"]["quiz"] == pytest.approx(base[0])
    assert 0 <= found["kkt"] <= 1e-6 and set(found["fingerprints"]) == {"tokens", "fit", "mix"}


@pytest.mark.parametrize("epochs, parts", [(2.5, PARTS), (3.1, 37), (2.003, 1000)])
def test_no_domain_passes_its_epochs_even_in_few_parts(tmp_path, epochs, parts):
    found = read_json(mixing.case(tmp_path, mixing.world(), mix={"max_epochs": epochs}, stream={"parts": parts}).mix().file("mixture.json"))
    shares = np.array([each["parts"] for each in found["domains"]])
    assert shares.sum() == parts and (shares * TARGET <= epochs * TOKENS * parts).all()
    full = shares == np.floor(epochs * TOKENS / TARGET * parts)
    chosen = next(point for point in found["frontier"] if point["chosen"])
    assert full.any() and chosen["capped"] == [name for name, at in zip(NAMES, full) if at]


def test_epochs_that_no_run_saw_are_not_proposed(done, tmp_path):
    made, place = mixing.world(), 1
    used = made.weights[:, place] * TARGET / TOKENS[place]
    few = np.flatnonzero(used > 3)  # without these runs nothing shows what more epochs of this domain do
    seen = read_json(mixing.case(tmp_path, made.without(*((run, task) for run in few for task in range(4)))).mix().file("mixture.json"))
    most = np.delete(used, few).max()
    assert 2 < most < 3 < done[1]["domains"][place]["epochs"]
    assert seen["domains"][place]["epochs"] == pytest.approx(most, rel=0.01)


def test_caps_that_cannot_be_met_name_the_largest_sum(tmp_path):
    with pytest.raises(DataError, match=r"largest reachable sum is 0\.6999.*mix\.max_epochs = 1\.4"):
        mixing.case(tmp_path, mixing.world(), mix={"max_epochs": 1.4}).mix()


def test_domains_are_joined_by_name(done, tmp_path):
    _, found = done
    turned = [NAMES[place] for place in (4, 5, 0, 1, 2, 3)]  # bands stay together, since names say what belongs together
    other = read_json(mixing.case(tmp_path, replace(mixing.world(), names=turned)).mix().file("mixture.json"))
    given = {each["name"]: each for each in other["domains"]}
    assert [each["name"] for each in other["domains"]] == NAMES and [given[name]["tokens"] for name in turned] == TOKENS.tolist()
    np.testing.assert_allclose([given[name]["weight"] for name in turned], weights_of(found), atol=0.01)


def test_one_and_two_workers_give_the_same_bytes(done, tmp_path):
    case, _ = done
    other = mixing.case(tmp_path, mixing.world(), workers=2)
    assert read_bytes(other.mix().file("mixture.json")) == read_bytes(case.mix().file("mixture.json"))


def test_the_newest_mixture_lies_in_the_work_folder(tmp_path):
    case = mixing.case(tmp_path, mixing.world(), mix={"kl": 5.0})
    near = read_json(case.mix().file("mixture.json"))
    assert read_json(join(case.work.url, "mixture.json")) == near
    np.testing.assert_allclose(weights_of(near), proportional(TOKENS), atol=0.1)  # a strong pull keeps it natural
    case.recipe = case.recipe.model_copy(update={"mix": case.recipe.mix.model_copy(update={"kl": 0.0})})
    far = read_json(case.mix().file("mixture.json"))
    assert read_json(join(case.work.url, "mixture.json")) == far != near


def test_a_domain_without_tokens_has_no_part(tmp_path):
    made = mixing.world()
    made = replace(made, weights=np.insert(made.weights, 3, 0.0, axis=1), names=[*NAMES[:3], "t09.q1", *NAMES[3:]], tokens=np.insert(TOKENS, 3, 0))
    case = mixing.case(tmp_path, made)
    found = read_json(case.mix().file("mixture.json"))
    assert found["domains"][-1] == {"name": "t09.q1", "tokens": 0, "weight": 0.0, "parts": 0, "epochs": 0.0, "natural": 0.0, "low": 0.0, "high": 0.0}


def test_tasks_of_weight_0_alone_are_refused(tmp_path):
    with pytest.raises(ValueError, match="every task weight 0"):
        mixing.case(tmp_path, mixing.world(), mix={"tasks": {"quiz": 0}})


def test_the_frontier_trades_predicted_score_for_nearness_and_holds_the_proposal(done):
    case, found = done
    points = found["frontier"]
    assert [point["kl"] for point in points] == sorted(point["kl"] for point in points) and [point["kl"] for point in points if point["chosen"]] == [0.05]
    chosen = next(point for point in points if point["chosen"])
    assert chosen["predicted"] == found["mean"]["predicted"] and chosen["max_epochs"] == pytest.approx(max(each["epochs"] for each in found["domains"]))
    divergence = sum(each["weight"] * np.log(each["weight"] / each["natural"]) for each in found["domains"] if each["weight"])
    assert chosen["divergence"] == pytest.approx(divergence)
    worth = [point["predicted"] + case.recipe.mix.risk * point["sd"] for point in points]  # what the pull is weighed against
    for near, far in zip(range(1, len(points)), range(len(points) - 1)):
        assert points[near]["divergence"] <= points[far]["divergence"] + 1e-4 and worth[near] >= worth[far] - 1e-4


def test_what_is_frozen_keeps_its_proportions_and_the_rest_is_best(tmp_path):
    made = mixing.world()
    old = [{"name": name, "tokens": int(count), "weight": weight} for name, count, weight in zip(NAMES, TOKENS, [0.3, 0.1, 0.2, 0.1, 0.2, 0.1])]
    old[4]["tokens"] += 1  # changed, as is the last, which is not there under its name
    old[5]["name"] = "t09.q1"
    (tmp_path / "old.json").write_text(json.dumps({"domains": old}))
    found = read_json(mixing.case(tmp_path / "work", made, mix={"freeze": str(tmp_path / "old.json")}).mix().file("mixture.json"))
    parts = np.array([each["parts"] for each in found["domains"]])
    held = parts[:4].sum()
    assert found["frozen"] == NAMES[:4] and np.abs(parts[:4] - held * np.array([3, 1, 2, 1]) / 7).max() <= 1
    free = read_json(mixing.case(tmp_path / "free", made).mix().file("mixture.json"))
    assert 0 < held < PARTS and free["objective"] < found["objective"] < true_loss(proportional(TOKENS))[0] and found["kkt"] <= 1e-6
    low, high = (np.array([each[end] for each in found["domains"][:4]]) for end in ("low", "high"))
    assert (low < parts[:4] / PARTS).all() and (high > parts[:4] / PARTS).all()


def test_a_file_without_an_unchanged_domain_is_refused(tmp_path):
    old = [{"name": name, "tokens": int(count) + 1, "weight": 0.2} for name, count in zip(NAMES, TOKENS)]
    (tmp_path / "old.json").write_text(json.dumps({"domains": old}))
    with pytest.raises(DataError, match=r"nothing to freeze; 6 have the name but other tokens: t00\.q1"):
        mixing.case(tmp_path / "work", mixing.world(), mix={"freeze": str(tmp_path / "old.json")}).mix()


def test_swarms_of_two_budgets_answer_for_one_between(tmp_path):
    """At a budget that was trained it is that swarm's mixture; far outside, a question of mix.extrapolate."""
    case = mixing.case(tmp_path, mixing.world(), budget={"target": TARGET, "proxy": 20_000, "targets": [TARGET // 2, TARGET]})
    fits = {TARGET // 2: case.fit(), TARGET: case.fit()}  # the tables of one swarm stand for both
    found = read_json(mix.run(case.work, case.recipe, case.tokens, fits).file("mixture.json"))
    alone = read_json(mix.run(case.work, case.recipe, case.tokens, {TARGET: fits[TARGET]}).file("mixture.json"))
    np.testing.assert_allclose(weights_of(found), weights_of(alone), atol=2e-3)
    assert set(found["fingerprints"]) == {"tokens", f"fit.{TARGET // 2}", f"fit.{TARGET}", "mix"}
    far = case.recipe.model_copy(update={"budget": case.recipe.budget.model_copy(update={"target": 5 * TARGET})})
    with pytest.raises(UsageError, match=r"10,000,000 tokens lies 5 times outside of 1,000,000 to 2,000,000.*--extrapolate"):
        mix.run(case.work, far, case.tokens, fits)


def test_groups_and_protected_tasks_of_a_recipe_are_kept(done, tmp_path):
    limits = {"groups": {"best": {"domains": ["t00.q2", "t01.q2"], "high": 0.5}, "t02": {"domains": ["t02.*"], "low": "10%"}}, "protect": {"heldout/t00.q2": 0.0}}
    found = read_json(mixing.case(tmp_path, mixing.world(), mix=limits).mix().file("mixture.json"))
    weights, free = weights_of(found), weights_of(done[1])
    assert free[1] + free[3] > 0.5 >= weights[1] + weights[3] and weights[4] + weights[5] >= 0.1 and found["kkt"] <= 1e-6
    kept = found["tasks"][-1]
    assert kept["predicted"] <= kept["proportional"] + 1e-6
