"""How well predictions order the runs: rank correlation, its interval, regret of the choice."""
import numpy as np
from scipy.stats import rankdata


def spearman(predicted: np.ndarray, observed: np.ndarray) -> float:
    """Rank correlation, ties by mean rank; 0 where one side is constant. (n,), (n,) -> in [-1, 1]"""
    a, b = rankdata(predicted), rankdata(observed)
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else 0.0


def spearman_interval(predicted: np.ndarray, observed: np.ndarray, rng: np.random.Generator, level: float = 0.9,
                      resamples: int = 1000) -> tuple[float, float]:
    """Percentile bootstrap over runs (Efron, 1979). -> low, high"""
    drawn = rng.integers(0, len(observed), (resamples, len(observed)))
    values = [spearman(predicted[rows], observed[rows]) for rows in drawn]
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def regret_at_1(predicted: np.ndarray, observed: np.ndarray) -> float:
    """What choosing by prediction costs: observed score of the best predicted run less the best observed score."""
    return float(observed[np.argmin(predicted)] - observed.min())
