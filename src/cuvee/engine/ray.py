"""The Ray engine: the same tasks as remote functions, with the resources that they ask for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from cuvee.engine.step import Job, execute
from cuvee.errors import CuveeError, StepError, UsageError, WorkerDied, missing_extra

RETRIES = 3  # how often Ray does a task again after its worker or node died


class RayEngine:
    """Tasks on a Ray cluster at `address`, or on one started here with `workers` CPUs."""

    here = False  # its nodes may be started again while the driver goes on

    def __init__(self, address: str | None, workers: int) -> None:
        try:
            import ray
        except ImportError:
            raise missing_extra("ray", "ray") from None
        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            local = {} if address else {"num_cpus": workers, "include_dashboard": False}
            try:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", **local)
            except ConnectionError as error:
                raise UsageError(f"no Ray cluster answers at {address}: {error}") from None
        resources = ray.cluster_resources()
        self.workers, self.gpus = int(resources.get("CPU", workers)), int(resources.get("GPU", 0))
        self._remote = ray.remote(execute)

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, dict[str, Any]]]:
        """At most twice as many jobs in flight as the cluster has CPUs, so that the queue stays short."""
        waiting, flying = deque(range(len(jobs))), {}
        while waiting or flying:
            while waiting and len(flying) < 2 * self.workers:
                place = waiting.popleft()
                flying[self._submit(jobs[place])] = place
            done, _ = self._ray.wait(list(flying), num_returns=1)
            place = flying.pop(done[0])
            yield place, self._result(jobs[place], done[0])

    def _submit(self, job: Job) -> Any:
        options: dict[str, Any] = {"num_cpus": job.task.cpus, "max_retries": RETRIES}
        if job.task.gpus:
            options["num_gpus"] = job.task.gpus
        if job.task.memory:
            options["memory"] = job.task.memory
        return self._remote.options(**options).remote(job)

    def _result(self, job: Job, reference: Any) -> dict[str, Any]:
        where = f"{job.folder}, task {job.task.name}"
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, CuveeError):
                raise type(cause)(str(cause)) from error
            raise StepError(f"{where}: {type(cause).__name__}: {cause}") from error
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(f"{where}: Ray gave it up after {RETRIES} retries: {error}") from error

    def close(self) -> None:
        if self._started:
            self._ray.shutdown()
