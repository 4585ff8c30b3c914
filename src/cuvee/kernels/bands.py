"""Quality bands: cut points of equal bytes from exactly merged histograms, the ridge head that scores, small domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve

KEY_BITS = 20  # sign, exponent and 11 bits of mantissa: a bin is under 0.05 % of its score wide
TOP = np.uint32(1 << KEY_BITS)  # above every bin


@dataclass(frozen=True)
class Histogram:
    """Bytes and documents per (topic, bin), ordered by both, none empty: int32, uint32, int64, int64, each (entries,)."""

    topic: np.ndarray
    bin: np.ndarray
    bytes: np.ndarray
    documents: np.ndarray


@dataclass(frozen=True)
class Head:
    """score = vector @ coefficients + intercept; spearman: out-of-fold, against the targets; penalty: per row."""

    coefficients: np.ndarray
    intercept: float
    penalty: float
    spearman: float


def bins(scores: np.ndarray) -> np.ndarray:
    """Scores as whole numbers in the same order: the top bits of a float32 whose sign is made to sort. -> uint32 (n,)"""
    if np.isnan(scores).any():
        raise ValueError(f"score of row {int(np.isnan(scores).argmax())} is NaN; a row without a score has no band. "
                         "Score it or leave it out.")
    raw = (np.asarray(scores, np.float32) + np.float32(0)).view(np.uint32)  # + 0 turns -0 into 0
    keys = np.where(raw >> 31 == 1, ~raw, raw | np.uint32(1 << 31))
    return (keys >> np.uint32(32 - KEY_BITS)).astype(np.uint32)


def _gather(topic: np.ndarray, bin_: np.ndarray, sizes: np.ndarray, documents: np.ndarray) -> Histogram:
    """Add up entries of equal (topic, bin); whole numbers, so any order of adding gives the same."""
    keys, place = np.unique(topic.astype(np.int64) << KEY_BITS | bin_.astype(np.int64), return_inverse=True)
    held, number = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    np.add.at(held, place, sizes)
    np.add.at(number, place, documents)
    return Histogram((keys >> KEY_BITS).astype(np.int32), (keys & (int(TOP) - 1)).astype(np.uint32), held, number)


def histogram(scores: np.ndarray, sizes: np.ndarray, topic: np.ndarray) -> Histogram:
    """Bytes of rows by topic and score. scores: float (n,); sizes: UTF-8 bytes, int (n,); topic: int >= 0 (n,)"""
    return _gather(topic, bins(scores), sizes.astype(np.int64), np.ones(len(topic), np.int64))


def merge(parts: Sequence[Histogram]) -> Histogram:
    """The histogram of all rows together, whatever the order of the parts."""
    return _gather(*(np.concatenate([getattr(part, field) for part in parts])
                     for field in ("topic", "bin", "bytes", "documents")))


def cuts(merged: Histogram, topics: int, bands: int) -> np.ndarray:
    """First bin of bands 2, 3, ... of each topic: the place whose bytes below are nearest to an equal part.

    Rows of one bin stay together, so a band is off by at most one bin's bytes. Ties go to the lower place.
    ->  uint32 (topics, bands - 1)
    """
    result = np.full((topics, bands - 1), TOP, np.uint32)
    for topic in range(topics):
        here = slice(*np.searchsorted(merged.topic, [topic, topic + 1]))
        below = np.concatenate([[0], np.cumsum(merged.bytes[here])])
        wanted = below[-1] * np.arange(1, bands)
        place = np.abs(below[None, :] * bands - wanted[:, None]).argmin(axis=1)
        result[topic] = np.append(merged.bin[here], TOP)[place]
    return result


def band_of(scores: np.ndarray, topic: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Band of each row, 1 the worst. scores: (n,), topic: int (n,), cut: of `cuts`  ->  int8 (n,)"""
    return (1 + (cut[topic] <= bins(scores)[:, None]).sum(axis=1)).astype(np.int8)


