from dataclasses import replace

import numpy as np
import pytest

from cuvee.kernels.optimism import Drawn, draw_optima, optimism
from cuvee.kernels.runs import Runs
from cuvee.kernels.search import minimise, mixture_objective
from cuvee.kernels.settings import Design, Scored
from cuvee.kernels.surrogate import fit

EVEN, CAPS = np.full(6, 1 / 6), np.ones(6)


def swarm_fit(seed, noise):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(6, 1.5), 30)
    truth = 1 + np.exp(0.2 - (1 - np.exp(-4 * weights)) @ np.array([0.2, 0.5, 0.1, 0.8, 0.0, 0.4]))
    return fit("saturating", Runs(weights), truth + noise * truth.std() * rng.normal(size=30)), rng


def optimum(fits):
    return minimise(mixture_objective(fits, np.ones(1), EVEN, 0.05, 0.0), EVEN, CAPS, 1e-4).weights


def by_new_scores(fitted, rng, draws=20):
    """What fits of new noise around a fit flatter their own optimum by, more than they do its optimum."""
    task, best, found = Scored(Design(fitted.law_of, fitted.runs), fitted.predict(fitted.runs.weights)), optimum([fitted]), []
    for _ in range(draws):
        scores = task.scores + fitted.noise * rng.normal(size=30)
        again = Scored(task.design, scores).solve(fitted.settings, task.design.features(fitted.settings), scores, 50)
        again = replace(fitted, floor=again.floor, intercept=again.intercept, coefficients=again.coefficients)
        chosen = np.array([optimum([again]), best])
        found.append(-np.diff(fitted.predict(chosen) - again.predict(chosen))[0] / fitted.spread)
    return np.mean(found)


def test_optimism_golden():  # draw 0 says 1 of its optimum where the others say 2 and 4; draw 1: 0 against 3, 3; draw 2: 5 against 5, 5
    values = np.array([[1.0, 3.0, 5.0], [2.0, 0.0, 5.0], [4.0, 3.0, 5.0]])
    assert optimism(Drawn(np.zeros((3, 2)), values)) == pytest.approx((2 + 3 + 0) / 3)


@pytest.mark.parametrize("noise", [0.2, 0.6])
def test_is_near_what_fits_to_new_noise_flatter_themselves_by(noise):
    found = []
    for seed in range(10):
        fitted, rng = swarm_fit(seed, noise)
        found.append([optimism(draw_optima([fitted], np.ones(1), optimum, rng)), by_new_scores(fitted, rng)])
    estimate, reference = np.mean(found, axis=0)
    assert reference / 1.6 < estimate < 1.6 * reference
