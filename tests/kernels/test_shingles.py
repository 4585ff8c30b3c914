import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.shingles import containment_pairs, jaccard, jaccard_pairs, sequence_hash, shared_pairs, shingles
from tests.kernels import reference_words as reference

STEP = 0x9E3779B97F4A7C15
few_words = st.lists(st.lists(st.sampled_from("abc"), max_size=12), max_size=6)  # few, so that shingles repeat
sets = st.lists(st.frozensets(st.integers(0, 30), max_size=12), min_size=1, max_size=6)


def flat(documents: list, dtype=np.uint64) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([value for document in documents for value in document], dtype)
    return values, np.cumsum([0] + [len(document) for document in documents])


def reference_shingles(tokens: list[int], n: int) -> set[int]:
    """Polynomials of n hashes that start from the number of tokens, then splitmix64's finaliser."""
    found = set()
    for start in range(max(len(tokens) - n + 1, min(len(tokens), 1))):
        window = tokens[start : start + n]
        state = len(window)
        for token in window:
            state = (state * STEP + token) % 2**64
        found.add(reference.finish(state))
    return found


@given(few_words, st.integers(1, 6))
@settings(deadline=None)
def test_shingles_are_the_sorted_distinct_ones_of_the_reference(documents, n):
    hashed = [[reference.token_hash(word) for word in document] for document in documents]
    values, offsets = shingles(*flat(hashed), n)
    found = [values[a:b].tolist() for a, b in zip(offsets, offsets[1:])]
    assert found == [sorted(reference_shingles(document, n)) for document in hashed]


def test_order_and_number_of_tokens_make_other_shingles():
    one, two = np.uint64(1), np.uint64(2)
    documents = [[one, two], [two, one], [one], [one, one], [one, two, one]]
    assert len(set(shingles(*flat(documents))[0].tolist())) == 5
    assert shingles(*flat([[one] * 9]))[0].size == 1  # five equal tokens, five times over


@given(few_words)
@settings(deadline=None)
def test_sequences_have_one_identity_if_and_only_if_they_are_equal(documents):
    hashed = [[reference.token_hash(word) for word in document] for document in documents]
    identity = [tuple(pair) for pair in sequence_hash(*flat(hashed)).tolist()]
    for half in range(2):
        assert len({pair[half] for pair in identity}) == len({tuple(document) for document in documents})
    assert all((pair == (0, 0)) == (not document) for pair, document in zip(identity, documents))


@given(sets, st.data())
@settings(deadline=None)
def test_overlaps_are_those_of_python_sets(documents, data):
    values, offsets = flat([sorted(document) for document in documents])
    place = st.integers(0, len(documents) - 1)
    left, right = np.array(data.draw(st.lists(st.tuples(place, place), max_size=8)), np.int64).reshape(-1, 2).T
    pairs = [(documents[a], documents[b]) for a, b in zip(left, right)]
    shared = [len(a & b) for a, b in pairs]
    assert shared_pairs(values, offsets, left, right).tolist() == shared
    expected = [s / max(1, len(a | b)) for s, (a, b) in zip(shared, pairs)]
    assert jaccard_pairs(values, offsets, left, right).tolist() == expected
    assert [jaccard(*(np.array(sorted(x), np.uint64) for x in pair)) for pair in pairs] == expected
    smaller = [max(1, min(len(a), len(b))) for a, b in pairs]
    assert containment_pairs(values, offsets, left, right).tolist() == [s / m for s, m in zip(shared, smaller)]
