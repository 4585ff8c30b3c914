"""Train one proxy: AdamW, warm-up, then straight to zero. Same rows, seed and machine: same bytes."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cuvee.proxy.model import ProxyConfig, init, loss

CPU_TOKENS = 256  # tokens whose gradient is taken at once on a CPU: 1.2x the speed of a whole batch (docs/log.md)
WARM_UP = 0.05  # of the steps
CLIP = 1.0  # largest norm of a gradient
DECAY = 0.1  # of each weight, times its learning rate, per step
EDGE_RATE = 0.1  # peak learning rate of embedding and head at every width; at the layers' rate a proxy learns far less


class Trained(NamedTuple):
    params: dict
    losses: np.ndarray  # float32 (steps,), nats per token, each before its step


def train(config: ProxyConfig, rows: np.ndarray, seed: int) -> Trained:
    """A proxy trained once over `rows`, in their order.

    rows: integers (n, seq_len + 1); n // batch steps, the rows of a last partial batch are an error
    """
    steps = _steps(config, rows)
    begin, step = _compiled(config, jax.default_backend())
    params, state = begin(jax.random.key(seed))
    losses = []
    for i in range(steps):
        batch = rows[i * config.batch : (i + 1) * config.batch].astype(np.int32)
        params, state, value = step(params, state, batch, schedule(i, steps))
        losses.append(value)
    return Trained(params, finite(np.array(jax.device_get(losses)), seed, config))


def finite(losses: np.ndarray, seed: int, config: ProxyConfig) -> np.ndarray:
    """The losses of a run, or an error: a run that diverged has no score."""
    if (bad := np.flatnonzero(~np.isfinite(losses))).size:
        raise FloatingPointError(f"the loss is {losses[bad[0]]} at step {bad[0]} of {losses.size} (seed {seed}, {config}): "
                                 "this run has no score. Check the rows it read, or take another depth or batch.")
    return losses


def schedule(step: int, steps: int) -> float:
    """Share of the peak learning rate: up in a line over WARM_UP of the steps, then down in a line to 0 after the last."""
    rise = max(1, round(WARM_UP * steps))
    return (step + 1) / rise if step < rise else (steps - step) / (steps - rise + 1)


def _steps(config: ProxyConfig, rows: np.ndarray) -> int:
    if rows.ndim != 2 or rows.shape[1] != config.seq_len + 1 or not len(rows) or len(rows) % config.batch:
        raise ValueError(f"rows must be whole batches of {config.batch} x {config.seq_len + 1} tokens; got shape {rows.shape}.")
    if not 0 <= rows.min() <= rows.max() < config.vocab:
        raise ValueError(f"tokens must lie in [0, {config.vocab}), the vocabulary; got {rows.min()} to {rows.max()}.")
    return len(rows) // config.batch


@cache
def _compiled(config: ProxyConfig, backend: str):
    """`begin(key) -> params, state` and `step(params, state, batch, share) -> params, state, loss`, compiled once."""
    optimizer = optax.chain(optax.clip_by_global_norm(CLIP), optax.scale_by_adam(b1=0.9, b2=0.95, eps=1e-10),
                            optax.add_decayed_weights(DECAY))

    def begin(key):
        params = init(key, config)
        return params, optimizer.init(params)

    def step(params, state, batch, share):
        value, gradient = _gradient(params, batch.reshape(_pieces(config, backend), -1, config.seq_len + 1))
        updates, state = optimizer.update(gradient, state, params)
        rates = {"embed": EDGE_RATE, "layers": config.rate, "head": EDGE_RATE}
        return {part: jax.tree.map(lambda p, u, rate=rate: p - share * rate * u, params[part], updates[part])
                for part, rate in rates.items()}, state, value

    return jax.jit(begin), jax.jit(step, donate_argnums=(0, 1))


def _pieces(config: ProxyConfig, backend: str) -> int:
    """Equal pieces that a batch is cut into: on a CPU of at most CPU_TOKENS tokens where rows allow, else one."""
    if backend != "cpu":
        return 1
    rows = max(1, CPU_TOKENS // config.seq_len)
    return next(n for n in range(1, config.batch + 1) if config.batch % n == 0 and config.batch // n <= rows)


def _gradient(params: dict, pieces: jax.Array):
    """Mean loss and its gradient, summed piece by piece. pieces: (pieces, rows, seq_len + 1)"""
    def add(total, rows):
        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(params, rows)), None

    zero = (jnp.float32(0), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zero, pieces)
    return jax.tree.map(lambda x: x / len(pieces), total)
