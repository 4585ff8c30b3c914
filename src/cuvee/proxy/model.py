"""A decoder-only transformer with one dial, `depth`; parameters are a plain tree of arrays, functions are pure.

RMSNorm without gains, rotary positions, normalised queries and keys; squared ReLU ("Primer", So et al. 2021) or SwiGLU
(Shazeer 2020), embedding and head apart or one matrix. Residual projections start at zero, and the head at zero or
small, so the first prediction is uniform: loss log(vocab). Functions read the form off the tree: no `head` is a tied
model, a `gate` is SwiGLU.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp

HEAD_WIDTH = 32  # channels of an attention head, and of the model per unit of depth
MLP = 4  # hidden channels of the MLP per channel of the model, with squared ReLU
EMBED_RATE = 0.2  # peak learning rate of the embedding at every width; at the layers' rate a proxy learns far less
MUON_RATE = 0.02  # peak learning rate of the layers' matrices under Muon at every width (Jordan 2024)

Mlp = Literal["relu2", "swiglu"]
Optimizer = Literal["adamw", "muon"]
Compute = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class ProxyConfig:
    """Everything that shapes a proxy: `depth` sets width, heads and learning rate."""

    vocab: int  # tokens
    seq_len: int = 256  # tokens read at once; a row is one more
    depth: int = 4  # layers
    batch: int = 16  # rows a step
    mlp: Mlp = "relu2"
    tied: bool = False  # one matrix is both embedding and head
    optimizer: Optimizer = "adamw"  # of the layers' matrices; embedding and head have AdamW
    compute: Compute = "float32"  # of matrix products while training; bfloat16 is for accelerators (on a CPU it is slower, docs/log.md)
    padding: int | None = None  # the end mark, where rows are filled up with it; its repeats are no targets of training

    def __post_init__(self):
        for name, least in (("vocab", 2), ("seq_len", 1), ("depth", 1), ("batch", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"a proxy's {name} must be at least {least}; got {getattr(self, name)}.")
        for name, known in (("mlp", Mlp), ("optimizer", Optimizer), ("compute", Compute)):
            if getattr(self, name) not in get_args(known):
                raise ValueError(f"a proxy's {name} is one of {', '.join(get_args(known))}; got {getattr(self, name)}.")

    @property
    def width(self) -> int:
        """Channels: depth 2 -> 64, depth 4 -> 128, depth 8 -> 256."""
        return HEAD_WIDTH * self.depth

    @property
    def hidden(self) -> int:
        """Channels inside the MLP; the three matrices of SwiGLU hold as many numbers as the two of squared ReLU."""
        return MLP * self.width if self.mlp == "relu2" else 8 * round(2 * MLP * self.width / 24)

    @property
    def rate(self) -> float:
        """Peak learning rate of the layers' matrices: AdamW's is 0.01 at width 64, 0.005 at 128 (docs/log.md, a sweep of each)."""
        return 0.64 / self.width if self.optimizer == "adamw" else MUON_RATE

    @property
    def embed_rate(self) -> float:
        """Peak learning rate of the embedding; of one that is the head too, the head's."""
        return self.head_rate if self.tied else EMBED_RATE

    @property
    def head_rate(self) -> float:
        """Peak learning rate of the head: 0.05 at width 64, 0.025 at 128. A logit sums over the width, so it falls as 1 / width."""
        return 3.2 / self.width

    @property
    def products(self) -> int:
        """Weights that multiply a token: the head, and per layer 4 width^2 of attention and the MLP's two or three matrices."""
        mlp = (2 if self.mlp == "relu2" else 3) * self.width * self.hidden
        return self.vocab * self.width + self.depth * (4 * self.width**2 + mlp)

    @property
    def parameters(self) -> int:
        """Numbers in the model: the weights that multiply, and an embedding that is not the head."""
        return self.products + (0 if self.tied else self.vocab * self.width)

    @property
    def flops_per_token(self) -> int:
        """Training FLOPs: 6 per weight that multiplies, and 12 x width x seq_len per layer for attention's scores."""
        return 6 * self.products + 12 * self.depth * self.width * self.seq_len

    @property
    def memory(self) -> int:
        """Bytes of an accelerator that training one such proxy takes, stated rather than measured, and on the large side.

        24 a parameter: it, its gradient, its update and two moments in float32, and all but the moments once more while a
        step changes them. 4 of every number that the way back needs of a token: per layer 6 width of attention, 3 x the
        hidden channels, 2 width of norms and 3 x seq_len per head of scores; 3 x vocab of the head.
        """
        layer = 8 * self.width + 3 * self.hidden + 3 * self.depth * self.seq_len
        return 24 * self.parameters + 4 * self.batch * self.seq_len * (self.depth * layer + 3 * self.vocab)


