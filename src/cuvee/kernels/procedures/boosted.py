"""LightGBM as the papers set it, fitted to one target: the weighted mean of the tasks, each in SDs of the swarm."""
from typing import Any

import numpy as np

from cuvee.errors import missing_extra
from cuvee.kernels.procedures.base import Seen, Setting

_SAME = {"objective": "l2", "num_threads": 1, "deterministic": True, "force_row_wise": True, "seed": 42, "verbose": -1}
_RATE, _ROUNDS = 0.01, 1000  # learning rate and trees, RegMix and CLIMB


def target(setting: Setting, seen: Seen) -> tuple[np.ndarray, np.ndarray]:
    """Runs that have every score which counts, and their weighted mean score in SDs. -> int64 (scored,), (scored,)

    The mean is scaled to SD 1, the size of the accuracies in percent that CLIMB's penalties were set for.
    """
    counts = setting.importance > 0
    rows = np.flatnonzero(np.isfinite(seen.scores[:, counts]).all(axis=1))
    scores = seen.scores[np.ix_(rows, counts)]
    spread = scores.std(axis=0)
    mean = ((scores - scores.mean(axis=0)) / np.where(spread > 0, spread, 1.0)) @ setting.importance[counts]
    return rows, mean / (mean.std() or 1.0)


def boosted(weights: np.ndarray, values: np.ndarray, settings: dict[str, Any], held: np.ndarray | None = None, patience: int = 0) -> Any:
    """Trees on (runs, domains) weights; with `held` rows, growth ends when their error has not fallen for `patience` trees."""
    try:
        import lightgbm
    except ImportError:
        raise missing_extra("lightgbm", "lightgbm") from None
    given = {**_SAME, "learning_rate": _RATE, **settings}
    if held is None or not len(held):
        return lightgbm.train(given, lightgbm.Dataset(weights, values, params=given), _ROUNDS)
    kept = np.setdiff1d(np.arange(len(values)), held)
    data = lightgbm.Dataset(weights[kept], values[kept], params=given)
    beside = lightgbm.Dataset(weights[held], values[held], reference=data, params=given)
    return lightgbm.train(given, data, _ROUNDS, valid_sets=[beside], callbacks=[lightgbm.early_stopping(patience, verbose=False)])
