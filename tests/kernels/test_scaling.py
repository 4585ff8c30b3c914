from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.kernels import scaling
from cuvee.kernels.scaling import Curve, Points

COMPUTE = np.array([1e12, 5e12, 2e13])


def points(curve: Curve, error: float, compute: np.ndarray = COMPUTE) -> Points:
    return Points(compute, np.array([curve.loss(each) for each in compute]), np.full(len(compute), error))


@given(st.floats(0.2, 2), st.floats(0.3, 3), st.floats(0.05, 0.6))
def test_three_exact_points_give_back_their_curve(floor, scale, exponent):
    true = Curve(floor, scale, exponent, 1e12)
    found, floored = scaling.choose(points(true, 1e-6))
    assert floored and found.floor == pytest.approx(floor, abs=2e-2) and found.exponent == pytest.approx(exponent, rel=2e-2)
    assert [found.loss(each) for each in COMPUTE] == pytest.approx([true.loss(each) for each in COMPUTE], abs=1e-5)


def test_a_floor_that_the_errors_do_not_carry_is_left_out():
    true = Curve(1.0, 1.0, 0.2, 1e12)
    bend = scaling.misfit(scaling.fit(points(true, 1.0), False), points(true, 1.0)) ** 0.5  # of the middle, in errors of 1
    assert [scaling.choose(points(true, bend / errors))[1] for errors in (1.5, 2.5)] == [False, True]
    assert scaling.choose(points(Curve(0.0, 3.0, 0.2, 1e12), 1e-4))[1] is False  # a power law has none to find


def test_gain_golden():  # loss 4 / sqrt(compute): half the loss takes four times the compute, 2.5 / 2 of it 0.64 times
    curve = Curve(0.0, 4.0, 0.5, 1.0)
    assert [curve.gain(4.0, each) for each in (-1.0, 0.0, 0.5)] == pytest.approx([4.0, 1.0, 0.64])
    floored = Curve(1.0, 4.0, 0.5, 1.0)  # 3 at 4; of the 2 over the floor, half
    assert floored.gain(4.0, -1.0) == pytest.approx(4.0) and floored.gain(4.0, -2.0) == np.inf


def test_no_curve_from_two_sizes_or_where_compute_does_not_help():
    true = Curve(1.0, 1.0, 0.2, 1e12)
    assert scaling.choose(points(true, 1e-3, COMPUTE[:2])) is None
    assert scaling.choose(Points(COMPUTE, np.array([2.0, 2.1, 2.2]), np.full(3, 0.01))) is None


def test_more_sizes_than_numbers_are_fitted_by_their_errors():
    compute, true = np.geomspace(1e12, 1e14, 6), Curve(0.8, 1.5, 0.25, 1e12)
    exact = points(true, 1e-3, compute)
    off = exact._replace(loss=exact.loss + np.eye(6)[2], error=exact.error + 1e6 * np.eye(6)[2])  # wrong by 1, and said to be
    assert scaling.fit(off, True).exponent == pytest.approx(0.25, rel=1e-3)


def test_the_pooled_error_is_one_sd_over_the_root_of_each_size():
    found = scaling.pooled_error([np.array([1.0, 3.0]), np.array([5.0, 6.0, 7.0, 6.0])])
    assert found == pytest.approx(np.sqrt((2 + 2) / 4 / np.array([2, 4])))


def test_the_interval_of_a_gain_holds_the_true_one():
    """90 % nominal, from scores of three seeds at three sizes: at least 80 % of 60 made studies."""
    rng, true, hits = np.random.default_rng(5), Curve(0.0, 3.0, 0.15, 1e12), 0
    factor = true.gain(COMPUTE[-1], -0.05)
    for _ in range(60):
        scores = [true.loss(each) + 0.01 * rng.standard_normal(3) for each in COMPUTE]
        gaps = -0.05 + 0.005 * rng.standard_normal(3)
        study = Points(COMPUTE, np.array([each.mean() for each in scores]), scaling.pooled_error(scores))
        curves = scaling.redrawn(study, False, 60, rng)
        low, high = scaling.gain_interval(curves, COMPUTE[-1], gaps.mean(), gaps.std(ddof=1) / 3**0.5, 2, rng)
        hits += low <= factor <= high
    assert 48 <= hits
