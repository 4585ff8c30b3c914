"""Simulated epoching: the rows of each domain that a small run may see, so that it repeats them as the real run will.

A domain offers its first rows, in the ratio of the run's budget to the target budget. Because rows stand in hash order,
these are a random subset, and the subset of a smaller run lies inside that of a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cuvee.config import Recipe
from cuvee.errors import DataError
from cuvee.steps.store import Domain

LEAST_ROWS = 2  # of a subset; one row would be the same text at every step


class Subsets(NamedTuple):
    """rows: offered by each domain, int64 (domains,); floored: that is more than its share, bool (domains,)"""

    rows: np.ndarray
    floored: np.ndarray


def offered(domains: Sequence[Domain], budget: int, target: int, least: int) -> Subsets:
    """ceil(rows x min(1, budget / target)) of each domain, at least LEAST_ROWS and as many as hold `least` documents."""
    share = [min(domain.rows, -(-domain.rows * budget // target)) for domain in domains]
    floor = [_floor(domain, least) for domain in domains]
    rows = np.maximum(np.array(share, np.int64), np.array(floor, np.int64))
    return Subsets(rows, rows > np.array(share, np.int64))


def _floor(domain: Domain, least: int) -> int:
    """Rows that hold `least` documents of a domain's usual length, or all its rows."""
    return min(domain.rows, max(LEAST_ROWS, -(-domain.rows * least // max(domain.documents, 1))))


def check_floors(domains: Sequence[Domain], recipe: Recipe) -> float:
    """Share of natural tokens that lie in floored domains of the swarm; over swarm.max_floored is a DataError."""
    budget, config = recipe.budget, recipe.swarm
    floored = offered(domains, budget.proxy, budget.target, config.subset_documents).floored
    tokens = np.array([domain.tokens for domain in domains], np.float64)
    share = float(tokens[floored].sum() / max(tokens.sum(), 1))
    if share > config.max_floored:
        needed = least_budget(domains, budget.target, config.subset_documents, config.max_floored)
        names = [domain.name for domain, low in zip(domains, floored) if low]
        raise DataError(
            f"{len(names)} domains with {share:.1%} of the tokens ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''}) would offer a "
            f"proxy of {budget.proxy:,} tokens fewer than {config.subset_documents} documents or {LEAST_ROWS} rows, so that it could not "
            f"repeat them as the target of {budget.target:,} will; at most {config.max_floored:.1%} may. Set budget.proxy to {needed}, "
            "use fewer topics or bands, or lower swarm.subset_documents.")
    return share


def least_budget(domains: Sequence[Domain], target: int, least: int, max_floored: float) -> int:
    """The smallest proxy budget, tokens, with which at most `max_floored` of the tokens lie in floored domains."""
    needs = [(_unfloored(domain, target, least), domain.tokens) for domain in domains if domain.rows]
    allowed = max_floored * sum(tokens for _, tokens in needs)
    for need, tokens in sorted(needs, reverse=True):
        allowed -= tokens
        if allowed < 0:
            return need
    return 1


def _unfloored(domain: Domain, target: int, least: int) -> int:
    """The smallest budget whose share of a domain, rounded up, reaches the floor."""
    return (_floor(domain, least) - 1) * target // domain.rows + 1
