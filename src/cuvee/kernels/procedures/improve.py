"""The next round of a swarm: where runs are expected to improve on the best mixture so far, within a trust region.

Fits that might have been (`redrawn`) stand for what is not known. A mixture's expected improvement is the mean, over
these fits, of how far it falls below the incumbent; a batch is taken greedily, each run for what it adds to those before
it under the same fits (Ginsbourger et al. 2010; Wilson et al. 2018, arXiv 1805.10196, for draws). Values are the weighted
mean of z, in SDs of the swarm, plus the pull towards the natural shares.
"""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, rel_entr

from cuvee.kernels.procedures import draws
from cuvee.kernels.procedures.base import Round, Seen, Setting
from cuvee.kernels.procedures.optimum import fitted, objective, optimum, weighed
from cuvee.kernels.proposals import proposals
from cuvee.kernels.runs import repeat_noise, repeats
from cuvee.kernels.search import minimise
from cuvee.kernels.surrogate import Fitted

DRAWS = 64  # fits that might have been
AIMS = 16   # of these, whose optima are candidates
AROUND = 128  # random candidates around each of the incumbent and the optimum
EXPLORED = 0.5  # share of a round for mixtures that tell most of what is not known, within the trust region or not
REPEATS = 2  # runs of the optimum itself, so that noise near it is known; one where a round has fewer than 6
_POOL, _PROMISING = 10, 1 / 3  # mixtures for each that is explored, and the best share of them, which is looked at
_RADIUS, _LONGER, _SHORTER = 0.6, 1.5, 0.5  # in |sqrt(w) - sqrt(incumbent)|; after a round that improved, or did not
_STRENGTHS = (4.0, 256.0)  # candidates around a mixture: Dirichlet of this many times the domains, log-uniform
_AIM_TOLERANCE = 1e-3  # kkt of the optima of draws
_WIDE = 2.0  # explored mixtures may pass the caps by this factor, as in the first round


@dataclass(frozen=True)
class Beliefs:
    """Fits of all runs so far, and as many that might have been."""

    setting: Setting
    fits: Sequence[Fitted]
    redrawn: Sequence[Sequence[Fitted]]
    weights: np.ndarray  # (tasks,), importance of sum 1

    def pull(self, mixtures: np.ndarray) -> np.ndarray:
        return self.setting.kl * rel_entr(mixtures, self.setting.natural).sum(axis=1)

    def value(self, mixtures: np.ndarray, fits: Sequence[Fitted] | None = None) -> np.ndarray:
        """Weighted mean of z by the fits, with the pull. (n, domains) -> (n,)"""
        total = self.pull(mixtures)
        for mine, each, share in zip(self.fits, fits or self.fits, self.weights):
            if share:
                total += share * (each.predict(mixtures) - mine.anchor) / mine.spread
        return total

    def values(self, mixtures: np.ndarray) -> np.ndarray:
        """The same by every redrawn fit. -> (draws, n)"""
        return np.array([self.value(mixtures, fits) for fits in self.redrawn])


def next_round(model: str, setting: Setting, seen: Seen, count: int, rng: np.random.Generator, stop: float) -> Round:
    """`count` runs more, or none where the expected improvement is under `stop` times the noise."""
    surrogate = fitted(model, setting, seen)
    fits = surrogate.followed
    weights = weighed(setting, fits)
    used = [fit if not share else None for fit, share in zip(fits, weights)]
    redrawn = [[keep or fit.redrawn(rng) for keep, fit in zip(used, fits)] for _ in range(DRAWS)]
    beliefs = Beliefs(setting, fits, redrawn, weights)
    best = incumbent(beliefs, seen)
    radius = trust(beliefs, seen)
    goal = within(optimum(setting, surrogate, setting.risk, setting.caps, _AIM_TOLERANCE).weights, best, radius, setting)
    tried = candidates(beliefs, best, goal, radius, rng)
    values, base = beliefs.values(tried), beliefs.values(best[None])[:, 0]
    noise, error = mean_noise(beliefs, seen), mean_error(beliefs, seen)
    missed = float(np.sqrt(max(error**2 - noise**2, 0.0)))
    near = np.minimum(np.linalg.norm(np.sqrt(tried) - np.sqrt(best), axis=1) / _RADIUS, 1.0)
    gain = float(expected(base[:, None] - values, missed * near).max())
    facts = {"best": float(beliefs.value(best[None])[0]), "goal": float(beliefs.value(goal[None])[0]), "expected_improvement": gain,
             "noise": noise, "missed": missed, "radius": radius}
    if gain < stop * noise:
        return Round.ended(len(best), f"the expected improvement, {gain:.3g}, is under {stop:g} of the noise of a run, {noise:.3g} SDs of the swarm", facts)
    same = min(REPEATS if count >= 6 else 1, count)
    explored = max(min(int(EXPLORED * count), count - same - 1), 0)
    chosen = batch(values, np.minimum(base, beliefs.values(goal[None])[:, 0]), count - same - explored)
    mixtures = np.vstack([np.tile(goal, (same, 1)), tried[chosen], explore(beliefs, explored, rng)])
    kinds = ("optimum",) * same + ("improve",) * len(chosen) + ("explore",) * explored
    return Round(mixtures, kinds, facts)


