from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.config import Budget, Recipe
from cuvee.errors import DataError
from cuvee.steps.proxies.subsets import check_floors, least_budget, offered
from cuvee.steps.store import Domain

sizes = st.lists(st.tuples(st.integers(1, 3_000), st.integers(1, 900)), min_size=1, max_size=8)


def domain(rows: int, documents: int, name: str = "t00.q1") -> Domain:
    return Domain(name, "", "", rows, rows * 16, documents, 0, 0)


def recipe(proxy: int, target: int = 1_000_000, max_floored: float = 0.05) -> Recipe:
    return Recipe(work="w", sources=[{"name": "a", "path": "a"}], budget=Budget(target=target, proxy=proxy),
                  swarm={"max_floored": max_floored, "subset_documents": 64})


def test_a_domain_offers_its_share_or_what_64_documents_need():
    domains = [domain(1_000, 500), domain(1_000, 10_000), domain(100, 80), domain(1, 1), domain(0, 0)]
    found = offered(domains, 30, 1_000, 64)
    # 3 % of rows are 30, 30, 3, 1, 0; 64 documents need 128 and 6.4 rows, 80 of 100, and all of one row
    assert found.rows.tolist() == [128, 30, 80, 1, 0]
    assert found.floored.tolist() == [True, False, True, False, False]


def test_shares_are_exact_and_nested():
    domains = [domain(30, 10**6)]
    rows = [int(offered(domains, budget, 10, 1).rows[0]) for budget in range(1, 13)]
    assert rows == [3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 30, 30]


@given(sizes, st.integers(1, 10**7), st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_the_budget_that_the_error_names_is_the_smallest_that_passes(sizes, target, max_floored):
    domains = [domain(*each) for each in sizes]
    needed = least_budget(domains, target, 64, max_floored)
    assert check_floors(domains, recipe(needed, target, max_floored)) <= max_floored
    if needed > 1:
        with pytest.raises(DataError, match=f"Set budget.proxy to {needed},"):
            check_floors(domains, recipe(needed - 1, target, max_floored))
