import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.boilerplate import set_aside, support

pairs = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=30)


@settings(deadline=None)  # the first call compiles
@given(pairs, pairs)
def test_support_counts_texts_that_hold_half_of_the_other_features(holds, belongs):
    texts, features = (np.array(column, np.int64) for column in zip(*sorted(holds))) if holds else (np.zeros(0, np.int64),) * 2
    owned = sorted((feature, item) for item, feature in belongs)
    starts = np.searchsorted([feature for feature, _ in owned], np.arange(8))
    sizes = np.array([sum(item == mine for _, mine in owned) for item in range(6)], np.int64)
    held, supported = support(texts, features, starts, np.array([item for _, item in owned], np.int64), sizes)
    of = {text: {feature for mine, feature in holds if mine == text} for text in range(6)}
    assert held.tolist() == [sum(feature in of[text] for text in of) for feature in range(7)]
    others = {(feature, item): {f for f, i in owned if i == item} - {feature} for feature, item in owned}
    assert supported.tolist() == [sum(pair[0] in of[text] and len(others[pair] & of[text]) >= len(others[pair]) / 2 for text in of)
                                  for pair in owned]


def test_set_aside_by_hand():
    #                        boilerplate, few texts, two sources, a tenth supports, another item supports, small item
    held = np.array([50, 49, 50, 50, 50, 50])
    sources = np.array([3, 3, 2, 3, 3, 3])
    starts, items = np.array([0, 1, 2, 3, 4, 6, 8]), np.array([0, 0, 0, 0, 0, 1, 0, 2])
    supported = np.array([4, 0, 0, 5, 0, 50, 0, 0])
    assert set_aside(held, sources, supported, starts, items, np.array([3, 9, 2])).tolist() == [True] + [False] * 5
