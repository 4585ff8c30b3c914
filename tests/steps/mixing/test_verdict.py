from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cuvee.steps.mixing import verdict
from cuvee.steps.mixing.verdict import judge, optimism, paired

BETTER, WORSE, NEITHER = ({"pairs": 3, "difference": middle, "se": 0.01, "low": middle - 0.043, "high": middle + 0.043} for middle in (-0.1, 0.1, 0.0))
FIRED, KEPT = ({"fires": fires, "predicted": -0.5, "predicted_se": 0.01, "measured": -0.1, "measured_se": 0.01, "optimism": 0.4, "se": 0.014}
               for fires in (True, False))


def sizes(*gaps, risen=None):
    """The proxy's size, then larger ones; risen: the protected task's difference at the last."""
    found = [{"depth": 2 + at, "tokens": 1_000 * (at + 1), "larger": at > 0, "proposal": gap, "over_unimax": None, "failed": [], "tasks": []}
             for at, gap in enumerate(gaps)]
    found[-1]["tasks"] = [{"name": "maths", "protected": 0.01, "regressed": verdict.passes(risen, 0.01), "proposal": risen}]
    return found


def test_the_interval_is_that_of_the_paired_t_test():
    rng = np.random.default_rng(3)
    base, other = rng.normal(2, 1, 5), rng.normal(1, 1, 5)
    known, found = stats.ttest_rel(other, base), paired(base, other)
    assert [found["low"], found["high"]] == pytest.approx([*known.confidence_interval(0.95)])
    assert found["difference"] / found["se"] == pytest.approx(known.statistic) and found["pairs"] == 5


def test_only_pairs_of_which_both_finished_count():
    base, other = np.array([1.0, np.nan, 3.0, 4.0]), np.array([0.5, 1.0, np.nan, 3.0])
    assert paired(base, other)["pairs"] == 2 and paired(base, other)["difference"] == -0.75
    assert paired(base[:3], other[:3]) is None


@pytest.mark.parametrize("gaps, word", [
    ((NEITHER, NEITHER, BETTER), "ship"), ((BETTER, BETTER, WORSE), "hold"), ((BETTER, BETTER, NEITHER), "no difference"),
    ((NEITHER, WORSE, BETTER), "hold"), ((WORSE, NEITHER, BETTER), "hold"),  # a contradiction, also with the proxy's size
    ((BETTER, NEITHER, WORSE), "hold"), ((BETTER, WORSE, NEITHER), "hold"), ((NEITHER, NEITHER, WORSE), "hold"),
    ((BETTER, BETTER, None), "ship"), ((None, None, BETTER), "ship"), ((BETTER, None, None), "hold")])  # a size without pairs says nothing
def test_the_largest_size_decides_unless_another_contradicts(gaps, word):
    assert judge(sizes(*gaps), KEPT)[0] == judge(sizes(*gaps), None)[0] == word


@pytest.mark.parametrize("gaps, word", [((BETTER, BETTER, BETTER), "ship"), ((NEITHER, BETTER, BETTER), "ship"), ((BETTER, NEITHER, BETTER), "hold"),
                                        ((BETTER, BETTER, NEITHER), "no difference"), ((BETTER, None, BETTER), "ship")])
def test_a_prediction_that_was_too_good_needs_a_gain_at_every_larger_size(gaps, word):
    found, why = judge(sizes(*gaps), FIRED)
    assert found == word and ("too good" in " ".join(why)) == (word == "hold")
    assert "more than two standard errors worse than predicted" in " ".join(verdict.remarks(sizes(*gaps), FIRED))


def test_a_protected_task_that_rises_is_named_and_holds():
    t = float(stats.t.ppf(0.95, 2))  # three pairs, one side
    over, under = ({"pairs": 3, "difference": 0.01 + t * 0.02 + more, "se": 0.02, "low": 0, "high": 0} for more in (1e-6, -1e-6))
    word, why = judge(sizes(BETTER, BETTER, BETTER, risen=over), KEPT)
    assert word == "hold" and why[0].startswith("Protected task maths rises at depth 4 (3,000 tokens) by +0.0684") and "0.01 that it may" in why[0]
    assert judge(sizes(BETTER, BETTER, BETTER, risen=under), KEPT)[0] == "ship"
    small = [sizes(BETTER, risen=over)[0], *sizes(BETTER, BETTER, BETTER)[1:]]  # at the proxy's size it is not asked for
    assert small[0]["tasks"][0]["regressed"] and judge(small, KEPT)[0] == "ship"


def test_optimism_fires_over_two_standard_errors_of_both():
    measured = {"difference": -0.05, "se": 0.003, "pairs": 5, "low": -0.06, "high": -0.04}
    assert optimism((-0.0600, 0.004), measured)["fires"] is False and optimism((-0.0601, 0.004), measured)["fires"] is True  # 2 x 0.005
    found = optimism((-0.09, 0.004), measured)
    assert (found["optimism"], found["se"]) == pytest.approx((0.04, 0.005)) and optimism(None, measured) is optimism((0.0, 1.0), None) is None


def test_errors_that_tasks_share_are_counted_together():
    """Two tasks that err by chance: the mean's error is 1 / sqrt(2) of a task's. Alike: all of it. Against each other: none."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, (2, 20_000))
    for other, share in ((b, 2**-0.5), (a, 1.0), (-a, 0.0)):
        runs = [{"predicted": {"x": p, "y": q}, "measured": {"x": 0.0, "y": 0.0}} for p, q in zip(a, other)]
        assert verdict.together(runs, {"x": 0.5, "y": 0.5}) == pytest.approx(share, abs=0.02)
    assert verdict.together([{"predicted": {"x": 1.0}, "measured": {}}], {"x": 1.0}) == 1.0


def test_a_prediction_has_its_error_without_the_noise_of_a_run():
    mixture = {"tasks": [{"name": name, "predicted": 1.0, "proportional": 1.2, "sd": 0.05} for name in ("x", "y")]}
    fit = {"tasks": [{"name": "x", "noise_sd": 0.03}, {"name": "y", "noise_sd": None}], "runs": []}
    assert verdict.prediction(mixture, fit, {"x": 0.75, "y": 0.25}) == pytest.approx((-0.2, 0.75 * 0.04 + 0.25 * 0.05))
    assert verdict.prediction(mixture, fit, {"x": 0.5, "z": 0.5}) is None
    against = [{"predicted": {"x": 1.0, "y": 1.0}, "measured": {"x": 0.9, "y": 1.1}}]  # out of fold, the mean of both is right
    assert verdict.prediction(mixture, fit | {"runs": against}, {"x": 0.5, "y": 0.5}) == pytest.approx((-0.2, 0.0))
