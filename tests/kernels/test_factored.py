"""Coefficients of the form topic x band: the fit against an independent solver, and what the form gains and costs."""
import numpy as np
import pytest
from scipy.optimize import least_squares

from cuvee.kernels.agreement import spearman
from cuvee.kernels.exponential import SaturatingModel
from cuvee.kernels.factored import fit_factored
from cuvee.kernels.grid import Grid, grid_of, named_grid
from cuvee.kernels.laws import Saturating
from cuvee.kernels.ridge import fit_exponential, solve_bounded
from cuvee.kernels.runs import Runs
from cuvee.kernels.settings import FACTORED, FREE, Design, Scored
from cuvee.kernels.surrogate import Surrogate, fit, fit_tasks

TOPICS, BANDS = 6, 4
GRID = Grid(np.repeat(np.arange(TOPICS), BANDS), np.tile(np.arange(BANDS), TOPICS))


def gains(rng, form=1.0):
    """Of 24 domains: topic x band, or each its own where form is 0."""
    own = np.outer(rng.gamma(1.0, 0.4, TOPICS), np.cumsum(rng.gamma(1.0, 0.4, BANDS))).ravel()
    return own if form == 1.0 else rng.permutation(own)


def swarm(seed, runs, gain, noise):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(TOPICS * BANDS, 0.7), runs)
    truth = 1 + np.exp(-(1 - np.exp(-((10 * weights) ** 0.8))) @ gain)
    return weights, truth + noise * truth.std() * rng.normal(size=runs)


def test_names_make_a_grid_where_it_saves_numbers():
    found = named_grid(["t07.q5", "t07.q1", "t10.q1", "t10.q5", "t01.q5"])
    assert found.topics.tolist() == [1, 1, 2, 2, 0] and found.bands.tolist() == [1, 0, 0, 1, 1]
    assert named_grid(["t07.q5", "t07.q1", "web", "t10.q5"]) is None
    assert grid_of(["a", "a", "b"], [1, 2, 1]) is None  # as many numbers as domains
    assert grid_of(["a", "a", "b", "b"], [1, 1, 1, 1]) is None


@pytest.mark.parametrize("seed", range(4))
def test_bounded_least_squares_meets_the_conditions_of_its_optimum(seed):
    rng = np.random.default_rng(seed)
    root, lower = rng.normal(size=(30, 40)), np.where(rng.uniform(size=40) < 0.8, 0.0, -np.inf)
    gram, moment, x = root.T @ root + 1e-6 * np.eye(40), rng.normal(size=40), np.zeros(40)
    solve_bounded(gram, moment, lower, x)
    slope = gram @ x - moment
    assert (x >= lower).all() and (slope[x == 0] > -1e-6).all()
    np.testing.assert_allclose(slope[x != 0], 0, atol=1e-6)


def test_the_factored_fit_is_as_good_as_an_independent_solver():
    rng = np.random.default_rng(1)
    features, penalty = -3 * rng.dirichlet(np.full(24, 0.7), 40), 1e-3
    scores = 1 + np.exp(0.5 + features @ gains(rng)) + 0.02 * rng.normal(size=40)
    unit = ((scores - 0.9) ** 2).mean()

    def residuals(x):
        made = np.outer(x[1:7], np.cumsum(x[7:])).ravel()
        return np.r_[(scores - 0.9 - np.exp(x[0] + features @ made)) / np.sqrt(40 * unit), np.sqrt(penalty) * made]

    best = min((least_squares(residuals, np.r_[0.1, rng.uniform(0.1, 1, 10)], bounds=(np.r_[-9, np.zeros(10)], 9), xtol=1e-13) for _ in range(5)),
               key=lambda each: each.cost)
    intercept, found = fit_factored(features, GRID, scores, 0.9, penalty, 200)
    assert (np.diff(found.band) >= 0).all() and found.band.mean() == pytest.approx(1)
    mine = residuals(np.r_[intercept, found.topic, np.diff(found.band, prepend=0)])
    assert (mine ** 2).sum() == pytest.approx(2 * best.cost, rel=1e-5)


