import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.ngrams import FeatureSet, features, scan, spans
from cuvee.kernels.text import buffers
from cuvee.kernels.words import tokenize

WORDS, HAN, SYMBOLS = ["a", "b'c", "d", "12", "3", "e5", "f", "gg"], list("中文字的是不"), ["+", "=", "🙂"]
tokens = st.sampled_from(WORDS + HAN * 2 + SYMBOLS)
texts = st.lists((st.lists(tokens, max_size=25) | st.lists(tokens, min_size=25, max_size=50)).map(" ".join), min_size=1, max_size=4)


def tokens_of(strings):
    return tokenize(*buffers(pa.array(strings, pa.large_string())))


def reference(text):
    """(first word, words) of each feature, from the definition; these texts have blanks between all tokens."""
    words = [word for word in text.split() if word not in SYMBOLS]
    weights = [1 if word in HAN else 2 for word in words]
    runs = []
    if 16 <= sum(weights) < 26:
        runs = [(0, words)]
    for start in range(len(words)):
        ends = [end for end in range(start, len(words) + 1) if sum(weights[start:end]) >= 26]
        runs += [(start, words[start:ends[0]])] if ends else []
    return [(start, tuple(run)) for start, run in runs if len(set(run)) >= 6 and any(c.isalpha() for c in "".join(run))]


def set_of(found):
    hashes, place = np.unique(found.hashes, return_index=True)
    return FeatureSet.build(hashes, found.anchors[place], found.lengths[place])


@settings(deadline=None)  # the first call compiles
@given(texts)
def test_features_are_those_of_the_definition(strings):
    found = features(tokens_of(strings))
    expected = [run for text in strings for _, run in reference(text)]
    assert np.diff(found.offsets).tolist() == [len(reference(text)) for text in strings]
    assert found.lengths.tolist() == [len(run) for run in expected]
    names = dict(zip(expected, found.hashes.tolist()))
    assert [names[run] for run in expected] == found.hashes.tolist() and len(set(names.values())) == len(names)


@settings(deadline=None)
@given(texts, texts)
def test_scan_finds_every_place_of_every_feature(known, strings):
    found = scan(tokens_of(strings), set_of(features(tokens_of(known))))
    wanted = {run for text in known for _, run in reference(text)}
    expected = []
    for document, text in enumerate(strings):
        words = tuple(word for word in text.split() if word not in SYMBOLS)
        expected += [(document, start, end - start) for start in range(len(words)) for end in range(start + 8, len(words) + 1)
                     if words[start:end] in wanted]
    documents = np.repeat(np.arange(len(strings)), np.diff(found.offsets))
    assert list(zip(documents.tolist(), found.words.tolist(), found.lengths.tolist())) == expected


@settings(deadline=None)
@given(texts)
def test_spans_cover_what_the_matches_cover(strings):
    found = scan(tokens_of(strings), set_of(features(tokens_of(strings))))
    standing = np.arange(len(found.words)) % 3 != 1
    covered = [set() for _ in strings]
    for match in np.flatnonzero(standing):
        document = np.searchsorted(found.offsets, match, side="right") - 1
        covered[document] |= set(range(found.words[match], found.words[match] + found.lengths[match]))
    got = spans(found.offsets, found.words, found.lengths, standing)
    stretches = [sum(word - 1 not in words for word in words) for words in covered]
    assert got.covered.tolist() == [len(words) for words in covered]
    assert np.diff(got.offsets).tolist() == stretches


def test_features_by_hand():  # 14 words of 2 give two runs of 13; 8 words weigh 16; 7 weigh 14
    strings = [" ".join(f"w{i}" for i in range(count)) for count in (14, 13, 12, 8, 7)]
    found = features(tokens_of(strings))
    assert np.diff(found.offsets).tolist() == [2, 1, 1, 1, 0]
    assert found.lengths.tolist() == [13, 13, 13, 12, 8] and found.hashes[0] == found.hashes[2]


@pytest.mark.parametrize("text", ["a b c d e " * 5, "1 2 3 4 5 6 7 8 9 10 11 12 13 14"])
def test_few_distinct_words_or_no_letter_make_no_feature(text):
    assert len(features(tokens_of([text])).hashes) == 0


def test_a_set_of_many_features_misses_none_and_invents_none():
    rng = np.random.default_rng(0)
    strings = [" ".join(f"w{word}" for word in rng.integers(0, 50, 300)) for _ in range(200)]
    found = features(tokens_of(strings))
    assert scan(tokens_of(strings), set_of(found)).offsets[-1] == len(found.hashes) == 200 * 288
    others = [" ".join(f"w{word}" for word in rng.integers(0, 50, 300)) for _ in range(200)]
    assert scan(tokens_of(others), set_of(found)).offsets[-1] == 0


def test_an_unsorted_set_is_refused():
    with pytest.raises(ValueError, match="ascending"):
        FeatureSet.build(np.array([2, 1], np.uint64), np.zeros(2, np.uint64), np.array([8, 8]))


def test_matches_that_touch_are_one_span_by_hand():  # words 0-12, 13-25, then 27-39 stand apart
    got = spans(np.array([0, 3]), np.array([0, 13, 27]), np.array([13, 13, 13]), np.ones(3, bool))
    assert (got.first.tolist(), got.last.tolist(), got.covered.tolist()) == ([0, 2], [1, 2], [39])
