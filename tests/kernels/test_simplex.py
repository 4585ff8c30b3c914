import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from cuvee.kernels.simplex import (
    epoch_caps,
    epochs,
    project_capped,
    project_kl,
    proportional,
    quantize,
    quantize_capped,
    temperature,
    uniform,
    unimax,
)


@st.composite
def mixtures_under_caps(draw):
    """(weights, caps), both (domains,): weights may break the caps, the caps can be met."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    domains = draw(st.integers(1, 12))
    weights = rng.dirichlet(np.full(domains, draw(st.sampled_from([0.1, 1.0, 10.0])))) + 1e-9
    caps = rng.dirichlet(np.ones(domains)) * draw(st.sampled_from([1.0, 1.2, 3.0, 30.0]))
    return weights / weights.sum(), caps


def by_slsqp(objective, gradient, caps):
    """Least objective over the capped simplex by an independent solver."""
    start = caps / caps.sum()
    found = minimize(objective, start, jac=gradient, bounds=[(1e-12, c) for c in caps], method="SLSQP",
                     constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
                     options={"ftol": 1e-14, "maxiter": 500})
    return found.fun


@given(mixtures_under_caps(), st.integers(0, 1000))
def test_projections_stay_inside_and_keep_mixtures_that_already_are(case, seed):
    weights, caps = case
    point = np.random.default_rng(seed).normal(size=len(caps))
    for mixture in (project_capped(point, caps), project_kl(weights, caps)):
        assert mixture.sum() == pytest.approx(1, abs=1e-9)
        assert (mixture >= 0).all() and (mixture <= caps).all()
    np.testing.assert_allclose(project_capped(mixture, caps), mixture, atol=1e-9)
    np.testing.assert_allclose(project_kl(mixture, caps), mixture, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_projections_are_the_nearest_points(seed):
    rng = np.random.default_rng(seed)
    point, weights = rng.normal(size=6) / 3, rng.dirichlet(np.ones(6)) + 1e-3
    caps = rng.dirichlet(np.ones(6)) * 1.7
    euclid, kl = project_capped(point, caps), project_kl(weights, caps)
    best = by_slsqp(lambda w: ((w - point) ** 2).sum(), lambda w: 2 * (w - point), caps)
    assert ((euclid - point) ** 2).sum() == pytest.approx(best, abs=1e-7)
    best = by_slsqp(lambda w: (w * np.log(w / weights)).sum(), lambda w: np.log(w / weights) + 1, caps)
    assert (kl * np.log(kl / weights)).sum() == pytest.approx(best, abs=1e-6)


def test_projections_golden():  # the capped .4 leaves .6: shifted by .05 each, or shared 1 : 2
    caps = np.array([0.4, 1.0, 1.0])
    np.testing.assert_allclose(project_capped(np.array([0.9, 0.15, 0.35]), caps), [0.4, 0.2, 0.4])
    np.testing.assert_allclose(project_kl(np.array([0.7, 0.1, 0.2]), caps), [0.4, 0.2, 0.4])


def test_caps_that_cannot_be_met_name_the_reach():
    caps = epoch_caps(np.array([10.0, 20.0]), budget=100, max_epochs=3)
    for project in (project_capped, project_kl):
        with pytest.raises(ValueError, match=r"largest reachable sum is 0\.9\b"):
            project(np.array([0.5, 0.5]), caps)
    with pytest.raises(ValueError, match="largest reachable sum is 0.3"):
        project_kl(np.array([1.0, 0.0]), caps)
    with pytest.raises(ValueError, match="largest reachable sum is 9 of 10 parts"):
        quantize_capped(np.array([0.5, 0.5]), 10, np.array([4, 5]))


@given(mixtures_under_caps(), st.integers(1, 10_000_000))
def test_quantize_is_the_nearest_split(case, parts):
    weights, _ = case
    counts = quantize(weights, parts)
    assert counts.sum() == parts
    assert np.ptp(counts - weights * parts) <= 1 + 1e-5  # moving any one part would not help


@given(mixtures_under_caps(), st.integers(1, 10_000_000))
def test_quantize_keeps_the_caps_after_rounding(case, parts):
    weights, caps = case
    caps_parts = np.ceil(caps * parts).astype(np.int64)
    counts = quantize_capped(weights, parts, caps_parts)
    assert counts.sum() == parts
    assert (counts >= 0).all() and (counts <= caps_parts).all()


def test_quantize_golden():  # 4.7 3.2 2.1 -> 4 3 2, and the part left over goes to the .7, or to the .2 if it is capped
    assert quantize(np.array([0.47, 0.32, 0.21]), 10).tolist() == [5, 3, 2]
    assert quantize_capped(np.array([0.47, 0.32, 0.21]), 10, np.array([4, 9, 9])).tolist() == [4, 4, 2]


def loop_of_the_paper(tokens, budget, max_epochs):
    """UniMax's Algorithm 1, line by line: from the smallest language up."""
    given, rest = np.zeros(len(tokens)), budget
    for done, domain in enumerate(np.argsort(tokens)):
        given[domain] = min(rest / (len(tokens) - done), tokens[domain] * max_epochs)
        rest -= given[domain]
    return given / given.sum()


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=20), st.floats(0.01, 1), st.sampled_from([1, 4, 8]))
def test_unimax_is_the_loop_of_the_paper(tokens, share, max_epochs):
    tokens = np.array(tokens, float)
    budget = share * max_epochs * tokens.sum()
    weights = unimax(tokens, budget, max_epochs)
    np.testing.assert_allclose(weights, loop_of_the_paper(tokens, budget, max_epochs), atol=1e-9)
    assert (epochs(weights, budget, tokens) <= max_epochs * (1 + 1e-9)).all()


def test_temperature_runs_from_proportional_to_uniform():
    tokens = np.array([1.0, 4.0, 16.0])
    np.testing.assert_allclose(temperature(tokens, 1), proportional(tokens))
    np.testing.assert_allclose(temperature(tokens, 2), np.array([1, 2, 4]) / 7)
    np.testing.assert_allclose(temperature(tokens, 1e9), uniform(3), atol=1e-8)
