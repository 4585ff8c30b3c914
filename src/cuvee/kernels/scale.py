"""What every surrogate model says alike: which runs it is fitted to, how wide its intervals are."""
from statistics import NormalDist

import numpy as np

LEAST_RUNS = 5  # one per fold
_LEVEL = 0.9  # of the intervals that the SDs are made for
_REACH = NormalDist().inv_cdf((1 + _LEVEL) / 2)  # 1.645


def scored_rows(scores: np.ndarray) -> np.ndarray:
    """Runs with a score; too few are an error. (runs,), NaN where a run has none -> int64"""
    rows = np.flatnonzero(np.isfinite(scores))
    if len(rows) < LEAST_RUNS:
        raise ValueError(f"a surrogate needs at least {LEAST_RUNS} runs with a score; got {len(rows)}.")
    return rows


def calibrated(residual: np.ndarray, deviation: np.ndarray | float) -> float:
    """Factor on the SDs by which 90 % of the residuals, out of fold, lie within 1.645 of them. (runs,) x 2"""
    relative = np.abs(residual) / np.maximum(deviation, 1e-300)
    return float(np.quantile(relative, _LEVEL) / _REACH)
