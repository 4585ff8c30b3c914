"""Two laws of one form, score = floor + exp(c + coefficients . features): saturating and log-linear.

They differ in the features, the bounds of the coefficients and the settings that cross-validation chooses.
Every feature depends on one domain, so slopes are elementwise and scattered to the domains by `owners`.
"""
from dataclasses import dataclass

import numpy as np

from cuvee.kernels.runs import Runs, repeats

_HARM_EPOCHS, _HARM_RUNS = 2.0, 5  # harm of repetition is fitted where this many runs passed these epochs
_GRAIN = 1e-3  # of the mean exposure: less than this no swarm resolves, and the slope of x^power at 0 stays finite


@dataclass(frozen=True)
class LogLinear:
    """features = weights, coefficients of either sign (Data Mixing Laws, arXiv 2403.16952; also Olmix)."""

    domains: int
    lowest = -np.inf
    blocks = ()
    factors = False

    @staticmethod
    def grid(runs: Runs) -> dict:
        return {}

    @staticmethod
    def of(settings: dict, runs: Runs) -> "LogLinear":
        return LogLinear(runs.weights.shape[1])

    @property
    def owners(self) -> np.ndarray:
        return np.arange(self.domains)

    def features(self, weights, exposure):
        return weights

    def slopes(self, exposure, rate):
        """d feature / d weight. -> (runs, domains)"""
        return np.ones_like(exposure)


@dataclass(frozen=True)
class Saturating:
    """Per domain -(1 - exp(-(speed x)^power)), then per harmed domain softplus(log(1 + x) - onset)^2; coefficients >= 0.

    x is the exposure: epochs, or weight / column mean without counts. (speed x)^power is counted from `grain` on.
    Where no domain is harmed the law is convex in the weights (power <= 1).
    """

    domains: int
    speed: float
    power: float
    onset: float
    grain: float
    harmed: np.ndarray
    lowest = 0.0
    blocks = (("speed", "power"), ("onset",))
    factors = True  # coefficients may be u_topic x v_band

    @staticmethod
    def grid(runs: Runs) -> dict:
        """Values to try; speeds are in units of 1 / mean exposure, so that they fit any budget."""
        unit = float(runs.exposure.mean())
        onsets = (np.log(3.0), np.log(5.0), np.log(9.0)) if harmed_domains(runs).size else (np.log(3.0),)
        return {"speed": tuple(s / unit for s in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)),
                "power": (0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0), "onset": tuple(float(o) for o in onsets)}

    @staticmethod
    def of(settings: dict, runs: Runs) -> "Saturating":
        return Saturating(runs.weights.shape[1], settings["speed"], settings["power"], settings["onset"],
                          _GRAIN * float(runs.exposure.mean()), harmed_domains(runs))

    @property
    def owners(self) -> np.ndarray:
        return np.concatenate([np.arange(self.domains), self.harmed])

    def _reach(self, exposure):
        return (self.speed * (exposure + self.grain)) ** self.power

    def features(self, weights, exposure):
        gain = np.expm1(self._reach(0.0) - self._reach(exposure))
        harm = np.logaddexp(0.0, np.log1p(exposure[:, self.harmed]) - self.onset) ** 2
        return np.concatenate([gain, harm], axis=1)

    def slopes(self, exposure, rate):
        """d feature / d weight, by d exposure / d weight = rate. -> (runs, domains + harmed)"""
        bend = self.power * self._reach(exposure) / (exposure + self.grain)
        gain = -bend * np.exp(self._reach(0.0) - self._reach(exposure))
        x = exposure[:, self.harmed]
        over = np.log1p(x) - self.onset
        harm = 2 * np.logaddexp(0.0, over) / (1 + np.exp(-over)) / (1 + x)
        return np.concatenate([gain, harm], axis=1) * rate[self.owners]


def harmed_domains(runs: Runs) -> np.ndarray:
    """Domains whose harm of repetition the runs can show. -> int64 (harmed,), empty without counts"""
    if runs.epochs is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero((runs.epochs > _HARM_EPOCHS).sum(axis=0) >= _HARM_RUNS)


def epoch_limits(runs: Runs) -> np.ndarray | None:
    """Cap in epochs that the runs can vouch for: the largest seen, inf where harm is fitted; None without counts.

    Here repeats of one mixture count once: they say nothing of how the score moves with epochs.  -> (domains,)
    """
    if runs.epochs is None:
        return None
    limits = runs.epochs.max(axis=0)
    distinct = np.unique(repeats(runs.weights), return_index=True)[1]
    limits[harmed_domains(runs.take(distinct))] = np.inf
    return limits
