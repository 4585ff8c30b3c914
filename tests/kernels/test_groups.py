import numpy as np
import pytest
from scipy.optimize import minimize

from cuvee.kernels.groups import Groups, best_corner, excess, no_groups, project_groups, quantize_groups
from cuvee.kernels.protect import minimise_within
from cuvee.kernels.search import minimise
from cuvee.kernels.simplex import project_kl


def limits(rng, domains):
    """Caps, groups that overlap, and a mixture inside all of them."""
    caps = np.minimum(rng.uniform(0.1, 1.0, domains), 1.0)
    caps = caps if caps.sum() > 1.2 else np.ones(domains)
    inside = project_kl(rng.dirichlet(np.ones(domains)), caps)
    members = rng.random((int(rng.integers(1, 4)), domains)) < 0.4
    members[~members.any(axis=1), 0] = True
    held = members @ inside
    return caps, Groups(members, np.maximum(held - rng.uniform(0, 0.1, len(held)), 0), held + rng.uniform(0, 0.1, len(held))), inside


def by_slsqp(objective, start, caps, groups, others=()):
    """Least value by an independent solver; others: functions that must stay <= 0."""
    rules = [{"type": "eq", "fun": lambda w: w.sum() - 1}, {"type": "ineq", "fun": lambda w: groups.members @ w - groups.low},
             {"type": "ineq", "fun": lambda w: groups.high - groups.members @ w}]
    rules += [{"type": "ineq", "fun": lambda w, f=f: -f(w)[0], "jac": lambda w, f=f: -f(w)[1]} for f in others]
    return minimize(objective, start, jac=True, method="SLSQP", bounds=[(1e-12, cap) for cap in caps], constraints=rules, options={"ftol": 1e-14, "maxiter": 3000})


def kept(weights, caps, groups):
    held = groups.members @ weights
    return abs(weights.sum() - 1) < 1e-9 and (weights <= caps + 1e-12).all() and (held > groups.low - 1e-9).all() and (held < groups.high + 1e-9).all()


@pytest.mark.parametrize("seed", range(40))
def test_projection_is_the_nearest_in_divergence(seed):
    rng = np.random.default_rng(seed)
    caps, groups, inside = limits(rng, int(rng.integers(4, 12)))
    weights = rng.dirichlet(np.ones(len(caps)))

    def divergence(u):
        ratio = np.log(np.maximum(u, 1e-300) / weights)
        return u @ ratio, ratio + 1

    found, best = project_groups(weights, caps, groups), by_slsqp(divergence, inside, caps, groups)
    assert kept(found, caps, groups) and divergence(found)[0] <= best.fun + 1e-8


def test_no_groups_is_the_plain_projection_and_the_plain_corner():
    weights, caps = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.5, 0.2])
    np.testing.assert_array_equal(project_groups(weights, caps, no_groups(3)), project_kl(weights, caps))
    np.testing.assert_allclose(best_corner(np.array([3.0, 1.0, 2.0]), caps, no_groups(3)), [0.3, 0.5, 0.2])


def test_corner_and_excess_golden():
    groups = Groups(np.array([[True, True, False], [False, True, True]]), np.array([0.0, 0.4]), np.array([0.5, 1.0]))
    np.testing.assert_allclose(best_corner(np.array([1.0, 2.0, 3.0]), np.ones(3), groups), [0.5, 0.0, 0.5])
    assert excess(np.ones(3), groups).tolist() == [0, 0]
    tight = Groups(np.array([[True, False, False], [False, True, False]]), np.array([0.7, 0.5]), np.ones(2))
    assert excess(np.ones(3), tight).sum() == pytest.approx(0.2)


@pytest.mark.parametrize("seed", range(20))
def test_whole_parts_keep_caps_and_groups(seed):
    rng = np.random.default_rng(seed)
    caps, groups, _ = limits(rng, 8)
    parts = int(rng.choice([37, 1000, 2**20]))
    whole = np.ceil(caps * parts).astype(np.int64)
    in_parts = groups._replace(low=np.floor(groups.low * parts), high=np.ceil(groups.high * parts))
    weights = project_groups(rng.dirichlet(np.ones(8)), caps, groups)
    found = quantize_groups(weights, parts, whole, in_parts)
    held = groups.members @ found
    assert found.sum() == parts and (found <= whole).all() and (held >= in_parts.low).all() and (held <= in_parts.high).all()
    assert np.abs(found - weights * parts).max() <= 2


def law(rng, domains, tasks=3):
    """Convex tasks exp(-gain . (1 - exp(-rate w))), the KL pull, and the last task kept to be no worse than natural. -> objective, limit, natural"""
    natural, rate = rng.dirichlet(np.full(domains, 3.0)), rng.uniform(0.5, 6.0, domains)
    gains = rng.gamma(0.5, 0.7, (tasks, domains))

    def task(gain, w):
        value = np.exp(-gain @ (1 - np.exp(-rate * w)))
        return value, -value * gain * rate * np.exp(-rate * w)

    def objective(w):
        found, ratio = [task(gain, w) for gain in gains[:-1]], np.log(np.maximum(w, 1e-300) / natural)
        return sum(v for v, _ in found) + 0.02 * w @ ratio, sum(g for _, g in found) + 0.02 * (ratio + 1)

    most = task(gains[-1], natural)[0]
    return objective, lambda w: (task(gains[-1], w)[0] - most, task(gains[-1], w)[1]), natural


def test_200_problems_are_solved_as_by_an_independent_solver():
    """A third plain, a third under groups, a third with a protected task too; kkt bounds what is left."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        objective, limit, natural = law(rng, int(rng.integers(4, 12)))
        caps, groups = np.minimum(natural * 3, 1.0), no_groups(len(natural))
        if seed % 3:
            members = rng.random((2, len(natural))) < 0.4
            groups = Groups(members, np.maximum(members @ natural - 0.05, 0), members @ natural + 0.08)
        others = [limit] if seed % 3 == 2 else []
        found, over = minimise_within(objective, others, natural[None], caps, 1e-6, groups=groups)
        best = by_slsqp(objective, natural, caps, groups, others)
        assert kept(found.weights, caps, groups) and (over <= 1e-6).all() and found.kkt <= 1e-6, seed
        assert abs(found.value - best.fun) < 1e-5 and found.value - best.fun < found.kkt + 1e-6, seed


def test_a_limit_that_nothing_keeps_is_seen():
    objective, limit, natural = law(np.random.default_rng(0), 5)
    _, over = minimise_within(objective, [lambda w: (limit(w)[0] + 1.0, limit(w)[1])], natural[None], np.ones(5))
    assert over[0] > 0.1


def test_groups_change_the_answer_and_the_certificate_knows_them():
    def objective(w):  # all into the first domain
        return -w[0], np.array([-1.0, 0.0, 0.0])

    groups = Groups(np.array([[True, False, True]]), np.zeros(1), np.array([0.3]))
    found = minimise(objective, np.full(3, 1 / 3), np.ones(3), groups=groups)
    np.testing.assert_allclose(found.weights, [0.3, 0.7, 0.0], atol=1e-5)
    assert found.kkt <= 1e-6
