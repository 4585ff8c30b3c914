"""The runs of a swarm as a fit sees them: mixtures, exposure, repeats, folds."""
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cuvee.kernels.grid import Grid


@dataclass(frozen=True)
class Runs:
    """What all tasks of a swarm share.

    weights: (runs, domains); epochs: realised passes (runs, domains), or None without counts and budget;
    rate: (domains,) passes that weight 1 stands for where predictions are made, target budget / tokens, or None;
    grid: topic and band of each domain, where they have such.
    """

    weights: np.ndarray
    epochs: np.ndarray | None = None
    rate: np.ndarray | None = None
    grid: Grid | None = None

    def __post_init__(self):
        if (self.epochs is None) != (self.rate is None):
            raise ValueError("epochs and rate (budget / tokens) go together: give both or neither.")
        if self.epochs is not None and self.epochs.shape != self.weights.shape:
            raise ValueError(f"epochs has shape {self.epochs.shape}, weights {self.weights.shape}; they must agree.")

    @cached_property
    def exposure_rate(self) -> np.ndarray:
        """Exposure of weight 1: epochs, or 1 / column mean without counts; 0 for a domain no run drew. (domains,)"""
        if self.rate is not None:
            return self.rate
        mean = self.weights.mean(axis=0)
        return np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)

    @cached_property
    def exposure(self) -> np.ndarray:
        """Realised epochs, or weight / column mean without counts. (runs, domains)"""
        return self.weights * self.exposure_rate if self.epochs is None else self.epochs

    @cached_property
    def folds(self) -> np.ndarray:
        """`folds` of the weights. int64 (runs,)"""
        return folds(self.weights)

    def take(self, rows: np.ndarray) -> "Runs":
        """The runs of `rows` (int64 or bool); without counts, exposure is scaled anew by their column means."""
        if np.array_equal(np.arange(len(self.weights))[rows], np.arange(len(self.weights))):
            return self  # with what it has found out
        return Runs(self.weights[rows], None if self.epochs is None else self.epochs[rows], self.rate, self.grid)


def repeats(weights: np.ndarray) -> np.ndarray:
    """Number of each run's mixture: runs of identical weights are repeats. (runs, domains) -> int64 (runs,)"""
    return np.unique(np.round(weights, 9), axis=0, return_inverse=True)[1].reshape(-1)


def anchor(scores: np.ndarray, groups: np.ndarray) -> float:
    """Reference score: the mean of the most repeated mixture (proportional, by the plan), else the median."""
    counts = np.bincount(groups)
    return float(scores[groups == counts.argmax()].mean() if counts.max() > 1 else np.median(scores))


def repeat_noise(scores: np.ndarray, groups: np.ndarray) -> float:
    """Pooled SD of runs of one mixture around their mean; 0 without repeats, where nothing is known of it."""
    spare = len(scores) - len(np.unique(groups))
    if spare == 0:
        return 0.0
    means = np.bincount(groups, scores) / np.maximum(np.bincount(groups), 1)
    return float(np.sqrt(((scores - means[groups]) ** 2).sum() / spare))


def k_centre(points: np.ndarray, count: int, first: int) -> np.ndarray:
    """`count` rows that lie far from each other: each is the farthest from those before it (Gonzalez, 1985).

    points: (n, d)  ->  int64 (count,), beginning with `first`; ties go to the lower row
    """
    chosen = [first]
    distance = ((points - points[first]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return np.array(chosen)


def clusters(points: np.ndarray, count: int, rounds: int = 50) -> np.ndarray:
    """k-means from a k-centre start at the point nearest the mean. (n, d) -> int64 (n,), without randomness"""
    first = int(((points - points.mean(axis=0)) ** 2).sum(axis=1).argmin())
    centres = points[k_centre(points, count, first)]
    labels = np.zeros(len(points), np.int64)
    for _ in range(rounds):
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
        centres = np.array([points[labels == j].mean(axis=0) if (labels == j).any() else centres[j]
                            for j in range(count)])
    return labels


def folds(weights: np.ndarray, count: int = 5, per_cluster: int = 3) -> np.ndarray:
    """Fold of each run: clusters of about three like mixtures, never split, packed into folds of like size.

    A run is thus predicted without its near copies, as the proposal will be. (runs, domains) -> int64 (runs,)
    """
    count = min(count, len(weights))
    wanted = max(count, len(weights) // per_cluster)
    labels = np.unique(clusters(np.sqrt(weights), wanted), return_inverse=True)[1]
    sizes = np.bincount(labels)
    load, fold = np.zeros(count, np.int64), np.zeros(len(sizes), np.int64)
    for cluster in np.argsort(-sizes, kind="stable"):
        fold[cluster] = load.argmin()
        load[fold[cluster]] += sizes[cluster]
    return np.unique(fold[labels], return_inverse=True)[1]
