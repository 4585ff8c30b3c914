"""Balanced coarsening against every possible grouping of small inputs; topic names against counts by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cuvee.kernels.coarsen import coarsen, distinguishing_words
from cuvee.kernels.vectors import unit


def loss_of(centroids, mass, group):
    """Mean 1 - cosine to the group's mean direction, straight from that sentence."""
    group, total = np.asarray(group), 0.0
    for number in set(group.tolist()):
        inside = group == number
        middle = (mass[inside, None] * centroids[inside]).sum(axis=0)
        total += (mass[inside] * (1 - centroids[inside] @ (middle / np.linalg.norm(middle)))).sum()
    return total / mass.sum()


def best_loss(centroids, mass, count, min_share):
    """Over every grouping into exactly `count` groups of the least share; None where there is none."""
    losses = [loss_of(centroids, mass, group)
              for group in itertools.product(range(count), repeat=len(mass))
              if group[0] == 0 and np.bincount(group, mass, count).min() >= min_share * mass.sum()]
    return min(losses, default=None)


@pytest.mark.parametrize("min_share", [0.0, 0.1, 0.2])
def test_near_the_best_of_all_groupings(min_share):
    """Random inputs are the hardest kind: they have no clusters."""
    for draw in range(20):
        rng = np.random.default_rng(draw)
        centroids, mass = unit(rng.standard_normal((8, 3))).astype(np.float64), rng.integers(50, 150, 8)
        best = best_loss(centroids, mass, 3, min_share)
        found = coarsen(centroids, mass, 3, min_share, rng)
        assert found.note is None and found.loss == pytest.approx(loss_of(centroids, mass, found.topic))
        assert best * (1 - 1e-6) <= found.loss <= best * 1.03


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 12), st.sampled_from([0, 0.01, 0.05, 0.2, 1.0]))
def test_every_topic_has_its_share_and_no_single_move_helps(draw, fine, count, min_share):
    rng = np.random.default_rng(draw)
    centroids, mass = unit(rng.standard_normal((fine, 6))), rng.integers(1, 1000, fine)
    found = coarsen(centroids, mass, count, min_share, rng)
    held = np.bincount(found.topic, mass)
    assert found.bytes.tolist() == held.tolist() and (np.diff(held) <= 0).all()
    assert held.min() >= min_share * mass.sum() and len(held) <= count
    assert (found.note is None) == (len(held) == count)
    for one, target in itertools.product(range(fine), range(len(held))):
        if held[found.topic[one]] - mass[one] >= max(1, min_share * mass.sum()):
            moved = np.where(np.arange(fine) == one, target, found.topic)
            assert loss_of(centroids, mass, moved) >= found.loss - 1e-6


def test_planted_topics_are_recovered_though_one_is_huge():
    rng = np.random.default_rng(0)
    topic = np.repeat(np.arange(10), 30)
    centroids = unit(unit(rng.standard_normal((10, 64)))[topic] + 0.05 * rng.standard_normal((300, 64)))
    mass = rng.integers(100, 200, 300) * np.where(topic == 3, 50, 1)
    found = coarsen(centroids, mass, 10, 0.01, rng)
    assert len(set(zip(topic, found.topic))) == 10
    assert set(topic[found.topic == 0]) == {3}


def test_a_tight_but_possible_share_is_reached():  # 20 topics of 4 % each: 80 % of the bytes are spoken for
    rng = np.random.default_rng(1)
    found = coarsen(unit(rng.standard_normal((400, 16))), rng.integers(90, 110, 400), 20, 0.04, rng)
    assert found.note is None and found.bytes.min() >= 0.04 * found.bytes.sum()


def test_an_impossible_share_gives_fewer_topics_and_says_so():
    found = coarsen(np.eye(4), np.array([97, 1, 1, 1]), 3, 0.4, np.random.default_rng(0))
    assert found.bytes.tolist() == [100]
    assert "1 topics instead of 3" in found.note and "97.0%" in found.note


def test_a_cluster_without_bytes_joins_its_nearest_topic():
    centroids = unit(np.array([[1, 0], [0, 1], [0.9, 0.1], [0.1, 0.9]]))
    found = coarsen(centroids, np.array([10, 30, 0, 0]), 2, 0.01, np.random.default_rng(0))
    assert found.topic.tolist() == [1, 0, 1, 0] and found.bytes.tolist() == [30, 10]


def test_no_bytes_at_all_is_an_error():
    with pytest.raises(ValueError, match="not all 0"):
        coarsen(np.eye(2), np.zeros(2), 2, 0.01, np.random.default_rng(0))


WORDS = ["goal", "match", "bank", "the", "loan", "film"]


def test_names_are_the_words_of_the_topic_and_not_the_common_ones():
    counts = np.array([[40, 30, 0, 900, 0, 1], [0, 1, 50, 900, 20, 0], [1, 0, 0, 700, 0, 60], [0, 0, 30, 900, 60, 0]])
    names = distinguishing_words(sparse.csr_array(counts), WORDS, top=2)
    assert names == [["goal", "match"], ["bank"], ["film"], ["loan"]]


def test_equal_words_are_named_in_word_order_and_an_empty_topic_has_no_name():
    counts = sparse.csr_array(np.array([[5, 5, 0], [0, 0, 5], [0, 0, 0]]))
    assert distinguishing_words(counts, ["b", "a", "c"]) == [["a", "b"], ["c"], []]
