from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cuvee.kernels.noise import noise, predictability, resolvable

EIGHT = np.array([0, 0, 0, 0, 0, 1, 1, 1])  # five of one mixture, three of another: the repeats of a first round


def test_noise_golden():  # 1 3 5 3 3: 8 squares over 4; 0 6 3: 18 over 2; a run alone says nothing
    found = noise(np.array([1.0, 3, 5, 3, 3, 0, 6, 3, 99]), np.append(EIGHT, 2))
    assert found.sd == pytest.approx(np.sqrt(26 / 6)) and found.freedom == 6
    assert found.ratio == pytest.approx(np.sqrt((18 / 2) / (8 / 4)))
    assert found.p == pytest.approx(2 * stats.f.sf(4.5, 2, 4))
    assert noise(np.arange(3.0), np.arange(3)) is None


def test_noise_with_one_repeated_mixture_compares_nothing():
    assert noise(np.array([1.0, 3, 8]), np.array([4, 4, 1])) == (pytest.approx(np.sqrt(2)), 1, None, None)
    assert noise(np.array([2.0, 2, 2, 1, 3]), np.array([0, 0, 0, 1, 1])).p is None  # no spread to compare with


def test_equal_noise_is_called_different_as_often_as_p_says():
    rng = np.random.default_rng(0)
    p = np.array([noise(rng.normal(size=8), EIGHT).p for _ in range(2_000)])
    assert stats.kstest(p, "uniform").pvalue > 0.01
    louder = np.array([noise(rng.normal(size=8) * np.where(EIGHT, 30.0, 1.0), EIGHT).p for _ in range(200)])
    assert (louder < 0.05).mean() > 0.9


@pytest.mark.parametrize("runs", [1, 3])
def test_two_means_of_one_mixture_differ_by_more_than_is_resolvable_in_one_of_twenty(runs):
    rng = np.random.default_rng(1)
    repeats, pairs = rng.normal(size=(20_000, 8)), rng.normal(size=(20_000, 2, runs)).mean(axis=2)
    sd = np.sqrt((repeats[:, :5].var(axis=1) * 5 + repeats[:, 5:].var(axis=1) * 3) / 6)
    passed = np.abs(pairs[:, 0] - pairs[:, 1]) > sd * resolvable(1.0, 6, runs)
    assert passed.mean() == pytest.approx(0.05, abs=0.006)


def test_predictability_is_over_distinct_mixtures():
    groups, full = np.array([0, 0, 1, 2, 3, 4]), np.array([9.0, 1, 2, 3, 4, 6])  # the mean of the first is 5
    half = np.array([1.0, 9, 20, 30, 40, 60])  # and 5 at half: lowest, where the end has it next to last
    assert predictability(half, full, groups) == pytest.approx(stats.spearmanr([5, 20, 30, 40, 60], [5, 2, 3, 4, 6])[0])
    half[2] = np.nan
    assert predictability(half, full, groups) is None