def test_deviations_under_a_heavy_ridge_are_none():
    rng = np.random.default_rng(2)
    features = -rng.uniform(0, 1, (40, 24))
    scores, centre = 1 + np.exp(features @ gains(rng)), gains(rng)
    close = fit_exponential(features, scores, 0.9, 1e9, np.zeros(24), centre, 50)[1]
    np.testing.assert_allclose(close, centre, atol=1e-6)


def made(deviation):
    """A grouped fit at settings given by hand; counted, so that two domains of one topic have harm."""
    gain = gains(np.random.default_rng(3))
    weights, scores = swarm(3, 60, gain, 0.1)
    rate = np.where(GRID.topics == 2, 60.0, 10.0)
    task = Scored(Design(Saturating, Runs(weights, weights * rate, rate, GRID)), scores)
    settings = {"speed": 0.5, "power": 0.8, "onset": 1.1, "kappa": 1.0, "penalty": 1e-3, "form": FACTORED, "deviation": deviation}
    return SaturatingModel(task.design.runs, settings, *task.solve(settings, task.design.features(settings), scores, 50), 1.0, 0.3, 0.02, scores)


@pytest.mark.parametrize("deviation", [None, 0.01])
def test_slopes_of_a_grouped_fit_are_those_of_its_values(deviation):
    fitted, at = made(deviation), swarm(4, 3, gains(np.random.default_rng(4)), 0.0)[0] + 0.01
    assert len(fitted.coefficients) > 24  # harm
    for value, gradient in ((fitted.predict, fitted.gradient), (fitted.deviation, fitted.deviation_gradient)):
        moves = [value(at + 1e-6 * axis) - value(at - 1e-6 * axis) for axis in np.eye(24)]
        np.testing.assert_allclose(gradient(at), np.array(moves).T / 2e-6, rtol=2e-4, atol=1e-6)


def test_the_error_of_a_product_is_that_of_deviations_under_a_heavy_ridge_and_less_than_under_a_light_one():
    new = swarm(5, 20, gains(np.random.default_rng(5)), 0.0)[0]
    alone, heavy, light = (made(deviation).deviation(new) for deviation in (None, 1e7, 1e-3))
    np.testing.assert_allclose(heavy, alone, rtol=1e-3)
    assert (light > alone).all()


def ranks(form, count, noise=0.3):
    """Spearman on new mixtures with and without the grid, of four known laws."""
    found = []
    for seed in range(4):
        gain = gains(np.random.default_rng(seed), form)
        weights, scores = swarm(seed, count, gain, noise)
        new, truth = swarm(1000 + seed, 300, gain, 0.0)
        found.append([spearman(fit("saturating", Runs(weights, grid=grid), scores).predict(new), truth) for grid in (GRID, None)])
    return np.mean(found, axis=0)


def test_ranks_better_than_a_free_law_where_runs_are_few():
    grouped, free = ranks(form=1.0, count=30)
    assert grouped > free + 0.02


def test_loses_little_where_the_truth_is_not_of_this_form():
    grouped, free = ranks(form=0.0, count=80)
    assert grouped > free - 0.01


def test_the_form_survives_json_and_threads():
    gain = gains(np.random.default_rng(0))
    weights, scores = swarm(0, 30, gain, 0.1)
    names, tasks = [f"t{topic:02d}.q{band + 1}" for topic, band in zip(*GRID)], ["a", "b", "c"]
    columns = np.column_stack([scores, scores ** 2, swarm(0, 30, gains(np.random.default_rng(5), 0.0), 0.1)[1]])
    one, two = (fit_tasks("saturating", names, tasks, Runs(weights, grid=GRID), columns, threads) for threads in (1, 2))
    assert one.to_dict() == two.to_dict()
    assert one.fits[0].settings["form"] == FACTORED and {fitted.settings["form"] for fitted in one.fits} <= {FACTORED, FREE}
    again = Surrogate.from_dict(one.to_dict())
    np.testing.assert_array_equal(again.deviation(weights), one.deviation(weights))
