"""A decoder-only transformer with one dial, `depth`; parameters are a plain tree of arrays, functions are pure.

RMSNorm without gains, rotary positions, normalised queries and keys, squared ReLU ("Primer", So et al. 2021), untied
embeddings. Head and residual projections start at zero, so the first prediction is uniform: loss log(vocab).
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

HEAD_WIDTH = 32  # channels of an attention head, and of the model per unit of depth
MLP = 4  # hidden channels of the MLP per channel of the model


@dataclass(frozen=True)
class ProxyConfig:
    """Everything that shapes a proxy: `depth` sets width, heads and learning rate."""

    vocab: int  # tokens
    seq_len: int = 256  # tokens read at once; a row is one more
    depth: int = 4  # layers
    batch: int = 16  # rows a step

    def __post_init__(self):
        for name, least in (("vocab", 2), ("seq_len", 1), ("depth", 1), ("batch", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"a proxy's {name} must be at least {least}; got {getattr(self, name)}.")

    @property
    def width(self) -> int:
        """Channels: depth 2 -> 64, depth 4 -> 128, depth 8 -> 256."""
        return HEAD_WIDTH * self.depth

    @property
    def rate(self) -> float:
        """Peak learning rate of the layers' matrices: 0.01 at width 64, 0.005 at 128 (docs/log.md, a sweep of each)."""
        return 0.64 / self.width

    @property
    def parameters(self) -> int:
        """Numbers in the model: two embeddings, and per layer 4 width^2 of attention and 2 x MLP x width^2."""
        return 2 * self.vocab * self.width + self.depth * (4 + 2 * MLP) * self.width**2

    @property
    def flops_per_token(self) -> int:
        """Training FLOPs: 6 per weight that multiplies, and 12 x width x seq_len per layer for attention's scores."""
        weights = self.parameters - self.vocab * self.width
        return 6 * weights + 12 * self.depth * self.width * self.seq_len


def init(key: jax.Array, config: ProxyConfig) -> dict:
    """Parameters of an untrained proxy, float32."""
    width = config.width
    embed, *keys = jax.random.split(key, 1 + 2 * config.depth)

    def matrix(key, columns):
        return jax.random.normal(key, (width, columns)) * width**-0.5

    layers = [{"qkv": matrix(a, 3 * width), "out": jnp.zeros((width, width)),
               "up": matrix(b, MLP * width), "down": jnp.zeros((MLP * width, width))}
              for a, b in zip(keys[::2], keys[1::2])]
    return {"embed": jax.random.normal(embed, (config.vocab, width)), "layers": layers,
            "head": jnp.zeros((width, config.vocab))}


def logits(params: dict, tokens: jax.Array) -> jax.Array:
    """Scores of every next token. tokens: int (rows, seq)  ->  float32 (rows, seq, vocab)"""
    x = _norm(params["embed"][tokens])
    for layer in params["layers"]:
        x = x + _attention(_norm(x) @ layer["qkv"]) @ layer["out"]
        x = x + jnp.square(jax.nn.relu(_norm(x) @ layer["up"])) @ layer["down"]
    return _norm(x) @ params["head"]


def nats(params: dict, rows: jax.Array) -> jax.Array:
    """-ln p of each token of a row after its first. rows: int (rows, seq + 1)  ->  float32 (rows, seq)"""
    scores = logits(params, rows[:, :-1])
    gold = jnp.take_along_axis(scores, rows[:, 1:, None], axis=-1)[..., 0]
    return jax.nn.logsumexp(scores, axis=-1) - gold


def loss(params: dict, rows: jax.Array) -> jax.Array:
    """Mean cross-entropy in nats. rows: int (rows, seq + 1)"""
    return nats(params, rows).mean()


def _norm(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6)


def _rotary(x: jax.Array) -> jax.Array:
    """Rotate pairs of channels by an angle that grows with the position. x: (rows, heads, seq, HEAD_WIDTH)"""
    seq, half = x.shape[-2], x.shape[-1] // 2
    angle = jnp.arange(seq)[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], axis=-1)


def _attention(qkv: jax.Array) -> jax.Array:
    """Causal attention. qkv: (rows, seq, 3 width)  ->  (rows, seq, width)

    Normalised queries and keys keep every score within sqrt(HEAD_WIDTH) = 5.7, so exp needs no maximum taken off.
    """
    rows, seq, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = qkv.reshape(rows, seq, 3, width // HEAD_WIDTH, HEAD_WIDTH).transpose(2, 0, 3, 1, 4)
    scores = (_rotary(_norm(q)) * HEAD_WIDTH**-0.5) @ _rotary(_norm(k)).swapaxes(-1, -2)
    weights = jnp.exp(scores) * jnp.tril(jnp.ones((seq, seq)))
    mixed = (weights @ v) / weights.sum(axis=-1, keepdims=True)
    return mixed.transpose(0, 2, 1, 3).reshape(rows, seq, width)
