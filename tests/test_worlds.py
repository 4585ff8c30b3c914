"""Synthetic worlds of benchmarks/worlds: their laws by hand, their optimum by independent means, their noise."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from worlds import catalogue, laws, published, tables  # noqa: E402
from worlds.baselines import BASELINES  # noqa: E402
from worlds.optimum import exchanged, numeric, optimum  # noqa: E402
from worlds.play import played, setting  # noqa: E402
from worlds.world import SD  # noqa: E402

from cuvee.kernels.procedures.base import Answer, Round, Seen  # noqa: E402
from cuvee.kernels.simplex import project_kl  # noqa: E402

DRAWN = [plan for plan in catalogue.PLANS if not plan.data]


@pytest.fixture(scope="module")
def convex():
    """A world with one valley, and its optimum."""
    world = catalogue.named("saturating-17")
    return world, optimum(world)


@pytest.mark.parametrize("plan", DRAWN, ids=lambda plan: plan.name)
def test_a_world_has_the_units_that_it_promises(plan):
    world = catalogue.built(plan)
    swarm = world.drawn(300, np.random.default_rng(0))
    scores = world.truth(swarm)
    assert scores.shape == (300, plan.tasks) and np.isfinite(scores).all()
    assert world.importance.sum() == pytest.approx(1) and (world.natural <= world.caps).all() and (swarm <= world.caps + 1e-9).all()
    moved = scores.std(axis=0) > 1e-9
    assert moved.sum() == plan.tasks - (plan.tasks // 2 if plan.family == "noise tasks" else 0)
    assert (np.abs(np.log(scores.std(axis=0)[moved] / SD)) < 0.7).all()  # another swarm than the one that set the units


def test_the_same_plan_is_the_same_world():
    plan = catalogue.PLANS[0]
    first, again, other = catalogue.built(plan), catalogue.built(plan), catalogue.built(plan._replace(seed=1))
    at = first.natural[None]
    np.testing.assert_array_equal(first.observe(at, np.random.default_rng(7)), again.observe(at, np.random.default_rng(7)))
    assert not np.array_equal(first.truth(at), other.truth(at))


def test_laws_golden():
    """Two domains, weights .25 and .75, one task; every number by hand."""
    at, rate = np.array([[0.25, 0.75]]), np.array([4.0, 4.0])  # 1 and 3 epochs
    saturating = laws.Saturating(rate, np.array([[1.0, 2.0]]), np.array([[0.0, 0.5]]), 1.0, 1.0, np.log(4.0))
    gain = (1 - np.exp(-1)) + 2 * (1 - np.exp(-3))
    assert saturating(at)[0, 0] == pytest.approx(np.exp(0.5 * np.log(2) ** 2 - gain))
    effective = laws.Effective(rate, np.array([[1.0, 0.0]]), np.array([0.5]))
    assert effective(at)[0, 0] == pytest.approx((0.02 + 0.25) ** -0.5)
    repeated = laws.Effective(rate, np.array([[0.0, 1.0]]), np.array([0.5]))
    assert repeated(at)[0, 0] == pytest.approx((0.02 + (1 + 15 * (1 - np.exp(-2 / 15))) / 4) ** -0.5)
    pairs = laws.Pairs(np.zeros((1, 2)), np.array([0]), np.array([1]), np.array([[2.0]]), 1.0)
    assert pairs(at)[0, 0] == pytest.approx(np.exp(-2 * np.log2(1.25) * np.log2(1.75)))
    steps = laws.Thresholds(np.array([[1.0, 0.0]]), np.zeros((1, 2)), np.array([0.25, 0.5]), np.array([0.05, 0.1]))
    assert steps(at)[0, 0] == pytest.approx(-(0.5 - 1 / (1 + np.exp(5))))


def test_the_optimum_of_a_convex_world_is_an_exact_solvers(convex):
    world, found = convex
    exact = minimize(numeric(world.objective), world.natural, jac=True, method="SLSQP", bounds=[(0, cap) for cap in world.caps],
                     constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}, options={"ftol": 1e-10, "maxiter": 1000})
    assert found.value == pytest.approx(exact.fun, abs=1e-3) and found.value < found.natural - 0.5
    assert found.sure > 0.9 and (found.weights <= world.caps + 1e-12).all() and found.weights.sum() == pytest.approx(1)
    assert (found.regret(found.value), found.regret(found.natural)) == (0, 1)


def test_the_optimum_of_a_hidden_valley_is_found():
    """A broad dip at even weights, and a deeper one, narrow, where domain 0 has .6."""
    base = catalogue.named("thresholds-17")

    def law(weights):
        even, far = np.full(17, 1 / 17), np.r_[0.6, np.full(16, 0.4 / 16)]
        return -np.exp(-((weights - even) ** 2).sum(axis=1))[:, None] - 2 * np.exp(-20 * ((weights - far) ** 2).sum(axis=1))[:, None]

    world = replace(base, law=law, importance=np.ones(1), level=np.zeros(1), noise=np.ones(1), max_epochs=1e6)
    assert optimum(world).weights[0] == pytest.approx(0.6, abs=0.02)


def test_exchanges_need_no_slopes():
    """Steps of .05 in every weight: nothing to follow, but moves find the plateau."""
    target, caps = np.array([0.5, 0.3, 0.15, 0.05]), np.full(4, 0.6)

    def values(weights):
        return np.abs(np.floor(weights / 0.05 + 1e-9) - np.round(target / 0.05)).sum(axis=1)

    weights, value = exchanged(values, np.full(4, 0.25), caps, np.random.default_rng(0))
    assert value <= 1 and weights.sum() == pytest.approx(1) and (weights <= caps).all()


@pytest.mark.parametrize("name", ["noise-effective-24", "uneven-pairs-20"])
def test_runs_scatter_as_they_say(name):
    world = catalogue.named(name)
    dense = world.drawn(50, np.random.default_rng(0))
    dense = dense[(dense ** 2).sum(axis=1).argmax()]
    at = np.vstack([world.natural, dense])
    drawn = np.array([world.observe(at, np.random.default_rng(seed)) for seed in range(3000)])
    np.testing.assert_allclose(drawn.std(axis=0), world.noise_sd(at), rtol=0.06)
    np.testing.assert_allclose(drawn.mean(axis=0), world.truth(at), atol=0.1 * world.noise_sd(at).max())
    assert (world.noise_sd(at)[1] > 1.5 * world.noise_sd(at)[0]).all() == (name == "uneven-pairs-20")


@pytest.mark.slow
@pytest.mark.parametrize("family", published.FITS)
def test_laws_of_the_published_runs_fit_them(family, shared):
    """Share of the variance of the 1M losses that a law explains, mean over tasks; the least of them is the log-linear law's."""
    runs, law = published.swarm("1m"), published.FITS[family]("1m")
    left = ((law(runs.weights) - runs.scores) ** 2).mean(axis=0) / runs.scores.var(axis=0)
    assert 1 - left.mean() > {"loglinear": 0.85, "trees": 0.9, "gp": 0.95}[family]


