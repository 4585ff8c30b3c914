"""Spherical k-means: weighted unit vectors to centroids of greatest cosine, the same for the same rows and seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from cuvee.kernels.vectors import dequantise, unit

BATCH = 4096  # rows per matrix product: 80 MB of similarities at 5,000 centroids; part of the result's identity
SEED_ROWS = 20_000  # or 10 per centroid: evenly spaced rows that seeding looks at, as it passes over them per centroid


@dataclass(frozen=True)
class Clusters:
    """centroids: unit float32 (k, d); labels: int32 (n,); loss: mean 1 - cosine after each round, weighted."""

    centroids: np.ndarray
    labels: np.ndarray
    loss: list[float]


def _floats(rows: np.ndarray) -> np.ndarray:
    """int8 codes as unit vectors; float rows as they are."""
    return unit(dequantise(rows)) if rows.dtype == np.int8 else rows


def assign(vectors: np.ndarray, centroids: np.ndarray, batch: int = BATCH) -> tuple[np.ndarray, np.ndarray]:
    """Nearest centroid of each row by cosine, ties to the lower index (so a zero row goes to centroid 0).

    unit float32 or int8 (n, d), unit float32 (k, d)  ->  int32 (n,), float32 (n,)
    """
    labels = np.empty(len(vectors), np.int32)
    similarity = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), batch):
        part = slice(start, start + batch)
        cosines = _floats(vectors[part]) @ centroids.T
        labels[part] = cosines.argmax(axis=1)
        similarity[part] = np.take_along_axis(cosines, labels[part, None], axis=1)[:, 0]
    return labels, similarity


@njit(cache=True, nogil=True)
def _add_rows(sums, labels, weights, rows):
    """sums[label] += weight * row, in row order."""
    for row in range(len(rows)):
        for axis in range(rows.shape[1]):
            sums[labels[row], axis] += weights[row] * rows[row, axis]


def _means(vectors: np.ndarray, labels: np.ndarray, weights: np.ndarray, count: int, batch: int) -> np.ndarray:
    """Weighted sum of the rows of each cluster, as unit vectors; zero where a cluster has no row. -> (count, d)"""
    sums = np.zeros((count, vectors.shape[1]))
    for start in range(0, len(vectors), batch):
        part = slice(start, start + batch)
        _add_rows(sums, labels[part], weights[part], _floats(vectors[part]))
    return unit(sums)


def _distances(vectors: np.ndarray, points: np.ndarray, batch: int) -> np.ndarray:
    """1 - cosine of every row to every point, never under 0. -> float64 (n, points)"""
    parts = [vectors[start:start + batch] @ points.T for start in range(0, len(vectors), batch)]
    return np.maximum(1 - np.concatenate(parts).astype(np.float64), 0)


def seed(vectors: np.ndarray, weights: np.ndarray, count: int, rng: np.random.Generator, batch: int = BATCH) -> np.ndarray:
    """Rows to start from: greedy k-means++ (Arthur and Vassilvitskii 2007), the best of 2 + ln(count) draws each time.

    Looks at evenly spaced rows, at most SEED_ROWS or 10 x count. Fewer than `count` where these have fewer distinct
    directions.  ->  unit float32 (count or fewer, d)
    """
    looked_at = np.linspace(0, len(vectors) - 1, min(len(vectors), max(SEED_ROWS, 10 * count))).astype(np.int64)
    vectors, weights = _floats(vectors[looked_at]), weights[looked_at]
    draws = 2 + int(np.log(count))
    chosen: list[int] = []
    nearest = np.ones(len(vectors))
    while len(chosen) < count:
        reach = np.cumsum(weights * np.where(nearest > 1e-6, nearest, 0))  # float32 cosines of equal rows differ by 1e-7
        if reach[-1] <= 0:
            break
        picks = np.searchsorted(reach, rng.random(draws) * reach[-1], side="right")
        nearer = np.minimum(_distances(vectors, vectors[picks], batch), nearest[:, None])
        best = int((weights @ nearer).argmin())
        chosen.append(int(picks[best]))
        nearest = nearer[:, best]
    return vectors[chosen]


def _refill(means: np.ndarray, vectors: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Give each empty cluster, in order, the row of the largest weight x (1 - cosine) not yet given; ties: first row."""
    empty = np.flatnonzero(~means.any(axis=1))
    rows = np.argsort(-pull, kind="stable")[: len(empty)]
    means[empty[: len(rows)]] = _floats(vectors[rows])
    return means


def cluster(vectors: np.ndarray, weights: np.ndarray, count: int, rng: np.random.Generator,
            rounds: int = 30, tolerance: float = 1e-3, batch: int = BATCH) -> Clusters:
    """Spherical k-means (Dhillon and Modha 2001) until a round lowers the loss by under `tolerance` of itself.

    An empty cluster is refilled by the row that fits worst. Zero rows have no direction and count for nothing.
    vectors: unit float32 or int8 (n, d); weights: (n,), >= 0
    """
    weights = np.where(vectors.any(axis=1), np.asarray(weights, np.float64), 0.0)
    if not (len(vectors) and count >= 1 and np.isfinite(weights).all() and weights.min() >= 0 and weights.sum() > 0):
        raise ValueError(f"cannot cluster {len(vectors)} rows into {count}: weights must be finite, >= 0 and not all 0 "
                         "on non-zero rows. Embed more documents or check the weights.")
    centroids = seed(vectors, weights, count, rng, batch)
    loss: list[float] = []
    for _ in range(rounds):
        labels, similarity = assign(vectors, centroids, batch)
        pull = weights * np.maximum(1 - similarity.astype(np.float64), 0)
        loss.append(float(pull.sum() / weights.sum()))
        if len(loss) > 1 and loss[-2] - loss[-1] < tolerance * loss[-2]:
            break
        centroids = _refill(_means(vectors, labels, weights, len(centroids), batch), vectors, pull)
    return Clusters(centroids, assign(vectors, centroids, batch)[0], loss)