def join_small(documents: np.ndarray, tokens: np.ndarray, min_documents: int, min_tokens: int) -> np.ndarray:
    """The band whose domain each domain joins (itself where it is large enough), 1 the worst. -> int8 (topics, bands)

    While a topic has a domain with fewer than `min_documents` or `min_tokens` and another domain, its domain of fewest
    documents among those (ties: the worse) joins the neighbour of fewest documents (ties: the worse) and takes its
    name. A topic that is too small as a whole ends as one domain. documents, tokens: int (topics, bands)
    """
    joined = np.tile(np.arange(1, documents.shape[1] + 1, dtype=np.int8), (documents.shape[0], 1))
    for topic, (held, size) in enumerate(zip(documents.tolist(), tokens.tolist())):
        domains = [(band + 1, held[band], size[band]) for band in range(len(held))]
        while len(domains) > 1:
            small = [place for place, (_, n, t) in enumerate(domains) if n < min_documents or t < min_tokens]
            if not small:
                break
            place = min(small, key=lambda place: domains[place][1])
            near = [other for other in (place - 1, place + 1) if 0 <= other < len(domains)]
            into = min(near, key=lambda other: domains[other][1])
            (name, n, t), (target, more, longer) = domains[place], domains[into]
            joined[topic, joined[topic] == name] = target
            domains[into] = (target, n + more, t + longer)
            del domains[place]
    return joined


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, equal values sharing their mean rank. -> float64 (n,)"""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def spearman(left: np.ndarray, right: np.ndarray) -> float:
    """Rank correlation with shared mean ranks; NaN where either side is constant, which has no order to compare."""
    a, b = _ranks(left) - (len(left) + 1) / 2, _ranks(right) - (len(right) + 1) / 2
    spread = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / spread) if spread > 0 else float("nan")


def _solve(vectors: np.ndarray, targets: np.ndarray, penalties: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Ridge by the normal equations, intercept free: least squared error + penalty x rows x |coefficients|^2.

    ->  coefficients (penalties, d), intercepts (penalties,)
    """
    mean, level = vectors.mean(axis=0), targets.mean()
    centred = vectors - mean
    gram, aim = centred.T @ centred, centred.T @ (targets - level)
    ridge_of_one = len(vectors) * np.eye(vectors.shape[1])
    coefficients = np.stack([solve(gram + penalty * ridge_of_one, aim, assume_a="pos") for penalty in penalties])
    return coefficients, level - coefficients @ mean


def _out_of_fold(vectors: np.ndarray, targets: np.ndarray, penalties: Sequence[float], folds: int) -> np.ndarray:
    """Predictions of each row by heads fitted without its fold; row r is in fold r mod folds. -> (penalties, n)"""
    predicted = np.empty((len(penalties), len(targets)))
    fold = np.arange(len(targets)) % folds
    for number in range(folds):
        coefficients, intercepts = _solve(vectors[fold != number], targets[fold != number], penalties)
        predicted[:, fold == number] = coefficients @ vectors[fold == number].T + intercepts[:, None]
    return predicted


def ridge(vectors: np.ndarray, targets: np.ndarray,
          penalties: Sequence[float] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5), folds: int = 5) -> Head:
    """Linear head on vectors, its penalty that of least out-of-fold squared error (ties: the first).

    Rows should come in an order that says nothing about them, as by hash of id. Spearman is measured out of fold at the
    chosen penalty. vectors: float (n, d), targets: (n,)
    """
    vectors, targets = np.asarray(vectors, np.float64), np.asarray(targets, np.float64)
    if len(targets) < 2 * folds or not np.isfinite(targets).all() or np.ptp(targets) == 0:
        raise ValueError(f"{len(targets)} labels cannot fit a quality head: need {2 * folds} or more, finite and not "
                         "all equal. Rate a larger sample.")
    predicted = _out_of_fold(vectors, targets, penalties, folds)
    best = int(((predicted - targets) ** 2).sum(axis=1).argmin())
    coefficients, intercepts = _solve(vectors, targets, penalties[best:best + 1])
    return Head(coefficients[0], float(intercepts[0]), float(penalties[best]), spearman(predicted[best], targets))


def score(vectors: np.ndarray, head: Head) -> np.ndarray:
    """Scores of unit vectors, float (n, d)  ->  float32 (n,)"""
    return (vectors.astype(np.float64) @ head.coefficients + head.intercept).astype(np.float32)
