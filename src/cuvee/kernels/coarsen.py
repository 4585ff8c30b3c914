"""Topics: fine centroids joined into groups of a least share of the bytes, and words that name each group.

The loss of a grouping is the byte-weighted mean of 1 - cosine between centroids and the mean direction of their group.
With S_g the byte-weighted sum of a group's unit centroids it is 1 - sum_g |S_g| / bytes, so only the sums are needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from scipy import sparse

from cuvee.kernels.vectors import unit

STARTS = (8, 1, 1, 1, 1, 1, 1, 1)  # one grouping each: pairs tried per bisection; one pair gives other trees
SWEEPS = 20  # rounds within one bisection; most end after 3 to 6
PRIOR_WORDS = 1000  # words of the whole corpus's mix added to each topic before shares are compared


@dataclass(frozen=True)
class Topics:
    """topic: int32 (fine,), 0 the largest; bytes: int64 (topics,); loss: mean 1 - cosine; note: None or what fell short."""

    topic: np.ndarray
    bytes: np.ndarray
    loss: float
    note: str | None


@dataclass(frozen=True)
class _Split:
    """The best way found to cut one group in two: what |S| gains and what it costs in room (see `_room`)."""

    gain: float
    cost: int
    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class _Draw:
    """Where a bisection's random pairs come from, and how many it tries."""

    rng: np.random.Generator
    starts: int


def _room(mass: np.ndarray | int, least: int) -> np.ndarray | int:
    """How many groups of `least` bytes a mass can at most become."""
    return mass // least


@njit(cache=True, nogil=True)
def _prefix_squares(points, order):
    """|sum of the first k points in `order`|^2 for k = 1 .. n."""
    squares = np.empty(len(order))
    total = np.zeros(points.shape[1])
    square = 0.0
    for place, row in enumerate(order):
        dot = 0.0
        for axis in range(len(total)):
            value = points[row, axis]
            dot += value * (2 * total[axis] + value)
            total[axis] += value
        square += dot
        squares[place] = square
    return squares


def _best_cut(points: np.ndarray, mass: np.ndarray, order: np.ndarray, least: int, spare: int) -> tuple[float, int]:
    """Cut `order` in two so that |S_left| + |S_right| is greatest: that sum, and the size of the left part (0: no cut).

    Both parts hold `least` bytes, and together lose at most `spare` of the room.
    """
    held = np.cumsum(mass[order])
    total = held[-1]
    lost = _room(total, least) - _room(held, least) - _room(total - held, least)
    allowed = (held >= least) & (total - held >= least) & (lost <= spare)
    allowed[-1] = False
    if not allowed.any():
        return -np.inf, 0
    left = _prefix_squares(points, order)
    right = left + left[-1] - 2 * np.cumsum((points @ points.sum(axis=0))[order])
    value = np.sqrt(np.maximum(left, 0)) + np.sqrt(np.maximum(right, 0))
    best = int(np.where(allowed, value, -np.inf).argmax())
    return float(value[best]), best + 1


def _sweep(points: np.ndarray, mass: np.ndarray, pair: np.ndarray, least: int, spare: int) -> tuple[float, np.ndarray, int]:
    """2-means from a pair of members, each round the best allowed cut of the members ordered along left - right."""
    axis = unit(points[pair])
    best = (-np.inf, np.empty(0, np.int64), 0)
    for _ in range(SWEEPS):
        order = np.argsort(-(points @ (axis[0] - axis[1])) / mass, kind="stable")
        value, size = _best_cut(points, mass, order, least, spare)
        if value <= best[0]:
            break
        best = (value, order, size)
        axis = unit(np.stack([points[order[:size]].sum(axis=0), points[order[size:]].sum(axis=0)]))
    return best


