import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from cuvee.kernels.runs import Runs
from cuvee.kernels.search import minimise, mixture_objective, stationarity_gap
from cuvee.kernels.simplex import project_kl
from cuvee.kernels.surrogate import MODELS, fit
from tests.kernels.exact import by_barrier, law

CONVEX = ["saturating", "loglinear", "linear"]


def swarm_fits(model, seed, domains, tasks=2):
    """Natural weights, rate (budget / tokens) and fits of `tasks` noisy scores that fall with diverse epochs."""
    rng = np.random.default_rng(seed)
    natural = rng.dirichlet(np.full(domains, 3.0))
    rate = 0.5 / natural
    weights = np.array([rng.dirichlet(20 * natural + 0.2) for _ in range(60)])
    runs = Runs(weights, np.minimum(weights * rate, 1.9), rate)  # no run passes 2 epochs: no harm, a convex problem
    gains = rng.gamma(0.5, 0.5, (tasks, domains))
    scores = [1 + np.exp(-(1 - np.exp(-runs.epochs)) @ gain) + 0.01 * rng.normal(size=60) for gain in gains]
    fits = [fit(model, runs, score) for score in scores]
    return natural, rate, fits


def by_quadratic_programs(objective, start, caps):
    """Least value by an independent solver (SLSQP)."""
    found = minimize(objective, start, jac=True, method="SLSQP", bounds=[(1e-12, c) for c in caps],
                     constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
                     options={"ftol": 1e-13, "maxiter": 2000})
    return found.fun


@pytest.mark.parametrize("kl", [0.0, 0.05])
@pytest.mark.parametrize("model", CONVEX)
@pytest.mark.parametrize("seed", range(3))
def test_reaches_the_optimum_of_an_independent_solver(model, seed, kl):
    natural, rate, fits = swarm_fits(model, seed, domains=7)
    caps, objective = np.minimum(2.0 / rate, 1), mixture_objective(fits, np.array([1.0, 0.5]), natural, kl, 0.0)
    found = minimise(objective, natural, caps, tolerance=1e-8)
    best = by_quadratic_programs(objective, caps / caps.sum(), caps)
    assert found.weights.sum() == pytest.approx(1) and (found.weights <= caps).all() and (found.weights >= 0).all()
    assert found.kkt <= 1e-7
    assert found.value == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_gap_bounds_what_any_mixture_could_gain(seed):
    rng = np.random.default_rng(seed)
    root, target, caps = rng.normal(size=(8, 8)), rng.dirichlet(np.ones(8)), np.full(8, 0.3)

    def objective(w):
        return ((root @ (w - target)) ** 2).sum() / 2, root.T @ root @ (w - target)

    best = minimise(objective, np.full(8, 1 / 8), caps, tolerance=1e-10)
    for other in rng.dirichlet(np.full(8, 5.0), 50):
        weights = project_kl(other, caps)
        value, gradient = objective(weights)
        assert -1e-9 <= value - best.value <= stationarity_gap(weights, gradient, caps) + 1e-9


def test_gap_golden():  # moving .5 from slope 3 to slope 1 gains 1; to .3 and .2, by caps, .3 * 2 + .2 * 1
    weights, gradient = np.array([0.0, 0.5, 0.5]), np.array([1.0, 2.0, 3.0])
    assert stationarity_gap(weights, gradient, np.array([0.5, 0.5, 1.0])) == pytest.approx(1.0)
    assert stationarity_gap(weights, gradient, np.array([0.3, 0.7, 1.0])) == pytest.approx(0.3 * 2 + 0.2 * 1)


def test_many_starts_find_the_deeper_of_two_valleys():
    def objective(w):  # least at either end of the first weight, deeper at 1
        return -((w[0] - 0.4) ** 2), np.array([-2 * (w[0] - 0.4), 0.0])

    caps = np.ones(2)
    assert minimise(objective, np.array([0.1, 0.9]), caps).weights[0] == pytest.approx(0, abs=1e-6)
    both = minimise(objective, np.array([[0.1, 0.9], [0.8, 0.2]]), caps)
    assert both.weights[0] == pytest.approx(1, abs=1e-6) and both.starts == 2 and both.kkt <= 1e-6


@pytest.mark.parametrize("model", [model for model in MODELS if model != "lightgbm"])
def test_the_objective_sums_tasks_divergence_and_caution(model):
    natural, _, fits = swarm_fits(model, 0, domains=5)
    weights, importance = np.random.default_rng(1).dirichlet(np.full(5, 3.0)), np.array([0.7, 0.0])
    objective = mixture_objective(fits, importance, natural, 0.05, 0.3)
    score, deviation = fits[0].predict(weights[None])[0], fits[0].deviation(weights[None])[0]
    expected = 0.7 * (score - fits[0].anchor + 0.3 * deviation) / fits[0].spread
    assert objective(weights)[0] == pytest.approx(expected + 0.05 * (weights * np.log(weights / natural)).sum())
    assert check_grad(lambda w: objective(w)[0], lambda w: objective(w)[1], weights) < 5e-5


def test_wide_problems_are_solved_under_tight_caps():
    natural, rate, fits = swarm_fits("saturating", 0, domains=60, tasks=3)
    caps = np.minimum(0.8 / rate, 1)
    found = minimise(mixture_objective(fits, np.ones(3), natural, 0.05, 0.5), natural, caps)
    assert found.kkt <= 1e-6
    assert (found.weights >= caps * (1 - 1e-9)).sum() > 5


@pytest.mark.parametrize("seed", range(3))
def test_200_domains_and_50_tasks_are_solved_as_by_an_exact_solver(seed):
    objective, caps = law(seed, 200, 50)
    found = minimise(objective, objective.natural, caps)
    assert (found.weights <= caps).all() and found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert found.kkt <= 1e-6 and abs(found.value - by_barrier(objective, caps)) < 1e-5


def test_200_random_problems_are_solved_as_by_an_exact_solver():
    for seed in range(200):
        objective, caps = law(seed, 4 + seed % 20, 1 + seed % 7, kl=(0.0, 0.02, 0.5)[seed % 3])
        found = minimise(objective, objective.natural, caps, 1e-7)
        assert (found.weights <= caps).all() and abs(found.value - by_barrier(objective, caps)) < 1e-5, seed


def test_caps_that_cannot_be_met_are_an_error():
    with pytest.raises(ValueError, match=r"largest reachable sum is 0\.6,"):
        minimise(lambda w: (0.0, np.zeros(2)), np.array([0.5, 0.5]), np.array([0.3, 0.3]))
    _, _, fits = swarm_fits("loglinear", 0, domains=3)
    with pytest.raises(ValueError, match="natural weights must be > 0 for a KL term; domain 1 has 0"):
        mixture_objective(fits, np.ones(2), np.array([0.5, 0.0, 0.5]), 0.05, 0.0)
