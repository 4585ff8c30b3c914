"""Old runs on new domains: where each old domain is a union of new ones, a run of then is a run of now.

A draw from an old domain is a draw from its parts in their natural shares, and passes over the old domain are passes
over each part; so nothing is assumed, unlike for a mixture that would split an old domain otherwise.
"""
from collections.abc import Sequence

import numpy as np

NEW = -1  # in place of an old domain: its texts were in none


def split(weights: np.ndarray, part_of: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Old weights on the new domains, each old domain's shared among its parts by tokens.

    weights: (runs, old); part_of: old domain of each new one, or NEW, int64 (domains,); tokens: (domains,)  ->  (runs, domains)
    """
    inside = part_of != NEW
    whole = np.bincount(part_of[inside], tokens[inside], weights.shape[1])
    lost = np.flatnonzero((weights > 0).any(axis=0) & (whole <= 0))
    if len(lost):
        raise ValueError(f"old domain number {lost[0]} has weight in {int((weights[:, lost[0]] > 0).sum())} runs, and no domain of now is part of it.")
    return weights[:, part_of] * np.where(inside, tokens / np.where(inside, whole[part_of], 1.0), 0.0)


def carried(epochs: np.ndarray, part_of: np.ndarray) -> np.ndarray:
    """Passes over each new domain: those over the old one that it is part of. (runs, old) -> (runs, domains)"""
    return np.where(part_of != NEW, epochs[:, part_of], 0.0)


def unions(shared: np.ndarray, lost: np.ndarray, names: tuple[Sequence[str], Sequence[str]], purity: float) -> np.ndarray:
    """Which old domain each new one is part of, where all old ones are unions of new ones; else a ValueError that names the worst.

    A domain must lie in one old domain, or outside of all, by at least `purity` of its documents; the parts of an old
    domain must hold that much of it. shared: documents in both, (domains, old + 1), the last column in no old domain;
    lost: documents of old domains that are in none now, (old,); names: of domains and of old domains  ->  int64 (domains,)
    """
    part_of = np.where(shared.argmax(axis=1) == shared.shape[1] - 1, NEW, shared.argmax(axis=1))
    inside = _share(shared.max(axis=1), shared.sum(axis=1))
    if (inside < purity).any():
        worst = int(inside.argmin())
        parts = [f"{count / shared[worst].sum():.0%} {name}" for name, count in zip([*names[1], "new texts"], shared[worst]) if count]
        raise ValueError(f"{int((inside < purity).sum())} of {len(inside)} domains are no part of one old domain, {names[0][worst]} the least: {', '.join(parts)}.")
    old = np.arange(len(lost))
    held = (shared[:, :-1] * (part_of[:, None] == old)).sum(axis=0)
    kept = _share(held, shared[:, :-1].sum(axis=0) + lost)
    if (kept < purity).any():
        worst = int(kept.argmin())
        raise ValueError(f"{int((kept < purity).sum())} of {len(kept)} old domains are no unions of domains of now; the parts of "
                         f"{names[1][worst]} hold {kept[worst]:.0%} of it.")
    return part_of


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """1 where there is nothing to share."""
    return np.divide(part, whole, out=np.ones(len(whole)), where=whole > 0)
