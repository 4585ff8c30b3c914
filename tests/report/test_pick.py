from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.engine.shard import Table
from cuvee.errors import DataError
from cuvee.record import DEDUP
from cuvee.report import pick
from tests.report.tiny import identity, rows


@given(st.integers(0, 400), st.integers(2, 9))
def test_evenly_takes_both_ends(count, most):
    found = pick.evenly(range(count), most)
    assert found == sorted(set(found)) and len(found) == min(count, most)
    assert count == 0 or (found[0], found[-1]) == (0, count - 1)


def table(tmp_path, name: str, parts: dict[str, pa.Table]) -> Table:
    for shard, part in parts.items():
        path = tmp_path / name / f"{shard}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, path, row_group_size=7)
    return Table(name, {shard: str(tmp_path / name / f"{shard}.parquet") for shard in parts}, {}, "")


@pytest.fixture
def documents(tmp_path) -> Table:
    texts = [f"text {n}" for n in range(30)]
    return table(tmp_path, "documents", {"s/0": pa.table({"id": [identity(text) for text in texts], "text": texts})})


def test_texts_come_from_any_row_group(documents):
    wanted = [{"shard": "s/0", "row": row, "id": identity(f"text {row}")} for row in (0, 6, 7, 29, 13)]
    texts = pick.Texts(documents, wanted)
    assert [texts[row] for row in wanted] == ["text 0", "text 6", "text 7", "text 29", "text 13"]


def test_an_id_of_another_text_is_an_error(documents):
    with pytest.raises(DataError, match="row 8: id"):
        pick.Texts(documents, [{"shard": "s/0", "row": 8, "id": identity("other")}])


def test_near_examples_run_from_lowest_to_highest_similarity(tmp_path, documents):
    near = [{"source": "s", "shard": "0", "row": row, "id": identity(f"text {row}"), "keep": row == 0, "kind": "near" if row else "unique",
             "similarity": 1 - row / 100 if row else None, "kept_by": identity("text 0") if row else None, "kept_by_source": "s", "kept_by_shard": "0",
             "kept_by_row": 0, "copies": None if row else 21} for row in range(21)]
    near += [{"source": "s", "shard": "0", "row": row, "id": identity(f"text {row}"), "keep": True, "kind": "unique", "copies": row - 19} for row in (21, 22)]
    pairs, copied = pick.duplicates(table(tmp_path, "dedup", {"s/0": rows(DEDUP, near)}), documents)
    assert [pair["similarity"] for pair in pairs] == [0.8, 0.84, 0.89, 0.94, 0.99]  # rows 20, 16, 11, 6, 1
    assert [pair["removed_name"] for pair in pairs][:2] == ["s/0:20", "s/0:16"] and {pair["kept"] for pair in pairs} == {"text 0"}
    assert [each["fact"] for each in copied] == ["21 copies", "3 copies", "2 copies"]
    assert copied[0] == {"row": "s/0:0", "text": "text 0", "fact": "21 copies"}
