import jax
import numpy as np
import pytest

from cuvee.proxy.evaluate import bits_per_byte, continuation_bits, documents_bits, rows_bits
from cuvee.proxy.model import ProxyConfig, logits
from tests.proxy.test_model import grown

CONFIG = ProxyConfig(vocab=50, seq_len=48, depth=1, batch=4)
PARAMS, LOGITS = grown(CONFIG), jax.jit(logits)


def plain_bits(tokens, first):
    """Bits of tokens[first:], one after the other, from the logits of the sequence as one row."""
    row = np.zeros((1, 48), int)
    row[0, : len(tokens) - 1] = tokens[:-1]
    scores = np.asarray(LOGITS(PARAMS, row)[0], np.float64)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return -sum(np.log2(p[t - 1, tokens[t]]) for t in range(first, len(tokens)))


def sample(*lengths):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 50, n).tolist() for n in lengths]


def test_continuations_against_one_by_one():
    contexts, golds = sample(1, 5, 30, 40, 3), sample(1, 10, 19, 2, 0)
    expected = [plain_bits(c + g, len(c)) if g else 0 for c, g in zip(contexts, golds)]
    assert continuation_bits(PARAMS, CONFIG, contexts, golds) == pytest.approx(expected, rel=1e-5)


def test_a_long_context_loses_its_left_end():
    (context, gold), = zip(sample(200), sample(7))
    assert continuation_bits(PARAMS, CONFIG, [context], [gold]) == pytest.approx(plain_bits((context + gold)[-49:], 42), rel=1e-5)


def test_long_continuations_are_read_in_windows():  # 100 tokens in pieces of 24, each seen with what fits before it
    (context, gold), = zip(sample(10), sample(100))
    tokens, ends = context + gold, (34, 58, 82, 106, 110)
    pieces = [(tokens[max(0, end - 49) : end], end - start) for start, end in zip((10, *ends), ends)]
    expected = sum(plain_bits(window, len(window) - scored) for window, scored in pieces)
    assert continuation_bits(PARAMS, CONFIG, [context], [gold]) == pytest.approx(expected, rel=1e-5)


def test_documents_start_at_the_end_mark_and_rows_at_their_first_token():
    documents = sample(3, 40)
    assert documents_bits(PARAMS, CONFIG, documents, eos=0) == pytest.approx([plain_bits([0, *d], 1) for d in documents], rel=1e-5)
    rows = np.array(sample(49, 49))
    assert rows_bits(PARAMS, CONFIG, rows) == pytest.approx([plain_bits(row, 1) for row in rows.tolist()], rel=1e-5)


def test_neighbours_do_not_change_bits():
    contexts, golds = sample(*[4] * 40), sample(*range(1, 41))
    together = continuation_bits(PARAMS, CONFIG, contexts, golds)
    alone = [continuation_bits(PARAMS, CONFIG, [c], [g])[0] for c, g in zip(contexts, golds)]
    assert together == pytest.approx(alone, rel=1e-6)


def test_bits_per_byte():
    assert bits_per_byte(np.array([8.0, 4.0]), np.array([2, 4])) == 2
    with pytest.raises(FloatingPointError, match="item 1"):
        bits_per_byte(np.array([8.0, np.nan]), np.array([2, 4]))
    with pytest.raises(ValueError, match="0 bytes"):
        bits_per_byte(np.zeros(1), np.zeros(1, int))
    with pytest.raises(ValueError, match="item 0 has an empty context"):
        continuation_bits(PARAMS, CONFIG, [[]], [[1]])
