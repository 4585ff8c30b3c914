"""Olmix (Chen et al. 2026, arXiv 2602.12237; OLMo 3's mixes): random runs, a log-linear law per task, the exact optimum.

Settings: allenai/olmix (generate/synthesize_mixture.py, fit/utils.py). The law, floor + exp(coefficients . weights), is
theirs; it is fitted by our solver, where they take the best of 300 starts of L-BFGS. The pull towards the natural shares
is the setting's (theirs: .1, in bits per byte), and so is the most epochs (theirs: 5).
"""
from typing import ClassVar

import numpy as np

from cuvee.kernels.procedures import draws
from cuvee.kernels.procedures.base import Answer, Procedure, Round, Seen, Setting
from cuvee.kernels.procedures.optimum import fitted, optimum

_PER_DOMAIN = 5  # runs; their swarm of 24 domains has 127
_LEAST = 2e-3  # smaller weights are 0


class Olmix(Procedure):
    name: ClassVar[str] = "olmix"

    def sizes(self, setting: Setting) -> list[int]:
        return [setting.runs or _PER_DOMAIN * len(setting.tokens)]

    def propose(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Round:
        return draws.only_round(setting, seen, self.sizes(setting)[0], _LEAST, rng)

    def answer(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Answer:
        surrogate = fitted("loglinear", setting, seen)
        found = optimum(setting, surrogate, 0.0, setting.caps).weights
        return Answer(found, surrogate.predict(found[None])[0], surrogate.deviation(found[None])[0], surrogate)
