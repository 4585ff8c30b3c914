"""How many proxies train together, and on what: said by the kind of device and the recipe, never by a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cuvee.config import Recipe
from cuvee.engine.run import Engine

if TYPE_CHECKING:
    from cuvee.proxy.model import Compute, ProxyConfig

UNKNOWN_MEMORY = 16_000_000_000  # bytes; the smallest of the data-centre GPUs in use (T4, V100, P100)
RESERVED = 0.75                  # of a GPU's memory: what jax takes to itself at its start (XLA_PYTHON_CLIENT_MEM_FRACTION)


class Grouping(NamedTuple):
    size: int  # proxies that train together; part of the fingerprint
    gpus: int  # accelerators of a group; a resource

    @property
    def compute(self) -> Compute:
        return "bfloat16" if self.gpus else "float32"


def grouping(recipe: Recipe, config: ProxyConfig, engine: Engine) -> Grouping:
    """Groups of one on CPUs, where vmap loses; on accelerators the largest power of two that `config.memory` allows."""
    gpus = _gpus(recipe, engine)
    if recipe.swarm.group is not None or not gpus:
        return Grouping(recipe.swarm.group or 1, gpus)
    return Grouping(allowed(config, gpus * _memory(recipe, engine)), gpus)


def allowed(config: ProxyConfig, memory: float) -> int:
    """The largest power of two of proxies that `memory` bytes hold; 1 at least."""
    return 1 << (max(1, int(memory / config.memory)).bit_length() - 1)


def _gpus(recipe: Recipe, engine: Engine) -> int:
    from cuvee.proxy.train import accelerators

    if recipe.swarm.gpus is not None:
        return recipe.swarm.gpus
    return len(accelerators()) if engine.here else min(1, engine.gpus)


def _memory(recipe: Recipe, engine: Engine) -> float:
    """Bytes that a proxy can use of one accelerator: as the recipe says, as jax says of this machine, or a small one's."""
    from cuvee.proxy.train import accelerators

    stated = recipe.swarm.device_memory
    here = accelerators() if engine.here and stated is None else []
    limits = [stats["bytes_limit"] for device in here if (stats := device.memory_stats())]
    return min(limits) if limits else RESERVED * (stated or UNKNOWN_MEMORY)