def expected(gains: np.ndarray, missed: np.ndarray) -> np.ndarray:
    """Mean over draws of E max(0, gain + missed N(0, 1)). (draws, n), (n,) -> (n,)

    `missed` is what the fits do not see: a fit that has shrunk to a constant is sure that nothing can be gained.
    """
    size = np.maximum(missed, 1e-12)
    scaled = gains / size
    return size * (np.exp(-np.minimum(scaled**2 / 2, 700)) / np.sqrt(2 * np.pi) + scaled * ndtr(scaled)).mean(axis=0)


def incumbent(beliefs: Beliefs, seen: Seen) -> np.ndarray:
    """Of the mixtures that were tried, or the natural one, the best by the fits under the caps. (domains,)"""
    setting = beliefs.setting
    tried = np.unique(np.vstack([seen.weights, setting.natural]), axis=0)
    tried = draws.projected(tried, setting)
    return tried[beliefs.value(tried).argmin()]


def trust(beliefs: Beliefs, seen: Seen) -> float:
    """Radius of the trust region: longer after each round whose mixtures beat all earlier ones by the fits, else shorter."""
    values, radius = beliefs.value(draws.projected(seen.weights, beliefs.setting)), _RADIUS
    for number in range(1, seen.asked):
        improved = values[seen.rounds == number].min() < values[seen.rounds < number].min()
        radius *= _LONGER if improved else _SHORTER
    return radius


def within(mixture: np.ndarray, centre: np.ndarray, radius: float, setting: Setting) -> np.ndarray:
    """The mixture, or the point on its way from `centre` that lies `radius` away in sqrt(weights); (domains,)"""
    away = float(np.linalg.norm(np.sqrt(mixture) - np.sqrt(centre)))
    if away <= radius:
        return mixture
    share = radius / away
    between = ((1 - share) * np.sqrt(centre) + share * np.sqrt(mixture)) ** 2
    return draws.projected((between / between.sum())[None], setting)[0]


def candidates(beliefs: Beliefs, best: np.ndarray, goal: np.ndarray, radius: float, rng: np.random.Generator) -> np.ndarray:
    """Optima of redrawn fits, and random mixtures around the incumbent and the optimum, all in the trust region. -> (n, domains)"""
    setting = beliefs.setting
    aims = [minimise(objective(setting, fits, 0.0), np.vstack([goal]), setting.caps, _AIM_TOLERANCE, groups=setting.limits).weights
            for fits in beliefs.redrawn[:AIMS]]
    strengths = len(best) * np.exp(rng.uniform(*np.log(_STRENGTHS), AROUND))
    around = [draws.projected(draws.dirichlet(centre, strengths, rng), setting) for centre in (best, goal)]
    return np.array([within(each, best, radius, setting) for each in np.vstack([aims, *around])])


def batch(values: np.ndarray, base: np.ndarray, count: int) -> list[int]:
    """Candidates taken one by one, each for its expected improvement on all before it. values: (draws, n); base: (draws,)"""
    chosen: list[int] = []
    for _ in range(count):
        gains = np.maximum(base[:, None] - values, 0.0).mean(axis=0)
        gains[chosen] = -1.0
        chosen.append(int(gains.argmax()))
        base = np.minimum(base, values[:, chosen[-1]])
    return chosen


def explore(beliefs: Beliefs, count: int, rng: np.random.Generator) -> np.ndarray:
    """Mixtures like those of the first round, each the one that the redrawn fits disagree on most given those before it.

    Of the better third by the fits: what is far from any good mixture would bend laws that are not the true ones. Pivoted
    Cholesky of the draws' covariance. -> (count, domains)
    """
    setting = beliefs.setting
    if not count:
        return np.zeros((0, len(setting.tokens)))
    wide = np.minimum(_WIDE * setting.caps, 1.0)
    found = proposals(setting.natural, setting.topics, setting.bands, _POOL * count, wide, rng)
    found = found[np.argsort(beliefs.value(found), kind="stable")[:max(count, int(_PROMISING * len(found)))]]
    left = beliefs.values(found)
    left = left - left.mean(axis=0)
    chosen: list[int] = []
    for _ in range(count):
        size = (left ** 2).sum(axis=0)
        size[chosen] = -1.0
        chosen.append(int(size.argmax()))
        towards = left[:, chosen[-1]] / (np.linalg.norm(left[:, chosen[-1]]) or 1.0)
        left = left - np.outer(towards, towards @ left)
    return found[chosen]


def mean_noise(beliefs: Beliefs, seen: Seen) -> float:
    """SD of the weighted mean z of runs of one mixture; 0 without repeats. Runs that lack a score which counts are left out."""
    whole, scores, scale = _counted(beliefs, seen)
    return repeat_noise(scores @ scale, repeats(seen.weights[whole]))


def mean_error(beliefs: Beliefs, seen: Seen) -> float:
    """RMS of the weighted mean z of runs less what is predicted of them out of fold."""
    whole, scores, scale = _counted(beliefs, seen)
    held = np.column_stack([fit.out_of_fold for fit, share in zip(beliefs.fits, beliefs.weights) if share])[whole]
    return float(np.sqrt((((scores - held) @ scale) ** 2).mean()))


def _counted(beliefs: Beliefs, seen: Seen) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-> runs that have every score which counts, bool (runs,); these scores (whole, tasks); what a unit of each is in mean z (tasks,)"""
    counts = beliefs.weights > 0
    whole = np.isfinite(seen.scores[:, counts]).all(axis=1)
    spread = np.array([fit.spread for fit, used in zip(beliefs.fits, counts) if used])
    return whole, seen.scores[whole][:, counts], beliefs.weights[counts] / spread
