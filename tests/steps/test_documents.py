from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.engine.store import write_table
from cuvee.errors import DataError
from cuvee.record import DOCUMENTS, EDITS
from cuvee.steps.documents import Shard, apply_edits


def lay_out(folder, texts, *verdicts) -> Shard:
    """A documents shard and its verdicts; a verdict is row -> (keep, edits) for the rows that take part."""
    rows = [{"id": f"id{n}", "text": text, "source": "s", "license": "MIT"} for n, text in enumerate(texts)]
    write_table(f"{folder}/documents", pa.Table.from_pylist(rows, DOCUMENTS))
    for number, verdict in enumerate(verdicts):
        keep, edits = zip(*verdict.values())
        table = pa.table({"row": pa.array(verdict, pa.int64()), "id": [f"id{row}" for row in verdict], "keep": keep,
                          "edits": pa.array(edits, EDITS)})
        write_table(f"{folder}/{number}", table)
    return Shard("s/0", f"{folder}/documents", tuple(f"{folder}/{number}" for number in range(len(verdicts))))


def cut(start, end, replacement=""):
    return {"start": start, "end": end, "replacement": replacement}


def test_rows_that_any_verdict_drops_are_gone_and_rows_keep_their_numbers(tmp_path):
    first = {0: (True, None), 1: (False, None), 2: (True, None), 3: (True, None)}
    second = {0: (True, None), 2: (False, None), 3: (True, None)}
    found = lay_out(tmp_path, "abcd", first, second).read(("text",))
    assert found.to_pydict() == {"row": [0, 3], "id": ["id0", "id3"], "text": ["a", "d"]}


def test_edits_of_all_steps_are_offsets_into_the_stored_text(tmp_path):
    verdicts = {0: (True, [cut(0, 2, "X")])}, {0: (True, [cut(5, 7), cut(8, 9, "é")])}
    shard = lay_out(tmp_path, ["0123456789"], *verdicts)
    assert shard.read(("text",))["text"].to_pylist() == ["X2347é9"]
    assert shard.read(("text",), edited=False)["text"].to_pylist() == ["0123456789"]


def test_ids_that_differ_are_told_with_their_row(tmp_path):
    shard = lay_out(tmp_path, "abc", {0: (True, None), 1: (True, None), 2: (True, None)})
    write_table(f"{tmp_path}/0", pa.table({"row": [0, 1, 2], "id": ["id0", "other", "id2"], "keep": [True] * 3}))
    with pytest.raises(DataError, match="row 1: id other where the documents have id1"):
        shard.read(("text",))


@given(st.text("ab日é", max_size=20), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from(["", "x", "日"])), max_size=4))
def test_edits_replace_characters_one_by_one(text, ranges):
    """Against a list of characters, for edits on character boundaries that do not overlap."""
    ends = [len(text[:n].encode()) for n in range(len(text) + 1)]
    edits, expected, free = [], list(text), 0
    for start, length, replacement in sorted(ranges):
        end = start + length
        if start >= free and end <= len(text) and length:
            edits.append(cut(ends[start], ends[end], replacement))
            expected[start:end] = [replacement] + [""] * (length - 1)
            free = end
    assert apply_edits(text, edits[::-1]) == "".join(expected)
