from dataclasses import replace

import jax
import numpy as np
import pytest

from cuvee.proxy.model import ProxyConfig, init, logits, loss, lowered, nats
from cuvee.proxy.train import _compiled

TINY = ProxyConfig(vocab=50, seq_len=12, depth=2, batch=4)
FORMS = [TINY, replace(TINY, mlp="swiglu"), replace(TINY, tied=True), replace(TINY, mlp="swiglu", tied=True)]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.mlp}{'-tied' * form.tied}")


def grown(config, seed=0):
    """Parameters in which nothing is zero, as after some training."""
    keys = iter(jax.random.split(jax.random.key(seed), 100))
    return jax.tree.map(lambda x: x + 0.2 * jax.random.normal(next(keys), x.shape), init(jax.random.key(seed), config))


def plain_logits(params, tokens):
    """The model in numpy loops over rows, positions and heads, one at a time."""
    def norm(x):
        return x / np.sqrt((x * x).mean() + 1e-6)

    def turn(x, t):
        z = (x[:16] + 1j * x[16:]) * np.exp(1j * t * 10_000.0 ** (-np.arange(16) / 16))
        return np.concatenate([z.real, z.imag])

    x = [norm(params["embed"][t]) for t in tokens]
    for layer in params["layers"]:
        parts = [np.split(norm(v) @ layer["qkv"], 3) for v in x]
        mixed = np.zeros((len(x), x[0].size))
        for t in range(len(x)):
            for h in range(0, x[0].size, 32):
                query = turn(norm(parts[t][0][h : h + 32]), t)
                scores = [query @ turn(norm(parts[s][1][h : h + 32]), s) / 32**0.5 for s in range(t + 1)]
                share = np.exp(scores) / np.exp(scores).sum()
                mixed[t, h : h + 32] = sum(w * parts[s][2][h : h + 32] for s, w in enumerate(share))
        x = [v + m @ layer["out"] for v, m in zip(x, mixed)]
        x = [v + inside(norm(v), layer) @ layer["down"] for v in x]
    return np.stack([norm(v) for v in x]) @ (params["head"] if "head" in params else params["embed"].T)


def inside(x, layer):
    if "gate" not in layer:
        return np.maximum(x @ layer["up"], 0) ** 2
    gate = x @ layer["gate"]
    return gate / (1 + np.exp(-gate)) * (x @ layer["up"])


@forms
def test_logits_against_plain_loops(form):
    params, tokens = grown(form), np.random.default_rng(0).integers(0, 50, (2, 9))
    exact = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    expected = np.stack([plain_logits(exact, row) for row in tokens])
    assert np.abs(np.asarray(logits(params, tokens)) - expected).max() < 1e-4 * np.abs(expected).max()


def test_a_later_token_leaves_earlier_logits():
    params, tokens = grown(TINY), np.random.default_rng(0).integers(0, 50, (1, 12))
    changed = tokens.copy()
    changed[0, 7] = (changed[0, 7] + 1) % 50
    before, after = logits(params, tokens)[0], logits(params, changed)[0]
    assert (before[:7] == after[:7]).all()
    assert (np.abs(before[7:] - after[7:]).max(axis=1) > 1e-3).all()


@forms
@pytest.mark.parametrize("vocab", [64, 4096])
def test_the_untrained_model_is_uniform(form, vocab):
    config = replace(form, vocab=vocab)
    rows = np.random.default_rng(0).integers(0, vocab, (4, 13))
    assert float(loss(init(jax.random.key(0), config), rows)) == pytest.approx(np.log(vocab), rel=0.01 if form.tied else 1e-5)


def test_every_token_after_the_first_is_learned_from():
    params, rows = grown(TINY), np.random.default_rng(0).integers(0, 50, (3, 13))
    terms = nats(params, rows)
    assert terms.shape == (3, 12) and float(loss(params, rows)) == pytest.approx(float(terms.mean()))
    weight = jax.grad(lambda scale: (nats(params, rows) * scale).mean())(np.ones((3, 12), np.float32))
    assert (np.asarray(weight) * 36 == pytest.approx(np.asarray(terms))) and (np.asarray(terms) > 0).all()


def test_bfloat16_predicts_nearly_the_same():
    params, tokens = grown(TINY), np.random.default_rng(0).integers(0, 50, (2, 9))
    low, full = logits(lowered(params), tokens), logits(params, tokens)
    assert low.dtype == full.dtype == np.float32
    assert 1e-4 < float(np.abs(low - full).max() / np.abs(full).max()) < 0.05


def test_depth_sets_the_rest():
    config = ProxyConfig(vocab=8192, seq_len=256, depth=4)
    assert (config.width, config.parameters) == (128, 2 * 8192 * 128 + 4 * 12 * 128**2)
    assert config.flops_per_token == 6 * (8192 * 128 + 4 * 12 * 128**2) + 12 * 4 * 128 * 256
    assert replace(config, mlp="swiglu").parameters == pytest.approx(config.parameters, rel=0.01)
    with pytest.raises(ValueError, match="depth must be at least 1; got 0"):
        ProxyConfig(vocab=10, depth=0)
    with pytest.raises(ValueError, match="mlp is one of relu2, swiglu; got gelu"):
        ProxyConfig(vocab=10, mlp="gelu")


@forms
def test_parameters_are_counted(form):
    assert form.parameters == sum(x.size for x in jax.tree.leaves(init(jax.random.key(0), form)))


@pytest.mark.parametrize("depth, vocab", [(2, 512), (4, 4096)])
def test_the_stated_memory_bounds_what_xla_takes(depth, vocab):
    """Of a step whose batch is not cut into pieces, as on an accelerator."""
    config = ProxyConfig(vocab=vocab, seq_len=128, depth=depth, batch=8, compute="bfloat16")
    begin, step, _ = _compiled(config, 1, (jax.local_devices(backend="cpu")[0],))
    params, moments = jax.eval_shape(begin, jax.random.split(jax.random.key(0), 1))
    found = step.lower(params, moments, np.zeros((1, 8, 129), np.int32), np.zeros(1, np.float32)).compile().memory_analysis()
    taken = found.argument_size_in_bytes + found.temp_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    assert taken <= config.memory <= 4 * taken
