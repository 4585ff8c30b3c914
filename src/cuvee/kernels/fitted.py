"""What every surrogate model offers: the interface that callers go through."""
from typing import Any, ClassVar, Protocol

import numpy as np

from cuvee.kernels.runs import Runs


class Fitted(Protocol):
    """One task's surrogate. Scores are compared as z = (score - anchor) / spread, spread = SD over the swarm.

    smooth: whether it has slopes that lead anywhere.
    """

    model: ClassVar[str]
    anchor: float
    spread: float
    out_of_fold: np.ndarray  # (runs,) inner cross-validation at the chosen settings; NaN where a run has no score

    @staticmethod
    def shared(runs: Runs, scores: np.ndarray) -> Any:
        """What all tasks of a swarm have in common, for `fit`; nothing, unless a model has such. scores: (runs, tasks)"""
        return None

    def contrasts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """What the runs and what the ridge alone say of the domains' effects, see `Exponential`; None where nothing is known of it."""
        return None

    @property
    def smooth(self) -> bool: ...
    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray, shared: Any = None) -> "Fitted": ...
    @classmethod
    def from_dict(cls, fields: dict, runs: Runs) -> "Fitted": ...
    def to_dict(self) -> dict: ...
    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray: ...
    def gradient(self, weights: np.ndarray) -> np.ndarray: ...
    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray: ...
    def held_deviation(self) -> np.ndarray: ...
    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray: ...
    def redrawn(self, rng: np.random.Generator) -> "Fitted": ...
