import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from cuvee.kernels.frozen import Frozen
from cuvee.kernels.groups import Groups
from cuvee.kernels.search import minimise

OLD = np.array([0.3, 0.1, 0.2, 0.0, 0.4])
KEPT = np.array([True, True, False, True, False])  # 3 : 1 : - : 0 : -


def quadratic(seed):
    rng = np.random.default_rng(seed)
    root, target = rng.normal(size=(5, 5)), rng.dirichlet(np.ones(5))
    return lambda w: (((root @ (w - target)) ** 2).sum() / 2, root.T @ root @ (w - target))


@pytest.mark.parametrize("seed", range(5))
def test_the_best_that_keeps_proportions_is_that_of_an_independent_solver(seed):
    space, objective, caps = Frozen.of(OLD, KEPT), quadratic(seed), np.array([0.45, 0.5, 0.6, 0.6, 0.6])
    found = minimise(space.objective(objective), space.nearest(OLD), space.caps(caps), 1e-9)
    rules = [{"type": "eq", "fun": lambda w: w.sum() - 1}, {"type": "eq", "fun": lambda w: w[0] - 3 * w[1]}, {"type": "eq", "fun": lambda w: w[3]}]
    best = minimize(objective, OLD, jac=True, method="SLSQP", bounds=[(0, cap) for cap in caps], constraints=rules, options={"ftol": 1e-14, "maxiter": 500})
    weights = space.mixtures(found.weights)
    assert weights[0] == pytest.approx(3 * weights[1]) and weights[3] == 0 and weights.sum() == pytest.approx(1) and (weights <= caps + 1e-9).all()
    assert found.value == pytest.approx(best.fun, abs=1e-6)


def test_there_and_back_golden():
    space = Frozen.of(OLD, KEPT)
    np.testing.assert_allclose(space.nearest(np.array([0.2, 0.1, 0.3, 0.1, 0.3])), [0.3, 0.3, 0.4])
    np.testing.assert_allclose(space.mixtures(np.array([0.3, 0.3, 0.4])), [0.3, 0.1, 0.3, 0.0, 0.3])
    np.testing.assert_allclose(space.caps(np.array([0.3, 0.3, 0.5, 0.0, 1.0])), [0.5, 1.0, 0.4])  # .3 of three quarters
    point = np.array([0.2, 0.5, 0.3])
    assert check_grad(lambda v: space.objective(quadratic(0))(v)[0], lambda v: space.objective(quadratic(0))(v)[1], point) < 1e-5


def test_a_group_holds_all_of_what_is_frozen_or_nothing():
    space = Frozen.of(OLD, KEPT)
    whole = Groups(np.array([[True, True, False, True, False], [False, False, True, False, False]]), np.zeros(2), np.ones(2))
    assert space.groups(whole).members.tolist() == [[False, False, True], [True, False, False]]
    with pytest.raises(ValueError, match="group number 2 holds 75.0% of the frozen domains"):
        space.groups(whole._replace(members=np.array([[False] * 5, [True, False, False, False, False]])))
    with pytest.raises(ValueError, match="a sum over 0"):
        Frozen.of(OLD, np.array([False, False, False, True, False]))
