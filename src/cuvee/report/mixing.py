"""Sections on the mixture: the swarm, how well its scores are predicted, the weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cuvee.report import identify, svg
from cuvee.report.markup import NONE, Html, missing, note, percent, section, show, table, tag

Json = Mapping[str, Any]

WHY = {"too_few_runs": "too few runs with a score", "no_spread": "one score in all runs", "low_signal": "low signal to noise",
       "unpredictable": "half of the tokens ranks otherwise", "protected": "protected, never optimised", "report": "only reported",
       "not_asked_for": "not asked for"}


def swarm(found: Json | None, drawn: Sequence[Json], fit: Json | None) -> Html:
    """found: runs.json; drawn: rows of run_domains; fit: fit.json"""
    if found is None:
        return section("swarm", "Swarm", missing("swarm"))
    runs = found["runs"]
    kinds = Counter(run["kind"] for run in runs)
    proxy = ", ".join(f"{name} {show(value)}" for name, value in sorted(found["proxy"].items()))
    by = f"proxy: {proxy}" if any(run["losses"] for run in runs) or not runs else "trained elsewhere, their scores were imported"
    parts = [note(f"{len(runs):,} runs of {sum(run['tokens'] for run in runs):,} tokens together; {by}."),
             table(["kind of run", "runs"], sorted(kinds.items())), *_failed(found["failed"]), tag("h3", "Runs"), _runs(runs, drawn, fit),
             tag("h3", "What the runs are scored on"), _asked(found["tasks"])]
    return section("swarm", "Swarm", *parts)


def _asked(tasks: Sequence[Json]) -> Html:
    """A row a task; records: of which the items were chosen. An imported task has no items here."""
    return table(["task", "kind", "items", "of records", "bytes"], [[each[name] for name in ("name", "kind", "items", "records", "bytes")] for each in tasks],
                 numbers=range(2, 5))


def _failed(failed: Sequence[Json]) -> list[Html]:
    if not failed:
        return []
    return [note(f"Runs that failed, and have no score: {len(failed):,}.", kind="bad"),
            table(["run", "reason"], [[each["run"], each["reason"]] for each in failed])]


def _runs(runs: Sequence[Json], drawn: Sequence[Json], fit: Json | None) -> Html:
    """One row a run: what it drew, and its mean score, measured and predicted."""
    scores = {each["run"]: each for each in (fit or {"runs": []})["runs"]}
    mine: dict[str, list[Json]] = {run["run"]: [] for run in runs}
    for row in drawn:
        mine.setdefault(row["run"], []).append(row)
    rows = [[run["run"], run["kind"], run["tokens"], sum(row["weight"] > 0 for row in mine[run["run"]]),
             max((row["epochs"] for row in mine[run["run"]]), default=None), sum(bool(row["floored"]) for row in mine[run["run"]]),
             *(scores.get(run["run"], {}).get(name) for name in ("measured_mean", "predicted_mean"))] for run in runs]
    heads = ["run", "kind", "tokens", "domains", "most epochs", "floored subsets", "score", "predicted"]
    return table(heads, rows, numbers=range(2, 8))


def fit(found: Json | None) -> Html:
    """found: fit.json. Predictions are out of fold: of runs that the fit did not see."""
    if found is None:
        return section("fit", "Predicted and measured", missing("fit"))
    mean, runs = found["mean"], found["runs"]
    points = [(run["measured_mean"], run["predicted_mean"], run["kind"]) for run in runs
              if _finite(run["measured_mean"], run["predicted_mean"])]
    said = f"Out-of-fold Spearman of the weighted mean score: {_interval(mean['spearman'], mean['low'], mean['high'])}, model {found['model']}."
    drawn = [svg.scatter(points, "measured, in SDs of the swarm", "predicted out of fold", "Predicted against measured score of every run")] if points else []
    silent = sum(task["weight"] == 0 for task in found["tasks"])
    chance = [] if mean["resolves"] is None else [note(
        f"Noise of the weighted mean: {show(mean['noise_sd'])} SDs of the swarm ({mean['freedom']} degrees of freedom), so two runs differ by more "
        f"than chance from {show(mean['resolves'])} on.")]
    return section("fit", "Predicted and measured", note(tag("strong", said)), *(note(each, kind="bad") for each in found["notes"]), *drawn,
                   *identify.blurred(found.get("identified")), tag("h3", "Tasks"),
                   *chance, note(f"{silent:,} of {len(found['tasks']):,} tasks have weight 0; the table says why. Noise is the SD of repeats, with its "
                                 "degrees of freedom; signal to noise the SD over the swarm by it. Two runs that differ by less than what shows "
                                 "are alike (95 %). Half to full is the rank correlation over mixtures of scores at half of the tokens with those "
                                 "at the end."), _tasks(found["tasks"]))


def _tasks(tasks: Sequence[Json]) -> Html:
    """A task that counts has no reason why not; figures in bits per byte."""
    rows = [[each["name"], each["role"], each["weight"], WHY.get(each["why"], each["why"] or ""), each["swarm_sd"], _noise(each), each["snr"],
             each["resolves"], each["predictability"], _interval(each["spearman"], each["low"], each["high"]), each["regret"]] for each in tasks]
    heads = ["task", "role", "weight", "why 0", "SD of swarm", "noise", "signal to noise", "shows from", "half to full", "Spearman", "regret at 1"]
    return table(heads, rows, numbers=[2, *range(4, 11)])


def _noise(each: Json) -> str:
    return NONE if each["noise_sd"] is None else f"{show(each['noise_sd'])} ({each['freedom']})"


def mixture(found: Json | None, names: Mapping[int, str]) -> Html:
    """found: mixture.json; names: topic -> name"""
    if found is None:
        return section("mixture", "Mixture", missing("mix"))
    domains, most = found["domains"], max((each["weight"] for each in found["domains"]), default=1) or 1
    rows = [[each["name"], _topic(each["name"], names), percent(each["weight"]), percent(each["natural"]), _times(each),
             svg.share(each["weight"] / most, each["natural"] / most), each["epochs"], each["tokens"], _range(each, percent)] for each in domains]
    sums = ["all", "", percent(sum(each["weight"] for each in domains)), percent(sum(each["natural"] for each in domains)), "", "", "",
            sum(each["tokens"] for each in domains), ""]
    heads = ["domain", "topic", "weight", "natural", "to natural", "", "epochs", "tokens", "range of weight"]
    said = f"For a budget of {found['budget']:,} tokens. Objective {show(found['objective'])}, KKT residual {show(found['kkt'])}."
    return section("mixture", "Mixture", note(said, " The bar is the weight, the mark the natural share: the domain's share of all tokens."),
                   table(heads, rows, sums, numbers=range(2, 9)), tag("h3", "Predicted scores"), _predicted(found["tasks"], found["baselines"]))


def _topic(domain: str, names: Mapping[int, str]) -> str:
    """Name of the topic of `t07.q5`; nothing for a domain named otherwise."""
    number = domain.split(".")[0].removeprefix("t")
    return names.get(int(number), "") if number.isdecimal() else ""


def _times(each: Json) -> str:
    return f"× {each['weight'] / each['natural']:.2f}" if each["natural"] else NONE


def _predicted(tasks: Sequence[Json], baselines: Mapping[str, Json]) -> Html:
    """Bits per byte of the proposal and of every baseline, task by task."""
    names = sorted(baselines)
    rows = [[each["name"], each["predicted"], each["sd"], *(baselines[name]["predicted"].get(each["name"]) for name in names)] for each in tasks]
    return table(["task", "proposal", "SD", *names], rows, numbers=range(1, 3 + len(names)))


def _finite(*values: float | None) -> bool:
    return all(value is not None and math.isfinite(value) for value in values)


def _interval(middle: float | None, low: float | None, high: float | None) -> str:
    return show(middle) if low is None or high is None else f"{show(middle)} ({show(low)} to {show(high)})"


def _range(each: Json, form: Any) -> str:
    return NONE if each["low"] is None or each["high"] is None else f"{form(each['low'])} to {form(each['high'])}"
