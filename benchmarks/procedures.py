"""The procedures of other papers beside what the papers say of them, and what a question to each procedure costs.

    python benchmarks/procedures.py [--data FOLDER] [--laws 20] [--procedures ours,ours-rounds]

FOLDER: the CSV files of RegMix (arXiv 2407.01492; github.com/sail-sg/regmix, data/); without it that table is left out.
The other tables are on saturating laws drawn at random, 17 domains and 7 tasks, of which the optimum is known, and on
log-linear laws. `--procedures` plays these alone, and leaves the tables on single papers out. One thread. Prints Markdown.
"""

import argparse
import os
import time
from itertools import product
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from surrogates import PILE_CC, read  # noqa: E402

from cuvee.kernels.agreement import spearman  # noqa: E402
from cuvee.kernels.procedures import regmix  # noqa: E402
from cuvee.kernels.procedures.base import Seen, Setting  # noqa: E402
from cuvee.kernels.procedures.boosted import boosted, target  # noqa: E402
from cuvee.kernels.procedures.climb import Climb, predictor  # noqa: E402
from cuvee.kernels.procedures.registry import PROCEDURES  # noqa: E402
from cuvee.kernels.runs import Runs  # noqa: E402
from cuvee.kernels.search import minimise  # noqa: E402
from cuvee.kernels.surrogate import fit  # noqa: E402

DOMAINS, TASKS, SNR = 17, 7, 5.0
PAPER = {"RegMix's trees": (".98", ".99"), "linear (RegMix)": (".90", ".89"), "CLIMB's trees": ("", ""), "log-linear law (Olmix)": ("", "")}


def ranks(folder):
    """Rank correlation of Pile-CC on the 256 test mixtures, from 512 runs."""
    (_, tasks, weights, scores), tests = read(folder, "train", "1m"), [read(folder, "test", size) for size in ("1m", "60m")]
    place = tasks.index(PILE_CC)
    setting = Setting(np.ones(weights.shape[1]), 1.0, 99.0, np.eye(len(tasks))[place], np.arange(weights.shape[1]), np.zeros(weights.shape[1], int))
    seen = Seen(weights, scores, np.zeros(len(weights), int))
    rows, values = target(setting, seen)
    plain = {name: fit(name, Runs(weights), scores[:, place]) for name in ("linear", "loglinear")}
    trees = {"RegMix's trees": boosted(weights[rows], values, regmix.settings(len(rows))), "CLIMB's trees": predictor(setting, seen, np.random.default_rng(0))}
    models = {"linear (RegMix)": plain["linear"], "log-linear law (Olmix)": plain["loglinear"], **trees}
    print("| predictor of Pile-CC, 512 runs | Spearman, 1M | paper | Spearman, 60M | paper |\n|---|---|---|---|---|")
    for name, paper in PAPER.items():
        found = [spearman(models[name].predict(test[2]), test[3][:, place]) for test in tests]
        print(f"| {name} | {found[0]:.3f} | {paper[0]} | {found[1]:.3f} | {paper[1]} |", flush=True)


