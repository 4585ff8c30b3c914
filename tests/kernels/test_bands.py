"""Bands of equal bytes whatever the shards; small domains; the ridge head and Spearman against references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge

from cuvee.kernels.bands import TOP, band_of, bins, cuts, histogram, join_small, merge, ridge, score, spearman

floats = st.floats(width=32, allow_nan=False)
rows = st.lists(st.tuples(st.sampled_from([-1.5, 0.0, 0.1, 0.2, 2.0]) | floats, st.integers(0, 10**12), st.integers(0, 3)),
                min_size=1, max_size=60)


def columns(drawn):
    scores, sizes, topic = zip(*drawn)
    return np.array(scores, np.float32), np.array(sizes, np.int64), np.array(topic, np.int32)


@given(floats, floats)
def test_bins_keep_the_order(a, b):
    low, high = sorted((a, b))
    first, second = bins(np.array([low, high], np.float32))
    assert first <= second < TOP
    assert first < second or low == high or abs(high - low) <= max(abs(low), abs(high)) * 2**-11 + 1e-40


@given(rows, st.randoms(use_true_random=False))
def test_the_histogram_does_not_depend_on_the_shards(drawn, random):
    whole = histogram(*columns(drawn))
    random.shuffle(drawn)
    place = random.randint(0, len(drawn))
    parts = [histogram(*columns(part)) for part in (drawn[place:], drawn[:place]) if part]
    merged = merge(parts)
    for field in ("topic", "bin", "bytes", "documents"):
        assert np.array_equal(getattr(whole, field), getattr(merged, field))


@given(rows, st.integers(1, 6))
def test_bands_are_equal_within_the_largest_tie(drawn, bands):
    scores, sizes, topic = columns(drawn)
    band = band_of(scores, topic, cuts(histogram(scores, sizes, topic), 4, bands))
    assert band.min() >= 1 and band.max() <= bands
    for here in set(topic):
        inside = topic == here
        _, place = np.unique(bins(scores[inside]), return_inverse=True)
        tie = np.bincount(place, sizes[inside]).max()
        below = np.cumsum(np.bincount(band[inside], sizes[inside], bands + 1)[1:])
        assert (np.abs(below - below[-1] * np.arange(1, bands + 1) / bands) <= tie / 2 + 1e-3).all()
        assert (np.diff(band[inside][np.argsort(scores[inside], kind="stable")]) >= 0).all()


def test_bands_golden():  # 10 bytes in 5 bands: 2 each, but the three rows at .5 stay together in the middle band
    scores, sizes = np.array([.1, .5, .5, .5, .9, .95], np.float32), np.array([2, 1, 2, 1, 2, 2])
    topic = np.zeros(6, np.int32)
    cut = cuts(histogram(scores, sizes, topic), 1, 5)
    assert band_of(scores, topic, cut).tolist() == [1, 3, 3, 3, 4, 5]


def test_equal_scores_give_one_band():
    scores, topic = np.full(9, -3.0), np.zeros(9, np.int32)
    assert set(band_of(scores, topic, cuts(histogram(scores, np.ones(9), topic), 1, 5))) == {3}


def test_a_missing_score_is_named():
    with pytest.raises(ValueError, match="row 1"):
        bins(np.array([0, np.nan], np.float32))


@pytest.mark.parametrize("documents, joined", [
    ([50, 50, 50, 50, 50], [1, 2, 3, 4, 5]),
    ([50, 50, 50, 50, 3], [1, 2, 3, 4, 4]),  # the end has one neighbour
    ([50, 3, 40, 50, 50], [1, 3, 3, 4, 5]),  # the neighbour of fewest documents
    ([50, 3, 50, 50, 50], [1, 1, 3, 4, 5]),  # a tie: the worse
    ([4, 5, 4, 50, 50], [2, 2, 2, 4, 5]),  # 4 + 5 = 9 is still under 10, so band 3 joins too
    ([1, 1, 1, 1, 1], [4, 4, 4, 4, 4]),  # 1 to 2, 3 to 4, 5 to 4, then 2 to 4: a topic too small as a whole
])
def test_small_domains_join_their_neighbour(documents, joined):
    documents = np.array([documents])
    assert join_small(documents, documents * 100, 10, 0)[0].tolist() == joined


@given(arrays(np.int64, (3, 5), elements=st.integers(0, 40)), arrays(np.int64, (3, 5), elements=st.integers(0, 40)))
def test_joined_domains_are_runs_of_bands_that_are_large_enough(documents, tokens):
    for topic, joined in enumerate(join_small(documents, tokens, 10, 12)):
        names = sorted(set(joined.tolist()))
        assert (np.diff(joined) >= 0).all() and all(joined[name - 1] == name for name in names)
        for name in names:
            inside = joined == name
            assert len(names) == 1 or (documents[topic, inside].sum() >= 10 and tokens[topic, inside].sum() >= 12)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_spearman_is_scipys(pairs):
    left, right = np.array(pairs).T
    constant = np.ptp(left) == 0 or np.ptp(right) == 0
    assert np.isnan(spearman(left, right)) if constant else spearman(left, right) == pytest.approx(spearmanr(left, right)[0])


def labelled(draw, noise=0.5, count=300):
    rng = np.random.default_rng(draw)
    vectors = rng.standard_normal((count, 10)) / np.sqrt(10) + 1
    return vectors, vectors @ rng.standard_normal(10) + noise * rng.standard_normal(count)


def test_the_head_is_sklearns():
    vectors, targets = labelled(0)
    head = ridge(vectors, targets)
    reference = Ridge(alpha=head.penalty * len(vectors)).fit(vectors, targets)
    assert head.coefficients == pytest.approx(reference.coef_, rel=1e-6)
    assert score(vectors, head) == pytest.approx(reference.predict(vectors), rel=1e-4, abs=1e-4)


def test_spearman_of_the_head_is_out_of_fold():
    """On labels of pure noise, a fit to its own rows would look good; out of fold it does not."""
    vectors, targets = np.random.default_rng(1).standard_normal((60, 30)), np.random.default_rng(2).standard_normal(60)
    head = ridge(vectors, targets)
    assert spearman(score(vectors, head), targets) > 0.5 and head.spearman < 0.3
    assert ridge(*labelled(3, noise=0.1)).spearman > 0.95


def test_the_penalty_grows_with_the_noise():
    assert ridge(*labelled(4, noise=0.01)).penalty < ridge(*labelled(4, noise=5, count=60)).penalty


def test_labels_that_are_all_equal_are_refused():
    with pytest.raises(ValueError, match="all equal"):
        ridge(np.eye(20), np.ones(20))
