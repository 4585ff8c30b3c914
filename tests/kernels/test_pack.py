import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.pack import copy_rows, pack_concat, pack_fit, predicted

EOS = 0
corpora = st.lists(st.lists(st.integers(1, 99), max_size=30), max_size=40)


def flat(documents):
    tokens = np.array([t for document in documents for t in document], np.uint16)
    return tokens, np.cumsum([0] + [len(document) for document in documents])


def test_pack_concat_by_hand():
    tokens, offsets = flat([[1, 2, 3], [], [4, 5], [6, 7, 8, 9]])
    rows, dropped, padding = pack_concat(tokens, offsets, EOS, seq_len=3)
    assert rows.tolist() == [[1, 2, 3, 0], [0, 4, 5, 0], [6, 7, 8, 9]]
    assert (dropped, padding, rows.dtype) == (1, 0, np.uint16)


def test_pack_fit_by_hand():  # pieces with EOS: 5 (cut 4 + 1), 3, 2, 1; the 3 and the newest 1 fill a row
    tokens, offsets = flat([[1, 2, 3, 4], [5, 6], [7], []])
    rows, dropped, padding = pack_fit(tokens, offsets, EOS, seq_len=3)
    assert rows.tolist() == [[1, 2, 3, 4], [5, 6, 0, 0], [7, 0, 0, 0]]
    assert (dropped, padding) == (0, 1)


def test_rows_of_pack_fit_stand_in_the_order_of_documents():  # packed longest first: 2 3 4, then 5 6 7 8, then 1 with the last EOS
    rows = pack_fit(*flat([[1], [2, 3, 4], [5, 6, 7, 8]]), EOS, seq_len=3).rows
    assert rows.tolist() == [[1, 0, 0, 0], [2, 3, 4, 0], [5, 6, 7, 8]]


def test_the_first_rows_of_pack_fit_are_of_all_lengths():
    rng = np.random.default_rng(0)
    lengths = rng.permutation(np.repeat([3, 9, 14, 40], 1_000))
    rows = pack_fit(*flat([[length] * length for length in lengths]), EOS, seq_len=15).rows
    found = [np.bincount(part.ravel(), minlength=41)[[3, 9, 14, 40]] / part.size for part in (rows[:900], rows)]
    assert np.abs(found[0] - found[1]).max() < 0.05  # of tokens, in texts of each length


@pytest.mark.parametrize("pack", [pack_concat, pack_fit])
def test_a_loss_counts_every_target_but_padding(pack):
    rng = np.random.default_rng(1)
    packed = pack(*flat([[7] * length for length in rng.choice([1, 2, 3, 5, 6, 9], 300)]), EOS, 3)  # 4, a whole row, would end in an EOS of its own
    counted = predicted(packed.rows, EOS)
    assert counted[packed.rows[:, 1:] != EOS].all() and (~counted).sum() == packed.padding
    assert packed.padding == 0 if pack is pack_concat else packed.padding > 0


def test_copy_rows_is_indexing():
    rows, out = np.arange(20, dtype=np.uint16).reshape(5, 4), np.zeros((3, 4), np.int32)
    copy_rows(rows, np.array([4, 0]), out, np.array([2, 0]))
    assert out.tolist() == [[0, 1, 2, 3], [0, 0, 0, 0], [16, 17, 18, 19]]


@settings(deadline=None)  # the first call compiles
@given(corpora, st.integers(1, 12))
def test_pack_concat_is_join_and_cut(documents, seq_len):
    rows, dropped, _ = pack_concat(*flat(documents), EOS, seq_len)
    joined = [t for document in documents for t in [*document, EOS]]
    assert rows.ravel().tolist() == joined[: rows.size]
    assert dropped == len(joined) - rows.size < seq_len + 1


def plain_best_fit(documents, width):
    """Best-fit decreasing by the book: lists, and a full search for the fullest row."""
    joined = [[*document, EOS] for document in documents]
    pieces = sorted((d[i : i + width] for d in joined for i in range(0, len(d), width)), key=len, reverse=True)
    rows = []
    for piece in pieces:
        fits = [row for row in rows if len(row) + len(piece) <= width]
        if not fits:
            rows.append(fits := [])
            fits = [fits]
        max(fits, key=len).extend(piece)
    return rows


@settings(deadline=None)  # the first call compiles
@given(corpora, st.integers(1, 12))
def test_pack_fit_against_a_full_search(documents, seq_len):
    rows, dropped, padding = pack_fit(*flat(documents), EOS, seq_len)
    plain = plain_best_fit(documents, seq_len + 1)
    assert len(rows) == len(plain)
    assert sorted(rows.ravel().tolist()) == sorted([t for row in plain for t in row] + [EOS] * padding)
    assert dropped == 0 and padding == rows.size - sum(map(len, plain))


@settings(deadline=None)  # the first call compiles
@given(corpora, st.integers(1, 12))
def test_pack_fit_keeps_short_documents_whole(documents, seq_len):
    rows = pack_fit(*flat(documents), EOS, seq_len).rows
    texts = ["," + ",".join(map(str, row)) + "," for row in rows.tolist()]
    for document in documents:
        if len(document) <= seq_len:
            assert any("," + ",".join(map(str, [*document, EOS])) + "," in text for text in texts)


def test_a_slice_of_a_larger_store_packs_alike():
    tokens, offsets = flat([[1, 2], [3, 4, 5], [6]])
    for pack in (pack_concat, pack_fit):
        part, alone = pack(tokens, offsets[1:], EOS, 2), pack(tokens[2:], offsets[1:] - 2, EOS, 2)
        assert part.rows.tolist() == alone.rows.tolist()


def test_errors_name_the_value():
    with pytest.raises(ValueError, match="EOS 70000 does not fit .* uint16"):
        pack_concat(*flat([[1]]), 70_000, 3)
    with pytest.raises(ValueError, match="offsets must rise"):
        pack_fit(np.arange(3), np.array([0, 2, 1]), EOS, 3)
