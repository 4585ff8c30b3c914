"""How well each surrogate model ranks and covers new mixtures of a published swarm, how long a fit takes, and how exact the search is.

    python benchmarks/surrogates.py --data FOLDER [--models ensemble,saturating] [--sizes 64,512] [--wide] [--threads 2]

FOLDER: the CSV files of RegMix (arXiv 2407.01492; github.com/sail-sg/regmix, data/): 512 runs of 1M models on 17 domains with
13 losses, and 256 test mixtures at 1M and 60M. Three seeded subsets for each size under 512. A thread fits a task at a time.
"""

import argparse
import os
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from scipy.optimize import minimize  # noqa: E402

from cuvee.csv_files import read_mixtures, read_scores  # noqa: E402
from cuvee.kernels.agreement import spearman  # noqa: E402
from cuvee.kernels.grid import Grid  # noqa: E402
from cuvee.kernels.runs import Runs  # noqa: E402
from cuvee.kernels.search import minimise, mixture_objective  # noqa: E402
from cuvee.kernels.settings import FACTORED  # noqa: E402
from cuvee.kernels.simplex import project_kl  # noqa: E402
from cuvee.kernels.surrogate import MODELS, fit, fit_tasks, form  # noqa: E402

SIZES = (32, 64, 128, 256, 512)
SUBSETS = 3
NINETY = 1.645  # SDs on either side of 90 %
PILE_CC = "metric/the_pile_pile_cc_val_loss"


def read(folder, name, size):
    """-> domains, tasks, weights, scores"""
    mixtures = str(folder / f"{name}_mixture_{size}.csv")
    rows, weights = read_mixtures(mixtures)
    tasks, scores = read_scores(str(folder / f"{name}_pile_loss_{size}.csv"), rows.keys, mixtures)
    return rows.columns, tasks, weights, scores


def measure(model, train, tests, rows, threads):
    """-> Spearman of the mean at 1M and 60M, of Pile-CC at both, share of scores within the 90 % interval (1M), seconds of CPU of the fit"""
    domains, tasks, weights, scores = train
    start = time.process_time()
    surrogate = fit_tasks(model, domains, tasks, Runs(weights[rows]), scores[rows], threads)
    seconds, place = time.process_time() - start, tasks.index(PILE_CC)
    predicted = [surrogate.predict(test[2]) for test in tests]
    means = [spearman(found.mean(axis=1), test[3].mean(axis=1)) for found, test in zip(predicted, tests)]
    crawl = [spearman(found[:, place], test[3][:, place]) for found, test in zip(predicted, tests)]
    inside = np.abs(predicted[0] - tests[0][3]) < NINETY * surrogate.deviation(tests[0][2])
    return [*means, *crawl, inside.mean(), seconds]


def accuracy(folder, models, sizes, threads):
    train, tests = read(folder, "train", "1m"), [read(folder, "test", size) for size in ("1m", "60m")]
    print("| runs | model | mean, 1M | mean, 60M | Pile-CC, 1M | Pile-CC, 60M | in the 90 % interval | s of CPU a fit |\n|---|---|---|---|---|---|---|---|")
    reached = {}
    for size, model in product(sizes, models):
        subsets = [np.random.default_rng(seed).permutation(len(train[2]))[:size] for seed in range(SUBSETS if size < len(train[2]) else 1)]
        found = np.mean([measure(model, train, tests, rows, threads) for rows in subsets], axis=0)
        print(f"| {size} | {model} | {found[0]:.4f} | {found[1]:.4f} | {found[2]:.4f} | {found[3]:.4f} | {found[4]:.1%} | {found[5]:.1f} |", flush=True)
        reached[size, model] = found[:4]
    print("\n| model | furthest behind the best of a size: mean, 1M | mean, 60M | Pile-CC, 1M | Pile-CC, 60M |\n|---|---|---|---|---|")
    for model in models:
        behind = np.max([np.max([reached[size, each] for each in models], axis=0) - reached[size, model] for size in sizes], axis=0)
        print(f"| {model} | {' | '.join(f'{each:.4f}' for each in behind)} |")


