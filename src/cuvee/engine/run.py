"""Doing steps in a work folder: what is done stays done, shard by shard, whenever the process dies."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from cuvee.engine.progress import Progress
from cuvee.engine.shard import Folder
from cuvee.engine.step import Job, Step, Task
from cuvee.engine.store import boot, exists, filesystem, is_local, join, read_json, sweep, write_json
from cuvee.errors import DataError, UsageError


class Engine(Protocol):
    """Does jobs, each a folder and a task, anywhere; yields (place in `jobs`, result) in any order, raises the first failure.

    here: all of them on this machine.
    gpus: those of a cluster; 0 on this machine, where who needs them looks.
    """

    workers: int
    here: bool
    gpus: int

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, dict[str, Any]]]: ...

    def close(self) -> None: ...


class Work:
    """A recipe's work folder and the engine that fills it.

    `WORK/STEP/[SOURCE/]FP12/` holds a step's files and its `manifest.json`; a task is done when its files'
    checksums stand in the manifest, never because a file exists. `WORK/current.json` maps step and source
    to the newest folder. A `scratch` folder, which its owner deletes at the end, spares fsyncs and compression:
    it survives the death of any process, and is begun again after a restart of the machine.
    """

    def __init__(self, url: str, engine: Engine, progress: Progress | None = None, scratch: bool = False) -> None:
        self.url = url if "://" in url else os.path.abspath(url)
        self.engine = engine
        self.lasting = not (scratch and engine.here and is_local(self.url) and boot())
        self.progress = progress or Progress(quiet=True)
        self.done: list[str] = []  # places of the steps that had work to do, in order
        self.reached: set[str] = set()  # places of all steps that were asked for

    def do(self, step: Step, tasks: Sequence[Task]) -> Folder:
        """Do all tasks of a step that are not done yet; return the finished folder.

        A step that is a cache, such as the proxy runs, may be given more tasks later: only those are done.
        """
        return self.do_all([(step, tasks)])[0]

    def do_all(self, steps: Sequence[tuple[Step, Sequence[Task]]]) -> list[Folder]:
        """The same for several steps that do not wait for each other, such as one step of every source."""
        manifests = [_Manifest(step.folder(self.url), step, self.lasting) for step, _ in steps]
        jobs, owners = [], []
        for (step, tasks), manifest in zip(steps, manifests):
            _unique(step, tasks)
            todo = [task for task in tasks if task.name not in manifest.value["tasks"]]
            jobs += [Job(manifest.folder, task, self.lasting) for task in todo]
            owners += [manifest] * len(todo)
        if jobs or not all(manifest.complete for manifest in manifests):
            self._finish(steps, manifests, jobs, owners)
        self._remember([step for step, _ in steps])
        return [Folder(m.folder, step.fingerprint, m.value) for (step, _), m in zip(steps, manifests)]

    def _finish(self, steps: Sequence[tuple[Step, Sequence[Task]]], manifests: Sequence[_Manifest], jobs: Sequence[Job],
                owners: Sequence[_Manifest]) -> None:
        total = sum(len(tasks) for _, tasks in steps)
        label = steps[0][0].place if len(steps) == 1 else f"{steps[0][0].name} x {len(steps)}"
        start = time.monotonic()
        with self.progress.step(label, total, total - len(jobs)) as bar:
            try:
                for place, result in self.engine.map(jobs):
                    owners[place].record(jobs[place].task.name, result)
                    bar.advance(result["counts"])
            finally:
                for manifest in manifests:
                    manifest.flush()
        for (step, tasks), manifest in zip(steps, manifests):
            if not manifest.complete or manifest in owners:
                manifest.finish([task.name for task in tasks])
                self.done.append(step.place)
        self._time(label, time.monotonic() - start)

    def files(self, step: Step) -> set[str]:
        """Names of the files that a step has already, finished or not: what a cache need not do again."""
        return {file for result in _Manifest(step.folder(self.url), step, self.lasting).value["tasks"].values() for file in result["files"]}

    def _remember(self, steps: Sequence[Step]) -> None:
        self.reached |= {step.place for step in steps}
        url = join(self.url, "current.json")
        current = read_json(url) if exists(url) else {}
        newest = current | {step.place: step.fingerprint[:12] for step in steps}
        if current != newest:
            write_json(url, newest, self.lasting)

    def _time(self, label: str, seconds: float) -> None:
        url = join(self.url, "timings.json")
        timings = read_json(url) if exists(url) else {}
        write_json(url, timings | {label: round(seconds, 3)}, self.lasting)

    def forget_the_rest(self) -> None:
        """Leave in current.json only what was reached: later steps, and sources that left, belong to another state."""
        url = join(self.url, "current.json")
        current = read_json(url)
        newest = {place: name for place, name in current.items() if place in self.reached}
        if newest != current:
            write_json(url, newest)

    def current(self) -> dict[str, Folder]:
        """Every step's newest finished folder, by place."""
        url = join(self.url, "current.json")
        places = read_json(url) if exists(url) else {}
        folders = {place: join(self.url, place, name) for place, name in places.items()}
        return {place: Folder.open(folder) for place, folder in folders.items() if exists(join(folder, "manifest.json"))}

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One driver at a time in a local work folder; the lock dies with its process."""
        if not is_local(self.url):
            yield
            return
        import fcntl

        path = filesystem(self.url)[1]
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, ".lock"), "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"{self.url}: another run is at work in this folder. Wait for it, or stop it.") from None
            if not self.lasting:
                self._begin()
            sweep(self.url, ".*.tmp")
            yield

    def _begin(self) -> None:
        """Empty a scratch folder that was filled before this machine was started, or by who knows which."""
        path, url, now = filesystem(self.url)[1], join(self.url, "boot.json"), boot()
        if exists(url) and read_json(url) == now:
            return
        for entry in os.scandir(path):
            if entry.is_dir():
                shutil.rmtree(entry.path)
            elif entry.name != ".lock":
                os.unlink(entry.path)
        write_json(url, now)


def _unique(step: Step, tasks: Sequence[Task]) -> None:
    names = [task.name for task in tasks]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataError(f"{step.place}: two tasks have one name: {', '.join(twice[:5])}")


class _Manifest:
    """A step's manifest.json: read once, written again at most every so often and at the end."""

    def __init__(self, folder: str, step: Step, lasting: bool) -> None:
        self.folder = folder
        self.lasting = lasting
        self.url = join(folder, "manifest.json")
        self.value = read_json(self.url) if exists(self.url) else {
            **step.identity, "fingerprint": step.fingerprint, "complete": False, "tasks": {}}
        if not isinstance(self.value, dict) or not {"fingerprint", "complete", "tasks"} <= self.value.keys():
            raise DataError(f"{self.url} is damaged: no step's keys stand in it. Delete it and run again.")
        if self.value["fingerprint"] != step.fingerprint:
            raise DataError(f"{self.url}: holds step {self.value['fingerprint']}, expected {step.fingerprint}: "
                            "two fingerprints share 12 digits. Change the recipe's seed or the work folder.")
        self._dirty = False
        self._next = 0.0
        self._forget_lost_files()

    def _forget_lost_files(self) -> None:
        """A task whose file somebody deleted from a local folder is to be done again."""
        if is_local(self.folder) and self.value["tasks"]:
            root = filesystem(self.folder)[1]
            lost = [name for name, result in self.value["tasks"].items()
                    if not all(os.path.exists(os.path.join(root, file)) for file in result["files"])]
            for name in lost:
                del self.value["tasks"][name]
            self.value["complete"] &= not lost

    @property
    def complete(self) -> bool:
        return self.value["complete"]

    def record(self, name: str, result: dict[str, Any]) -> None:
        self.value["tasks"][name] = result
        self._dirty = True
        if time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Write what is known. Writing takes at most a twentieth of the time, however large the manifest."""
        if self._dirty:
            start = time.monotonic()
            write_json(self.url, self.value, self.lasting)
            self._dirty = False
            self._next = time.monotonic() + max(0.05, 20 * (time.monotonic() - start))

    def finish(self, names: Sequence[str]) -> None:
        missing = sorted(set(names) - set(self.value["tasks"]))
        if missing:
            raise DataError(f"{self.url}: {len(missing)} tasks gave no result, first {missing[0]}. Run again.")
        sweep(self.folder)
        self.value["complete"] = True
        self._dirty = True
        self.flush()
