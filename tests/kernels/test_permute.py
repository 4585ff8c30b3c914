from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.permute import derive, locate, permute, unpermute

PARTS, ROWS = np.array([5, 0, 2, 9]), np.array([3, 0, 40, 7])


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_permute_is_a_bijection(n, key):
    image = permute(np.arange(n), n, key)
    assert np.sort(image).tolist() == list(range(n))
    assert unpermute(image, n, key).tolist() == list(range(n))


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_unpermute_undoes_permute_on_large_domains(n, key, positions):
    positions = np.array(positions) % n
    image = permute(positions, n, key)
    assert image.min() >= 0 and image.max() < n
    assert unpermute(image, n, key).tolist() == positions.tolist()


def test_permute_golden_order():  # these bytes are a promise: a checkpoint of a stream is one integer
    assert permute(np.arange(10), 10, 42).tolist() == [6, 1, 8, 4, 5, 2, 0, 3, 7, 9]
    assert permute(np.arange(3), 10**12, derive(1, 2, 3)).tolist() == [870418492408, 593012879077, 979241694369]


def python_permute(x, n, key):
    """The same network in Python's own integers, from the papers' formulas."""
    mask = 2**64 - 1

    def mix(z):
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    bits = max(2, (n - 1).bit_length())
    low, high = bits // 2, bits - bits // 2
    a, b = x % 2**low, x >> low
    for r in range(24):
        other, width = (b, low) if r % 2 == 0 else (a, high)
        change = mix((key + r * 0x9E3779B97F4A7C15 + other) & mask) % 2**width
        a, b = (a ^ change, b) if r % 2 == 0 else (a, b ^ change)
    x = b << low | a
    return x if x < n else python_permute(x, n, key)


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 10**15), st.integers(0, 2**64 - 1), st.integers(0, 10**15))
def test_permute_against_plain_integers(n, key, x):
    assert permute(np.array([x % n]), n, key)[0] == python_permute(x % n, n, key)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_small_orders_are_uniform(n):  # chi-square over all n! orders, mean df and SD sqrt(2 df)
    orders = {order: i for i, order in enumerate(permutations(range(n)))}
    seen = np.zeros(len(orders))
    for i in range(20_000):
        seen[orders[tuple(permute(np.arange(n), n, derive(7, i)))]] += 1
    expected, freedom = seen.sum() / seen.size, seen.size - 1
    assert ((seen - expected) ** 2 / expected).sum() < freedom + 4 * (2 * freedom) ** 0.5


def test_derive_depends_on_order_and_count():
    keys = {derive(1, 2), derive(2, 1), derive(1), derive(1, 2, 0), derive(1, 0, 2), derive(0, 1, 2), derive(0, 2, 1)}
    assert len(keys) == 7


def test_locate_golden():
    places = locate(np.arange(16), PARTS, ROWS, seed=3)
    assert places.domain.tolist() == [3, 2, 3, 0, 3, 0, 0, 3, 2, 3, 3, 0, 3, 3, 3, 0]
    assert places.row.tolist() == [4, 26, 3, 2, 2, 0, 2, 5, 36, 1, 0, 1, 6, 3, 6, 1]


def test_shares_of_every_period_are_exact_and_orders_differ():
    domain = locate(np.arange(16 * 20), PARTS, ROWS, seed=3).domain.reshape(20, 16)
    for period in domain:
        assert np.bincount(period, minlength=4).tolist() == PARTS.tolist()
    assert len({tuple(period) for period in domain}) == 20


def test_every_epoch_is_a_permutation_and_two_differ():
    places = locate(np.arange(16 * 40), PARTS, ROWS, seed=3)
    rows = [places.row[(places.domain == 3) & (places.epoch == e)] for e in range(40)]
    assert all(np.sort(epoch).tolist() == list(range(7)) for epoch in rows)
    assert len({tuple(epoch) for epoch in rows}) > 35  # 40 of 5,040 orders


def test_any_position_equals_the_unbroken_pass():
    whole = locate(np.arange(5000), PARTS, ROWS, seed=9)
    for k in (0, 15, 16, 4321, 4999):
        assert [part[k] for part in whole] == [part[0] for part in locate(np.array([k]), PARTS, ROWS, seed=9)]
    rest = locate(np.arange(1234, 5000), PARTS, ROWS, seed=9)
    assert all((part[1234:] == same).all() for part, same in zip(whole, rest))


def test_two_hundred_domains_down_to_one_in_100_000():
    weights = np.geomspace(1e-5, 1, 200)
    parts = np.maximum(np.floor(weights / weights.sum() * 2**20), 10).astype(int)
    parts[-1] += 2**20 - parts.sum()
    for q in (0, 7):
        domain = locate(np.arange(q * 2**20, (q + 1) * 2**20), parts, np.full(200, 1000), seed=0).domain
        assert (np.bincount(domain, minlength=200) == parts).all()


def test_a_stage_goes_on_where_the_last_one_stopped():
    first = locate(np.arange(16 * 5), PARTS, ROWS, seed=5)
    then = locate(np.arange(19), np.array([0, 0, 1, 18]), ROWS, seed=5, drawn=5 * PARTS)
    for domain in (2, 3):
        pairs = [(e, r) for part in (first, then) for g, e, r in zip(*part) if g == domain]
        full = [pair for pair in sorted(pairs) if pair[0] < len(pairs) // ROWS[domain]]
        assert full == [(e, r) for e in range(len(pairs) // ROWS[domain]) for r in range(ROWS[domain])]


def test_periods_of_a_later_stage_have_orders_of_their_own():
    first, again, later = (locate(np.arange(16), PARTS, ROWS, seed=5, periods=periods) for periods in (0, 0, 5))
    sixth = locate(np.arange(80, 96), PARTS, ROWS, seed=5)
    assert first.domain.tolist() == again.domain.tolist() != later.domain.tolist() == sixth.domain.tolist()


def test_errors_name_the_domain_and_the_value():
    with pytest.raises(ValueError, match="domain 1 has 4 parts but 0 rows"):
        locate(np.arange(3), np.array([1, 4]), np.array([5, 0]), seed=0)
    with pytest.raises(ValueError, match=r"\[0, 5\).*5"):
        permute(np.array([5]), 5, 0)
    with pytest.raises(ValueError, match="-1"):
        locate(np.array([-1]), PARTS, ROWS, seed=0)
