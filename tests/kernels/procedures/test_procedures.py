"""One contract for every procedure, on a law whose value is known everywhere."""
import numpy as np
import pytest

from cuvee.kernels.groups import Groups
from cuvee.kernels.procedures.base import Seen
from cuvee.kernels.procedures.climb import Climb
from cuvee.kernels.procedures.ours import Ours
from cuvee.kernels.procedures.registry import PROCEDURES
from cuvee.kernels.proposals import plan_round
from tests.kernels.procedures.known import BANDS, TOPICS, mean, play, setting, truth


@pytest.mark.parametrize("name", PROCEDURES)
def test_a_procedure_keeps_its_runs_and_caps_and_beats_the_natural_mixture(name):
    given = setting()
    seen, answer = play(PROCEDURES[name](), given)
    assert 10 <= len(seen.weights) <= 48 and seen.asked <= 3
    assert (seen.weights >= 0).all() and np.allclose(seen.weights.sum(axis=1), 1)
    assert answer.sum() == pytest.approx(1) and (answer >= 0).all() and (answer <= given.caps + 1e-9).all()
    assert mean(answer, given) < mean(given.natural, given) - 0.03
    again = play(PROCEDURES[name](), given)
    assert np.array_equal(again[0].weights, seen.weights) and np.array_equal(again[1], answer)


@pytest.mark.parametrize("procedure, runs, expected", [
    (Ours(1), 48, [48]), (Ours(3), 112, [56, 28, 28]), (Ours(3), 14, [10, 2, 2]), (Ours(3), 11, [10, 1]), (Ours(3), None, [22, 11, 11]),
    (Climb(), None, [64, 32, 16]), (Climb(), 56, [32, 16, 8]), (PROCEDURES["regmix"](), None, [512]), (PROCEDURES["olmix"](), None, [40])])
def test_sizes_of_rounds(procedure, runs, expected):
    assert procedure.sizes(setting(runs)) == expected


def test_the_first_round_of_ours_is_the_planned_one():
    given = setting()
    asked = Ours(1).ask(given, Seen.nothing(8, 3), np.random.default_rng(4))
    planned = plan_round(given.natural, TOPICS, BANDS, given.caps, np.random.default_rng(4), 48)
    assert np.array_equal(asked, [each.weights for each in planned])


def test_limits_of_groups_and_protected_tasks_hold():
    members = np.zeros((1, 8), bool)
    members[0, 3] = True  # what the first task wants most
    limited = setting(groups=Groups(members, np.zeros(1), np.array([0.15])), protect=np.array([np.inf, np.inf, -0.1]), risk=0.0)
    seen, answer = play(Ours(2), limited, noise=1e-4)
    free = play(Ours(2), setting(risk=0.0), noise=1e-4)[1]
    assert answer[3] <= 0.15 + 1e-9 < free[3]
    assert truth(answer[None])[0, 2] <= truth(limited.natural[None])[0, 2] - 0.1 + 0.01
    assert seen.weights[seen.rounds == 1][:2, 3].max() <= 0.15 + 1e-9  # the runs of the optimum keep them too


def test_runs_without_a_score_are_left_out():
    seen, _ = play(Ours(1), setting(24))
    holes = seen.scores.copy()
    holes[7:9] = np.nan
    holes[11, 1] = np.nan
    patchy = Seen(seen.weights, holes, seen.rounds)
    for name in PROCEDURES:
        answer = PROCEDURES[name]().answer(setting(24), patchy, np.random.default_rng(0)).weights
        assert mean(answer, setting()) < mean(setting().natural, setting())
