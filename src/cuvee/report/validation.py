"""The section on the check at larger sizes: verdict, a row and an interval for every size, the scaling curve, the tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cuvee.report import svg
from cuvee.report.markup import NONE, Html, missing, note, section, show, table, tag

Json = Mapping[str, Any]
TITLE = "Check at larger sizes"
CURVE = 40  # points that a curve is drawn through
SHOWN = {"proportional": "proportional", "unimax": "UniMax", "proposal": "proposal"}


def validation(found: Json | None) -> Html:
    """found: validate.json. A difference is proposal less proportional in bits per byte: negative is better."""
    if found is None:
        return section("validation", TITLE, missing("validate"))
    kind = {"ship": "good", "hold": "bad"}.get(found["verdict"], "note")
    return section(
        "validation", TITLE, note(tag("strong", f"Verdict: {found['verdict']}. "), found["explanation"], kind=kind),
        *(note(each) for each in found["remarks"]),
        note("Every difference is proposal less proportional in bits per byte, over paired seeds, with its 95 % interval: negative is better. "
             "Gain is the compute that proportional would need to reach the same score, with its 90 % interval."),
        _sizes(found["sizes"]), *_differences(found), *_curve(found["curve"], found["sizes"]), *_failed(found["sizes"]),
        tag("h3", "Tasks"), _tasks(found["tasks"], found["sizes"]))


def _name(size: Json) -> str:
    return f"depth {size['depth']}, {size['tokens']:,} tokens" + ("" if size["larger"] else " (proxy)")


def _interval(gap: Json | None) -> str:
    return NONE if gap is None else f"{gap['difference']:+.4f} ({gap['low']:+.4f} to {gap['high']:+.4f})"


def _gain(gain: Json | None) -> str:
    if gain is None:
        return NONE
    low, middle, high = ("no limit" if gain[key] is None else f"{gain[key]:.2f}" for key in ("low", "factor", "high"))
    return f"× {middle} ({low} to {high})" + (", extrapolated" if gain["beyond"] else "")


def _sizes(sizes: Sequence[Json]) -> Html:
    rows = [[_name(size), size["parameters"], f"{size['flops']:.2e}", (size["proposal"] or {"pairs": 0})["pairs"],
             *(size["means"].get(name) for name in SHOWN), _interval(size["proposal"]), _interval(size["unimax"]),
             _gain(size["gains"].get("proposal"))] for size in sizes]
    heads = ["size", "parameters", "FLOPs", "pairs", *SHOWN.values(), "difference", "UniMax less proportional", "gain in compute"]
    return table(heads, rows, numbers=range(1, 10))


def _differences(found: Json) -> list[Html]:
    """An interval for each size, and the prediction for the smallest."""
    rows = [(_name(size), *(size["proposal"][key] for key in ("difference", "low", "high"))) for size in found["sizes"] if size["proposal"]]
    foreseen = found["optimism"]
    if foreseen:
        reach = 2 * foreseen["predicted_se"]
        rows.insert(0, ("predicted for the proxy", foreseen["predicted"], foreseen["predicted"] - reach, foreseen["predicted"] + reach))
    return [svg.whiskers(rows, "Proposal less proportional at every size, bits per byte, 95 % intervals")] if rows else []


def _curve(curve: Json, sizes: Sequence[Json]) -> list[Html]:
    """Scores against compute, and the curve of proportional."""
    if curve["form"] is None:
        return []
    points = [(math.log10(size["flops"]), size["means"][name], 0.0, label) for name, label in SHOWN.items() for size in sizes
              if size["means"].get(name) is not None]
    errors = {math.log10(each["flops"]): 2 * each["se"] for each in curve["points"]}
    points = [(x, y, errors.get(x, 0.0) if label == "proportional" else error, label) for x, y, error, label in points]
    low, high = min(x for x, *_ in points), max(x for x, *_ in points)
    steps = [low + (high - low) * at / (CURVE - 1) for at in range(CURVE)]
    line = [(x, curve["floor"] + curve["scale"] * (10**x / curve["unit"]) ** -curve["exponent"]) for x in steps]
    return [svg.plot(points, line, "log10 of training FLOPs", "bits per byte", f"Scores by compute; the line is {curve['form']} through proportional")]


def _failed(sizes: Sequence[Json]) -> list[Html]:
    rows = [[_name(size), SHOWN[each["mixture"]], each["seed"], each["reason"]] for size in sizes for each in size["failed"]]
    return [note(f"Runs that failed, and have no score: {len(rows):,}.", kind="bad"), table(["size", "mixture", "seed", "reason"], rows)] if rows else []


def _tasks(tasks: Sequence[Json], sizes: Sequence[Json]) -> Html:
    """Differences task by task; a protected task shows what it may rise by, and where it rose by more."""
    measured = [{each["name"]: each for each in size["tasks"]} for size in sizes]
    rows = [[task["name"], task["weight"], NONE if task["protected"] is None else f"{task['protected']:+g}", _signed(task["predicted"]),
             *(_change(each[task["name"]]) for each in measured)] for task in tasks]
    heads = ["task", "weight", "protected: may rise by", "predicted for the proxy", *(_name(size) for size in sizes)]
    return table(heads, rows, numbers=range(1, 4 + len(sizes)))


def _change(task: Json) -> str:
    gap = task["proposal"]
    return NONE if gap is None else f"{gap['difference']:+.4f} ± {show(gap['se'])}" + (" rises too much" if task["regressed"] else "")


def _signed(value: float | None) -> str:
    return NONE if value is None else f"{value:+.4f}"
