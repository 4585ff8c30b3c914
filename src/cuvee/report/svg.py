"""Drawings as inline SVG: flows, points and intervals. Sizes in pixels; they scale with the page and print."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuvee.report.markup import Html, tag

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe and Ito, 2008: told apart by all eyes
GREY = "#888888"
Point = tuple[float, float, str]  # x, y, group
Interval = tuple[str, float, float, float]  # label, middle, low, high
Line = tuple[str, Sequence[tuple[float, float]]]  # label, (x, y) from left to right
Measured = tuple[float, float, float, str]  # x, y, error of y on both sides, group


def drawing(width: int, height: int, title: str | None, *children: Html) -> Html:
    """title: what it shows, for those who do not see it; None where the figures stand beside it"""
    said = {"role": "img"} if title else {"aria_hidden": "true"}
    return tag("svg", *([tag("title", title)] if title else []), *children, viewBox=f"0 0 {width} {height}", width=width, height=height, **said)


def share(value: float, low: float | None = None, width: int = 90) -> Html:
    """A bar for a share of 1; `low` draws a mark at another share."""
    mark = [] if low is None else [_line(_inside(low) * width, 0, _inside(low) * width, 10, "#000000")]
    return drawing(width, 10, None, _rect(0, 1, width, 8, "#e8e8e8"), _rect(0, 1, _inside(value) * width, 8, COLOURS[0]), *mark)


def bars(rows: Sequence[tuple[str, float, str]], title: str) -> Html:
    """rows: label, value, what to write behind the bar."""
    most = max((value for _, value, _ in rows), default=0) or 1
    drawn = []
    for place, (label, value, text) in enumerate(rows):
        y, length = 8 + 22 * place, 380 * value / most
        drawn += [_text(150, y + 12, label, "end"), _rect(160, y, max(length, 1), 16, COLOURS[0]), _text(168 + length, y + 12, text)]
    return drawing(760, 16 + 22 * len(rows), title, *drawn)


def scatter(points: Sequence[Point], across: str, up: str, title: str) -> Html:
    """Points over one common scale, with the diagonal; groups have colours, and a legend."""
    low, high = _range([value for x, y, _ in points for value in (x, y)])
    left, bottom, side = 70, 400, 380

    def place(x: float, y: float) -> tuple[float, float]:
        return left + side * (x - low) / (high - low), bottom - side * (y - low) / (high - low)

    groups = list(dict.fromkeys(group for _, _, group in points))
    colours = {group: COLOURS[number % len(COLOURS)] for number, group in enumerate(groups)}
    drawn = [_rect(left, bottom - side, side, side, "none", GREY), _line(left, bottom, left + side, bottom - side, GREY)]
    for value in ticks(low, high):
        x, y = place(value, value)
        drawn += [_line(x, bottom, x, bottom + 5), _text(x, bottom + 18, f"{value:.6g}", "middle"),
                  _line(left - 5, y, left, y), _text(left - 8, y + 4, f"{value:.6g}", "end")]
    drawn += [_text(left + side / 2, bottom + 38, across, "middle"),
              tag("text", up, x=14, y=bottom - side / 2, text_anchor="middle", transform=f"rotate(-90 14 {bottom - side / 2:g})")]
    for x, y, group in points:
        across_, up_ = place(x, y)
        drawn.append(tag("circle", tag("title", f"{group}: {x:.5g}, {y:.5g}"), cx=f"{across_:.1f}", cy=f"{up_:.1f}", r=4, fill=colours[group],
                         fill_opacity=0.75))
    for number, group in enumerate(groups):
        drawn += [tag("circle", cx=left + side + 24, cy=30 + 20 * number, r=5, fill=colours[group]),
                  _text(left + side + 36, 34 + 20 * number, group)]
    return drawing(640, 450, title, *drawn)


def whiskers(rows: Sequence[Interval], title: str) -> Html:
    """Intervals one under the other over one scale that holds 0. rows: label, middle, low, high"""
    low, high = _range([0.0, *(value for row in rows for value in row[1:])])
    left, width = 230, 400

    def place(value: float) -> float:
        return left + width * (value - low) / (high - low)

    foot = 22 * len(rows) + 14
    drawn = [_line(place(0), 4, place(0), foot, GREY)]
    for number, (label, middle, least, most) in enumerate(rows):
        y = 18 + 22 * number
        drawn += [_text(left - 10, y + 4, label if len(label) <= 32 else label[:31] + "…", "end"), _line(place(least), y, place(most), y),
                  tag("circle", cx=f"{place(middle):.1f}", cy=y, r=4, fill=COLOURS[0])]
    for value in ticks(low, high):
        drawn += [_line(place(value), foot, place(value), foot + 4), _text(place(value), foot + 18, f"{value:.6g}", "middle")]
    return drawing(680, foot + 26, title, *drawn)


def plot(points: Sequence[Measured], line: Sequence[tuple[float, float]], across: str, up: str, title: str) -> Html:
    """Points with their errors and one line over two scales; groups have colours, and a legend."""
    wide, tall = (_range([*(point[at] + sign * point[2] * at for point in points for sign in (-1, 1)), *(each[at] for each in line)]) for at in (0, 1))
    left, bottom, width, height = 70, 300, 420, 280

    def place(x: float, y: float) -> tuple[float, float]:
        return left + width * (x - wide[0]) / (wide[1] - wide[0]), bottom - height * (y - tall[0]) / (tall[1] - tall[0])

    groups = list(dict.fromkeys(point[3] for point in points))
    drawn = [_rect(left, bottom - height, width, height, "none", GREY)]
    drawn += [_line(*place(*a), *place(*b), GREY) for a, b in zip(line, line[1:])]
    for value in ticks(*wide):
        x = place(value, tall[0])[0]
        drawn += [_line(x, bottom, x, bottom + 5), _text(x, bottom + 18, f"{value:.6g}", "middle")]
    for value in ticks(*tall):
        y = place(wide[0], value)[1]
        drawn += [_line(left - 5, y, left, y), _text(left - 8, y + 4, f"{value:.6g}", "end")]
    drawn += [_text(left + width / 2, bottom + 38, across, "middle"),
              tag("text", up, x=14, y=bottom - height / 2, text_anchor="middle", transform=f"rotate(-90 14 {bottom - height / 2:g})")]
    for x, y, error, group in points:
        colour, (at, middle) = COLOURS[groups.index(group) % len(COLOURS)], place(x, y)
        drawn += [_line(at, place(x, y - error)[1], at, place(x, y + error)[1], colour),
                  tag("circle", tag("title", f"{group}: {x:.5g}, {y:.5g}"), cx=f"{at:.1f}", cy=f"{middle:.1f}", r=4, fill=colour, fill_opacity=0.75)]
    for number, group in enumerate(groups):
        drawn += [tag("circle", cx=left + width + 24, cy=30 + 20 * number, r=5, fill=COLOURS[number % len(COLOURS)]),
                  _text(left + width + 36, 34 + 20 * number, group)]
    return drawing(680, 350, title, *drawn)


def lines(series: Sequence[Line], marks: Sequence[Line], across: str, up: str, title: str, log: bool = False) -> Html:
    """Lines, and single points of the same labels' colours; `log`: x on a scale of powers of ten, x > 0."""
    left, bottom, width, height = 70, 300, 460, 280
    every = [point for _, points in (*series, *marks) for point in points]
    ends = _range([math.log10(x) if log else x for x, _ in every]), _range([y for _, y in every])

    def place(x: float, y: float) -> tuple[float, float]:
        along = math.log10(x) if log else x
        return left + width * (along - ends[0][0]) / (ends[0][1] - ends[0][0]), bottom - height * (y - ends[1][0]) / (ends[1][1] - ends[1][0])

    labels = list(dict.fromkeys(label for label, _ in (*series, *marks)))
    colours = {label: COLOURS[number % len(COLOURS)] for number, label in enumerate(labels)}
    drawn = [_rect(left, bottom - height, width, height, "none", GREY)]
    for value in _powers(*ends[0]) if log else ticks(*ends[0]):
        x = place(value, ends[1][0])[0]
        drawn += [_line(x, bottom, x, bottom + 5), _text(x, bottom + 18, f"{value:.6g}", "middle")]
    for value in ticks(*ends[1]):
        y = place(every[0][0], value)[1]
        drawn += [_line(left - 5, y, left, y), _text(left - 8, y + 4, f"{value:.6g}", "end")]
    drawn += [_text(left + width / 2, bottom + 38, across, "middle"),
              tag("text", up, x=14, y=bottom - height / 2, text_anchor="middle", transform=f"rotate(-90 14 {bottom - height / 2:g})")]
    for label, points in series:
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        drawn.append(tag("polyline", points=corners, fill="none", stroke=colours[label], stroke_width=2))
    for label, points in marks:
        drawn += [tag("circle", tag("title", f"{label}: {x:.5g}, {y:.5g}"), cx=f"{place(x, y)[0]:.1f}", cy=f"{place(x, y)[1]:.1f}", r=4, fill=colours[label])
                  for x, y in points]
    for number, label in enumerate(labels):
        drawn += [tag("circle", cx=left + width + 24, cy=30 + 20 * number, r=5, fill=colours[label]), _text(left + width + 36, 34 + 20 * number, label)]
    return drawing(740, 350, title, *drawn)


def _powers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between 10 ** low and 10 ** high; only the powers where these are many."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    steps = (1, 2, 5) if high - low < 2 else (1,)
    return [step * 10.0 ** power for power in powers for step in steps if low <= math.log10(step * 10.0 ** power) <= high]


def ticks(low: float, high: float) -> list[float]:
    """Three to eight round values in [low, high]: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    return [round(number * step, 12) for number in range(first, math.floor(high / step) + 1)]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Ends of a scale: the values and a twentieth more on both sides; a constant gets some room."""
    low, high = min(values), max(values)
    room = (high - low) / 20 or max(abs(low), 1e-3) / 20
    return low - room, high + room


def _inside(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _rect(x: float, y: float, width: float, height: float, fill: str, stroke: str | None = None) -> Html:
    return tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", width=f"{width:.1f}", height=f"{height:.1f}", fill=fill, stroke=stroke)


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str = "#333333") -> Html:
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", stroke=stroke)


def _text(x: float, y: float, text: str, anchor: str = "start") -> Html:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)
