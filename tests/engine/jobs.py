"""Task functions for the engine's tests; workers import them by name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from cuvee.engine.step import Counts
from cuvee.engine.store import Output
from cuvee.errors import DataError


def square(out: Output, number: int) -> Counts:
    out.json(f"{number}.json", number * number)
    return {"read": 1, "sum": number * number, "by": {"odd" if number % 2 else "even": 1}}


def square_marked(out: Output, number: int, marks: str) -> Counts:
    """Leaves a mark each time it is done."""
    with open(Path(marks) / str(number), "a") as file:
        file.write("x")
    return square(out, number)


def die_once(out: Output, number: int, marks: str) -> Counts:
    """The worker is killed the first time that number 3 is at work."""
    mark = Path(marks) / "died"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(out, number)


def die_always(out: Output, number: int) -> Counts:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def fail(out: Output, number: int) -> Counts:
    if number == 3:
        raise ValueError("three is not allowed")
    return square(out, number)


def fail_on_data(out: Output, number: int) -> Counts:
    raise DataError(f"file {number}, row 7: no good")


def product(out: Output, seed: int) -> Counts:
    """A matrix product: bitwise different with another number of BLAS threads."""
    left, right = np.random.default_rng(seed).standard_normal((2, 400, 400)).astype(np.float32)
    out.bytes(f"{seed}.bin", (left @ right).tobytes())
    return {}


def gpus(out: Output) -> Counts:
    """How many GPUs Ray has given to this task."""
    import ray

    return {"gpus": ray.get_runtime_context().get_assigned_resources().get("GPU", 0)}
