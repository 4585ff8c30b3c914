from __future__ import annotations

import gzip
import json
import re

import pytest

from cuvee.config import Ingest, Source
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.steps.look import first_rows


@pytest.mark.parametrize("rows, said", [
    ([{"text": "a"}], None), ([], None), ([{"body": "a"}, {"text": "b"}], None),
    ([{"body": "a"}], "none of the first 1 rows .* Row 0: no_text: column 'text' is missing; columns here: body"),
    ([{"text": 1}, {"text": None}], "none of the first 2 rows .* Row 0: no_text: column 'text' is int")])
@pytest.mark.parametrize("opened", [open, gzip.open])
def test_first_rows_that_give_no_document_are_told_before_a_run(tmp_path, rows, said, opened):
    with opened(tmp_path / "a.jsonl", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    work = Work(str(tmp_path / "work"), LocalEngine(1))
    doubt = first_rows(work, Source(name="web", path=str(tmp_path / "a.jsonl"), license="MIT"), Ingest())
    assert doubt is None if said is None else re.search(said, doubt)
