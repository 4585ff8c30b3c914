"""Train proxies, alone or many at once: warm-up, then straight to zero. Same rows, seeds, group and machine: same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from cuvee.errors import UsageError
from cuvee.kernels.pack import predicted
from cuvee.proxy.model import ProxyConfig, init, loss, lowered
from cuvee.proxy.muon import muon

CPU_TOKENS = 256  # tokens whose gradient is taken at once on a CPU: 1.2x the speed of a whole batch (docs/log.md)
WARM_UP = 0.05  # of the steps
CLIP = 1.0  # largest norm of a gradient
DECAY = 0.1  # of each weight, times its learning rate, per step


class Trained(NamedTuple):
    params: dict
    losses: np.ndarray  # float32 (steps,), nats per token, each before its step


class State(NamedTuple):
    """Where a group stands: parameters and moments of the optimizer with a leading axis of runs, losses (runs,) a step."""

    step: int
    params: dict
    moments: Any
    losses: list

    def of(self, run: int) -> Trained:
        """One run of the group. Its losses may not be finite."""
        losses = np.array(jax.device_get(self.losses), np.float32).reshape(self.step, -1)
        return Trained(jax.tree.map(lambda x: x[run], self.params), losses[:, run])


@dataclass(frozen=True)
class Group:
    """Runs that are trained together: one model and number of steps; each its own rows, in the order of training, and seed.

    rows: integers, (n, seq_len + 1) each; n // batch steps, the rows of a last partial batch are an error
    accelerators: how many are shared at most, evenly, by a group that computes in bfloat16
    """

    config: ProxyConfig
    rows: Sequence[np.ndarray]
    seeds: Sequence[int]
    accelerators: int = 1

    def __post_init__(self):
        counts = {_steps(self.config, rows) for rows in self.rows}
        if len(counts) != 1 or len(self.rows) != len(self.seeds):
            raise ValueError(f"a group has a seed for each run, and as many rows in all of them; got {len(self.seeds)} seeds, "
                             f"{len(self.rows)} runs of {sorted(counts)} steps.")

    @property
    def steps(self) -> int:
        return len(self.rows[0]) // self.config.batch

    def begin(self) -> State:
        """All runs untrained."""
        begin, _, place = self._compiled
        params, moments = begin(jax.device_put(jnp.stack([jax.random.key(seed) for seed in self.seeds]), place))
        return State(0, params, moments, [])

    def put(self, state: State) -> State:
        """A state whose arrays were kept outside, on the devices of this group."""
        params, moments = jax.device_put((state.params, state.moments), self._compiled[2])
        return state._replace(params=params, moments=moments)

    def advance(self, state: State, until: int) -> State:
        """The group after `until` steps; the arrays of `state` are used up."""
        _, step, place = self._compiled
        params, moments, losses = state.params, state.moments, list(state.losses)
        for i in range(state.step, until):
            share = np.full(len(self.seeds), schedule(i, self.steps), np.float32)
            params, moments, value = step(params, moments, jax.device_put(self._batch(i), place), share)
            losses.append(value)
        return State(until, params, moments, losses)

    def _batch(self, step: int) -> np.ndarray:
        """int32 (runs, batch, seq_len + 1)"""
        size = self.config.batch
        return np.stack([rows[step * size : (step + 1) * size] for rows in self.rows]).astype(np.int32)

    @cached_property
    def _compiled(self) -> tuple[Callable, Callable, Sharding]:
        return _compiled(self.config, len(self.seeds), devices(self.config, len(self.seeds), self.accelerators))


def train(config: ProxyConfig, rows: np.ndarray, seed: int) -> Trained:
    """A proxy trained once over `rows`, alone."""
    group = Group(config, [rows], [seed])
    trained = group.advance(group.begin(), group.steps).of(0)
    finite(trained.losses, seed, config)
    return trained


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


def accelerators() -> list[jax.Device]:
    """What jax sees of this process's machine beside its CPU."""
    return [device for device in jax.local_devices() if device.platform != "cpu"]


def devices(config: ProxyConfig, runs: int, most: int) -> tuple[jax.Device, ...]:
    """Devices that share `runs` evenly: accelerators for bfloat16, else CPUs, of which jax counts one unless told otherwise."""
    found = accelerators()[:most] if config.compute == "bfloat16" else jax.local_devices(backend="cpu")
    if not found:
        raise UsageError("this proxy was planned for an accelerator, and jax sees none here. Install jax for it, such as jax[cuda12], "
                         "on every machine that trains; or set swarm.gpus: 0.")
    return tuple(found[: next(count for count in range(len(found), 0, -1) if runs % count == 0)])


