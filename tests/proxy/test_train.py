import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cuvee.errors import UsageError
from cuvee.kernels.pack import predicted
from cuvee.proxy.model import ProxyConfig, init, loss, nats
from cuvee.proxy.train import Group, _gradient, finite, schedule, train
from tests.proxy.test_model import grown

TINY = ProxyConfig(vocab=64, seq_len=16, depth=1, batch=4)


def digest(trained):
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(trained))).hexdigest()


def some_rows(steps, config=TINY, seed=0):
    return np.random.default_rng(seed).integers(0, config.vocab, (steps * config.batch, config.seq_len + 1)).astype(np.uint16)


@pytest.mark.parametrize("form", [{}, {"mlp": "swiglu"}, {"tied": True}, {"optimizer": "muon"}], ids=str)
def test_train_learns_one_batch_by_heart(form):
    losses = train(replace(TINY, **form), np.tile(some_rows(1), (300, 1)), seed=0).losses
    assert losses[0] == pytest.approx(np.log(64), rel=0.01)
    assert losses[-1] < 0.1


def test_two_processes_give_the_same_bytes():
    code = ("from tests.proxy.test_train import *\n"
            "print(digest(train(TINY, some_rows(20), seed=3)))")
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment | os.environ)
            for environment in ({}, {"PYTHONHASHSEED": "7"})]
    assert {run.stdout.strip() for run in runs} == {digest(train(TINY, some_rows(20), seed=3))}
    assert digest(train(TINY, some_rows(20), seed=4)) not in runs[0].stdout


def test_a_batch_in_pieces_trains_like_a_whole_one():
    config = ProxyConfig(vocab=64, seq_len=128, depth=1, batch=6)  # 3 pieces of 2 rows on a CPU
    rows = some_rows(1, config)
    assert train(config, rows, seed=0).losses[0] == pytest.approx(np.log(64), rel=1e-5)
    params = grown(config)
    pieces, whole = _gradient(params, rows.reshape(3, 2, -1), config), jax.value_and_grad(loss)(params, rows)
    for a, b in zip(jax.tree.leaves(pieces), jax.tree.leaves(whole)):
        assert np.allclose(a, b, rtol=1e-3, atol=1e-5)


def test_the_first_step_is_as_long_as_the_rates_say():
    """Adam's first step is the rate itself. The head begins at zero, so nothing but decay reaches the layers yet."""
    before, after = init(jax.random.key(5), TINY), train(TINY, some_rows(1), seed=5).params
    assert float(np.abs(after["head"]).max()) == pytest.approx(0.1)
    assert np.allclose(after["layers"][0]["up"], before["layers"][0]["up"] * (1 - 0.1 * 0.02), rtol=1e-5)
    assert np.allclose(after["embed"], before["embed"] * (1 - 0.1 * 0.2), rtol=1e-5)


def trained_together(config, seeds, stops=(8,)):
    """Losses and parameters of a group that reads other rows in every run."""
    group = Group(config, [some_rows(8, config, seed) for seed in seeds], seeds)
    state = group.begin()
    for stop in stops:
        state = group.advance(state, stop)
    return [state.of(place) for place in range(len(seeds))]


@pytest.mark.parametrize("form", [{}, {"optimizer": "muon", "tied": True}], ids=str)
def test_a_group_trains_like_its_runs_alone(form):
    config = replace(TINY, **form)
    for seed, together in zip((3, 4, 5), trained_together(config, [3, 4, 5])):
        alone = train(config, some_rows(8, config, seed), seed)
        assert np.allclose(together.losses, alone.losses, rtol=1e-4)
        for a, b in zip(jax.tree.leaves(together.params), jax.tree.leaves(alone.params)):
            assert np.allclose(a, b, atol=2e-3 * np.abs(b).max())


