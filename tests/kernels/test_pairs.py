from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.minhash import BANDS, MINIMA, ROWS, sort_keys
from cuvee.kernels.pairs import (
    FIRST,
    NEAR,
    SMALL,
    candidate_blocks,
    candidate_pairs,
    decide,
    group_offsets,
    group_pairs,
)

sizes = st.lists(st.integers(1, 12) | st.integers(63, 66) | st.integers(67, 130), max_size=5)


def reference_pairs(keys: list[int]) -> set[tuple[int, int]]:
    """The rule in sets: rows 0.. in priority order."""
    if len(keys) <= 64:
        return set(combinations(range(len(keys)), 2))
    ranked = sorted(range(len(keys)), key=lambda row: (keys[row], row))
    near = {tuple(sorted((ranked[i], ranked[j]))) for i in range(len(keys)) for j in range(max(0, i - 16), i)}
    return near | {(first, row) for row in range(len(keys)) for first in range(min(16, row))}


def drawn_keys(data, rows: int) -> np.ndarray:
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    return rng.integers(0, data.draw(st.sampled_from([2, 40, 2**64])), rows, np.uint64, endpoint=False)


@given(sizes, st.data())
@settings(deadline=None)
def test_pairs_of_many_groups_are_those_of_the_rule(sizes, data):
    groups = np.cumsum([0, *sizes])
    keys = drawn_keys(data, groups[-1])
    found = candidate_pairs(groups, keys)
    pairs = list(zip(found.left.tolist(), found.right.tolist()))
    spans = list(zip(groups[:-1].tolist(), groups[1:].tolist()))
    expected = {(a + base, b + base) for base, end in spans for a, b in reference_pairs(keys[base:end].tolist())}
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected
    assert found.left_out == sum(size * (size - 1) // 2 for size in sizes) - len(expected)


@given(sizes, st.integers(1, 70), st.data())
@settings(deadline=None)
def test_blocks_give_the_same_pairs(sizes, rows, data):
    groups = np.cumsum([0, *sizes])
    keys = drawn_keys(data, groups[-1])
    whole, blocks = candidate_pairs(groups, keys), list(candidate_blocks(groups, keys, rows))
    for side in ("left", "right"):
        joined = np.concatenate([getattr(block, side) for block in blocks] or [np.zeros(0, np.int64)])
        assert np.array_equal(joined, getattr(whole, side))
    assert sum(block.left_out for block in blocks) == whole.left_out


@pytest.mark.parametrize("rows", [SMALL + 1, 1000, 200_000])
def test_a_huge_group_gives_pairs_in_proportion_to_its_rows(rows):
    found = group_pairs(np.random.default_rng(0).integers(0, 2**64, rows, np.uint64))
    assert found.left.size <= (FIRST + NEAR) * rows
    assert found.left.size + found.left_out == rows * (rows - 1) // 2


def test_alike_signatures_meet_in_a_huge_group():
    rng = np.random.default_rng(0)
    minima = rng.integers(0, 2**32, (5000, MINIMA), np.uint32)
    minima[:, :ROWS] = 7  # all in one group of the first band
    minima[4000, ROWS:] = minima[900, ROWS:]
    found = group_pairs(sort_keys(minima)[:, 0])
    assert (900, 4000) in set(zip(found.left.tolist(), found.right.tolist()))
    assert sort_keys(minima).shape == (5000, BANDS)


def test_groups_are_runs_of_equal_keys():
    assert group_offsets(np.array([3, 3, 5, 9, 9, 9], np.uint64)).tolist() == [0, 2, 3, 6]
    assert group_offsets(np.array([], np.uint64)).tolist() == [0]


@given(st.integers(1, 12), st.data())
@settings(deadline=None)
def test_decide_is_the_greedy_choice(documents, data):
    order = data.draw(st.permutations(range(documents)))
    edge = st.tuples(st.integers(0, documents - 1), st.integers(0, documents - 1)).filter(lambda pair: pair[0] != pair[1])
    edges = data.draw(st.lists(edge, max_size=30)) if documents > 1 else []
    expected, kept = [-1] * documents, []
    for document in order:
        keepers = [k for k in kept if (k, document) in edges or (document, k) in edges]
        expected[document] = keepers[0] if keepers else -1
        kept += [] if keepers else [document]
    left, right = np.array(edges, np.int64).reshape(-1, 2).T
    assert decide(np.array(order), left, right).tolist() == expected


def test_decide_by_hand():  # a chain 0-1-2-3 and an edge 1-4: 1 falls to 0, so 2 and 4 stand, and 3 falls to 2
    left, right = np.array([1, 2, 2, 4]), np.array([0, 1, 3, 1])
    assert decide(np.arange(5), left, right).tolist() == [-1, 0, -1, 2, -1]
    assert decide(np.array([1, 4, 3, 2, 0]), left, right).tolist() == [1, -1, 1, -1, 1]


@pytest.mark.parametrize(
    "order, edge, message",
    [([0, 0, 2], (0, 1), "1 of 3 are missing, the first is 1"), ([0, 1], (0, 2), "0 to 1; got 2 to 2"),
     ([1, 0], (1, 1), "document 1 with itself")],
)  # fmt: skip
def test_a_wrong_order_or_edge_is_an_error_that_names_it(order, edge, message):
    with pytest.raises(ValueError, match=message):
        decide(np.array(order), np.array(edge[:1]), np.array(edge[1:]))