def wide(threads, topics=40, bands=5, tasks=50, runs=240):
    """Seconds of a fit over many domains and tasks, with and without topics and bands, and of one solve. Half of the tasks follow a law of topic x band, the others one of each domain."""
    domains = topics * bands
    rng = np.random.default_rng(0)
    natural = rng.dirichlet(np.full(domains, 3.0))
    rate, weights = 0.5 / natural, rng.dirichlet(np.full(domains, 2.0), runs)
    swarm = Runs(weights, np.minimum(weights * rate, 1.9), rate)
    grid = Grid(np.repeat(np.arange(topics), bands), np.tile(np.arange(bands), topics))
    made = rng.gamma(0.5, 0.6, (tasks, topics))[:, grid.topics] * np.cumsum(rng.gamma(1.0, 0.3, (tasks, bands)), axis=1)[:, grid.bands]
    gains = np.where(np.arange(tasks)[:, None] < tasks // 2, made, rng.gamma(0.5, 0.5, (tasks, domains)))
    gains *= 4 / gains.sum(axis=1, keepdims=True)
    scores = np.column_stack([1 + np.exp(-(1 - np.exp(-swarm.epochs)) @ gain) for gain in gains])
    scores += 0.2 * scores.std(axis=0) * rng.normal(size=scores.shape)
    new = np.array([rng.dirichlet(np.full(domains, 2.0)) for _ in range(500)])
    truth = np.column_stack([np.exp(-(1 - np.exp(-new * rate)) @ gain) for gain in gains])
    names = [f"t{topic:02d}.q{band + 1}" for topic, band in zip(*grid)], [str(task) for task in range(tasks)]
    for model, known in (("saturating", None), ("saturating", grid), ("ensemble", grid)):
        start, spent = time.perf_counter(), time.process_time()
        fits = fit_tasks(model, *names, replace(swarm, grid=known), scores, threads).fits
        seconds, spent = time.perf_counter() - start, time.process_time() - spent
        ranks = np.array([spearman(fitted.predict(new), values) for fitted, values in zip(fits, truth.T)])
        taken = [form(fitted.to_dict()) == FACTORED for fitted in fits]
        print(f"\n{runs} runs x {domains} domains x {tasks} tasks, {threads} threads: {model} fit, {'each domain' if known is None else 'topic x band'}: "
              f"{seconds:.1f} s, {spent:.1f} of CPU; Spearman on 500 new mixtures {ranks[:tasks // 2].mean():.3f} where the law is topic x band (taken by "
              f"{sum(taken[:tasks // 2])} of {tasks // 2}), {ranks[tasks // 2:].mean():.3f} where not "
              f"({sum(taken[tasks // 2:])} of {tasks - tasks // 2})", flush=True)
        solve(mixture_objective(fits, np.full(tasks, 1 / tasks), natural, 0.05, 0.0), natural, np.minimum(2.0 / rate, 1.0))


def solve(objective, natural, caps):
    """Seconds of one search without caution, and its value less that of an exact solver, where the problem is convex."""
    start = time.perf_counter()
    found = minimise(objective, natural, caps)
    seconds = time.perf_counter() - start
    exact = minimize(objective, project_kl(natural, caps), jac=True, method="SLSQP", bounds=[(1e-12, cap) for cap in caps],
                     constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}, options={"ftol": 1e-12, "maxiter": 500})
    print(f"solve {seconds:.2f} s, {found.iterations} steps, "
          f"kkt {found.kkt:.1e}; value less SLSQP's {found.value - exact.fun:+.1e} (SLSQP {exact.message}, {exact.nit} steps)")


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", default=os.environ.get("CUVEE_SHARED", "../shared") + "/data/regmix", help="folder of RegMix's CSV files")
    ask.add_argument("--models", default=",".join(MODELS))
    ask.add_argument("--wide", action="store_true", help="240 runs x 200 domains x 50 tasks too: minutes")
    ask.add_argument("--sizes", default=",".join(map(str, SIZES)))
    ask.add_argument("--threads", type=int, default=1)
    asked = ask.parse_args()
    if not Path(asked.data).is_dir():
        print(f"no folder {asked.data}; name that of RegMix's CSV files with --data")
        return
    fit("saturating", Runs(np.random.default_rng(0).dirichlet(np.ones(3), 8)), np.arange(8.0))  # compiled before anything is timed
    accuracy(Path(asked.data), asked.models.split(","), [int(size) for size in asked.sizes.split(",")], asked.threads)
    if asked.wide:
        wide(asked.threads)


if __name__ == "__main__":
    main()
