"""int8 codes stay near their vectors; hashed TF-IDF and its projection against plain references."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.vectors import dequantise, fit_idf, fit_projection, project, quantise, scale_of, term_weights, unit

MASK = (1 << 64) - 1
documents = st.lists(st.lists(st.integers(0, MASK), max_size=12), max_size=8)


def arrays(texts):
    hashes = np.array([word for text in texts for word in text], np.uint64)
    return hashes, np.cumsum([0, *map(len, texts)])


def planted(topics, per_topic, rng, vocabulary=200, own_share=2 / 3, length=60):
    """Documents of random words, `own_share` from the own topic's vocabulary and the rest shared."""
    own = rng.integers(0, MASK, (topics + 1, vocabulary), dtype=np.uint64)
    texts = [own[np.where(rng.random(length) < own_share, topic, topics), rng.integers(0, vocabulary, length)]
             for topic in range(topics) for _ in range(per_topic)]
    return arrays(texts), np.repeat(np.arange(topics), per_topic)


@pytest.mark.parametrize("dimensions", [64, 128, 640, 1024])
def test_codes_keep_the_cosine(dimensions):
    vectors = unit(np.random.default_rng(0).standard_normal((500, dimensions)))
    codes, clipped = quantise(vectors)
    cosines = (unit(dequantise(codes)) * vectors).sum(axis=1)
    assert codes.dtype == np.int8 and clipped == 0
    assert cosines.mean() > 0.9996
    assert np.abs(dequantise(codes) - vectors).max() <= scale_of(dimensions) * 0.5001


def test_clipped_values_are_counted():  # d = 128: the largest code stands for 9.6 / sqrt(128) = .8485
    one_axis = np.eye(128, dtype=np.float32)[:3] * np.float32(-1)
    codes, clipped = quantise(one_axis)
    assert clipped == 3
    assert codes[0, 0] == -127 and not codes[0, 1:].any()
    assert dequantise(codes)[0, 0] == pytest.approx(-0.848528)


def test_a_vector_that_is_not_finite_is_named():
    with pytest.raises(ValueError, match="row 2"):
        quantise(np.array([[1, 0], [0, 1], [np.nan, 0]], np.float32))


@settings(deadline=None)  # the first call compiles
@given(documents, st.integers(1, 8))
def test_term_weights_are_the_counted_words(texts, bits):
    found = term_weights(*arrays(texts), 1 << bits).toarray()
    expected = np.zeros((len(texts), 1 << bits))
    for row, text in enumerate(texts):
        for column, count in Counter((word * 0x9E3779B97F4A7C15 & MASK) >> (64 - bits) for word in text).items():
            expected[row, column] = 1 + math.log(count)
    assert np.allclose(found, expected, atol=1e-6)


def test_idf_golden():  # 3 documents; a word in 2 of them: ln(4/3) + 1; in all: 1; in one: 0, it joins nothing
    weights = term_weights(*arrays([[1, 2], [1, 2], [1, 3]]), 1 << 16)
    assert sorted(fit_idf(weights)[fit_idf(weights) > 0]) == pytest.approx([1, math.log(4 / 3) + 1])


def test_projection_keeps_the_cosines_of_a_full_svd():
    """With as many dimensions as documents nothing is truncated: cosines are those of plain TF-IDF."""
    (hashes, offsets), _ = planted(3, 10, np.random.default_rng(1))
    weights = term_weights(hashes, offsets, 1 << 12)
    vectors, _ = project(weights, fit_projection(weights, 40, np.random.default_rng(2)))
    plain = unit(weights.toarray() * fit_idf(weights))
    assert np.abs(vectors @ vectors.T - plain @ plain.T).max() < 1e-3


def test_truncated_projection_is_as_good_as_the_best_one():
    """The squared weight that rank 8 keeps is within half a percent of the exact SVD's."""
    (hashes, offsets), _ = planted(12, 15, np.random.default_rng(3))
    weights = term_weights(hashes, offsets, 1 << 12)
    plain = unit(weights.toarray() * fit_idf(weights)).astype(np.float64)
    singular = np.linalg.svd(plain, compute_uv=False)
    scaled = fit_projection(weights, 8, np.random.default_rng(4))
    basis = np.linalg.qr(np.divide(scaled, fit_idf(weights)[:, None], where=scaled != 0, out=np.zeros_like(scaled)))[0]
    assert ((plain @ basis) ** 2).sum() >= 0.995 * (singular[:8] ** 2).sum()


def test_nothing_is_clipped_though_a_topic_is_one_singular_direction():
    (hashes, offsets), _ = planted(5, 40, np.random.default_rng(9), vocabulary=15, own_share=1)
    weights = term_weights(hashes, offsets, 1 << 16)
    vectors, _ = project(weights, fit_projection(weights, 128, np.random.default_rng(10)))
    assert (vectors[:40] @ unit(vectors[:40].sum(axis=0)[None]).T).min() > 0.87  # beyond the largest code, .8485
    assert quantise(vectors)[1] == 0


def test_documents_of_one_topic_are_near_each_other():
    (hashes, offsets), topic = planted(5, 40, np.random.default_rng(5))
    weights = term_weights(hashes, offsets, 1 << 16)
    vectors, zero = project(weights, fit_projection(weights, 64, np.random.default_rng(6)))
    np.fill_diagonal(cosines := vectors @ vectors.T, -1)
    assert zero == 0
    assert (topic[cosines.argmax(axis=1)] == topic).all()


def test_a_document_without_known_words_is_the_zero_vector():
    weights = term_weights(*arrays([[7, 8], [7, 8], [], [9]]), 1 << 16)
    vectors, zero = project(weights, fit_projection(weights, 16, np.random.default_rng(7)))
    assert zero == 2 and not vectors[2:].any()
    assert np.linalg.norm(vectors[:2], axis=1) == pytest.approx([1, 1])


def test_a_batch_gives_the_rows_of_the_whole():
    (hashes, offsets), _ = planted(2, 10, np.random.default_rng(8))
    whole = term_weights(hashes, offsets, 1 << 10)
    half = term_weights(hashes[offsets[10]:], offsets[10:] - offsets[10], 1 << 10)
    assert np.array_equal(whole[10:].toarray(), half.toarray())


@pytest.mark.parametrize("bad, message", [((np.zeros(3, np.uint64), np.array([0, 2]), 16), "number of tokens, 3"),
                                          ((np.zeros(3, np.uint64), np.array([0, 3]), 100), "power of two")])
def test_wrong_arrays_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        term_weights(*bad)
