"""Spherical k-means against plain references, on planted clusters, and at the edges: ties, empties, zero rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score

from cuvee.kernels.kmeans import _refill, assign, cluster, seed
from cuvee.kernels.vectors import quantise, unit


def planted(count, per_cluster, dimensions=32, noise=0.02, draw=0):
    rng = np.random.default_rng(draw)
    label = np.repeat(np.arange(count), per_cluster)
    centre = unit(rng.standard_normal((count, dimensions)))
    return unit(centre[label] + noise * rng.standard_normal((len(label), dimensions))), label


def loss_of(vectors, found):
    return 1 - (vectors @ found.centroids.T).max(axis=1).mean()


@pytest.mark.parametrize("as_codes", [False, True])
def test_planted_clusters_are_found(as_codes):
    vectors, label = planted(20, 30)
    rows = quantise(vectors)[0] if as_codes else vectors
    found = cluster(rows, np.ones(len(rows)), 20, np.random.default_rng(0))
    assert normalized_mutual_info_score(label, found.labels) > 0.999
    assert np.allclose(np.linalg.norm(found.centroids, axis=1), 1, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 40))
def test_the_loss_never_rises_and_labels_are_nearest(draw, count, rows):
    rng = np.random.default_rng(draw)
    vectors = unit(rng.standard_normal((rows, 5)))
    found = cluster(vectors, rng.random(rows) + 0.1, count, rng, tolerance=0)
    cosines = vectors @ found.centroids.T
    assert len(found.centroids) == min(count, rows)
    assert (np.diff(found.loss) <= 1e-6).all()
    assert np.allclose(cosines[np.arange(rows), found.labels], cosines.max(axis=1), atol=1e-6)


def test_centroids_are_weighted_means():
    vectors, _ = planted(4, 25)
    weights = np.arange(1, 101.0)
    found = cluster(vectors, weights, 4, np.random.default_rng(1), tolerance=0)
    means = [unit((weights[:, None] * vectors)[found.labels == k].sum(axis=0)[None])[0] for k in range(4)]
    assert np.allclose(found.centroids, means, atol=1e-6)


def test_a_heavy_row_counts_as_its_copies():
    vectors, _ = planted(3, 4, dimensions=4, noise=0.4, draw=2)
    weights = np.array([1, 5] * 6)
    one = cluster(vectors, weights, 3, np.random.default_rng(0), tolerance=0)
    copies = cluster(np.repeat(vectors, weights, axis=0), np.ones(weights.sum()), 3, np.random.default_rng(0), tolerance=0)
    assert one.loss == pytest.approx(copies.loss, abs=1e-6)
    assert np.allclose(one.centroids, copies.centroids, atol=1e-6)


def test_same_rows_and_seed_give_the_same_bytes():
    vectors, _ = planted(10, 30, noise=0.3)
    first, second = (cluster(vectors, np.ones(300), 10, np.random.default_rng(5)) for _ in range(2))
    assert first.centroids.tobytes() == second.centroids.tobytes()
    assert first.loss == second.loss


def test_assign_breaks_ties_to_the_lower_index_in_every_batch():
    axes = np.eye(3, dtype=np.float32)
    between = unit(np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0], [0, 0, 1]]))
    for batch in (1, 2, 100):
        labels, similarity = assign(between, axes, batch)
        assert labels.tolist() == [1, 0, 0, 2]
        assert similarity == pytest.approx([0.5**0.5, 0.5**0.5, 0, 1])


def test_fewer_directions_than_clusters_gives_fewer_clusters():
    vectors = np.repeat(unit(np.random.default_rng(0).standard_normal((3, 8))), 10, axis=0)
    found = cluster(vectors, np.ones(30), 7, np.random.default_rng(0))
    assert len(found.centroids) == 3 and found.loss[-1] < 1e-6


def test_zero_rows_count_for_nothing():
    vectors, label = planted(5, 20)
    rows = np.concatenate([np.zeros((50, 32), np.float32), vectors])
    found = cluster(rows, np.ones(150), 5, np.random.default_rng(0))
    assert normalized_mutual_info_score(label, found.labels[50:]) > 0.999
    assert found.loss[-1] == pytest.approx(loss_of(vectors, found), abs=1e-6)


def test_empty_clusters_take_the_rows_that_fit_worst():
    means = np.array([[0, 0], [1, 0], [0, 0]], np.float32)
    rows = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)
    filled = _refill(means, rows, np.array([0, 1.0, 2.0, 1.0]))
    assert filled.tolist() == [[-1, 0], [1, 0], [0, 1]]


def test_seeds_reach_every_planted_cluster():
    vectors, label = planted(15, 20)
    starts = seed(vectors, np.ones(300), 15, np.random.default_rng(3))
    assert len(set(label[(starts @ vectors.T).argmax(axis=1)])) == 15


def test_no_weight_is_an_error():
    with pytest.raises(ValueError, match="not all 0"):
        cluster(np.eye(3, dtype=np.float32), np.zeros(3), 2, np.random.default_rng(0))
