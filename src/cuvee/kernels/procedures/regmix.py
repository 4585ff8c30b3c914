"""RegMix (Liu et al. 2024, arXiv 2407.01492): random runs in one round, trees, the mean of the best of many draws."""
from typing import ClassVar

import numpy as np

from cuvee.kernels.procedures import draws
from cuvee.kernels.procedures.base import Answer, Procedure, Round, Seen, Setting
from cuvee.kernels.procedures.boosted import boosted, target

RUNS = 512
_LEAST = 2e-4  # smaller weights are 0
_LEAF = 20  # runs in a leaf, LightGBM's default, of 512
_LEAST_LEAF = 3
_DRAWS, _BEST = 100_000, 100  # simulated; the paper draws a million, its code these, and averages the best


class RegMix(Procedure):
    """Trees are not stopped early: the authors' code stops on the test set, which is not there in use.

    With fewer runs than the paper's 512 a leaf holds fewer in proportion, 3 at least, so that it can split at all.
    """

    name: ClassVar[str] = "regmix"

    def sizes(self, setting: Setting) -> list[int]:
        return [setting.runs or RUNS]

    def propose(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Round:
        return draws.only_round(setting, seen, self.sizes(setting)[0], _LEAST, rng)

    def answer(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Answer:
        rows, values = target(setting, seen)
        trees = boosted(seen.weights[rows], values, settings(len(rows)))
        tried = draws.pool(setting, _DRAWS, rng)
        best = np.argsort(trees.predict(tried, num_threads=1), kind="stable")[:_BEST]
        return Answer(tried[best].mean(axis=0))


def settings(runs: int) -> dict:
    """LightGBM's for so many runs; the others are its defaults, as in the paper."""
    return {"min_data_in_leaf": int(np.clip(round(_LEAF * runs / RUNS), _LEAST_LEAF, _LEAF))}
