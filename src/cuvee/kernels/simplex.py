"""Mixtures as points of the simplex: epochs and caps, projections, whole parts, baselines.

A mixture is (domains,) weights >= 0 that sum to 1; caps are upper limits per domain on those weights.
"""
import numpy as np

_SUM_TOLERANCE = 1e-6  # how far a sum of weights may be from 1; float64 sums of 10,000 weights stay below 1e-12
_REACH_TOLERANCE = 1e-12  # caps that sum to 1 up to rounding are one mixture, not an infeasible set


def epochs(weights: np.ndarray, budget: float, tokens: np.ndarray) -> np.ndarray:
    """Passes over each domain's tokens in a training of `budget` tokens.

    weights: (..., domains); tokens: (domains,) > 0  ->  (..., domains)
    """
    return weights * (budget / tokens)


def epoch_caps(tokens: np.ndarray, budget: float, max_epochs: float | np.ndarray) -> np.ndarray:
    """Largest weight per domain that repeats no domain more than `max_epochs` times.

    tokens: (domains,); max_epochs: a number or (domains,)  ->  (domains,) in [0, 1]
    """
    if budget <= 0 or (tokens < 0).any():
        raise ValueError(f"budget must be > 0 and tokens >= 0; got budget {budget}, least tokens {tokens.min()}.")
    return np.minimum(max_epochs * (tokens / budget), 1.0)


def check_reach(caps: np.ndarray, needed: float = 1.0) -> None:
    """Raise where weights under `caps` cannot sum to `needed`."""
    reach = caps.sum()
    if not (caps >= 0).all():
        raise ValueError(f"caps must be >= 0; domain {int(np.argmin(caps >= 0))} has {caps.min():.6g}.")
    if reach < needed * (1 - _REACH_TOLERANCE):
        cure = f"Allow {needed / reach:.3g} times more epochs, add" if reach > 0 else "Add"  # 0: no domain may have a single part
        raise ValueError(f"the caps cannot be met: the largest reachable sum is {reach:.6g}, {needed:.6g} is needed. "
                         f"{cure} data or lower the budget.")


def project_capped(point: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """Nearest mixture under `caps` in Euclidean distance.

    The answer is clip(point - shift, 0, caps); its sum falls piecewise linearly in `shift`, with corners at
    point - caps and point, so sorting the corners gives the shift exactly. point, caps: (domains,) -> (domains,)
    """
    check_reach(caps)
    caps = np.minimum(caps, 1.0)
    corners = np.concatenate([point - caps, point])
    order = np.argsort(corners, kind="stable")
    corners = corners[order]
    falling = np.cumsum(np.where(order < len(point), 1, -1))  # domains strictly between 0 and their cap
    sums = caps.sum() - np.concatenate([[0.0], np.cumsum(falling[:-1] * np.diff(corners))])
    at = np.searchsorted(-sums, -1.0, side="right") - 1  # the last corner where the sum is still >= 1
    at = max(at, 0)
    shift = corners[at] + (max(sums[at] - 1.0, 0.0) / falling[at] if falling[at] else 0.0)
    return np.clip(point - shift, 0.0, caps)


def project_kl(weights: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """Mixture u under `caps` with the least KL(u || weights): u = min(caps, scale * weights).

    Domains reach their caps in the order of caps / weights, so sorting gives the scale exactly.
    weights: (domains,) >= 0, of any sum; a domain of weight 0 stays at 0. caps: (domains,)  ->  (domains,)
    """
    if not (weights >= 0).all():
        raise ValueError(f"weights must be >= 0; got min {weights.min():.6g}.")
    used = np.flatnonzero(weights > 0)
    caps = np.minimum(caps, 1.0)
    check_reach(caps[used])
    ratio = caps[used] / weights[used]
    used = used[np.argsort(ratio, kind="stable")]
    ratio = np.sort(ratio, kind="stable")
    full = np.concatenate([[0.0], np.cumsum(caps[used])[:-1]])  # what the domains before this one hold at their caps
    free = np.cumsum(weights[used][::-1])[::-1]
    scale = (1.0 - full) / free
    fits = np.flatnonzero(scale <= ratio)
    mixture = np.zeros(len(weights))
    mixture[used] = np.minimum(caps[used], scale[fits[0]] * weights[used]) if len(fits) else caps[used]
    return mixture


def quantize(weights: np.ndarray, parts: int) -> np.ndarray:
    """Share `parts` equal parts among domains, as near to `weights` as whole parts allow.

    Largest-remainder rule (Hamilton, 1792): the result sums to `parts`.
    weights: (domains,), sums to 1  ->  int64 (domains,)
    """
    return quantize_capped(weights, parts, np.full(len(weights), parts, np.int64))


def quantize_capped(weights: np.ndarray, parts: int, caps_parts: np.ndarray) -> np.ndarray:
    """`quantize` with at most `caps_parts` parts per domain, int64 (domains,), also after rounding.

    What a cap cuts off goes to the domains with the largest remainders that still have room.
    """
    if abs(weights.sum() - 1) > _SUM_TOLERANCE or not (weights >= 0).all():
        raise ValueError(f"weights must be >= 0 and sum to 1; got sum {weights.sum():.6g}, "
                         f"min {weights.min():.3g}. Divide by weights.sum() first.")
    if caps_parts.sum() < parts:
        raise ValueError(f"the caps cannot be met in whole parts: the largest reachable sum is {caps_parts.sum()} "
                         f"of {parts} parts. Allow more epochs, add data or lower the budget.")
    share = weights * (parts / weights.sum())
    if (share > caps_parts + 1).any():  # far outside: move the surplus evenly first, so that few parts are left over
        share = parts * project_capped(share / parts, caps_parts / parts)
    whole = np.minimum(np.floor(share).astype(np.int64), caps_parts)
    while short := int(parts - whole.sum()):
        order = np.argsort(whole - share, kind="stable")
        if short < 0:  # the sum of floors is at most `parts`; only rounding in the projection can pass it
            order = order[::-1][:-short]
            whole[order[whole[order] > 0]] -= 1
        else:
            whole[order[whole[order] < caps_parts[order]][:short]] += 1
    return whole


def proportional(tokens: np.ndarray) -> np.ndarray:
    """Weights by size: every domain is seen equally often. tokens: (domains,)  ->  (domains,)"""
    return tokens / tokens.sum()


def uniform(domains: int) -> np.ndarray:
    """Equal weights, whatever the sizes. -> (domains,)"""
    return np.full(domains, 1.0 / domains)


def unimax(tokens: np.ndarray, budget: float, max_epochs: float) -> np.ndarray:
    """As near to uniform as at most `max_epochs` passes allow (Chung et al. 2023, arXiv 2304.09151, Alg. 1).

    Their loop from the smallest domain up gives min(cap, equal share of the rest), which is the KL projection of
    uniform weights. Where they scale infeasible caps up, this raises. tokens: (domains,)  ->  (domains,)
    """
    return project_kl(uniform(len(tokens)), epoch_caps(tokens, budget, max_epochs))


def temperature(tokens: np.ndarray, tau: float) -> np.ndarray:
    """Weights in proportion to tokens ** (1 / tau): tau 1 is proportional, large tau nears uniform. -> (domains,)"""
    if tau <= 0:
        raise ValueError(f"tau must be > 0; got {tau}.")
    scaled = (tokens / tokens.max()) ** (1.0 / tau)
    return scaled / scaled.sum()
