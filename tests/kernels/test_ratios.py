import numpy as np
import pytest

from cuvee.kernels.ratios import beyond, elsewhere, interpolate, share_between
from cuvee.kernels.runs import Runs
from cuvee.kernels.surrogate import fit_tasks

NAMES, TASKS = ["web", "code", "books"], ["quiz", "maths"]
TOKENS, BUDGETS = np.array([600.0, 120.0, 40.0]), (100, 400, 1600)
GAIN = np.array([[0.2, 0.9, 0.4], [0.1, 0.2, 1.0]])


def swarm(budget: float, order=(0, 1, 2), tasks=(0, 1), model="saturating"):
    """A fit of 40 runs for a budget, with domains and tasks in another order."""
    order, tasks = list(order), list(tasks)
    weights = np.random.default_rng(budget).dirichlet(np.ones(3), 40)
    epochs = weights * budget / TOKENS
    scores = 1 + budget ** -0.1 * np.exp(-(1 - np.exp(-epochs)) @ GAIN.T)
    runs = Runs(weights[:, order], epochs[:, order], budget / TOKENS[order])
    return fit_tasks(model, [NAMES[place] for place in order], [TASKS[place] for place in tasks], runs, scores[:, tasks])


@pytest.fixture(scope="module")
def swarms():
    return [swarm(BUDGETS[0]), swarm(BUDGETS[1], (2, 0, 1), (1, 0)), swarm(BUDGETS[2])]


@pytest.mark.parametrize("place", range(3))
def test_at_a_budget_that_was_trained_it_is_that_swarms_fit(swarms, place):
    weights = np.random.default_rng(1).dirichlet(np.ones(3), 5)
    found, own = interpolate(swarms, BUDGETS, BUDGETS[place]), swarm(BUDGETS[place])
    at = [found.domains.index(name) for name in NAMES], [found.tasks.index(name) for name in TASKS]
    given = np.empty_like(weights)
    given[:, at[0]] = weights
    np.testing.assert_allclose(found.predict(given)[:, at[1]], own.predict(weights), atol=1e-9)
    np.testing.assert_allclose(found.deviation(given)[:, at[1]], own.deviation(weights), atol=1e-9)
    np.testing.assert_allclose(found.epoch_limits()[at[0]], own.epoch_limits())


def test_half_way_in_log_budget_is_the_mean_and_beyond_the_ends_the_sd_grows(swarms):
    weights = np.random.default_rng(2).dirichlet(np.ones(3), 4)
    low, high, middle, far = (interpolate(swarms, BUDGETS, budget) for budget in (100, 400, 200, 50))
    turned = weights[:, [NAMES.index(name) for name in high.domains]]
    ends = [each.predict(rows)[:, each.tasks.index("quiz")] for each, rows in ((low, weights), (high, turned))]
    np.testing.assert_allclose(middle.predict(weights)[:, 0], np.mean(ends, axis=0))
    np.testing.assert_allclose(far.predict(weights)[:, 0], 1.5 * ends[0] - 0.5 * ends[1])
    assert (far.deviation(weights) > low.deviation(weights)).all()


def test_slopes_are_those_of_the_predictions(swarms):
    found, weights = interpolate(swarms, BUDGETS, 900), np.random.default_rng(3).dirichlet(np.ones(3), 3)
    for fitted in found.fits:
        for value, slope in ((fitted.predict, fitted.gradient), (fitted.deviation, fitted.deviation_gradient)):
            moved = [(value(weights + 1e-6 * axis) - value(weights - 1e-6 * axis)) / 2e-6 for axis in np.eye(3)]
            np.testing.assert_allclose(slope(weights), np.transpose(moved), atol=1e-5)


def test_epochs_are_those_of_the_budget_that_is_asked_for(swarms):
    found, weights = interpolate(swarms, BUDGETS, 250), np.random.default_rng(4).dirichlet(np.ones(3), 3)
    np.testing.assert_allclose(found.fits[0].predict(weights, weights * 250 / TOKENS), found.fits[0].predict(weights))
    np.testing.assert_allclose(found.runs.rate, 250 / TOKENS)
    np.testing.assert_allclose(found.runs.epochs, found.runs.weights * 250 / TOKENS)
    ends = [each.epoch_limits()[[each.domains.index(name) for name in NAMES]] * 250 / budget for each, budget in zip(swarms, BUDGETS)]
    np.testing.assert_allclose(found.epoch_limits(), np.minimum(*ends[:2]))  # the least weight that was the most tried


def test_one_swarm_says_of_another_budget_what_it_says_of_the_same_weights(swarms):
    found, weights = elsewhere(swarms[1], 800 / TOKENS[[2, 0, 1]]), np.random.default_rng(5).dirichlet(np.ones(3), 3)
    np.testing.assert_allclose(found.predict(weights), swarms[1].predict(weights))
    np.testing.assert_allclose(found.predict(weights, weights * 800 / TOKENS[[2, 0, 1]]), swarms[1].predict(weights))
    np.testing.assert_allclose(found.epoch_limits(), 2 * swarms[1].epoch_limits())  # the same weight is twice as many passes
    np.testing.assert_allclose(found.fits[0].deviation(weights), swarms[1].fits[0].deviation(weights))


def test_places_golden():
    assert share_between((100, 400, 1600), 800) == (1, pytest.approx(0.5))
    assert share_between((100, 400, 1600), 50) == (0, pytest.approx(-0.5)) and share_between((100, 400, 1600), 3200) == (1, pytest.approx(1.5))
    assert share_between((100, 400, 1600), 400) == (1, 0.0) and share_between((100, 400, 1600), 1600) == (1, 1.0)
    assert beyond((100, 1600), 50) == 2 and beyond((100, 1600), 4800) == 3 and beyond((100, 1600), 700) == 1
    with pytest.raises(ValueError, match="ascending"):
        share_between((400, 100), 200)


def test_other_domains_or_tasks_are_named():
    with pytest.raises(ValueError, match="same tasks: maths in some alone"):
        interpolate([swarm(100), swarm(400, tasks=(0,))], (100, 400), 200)
