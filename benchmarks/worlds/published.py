"""Laws fitted to the published RegMix runs (arXiv 2407.01492; github.com/sail-sg/regmix, MIT), by code that is not the package's.

17 domains of the Pile, 13 losses; `1m`: 512 runs of 1M models, `60m`: 256 runs of 60M models. As fitted, a law is the truth.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from cuvee.tabular import read_mixtures, read_scores

FILES = {"1m": ("train_mixture_1m.csv", "train_pile_loss_1m.csv"), "60m": ("test_mixture_60m.csv", "test_pile_loss_60m.csv")}
# GiB of text (Gao et al. 2020, The Pile, arXiv 2101.00027, table 1, raw size)
SIZES = {"pile_cc": 227.12, "pubmed_central": 90.27, "arxiv": 56.21, "github": 95.16, "freelaw": 51.15, "stackexchange": 32.20,
         "uspto_backgrounds": 22.90, "pubmed_abstracts": 19.26, "gutenberg_pg_19": 10.88, "wikipedia_en": 6.38, "dm_mathematics": 7.75,
         "ubuntu_irc": 5.52, "europarl": 4.59, "hackernews": 3.90, "philpapers": 2.38, "nih_exporter": 1.89, "enron_emails": 0.88}
_SEARCHED = 128  # runs on which the settings of a Gaussian process are found; all runs are then fitted


class Missing(Exception):
    """The data or a package that a world is made from is not here; says which."""


@dataclass(frozen=True)
class Swarm:
    sizes: np.ndarray    # (domains,), GiB
    tasks: list[str]
    weights: np.ndarray  # (runs, domains), sum 1
    scores: np.ndarray   # (runs, tasks), nats


@cache
def swarm(size: str) -> Swarm:
    folder = Path(os.environ.get("CUVEE_SHARED", Path(__file__).parents[3] / "shared")) / "data" / "regmix"
    if not folder.is_dir():
        raise Missing(f"no RegMix runs in {folder}; set CUVEE_SHARED to the folder that holds data/regmix")
    mixtures, losses = (str(folder / name) for name in FILES[size])
    rows, weights = read_mixtures(mixtures)
    tasks, scores = read_scores(losses, rows.keys, mixtures)
    return Swarm(np.array([SIZES[name.removeprefix("train_the_pile_")] for name in rows.columns]), tasks, weights, scores)


@dataclass(frozen=True)
class LogLinear:
    """c_t + exp(k_t + w b_t) (Data Mixing Laws, arXiv 2403.16952), least squares on the losses."""

    floor: np.ndarray      # c, (tasks,)
    intercept: np.ndarray  # k, (tasks,)
    slopes: np.ndarray     # b, (domains, tasks)

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        return self.floor + np.exp(self.intercept + weights @ self.slopes)


@dataclass(frozen=True)
class Trees:
    """Boosted trees with the settings of RegMix's code: 1,000 rounds at .01, leaves of 20; a step function, as it is."""

    boosters: list

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        return np.column_stack([each.predict(weights, num_threads=1) for each in self.boosters])


@dataclass(frozen=True)
class Gaussian:
    """Mean of Gaussian processes on log(1 + w / .01), Matern 5/2 with a length for each domain (ours is another kernel on sqrt(w))."""

    points: np.ndarray   # log axes, (runs, domains)
    middle: np.ndarray   # (tasks,)
    lengths: np.ndarray  # (tasks, domains)
    dual: np.ndarray     # (runs, tasks)

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        at = _log_axes(weights)
        found = [_matern(cdist(at / length, self.points / length)) @ dual for length, dual in zip(self.lengths, self.dual.T)]
        return self.middle + np.column_stack(found)


def _log_axes(weights: np.ndarray) -> np.ndarray:
    return np.log1p(weights / 0.01)


def _matern(distance: np.ndarray) -> np.ndarray:
    far = np.sqrt(5.0) * distance
    return (1 + far + far ** 2 / 3) * np.exp(-far)


@cache
def loglinear(size: str) -> LogLinear:
    runs = swarm(size)
    fits = [_loglinear(runs.weights, scores) for scores in runs.scores.T]
    return LogLinear(np.array([fit[0] for fit in fits]), np.array([fit[1] for fit in fits]), np.array([fit[2:] for fit in fits]).T)


def _loglinear(weights: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """-> c, k, b; c between 0 and the best loss. The slopes are of least size, since weights sum to 1."""
    best = float(scores.min())
    rows = np.column_stack([np.ones(len(weights)), weights])
    start = np.r_[0.8 * best, np.linalg.lstsq(rows, np.log(scores - 0.8 * best), rcond=None)[0]]

    def residual(values):
        return np.r_[values[0] + np.exp(rows @ values[1:]) - scores, 1e-4 * values[1:]]

    def slope(values):
        top = np.column_stack([np.ones(len(rows)), np.exp(rows @ values[1:])[:, None] * rows])
        return np.vstack([top, 1e-4 * np.eye(len(values))[1:]])

    low, high = np.full(len(start), -np.inf), np.full(len(start), np.inf)
    low[0], high[0] = 0.0, best
    return least_squares(residual, start, slope, bounds=(low, high)).x


@cache
def trees(size: str) -> Trees:
    try:
        import lightgbm
    except ImportError:
        raise Missing("lightgbm is not installed; pip install 'cuvee[lightgbm]' adds it") from None
    runs = swarm(size)
    settings = {"objective": "l2", "learning_rate": 0.01, "num_threads": 1, "deterministic": True, "force_row_wise": True, "seed": 0, "verbose": -1}
    return Trees([lightgbm.train(settings, lightgbm.Dataset(runs.weights, scores, params={"verbose": -1}), 1000) for scores in runs.scores.T])


@cache
def gaussian(size: str) -> Gaussian:
    runs = swarm(size)
    points, middle = _log_axes(runs.weights), runs.scores.mean(axis=0)
    some = np.random.default_rng(0).permutation(len(points))[:_SEARCHED]
    lengths, dual = [], []
    for scores in (runs.scores - middle).T:
        spread = scores.std()
        kernel = ConstantKernel(1.0) * Matern(np.ones(points.shape[1]), (0.05, 100.0), nu=2.5) + WhiteKernel(0.01, (1e-6, 1.0))
        with warnings.catch_warnings():  # a length at its upper bound is a domain that does not matter to the task
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = GaussianProcessRegressor(kernel).fit(points[some], scores[some] / spread).kernel_
        lengths.append(found.k1.k2.length_scale)
        inner = found.k1.k1.constant_value * _matern(cdist(points / lengths[-1], points / lengths[-1]))
        dual.append(found.k1.k1.constant_value * np.linalg.solve(inner + found.k2.noise_level * np.eye(len(points)), scores))
    return Gaussian(points, middle, np.array(lengths), np.array(dual).T)


FITS: dict[str, Callable[[str], object]] = {"loglinear": loglinear, "trees": trees, "gp": gaussian}
