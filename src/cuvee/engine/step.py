"""What a step is: its identity, its tasks, and what is left when it is done."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cuvee.engine.store import Output, join

Counts = dict[str, Any]  # what a task reports: numbers and small JSON values


@functools.cache
def package_version(name: str) -> str:
    """Version of a package whose release shapes the bytes; `unicode` is the interpreter's Unicode data."""
    return unicodedata.unidata_version if name == "unicode" else importlib.metadata.version(name)


@dataclass(frozen=True)
class Step:
    """Identity of one step: same identity, same bytes.

    version: raised by hand when the step's bytes change (tests/golden holds it to that).
    config: the step's whole section; resources are never part of it.
    inputs: fingerprints or digests of all that the step reads.
    uses: packages whose version shapes the bytes.
    source: for a step that is done once per source.
    """

    name: str
    version: int
    config: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    source: str | None = None

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        return {
            "step": self.name,
            "version": self.version,
            "source": self.source,
            "config": dict(self.config),
            "inputs": list(self.inputs),
            "uses": {name: package_version(name) for name in sorted(self.uses)},
        }

    @functools.cached_property
    def fingerprint(self) -> str:
        text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def place(self) -> str:
        """The step's key in current.json, and its folder's parent under WORK."""
        return self.name if self.source is None else f"{self.name}/{self.source}"

    def folder(self, work: str) -> str:
        return join(work, self.place, self.fingerprint[:12])


@dataclass(frozen=True)
class Task:
    """One piece of a step: a module-level function, called as `function(out, **args) -> counts`.

    name: unique within the step; results are ordered by it, never by time.
    cpus, gpus, memory (bytes): what the task asks of a cluster; they never shape its bytes.
    """

    name: str
    function: Callable[..., Counts]
    args: Mapping[str, Any] = field(default_factory=dict)
    cpus: float = 1
    gpus: float = 0
    memory: int | None = None


class Job(NamedTuple):
    """A task, the folder that it writes to, and whether its files are to outlast a stop of the machine."""

    folder: str
    task: Task
    lasting: bool = True


def execute(job: Job) -> dict[str, Any]:
    """Do one task; every engine calls this and nothing else. BLAS and OpenMP get one thread.

    A matrix product differs bitwise with the number of threads, so the thread count is fixed here.
    """
    with one_thread():
        return perform(job)


def one_thread() -> Any:
    """BLAS and OpenMP of this process get one thread while the block lasts."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1)


def perform(job: Job) -> dict[str, Any]:
    """The same where the caller holds the libraries to one thread already."""
    out = Output(job.folder, job.lasting)
    return {"counts": job.task.function(out, **job.task.args), "files": out.files}
