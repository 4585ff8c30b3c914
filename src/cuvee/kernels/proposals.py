"""Which mixtures the swarm trains: spread-out proposals around the natural one, repeats, baselines, leave-one-outs."""
from typing import NamedTuple

import numpy as np

from cuvee.kernels.runs import k_centre
from cuvee.kernels.simplex import project_kl, uniform

_UNIFORM_SHARE = 0.05  # of the topic shares that proposals scatter around
_LARGEST_TILT = 2.0  # log ratio of the best to the middle band; worst to best is twice that
_TOPIC_TILT = 0.5  # SD of a topic's own tilt, without which its bands could not be told apart
_POOL = 10  # draws per proposal kept
_TRACE = 1e-9  # least weight of a domain that is not left out
_LARGE_TOPIC = 0.05  # natural share from which a topic is left out once
_PROPORTIONAL, _CONCENTRATED = 5, 3  # repeats
LEAST_ROUND = _PROPORTIONAL + _CONCENTRATED + 2  # runs; the two more are UniMax and uniform
_OVER = 2.0  # proposals may pass the deployment caps by this factor, to show what lies beyond


class Planned(NamedTuple):
    """One run to train. kind: proportional, concentrated, unimax, uniform, leave_one_out, dirichlet or sparse."""

    kind: str
    weights: np.ndarray
    repeat: int


def proposals(natural: np.ndarray, topics: np.ndarray, bands: np.ndarray, count: int, caps: np.ndarray,
              rng: np.random.Generator) -> np.ndarray:
    """Mixtures under `caps` that lie far from the natural one and from each other; the last quarter are sparse.

    natural: (domains,) weights; topics, bands: (domains,) numbers of each domain's topic and band, bands in order of
    quality; caps: (domains,)  ->  (count, domains)
    """
    sparse = count // 4
    chosen = []
    for number, thin in ((count - sparse, False), (sparse, True)):
        pool = [_draw(natural, topics, bands, caps, thin, rng) for _ in range(_POOL * number)]
        points = np.vstack([natural, *pool])
        chosen.append(points[k_centre(np.sqrt(points), number + 1, first=0)[1:]])
    return np.vstack(chosen)


def _draw(natural, topics, bands, caps, thin: bool, rng: np.random.Generator) -> np.ndarray:
    """Topic shares by Dirichlet around the natural ones, then a tilt across bands. -> (domains,)"""
    total = int(topics.max()) + 1
    share = np.bincount(topics, natural, total)
    centre = (1 - _UNIFORM_SHARE) * share + _UNIFORM_SHARE / total
    strength = total * np.exp(rng.uniform(np.log(0.25), np.log(4.0)))
    drawn = rng.dirichlet(strength * centre)
    tilt = rng.uniform(-_LARGEST_TILT, _LARGEST_TILT) + _TOPIC_TILT * rng.standard_normal(total)
    height = 2 * bands / max(int(bands.max()), 1) - 1  # -1 at the worst band, 1 at the best
    within = natural * np.exp(tilt[topics] * height)
    within /= np.bincount(topics, within, total)[topics]
    weights = np.maximum(drawn[topics] * within, _TRACE)
    return project_kl(np.where(_kept(topics, caps, rng)[topics], weights, 0.0) if thin else weights, caps)


def _kept(topics: np.ndarray, caps: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random half of the topics, or as many as the caps need to reach 1. -> bool (topics,)"""
    order = rng.permutation(int(topics.max()) + 1)
    reach = np.cumsum(np.bincount(topics, caps)[order])
    needed = int(np.searchsorted(reach, 1.0)) + 1
    kept = np.zeros(len(order), bool)
    kept[order[:max(needed, (len(order) + 1) // 2)]] = True
    return kept


def leave_one_outs(natural: np.ndarray, topics: np.ndarray, caps: np.ndarray) -> list[np.ndarray]:
    """The natural mixture without one topic, for each topic over 5 % that the caps can do without, largest first."""
    share = np.bincount(topics, natural)
    order = [topic for topic in np.argsort(-share, kind="stable") if share[topic] > _LARGE_TOPIC]
    return [project_kl(np.where(topics == topic, 0.0, natural), caps)
            for topic in order if caps[(topics != topic) & (natural > 0)].sum() >= 1]


def round_size(topics: np.ndarray, bands: np.ndarray) -> int:
    """Runs of the first round: 2 x (topics + bands + 5)."""
    return 2 * (len(np.unique(topics)) + len(np.unique(bands)) + 5)


def plan_round(natural: np.ndarray, topics: np.ndarray, bands: np.ndarray, caps: np.ndarray, rng: np.random.Generator,
               size: int | None = None) -> list[Planned]:
    """The runs of round 1, `size` in all (default `round_size`).

    Five repeats of proportional, three of the most concentrated proposal, UniMax and uniform come first; of what is
    left at most half are leave-one-outs (smallest topics are cut) and the rest proposals. All but proportional and
    UniMax, which keep the deployment caps, lie under twice these. caps: (domains,) weights, deployment
    """
    size = round_size(topics, bands) if size is None else size
    spare = size - LEAST_ROUND
    if spare < 0:
        raise ValueError(f"a round needs at least {LEAST_ROUND} runs (5 proportional, 3 of one proposal, UniMax, "
                         f"uniform); got {size}.")
    wide = np.minimum(_OVER * caps, 1.0)
    left_out = leave_one_outs(natural, topics, wide)[:spare // 2]
    drawn = proposals(natural, topics, bands, 1 + spare - len(left_out), wide, rng)
    kinds = ["dirichlet"] * (len(drawn) - len(drawn) // 4) + ["sparse"] * (len(drawn) // 4)
    dense = int((drawn ** 2).sum(axis=1).argmax())
    runs = [Planned("proportional", project_kl(natural, caps), repeat) for repeat in range(_PROPORTIONAL)]
    runs += [Planned("concentrated", drawn[dense], repeat) for repeat in range(_CONCENTRATED)]
    runs += [Planned("unimax", project_kl(uniform(len(natural)), caps), 0),
             Planned("uniform", project_kl(uniform(len(natural)), wide), 0)]
    runs += [Planned("leave_one_out", weights, 0) for weights in left_out]
    return runs + [Planned(kind, weights, 0) for row, (kind, weights) in enumerate(zip(kinds, drawn)) if row != dense]
