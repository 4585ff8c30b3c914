"""A search in which some domains keep their relative weights: together they are one virtual domain.

What a release has settled stays as it is, and only the domains that changed, and how much the rest gets, are open
("mixture reuse" of Olmix, arXiv 2602.12237).
"""
from dataclasses import dataclass

import numpy as np

from cuvee.kernels.groups import Groups
from cuvee.kernels.search import Objective


@dataclass(frozen=True)
class Frozen:
    """spread: (free, domains), each row sums to 1; a mixture is free @ spread. The last row is the virtual domain."""

    spread: np.ndarray

    @staticmethod
    def of(relative: np.ndarray, kept: np.ndarray) -> "Frozen":
        """relative: (domains,) weights >= 0, read where `kept` (bool); their sum there must be over 0."""
        held = np.where(kept, relative, 0.0)
        if not (held >= 0).all() or held.sum() <= 0:
            raise ValueError(f"frozen domains need weights >= 0 of a sum over 0; got {held.sum():.3g} over {int(kept.sum())} domains.")
        return Frozen(np.vstack([np.eye(len(kept))[~kept], held / held.sum()]))

    def mixtures(self, free: np.ndarray) -> np.ndarray:
        """(..., free) -> (..., domains)"""
        return free @ self.spread

    def nearest(self, weights: np.ndarray) -> np.ndarray:
        """Free weights of mixtures: what is open as it is, and what the frozen domains hold together. (..., domains) -> (..., free)"""
        single = (self.spread[:-1] > 0).argmax(axis=1)
        return np.concatenate([weights[..., single], 1 - weights[..., single].sum(axis=-1, keepdims=True)], axis=-1)

    def caps(self, caps: np.ndarray) -> np.ndarray:
        """The virtual domain may hold what its tightest member allows. (domains,) -> (free,)"""
        held = self.spread > 0
        return np.minimum(np.min(np.where(held, caps / np.where(held, self.spread, 1.0), np.inf), axis=1), 1.0)

    def groups(self, groups: Groups) -> Groups:
        """Every group must hold all of the virtual domain or nothing of it."""
        inside = groups.members @ self.spread.T  # share of each free domain that lies in each group
        split = np.flatnonzero((inside > 1e-12) & (inside < 1 - 1e-12))
        if len(split):
            raise ValueError(f"group number {split[0] // inside.shape[1] + 1} holds {inside.ravel()[split[0]]:.1%} of the frozen domains. "
                             "A group must hold all of them or none, since they keep their shares.")
        return groups._replace(members=inside > 0.5)

    def objective(self, objective: Objective) -> Objective:
        """The same function of the free weights."""
        def reduced(free: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = objective(self.mixtures(free))
            return value, self.spread @ gradient

        return reduced
