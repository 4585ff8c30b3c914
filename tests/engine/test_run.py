from __future__ import annotations

import json
import shutil
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, add
from cuvee.engine.step import Step, Task
from cuvee.engine.store import boot
from cuvee.errors import CuveeError, DataError, StepError, UsageError, WorkerDied
from tests.engine import jobs

STEP = Step("square", 1, {"power": 2}, ("input",))


def engine_of(name: str):
    if name == "threads":
        return LocalEngine(2, threads=True)
    if name != "ray":
        return LocalEngine(int(name))
    pytest.importorskip("ray")
    from cuvee.engine.ray import RayEngine

    return RayEngine(None, 2)


@pytest.fixture(scope="module", params=["1", "2", "threads", "ray"])
def engine(request):
    made = engine_of(request.param)
    yield made
    made.close()


def tasks(function, numbers=range(6), **args) -> list[Task]:
    return [Task(f"{number:02d}", function, {"number": number, **args}) for number in numbers]


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}


# One contract over every engine.

def test_a_step_leaves_the_same_bytes_on_every_engine(engine, tmp_path):
    folder = Work(str(tmp_path / "a"), engine).do(STEP, tasks(jobs.square))
    here = Work(str(tmp_path / "b"), LocalEngine(1)).do(STEP, tasks(jobs.square))
    assert contents(folder.url) == contents(here.url)
    assert folder.counts == {"read": 6, "sum": 55, "by": {"even": 3, "odd": 3}}


def test_a_matrix_product_has_the_same_bytes_on_every_engine(engine, tmp_path):
    work, here = Work(str(tmp_path / "a"), engine), Work(str(tmp_path / "b"), LocalEngine(1))
    wanted = [Task(str(seed), jobs.product, {"seed": seed}) for seed in range(3)]
    assert work.do(STEP, wanted).files == here.do(STEP, wanted).files


def test_an_error_names_its_task_and_what_was_done_stays_done(engine, tmp_path):
    work = Work(str(tmp_path), engine)
    with pytest.raises(StepError, match="task 03: ValueError: three is not allowed"):
        work.do(STEP, tasks(jobs.fail))
    manifest = json.loads(Path(STEP.folder(work.url), "manifest.json").read_text())
    assert not manifest["complete"] and "03" not in manifest["tasks"]  # which others were done by then is the engine's affair
    assert all(result["counts"]["sum"] == int(name) ** 2 for name, result in manifest["tasks"].items())


def test_an_error_in_data_stays_what_it_is(engine, tmp_path):
    with pytest.raises(DataError, match="file 0, row 7: no good"):
        Work(str(tmp_path), engine).do(STEP, tasks(jobs.fail_on_data, [0]))


def test_only_what_is_not_done_is_done(engine, tmp_path):
    (tmp_path / "marks").mkdir()
    work = Work(str(tmp_path / "work"), engine)
    some = tasks(jobs.square_marked, marks=str(tmp_path / "marks"))
    with pytest.raises(CuveeError):
        work.do(STEP, [*some[:3], *tasks(jobs.fail, [3])])
    done = json.loads(Path(STEP.folder(work.url), "manifest.json").read_text())["tasks"]
    work.do(STEP, some)
    work.do(STEP, some)
    for number in range(6):
        marks = (tmp_path / "marks" / str(number)).read_text()
        assert marks == "x" or (number < 3 and f"{number:02d}" not in done)


# What only some engines do.

def test_what_was_done_before_an_error_stays_done(tmp_path):
    work = Work(str(tmp_path), LocalEngine(1))
    with pytest.raises(StepError):
        work.do(STEP, tasks(jobs.fail))
    assert set(json.loads(Path(STEP.folder(work.url), "manifest.json").read_text())["tasks"]) == {"00", "01", "02"}


def test_a_dead_worker_costs_nothing(tmp_path):
    (tmp_path / "marks").mkdir()
    engine = LocalEngine(2)
    folder = Work(str(tmp_path / "a"), engine).do(STEP, tasks(jobs.die_once, marks=str(tmp_path / "marks")))
    engine.close()
    assert (tmp_path / "marks" / "died").exists()
    assert contents(folder.url) == contents(Work(str(tmp_path / "b"), LocalEngine(1)).do(STEP, tasks(jobs.square)).url)


class Breaking(LocalEngine):
    """Its pool is found broken at the third submission, as when a worker dies between two of them."""

    submitted = 0

    def _submit(self, job):
        self.submitted += 1
        if self.submitted == 3:
            raise BrokenProcessPool
        return super()._submit(job)


def test_a_pool_that_is_found_broken_loses_no_task(tmp_path):
    engine = Breaking(2)
    try:
        folder = Work(str(tmp_path), engine).do(STEP, tasks(jobs.square))
    finally:
        engine.close()
    assert len(folder.manifest["tasks"]) == 6


def test_a_task_that_always_kills_its_worker_is_given_up_by_name(tmp_path):
    engine = LocalEngine(2)
    with pytest.raises(WorkerDied, match="task 00: a worker process died 3 times"):
        Work(str(tmp_path), engine).do(STEP, tasks(jobs.die_always, [0]))
    engine.close()


# Identity.

