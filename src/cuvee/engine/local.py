"""The local engine: a pool of worker processes, or the calling process where one worker, or threads, are enough."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from cuvee.engine.step import Job, execute, one_thread, perform
from cuvee.errors import CuveeError, StepError, WorkerDied

DEATHS = 3  # a task in flight at this many deaths of workers is given up
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LocalEngine:
    """`workers` processes, or threads of the calling process; one worker means the calling process itself."""

    here = True
    gpus = 0

    def __init__(self, workers: int, threads: bool = False) -> None:
        self.workers = workers
        self.threads = threads
        self._pool: ProcessPoolExecutor | None = None

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, dict[str, Any]]]:
        if self.workers == 1 or (self.threads and len(jobs) == 1) or any(job.task.gpus for job in jobs):  # one process has the GPUs: this one
            for place, job in enumerate(jobs):
                yield place, _named(job, lambda job=job: execute(job))
        elif jobs:
            yield from self._threaded(jobs) if self.threads else self._spread(jobs)

    def _threaded(self, jobs: Sequence[Job]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Kernels, Arrow and files let go of the interpreter's lock, and no process is to be started."""
        pool = ThreadPoolExecutor(self.workers)
        try:
            with one_thread():
                futures = {pool.submit(perform, job): place for place, job in enumerate(jobs)}
                for future in as_completed(futures):
                    yield futures[future], _named(jobs[futures[future]], future.result)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _spread(self, jobs: Sequence[Job]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Keep a few jobs ahead of the workers; a dead worker costs only the jobs in flight."""
        waiting = deque(range(len(jobs)))
        flying: dict[Future[dict[str, Any]], int] = {}
        deaths = [0] * len(jobs)
        while waiting or flying:
            try:
                while waiting and len(flying) < self.workers + 1:
                    flying[self._submit(jobs[waiting[0]])] = waiting[0]  # a pool found broken here leaves the job waiting
                    waiting.popleft()
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    result = _named(jobs[flying[future]], future.result)
                    yield flying.pop(future), result
            except BrokenProcessPool:
                self.close()
                for place in sorted(flying.values(), reverse=True):
                    deaths[place] += 1
                    _give_up(jobs[place], deaths[place])
                    waiting.appendleft(place)
                flying.clear()

    def _submit(self, job: Job) -> Future[dict[str, Any]]:
        if self._pool is None:
            for name, value in ONE_THREAD.items():
                os.environ.setdefault(name, value)
            self._pool = ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"), _die_with_parent, (os.getpid(),))
        return self._pool.submit(execute, job)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _give_up(job: Job, deaths: int) -> None:
    if deaths >= DEATHS:
        raise WorkerDied(f"{job.folder}, task {job.task.name}: a worker process died {deaths} times while it was at work (killed, "
                         "or out of memory). Use fewer --workers, or look for the document that needs the memory.")


def _named(job: Job, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of `call`; an error in it names its task."""
    try:
        return call()
    except (BrokenProcessPool, CuveeError):
        raise
    except Exception as error:
        raise StepError(f"{job.folder}, task {job.task.name}: {type(error).__name__}: {error}") from error


def _die_with_parent(parent: int) -> None:
    """In a worker: end when the driver is gone, so that a killed run leaves no process behind."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to hear
    threading.Thread(target=watch, daemon=True).start()