def _bisect(points: np.ndarray, mass: np.ndarray, members: np.ndarray, least: int, spare: int,
            draw: _Draw) -> _Split | None:
    """The best of `draw.starts` bisections of a group, or None where none is allowed."""
    if len(members) < 2 or mass[members].sum() < 2 * least:
        return None
    inside, weight = points[members], mass[members]
    pairs = [draw.rng.choice(len(members), 2, replace=False) for _ in range(draw.starts)]
    value, order, size = max((_sweep(inside, weight, pair, least, spare) for pair in pairs), key=lambda found: found[0])
    if size == 0:
        return None
    left, right = np.sort(members[order[:size]]), np.sort(members[order[size:]])
    cost = _room(weight.sum(), least) - _room(mass[left].sum(), least) - _room(mass[right].sum(), least)
    return _Split(value - float(np.linalg.norm(inside.sum(axis=0))), int(cost), left, right)


def _divide(points: np.ndarray, mass: np.ndarray, count: int, least: int, draw: _Draw) -> np.ndarray:
    """Split the group that gains most, until there are `count` groups or none can be split. -> int64 (fine,)"""
    groups = [np.arange(len(points))]
    spare = int(_room(mass.sum(), least)) - count
    splits = [_bisect(points, mass, groups[0], least, spare, draw)]
    while len(groups) < count:
        for place, split in enumerate(splits):
            if split is not None and split.cost > spare:
                splits[place] = _bisect(points, mass, groups[place], least, spare, draw)
        open_places = [place for place, split in enumerate(splits) if split is not None]
        if not open_places:
            break
        place = max(open_places, key=lambda place: (splits[place].gain, -place))
        split = splits[place]
        spare -= split.cost
        groups[place:place + 1] = [split.left, split.right]
        splits[place:place + 1] = [_bisect(points, mass, part, least, spare, draw) for part in (split.left, split.right)]
    group = np.empty(len(points), np.int64)
    for number, members in enumerate(groups):
        group[members] = number
    return group


@njit(cache=True, nogil=True)
def _target(point, weight, home, sums, squares, dots):
    """The group where a point raises sum |S| most when it leaves `home`, and by how much; fills dots with point . S."""
    dots[:] = 0.0
    for axis in range(len(point)):
        for g in range(len(dots)):
            dots[g] += point[axis] * sums[axis, g]
    leaving = np.sqrt(max(squares[home] - 2 * dots[home] + weight ** 2, 0.0)) - np.sqrt(squares[home])
    best, target = -np.inf, home
    for g in range(len(dots)):
        gain = leaving + np.sqrt(max(squares[g] + 2 * dots[g] + weight ** 2, 0.0)) - np.sqrt(squares[g])
        if g != home and gain > best:
            best, target = gain, g
    return target, best


@njit(cache=True, nogil=True)
def _move(points, mass, group, sums, held, least, passes):
    """Move single centroids, in order, to the group that raises sum |S| most, while each source keeps `least` bytes.

    sums: (d, groups), held: bytes (groups,); both and `group` are changed in place.
    """
    squares = (sums ** 2).sum(axis=0)
    dots = np.empty(sums.shape[1])
    worth = 1e-12 * mass.sum()  # below this a gain is rounding, and moves could go round in circles
    for _ in range(passes):
        moved = False
        for i in range(len(points)):
            home, weight = group[i], float(mass[i])
            if held[home] - mass[i] < least:
                continue
            target, gain = _target(points[i], weight, home, sums, squares, dots)
            if gain <= worth:
                continue
            moved = True
            for g, sign in ((home, -1.0), (target, 1.0)):
                squares[g] = max(squares[g] + 2 * sign * dots[g] + weight ** 2, 0.0)
                sums[:, g] += sign * points[i]
                held[g] += np.int64(sign) * mass[i]
            group[i] = target
        if not moved:
            break


