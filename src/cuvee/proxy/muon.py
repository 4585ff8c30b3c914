"""Muon: momentum whose every matrix is made nearly orthogonal before it is a step (Jordan 2024, kellerjordan.github.io/posts/muon)."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

MOMENTUM = 0.95
ROUNDS = 5  # of Newton-Schulz: singular values from .01 to 1 end between .68 and 1.14
QUINTIC = (3.4445, -4.7750, 2.0315)  # p(s) = 3.4445 s - 4.775 s^3 + 2.0315 s^5 on every singular value


def muon() -> optax.GradientTransformation:
    """Nesterov momentum, made orthogonal; for trees of matrices (inputs, outputs). The rate is the caller's."""

    def update(gradient: Any, velocity: Any, params: Any = None) -> tuple[Any, Any]:
        velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradient)
        ahead = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradient)
        return jax.tree.map(_direction, ahead), velocity

    return optax.GradientTransformation(lambda params: jax.tree.map(jnp.zeros_like, params), update)


def _direction(matrix: jax.Array) -> jax.Array:
    """As large for outputs as for inputs: a matrix with more outputs than inputs is scaled up."""
    inputs, outputs = matrix.shape
    return orthogonal(matrix) * max(1.0, outputs / inputs) ** 0.5


def orthogonal(matrix: jax.Array) -> jax.Array:
    """U V' of the singular value decomposition U S V', nearly: each singular value ends near 1."""
    a, b, c = QUINTIC
    x = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = x / (jnp.linalg.norm(x) + 1e-7)
    for _ in range(ROUNDS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T
