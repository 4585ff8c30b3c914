from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cuvee.report import svg

NUMBERS = st.floats(-1e6, 1e6)


@given(NUMBERS, NUMBERS)
def test_ticks_are_few_and_round(low, high):
    assume(high - low > 1e-3)
    found = svg.ticks(low, high)
    assert 2 <= len(found) <= 7 and all(low - 1e-9 <= value <= high + 1e-9 for value in found)
    step = float(f"{(found[-1] - found[0]) / (len(found) - 1):.6g}")
    assert f"{step:e}"[0] in "125"


def test_ticks_golden():
    assert svg.ticks(1.97, 2.21) == [2.0, 2.05, 2.1, 2.15, 2.2]


def test_a_point_on_the_diagonal_is_drawn_on_it():
    drawn = svg.scatter([(1.0, 1.0, "a"), (2.0, 2.0, "b"), (3.0, 3.0, "a")], "x", "y", "t")
    places = [tuple(map(float, found)) for found in re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="4"', drawn)]
    assert len(places) == 3 and len({round(x + y, 1) for x, y in places}) == 1 and places == sorted(places)


def test_a_point_on_the_line_is_drawn_on_it():
    drawn = svg.plot([(1.0, 30.0, 2.0, "a"), (3.0, 10.0, 2.0, "b")], [(1.0, 30.0), (3.0, 10.0)], "x", "y", "t")
    places = re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="4"', drawn)
    ends = re.search(r'x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)" stroke="#888888"', drawn).groups()
    assert ends == (*places[0], *places[1]) and float(places[0][1]) < float(places[1][1])


@pytest.mark.parametrize("draw", [svg.scatter([(2.0, 2.0, "one")], "x", "y", "t"), svg.plot([(2.0, 2.0, 0.0, "one")], [], "x", "y", "t"), svg.whiskers([("one", 0.0, 0.0, 0.0)], "t"), svg.bars([("none", 0, "0")], "t")])
def test_a_constant_can_be_drawn(draw):
    assert draw.startswith("<svg") and "nan" not in draw and "inf" not in draw
