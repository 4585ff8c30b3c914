"""What the procedures of the package are held against besides each other: no runs at all, no surrogate, another model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cuvee.kernels.procedures.base import Answer, Procedure, Round, Seen, Setting
from cuvee.kernels.procedures.boosted import target
from cuvee.kernels.procedures.ours import ROUNDS, Ours
from cuvee.kernels.runs import repeats
from cuvee.kernels.simplex import unimax


class UniMax(Procedure):
    """As even as the caps allow; trains nothing."""

    name = "unimax"

    def propose(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Round:
        return Round.ended(len(setting.tokens), "it needs no runs")

    def answer(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Answer:
        return Answer(unimax(setting.tokens, setting.budget, setting.max_epochs))


class BestRun(Ours):
    """Our runs of one round without a surrogate: the mixture under the caps whose runs scored best on average."""

    def answer(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Answer:
        rows, values = target(setting, seen)
        same = repeats(seen.weights[rows])
        means = np.bincount(same, values) / np.bincount(same)
        mixtures = seen.weights[rows][np.unique(same, return_index=True)[1]]
        means[(mixtures > setting.caps + 1e-9).any(axis=1)] = np.inf
        return Answer(mixtures[means.argmin()])


BASELINES: dict[str, Callable[[], Procedure]] = {
    "unimax": UniMax, "best-run": BestRun, "saturating": lambda: Ours(1, "saturating"), "saturating-rounds": lambda: Ours(ROUNDS, "saturating", stop=0.0),
    "ours-rounds-all": lambda: Ours(ROUNDS, stop=0.0)}
