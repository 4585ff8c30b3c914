from collections import Counter

import numpy as np
import pytest

from cuvee.kernels.proposals import leave_one_outs, plan_round, proposals, round_size
from cuvee.kernels.runs import Runs, anchor, repeats
from cuvee.kernels.simplex import epoch_caps, proportional

TOPICS, BANDS = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
TOKENS = np.array([50, 40, 30, 20, 20, 20, 9, 9, 9, 1, 1, 1.0])  # topic shares .57 .29 .13 .014
NATURAL = proportional(TOKENS)
CAPS = epoch_caps(TOKENS, budget=300, max_epochs=4)


def plan(seed=0, size=None):
    return plan_round(NATURAL, TOPICS, BANDS, CAPS, np.random.default_rng(seed), size)


def test_every_run_is_a_mixture_under_twice_the_caps():
    for run in plan():
        assert run.weights.sum() == pytest.approx(1) and (run.weights >= 0).all()
        assert (run.weights <= np.minimum(2 * CAPS, 1) + 1e-12).all()
        if run.kind in ("proportional", "unimax"):
            assert (run.weights <= CAPS + 1e-12).all()


def test_a_round_counts_everything_in_its_size():
    assert round_size(TOPICS, BANDS) == len(plan()) == 24
    kinds = Counter(run.kind for run in plan())
    assert kinds == {"proportional": 5, "concentrated": 3, "unimax": 1, "uniform": 1, "leave_one_out": 3,
                     "dirichlet": 9, "sparse": 2}  # the most concentrated was sparse
    assert [run.repeat for run in plan() if run.kind == "concentrated"] == [0, 1, 2]
    assert Counter(run.kind for run in plan(size=14))["leave_one_out"] == 2  # the smallest topics are cut first
    with pytest.raises(ValueError, match="at least 10 runs .*; got 9"):
        plan(size=9)


def test_leave_one_outs_lose_one_large_topic_each():
    left_out = leave_one_outs(NATURAL, TOPICS, np.ones(12))
    assert [np.flatnonzero(np.bincount(TOPICS, weights) == 0).tolist() for weights in left_out] == [[0], [1], [2]]
    np.testing.assert_allclose(left_out[1] * (1 - 60 / 210), np.where(TOPICS == 1, 0, NATURAL))
    assert len(leave_one_outs(NATURAL, TOPICS, np.where(TOPICS == 0, 0.9, 0.08))) == 2  # .72 cannot do without topic 0


def test_proposals_vary_topics_and_bands_and_a_quarter_are_sparse():
    drawn = proposals(NATURAL, TOPICS, BANDS, 40, np.ones(12), np.random.default_rng(0))
    topics = np.array([np.bincount(TOPICS, weights) for weights in drawn])
    assert (topics[30:].min(axis=1) == 0).all() and (topics[:30].min(axis=1) > 0).all()
    assert (topics.max(axis=0) > 2 * np.bincount(TOPICS, NATURAL) - 0.5).all()
    best = np.array([np.bincount(BANDS, weights) for weights in drawn])[:, 2]
    assert best.min() < 0.15 and best.max() > 0.6  # natural .29


def test_proposals_lie_further_apart_than_plain_draws():
    def nearest(points):
        distance = ((np.sqrt(points)[:, None] - np.sqrt(points)) ** 2).sum(axis=2)
        return (distance + np.eye(len(points)) * 9).min()

    spread = proposals(NATURAL, TOPICS, BANDS, 24, np.ones(12), np.random.default_rng(0))[:18]
    plain = [proposals(NATURAL, TOPICS, BANDS, 1, np.ones(12), np.random.default_rng(seed))[0] for seed in range(18)]
    assert nearest(spread) > 2 * nearest(np.array(plain))


def test_the_same_seed_gives_the_same_plan_and_repeats_are_found():
    for one, two in zip(plan(3), plan(3)):
        np.testing.assert_array_equal(one.weights, two.weights)
    runs = Runs(np.array([run.weights for run in plan()]))
    groups = repeats(runs.weights)
    assert sorted(Counter(groups.tolist()).values())[-2:] == [3, 5]
    scores = np.where([run.kind == "proportional" for run in plan()], 1.0, 2.0)
    assert anchor(scores, groups) == 1.0


def test_one_topic_in_one_band_still_makes_a_plan():
    one = np.array([0]), np.array([0])
    assert {run.weights.tolist()[0] for run in plan_round(np.ones(1), *one, np.ones(1), np.random.default_rng(0))} == {1.0}
