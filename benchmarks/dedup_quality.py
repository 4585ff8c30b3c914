"""How well a tool's groups match exact Jaccard, pair by pair and row by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from exact_jaccard import Sets, jaccard, similar_pairs


class Truth(NamedTuple):
    """All pairs of a corpus at or over the threshold."""

    sets: Sets
    threshold: float
    left: np.ndarray  # int64 (pairs,)
    right: np.ndarray  # int64 (pairs,)

    @classmethod
    def of(cls, sets: Sets, threshold: float) -> Truth:
        return cls(sets, threshold, *similar_pairs(sets, threshold)[:2])


class Quality(NamedTuple):
    removed: int
    precision: float  # of pairs in one group, those within the threshold
    recall: float  # of pairs within the threshold, those in one group
    f1: float
    bcubed_precision: float  # mean over rows: of its group (itself too), the share within the threshold of the row
    bcubed_recall: float  # mean over rows: of rows within the threshold of it (itself too), the share in its group
    largest: int  # rows in the largest group
    faithful: float  # of removed rows, those within the threshold of the row that stands for them
    missed: int  # kept rows within the threshold of another kept row


def quality(keeper: np.ndarray, truth: Truth) -> Quality:
    """keeper: int64 (rows,), the row that stands for each; its own number where it is kept"""
    rows = np.arange(keeper.size)
    sizes = np.bincount(keeper, minlength=keeper.size)
    together = keeper[truth.left] == keeper[truth.right]
    found, pairs = int(together.sum()), int((sizes * (sizes - 1) // 2).sum())
    precision, recall = found / max(1, pairs), found / max(1, truth.left.size)
    mates = _degree(truth.left[together], truth.right[together], keeper.size) + 1
    removed = rows[keeper != rows]
    faithful = jaccard(truth.sets, removed, keeper[removed]) >= truth.threshold
    kept = keeper == rows
    left_alone = kept[truth.left] & kept[truth.right]
    return Quality(
        removed.size, precision, recall, 2 * precision * recall / max(1e-9, precision + recall), float((mates / sizes[keeper]).mean()),
        float((mates / (_degree(truth.left, truth.right, keeper.size) + 1)).mean()), int(sizes.max()), float(faithful.mean()) if removed.size else 1.0,
        np.union1d(truth.left[left_alone], truth.right[left_alone]).size)


def _degree(left: np.ndarray, right: np.ndarray, rows: int) -> np.ndarray:
    return np.bincount(left, minlength=rows) + np.bincount(right, minlength=rows)
