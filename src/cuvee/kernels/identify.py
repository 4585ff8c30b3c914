"""Which domains a swarm cannot tell apart: where a fit's own ridge, not the runs, says how their effects differ."""
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from cuvee.kernels.fitted import Fitted

APART = 0.3  # told of a difference, at least; two domains that move together at five to one are told .3
_HEARD = 0.1  # told of a domain's own effect, at least
_POINT = 0.01  # of weight
_SHOWN, _NAMES = 3, 8  # groups, and names in one, that are said


class Blurred(NamedTuple):
    """Domains (numbers) of which no two are told apart. told: of their differences, at most; error: SD of the gain from moving
    one point of weight (.01) from one to the other, at most, in SDs of the swarm.
    """

    domains: tuple[int, ...]
    told: float
    error: float


class Identified(NamedTuple):
    """blurred: groups of domains; silent: domains (numbers) whose own effect the swarm says nothing of; both by number."""

    blurred: tuple[Blurred, ...]
    silent: tuple[int, ...]


def identify(fits: Sequence[Fitted], importance: np.ndarray) -> Identified | None:
    """What is told of a difference is 1 - its variance by runs and ridge / by the ridge alone, the mean over tasks that count.

    Slopes are taken at the mean mixture of the runs. None where no model has such variances (trees, Gaussian process).
    importance: (tasks,)
    """
    told, heard, error, total = 0.0, 0.0, 0.0, 0.0
    for fitted, share in zip(fits, importance, strict=True):
        found = fitted.contrasts() if share > 0 and fitted.spread > 0 else None
        if found is None:
            continue
        known, alone, slope = found
        told = told + share * (1 - _ratio(_differences(known), _differences(alone)))
        heard = heard + share * (1 - _ratio(np.diag(known), np.diag(alone)))
        error = error + share * _POINT / fitted.spread * np.sqrt(_differences(known * np.outer(slope, slope)))
        total += share
    if total == 0:
        return None
    told, heard, error = told / total, heard / total, error / total
    loud = np.flatnonzero(heard >= _HEARD)
    return Identified(tuple(_groups(told, error, loud)), tuple(np.flatnonzero(heard < _HEARD).tolist()))


def _differences(covariance: np.ndarray) -> np.ndarray:
    """Variance of the difference of each pair. (n, n) -> (n, n)"""
    own = np.diag(covariance)
    return np.maximum(own[:, None] + own - 2 * covariance, 0.0)


def _ratio(known: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """known / alone, at most 1; 0 where the form of the law leaves no difference."""
    return np.clip(np.divide(known, alone, out=np.zeros_like(known), where=alone > 1e-12 * alone.max()), 0.0, 1.0)


def _groups(told: np.ndarray, error: np.ndarray, among: np.ndarray) -> list[Blurred]:
    """Groups in which no pair is told apart (complete linkage), that of the largest error first."""
    if len(among) < 2:
        return []
    near = told[np.ix_(among, among)]
    np.fill_diagonal(near, 0.0)
    label = fcluster(linkage(squareform((near + near.T) / 2, checks=False), "complete"), APART, "distance")
    groups = [among[label == each] for each in np.unique(label)]
    found = [Blurred(tuple(group.tolist()), *(float(values[np.ix_(group, group)].max()) for values in (_apart(told), error)))
             for group in groups if len(group) > 1]
    return sorted(found, key=lambda each: (-each.error, each.domains))


def _apart(told: np.ndarray) -> np.ndarray:
    """Nothing is told of a domain and itself."""
    return told * (1 - np.eye(len(told)))


def named(found: Identified | None, domains: Sequence[str]) -> dict | None:
    """With names, as JSON values."""
    return found and {"blurred": [{"domains": [domains[each] for each in group.domains], "told": group.told, "error": group.error} for group in found.blurred],
                      "silent": [domains[each] for each in found.silent]}


def remarks(found: dict | None) -> list[str]:
    """What a person should know; found: of `named`."""
    if found is None:
        return []
    said = [f"the runs do not tell apart {_listed(group['domains'])}: what moving a point of weight between them does is known to "
            f"{group['error']:.2g} SDs of the swarm" for group in found["blurred"][:_SHOWN]]
    if len(found["blurred"]) > _SHOWN:
        said.append(f"{len(found['blurred']) - _SHOWN} more groups of domains are not told apart")
    return said + ([f"the runs say next to nothing of {_listed(found['silent'])}"] if found["silent"] else [])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
