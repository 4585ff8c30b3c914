import numpy as np
import pytest

from cuvee.kernels.identify import identify
from cuvee.kernels.runs import Runs
from cuvee.kernels.surrogate import fit

RATE = np.array([1.0, 2.0, 0.5, 4.0, 1.0, 1.0])


def swarm(together=(), never=None, counted=False, runs=60):
    """Six domains with equal gains; `together` = (a, b, ratio): weight of b is ratio times that of a in every run."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(6, 1.5), runs)
    if together:
        a, b, ratio = together
        weights[:, b] = ratio * weights[:, a]
    if never is not None:
        weights[:, never] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    made = Runs(weights, weights * RATE, RATE) if counted else Runs(weights)
    scores = 1 + np.exp(-(1 - np.exp(-5 * weights)) @ np.array([0.9, 0.3, 0.5, 0.2, 0.7, 0.6])) + 0.002 * rng.normal(size=runs)
    return made, scores


def found(model="saturating", **how):
    runs, scores = swarm(**how)
    return identify([fit(model, runs, scores), fit(model, runs, -scores)], np.array([1.0, 0.0]))


@pytest.mark.parametrize("model", ["saturating", "ensemble"])
@pytest.mark.parametrize("counted, ratio", [(False, 0.5), (True, 2.0)])  # counted: domain 4 has half the epochs of domain 1 at like weight
def test_domains_that_always_move_together_are_named(model, counted, ratio):
    blurred = found(model, together=(1, 4, ratio), counted=counted).blurred
    assert [group.domains for group in blurred] == [(1, 4)]
    assert blurred[0].told < 0.2 and blurred[0].error > 0


def test_a_swarm_that_moves_all_domains_tells_all_apart():
    assert found() == ((), ())


def test_a_domain_that_no_run_drew_is_silent():
    assert found(never=2) == ((), (2,))


def test_nothing_is_said_where_no_model_has_such_errors():
    runs, scores = swarm()
    assert identify([fit("gp", runs, scores)], np.ones(1)) is None
