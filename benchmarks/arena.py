"""Procedures against worlds whose best mixture is known: what each loses of the gain that was to be had (docs/synthetic.md).

    python benchmarks/arena.py [--procedures ours,ours-rounds-all,olmix] [--worlds pairs,gp-1m] [--runs 64,112] [--seeds 2] [--out FOLDER]

Every game is a line of FOLDER/plays.jsonl, so a broken run goes on where it stopped; delete the file after a change of a
procedure. Worlds over 50 domains are played once, with the most runs. Prints Markdown.
"""

import argparse
import json
import os
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from worlds import catalogue, published, tables  # noqa: E402
from worlds.baselines import BASELINES  # noqa: E402
from worlds.optimum import Optimum, optimum  # noqa: E402
from worlds.play import played  # noqa: E402

from cuvee.kernels.procedures.registry import PROCEDURES  # noqa: E402

LARGE = 50  # domains
PLAYERS = {**PROCEDURES, **BASELINES}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@cache
def world_of(name):
    return catalogue.named(name)


def solve(name):
    """-> a line of optima.jsonl, or the reason why there is none"""
    try:
        found = optimum(world_of(name))
    except published.Missing as error:
        return {"world": name, "missing": str(error)}
    return {"world": name, **found._asdict(), "weights": found.weights.tolist()}


def play(job):
    best, (name, procedure, runs, seed) = job
    key = {"world": name, "family": world_of(name).family, "ours": world_of(name).ours, "procedure": procedure, "runs": runs, "seed": seed}
    try:
        return key | played(world_of(name), best, PLAYERS[procedure](), runs, seed)
    except (ValueError, ArithmeticError) as error:  # a game that cannot be played has no regret; tables name it
        return key | {"failed": str(error)}


def done(pool, work, jobs, path, say):
    """Results of `jobs`, each written as it comes."""
    with path.open("a") as out:
        for number, line in enumerate(pool.imap_unordered(work, jobs), 1):
            out.write(json.dumps(line) + "\n")
            out.flush()
            say(number, len(jobs), line)


def games(names, procedures, runs, seeds):
    """Every (world, procedure, runs, seed) that is to be played: all worlds with the first seed before any with the next."""
    sizes = {plan.name: plan.domains for plan in catalogue.PLANS}
    order = sorted(names, key=lambda name: sizes[name] > LARGE)
    found = ((name, who, count, seed) for seed, name, count, who in product(range(seeds), order, sorted(runs, reverse=True), procedures))
    return [game for game in found if sizes[game[0]] <= LARGE or (game[2] == max(runs) and game[3] == 0)]


def asked_for():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--procedures", default=",".join(PLAYERS))
    ask.add_argument("--worlds", default="", help="names, or beginnings of names; all")
    ask.add_argument("--runs", default="64,112")
    ask.add_argument("--seeds", type=int, default=2)
    ask.add_argument("--processes", type=int, default=2)
    ask.add_argument("--out", default="runs/arena", type=Path)
    return ask.parse_args()


def main():
    asked = asked_for()
    asked.out.mkdir(parents=True, exist_ok=True)
    names = [plan.name for plan in catalogue.PLANS if plan.name.startswith(tuple(asked.worlds.split(",")))]
    optima, plays = asked.out / "optima.jsonl", asked.out / "plays.jsonl"
    with get_context("spawn").Pool(asked.processes) as pool:
        known = {line["world"] for line in lines(optima)}
        done(pool, solve, [name for name in names if name not in known], optima, lambda at, of, line: print(f"<!-- {at}/{of} {line['world']} -->", flush=True))
        best = {line["world"]: line for line in lines(optima)}
        missing = [best[name] for name in names if "missing" in best[name]]
        jobs = games([name for name in names if "missing" not in best[name]], asked.procedures.split(","), [int(runs) for runs in asked.runs.split(",")], asked.seeds)
        known = {(line["world"], line["procedure"], line["runs"], line["seed"]) for line in lines(plays)}
        waiting = [(Optimum(*(best[game[0]][name] for name in Optimum._fields)), game) for game in jobs if game not in known]
        done(pool, play, waiting, plays, lambda at, of, line: print(
            f"<!-- {at}/{of} {line['world']} {line['procedure']} {line['runs']} {line.get('regret', line.get('failed'))} -->", flush=True))
    wanted = set(jobs)
    print(tables.report([line for line in lines(plays) if (line["world"], line["procedure"], line["runs"], line["seed"]) in wanted],
                        [best[name] for name in names if "missing" not in best[name]], missing))


if __name__ == "__main__":
    main()
