import jax
import numpy as np
import pytest

from cuvee.proxy.model import ProxyConfig, init, logits, loss

TINY = ProxyConfig(vocab=50, seq_len=12, depth=2, batch=4)


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
        x = [v + np.maximum(norm(v) @ layer["up"], 0) ** 2 @ layer["down"] for v in x]
    return np.stack([norm(v) for v in x]) @ params["head"]


def test_logits_against_plain_loops():
    params, tokens = grown(TINY), np.random.default_rng(0).integers(0, 50, (2, 9))
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


@pytest.mark.parametrize("vocab", [50, 4096])
def test_the_untrained_model_is_uniform(vocab):
    config = ProxyConfig(vocab=vocab, seq_len=12, depth=1)
    rows = np.random.default_rng(0).integers(0, vocab, (4, 13))
    assert float(loss(init(jax.random.key(0), config), rows)) == pytest.approx(np.log(vocab), rel=1e-5)


def test_depth_sets_the_rest():
    config = ProxyConfig(vocab=8192, seq_len=256, depth=4)
    assert (config.width, config.parameters) == (128, 2 * 8192 * 128 + 4 * 12 * 128**2)
    assert config.parameters == sum(x.size for x in jax.tree.leaves(init(jax.random.key(0), config)))
    assert config.flops_per_token == 6 * (8192 * 128 + 4 * 12 * 128**2) + 12 * 4 * 128 * 256
    with pytest.raises(ValueError, match="depth must be at least 1; got 0"):
        ProxyConfig(vocab=10, depth=0)
