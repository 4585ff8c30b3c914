"""How far the verdict of `validate` can be trusted, where the truth is known: the gate on optimism, the verdict, the gain in compute.

    python benchmarks/validation.py [--runs 48] [--seeds 1] [--studies 200]

Some minutes on one core. Worlds of the arena whose data are not here are left out. Prints Markdown.
"""

import argparse
import os
import sys
from collections import Counter
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from worlds import catalogue, published  # noqa: E402
from worlds.play import setting  # noqa: E402

from cuvee.kernels import scaling  # noqa: E402
from cuvee.kernels.procedures.base import Seen  # noqa: E402
from cuvee.kernels.procedures.ours import Ours  # noqa: E402
from cuvee.kernels.proposals import LEAST_ROUND  # noqa: E402
from cuvee.kernels.runs import repeat_noise, repeats  # noqa: E402
from cuvee.steps.mixing import verdict  # noqa: E402

DOMAINS = 24  # worlds of more are left out, for time
COMPUTE = np.array([1.0, 4.0, 12.0])  # of the three sizes; about that of the default sizes
LAWS = {"A C^-.1": scaling.Curve(0.0, 3.0, 0.1, 1.0), "A C^-.2": scaling.Curve(0.0, 3.0, 0.2, 1.0), "1.5 + A C^-.3": scaling.Curve(1.5, 2.0, 0.3, 1.0)}


def foreseen(world, runs, seed, risk):
    """-> the optimism of our proposal after one round on this world, and its true difference from proportional"""
    told, rng = replace(setting(world, runs), risk=risk), np.random.default_rng([world.seed, 7, seed])
    procedure, seen = Ours(), Seen.nothing(len(world.tokens), len(world.importance))
    while len(asked := procedure.ask(told, seen, rng)):
        seen = seen.joined(asked, world.observe(asked, rng))
    answer = procedure.answer(told, seen, rng)
    names = [str(task) for task in range(len(world.importance))]
    natural, groups = answer.surrogate.predict(world.natural[None])[0], repeats(seen.weights)
    rows = zip(names, answer.predicted.tolist(), natural.tolist(), answer.sd.tolist())
    mixture = {"tasks": [{"name": name, "predicted": mine, "proportional": base, "sd": sd} for name, mine, base, sd in rows]}
    held = np.column_stack([fit.out_of_fold for fit in answer.surrogate.fits])
    fit = {"tasks": [{"name": name, "noise_sd": repeat_noise(seen.scores[:, at], groups)} for at, name in enumerate(names)],
           "runs": [{"predicted": dict(zip(names, a)), "measured": dict(zip(names, b))} for a, b in zip(held.tolist(), seen.scores.tolist())]}
    base, mine = (world.observe(np.tile(each, (5, 1)), rng) @ world.importance for each in (world.natural, answer.weights))
    expected = verdict.prediction(mixture, fit, dict(zip(names, world.importance.tolist())))
    true = float(((world.truth(answer.weights[None]) - world.truth(world.natural[None])) @ world.importance)[0])
    return verdict.optimism(expected, verdict.paired(base, mine)), true


def gate(runs, seeds, louder=1.0, risk=1.0):
    print(f"\n### The gate on optimism: {runs} runs in one round, noise {louder:g} times that of the world, caution {risk:g}\n\nOptimism in standard errors: measured less predicted difference at the proxy's size. "
          "The gate fires over 2.\n\n| worlds | games | median optimism | largest | fires | better than proportional in truth |\n|---|---|---|---|---|---|")
    families = {}
    for plan in catalogue.FIRST:
        if plan.domains <= DOMAINS:
            try:
                world = catalogue.named(plan.name)
                world = replace(world, noise=louder * world.noise)
            except published.Missing as error:
                print(f"{plan.name} left out: {error}", file=sys.stderr)
                continue
            families.setdefault(plan.family, []).extend(foreseen(world, runs, seed, risk) for seed in range(seeds))
    families["**all**"] = sum(families.values(), [])
    for family, games in families.items():
        over = np.array([game[0]["optimism"] / game[0]["se"] for game in games])
        print(f"| {family} | {len(games)} | {np.median(over):+.2f} | {over.max():+.2f} | {(over > 2).mean():.0%} | {np.mean([game[1] < 0 for game in games]):.0%} |")


def verdicts(studies, rng):
    print("\n### The verdict, three pairs at two larger sizes, five at the proxy's\n\nTrue difference at every size, in SDs of one pair's difference.\n\n"
          "| true difference | ship | no difference | hold |\n|---|---|---|---|")
    for true in (0.0, -0.5, -1.0, -2.0, -4.0, 2.0):
        words = Counter()
        for _ in range(10 * studies):
            sizes = [{"depth": 0, "tokens": 0, "larger": pairs == 3, "tasks": [], "proposal": verdict.paired(np.zeros(pairs), true + rng.standard_normal(pairs))}
                     for pairs in (5, 3, 3)]
            words[verdict.judge(sizes, None)[0]] += 1
        print(f"| {true:+g} | " + " | ".join(f"{words[word] / (10 * studies):.1%}" for word in ("ship", "no difference", "hold")) + " |")


def gains(studies, rng):
    print("\n### Compute-equivalent gain at the largest of three sizes\n\nProportional follows the law; the proposal is worth the true gain. Noise: SD of a run, "
          "of which a pair's difference has half. Nominal 90 %.\n\n| law | noise | true gain | median | interval holds it | floor taken | no upper limit |\n|---|---|---|---|---|---|---|")
    for name, law in LAWS.items():
        for noise, gain in ((0.003, 1.3), (0.003, 2.0), (0.01, 2.0)):
            outcomes = [study(law, noise, gain, rng) for _ in range(studies)]
            known = [each for each in outcomes if each is not None]
            held, middle, floored, open_ = zip(*known)
            print(f"| {name} | {noise} | {gain} | {np.median(middle):.2f} | {np.mean(held):.0%} | {np.mean(floored):.0%} | {np.mean(open_):.0%} |")


def study(law, noise, gain, rng):
    """-> whether the interval holds the gain, the gain found, whether a floor was taken, whether there is no upper limit; None without a curve"""
    true = law.loss(gain * COMPUTE[-1]) - law.loss(COMPUTE[-1])
    scores = [law.loss(at) + noise * rng.standard_normal(count) for at, count in zip(COMPUTE, (5, 3, 3))]
    points = scaling.Points(COMPUTE, np.array([each.mean() for each in scores]), scaling.pooled_error(scores))
    chosen = scaling.choose(points)
    if chosen is None:
        return None
    gap = verdict.paired(np.zeros(3), true + noise / 2 * rng.standard_normal(3))
    low, high = scaling.gain_interval(scaling.redrawn(points, chosen[1], 100, rng), COMPUTE[-1], gap["difference"], gap["se"], 2, rng)
    return low <= gain <= high, chosen[0].gain(COMPUTE[-1], gap["difference"]), chosen[1], not np.isfinite(high)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=48, help="of each swarm")
    parser.add_argument("--seeds", type=int, default=1, help="swarms of each world")
    parser.add_argument("--studies", type=int, default=200, help="made for each row of the other tables")
    chosen = parser.parse_args()
    rng = np.random.default_rng(0)
    verdicts(chosen.studies, rng)
    gains(chosen.studies, rng)
    gate(chosen.runs, chosen.seeds)
    gate(LEAST_ROUND + 10, chosen.seeds, louder=4.0, risk=0.0)


if __name__ == "__main__":
    main()
