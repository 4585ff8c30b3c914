"""CLIMB (Diao et al. 2025, arXiv 2504.13161): three rounds, each from the mixtures that trees predict to be best.

Its clusters, pruned and merged, are the domains that are given here. Settings: NVIDIA-NeMo/Curator
tutorials/text/nemotron-climb-data-curation (5_mixture.py, 8_predict.py).
"""
from typing import Any, ClassVar

import numpy as np

from cuvee.kernels.procedures import draws
from cuvee.kernels.procedures.base import Answer, Procedure, Round, Seen, Setting
from cuvee.kernels.procedures.boosted import boosted, target

SIZES = (64, 32, 16)
_LEAST = 2e-4  # smaller weights are 0
_DRAWS = 100_000
_LEAST_POOL = 128  # best draws that the next round is taken from: its size squared, at least these
_TREES = {"lambda_l1": 1.0, "lambda_l2": 1.0, "max_depth": 4, "min_data_in_leaf": 5}
_HELD, _PATIENCE = 0.1, 20  # share of runs that end the growth of trees; trees without gain, at most as many as runs held


class Climb(Procedure):
    name: ClassVar[str] = "climb"

    def sizes(self, setting: Setting) -> list[int]:
        """64, 32, 16, or as many runs as there are in these proportions."""
        if setting.runs is None:
            return list(SIZES)
        later = [setting.runs * size // sum(SIZES) for size in SIZES[1:]]
        return [setting.runs - sum(later), *(size for size in later if size)]

    def propose(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Round:
        sizes = self.sizes(setting)
        if seen.asked == len(sizes):
            return Round.ended(len(setting.tokens), "its rounds are done")
        count = sizes[seen.asked]
        if not seen.asked:
            mixtures = draws.swarm(setting, count, _LEAST, rng)
        else:
            best = self._best(setting, seen, max(count * count, _LEAST_POOL), rng)
            mixtures = best[rng.choice(len(best), count, replace=False)]
        return Round(mixtures, ("proposal",) * count)

    def answer(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Answer:
        return Answer(self._best(setting, seen, 1, rng)[0])

    def _best(self, setting: Setting, seen: Seen, count: int, rng: np.random.Generator) -> np.ndarray:
        """The draws of least prediction, best first. -> (count, domains)"""
        trees = predictor(setting, seen, rng)
        tried = draws.pool(setting, _DRAWS, rng)
        return tried[np.argsort(trees.predict(tried, num_threads=1), kind="stable")[:count]]


def predictor(setting: Setting, seen: Seen, rng: np.random.Generator) -> Any:
    rows, values = target(setting, seen)
    held = rng.permutation(len(rows))[:int(_HELD * len(rows))]
    return boosted(seen.weights[rows], values, _TREES, held, min(_PATIENCE, len(held)))
