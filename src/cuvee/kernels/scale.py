"""What every surrogate model says alike: which runs it is fitted to, how wide its intervals are."""
from statistics import NormalDist

import numpy as np

LEAST_RUNS = 5  # one per fold
_LEVEL = 0.9  # of the intervals that the SDs are made for
_MOST_LEVERAGE = 0.95
_REACH = NormalDist().inv_cdf((1 + _LEVEL) / 2)  # 1.645


def scored_rows(scores: np.ndarray) -> np.ndarray:
    """Runs with a score; too few are an error. (runs,), NaN where a run has none -> int64"""
    rows = np.flatnonzero(np.isfinite(scores))
    if len(rows) < LEAST_RUNS:
        raise ValueError(f"a surrogate needs at least {LEAST_RUNS} runs with a score; got {len(rows)}.")
    return rows


def spread(scores: np.ndarray) -> float:
    """SD of the scores, and 0 exactly where all are alike, whatever their mean is in binary. (runs,)"""
    return float(scores.std()) if np.ptp(scores) > 0 else 0.0


def calibrated(residual: np.ndarray, deviation: np.ndarray | float) -> float:
    """Factor on the SDs by which 90 % of the residuals, out of fold, lie within 1.645 of them. (runs,) x 2

    An SD of 0 is that of a fold whose other runs all scored alike, and is left out; 1 where nothing is left.
    """
    deviation = np.broadcast_to(deviation, residual.shape)
    told = deviation > 0
    if not told.any():
        return 1.0
    relative = np.abs(residual[told]) / deviation[told]
    return float(np.quantile(relative, _LEVEL) / _REACH)


def held_deviation(noise: float, leverage: np.ndarray) -> np.ndarray:
    """SD of a run's score around a least-squares fit that has not seen it; leverage: of the fit that has. (runs,) -> (runs,)

    noise (1 + h / (1 - h))^.5: residuals out of fold are to be compared with this, not with noise (1 + h)^.5, or the
    SDs of new runs come out too wide by (1 - h^2)^-.5, a quarter where there are two coefficients for three runs.
    """
    return noise / np.sqrt(1 - np.minimum(leverage, _MOST_LEVERAGE))
