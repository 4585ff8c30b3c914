from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.step import Step, Task
from cuvee.engine.store import Output, read_json
from cuvee.errors import DataError, UsageError
from cuvee.proxy.model import ProxyConfig
from cuvee.proxy.train import Group
from cuvee.steps.proxies import checkpoint, tasks, training
from cuvee.steps.proxies.grouping import allowed, grouping
from cuvee.steps.proxies.training import Run
from tests.engine import jobs

SEEDS = (11, 12, 13, 14, 15)


def changed(recipe: Recipe, **swarm) -> Recipe:
    return recipe.model_copy(update={"swarm": recipe.swarm.model_copy(update=swarm)})


def runs_of(made, seeds=SEEDS) -> list[Run]:
    """Natural mixtures that differ in their seeds."""
    regime = training.regime(made.recipe, made.tokens, 1, 2_000)
    return [replace(training.runs_of(made.recipe, regime, [made.tokens.tokens / made.tokens.tokens.sum()])[0], seed=seed) for seed in seeds]


def train(made, engine, folder, runs, **swarm):
    """The runs in a work folder of their own, and the checksum of every file."""
    recipe, work = changed(made.recipe, **swarm), Work(str(folder), engine)
    regime = training.regime(recipe, made.tokens, 1, 2_000)
    return training.train_all(work, "swarm.runs", recipe, made.tokens, regime, tasks.run(made.work, made.recipe, made.tokens), runs)


def sums(folder: str) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(folder).iterdir())}


@pytest.fixture(scope="module")
def pairs(made, tmp_path_factory):
    """Five runs in groups of two, by one worker."""
    return train(made, LocalEngine(1), tmp_path_factory.mktemp("pairs"), runs_of(made), group=2)


def test_groups_leave_a_file_for_each_run_and_nothing_else(made, pairs):
    assert set(sums(pairs.url)) == {f"{run.key}.json" for run in runs_of(made)} | {"manifest.json"}
    assert len(pairs.manifest["tasks"]) == 3 and pairs.counts == {"tokens": 5 * 31 * 64, "failed": 0}
    assert pairs.manifest["config"]["group"] == 2 and pairs.manifest["config"]["compute"] == "float32"


def test_a_group_scores_as_its_runs_do_alone(made, pairs, tmp_path):
    alone = train(made, LocalEngine(1), tmp_path, runs_of(made))
    assert alone.fingerprint != pairs.fingerprint and set(alone.manifest["tasks"]) == {run.key for run in runs_of(made)}
    for run in runs_of(made):
        a, b = (read_json(folder.file(f"{run.key}.json")) for folder in (alone, pairs))
        assert a["drawn"] == b["drawn"] and a["scores"] == pytest.approx(b["scores"], rel=1e-3) and a["half"] == pytest.approx(b["half"], rel=1e-3)


def test_half_of_the_way_is_scored_too(made, pairs):
    found = [read_json(pairs.file(f"{run.key}.json")) for run in runs_of(made)]
    assert all(each["half"].keys() == each["scores"].keys() for each in found)
    assert sum(each["half"]["quiz"] for each in found) > sum(each["scores"]["quiz"] for each in found) > 0


def test_half_is_what_a_group_of_as_many_steps_has_there(made, tmp_path):
    """Half of the way is not half of the schedule: the state after 15 of 31 steps is scored."""
    regime, (run,) = training.regime(made.recipe, made.tokens, 1, 2_000), runs_of(made, [3])
    urls = [domain.rows_url for domain in made.tokens.domains]
    scored = tasks.run(made.work, made.recipe, made.tokens).url
    training.train_group(Output(str(tmp_path)), [run], regime, urls, scored)
    group = Group(regime.config, [training._read(run, regime, urls)[1]], [run.seed])
    assert read_json(f"{tmp_path}/{run.key}.json")["half"] == tasks.score(group.advance(group.begin(), 15).of(0).params, regime.config, scored)


@pytest.mark.parametrize("engine", ["two workers", "ray"])
def test_any_engine_leaves_the_same_bytes(made, pairs, engine, tmp_path):
    if engine == "ray":
        pytest.importorskip("ray")
        from cuvee.engine.ray import RayEngine
    started = RayEngine(None, 2) if engine == "ray" else LocalEngine(2)
    try:
        assert sums(train(made, started, tmp_path, runs_of(made), group=2).url) == sums(pairs.url)
    finally:
        started.close()


def test_a_larger_plan_groups_and_trains_only_what_is_missing(made, pairs, tmp_path):
    first = train(made, LocalEngine(1), tmp_path, runs_of(made)[:3], group=2)
    before = sums(first.url)
    after = train(made, LocalEngine(1), tmp_path, runs_of(made, (11, 16, 12, 17, 13)), group=2)
    assert after.fingerprint == first.fingerprint and len(after.manifest["tasks"]) == 3
    assert {name: sum_ for name, sum_ in sums(after.url).items() if name in before and name != "manifest.json"} == \
           {name: sum_ for name, sum_ in before.items() if name != "manifest.json"}


