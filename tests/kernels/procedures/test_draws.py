import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.kernels.procedures import draws
from cuvee.kernels.simplex import project_kl
from tests.kernels.procedures.known import setting


@given(st.integers(0, 10**6), st.floats(1.01, 6.0))
def test_rows_are_projected_as_one_by_one(seed, reach):
    rng = np.random.default_rng(seed)
    caps = rng.dirichlet(np.ones(6)) * reach
    rows = rng.dirichlet(np.full(6, 0.5), 5)
    expected = [project_kl(np.maximum(row, 1e-9), caps) if (row > caps).any() else row for row in rows]
    assert np.allclose(draws.project_rows(rows, caps, np.full(6, 1e-9)), expected, atol=1e-9)


def test_draws_scatter_around_their_centre_as_much_as_the_strength_says():
    centre = np.array([0.5, 0.3, 0.2])
    for strength in (2.0, 50.0):
        found = draws.dirichlet(centre, np.full(20_000, strength), np.random.default_rng(0))
        assert np.allclose(found.mean(axis=0), centre, atol=0.01)
        assert np.allclose(found.var(axis=0), centre * (1 - centre) / (1 + strength), rtol=0.05)


def test_tiny_parameters_still_give_mixtures():
    found = draws.dirichlet(np.array([0.9, 0.1]), np.full(1_000, 1e-4), np.random.default_rng(0))
    assert np.isfinite(found).all() and np.allclose(found.sum(axis=1), 1)


def test_a_swarm_keeps_tight_caps_and_drops_small_weights():
    tight = setting(max_epochs=1.5)
    found = draws.swarm(tight, 30, 2e-3, np.random.default_rng(0))
    assert (found <= tight.caps + 1e-12).all() and np.allclose(found.sum(axis=1), 1) and len(np.unique(found, axis=0)) == 30
    loose = draws.swarm(setting(), 200, 2e-3, np.random.default_rng(0))
    assert (loose == 0).any() and loose[loose > 0].min() == pytest.approx(2e-3, rel=0.5)
