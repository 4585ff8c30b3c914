import hashlib
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from cuvee.proxy.model import ProxyConfig, loss
from cuvee.proxy.train import _gradient, finite, schedule, train
from tests.proxy.test_model import grown

TINY = ProxyConfig(vocab=64, seq_len=16, depth=1, batch=4)


def digest(trained):
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(trained))).hexdigest()


def some_rows(steps, config=TINY, seed=0):
    return np.random.default_rng(seed).integers(0, config.vocab, (steps * config.batch, config.seq_len + 1)).astype(np.uint16)


def test_train_learns_one_batch_by_heart():
    losses = train(TINY, np.tile(some_rows(1), (300, 1)), seed=0).losses
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
    pieces, whole = _gradient(params, rows.reshape(3, 2, -1)), jax.value_and_grad(loss)(params, rows)
    for a, b in zip(jax.tree.leaves(pieces), jax.tree.leaves(whole)):
        assert np.allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads where Linux lists them")
def test_xla_has_one_thread():
    train(TINY, some_rows(1), seed=0)
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert names.count("tf_XLAEigen") == 1


def test_schedule_golden():  # 100 steps: 5 up, then 95 down to one step before zero
    assert [schedule(i, 100) for i in (0, 4, 5, 99)] == pytest.approx([0.2, 1, 95 / 96, 1 / 96])
    assert [schedule(i, 1) for i in range(1)] == [1]


@pytest.mark.parametrize("depth, rate", [(1, 0.02), (2, 0.01), (4, 0.005)])
def test_rate_golden(depth, rate):
    assert ProxyConfig(vocab=64, depth=depth).rate == pytest.approx(rate)


def test_a_run_that_diverges_has_no_score():
    with pytest.raises(FloatingPointError, match=r"loss is inf at step 1 of 3 \(seed 5, ProxyConfig\(vocab=64"):
        finite(np.array([4.1, np.inf, np.nan]), 5, TINY)


def test_errors_name_shape_and_vocabulary():
    with pytest.raises(ValueError, match=r"whole batches of 4 x 17 tokens; got shape \(7, 17\)"):
        train(TINY, some_rows(2)[:7], seed=0)
    with pytest.raises(ValueError, match=r"\[0, 64\).*64"):
        train(TINY, some_rows(1) + 1, seed=0)
