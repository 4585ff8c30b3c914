from __future__ import annotations

import numpy as np
import pytest

from cuvee.kernels.scaling import Curve
from cuvee.steps.mixing import gains

LAW, COMPUTE = Curve(1.5, 2.0, 0.3, 1e12), (1e12, 4e12, 12e12)


def sizes(*differences):
    return [{"depth": 2, "tokens": 100, "larger": True, "flops": flops, "unimax": None,
             "proposal": {"pairs": 3, "difference": difference, "se": 1e-5}} for flops, difference in zip(COMPUTE, differences)]


def scores():
    return [LAW.loss(flops) + 1e-5 * np.array([-1.0, 0.0, 1.0]) for flops in COMPUTE]


def test_a_score_under_the_floor_is_reached_by_no_compute():
    above = LAW.loss(COMPUTE[2]) - LAW.floor
    curve, found = gains.scale(sizes(0.0, 0.0, -1.1 * above), scores(), 0)
    assert curve["form"] == "E + A C^-alpha" and curve["floor"] == pytest.approx(1.5, abs=1e-3)
    assert found[2]["proposal"] == {"factor": None, "low": None, "high": None, "beyond": True} and found[0]["proposal"]["factor"] == pytest.approx(1)
    assert "no compute would bring proportional to the proposal (90 % interval no limit to no limit), which lies beyond" in curve["said"]


def test_what_costs_less_than_the_largest_size_is_not_extrapolated():
    better = [LAW.loss(2 * flops) - LAW.loss(flops) for flops in COMPUTE]
    found = [each["proposal"] for each in gains.scale(sizes(*better), scores(), 0)[1]]
    assert [each["factor"] for each in found] == pytest.approx([2.0] * 3, rel=1e-2) and [each["beyond"] for each in found] == [False, False, True]
    assert all(each["low"] < 2 < each["high"] for each in found)
