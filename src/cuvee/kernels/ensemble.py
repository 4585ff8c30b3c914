"""The mean of several models, each weighed by how well it predicts runs out of fold."""
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cuvee.kernels.exponential import LogLinearModel, SaturatingModel
from cuvee.kernels.fitted import Fitted
from cuvee.kernels.gaussian import GaussianProcess
from cuvee.kernels.runs import Runs, anchor, repeats
from cuvee.kernels.scale import calibrated, scored_rows, spread

MEMBERS = (SaturatingModel, LogLinearModel, GaussianProcess)


@dataclass(frozen=True)
class Ensemble(Fitted):
    """One task's models and their shares (members,), which sum to 1.

    share ~ 1 / (mean squared error out of fold)^2. The SD is the shares' mean of the members' SDs, times `widening`.
    """

    members: tuple
    shares: np.ndarray
    anchor: float
    spread: float
    widening: float
    out_of_fold: np.ndarray
    model: ClassVar[str] = "ensemble"
    smooth: ClassVar[bool] = True

    @staticmethod
    def shared(runs: Runs, scores: np.ndarray) -> dict:
        """What each member's tasks share, by its name. scores: (runs, tasks)"""
        return {member.model: member.shared(runs, scores) for member in MEMBERS}

    @classmethod
    def fit(cls, runs: Runs, scores: np.ndarray, shared: dict | None = None) -> "Ensemble":
        """scores: (runs,) of one task, NaN where a run has none"""
        rows, shared = scored_rows(scores), shared or {}
        members = tuple(member.fit(runs, scores, shared.get(member.model)) for member in MEMBERS)
        held = np.array([member.out_of_fold for member in members])
        shares = weigh(held[:, rows] - scores[rows])
        draft = cls(members, shares, anchor(scores[rows], repeats(runs.weights[rows])), spread(scores[rows]), 1.0, shares @ held)
        return replace(draft, widening=calibrated(draft.out_of_fold[rows] - scores[rows], draft.held_deviation()))

    def _mean(self, method: str, *given) -> np.ndarray:
        return sum(share * getattr(member, method)(*given) for share, member in zip(self.shares, self.members))

    def predict(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """(runs, domains) -> (runs,)"""
        return self._mean("predict", weights, epochs)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """d predict / d weights. -> (runs, domains)"""
        return self._mean("gradient", weights)

    def deviation(self, weights: np.ndarray, epochs: np.ndarray | None = None) -> np.ndarray:
        """SD of a new run's score. -> (runs,)"""
        return self.widening * self._mean("deviation", weights, epochs)

    def held_deviation(self) -> np.ndarray:
        """`deviation` at each scored run as if it had not been fitted. -> (scored runs,)"""
        return self.widening * self._mean("held_deviation")

    def deviation_gradient(self, weights: np.ndarray) -> np.ndarray:
        """d deviation / d weights. -> (runs, domains)"""
        return self.widening * self._mean("deviation_gradient", weights)

    def contrasts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Those of its first member that has some, the saturating law."""
        return next((found for member in self.members if (found := member.contrasts()) is not None), None)

    def redrawn(self, rng: np.random.Generator) -> "Ensemble":
        """A fit that might have been: every member drawn anew."""
        return replace(self, members=tuple(member.redrawn(rng) for member in self.members))

    def to_dict(self) -> dict:
        """Plain JSON values; the runs are kept apart, once for all tasks."""
        return {"model": self.model, "shares": self.shares.tolist(), "anchor": self.anchor, "spread": self.spread, "widening": self.widening,
                "out_of_fold": [None if np.isnan(v) else float(v) for v in self.out_of_fold],
                "members": [member.to_dict() for member in self.members]}

    @classmethod
    def from_dict(cls, fields: dict, runs: Runs) -> "Ensemble":
        known = {member.model: member for member in MEMBERS}
        members = tuple(known[each["model"]].from_dict(each, runs) for each in fields["members"])
        return cls(members, np.array(fields["shares"], float), fields["anchor"], fields["spread"], fields["widening"],
                   np.array(fields["out_of_fold"], float))


def weigh(residual: np.ndarray) -> np.ndarray:
    """1 / (mean squared residual)^2, made to sum to 1; alike where none errs. (members, runs) -> (members,)"""
    square = (residual ** 2).mean(axis=1)
    nearness = (np.maximum(square.min(), 1e-300) / np.maximum(square, 1e-300)) ** 2
    return nearness / nearness.sum()
