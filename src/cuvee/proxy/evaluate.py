"""Bits that a proxy needs for a text; divided by UTF-8 bytes they compare across tokenizers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from cuvee.proxy.model import ProxyConfig, nats

SHORTEST = 32  # tokens of the shortest of the fixed lengths that inputs are padded to; each next one is twice as long
CPU_TOKENS = 512  # tokens read at once on a CPU ...
CHIP_TOKENS = 65_536  # ... and by a proxy that was trained on an accelerator

_nats = jax.jit(nats)  # compiled once per shape
Tokens = Sequence[int] | np.ndarray


class _Window(NamedTuple):
    """Tokens read at once, of which the last `scored` count for item `item`."""

    item: int
    tokens: np.ndarray
    scored: int


def continuation_bits(params: dict, config: ProxyConfig, contexts: Sequence[Tokens],
                      continuations: Sequence[Tokens]) -> np.ndarray:
    """Bits of each continuation given its context, such as the gold answer of an evaluation record.

    A pair longer than seq_len + 1 tokens loses context on the left; a continuation over seq_len / 2 tokens that does not
    fit is read in windows that each score seq_len / 2 tokens and see as much before them as fits.
    contexts, continuations: token lists, a context holds at least one (the end mark where nothing is given)
    ->  float64 (items,)
    """
    if len(contexts) != len(continuations):
        raise ValueError(f"every continuation needs a context; got {len(contexts)} and {len(continuations)}.")
    windows = [window for item, pair in enumerate(zip(contexts, continuations)) for window in _windows(item, *pair, config)]
    bits = np.zeros(len(contexts))
    for length in _lengths(config):
        ours = [w for w in windows if _padded(w, config) == length]
        rows = _rows(config, length)
        for start in range(0, len(ours), rows):
            chosen = ours[start : start + rows]
            np.add.at(bits, [w.item for w in chosen], _score(params, chosen, rows, length))
    return bits


def documents_bits(params: dict, config: ProxyConfig, documents: Sequence[Tokens], eos: int) -> np.ndarray:
    """Bits of each whole document, held-out ones for instance, read from the end mark before it.

    documents: token lists without EOS  ->  float64 (documents,)
    """
    return continuation_bits(params, config, [[eos]] * len(documents), documents)


def rows_bits(params: dict, config: ProxyConfig, rows: np.ndarray) -> np.ndarray:
    """Bits of the tokens after the first of each packed row. rows: (n, seq_len + 1)  ->  float64 (n,)"""
    return continuation_bits(params, config, rows[:, :1], rows[:, 1:])


def bits_per_byte(bits: np.ndarray, utf8_bytes: np.ndarray) -> float:
    """Score of a task: bits of all its items over UTF-8 bytes of the texts that they encode; lower is better."""
    total = int(np.sum(utf8_bytes))
    if total < 1 or np.shape(bits) != np.shape(utf8_bytes):
        raise ValueError(f"a score needs as many byte counts as items and one byte; got {np.shape(bits)} items, "
                         f"{np.shape(utf8_bytes)} counts, {total} bytes.")
    if not np.isfinite(bits).all():
        raise FloatingPointError(f"item {np.flatnonzero(~np.isfinite(bits))[0]} has no finite number of bits: "
                                 "this task has no score. Did the training diverge?")
    return float(np.sum(bits)) / total


def _windows(item: int, context: Tokens, continuation: Tokens, config: ProxyConfig) -> Iterator[_Window]:
    if not len(context):
        raise ValueError(f"item {item} has an empty context; give the end mark, after which a text begins.")
    tokens = np.concatenate([context, continuation]).astype(np.int32)
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < config.vocab:
        raise ValueError(f"item {item}: tokens must lie in [0, {config.vocab}); got {tokens.min()} to {tokens.max()}.")
    room, stride = config.seq_len + 1, max(1, config.seq_len // 2)
    step = stride if tokens.size > room else max(1, len(continuation))
    for start in range(len(context), tokens.size, step):
        stop = min(start + step, tokens.size)
        yield _Window(item, tokens[max(0, stop - room) : stop], stop - start)


def _lengths(config: ProxyConfig) -> list[int]:
    """Fixed input lengths, longest last: the only shapes that are compiled."""
    lengths = [SHORTEST]
    while lengths[-1] < config.seq_len:
        lengths.append(2 * lengths[-1])
    return [*lengths[:-1], config.seq_len]


def _padded(window: _Window, config: ProxyConfig) -> int:
    return next(length for length in _lengths(config) if window.tokens.size - 1 <= length)


def _rows(config: ProxyConfig, length: int) -> int:
    return max(1, (CPU_TOKENS if config.compute == "float32" else CHIP_TOKENS) // length)


def _score(params: dict, windows: list[_Window], count: int, length: int) -> np.ndarray:
    """Bits of each window's scored tokens. Padding stands on the right, where causal attention cannot see it."""
    rows, scored = np.zeros((count, length + 1), np.int32), np.zeros((count, length), bool)
    for i, window in enumerate(windows):
        rows[i, : window.tokens.size] = window.tokens
        scored[i, window.tokens.size - 1 - window.scored : window.tokens.size - 1] = True
    found = np.asarray(_nats(params, rows), np.float64)
    return (np.where(scored, found, 0).sum(axis=1) / np.log(2))[: len(windows)]
