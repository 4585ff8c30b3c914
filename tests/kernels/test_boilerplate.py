import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.boilerplate import needed, set_aside, support

pairs = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=30)


@settings(deadline=None)  # the first call compiles
@given(pairs, pairs)
def test_support_counts_texts_that_hold_half_of_an_item_or_all_of_a_string(holds, belongs):
    texts, features = (np.array(column, np.int64) for column in zip(*sorted(holds))) if holds else (np.zeros(0, np.int64),) * 2
    owned = sorted((feature, unit) for unit, feature in belongs)
    starts = np.searchsorted([feature for feature, _ in owned], np.arange(8))
    sizes = np.array([sum(unit == mine for _, mine in owned) for unit in range(6)], np.int64)
    held, supported = support(texts, features, starts, np.array([unit for _, unit in owned], np.int64), needed(sizes, 4))
    of = {text: {feature for mine, feature in holds if mine == text} for text in range(6)}
    assert held.tolist() == [sum(feature in of[text] for text in of) for feature in range(7)]
    others = {(feature, unit): {f for f, u in owned if u == unit} - {feature} for feature, unit in owned}

    def stands(pair, text):
        whole, small = pair[1] >= 4, sizes[pair[1]] < 3
        return others[pair] <= of[text] if whole else small or 2 * len(others[pair] & of[text]) >= len(others[pair])

    assert supported.tolist() == [sum(pair[0] in of[text] and stands(pair, text) for text in of) for pair in owned]


def test_set_aside_by_hand():
    #                 boilerplate, few texts, two sources, a tenth supports, another unit supports, no unit is needed
    held = np.array([50, 49, 50, 50, 50, 50])
    sources = np.array([3, 3, 2, 3, 3, 3])
    starts, supported = np.array([0, 1, 2, 3, 4, 6, 8]), np.array([4, 0, 0, 5, 0, 50, 0, 50])
    assert set_aside(held, sources, supported, starts).tolist() == [True] + [False] * 5
