"""The best mixture by fitted surrogates, under all limits of a setting: what `cuvee mix` does, for procedures."""
from collections.abc import Sequence

import numpy as np

from cuvee.kernels.procedures.base import Seen, Setting
from cuvee.kernels.protect import minimise_within, no_rise
from cuvee.kernels.search import Objective, Solution, mixture_objective
from cuvee.kernels.simplex import epoch_caps, uniform, unimax
from cuvee.kernels.surrogate import Fitted, Surrogate, fit_tasks

_BEST_RUNS = 3  # tried mixtures, best by the objective, that a search starts from too


def fitted(model: str, setting: Setting, seen: Seen) -> Surrogate:
    """Every task's fit; domains and tasks are named by their numbers."""
    domains, tasks = ([str(number) for number in range(count)] for count in (len(setting.tokens), seen.scores.shape[1]))
    return fit_tasks(model, domains, tasks, seen.runs(setting), seen.scores)


def weighed(setting: Setting, fits: Sequence[Fitted]) -> np.ndarray:
    """Importance of the tasks whose scores differ at all, of sum 1. (tasks,)"""
    found = np.where([fit.spread > 0 for fit in fits], setting.importance, 0.0)
    if not found.sum() > 0:
        raise ValueError("no task that counts has scores that differ, so nothing tells mixtures apart. Train more runs, or weigh other tasks.")
    return found / found.sum()


def objective(setting: Setting, fits: Sequence[Fitted], risk: float) -> Objective:
    """sum_t importance_t z_t(w) + kl KL(w || natural) + risk SD(w)."""
    return mixture_objective(fits, weighed(setting, fits), setting.natural, setting.kl, risk)


def vouched_caps(setting: Setting, surrogate: Surrogate) -> np.ndarray:
    """Caps by max_epochs, and by the epochs that the runs can vouch for. (domains,)"""
    seen = surrogate.epoch_limits()
    return setting.caps if seen is None else epoch_caps(setting.tokens, setting.budget, np.minimum(setting.max_epochs, seen))


def optimum(setting: Setting, surrogate: Surrogate, risk: float, caps: np.ndarray, tolerance: float = 1e-6) -> Solution:
    """The best of several starts: natural, UniMax, uniform and the mixtures of the swarm that the objective likes best."""
    fits = surrogate.followed
    aim = objective(setting, fits, risk)
    tried = np.unique(surrogate.runs.weights, axis=0)
    best = tried[np.argsort([aim(weights)[0] for weights in tried], kind="stable")[:_BEST_RUNS]]
    even = uniform(len(setting.tokens))
    starts = np.vstack([setting.natural, unimax(setting.tokens, setting.budget, setting.max_epochs), even, best])
    allowed = np.full(len(fits), np.inf) if setting.protect is None else setting.protect
    limits = [no_rise(fit, setting.natural, most) for fit, most in zip(fits, allowed.tolist()) if np.isfinite(most)]
    return minimise_within(aim, limits, starts, caps, tolerance, groups=setting.limits)[0]
