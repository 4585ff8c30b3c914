"""How much of a score is chance: the SD of repeats, what it lets two runs tell apart, and whether it is the same everywhere."""
from typing import NamedTuple

import numpy as np
from scipy.special import fdtr, stdtrit

from cuvee.kernels.agreement import spearman

_LEAST_MIXTURES = 5  # distinct ones that a rank correlation needs


class Noise(NamedTuple):
    """sd: of runs of one mixture, pooled over mixtures; freedom: runs less mixtures.

    ratio: SD of the other repeated mixtures over that of the most repeated one; p: two-sided chance of a ratio as far
    from 1 where noise is the same everywhere, by the F test. None where only one mixture is repeated, or without spread.
    """

    sd: float
    freedom: int
    ratio: float | None
    p: float | None


def noise(scores: np.ndarray, groups: np.ndarray) -> Noise | None:
    """The noise of runs whose mixtures are numbered by `groups`; None where no mixture is repeated. (runs,), int (runs,)"""
    sizes = np.bincount(groups)
    freedom = int(len(scores) - (sizes > 0).sum())
    if not freedom:
        return None
    squares = np.bincount(groups, (scores - (np.bincount(groups, scores) / np.maximum(sizes, 1))[groups]) ** 2)
    most = int(sizes.argmax())
    near, far = int(sizes[most]) - 1, freedom - int(sizes[most]) + 1
    sd, ratio, p = float(np.sqrt(squares.sum() / freedom)), None, None
    if far and squares[most] > 0:
        found = (squares.sum() - squares[most]) / far / (squares[most] / near)
        below = float(fdtr(far, near, found))
        ratio, p = float(np.sqrt(found)), 2 * min(below, 1 - below)
    return Noise(sd, freedom, ratio, p)


def resolvable(sd: float, freedom: int, runs: int = 1, level: float = 0.95) -> float:
    """The smallest difference between two means of `runs` runs each that is chance in under 1 - level of cases.

    Student's t with the degrees of freedom of the noise; in the unit of `sd`.
    """
    return float(stdtrit(freedom, (1 + level) / 2)) * sd * float(np.sqrt(2 / runs))


def predictability(half: np.ndarray, full: np.ndarray, groups: np.ndarray) -> float | None:
    """Rank correlation of the scores at half of the tokens with those at the end, over the means of distinct mixtures.

    half, full: (runs,), NaN where unknown; None where fewer than five mixtures have both
    """
    known = np.isfinite(half) & np.isfinite(full)
    numbers, place = np.unique(groups[known], return_inverse=True)
    if len(numbers) < _LEAST_MIXTURES:
        return None
    sizes = np.bincount(place)
    return spearman(np.bincount(place, half[known]) / sizes, np.bincount(place, full[known]) / sizes)
