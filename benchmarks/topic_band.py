"""Topic x band beside a coefficient for each domain: how well each ranks new mixtures, by how far the truth is of that form.

    python benchmarks/topic_band.py [--seeds 6]

A known saturating law on 6 topics x 4 bands = 24 domains; gains are u_topic x v_band, v increasing, times exp(s N(0, 1)) for each
domain; scores have a noise of .2 SDs; 300 new mixtures are ranked without noise. The form is chosen by inner cross-validation.
"""
import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402

from cuvee.kernels.agreement import spearman  # noqa: E402
from cuvee.kernels.grid import Grid  # noqa: E402
from cuvee.kernels.runs import Runs  # noqa: E402
from cuvee.kernels.settings import FACTORED  # noqa: E402
from cuvee.kernels.surrogate import fit  # noqa: E402

TOPICS, BANDS, NOISE, NEW = 6, 4, 0.2, 300
GRID = Grid(np.repeat(np.arange(TOPICS), BANDS), np.tile(np.arange(BANDS), TOPICS))


def swarm(rng, gain, runs, noise):
    """-> weights (runs, domains), scores (runs,)"""
    weights = rng.dirichlet(np.full(len(gain), 0.7), runs)
    scores = 1 + np.exp(-(1 - np.exp(-((10 * weights) ** 0.8))) @ gain)
    return weights, scores + noise * scores.std() * rng.normal(size=runs)


def measure(seed, spread, runs):
    """-> Spearman with the grid and without, whether the form was taken, and with deviations"""
    rng = np.random.default_rng(seed)
    gain = np.outer(rng.gamma(1.0, 0.4, TOPICS), np.cumsum(rng.gamma(1.0, 0.4, BANDS))).ravel() * np.exp(spread * rng.normal(size=TOPICS * BANDS))
    weights, scores = swarm(rng, gain, runs, NOISE)
    new, truth = swarm(rng, gain, NEW, 0.0)
    fits = [fit("saturating", Runs(weights, grid=grid), scores) for grid in (GRID, None)]
    taken = fits[0].settings["form"] == FACTORED
    return [*(spearman(fitted.predict(new), truth) for fitted in fits), taken, taken and fits[0].settings["deviation"] is not None]


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--seeds", type=int, default=6)
    seeds = ask.parse_args().seeds
    print("| s | runs | chosen by cross-validation | each domain alone | topic x band taken | with deviations |\n|---|---|---|---|---|---|")
    for spread in (0.0, 0.4, 0.8, 1.5):
        for runs in (30, 60, 150):
            found = np.array([measure(seed, spread, runs) for seed in range(seeds)], float)
            print(f"| {spread:g} | {runs} | {found[:, 0].mean():.3f} | {found[:, 1].mean():.3f} | {int(found[:, 2].sum())} of {seeds} | {int(found[:, 3].sum())} |",
                  flush=True)


if __name__ == "__main__":
    main()