def test_a_lost_file_trains_its_group_again(made, pairs, tmp_path):
    found = train(made, LocalEngine(1), tmp_path, runs_of(made), group=2)
    Path(found.file(f"{runs_of(made)[2].key}.json")).unlink()
    assert sums(train(made, LocalEngine(1), tmp_path, runs_of(made), group=2).url) == sums(pairs.url)


@pytest.mark.parametrize("stopped", [9, 23])  # before and after half of the 31 steps
def test_a_killed_group_goes_on_from_its_checkpoint(made, pairs, stopped, tmp_path):
    regime, runs = training.regime(made.recipe, made.tokens, 1, 2_000), runs_of(made)[:2]
    urls, scored = [domain.rows_url for domain in made.tokens.domains], tasks.run(made.work, made.recipe, made.tokens).url
    group = Group(regime.config, [training._read(run, regime, urls)[1] for run in runs], [run.seed for run in runs])
    half = [read_json(pairs.file(f"{run.key}.json"))["half"] for run in runs] if stopped > 15 else [None, None]
    kept = checkpoint.url_of(str(tmp_path), training.name(runs))
    checkpoint.save(kept, group.advance(group.begin(), stopped), half)
    assert checkpoint.resume(kept, group)[0].step == stopped
    training.train_group(Output(str(tmp_path)), runs, regime, urls, scored, every=0)
    assert sums(str(tmp_path)) == {name: sum_ for name, sum_ in sums(pairs.url).items() if name in {f"{run.key}.json" for run in runs}}


def test_a_run_that_diverges_fails_alone(made, pairs, tmp_path):
    """A group whose checkpoint holds a run that was lost after half of the way."""
    regime, runs = training.regime(made.recipe, made.tokens, 1, 2_000), runs_of(made)[:2]
    urls, scored = [domain.rows_url for domain in made.tokens.domains], tasks.run(made.work, made.recipe, made.tokens).url
    group = Group(regime.config, [training._read(run, regime, urls)[1] for run in runs], [run.seed for run in runs])
    state = group.advance(group.begin(), 20)
    lost = state._replace(params=jax.tree.map(lambda x: x.at[0].set(np.nan), state.params))
    half = [read_json(pairs.file(f"{run.key}.json"))["half"] for run in runs]
    checkpoint.save(checkpoint.url_of(str(tmp_path), training.name(runs)), lost, half)
    counts = training.train_group(Output(str(tmp_path)), runs, regime, urls, scored)
    failed, well = (read_json(f"{tmp_path}/{run.key}.json") for run in runs)
    assert counts["failed"] == 1 and failed["scores"] == {} and failed["half"] is None and "the loss is nan at step 20 of 31" in failed["failure"]
    assert well == read_json(pairs.file(f"{runs[1].key}.json"))


class Cluster(LocalEngine):
    """An engine of other machines, of which one has a GPU."""

    here = False
    gpus = 4


def test_groups_are_as_large_as_memory_allows_and_of_one_on_cpus(made):
    config = ProxyConfig(8192, 256, 4, 16)
    assert grouping(made.recipe, config, LocalEngine(1)) == (1, 0)
    assert grouping(changed(made.recipe, group=4), config, LocalEngine(1)) == (4, 0)
    assert grouping(changed(made.recipe, gpus=0), config, Cluster(1)) == (1, 0)
    assert grouping(changed(made.recipe, group=4), config, Cluster(1)) == (4, 1)
    size, gpus = grouping(changed(made.recipe, device_memory=80_000_000_000), config, Cluster(1))
    assert gpus == 1 and size * config.memory <= 60e9 < 2 * size * config.memory and size & (size - 1) == 0
    assert grouping(changed(made.recipe, gpus=2, device_memory=80_000_000_000), config, Cluster(1)) == (2 * size, 2)
    assert allowed(config, 1) == 1


class Asked(Cluster):
    """Keeps what tasks ask for, and does none."""

    def map(self, jobs):
        self.asked = [(job.task.gpus, job.task.args["regime"].config.compute) for job in jobs]
        return iter(())


def test_groups_ask_for_gpus_and_compute_on_them(made, tmp_path):
    engine = Asked(1)
    with pytest.raises(DataError, match="3 tasks gave no result"):
        train(made, engine, tmp_path, runs_of(made), group=2)
    assert engine.asked == [(1, "bfloat16")] * 3


def test_ray_gives_tasks_the_gpus_that_they_ask_for(made, tmp_path):
    """On a cluster that only says that it has a GPU: a proxy that was given it finds none, and says so."""
    ray = pytest.importorskip("ray")
    from cuvee.engine.ray import RayEngine

    ray.init(num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        engine = RayEngine(None, 1)
        tasks = [Task("none", jobs.gpus), Task("one", jobs.gpus, gpus=1)]
        found = Work(str(tmp_path), engine).do(Step("gpus", 1), tasks).manifest["tasks"]
        assert engine.gpus == 1 and [found[name]["counts"]["gpus"] for name in ("none", "one")] == [0, 1]
        with pytest.raises(UsageError, match="planned for an accelerator, and jax sees none here"):
            train(made, engine, tmp_path, runs_of(made)[:1])
    finally:
        ray.shutdown()
