import jax.numpy as jnp
import numpy as np
import pytest

from cuvee.proxy.muon import MOMENTUM, muon, orthogonal


@pytest.mark.parametrize("shape", [(40, 40), (32, 96), (128, 32)])
def test_singular_values_end_near_one_and_vectors_stay(shape):
    matrix = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    u, _, v = np.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ np.asarray(orthogonal(jnp.asarray(matrix))) @ v.T  # diagonal where the vectors are the same
    assert np.abs(inner - np.diag(np.diag(inner))).max() < 1e-3
    assert 0.6 < np.diag(inner).min() and np.diag(inner).max() < 1.25


def test_muon_steps_along_the_momentum_and_scales_by_shape():
    """A gradient of one singular value: twice the same gives momentum 1 + m, seen ahead, and the same orthogonal step."""
    gradient = {"wide": jnp.ones((4, 16)), "tall": jnp.ones((16, 4))}
    optimizer = muon()
    first, velocity = optimizer.update(gradient, optimizer.init(gradient))
    second, velocity = optimizer.update(gradient, velocity)
    assert np.allclose(velocity["wide"], 1 + MOMENTUM) and np.allclose(first["wide"], second["wide"], rtol=1e-3)
    norms = [float(np.linalg.norm(first[name], 2)) for name in ("wide", "tall")]
    assert norms[0] / norms[1] == pytest.approx(2, rel=0.01) and 0.6 < norms[1] < 1.25