def _steps(config: ProxyConfig, rows: np.ndarray) -> int:
    if rows.ndim != 2 or rows.shape[1] != config.seq_len + 1 or not len(rows) or len(rows) % config.batch:
        raise ValueError(f"rows must be whole batches of {config.batch} x {config.seq_len + 1} tokens; got shape {rows.shape}.")
    if not 0 <= rows.min() <= rows.max() < config.vocab:
        raise ValueError(f"tokens must lie in [0, {config.vocab}), the vocabulary; got {rows.min()} to {rows.max()}.")
    return len(rows) // config.batch


@cache
def _compiled(config: ProxyConfig, runs: int, place: tuple[jax.Device, ...]) -> tuple[Callable, Callable, Sharding]:
    """`begin(keys) -> params, moments` and `step(params, moments, batch, share) -> params, moments, loss`, compiled once.

    All arguments and results have a leading axis of runs, which the devices of `place` share.
    """
    optimizers = {part: _optimizer(config, part) for part in ("embed", "layers", *(() if config.tied else ("head",)))}

    def begin(key):
        params = init(key, config)
        return params, {part: optimizer.init(params[part]) for part, optimizer in optimizers.items()}

    def step(params, moments, batch, share):
        value, gradient = _gradient(params, batch.reshape(_pieces(config), -1, config.seq_len + 1), config)
        gradient, _ = optax.clip_by_global_norm(CLIP).update(gradient, optax.EmptyState())
        found = {part: optimizer.update(gradient[part], moments[part], params[part]) for part, optimizer in optimizers.items()}
        rates = {"embed": config.embed_rate, "layers": config.rate, "head": config.head_rate}
        params = {part: jax.tree.map(lambda p, u, rate=share * rates[part]: p - rate * u, params[part], found[part][0]) for part in params}
        return params, {part: moments for part, (_, moments) in found.items()}, value

    spread = jax.vmap if runs > 1 else _alone
    sharding = SingleDeviceSharding(place[0]) if len(place) == 1 else NamedSharding(Mesh(np.array(place), ("run",)), PartitionSpec("run"))
    return jax.jit(spread(begin), out_shardings=sharding), jax.jit(spread(step), donate_argnums=(0, 1)), sharding


def _alone(function: Callable) -> Callable:
    """vmap over an axis of one, without what vmap costs: a CPU loses a quarter of its speed there (docs/log.md)."""
    def wrapped(*args):
        return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], args)))

    return wrapped


def _optimizer(config: ProxyConfig, part: str) -> optax.GradientTransformation:
    adam = optax.scale_by_adam(b1=0.9, b2=0.95, eps=1e-10)
    return optax.chain(muon() if part == "layers" and config.optimizer == "muon" else adam, optax.add_decayed_weights(DECAY))


def _pieces(config: ProxyConfig) -> int:
    """Equal pieces that a batch is cut into: on a CPU of at most CPU_TOKENS tokens where rows allow, else one."""
    if config.compute == "bfloat16":
        return 1
    rows = max(1, CPU_TOKENS // config.seq_len)
    return next(n for n in range(1, config.batch + 1) if config.batch % n == 0 and config.batch // n <= rows)


def _gradient(params: dict, pieces: jax.Array, config: ProxyConfig):
    """Mean loss and its gradient, summed piece by piece. pieces: (pieces, rows, seq_len + 1)"""
    def read(params, rows, weights):
        return loss(lowered(params) if config.compute == "bfloat16" else params, rows, weights)

    def add(total, piece):
        return jax.tree.map(jnp.add, total, jax.value_and_grad(read)(params, *piece)), None

    zero = (jnp.float32(0), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zero, (pieces, _weights(pieces, config)))
    return jax.tree.map(lambda x: x / len(pieces), total)


def _weights(pieces: jax.Array, config: ProxyConfig) -> jax.Array | None:
    """Of targets, (pieces, rows, seq_len), where some are padding: so that the mean over pieces is that over what counts."""
    if config.padding is None:
        return None
    counted = predicted(pieces, config.padding)
    return counted * (len(pieces) / jnp.maximum(counted.sum(), 1))
