"""What leads a later round: the trust region, the batch, exploration, and the rule that ends it."""
import numpy as np
import pytest

from cuvee.kernels.procedures import improve
from cuvee.kernels.procedures.base import Seen
from cuvee.kernels.procedures.optimum import fitted, weighed
from cuvee.kernels.procedures.ours import Ours
from cuvee.kernels.proposals import proposals
from tests.kernels.procedures.known import BANDS, TOPICS, mean, play, setting, truth


@pytest.fixture(scope="module")
def first() -> Seen:
    return play(Ours(1), setting(24))[0]


def beliefs(seen: Seen, draws: int = 8) -> improve.Beliefs:
    fits, rng = fitted("saturating", setting(), seen).fits, np.random.default_rng(0)
    return improve.Beliefs(setting(), fits, [[fit.redrawn(rng) for fit in fits] for _ in range(draws)], weighed(setting(), fits))


def test_a_batch_counts_what_each_run_adds_to_those_before_it():
    values = np.array([[0.0, 0.1, 1.0, 0.9], [1.0, 1.0, 0.4, 0.5]])  # two draws, four candidates
    assert improve.batch(values, np.array([1.0, 1.0]), 3) == [0, 2, 1]  # after 0, its near copy 1 adds nothing
    assert improve.batch(values, np.array([1.0, 1.0]), 1) == [int(np.maximum(1 - values, 0).mean(axis=0).argmax())]


def test_what_the_fits_miss_counts_as_not_known():
    gains, chance = np.array([[0.3, -0.1], [-0.2, -0.1]]), 0.2 * np.random.default_rng(0).standard_normal(400_000)
    assert np.allclose(improve.expected(gains, np.zeros(2)), [0.15, 0.0])
    simulated = [np.mean([np.maximum(gain + chance, 0).mean() for gain in column]) for column in gains.T]
    assert np.allclose(improve.expected(gains, np.array([0.2, 0.2])), simulated, atol=1e-3)


def test_a_mixture_is_drawn_back_into_the_trust_region():
    given, far = setting(), np.array([0, 0, 0, 0.9, 0, 0.1, 0, 0])
    for radius in (0.1, 0.4, 3.0):
        found = improve.within(far, given.natural, radius, given)
        away = np.linalg.norm(np.sqrt(found) - np.sqrt(given.natural))
        assert away <= radius * 1.05 and found.sum() == pytest.approx(1)
        assert np.array_equal(found, far) == (radius == 3.0)


def test_the_trust_region_grows_with_success_and_shrinks_without(first):
    best = play(Ours(1), setting(24))[1]
    good = first.joined(best[None], truth(best[None]))
    poor = first.joined(setting().natural[None], truth(setting().natural[None]))
    assert improve.trust(beliefs(first), first) == 0.6
    assert improve.trust(beliefs(good), good) == pytest.approx(0.9)
    assert improve.trust(beliefs(poor), poor) == pytest.approx(0.3)


def test_runs_of_a_later_round_are_better_than_those_of_the_first(first):
    found = improve.next_round("saturating", setting(), first, 12, np.random.default_rng(2), 0.5)
    kinds = np.array(found.kinds)
    assert [int((kinds == kind).sum()) for kind in ("optimum", "improve", "explore")] == [2, 4, 6]
    assert np.array_equal(found.weights[0], found.weights[1]) and len(np.unique(found.weights, axis=0)) == 11
    tried = [mean(each, setting()) for each in first.weights]
    asked = [mean(each, setting()) for each in found.weights[kinds != "explore"]]
    assert np.median(asked) < np.quantile(tried, 0.1)
    assert found.facts["goal"] <= found.facts["best"] and found.facts["noise"] > 0


def test_what_is_explored_is_what_the_draws_disagree_on(first):
    known, given = beliefs(first, 32), setting()
    pool = proposals(given.natural, TOPICS, BANDS, 40, np.minimum(2 * given.caps, 1), np.random.default_rng(5))
    pool = pool[known.value(pool).argsort()[:13]]  # the better third
    values = known.values(pool) - known.values(pool).mean(axis=0)

    def left(places) -> float:
        """Of the draws' variance over the pool, what the runs at `places` leave unknown."""
        basis = np.linalg.qr(values[:, places])[0]
        return float(((values - basis @ (basis.T @ values)) ** 2).sum())

    chosen = improve.explore(known, 4, np.random.default_rng(5))
    places = [int(np.abs(pool - each).sum(axis=1).argmin()) for each in chosen]
    assert np.array_equal(pool[places], chosen)
    others = [left(np.random.default_rng(seed).choice(13, 4, replace=False)) for seed in range(50)]
    assert left(places) < np.quantile(others, 0.1)


def test_the_search_ends_where_less_is_expected_than_half_the_noise(first):
    free = improve.next_round("saturating", setting(), first, 12, np.random.default_rng(2), 0.5)
    tied = improve.next_round("saturating", setting(kl=1e3), first, 12, np.random.default_rng(2), 0.5)  # nothing is better than natural
    for found, ended in ((free, False), (tied, True)):
        assert (found.facts["expected_improvement"] < 0.5 * found.facts["noise"]) == ended == bool(found.why) == (len(found.weights) == 0)
    assert "under 0.5 of the noise" in tied.why and tied.weights.shape == (0, 8)
    asked = improve.next_round("saturating", setting(kl=1e3), first, 12, np.random.default_rng(2), 0.0)
    assert len(asked.weights) == 12 and not asked.why


def test_a_fit_that_sees_nothing_does_not_end_the_search(first):
    few = Seen(first.weights[:12], first.scores[:12], first.rounds[:12])  # repeats of two mixtures, and four others
    found = improve.next_round("saturating", setting(), few, 6, np.random.default_rng(2), 0.5)
    assert found.facts["missed"] > found.facts["noise"] and not found.why


def test_noise_is_that_of_the_weighted_mean(first):
    known, repeated = beliefs(first), Seen(first.weights[:8], first.scores[:8], first.rounds[:8])
    z = repeated.scores / np.array([fit.spread for fit in known.fits]) @ known.weights
    pooled = sum(((each - each.mean()) ** 2).sum() for each in (z[:5], z[5:])) / 6
    assert improve.mean_noise(known, repeated) == pytest.approx(np.sqrt(pooled))
