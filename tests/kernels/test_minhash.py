import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.minhash import (
    BANDS,
    BLOCK,
    MINIMA,
    NOTHING,
    ROWS,
    SEED,
    agreement,
    agreement_pairs,
    band_keys,
    sign,
    sign_tokens,
    signatures,
    sort_keys,
    splitmix64,
)  # fmt: skip
from cuvee.kernels.text import buffers, nfc
from cuvee.kernels.words import tokenize
from tests.kernels import reference_words as reference
from tests.kernels.test_shingles import flat, reference_shingles
from tests.kernels.test_words import character

TEXT = "The quick brown fox jumps over the lazy dog; 漢字 and naïve x < y."


def reference_signature(shingles: set[int]) -> list[int]:
    multipliers = [output >> 32 | 1 for output in splitmix64(SEED, MINIMA)]
    return [min(((s >> 32) + m * (s % 2**32)) % 2**32 for s in shingles) if shingles else NOTHING for m in multipliers]


def overlapping_sets(pairs: int, shared: int, own: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Signatures of `pairs` pairs of random sets with Jaccard shared / (shared + 2 own)."""
    common, a, b = np.split(
        np.random.default_rng(seed).integers(0, 2**64, (pairs, shared + 2 * own), np.uint64), [shared, shared + own], 1
    )
    offsets = np.arange(pairs + 1) * (shared + own)
    return tuple(signatures(np.hstack([common, rest]).ravel(), offsets) for rest in (a, b))


@given(st.lists(st.text(character, max_size=40), max_size=4))
@settings(deadline=None)
def test_signatures_are_those_of_the_reference(texts):
    signed = sign(pa.array(texts, pa.string()))
    for text, minima, tokens in zip(texts, signed.signatures, signed.tokens):
        hashes = [reference.token_hash(t.text) for t in reference.tokens(unicodedata.normalize("NFC", text))]
        assert tokens == len(hashes)
        assert minima.tolist() == reference_signature(reference_shingles(hashes, 5))


def test_splitmix64_gives_its_published_outputs():  # of seed 1234567, as on Rosetta Code
    assert splitmix64(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_golden_signature():
    signed = sign(pa.array([TEXT]))
    assert signed.signatures[0, :4].tolist() == [38118053, 182346740, 1210356, 264194704]
    assert signed.sequence[0].tolist() == [0x25D5020BECB57592, 0xD333AC550306CF3F]
    assert band_keys(signed.signatures)[0, :2].tolist() == [0x68B2530CE2DBB20C, 0x903A10E8814B72DE]
    assert sort_keys(signed.signatures)[0, :2].tolist() == [0x4F6B8B20B44B13C2, 0x4D00047CC8C77754]


@pytest.mark.parametrize("run", [1, 4, 5, *range(BLOCK - 5, BLOCK + 8), 3 * BLOCK + 7])
def test_streaming_in_blocks_changes_nothing(run):
    texts = pa.array(["a " * run + "b " * run + "c " * run + "...", "", TEXT])  # 11 shingles: each one counts
    cut = tokenize(*buffers(nfc(texts)))
    for streamed, whole in zip(sign(texts), sign_tokens(cut.hashes, cut.offsets)):
        assert np.array_equal(streamed, whole)
    assert sign(texts).tokens.tolist() == [3 * run, 0, 16]


def test_neither_order_nor_batch_nor_repeats_nor_case_change_a_signature():
    texts = [TEXT, "one two three four five six", TEXT.upper() + " !", "x", ""]
    whole, back = sign(pa.array(texts)), sign(pa.array(texts[::-1]))
    alone = [sign(pa.array([text])) for text in texts]
    for field, reverse, parts in zip(whole, back, zip(*alone)):
        assert np.array_equal(field, reverse[::-1])
        assert np.array_equal(field, np.concatenate(parts))
    assert np.array_equal(whole.signatures[0], whole.signatures[2])
    again = sign(pa.array([" ".join([texts[1]] * 3), " ".join([texts[1]] * 2)]))
    assert np.array_equal(*again.signatures) and not np.array_equal(*again.sequence)


@pytest.mark.parametrize("shared, own", [(65, 10), (70, 15), (78, 11), (60, 20), (18, 1), (50, 25)])
def test_pairs_are_found_as_often_as_theory_says(shared, own):
    a, b = overlapping_sets(40_000, shared, own, seed=shared)
    similarity = shared / (shared + 2 * own)
    found = (band_keys(a) == band_keys(b)).any(1).mean()
    assert abs(found - (1 - (1 - similarity**ROWS) ** BANDS)) < 0.01
    share = agreement(a, b)
    assert abs(share.mean() - similarity) < 5 * share.std() / 200  # five standard errors: no bias
    assert share.std() == pytest.approx((similarity * (1 - similarity) / MINIMA) ** 0.5, rel=0.02)


def test_band_keys_tell_bands_apart():
    keys = band_keys(np.tile(np.arange(ROWS, dtype=np.uint32), (1, BANDS)))
    assert len(set(keys[0].tolist())) == BANDS


def test_sort_keys_hold_the_low_bits_of_the_minima_after_the_band():
    keys = sort_keys(np.arange(MINIMA, dtype=np.uint32)[None] + 0x70000)
    assert keys[0, 0] == 0x0007_0008_0009_000A
    assert keys[0, BANDS - 1] == 0x0000_0001_0002_0003


def test_agreement_counts_equal_minima():
    minima = signatures(*flat([range(1, 9), range(1, 9), range(2, 40)]))
    left, right = np.array([0, 2]), np.array([1, 0])
    expected = [1.0, (minima[2] == minima[0]).mean()]
    assert agreement_pairs(minima, left, right).tolist() == agreement(minima[left], minima[right]).tolist() == expected
