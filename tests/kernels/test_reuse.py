import numpy as np
import pytest

from cuvee.kernels.reuse import NEW, carried, split, unions

PART_OF = np.array([0, 0, 1, NEW])  # the first old domain was split in two, the last domain is new
TOKENS = np.array([30.0, 10.0, 60.0, 100.0])


def test_split_golden():  # 30 : 10 inside the old domain
    weights, epochs = np.array([[0.4, 0.6], [1.0, 0.0]]), np.array([[2.0, 1.0], [5.0, 0.0]])
    np.testing.assert_allclose(split(weights, PART_OF, TOKENS), [[0.3, 0.1, 0.6, 0.0], [0.75, 0.25, 0.0, 0.0]])
    np.testing.assert_allclose(carried(epochs, PART_OF), [[2, 2, 1, 0], [5, 5, 0, 0]])


@pytest.mark.parametrize("seed", range(5))
def test_a_split_run_is_the_same_training(seed):
    """Weights sum to 1, and each part is passed over as often as the old domain was."""
    rng = np.random.default_rng(seed)
    part_of, tokens = rng.permutation(np.r_[np.arange(4), rng.integers(0, 4, 5)]), rng.uniform(1, 9, 9)
    weights, budget = rng.dirichlet(np.ones(4), 6), 50.0
    old_tokens = np.bincount(part_of, tokens)
    found = split(weights, part_of, tokens)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found * budget / tokens, carried(weights * budget / old_tokens, part_of))


def test_an_old_domain_that_is_gone_is_an_error():
    with pytest.raises(ValueError, match="old domain number 1 has weight in 1 runs"):
        split(np.array([[0.4, 0.6]]), np.array([0, 0, 0, NEW]), TOKENS)


def test_unions_are_found_and_mixed_domains_are_named():
    names, shared = (["a", "b", "c", "d"], ["x", "y"]), np.array([[99, 1, 0], [50, 0, 0], [0, 300, 0], [0, 1, 200]])
    assert unions(shared, np.array([1, 0]), names, 0.98).tolist() == PART_OF.tolist()
    with pytest.raises(ValueError, match=r"1 of 4 domains are no part of one old domain, a the least: 60% x, 40% y"):
        unions(np.array([[60, 40, 0], *shared[1:]]), np.zeros(2), names, 0.98)
    with pytest.raises(ValueError, match=r"1 of 2 old domains are no unions of domains of now; the parts of x hold 50% of it"):
        unions(shared, np.array([149, 0]), names, 0.98)
