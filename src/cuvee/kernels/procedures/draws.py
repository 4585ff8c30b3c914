"""Random mixtures as the papers draw them: Dirichlet around the natural shares, then under the caps."""
import numpy as np
from numba import njit

from cuvee.kernels.groups import project_groups
from cuvee.kernels.procedures.base import Round, Seen, Setting

# RegMix, sail-sg/regmix mixture_config/synthesize_mixture.py; CLIMB's recipe (NeMo Curator) and Olmix have the same
_TEMPER = 0.5  # power of the natural shares that draws of a swarm scatter around
_STRENGTHS = np.logspace(-1, np.log10(5.0), 15)  # sum of the Dirichlet's parameters, one of these for each run
_TRIES = 100  # draws a run, of which those under the caps count
_SPARE = 4  # of these, so that equal ones can be left out
_NEAREST = 100.0  # strength of the draws nearest to the natural shares, in a pool
_TRACE = 1e-9  # of the natural shares, which every mixture has at least where it is projected, so that it can reach 1


def swarm(setting: Setting, count: int, least: float, rng: np.random.Generator) -> np.ndarray:
    """Mixtures to train, (count, domains): draws under the caps; weights under `least` become 0.

    Where the caps are so tight that fewer than `count` of 100 x count draws pass, the rest are projected onto them. All
    differ, as far as the caps leave room.
    """
    prior = setting.natural ** _TEMPER
    prior = prior / prior.sum()
    drawn = dirichlet(prior, rng.choice(_STRENGTHS, _TRIES * count), rng)
    passing = (drawn <= setting.caps).all(axis=1)
    chosen = np.vstack([drawn[passing], drawn[~passing]])[:_SPARE * count]
    chosen = np.where(chosen < least, 0.0, chosen)
    found = projected(chosen / chosen.sum(axis=1, keepdims=True), setting)
    new = np.zeros(len(found), bool)
    new[np.unique(np.round(found, 9), axis=0, return_index=True)[1]] = True
    return np.vstack([found[new], found[~new]])[:count]


def only_round(setting: Setting, seen: Seen, count: int, least: float, rng: np.random.Generator) -> Round:
    """`swarm` as the one round of a procedure that has no other."""
    if seen.asked:
        return Round.ended(len(setting.tokens), "its one round is done")
    mixtures = swarm(setting, count, least, rng)
    return Round(mixtures, ("proposal",) * len(mixtures))


def pool(setting: Setting, count: int, rng: np.random.Generator) -> np.ndarray:
    """Mixtures to choose from by their predictions: Dirichlet around the natural shares, projected onto the caps.

    Half have parameters that sum to 1, as in the code of RegMix and CLIMB: sparse mixtures, among which there may be no
    good one. For the others the sum is log-uniform from 1 to 100, as in Olmix's simulations.
    """
    strengths = np.exp(rng.uniform(0.0, np.log(_NEAREST), count))
    strengths[:count // 2] = 1.0
    return projected(dirichlet(setting.natural, strengths, rng), setting)


def dirichlet(centre: np.ndarray, strengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One mixture of mean `centre` for each strength, the sum of its parameters. -> (draws, domains)

    Gammas of tiny parameters are 0 in float64; where all of a draw are, its largest parameter takes all.
    """
    drawn = rng.standard_gamma(strengths[:, None] * centre)
    nothing = drawn.sum(axis=1) == 0
    drawn[nothing, centre.argmax()] = 1.0
    return drawn / drawn.sum(axis=1, keepdims=True)


def projected(mixtures: np.ndarray, setting: Setting) -> np.ndarray:
    """Each mixture's KL projection onto the caps and the groups. (n, domains) -> (n, domains)"""
    rest = _TRACE * setting.natural
    found = project_rows(mixtures, np.minimum(setting.caps, 1.0), rest)
    if len(setting.limits.low):
        found = np.array([project_groups(np.maximum(row, rest), setting.caps, setting.limits) for row in found]).reshape(found.shape)
    return found


def project_rows(mixtures: np.ndarray, caps: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """`simplex.project_kl` of many mixtures; what passes a cap goes to the others in proportion, at last to those of weight 0.

    mixtures: (n, domains), rows of sum 1; caps: (domains,), of sum >= 1; rest: (domains,), tiny weights of all  ->  (n, domains)
    """
    over = (mixtures > caps).any(axis=1)
    found = np.array(mixtures, np.float64)
    found[over] = _project(np.maximum(found[over], rest), np.asarray(caps, np.float64))
    return found


@njit(cache=True, nogil=True)
def _project(rows, caps):
    """min(caps, scale x row) of sum 1; domains that reach their cap are set aside until none is added."""
    found = np.empty_like(rows)
    for at in range(len(rows)):
        scale, count = 1.0 / rows[at].sum(), -1
        while True:
            held, free, full = 0.0, 0.0, 0
            for domain in range(len(caps)):
                if scale * rows[at, domain] >= caps[domain]:
                    held += caps[domain]
                    full += 1
                else:
                    free += rows[at, domain]
            if full == count or full == len(caps):
                break
            count = full
            scale = max(scale, (1.0 - held) / free)
        for domain in range(len(caps)):
            found[at, domain] = min(caps[domain], scale * rows[at, domain])
    return found