class Law:
    """Seven tasks that saturate in the epochs of 17 domains, or are log-linear in their weights; noise of a fifth of the spread."""

    def __init__(self, seed, linear=False):
        rng = np.random.default_rng(seed)
        tokens = rng.lognormal(0, 1, DOMAINS)
        self.linear, self.gain = linear, rng.gamma(0.3, 1.0, (TASKS, DOMAINS))
        self.speed = 0.5 if linear else np.exp(rng.normal(-0.3, 0.5))
        self.setting = Setting(tokens, tokens.sum(), 8.0, np.full(TASKS, 1 / TASKS), np.arange(DOMAINS), np.zeros(DOMAINS, int))
        drawn = rng.dirichlet(DOMAINS * self.setting.natural, 512)
        self.middle, self.spread = self.truth(drawn).mean(axis=0), self.truth(drawn).std(axis=0)
        starts = np.vstack([self.setting.natural, drawn[self.values(drawn).argsort()[:4]]])
        self.best = minimise(self.objective, starts, self.setting.caps, 1e-5).value

    def truth(self, weights):
        seen = weights / self.setting.natural
        features = 4 * weights if self.linear else 1 - np.exp(-((self.speed * seen) ** 0.7))
        return 1 + np.exp(0.5 - features @ self.gain.T)

    def values(self, weights):
        return ((self.truth(weights) - self.middle) / self.spread) @ self.setting.importance

    def objective(self, weights):
        step = 1e-6
        around = weights + step * np.vstack([np.zeros(DOMAINS), np.eye(DOMAINS)])
        found = self.values(around)
        return float(found[0]), (found[1:] - found[0]) / step

    def play(self, procedure, runs, seed, noise=1 / SNR):
        """-> share of the gain over natural that is lost, seconds of the longest ask, seconds of the answer, runs"""
        setting = Setting(**{**vars_of(self.setting), "runs": runs})
        rng, chance, longest = np.random.default_rng(seed), np.random.default_rng(seed + 1), 0.0
        seen = Seen.nothing(DOMAINS, TASKS)
        while True:
            start = time.perf_counter()
            asked = procedure.ask(setting, seen, rng)
            longest = max(longest, time.perf_counter() - start)
            if not len(asked):
                break
            seen = seen.joined(asked, self.truth(asked) + noise * self.spread * chance.standard_normal((len(asked), TASKS)))
        start = time.perf_counter()
        answer = procedure.answer(setting, seen, rng).weights
        natural = self.values(setting.natural[None])[0]
        return (self.values(answer[None])[0] - self.best) / (natural - self.best), longest, time.perf_counter() - start, len(seen.weights)


def vars_of(setting):
    return {name: getattr(setting, name) for name in Setting.__dataclass_fields__}


class OneRound(Climb):
    """CLIMB with all its runs in the first round."""

    def sizes(self, setting):
        return [setting.runs or 112]


class Even(Climb):
    """CLIMB with as many runs in each round."""

    def sizes(self, setting):
        return [38, 37, 37]


def compared(laws, runs, players, noise=1 / SNR):
    """Each player on each law -> (players, laws, 4)"""
    return np.array([[law.play(player, runs, seed, noise) for seed, law in enumerate(laws)] for player in players.values()])


def table(found, players):
    print("| procedure | runs | gain lost, median | quartiles | longest ask, s | answer, s |\n|---|---|---|---|---|---|")
    for name, rows in zip(players, found):
        low, middle, high = np.quantile(rows[:, 0], [0.25, 0.5, 0.75])
        print(f"| {name} | {rows[:, 3].mean():.0f} | {middle:.3f} | {low:.3f} to {high:.3f} | {rows[:, 1].max():.1f} | {rows[:, 2].max():.1f} |", flush=True)


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", type=Path)
    ask.add_argument("--laws", type=int, default=20)
    ask.add_argument("--procedures")
    asked = ask.parse_args()
    if asked.data:
        ranks(asked.data)
    players = {name: PROCEDURES[name]() for name in (asked.procedures.split(",") if asked.procedures else PROCEDURES)}
    for kind, runs in product(("saturating",), (64, 112)):
        laws = [Law(seed) for seed in range(asked.laws)]
        print(f"\n{asked.laws} {kind} laws, {DOMAINS} domains, {TASKS} tasks, signal to noise {SNR:g}, {runs} runs:\n")
        table(compared(laws, runs, players), players)
    if asked.procedures:
        return
    print("\nCLIMB's 112 runs in three rounds of 4:2:1, in one, and in three alike (the paper: 4:2:1 is best):\n")
    rounds = {"4:2:1": Climb(), "one round": OneRound(), "alike": Even()}
    table(compared(laws, 112, rounds), rounds)
    print("\nOlmix on log-linear laws almost without noise (its law is exact there; the pull and the noise are what is lost):\n")
    exact = {"olmix": PROCEDURES["olmix"]()}
    table(compared([Law(seed, linear=True) for seed in range(asked.laws)], 112, exact, 1e-3), exact)


if __name__ == "__main__":
    main()