@pytest.mark.parametrize("other", [
    Step("square", 2, {"power": 2}, ("input",)), Step("square", 1, {"power": 3}, ("input",)), Step("square", 1, {"power": 2}, ("other",)),
    Step("square", 1, {"power": 2}, ("input",), ("numpy",)), Step("square", 1, {"power": 2}, ("input",), (), "web"),
    Step("cube", 1, {"power": 2}, ("input",))])
def test_anything_that_shapes_bytes_changes_the_fingerprint(other):
    assert other.fingerprint != STEP.fingerprint


def test_fingerprint_golden():
    assert Step("square", 1, {"b": 1, "a": 0.5}, ("x",)).fingerprint[:12] == "4a507c2ad961"


def test_a_folder_of_another_fingerprint_is_refused(tmp_path):
    work = Work(str(tmp_path), LocalEngine(1))
    folder = Path(work.do(STEP, tasks(jobs.square)).url)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"fingerprint": "0" * 64}))
    with pytest.raises(DataError, match="two fingerprints share 12 digits"):
        work.do(STEP, tasks(jobs.square))


def test_current_names_the_newest_folder_of_each_step(tmp_path):
    work = Work(str(tmp_path), LocalEngine(1))
    work.do(STEP, tasks(jobs.square))
    newer = work.do(Step("square", 1, {"power": 2}, ("input 2",)), tasks(jobs.square))
    assert work.current() == {"square": Folder.open(newer.url)}


def test_what_was_not_reached_is_forgotten_and_stays_on_disk(tmp_path):
    first, second = (Work(str(tmp_path), LocalEngine(1)) for _ in range(2))
    for step in (STEP, Step("later", 1, {}, (STEP.fingerprint,))):
        first.do(step, tasks(jobs.square))
    second.do(Step("square", 2), tasks(jobs.square))
    second.forget_the_rest()
    assert set(second.current()) == {"square"} and (tmp_path / "later").is_dir()


def test_two_drivers_do_not_share_a_folder(tmp_path):
    first, second = (Work(str(tmp_path), LocalEngine(1)) for _ in range(2))
    with first.lock(), pytest.raises(UsageError, match="another run is at work"), second.lock():
        pass


def test_files_and_folders_that_somebody_deleted_are_made_again(tmp_path):
    work = Work(str(tmp_path), LocalEngine(1))
    folder = Path(work.do(STEP, tasks(jobs.square)).url)
    expected = contents(str(folder))
    (folder / "3.json").unlink()
    assert work.do(STEP, tasks(jobs.square)).counts["sum"] == 55 and contents(str(folder)) == expected
    shutil.rmtree(folder)
    assert work.current() == {}
    work.do(STEP, tasks(jobs.square))
    assert contents(str(folder)) == expected


@pytest.mark.parametrize("damage", ["{", "", "{}", "[]"])
def test_a_damaged_manifest_says_what_to_do(tmp_path, damage):
    work = Work(str(tmp_path), LocalEngine(1))
    manifest = Path(work.do(STEP, tasks(jobs.square)).url) / "manifest.json"
    manifest.write_text(damage)
    with pytest.raises(DataError, match="manifest.json is damaged: .* Delete it and run again"):
        work.do(STEP, tasks(jobs.square))


def test_what_killed_writers_left_is_swept(tmp_path):
    """By the step that finishes in its folder, and by the next run in the work folder itself."""
    work = Work(str(tmp_path), LocalEngine(1))
    folder = Path(STEP.folder(work.url))
    for path in (folder / "deep" / ".1.json.0a.tmp", folder / ".manifest.json.0b.tmp", tmp_path / ".current.json.0c.tmp"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with work.lock():
        work.do(STEP, tasks(jobs.square))
    assert not list(tmp_path.rglob("*.tmp"))


def test_two_tasks_of_one_name_are_an_error(tmp_path):
    with pytest.raises(DataError, match="two tasks have one name: 01"):
        Work(str(tmp_path), LocalEngine(1)).do(STEP, tasks(jobs.square, [1, 1]))


def test_memory_is_a_work_folder_too():
    work = Work("memory://engine-test", LocalEngine(1))
    assert work.do(STEP, tasks(jobs.square)).counts["sum"] == 55
    assert work.current()["square"].file("5.json").startswith("memory://")


def test_counts_add_up_key_by_key():
    assert add([{"n": 1, "by": {"x": 2}, "name": "a"}, {"n": 2, "by": {"x": 1, "y": 1}, "name": "b"}]) == {
        "n": 3, "by": {"x": 3, "y": 1}, "name": "b"}


@pytest.mark.skipif(boot() is None, reason="this system does not say when it was started")
def test_a_scratch_folder_outlives_its_process_and_not_a_restart_of_the_machine(tmp_path):
    done = []
    for before in (None, None, '"another start"'):
        if before:
            (tmp_path / "boot.json").write_text(before)
        work = Work(str(tmp_path), LocalEngine(1), scratch=True)
        with work.lock():
            work.do(STEP, tasks(jobs.square))
        done.append(work.done)
    assert done == [["square"], [], ["square"]]


def test_a_folder_that_lasts_is_left_to_itself(tmp_path):
    (tmp_path / "mine").write_text("text")
    with Work(str(tmp_path), LocalEngine(1)).lock():
        assert (tmp_path / "mine").read_text() == "text"
