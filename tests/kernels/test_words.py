import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvee.kernels.make_unicode_table import FILE, UNSURE, normal_table, word_table
from cuvee.kernels.text import buffers, nfc, unicode_table
from cuvee.kernels.words import SYMBOL, scan, tokenize, word_tables
from tests.kernels import reference_words as reference

TABLE_VERSION = str(np.load(FILE)["version"])
KINDS = ["word", "unspaced", "symbol"]
TRICKY = "aZé5²Ⅷ_.-*  ''’\u00ad\u200c\u200d\ufe0f\U000e0100\u0301\u0323\u0345\u0903ßẞİıſΣςǅꭰ漢〇々ひーﾊ\u3099ไก็ក្ြလ한각𠀀𐐀𝒜👩💻🏽🇩+<=$€^`"


def known(c: str) -> bool:
    """Not assigned after the table's version; such code points are no part of a word on any Python."""
    later = unicodedata.unidata_version != TABLE_VERSION and unicode_table()[1][ord(c)] & UNSURE
    return not (later and unicodedata.category(c) != "Cn" and unicodedata.normalize("NFC", c) == c)


character = st.sampled_from(TRICKY) | st.characters(exclude_categories=["Cs"]).filter(known)
dense = st.text("aé5'’ \u00ad\u0301漢ไ+", max_size=40)  # so few that joins, marks and digits meet in every order
texts = st.lists(dense | st.text(character, max_size=40), max_size=5)


def cut(documents: list[str]):
    return tokenize(*buffers(nfc(pa.array(documents, pa.string()))))


@given(texts)
@settings(max_examples=500, deadline=None)
def test_tokens_are_those_of_the_reference(documents):
    found = cut(documents)
    expected = [reference.tokens(unicodedata.normalize("NFC", text)) for text in documents]
    base = np.cumsum([0] + [len(unicodedata.normalize("NFC", text).encode()) for text in documents])
    kinds = [KINDS[kind] for kind in found.kinds]
    rows = zip(found.hashes.tolist(), kinds, found.letters.tolist(), found.starts, found.ends)
    assert list(rows) == [
        (reference.token_hash(token.text), token.kind, token.letter, token.start + at, token.end + at)
        for at, tokens in zip(base, expected)
        for token in tokens
    ]
    assert found.offsets.tolist() == np.cumsum([0] + [len(ts) for ts in expected]).tolist()


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("Don’t stop, DON'T 'quote' rock'n'roll x'5", "don't stop don't quote rock'n'roll x 5"),
        ("5'x a5'b 5a'b 'a' a''b x\u0301'y é'é", "5 x a5 b 5a'b a a b x\u0301 y é'é"),
        ("x + y < 3€ **bold** `a_b`", "x + y < 3 € bold ` a b `"),
        ("co\u00adop\u200dera\ufe0ftion\u00ad \u200d\u0301x", "cooperation x"),
        ("STRASSE Straße ẞ İ Σίσυφος", "strasse straße ß İ σίσυφοσ"),
        ("漢字 ไม่ カﾅ 한국어 中'文", "漢 字 ไ ม ่ カ ﾅ 한국어 中 文"),
        ("👩\u200d💻👍🏽 ❤\ufe0f", "👩 💻 👍 🏽 ❤"),
        ("e\u0301t\u00e9 हिन्दी", "été हिन्दी"),
        (" \n\t.,;:!?()[]—…\u0301", ""),
    ],
)
def test_tokens_by_hand(text, tokens):
    assert cut([text]).hashes.tolist() == [reference.token_hash(token) for token in tokens.split()]


def test_words_are_the_tokens_that_are_no_symbols():
    text = "a + b = 漢字, don't"
    found = cut([text])
    assert found.hashes[found.kinds != SYMBOL].tolist() == [reference.token_hash(w) for w in reference.words(text)]


@given(dense.filter(len), st.integers(1, 3))
@settings(deadline=None)
def test_a_scan_may_stop_anywhere_and_go_on(text, room):
    whole = cut([text])
    data, offsets = buffers(nfc(pa.array([text])))
    arrays = [np.empty(room, dtype) for dtype in (np.uint64, np.int64, np.int64, np.uint8)]
    seen, position = [], 0
    while position < offsets[1]:
        position, count = scan(data, position, offsets[1], word_tables(), *arrays)
        seen += zip(*(array[:count].tolist() for array in arrays[:3]))
    assert seen == list(zip(whole.hashes.tolist(), whole.starts, whole.ends))


def test_more_tokens_than_first_guessed_are_all_kept():
    assert np.array_equal(cut(["+" * 5000, "漢" * 5000]).offsets, [0, 5000, 10000])


@pytest.mark.skipif(unicodedata.unidata_version != TABLE_VERSION, reason=f"the table is of Unicode {TABLE_VERSION}")
def test_the_checked_in_table_is_what_its_script_writes():
    words, normal = unicode_table()
    assert np.array_equal(words, word_table())
    assert np.array_equal(normal, normal_table())