def init(key: jax.Array, config: ProxyConfig) -> dict:
    """Parameters of an untrained proxy, float32."""
    width, hidden = config.width, config.hidden
    embed, *keys = jax.random.split(key, 1 + 2 * config.depth)

    def matrix(key, columns):
        return jax.random.normal(key, (width, columns)) * width**-0.5

    def layer(a, b):
        up = {"up": matrix(b, hidden)} if config.mlp == "relu2" else dict(zip(("gate", "up"), jnp.split(matrix(b, 2 * hidden), 2, axis=1)))
        return {"qkv": matrix(a, 3 * width), "out": jnp.zeros((width, width)), **up, "down": jnp.zeros((hidden, width))}

    params = {"embed": jax.random.normal(embed, (config.vocab, width)), "layers": [layer(a, b) for a, b in zip(keys[::2], keys[1::2])]}
    if config.tied:
        return params | {"embed": params["embed"] / (4 * width)}  # a token's own score is then 1/4, and others lie within 1 / sqrt(16 width)
    return params | {"head": jnp.zeros((width, config.vocab))}


def lowered(params: dict) -> dict:
    """The same with matrices in bfloat16. The embedding stays float32: its gradient is a sum over all places of a token."""
    return {part: value if part == "embed" else jax.tree.map(lambda x: x.astype(jnp.bfloat16), value) for part, value in params.items()}


def logits(params: dict, tokens: jax.Array) -> jax.Array:
    """Scores of every next token. tokens: int (rows, seq)  ->  float32 (rows, seq, vocab)"""
    x = _norm(params["embed"][tokens]).astype(params["layers"][0]["qkv"].dtype)
    for layer in params["layers"]:
        x = x + _attention(_norm(x) @ layer["qkv"]) @ layer["out"]
        x = x + _hidden(_norm(x), layer) @ layer["down"]
    head = params["head"] if "head" in params else params["embed"].T.astype(x.dtype)
    return jnp.matmul(_norm(x), head, preferred_element_type=jnp.float32)


def nats(params: dict, rows: jax.Array) -> jax.Array:
    """-ln p of each token of a row after its first. rows: int (rows, seq + 1)  ->  float32 (rows, seq)"""
    scores = logits(params, rows[:, :-1])
    gold = jnp.take_along_axis(scores, rows[:, 1:, None], axis=-1)[..., 0]
    return jax.nn.logsumexp(scores, axis=-1) - gold


def loss(params: dict, rows: jax.Array, weights: jax.Array | None = None) -> jax.Array:
    """Cross-entropy in nats: the mean, or the sum under `weights` of targets. rows: int (rows, seq + 1); weights: (rows, seq)"""
    found = nats(params, rows)
    return found.mean() if weights is None else (found * weights).sum()


def _norm(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + 1e-6)).astype(x.dtype)


def _hidden(x: jax.Array, layer: dict) -> jax.Array:
    """Hidden channels of the MLP. x: (rows, seq, width)  ->  (rows, seq, hidden)"""
    return jax.nn.silu(x @ layer["gate"]) * (x @ layer["up"]) if "gate" in layer else jnp.square(jax.nn.relu(x @ layer["up"]))


def _rotary(x: jax.Array) -> jax.Array:
    """Rotate pairs of channels by an angle that grows with the position. x: (rows, heads, seq, HEAD_WIDTH)"""
    seq, half = x.shape[-2], x.shape[-1] // 2
    angle = jnp.arange(seq)[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    turned = [a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _attention(qkv: jax.Array) -> jax.Array:
    """Causal attention. qkv: (rows, seq, 3 width)  ->  (rows, seq, width)

    Normalised queries and keys keep every score within sqrt(HEAD_WIDTH) = 5.7, so exp needs no maximum taken off.
    """
    rows, seq, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = qkv.reshape(rows, seq, 3, width // HEAD_WIDTH, HEAD_WIDTH).transpose(2, 0, 3, 1, 4)
    scores = (_rotary(_norm(q)) * HEAD_WIDTH**-0.5) @ _rotary(_norm(k)).swapaxes(-1, -2)
    weights = jnp.exp(scores.astype(jnp.float32)) * jnp.tril(jnp.ones((seq, seq)))
    mixed = (weights.astype(v.dtype) @ v) / weights.sum(axis=-1, keepdims=True)
    return mixed.astype(v.dtype).transpose(0, 2, 1, 3).reshape(rows, seq, width)