class Fixed:
    """Trains the natural mixture once, and answers with what it was made with."""

    name = "fixed"

    def __init__(self, weights):
        self.weights = weights

    def ask(self, setting, seen, rng):
        return setting.natural[None] if not seen.asked else Round.ended(len(setting.natural), "done").weights

    def answer(self, setting, seen, rng):
        return Answer(self.weights, seen.scores[0], np.full(len(setting.importance), SD))


def test_a_game_is_judged_by_the_truth(convex):
    world, best = convex
    line = played(world, best, Fixed(best.weights), 5, 0)
    assert (line["regret"], line["trained"], line["together"]) == (pytest.approx(0, abs=1e-9), 1, pytest.approx(1))
    assert played(world, best, Fixed(world.natural), 5, 0)["regret"] == pytest.approx(1)


def test_an_answer_over_the_caps_is_refused(convex):
    world, best = convex
    place = int(world.caps.argmin())
    with pytest.raises(ValueError, match="fixed on saturating-17: the answer passes the epoch caps by"):
        played(world, best, Fixed(np.eye(17)[place]), 5, 0)


def test_the_best_run_is_of_means_and_under_the_caps():
    """Mixture 0 scores best once and badly once; 1 is best in the mean but over a cap; so 2."""
    told = setting(catalogue.named("saturating-17"), 5)
    mixtures = np.vstack([told.natural, np.eye(17)[told.caps.argmin()], project_kl(np.full(17, 1 / 17), told.caps)])
    scores = np.array([0.0, 9.0, 1.0, 2.0])[:, None] * np.ones(len(told.importance))
    seen = Seen.nothing(17, len(told.importance)).joined(mixtures[[0, 0, 1, 2]], scores)
    np.testing.assert_array_equal(BASELINES["best-run"]().answer(told, seen, np.random.default_rng(0)).weights, mixtures[2])


def line(world, procedure, seed, regret, **more):
    return {"world": world, "family": "pairs", "ours": False, "procedure": procedure, "runs": 64, "seed": seed, "regret": regret, "trained": 64, "seconds": 1.0,
            "truth": -1.0, **more}


def test_tables_golden():
    """Means over seeds first: climb .4 and .1, ours .2 and .3; so medians .25 and .25, and one world each."""
    told = {"predicted": -1.2, "together": 0.11, "apart": 0.05, "near": 0.5, "covered": 0.9}
    plays = [line("a", "climb", 0, 0.2), line("a", "climb", 1, 0.6), line("b", "climb", 0, 0.1), line("b", "climb", 1, 0.1),
             line("a", "ours", 0, 0.2, **told), line("a", "ours", 1, 0.2, **told), line("b", "ours", 0, 0.3, **told), line("b", "ours", 1, 0.3, **told)]
    text = tables.report(plays, [{"world": "a", "sure": 1.0}, {"world": "b", "sure": 0.5}], [{"world": "c", "missing": "no data"}])
    assert "| 64 | climb | 2 | 0.250 | 0.175 to 0.325 | 0.40 | 0.250 | 1 | 64 | 1.0 |" in text
    assert "| 64 | climb | 2 | 0.250 | 0.250 | 0.250 | 0.250 | 1 | +0.000 |" in text  # .4 beside .2, .1 beside .3
    assert "| ours | 4 | 90.0% | +0.20 | 100% | 0% | 50% |" in text
    assert "- b, 64 runs: ours 0.30; climb 0.10" in text and "- a, 64" not in text and "- not played: c: no data" in text


@pytest.mark.slow
def test_a_second_arena_goes_on_where_the_first_stopped(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "arena.py"), "--worlds", "saturating-17", "--procedures", "olmix", "--runs", "40", "--out", str(tmp_path)]
    first = [subprocess.run([*command, "--seeds", seeds], capture_output=True, text=True, check=True, env=os.environ).stdout for seeds in ("1", "2", "2")]
    assert [text.count("saturating-17 olmix 40") for text in first] == [1, 1, 0]
    assert first[1].partition("| runs")[2] == first[2].partition("| runs")[2] != ""
