"""The same fit where the coefficient of a domain is u_topic x v_band, v non-decreasing in quality; compiled.

So topics + bands numbers stand for topics x bands of them; harm of repetition has one coefficient for all domains.
"""
from typing import NamedTuple

import numpy as np
from numba import njit

from cuvee.kernels.grid import Grid
from cuvee.kernels.ridge import growth, moments, solve_bounded

_ALTERNATIONS = 2  # of topics and bands on the logarithms, before Gauss-Newton steps


class Factors(NamedTuple):
    """topic: (topics,) >= 0; band: (bands,) >= 0, of mean 1, non-decreasing; harm: one for every harmed domain."""

    topic: np.ndarray
    band: np.ndarray
    harm: float

    def coefficients(self, grid: Grid, harmed: int) -> np.ndarray:
        """-> (domains + harmed,)"""
        return np.concatenate([self.topic[grid.topics] * self.band[grid.bands], np.full(harmed, self.harm)])

    def jacobian(self, grid: Grid, harmed: int) -> np.ndarray:
        """d coefficients / d (topic, band, harm). -> (domains + harmed, topics + bands + 1)"""
        domains, topics = len(grid.topics), len(self.topic)
        slopes, rows = np.zeros((domains + harmed, topics + len(self.band) + 1)), np.arange(domains)
        slopes[rows, grid.topics] = self.band[grid.bands]
        slopes[rows, topics + grid.bands] = self.topic[grid.topics]
        slopes[domains:, -1] = 1.0
        return slopes


def fit_factored(features: np.ndarray, grid: Grid, scores: np.ndarray, floor: float, penalty: float, steps: int) -> tuple[float, Factors]:
    """What `fit_exponential` minimises, over coefficients of this form. features: (runs, domains + harmed) -> intercept, factors"""
    domains = len(grid.topics)
    harm = features[:, domains:].sum(axis=1)
    intercept, *factors = _fit(np.ascontiguousarray(features[:, :domains]), harm, float(features.shape[1] - domains), grid.topics, grid.bands,
                               scores, floor, penalty, steps)
    return intercept, Factors(*factors)


@njit(cache=True, nogil=True)
def _gathered(gain, factor, of, to, count):
    """Columns of `gain` times the factor of their domain's `of`, summed by its `to`. (runs, domains) -> (runs, count)"""
    out = np.zeros((len(gain), count))
    for run in range(len(gain)):
        for domain in range(gain.shape[1]):
            out[run, to[domain]] += factor[of[domain]] * gain[run, domain]
    return out


@njit(cache=True, nogil=True)
def _alternate(gain, harm, harmed, topics, bands, response, importance, penalty, topic, band, hurt):
    """Best topics and harm at these bands, then best bands at those; ridge on all coefficients. -> intercept, topic, band, hurt"""
    by_topic = np.empty((len(gain), len(topic) + 1))
    by_topic[:, :-1] = _gathered(gain, band, bands, topics, len(topic))
    by_topic[:, -1] = harm
    gram, moment, middle, level = moments(by_topic, response, importance)
    for domain in range(len(topics)):
        gram[topics[domain], topics[domain]] += penalty * band[bands[domain]] ** 2
    gram[-1, -1] += penalty * harmed
    for j in range(len(gram)):
        gram[j, j] += 1e-15
    found = np.append(topic, hurt)
    solve_bounded(gram, moment, np.zeros(len(found)), found)
    topic, hurt = found[:-1].copy(), found[-1]
    intercept = level - middle @ found
    if topic.max() == 0.0:
        return intercept, topic, np.ones(len(band)), hurt
    steps, weight = _gathered(gain, topic, topics, bands, len(band)), np.zeros(len(band))
    for domain in range(len(topics)):
        weight[bands[domain]] += topic[topics[domain]] ** 2
    for j in range(len(band) - 2, -1, -1):  # v_b = the sum of the steps up to b
        steps[:, j] += steps[:, j + 1]
        weight[j] += weight[j + 1]
    gram, moment, middle, level = moments(steps, response - hurt * harm, importance)
    for j in range(len(band)):
        for k in range(len(band)):
            gram[j, k] += penalty * weight[max(j, k)]
        gram[j, j] += 1e-15
    rise = band.copy()
    rise[1:] = np.maximum(band[1:] - band[:-1], 0.0)
    solve_bounded(gram, moment, np.zeros(len(band)), rise)
    scale = np.cumsum(rise).mean()
    if scale <= 0.0:
        return level, np.zeros(len(topic)), np.ones(len(band)), hurt
    return level - middle @ rise, topic * scale, np.cumsum(rise) / scale, hurt


@njit(cache=True, nogil=True)
def _loss(above, grown, unit, penalty, topics, bands, harmed, topic, band, hurt):
    size = harmed * hurt ** 2
    for domain in range(len(topics)):
        size += (topic[topics[domain]] * band[bands[domain]]) ** 2
    return ((above - grown) ** 2).mean() / unit + penalty * size


@njit(cache=True, nogil=True)
def _fit(gain, harm, harmed, topics, bands, scores, floor, penalty, steps):
    above = scores - floor
    unit = (above ** 2).mean() + 1e-300
    start = np.maximum(above, 0.05 * scores.std() + 1e-12)
    topic, band, hurt, intercept = np.zeros(topics.max() + 1), np.ones(bands.max() + 1), 0.0, 0.0
    for _ in range(_ALTERNATIONS):
        intercept, topic, band, hurt = _alternate(gain, harm, harmed, topics, bands, np.log(start), start ** 2, penalty, topic, band, hurt)
    sums = _gathered(gain, band, bands, topics, len(topic)) @ topic + hurt * harm
    grown = growth(sums.reshape(-1, 1), intercept, np.ones(1))
    loss = _loss(above, grown, unit, penalty, topics, bands, harmed, topic, band, hurt)
    for _ in range(steps):
        importance = grown ** 2 + 1e-12 * unit
        response = np.log(grown) + (above - grown) / grown
        goal = _alternate(gain, harm, harmed, topics, bands, response, importance, penalty * unit / importance.mean(), topic, band, hurt)
        step, before = 1.0, loss
        while step > 1e-3:
            new_intercept = intercept + step * (goal[0] - intercept)
            new_topic, new_band, new_hurt = topic + step * (goal[1] - topic), band + step * (goal[2] - band), hurt + step * (goal[3] - hurt)
            sums = _gathered(gain, new_band, bands, topics, len(topic)) @ new_topic + new_hurt * harm
            new_grown = growth(sums.reshape(-1, 1), new_intercept, np.ones(1))
            new_loss = _loss(above, new_grown, unit, penalty, topics, bands, harmed, new_topic, new_band, new_hurt)
            if new_loss <= loss:
                intercept, topic, band, hurt, grown, loss = new_intercept, new_topic, new_band, new_hurt, new_grown, new_loss
                break
            step *= 0.5
        if before - loss <= 1e-7 * before:
            break
    return intercept, topic, band, hurt