def test_a_run_has_the_bytes_that_its_group_gives_it_whoever_the_others_are():
    with_others = {seed: digest(run) for seeds in ([3, 4], [3, 9], [9, 4]) for seed, run in zip(seeds, trained_together(TINY, seeds))}
    again = {seed: digest(run) for seed, run in zip((4, 3), trained_together(TINY, [4, 3], stops=(1, 5, 8)))}
    assert again.items() <= with_others.items() and len(set(with_others.values())) == 3


def test_a_run_that_diverges_leaves_the_rest_of_its_group_alone():
    group = Group(TINY, [some_rows(8, seed=seed) for seed in (3, 4)], [3, 4])
    state = group.begin()
    poisoned = jax.tree.map(lambda x: x.at[0].set(np.nan), state.params)
    state = group.advance(state._replace(params=poisoned), 8)
    assert np.isnan(state.of(0).losses).all() and digest(state.of(1)) == digest(trained_together(TINY, [3, 4])[1])


def test_devices_share_a_group():
    code = ("import jax; from tests.proxy.test_train import *\n"
            "runs = trained_together(TINY, [3, 4, 5, 6])\n"
            "print(jax.local_device_count(), *(float(loss) for run in runs for loss in run.losses))")
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    count, *losses = map(float, done.stdout.split())
    assert count == 2 and losses == pytest.approx([loss for run in trained_together(TINY, [3, 4, 5, 6]) for loss in run.losses], rel=1e-4)


def test_without_an_accelerator_a_run_planned_for_one_is_refused():
    with pytest.raises(UsageError, match="jax sees none here.*swarm.gpus: 0"):
        train(replace(TINY, compute="bfloat16"), some_rows(1), seed=0)


def test_padding_teaches_nothing():
    """A batch with padding has the loss and the gradient of its counted targets, however it is cut."""
    config = ProxyConfig(vocab=64, seq_len=128, depth=1, batch=6, padding=0)
    rows, params = np.maximum(some_rows(1, config), 1), grown(config)
    for row, length in zip(rows, (129, 3, 128, 40, 90, 1)):
        row[length - 1 :] = 0
    counted = predicted(rows, 0)

    def plain(params):
        return jnp.sum(jnp.where(counted, nats(params, rows), 0)) / counted.sum()

    pieces, whole = _gradient(params, rows.reshape(3, 2, -1), config), jax.value_and_grad(plain)(params)
    assert all(np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(jax.tree.leaves(pieces), jax.tree.leaves(whole)))
    assert abs(float(loss(params, rows) - pieces[0])) > 0.01


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads where Linux lists them")
def test_xla_has_one_thread():
    train(TINY, some_rows(1), seed=0)
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert names.count("tf_XLAEigen") == 1


def test_schedule_golden():  # 100 steps: 5 up, then 95 down to one step before zero
    assert [schedule(i, 100) for i in (0, 4, 5, 99)] == pytest.approx([0.2, 1, 95 / 96, 1 / 96])
    assert [schedule(i, 1) for i in range(1)] == [1]


@pytest.mark.parametrize("depth, rate, head", [(1, 0.02, 0.1), (2, 0.01, 0.05), (4, 0.005, 0.025)])
def test_rates_golden(depth, rate, head):
    config = ProxyConfig(vocab=64, depth=depth)
    assert (config.rate, config.head_rate, config.embed_rate) == pytest.approx((rate, head, 0.2))


def test_a_run_that_diverges_has_no_score():
    with pytest.raises(FloatingPointError, match=r"loss is inf at step 1 of 3 \(seed 5, ProxyConfig\(vocab=64"):
        finite(np.array([4.1, np.inf, np.nan]), 5, TINY)


def test_errors_name_shape_and_vocabulary():
    with pytest.raises(ValueError, match=r"whole batches of 4 x 17 tokens; got shape \(7, 17\)"):
        train(TINY, some_rows(2)[:7], seed=0)
    with pytest.raises(ValueError, match=r"\[0, 64\).*64"):
        train(TINY, some_rows(1) + 1, seed=0)
    with pytest.raises(ValueError, match=r"2 seeds, 2 runs of \[1, 2\] steps"):
        Group(TINY, [some_rows(1), some_rows(2)], [0, 1])
