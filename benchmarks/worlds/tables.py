"""Results of the arena as Markdown. A procedure's regret on a world is the mean over seeds; medians are over worlds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

Line = dict[str, Any]
_BEATEN = 0.02  # regret by which another procedure must be better for a world to count as lost


def report(plays: Sequence[Line], optima: Sequence[Line], missing: Sequence[Line]) -> str:
    """plays: lines of plays.jsonl; optima, missing: of optima.jsonl"""
    scored, failed = [line for line in plays if "failed" not in line], [line for line in plays if "failed" in line]
    parts = [overall(scored), beside(scored), by_family(scored), by_world(scored, optima), honesty(scored), lost(scored)]
    parts += [f"- not played: {line['world']}: {line['missing']}" for line in missing]
    parts += [f"- failed: {line['procedure']} on {line['world']}, {line['runs']} runs, seed {line['seed']}: {line['failed']}" for line in failed]
    return "\n\n".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)])


def regrets(plays: Sequence[Line]) -> dict[tuple[str, str, int], float]:
    """(world, procedure, runs) -> mean over seeds"""
    found = defaultdict(list)
    for line in plays:
        found[line["world"], line["procedure"], line["runs"]].append(line["regret"])
    return {key: float(np.mean(values)) for key, values in found.items()}


def named(plays: Sequence[Line], field: str) -> list:
    """Values of a field in the order of their first line; numbers sorted."""
    values = list(dict.fromkeys(line[field] for line in plays))
    return sorted(values)


def overall(plays: Sequence[Line]) -> str:
    """Every procedure at every number of runs: regret over worlds, and how often it is the best."""
    found, rows = regrets(plays), []
    for runs in named(plays, "runs"):
        for who in named(plays, "procedure"):
            mine = {world: value for (world, name, count), value in found.items() if (name, count) == (who, runs)}
            if not mine:
                continue
            others = {world: min(value for (place, _, count), value in found.items() if (place, count) == (world, runs)) for world in mine}
            foreign = [value for world, value in mine.items() if not _ours(plays, world)]
            games = [line for line in plays if (line["procedure"], line["runs"]) == (who, runs)]
            low, middle, high = np.quantile(list(mine.values()), [0.25, 0.5, 0.75])
            rows.append([str(runs), who, str(len(mine)), f"{middle:.3f}", f"{low:.3f} to {high:.3f}", f"{max(mine.values()):.2f}",
                         f"{np.median(foreign):.3f}" if foreign else "", f"{sum(mine[world] <= others[world] for world in mine)}",
                         f"{np.mean([line['trained'] for line in games]):.0f}", f"{np.median([line['seconds'] for line in games]):.1f}"])
    return table(["runs", "procedure", "worlds", "median regret", "quartiles", "worst", "median, laws not ours", "best of all in", "runs trained", "s a game"], rows)


def _ours(plays: Sequence[Line], world: str) -> bool:
    return next(line["ours"] for line in plays if line["world"] == world)


def beside(plays: Sequence[Line], base: str = "ours") -> str:
    """Every other procedure on the worlds that both played: how often it is better than `base`, and by how much."""
    found, rows = regrets(plays), []
    for runs in named(plays, "runs"):
        for who in named(plays, "procedure"):
            pairs = np.array([(value, found[world, base, runs]) for (world, name, count), value in found.items()
                              if (name, count) == (who, runs) and who != base and (world, base, runs) in found])
            if len(pairs):
                gaps = pairs[:, 0] - pairs[:, 1]
                rows.append([str(runs), who, str(len(pairs)), *(f"{each:.3f}" for each in (*np.median(pairs, axis=0), *pairs.mean(axis=0))),
                             f"{(gaps < 0).sum()}", f"{np.median(gaps):+.3f}"])
    return table(["runs", "procedure", "worlds", "median regret", f"of {base}", "mean regret", f"of {base}", "better in", "median difference"], rows)


def by_family(plays: Sequence[Line]) -> str:
    """Median over a family's worlds and all numbers of runs."""
    who, found = named(plays, "procedure"), regrets(plays)
    family = {line["world"]: line["family"] for line in plays}
    rows = []
    for name in dict.fromkeys(family[world] for world in sorted(family)):
        values = [[value for (world, procedure, _), value in found.items() if (family[world], procedure) == (name, each)] for each in who]
        rows.append([name, str(len({world for world in family if family[world] == name})), *(f"{np.median(each):.3f}" if each else "" for each in values)])
    return table(["family", "worlds", *who], rows)


def by_world(plays: Sequence[Line], optima: Sequence[Line]) -> str:
    """Mean over seeds and numbers of runs, beside how sure the optimum is."""
    who, found = named(plays, "procedure"), regrets(plays)
    sure = {line["world"]: line["sure"] for line in optima}
    rows = []
    for world in sorted({line["world"] for line in plays}):
        values = [[value for (place, procedure, _), value in found.items() if (place, procedure) == (world, each)] for each in who]
        rows.append([world, f"{sure[world]:.0%}", *(f"{np.mean(each):.3f}" if each else "" for each in values)])
    return table(["world", "starts at the optimum", *who], rows)


def honesty(plays: Sequence[Line]) -> str:
    """Intervals on fresh mixtures, and the prediction at the answer."""
    rows = []
    for who in named(plays, "procedure"):
        games = [line for line in plays if line["procedure"] == who and "predicted" in line]
        spread = [line for line in games if "together" in line]
        cover = [line["covered"] for line in games if "covered" in line]
        if not games:
            continue
        late = np.array([line["truth"] - line["predicted"] for line in games])
        together, apart = ([abs(line["truth"] - line["predicted"]) <= 2 * line[name] for line in spread] for name in ("together", "apart"))
        rows.append([who, str(len(games)), f"{np.mean(cover):.1%}" if cover else "", f"{late.mean():+.2f}", *(
            f"{np.mean(each):.0%}" if each else "" for each in (together, apart, [line["near"] for line in spread]))])
    return table(["procedure", "games", "in the 90 % interval", "truth less prediction, SDs", "within 2 SD, tasks erring together", "within 2 SD, tasks apart",
                  "single tasks within 2 SD"], rows)


def lost(plays: Sequence[Line]) -> str:
    """Worlds where a procedure of ours loses to another's."""
    found, names = regrets(plays), []
    for (world, who, runs), value in sorted(found.items()):
        if not who.startswith("ours"):
            continue
        better = {name: other for (place, name, count), other in found.items() if (place, count) == (world, runs) and not name.startswith("ours")}
        winners = [f"{name} {other:.2f}" for name, other in sorted(better.items()) if other < value - _BEATEN]
        if winners:
            names.append(f"- {world}, {runs} runs: {who} {value:.2f}; {', '.join(winners)}")
    return "\n".join(["Lost by over .02:", *names] if names else ["Lost by over .02: none."])