def _sums(points: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Sum of the points of each group, in order. -> float64 (groups, d)"""
    sums = np.zeros((group.max() + 1, points.shape[1]))
    np.add.at(sums, group, points)
    return sums


def _grouping(points: np.ndarray, mass: np.ndarray, count: int, least: int, draw: _Draw) -> Topics:
    """One divisive grouping, improved by single moves; topics not yet in order of bytes."""
    group = _divide(points, mass, count, least, draw)
    held = np.zeros(group.max() + 1, np.int64)
    np.add.at(held, group, mass)
    _move(points, mass, group, np.ascontiguousarray(_sums(points, group).T), held, least, 100)
    loss = 1 - np.linalg.norm(_sums(points, group), axis=1).sum() / mass.sum()
    return Topics(group, held, float(loss), None)


def _by_bytes(found: Topics) -> Topics:
    """Number topics by decreasing bytes, ties by their first fine cluster."""
    first = np.array([np.flatnonzero(found.topic == number)[0] for number in range(len(found.bytes))])
    order = np.lexsort((first, -found.bytes))
    return replace(found, topic=np.argsort(order)[found.topic], bytes=found.bytes[order])


def coarsen(centroids: np.ndarray, mass: np.ndarray, count: int, min_share: float,
            rng: np.random.Generator) -> Topics:
    """Join fine clusters into `count` topics, each with at least `min_share` of the bytes: the best of several tries.

    Where the bytes do not allow that many, fewer, and the note says so. A fine cluster without bytes goes to the topic
    of greatest cosine. centroids: (fine, d), directions; mass: bytes, whole numbers (fine,)
    """
    mass = np.asarray(mass, np.int64)
    if not (len(mass) == len(centroids) and count >= 1 and mass.min() >= 0 and mass.sum() > 0 and 0 <= min_share <= 1):
        raise ValueError(f"cannot make {count} topics of {len(centroids)} centroids with {len(mass)} masses, min_share "
                         f"{min_share}: give one byte count >= 0 per centroid (not all 0), a count >= 1, a share in 0..1.")
    held = np.flatnonzero(mass)
    directions = unit(centroids).astype(np.float64)
    points = directions[held] * mass[held, None]
    least = max(1, int(np.ceil(min_share * int(mass.sum()))))
    wanted = min(count, len(held), int(mass.sum()) // least)
    tries = [_grouping(points, mass[held], wanted, least, _Draw(rng, starts)) for starts in STARTS]
    best = _by_bytes(min(tries, key=lambda found: (-len(found.bytes), found.loss)))
    nearest = (directions @ unit(_sums(points, best.topic)).T).argmax(axis=1)
    nearest[held] = best.topic
    return replace(best, topic=nearest.astype(np.int32), note=_shortfall(best, count, min_share, mass))


def _shortfall(found: Topics, count: int, min_share: float, mass: np.ndarray) -> str | None:
    """Why there are fewer topics than asked for, or None."""
    if len(found.bytes) == count:
        return None
    return (f"{len(found.bytes)} topics instead of {count}: {int((mass > 0).sum())} fine clusters, the largest with "
            f"{mass.max() / mass.sum():.1%} of the bytes, gave no more of at least {min_share:.2%} each. "
            "Lower topics.min_share or raise topics.fine.")


def distinguishing_words(counts: sparse.csr_array, words: list[str], top: int = 5) -> list[list[str]]:
    """The words that set each topic apart, best first, ties in word order; fewer than `top` where no more stand out.

    A word's weight is sqrt(share) x ln(share / usual): up to a factor of the topic, a log odds ratio over its standard
    error (Monroe, Colaresi and Quinn 2008, with their prior). Usual is the larger of its share of all topics together
    and the upper quartile of its shares in the topics, so that function words of a common language name nothing.
    counts: (topics, words), worth cutting to words of a few occurrences as they become dense; words: in column order
    """
    if counts.shape[1] != len(words):
        raise ValueError(f"{counts.shape[1]} columns of counts but {len(words)} words; give one word per column.")
    dense = np.asarray(counts.todense(), np.float64)
    overall = dense.sum(axis=0) / max(dense.sum(), 1)
    share = (dense + PRIOR_WORDS * overall) / (dense.sum(axis=1, keepdims=True) + PRIOR_WORDS)
    usual = np.maximum(overall, np.quantile(share, 0.75, axis=0))
    weight = np.sqrt(share) * np.log(np.where(usual > 0, share / np.where(usual > 0, usual, 1), 1))
    alphabetical = np.argsort(np.array(words, dtype=object), kind="stable")
    best = [alphabetical[np.argsort(-row[alphabetical], kind="stable")][:top] for row in weight]
    return [[words[column] for column in columns if row[column] > 0] for row, columns in zip(weight, best)]
