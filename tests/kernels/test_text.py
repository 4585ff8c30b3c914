import unicodedata

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.text import are_nfc, buffers, hash64, hash64_many, nfc, text_ids, unicode_table

COMPOSING = "ae\u0301\u0323\u0327\u0345\u212b\u1e69\ufb1d가각각\u0928\u0929\u091c\u093c\u094d\u0958\u09c7\u09be\u0e48\u0e38\u0653\u0627\u3099か𑄮𝅗𝅥"
character = st.sampled_from(COMPOSING) | st.characters(exclude_categories=["Cs"])
text = st.lists(character, max_size=12).map("".join)  # st.text would draw from the union's many, hardly ever from the few
texts = st.lists(text, max_size=6)


@given(texts)
@settings(max_examples=1000, deadline=None)
def test_nfc_is_that_of_unicodedata(documents):
    assert nfc(pa.array(documents, pa.string())).to_pylist() == [unicodedata.normalize("NFC", t) for t in documents]


def test_every_composed_character_is_composed_again():
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    parts = [part for c in every if (part := unicodedata.normalize("NFD", c)) != c]
    parts += [part[0] + "\u0334" + part[1:] for part in parts]  # a mark of class 1 that comes between and composes with none
    assert nfc(pa.array(parts)).to_pylist() == [unicodedata.normalize("NFC", part) for part in parts]


def test_ordinary_text_in_nfc_passes_the_quick_check():
    ordinary = [
        "naïve “quotes” – déjà vu", "Ünïcödé Привет", "हिन्दी में ज़रा", "ภาษาไทยที่นี่", "한국어 漢字 かな", "👩‍💻",
    ]  # fmt: skip
    assert are_nfc(*buffers(pa.array(ordinary)), unicode_table()[1]).all()


@given(texts, st.data())
@settings(deadline=None)
def test_buffers_of_slices_and_chunks_hold_the_same_text(documents, data):
    start = data.draw(st.integers(0, len(documents)))
    for array in (pa.array(documents, pa.string())[start:], pa.array(documents, pa.large_string())[start:],
                  pa.chunked_array([documents[:start], documents[start:]], pa.string())[start:]):  # fmt: skip
        raw, offsets = buffers(array)
        assert [raw[a:b].tobytes().decode() for a, b in zip(offsets, offsets[1:])] == documents[start:]


def test_a_null_is_an_error_that_names_its_row():
    with pytest.raises(ValueError, match="2 nulls, the first at row 1"):
        buffers(pa.array(["a", None, "b", None]))


def test_numbers_are_no_texts():
    with pytest.raises(TypeError, match="Arrow array of int64"):
        buffers(pa.array([1, 2]))


def test_ids_and_draws_are_xxh3_of_the_bytes():
    assert text_ids(pa.array(["", "naïve", "x"])[1:]) == [xxhash.xxh3_128_hexdigest(t.encode()) for t in ("naïve", "x")]
    assert text_ids(pa.array([""])) == ["99aa06d3014798d86001c324468d497f"]  # xxHash's own test vector for no bytes
    assert hash64("ab", 7) == xxhash.xxh3_64_intdigest(b"ab\x007")
    assert hash64_many(["ab", "é"], "heldout").tolist() == [hash64("ab", "heldout"), hash64("é", "heldout")]
