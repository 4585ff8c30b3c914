"""Rounds of a swarm in a recipe: planned from scores, trained once, told, and ended by their rule."""
from __future__ import annotations

import io

import numpy as np
import pytest

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.progress import Progress
from cuvee.engine.run import Work
from cuvee.engine.store import read_json, read_table
from cuvee.errors import DataError
from cuvee.steps import swarm
from cuvee.steps.proxies import rounds, training
from cuvee.steps.proxies.rounds import Planned
from tests.steps.test_swarm import changed


@pytest.fixture(scope="module")
def recipe(made) -> Recipe:
    return changed(made, swarm={"runs": 16, "rounds": 2}, fit={"min_snr": 0.0, "min_predictability": -1.0})


@pytest.fixture(scope="module")
def grown(made, recipe):
    return swarm.run(made.work, recipe, made.tokens)


def test_a_later_round_is_planned_from_the_scores_of_the_first(made, grown, recipe):
    found, facts = read_json(grown.file("runs.json"))["runs"], read_json(grown.file("rounds.json"))
    assert [run["round"] for run in found] == [1] * 11 + [2] * facts["rounds"][1]["runs"]
    assert [run["kind"] for run in found[:10]] == ["proportional", *["repeat"] * 4, *["concentrated"] * 3, "unimax", "uniform"]
    assert {run["kind"] for run in found[11:]} <= {"optimum", "improve", "explore"}
    assert facts["procedure"] == "ours" and facts["rounds"][1]["noise"] > 0 and facts["rounds"][1]["radius"] == 0.6
    rows = read_table(grown.file("run_domains.parquet"))
    assert dict(zip(rows["run"].to_pylist(), rows["round"].to_pylist())) == {run["run"]: run["round"] for run in found}


def test_nothing_is_trained_twice_and_a_plan_is_not_made_again(made, grown, recipe):
    before, done = made.work.current()["swarm.runs"].manifest["tasks"], len(made.work.done)
    again = swarm.run(made.work, recipe, made.tokens)
    assert again.fingerprint == grown.fingerprint and len(made.work.done) == done
    assert made.work.current()["swarm.runs"].manifest["tasks"] == before


def test_a_mixture_that_comes_again_in_a_later_round_has_a_new_seed(made, recipe):
    regime = training.regime(recipe, made.tokens, 1, 2_000)
    first = training.runs_of(recipe, regime, [np.full(6, 1 / 6)] * 2)
    later = training.runs_of(recipe, regime, [np.full(6, 1 / 6)], first)
    assert len({run.key for run in [*first, *later]}) == 3 and later[0].seed == training.seed(recipe, 2)


def test_a_round_that_promises_less_than_its_noise_is_not_trained(made):
    said = io.StringIO()
    work = Work(made.work.url, LocalEngine(1), Progress(said))
    quiet = changed(made, swarm={"runs": 16, "rounds": 3}, mix={"kl": 1e6}, fit={"min_snr": 0.0, "min_predictability": -1.0})  # nothing is better than natural
    found = read_json(swarm.run(work, quiet, made.tokens).file("rounds.json"))["rounds"]
    assert [each["runs"] for each in found] == [10, 0] and "under 0.5 of the noise" in found[1]["why"]
    assert "swarm: no round 2: the expected improvement" in said.getvalue()
    stubborn = changed(made, swarm={"runs": 16, "rounds": 3, "stop": 0}, mix={"kl": 1e6}, fit={"min_snr": 0.0, "min_predictability": -1.0})
    assert [each["runs"] for each in read_json(swarm.run(work, stubborn, made.tokens).file("rounds.json"))["rounds"]] == [10, 3, 3]


def test_a_proposal_knows_only_what_was_trained(made, grown, recipe):
    regime = training.regime(recipe, made.tokens, 1, 2_000)
    planned = [Planned(run["kind"], run_of(grown, run, regime), run["round"]) for run in read_json(grown.file("runs.json"))["runs"]]
    found = [{"drawn": each.run.parts, "scores": {"quiz": float(place)} if place else {}} for place, each in enumerate(planned)]
    seen = rounds._seen(planned, found, regime, np.arange(6), ["quiz", "other"])
    assert seen.asked == 2 and np.isnan(seen.scores[0]).all() and seen.scores[1:, 0].tolist() == list(range(1, len(planned)))
    assert np.allclose(seen.weights.sum(axis=1), 1) and np.allclose(seen.epochs * regime.subsets.rows, seen.weights * regime.rows)


def run_of(folder, described, regime) -> training.Run:
    rows = read_table(folder.file("run_domains.parquet")).to_pylist()
    return training.Run(tuple(row["rows_drawn"] for row in rows if row["run"] == described["run"]), described["seed"])


@pytest.mark.parametrize("name, expected", [("regmix", [24]), ("climb", [15, 6, 3]), ("olmix", [24])])
def test_a_recipe_may_follow_a_paper(made, name, expected):
    chosen = changed(made, swarm={"runs": 24, "procedure": name})
    assert rounds.sizes(chosen, made.tokens.names) == expected
    planned = swarm.plan(chosen, made.tokens, training.regime(chosen, made.tokens, 1, 2_000))
    assert len(planned) == expected[0] and {each.kind for each in planned} == {"proposal"}


def test_groups_that_leave_no_mixture_are_refused_before_training(made):
    whole = changed(made, mix={"groups": {"most": {"domains": ["t0*"], "high": 0.5}}})
    with pytest.raises(DataError, match="'most' would have to give way"):
        swarm.run(made.work, whole, made.tokens)
