"""The law of repeated data (Muennighoff et al. 2023, arXiv 2305.16264) fitted again to its published losses, and how well it is known.

    python benchmarks/data_constrained.py --data FILE [--draws 200]

FILE: c4_val_losses.csv, columns seed, params, tokens, unique_tokens, val_loss: 289 trainings of up to 8.7 B parameters on C4
(github.com/huggingface/datablations @ 1370131, plotstables/return.ipynb).

loss = E + A / N'^alpha + B / D'^alpha, D' = U (1 + R (1 - exp(-(passes - 1) / R))), passes = tokens / U, and N' likewise of the
parameters beyond those that U tokens can use, with a constant of their own: R*_D and R*_N of the paper. Huber's loss on the
logarithms at .001; intervals by resampling all runs of one size of model and of data together, 90 %. A, B, E and alpha are fitted
with the two constants, or before them to the runs of one pass, as the paper did.
"""
import argparse
import csv
import os
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from scipy.optimize import least_squares  # noqa: E402

PUBLISHED = np.array([6.255414, 7.3049974, 0.6254804, 0.3526596])  # log A, log B, log E, alpha: section 6 and the notebook
PUBLISHED_R = np.log([5.309743, 15.387756])  # R*_N, R*_D
STARTS = ((5.0, 15.0), (1.0, 5.0), (20.0, 50.0))  # R*_N, R*_D
BOUNDS = np.log([0.05, 1e4])
HUBER = 1e-3


class Trainings(NamedTuple):
    """All (runs,)"""

    params: np.ndarray
    tokens: np.ndarray
    unique: np.ndarray
    loss: np.ndarray

    def take(self, rows):
        return Trainings(*(column[rows] for column in self))

    @property
    def passes(self):
        return self.tokens / self.unique


def read(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    found = Trainings(*(np.array([float(row[name]) for row in rows]) for name in ("params", "tokens", "unique_tokens", "val_loss")))
    return found.take(np.isfinite(found.loss))


def saturated(unique, repeats, constant):
    return unique * (1 + constant * -np.expm1(-repeats / constant))


def predicted(law, constants, runs):
    """law: log A, log B, log E, alpha; constants: log R*_N, log R*_D -> log loss (runs,)"""
    a, b, e, alpha = law
    usable = np.minimum(np.exp((a - b) / alpha) * runs.unique, runs.params)  # best size for U tokens, (A / B)^(1 / alpha) U where alpha = beta
    used = saturated(usable, runs.params / usable - 1, np.exp(constants[0]))
    seen = saturated(runs.unique, np.maximum(runs.passes - 1, 0.0), np.exp(constants[1]))
    return np.logaddexp(np.logaddexp(a - alpha * np.log(used), b - alpha * np.log(seen)), e)


def one_pass(runs):
    """The four other numbers by the runs that repeat nothing. -> (4,)"""
    once = runs.take(runs.passes <= 1)
    best = least_squares(lambda x: np.logaddexp(np.logaddexp(x[0] - x[3] * np.log(once.params), x[1] - x[3] * np.log(once.tokens)), x[2])
                         - np.log(once.loss), PUBLISHED, bounds=([-5, -5, -5, 0.05], [30, 30, 2, 1.5]), loss="huber", f_scale=HUBER)
    return best.x


def fit(runs, law=None, starts=STARTS):
    """-> law (4,), constants (2,), root mean square of the errors in log loss; `law` given is held"""
    best = None
    for start in starts:
        first = np.log(start) if law is not None else np.r_[PUBLISHED, np.log(start)]
        low, high = np.full(len(first), -np.inf), np.full(len(first), np.inf)
        low[-2:], high[-2:] = BOUNDS
        if law is None:
            low[3], high[3] = 0.05, 1.5
        found = least_squares(lambda x: predicted(x[:4] if law is None else law, x[-2:], runs) - np.log(runs.loss), first,
                              bounds=(low, high), loss="huber", f_scale=HUBER)
        best = found if best is None or found.cost < best.cost else best
    return (best.x[:4] if law is None else law), best.x[-2:], float(np.sqrt((best.fun ** 2).mean()))


def interval(runs, before, draws, rng):
    """90 % of R*_N and R*_D over bootstrap draws of whole configurations. -> (2, 2) low and high"""
    groups = np.unique(np.column_stack([runs.params, runs.unique]), axis=0, return_inverse=True)[1].reshape(-1)
    members = [np.flatnonzero(groups == each) for each in range(groups.max() + 1)]
    found = []
    for _ in range(draws):
        rows = np.concatenate([members[each] for each in rng.integers(0, len(members), len(members))])
        some = runs.take(rows)
        found.append(np.exp(fit(some, one_pass(some) if before else None, STARTS[:1])[1]))
    return np.quantile(found, [0.05, 0.95], axis=0)


def never_worse(runs):
    """Runs that no shorter training of the same model on the same data beats: those before overfitting."""
    keep = np.ones(len(runs.loss), bool)
    for row in range(len(keep)):
        same = (runs.params == runs.params[row]) & (runs.unique == runs.unique[row]) & (runs.tokens < runs.tokens[row])
        keep[row] = not (runs.loss[same] < runs.loss[row]).any()
    return keep


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", default=os.environ.get("CUVEE_SHARED", "../shared") + "/data/datablations/c4_val_losses.csv")
    ask.add_argument("--draws", type=int, default=200)
    asked = ask.parse_args()
    if not Path(asked.data).is_file():
        print(f"no file {asked.data}; name the CSV of losses with --data")
        return
    runs = read(asked.data)
    print("| runs | count | the other four numbers | R*_D | 90 % | R*_N | 90 % | alpha | error in log loss |\n|---|---|---|---|---|---|---|---|---|")
    grown = runs.take(never_worse(runs))
    choices = [("all", runs), ("to 100 passes", runs.take(runs.passes <= 100)), ("to 16 passes", runs.take(runs.passes <= 16)),
               ("before overfitting", grown), ("before overfitting, to 100 passes", grown.take(grown.passes <= 100))]
    for name, some in choices:
        for before in (True, False):
            law, constants, error = fit(some, one_pass(some) if before else None)
            low, high = interval(some, before, asked.draws, np.random.default_rng(0))
            data, model = np.exp(constants[1]), np.exp(constants[0])
            print(f"| {name} | {len(some.loss)} | {'before' if before else 'together'} | {data:.1f} | {low[1]:.1f} to {high[1]:.1f} | {model:.1f} | "
                  f"{low[0]:.1f} to {high[0]:.1f} | {law[3]:.3f} | {error:.4f} |", flush=True)
    once = runs.take(runs.passes <= 1)
    gap = np.median(predicted(PUBLISHED, PUBLISHED_R, once) - np.log(once.loss))
    print(f"\nWith the published numbers, median error in log loss {gap:+.3f} over the {len(once.loss)} runs of one pass.")


if __name__ == "__main__":
    main()
