"""Cuvee's own procedures: one planned round, or rounds that go where the fits expect improvement."""
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cuvee.kernels.procedures.base import Answer, Procedure, Round, Seen, Setting
from cuvee.kernels.procedures.improve import next_round
from cuvee.kernels.procedures.optimum import fitted, optimum, vouched_caps
from cuvee.kernels.proposals import LEAST_ROUND, plan_round, round_size

ROUNDS = 3


@dataclass(frozen=True)
class Ours(Procedure):
    """rounds: the first of 2 x (topics + bands + 5) runs, later ones of half that; of `setting.runs` in these proportions.

    stop: expected improvement, in noises of a run, under which the search ends; 0 asks for all runs.
    """

    rounds: int = 1
    model: str = "ensemble"
    stop: float = 0.5
    name: ClassVar[str] = "ours"

    def sizes(self, setting: Setting) -> list[int]:
        """The first round has the 10 runs, repeats and baselines, that it needs, whatever is left for others."""
        later = self.rounds - 1
        if setting.runs is None:
            first = round_size(setting.topics, setting.bands)
            return [first, *[first // 2] * later]
        first = setting.runs if not later else min(setting.runs, max(round(2 * setting.runs / (later + 2)), LEAST_ROUND))
        whole, over = divmod(setting.runs - first, max(later, 1))
        return [first, *(size for number in range(later) if (size := whole + (number < over)))]

    def propose(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Round:
        sizes = self.sizes(setting)
        if seen.asked >= len(sizes):
            return Round.ended(len(setting.tokens), "all rounds are done")
        if seen.asked:
            return next_round(self.model, setting, seen, sizes[seen.asked], rng, self.stop)
        planned = plan_round(setting.natural, setting.topics, setting.bands, setting.caps, rng, sizes[0])
        return Round(np.array([each.weights for each in planned]), tuple(each.kind for each in planned))

    def answer(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Answer:
        surrogate = fitted(self.model, setting, seen)
        found = optimum(setting, surrogate, setting.risk, vouched_caps(setting, surrogate)).weights
        return Answer(found, surrogate.predict(found[None])[0], surrogate.deviation(found[None])[0], surrogate)
