import unicodedata

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.offsets import edited, normalised
from cuvee.steps.documents import apply_edits

TRICKY = "aé中\u0301\u0327\u0300ệ\u1100\u1161\u11a8각가\u0958\u093c\u0f73\u0f71\u0344\u212b=\u0338🙂\u0b47\u0b3e"
texts = st.text(st.sampled_from(TRICKY) | st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(deadline=None)
@given(texts)
def test_pieces_normalised_apart_are_the_normalised_text(text):
    raw, normal, pieces = text.encode(), unicodedata.normalize("NFC", text).encode(), normalised(text)
    assert (pieces.before[-1], pieces.after[-1]) == (len(raw), len(normal))
    for i, copied in enumerate(pieces.copied):
        old, new = raw[pieces.before[i]:pieces.before[i + 1]], normal[pieces.after[i]:pieces.after[i + 1]]
        assert unicodedata.normalize("NFC", old.decode()).encode() == new and copied == (old == new)


def test_spans_of_normalised_text_by_hand():  # e + acute (3 bytes) -> e acute (2 bytes)
    pieces = normalised("ae\u0301b 中")
    assert pieces.starts(np.array([0, 1, 3, 5])).tolist() == [0, 1, 4, 6]
    assert pieces.ends(np.array([1, 3, 4, 8])).tolist() == [1, 4, 5, 9]


def test_spans_of_edited_text_by_hand():  # ab[cd->X]ef[gh->]ij
    edits = [{"start": 2, "end": 4, "replacement": "X"}, {"start": 6, "end": 8, "replacement": ""}]
    text = apply_edits("abcdefghij", edits)
    pieces = edited(len(text), edits)
    assert text == "abXefij"
    assert pieces.starts(np.array([1, 2, 3, 5])).tolist() == [1, 2, 4, 8]
    assert pieces.ends(np.array([2, 3, 5, 6])).tolist() == [2, 4, 6, 9]


ranges = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)


@given(st.lists(st.tuples(ranges, st.text("XY", max_size=3)), max_size=4))
def test_copied_bytes_of_an_edited_text_are_where_the_pieces_say(changes):
    old = "abcdefghijklmnopqrst"
    edits = [{"start": start, "end": end, "replacement": text} for (start, end), text in changes]
    new = apply_edits(old, edits)
    pieces = edited(len(new), edits)
    places = np.array([place for place, letter in enumerate(new) if letter.islower()], np.int64)
    assert [old[place] for place in pieces.starts(places)] == [new[place] for place in places]
    assert (pieces.ends(places + 1) == pieces.starts(places) + 1).all()
