"""Boosted trees by LightGBM, as RegMix and CLIMB fit them: they rank well, but have no slopes and one SD for all.

RegMix's own settings (leaves of 20 runs, 1,000 rounds at .01) rank its 1M test set at .944 from 64 runs, these at .972.
"""
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from cuvee.errors import missing_extra
from cuvee.kernels.fitted import Fitted
from cuvee.kernels.runs import Runs, anchor, repeats
from cuvee.kernels.scale import calibrated, scored_rows, spread

LEAF = 3  # runs in a leaf, at least
RUNS_PER_DOMAIN = 8  # fewer are worth a warning
_ROUNDS = 400
_SETTINGS = {"objective": "l2", "num_leaves": 8, "min_data_in_leaf": LEAF, "learning_rate": 0.03,
             "num_threads": 1, "deterministic": True, "force_row_wise": True, "seed": 0, "verbose": -1}


def installed() -> bool:
    return find_spec("lightgbm") is not None


def _can_split(runs: Runs) -> bool:
    """Whether a tree of two leaves can be grown without any one fold. runs: the scored ones"""
    sizes = np.bincount(runs.folds)
    return len(sizes) > 1 and len(runs.weights) - int(sizes.max()) >= 2 * LEAF


@dataclass(frozen=True)
class Trees(Fitted):
    """One task's trees, as LightGBM writes them. `noise` is the SD of a new run, from out-of-fold residuals."""

    text: str
    anchor: float
    spread: float
    noise: float
    out_of_fold: np.ndarray
    model: ClassVar[str] = "lightgbm"
    smooth: ClassVar[bool] = False

    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray, shared: None = None) -> "Trees":
        """scores: (runs,) of one task, NaN where a run has none"""
        rows = scored_rows(scores)
        scored = runs.take(rows)
        if not _can_split(scored):
            raise ValueError(f"lightgbm: {len(rows)} runs with a score cannot fill two leaves of {LEAF} once a fold is held out. "
                             "Train more runs, or use the model saturating.")
        weights, fold, values, whole = scored.weights, scored.folds, scores[rows], np.full(len(scores), np.nan)
        for held in range(fold.max() + 1):
            whole[rows[fold == held]] = _boost(weights[fold != held], values[fold != held]).predict(weights[fold == held], num_threads=1)
        return cls(_boost(weights, values).model_to_string(), anchor(values, repeats(weights)), spread(values),
                   calibrated(whole[rows] - values, 1.0), whole)

    @cached_property
    def _booster(self):
        return _lightgbm().Booster(model_str=self.text)

    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """(runs, domains) -> (runs,)"""
        return self._booster.predict(weights, num_threads=1)

    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """SD of a new run's score, the same everywhere. -> (runs,)"""
        return np.full(len(weights), self.noise)

    def held_deviation(self) -> np.ndarray:
        """The same, at each scored run. -> (scored runs,)"""
        return np.full(int(np.isfinite(self.out_of_fold).sum()), self.noise)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Zero: a step function is flat but for its steps. -> (runs, domains)"""
        return np.zeros_like(weights)

    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray:
        return np.zeros_like(weights)

    def redrawn(self, rng: np.random.Generator) -> "Trees":
        """Itself: what else the trees might have been is not known."""
        return self

    def to_dict(self) -> dict:
        """Plain JSON values."""
        return {"model": self.model, "text": self.text, "anchor": self.anchor, "spread": self.spread, "noise": self.noise,
                "out_of_fold": [None if np.isnan(v) else float(v) for v in self.out_of_fold]}

    @classmethod
    def from_dict(cls, fields: dict, runs: Runs) -> "Trees":
        values = {name: value for name, value in fields.items() if name != "model"}
        return cls(**{**values, "out_of_fold": np.array(values["out_of_fold"], float)})


def _lightgbm():
    try:
        import lightgbm
    except ImportError:
        raise missing_extra("lightgbm", "lightgbm") from None
    return lightgbm


def _boost(weights: np.ndarray, scores: np.ndarray):
    lightgbm = _lightgbm()
    data = lightgbm.Dataset(weights, scores, params={"min_data_in_leaf": LEAF, "verbose": -1})
    return lightgbm.train(_SETTINGS, data, _ROUNDS)
