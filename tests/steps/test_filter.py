from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.errors import UsageError
from cuvee.steps import filter, ingest

GOOD = "Each of these words is another one so that nothing here repeats itself and the text is long enough to be kept ."
ROWS = [
    {"text": GOOD, "license": "MIT", "id": "one", "url": "https://good.org/1"},
    {"text": "", "license": "MIT"},
    {"text": "... --- ...", "license": "MIT"},
    {"text": "Only five words stand here.", "license": "MIT"},
    {"text": "buy it now at once " * 20, "license": "MIT"},
    {"text": GOOD + " And more.", "license": "GPL-3.0"},
    {"text": GOOD + " Taken down.", "license": "MIT", "url": "https://bad.org/x"},
    {"text": GOOD + " Taken down.", "license": "MIT", "url": "https://good.org/copy"},
]


def run(tmp_path: Path, **sections) -> tuple[list[dict], dict]:
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    source = {"name": "s", "path": str(tmp_path / "a.jsonl"), "license_column": "license"}
    recipe = Recipe(work=str(tmp_path / "work"), sources=[source], **sections)
    work = Work(recipe.work, LocalEngine(1))
    table = filter.run(work, recipe, ingest.run(work, recipe))
    return table.read(table.shards[0]).to_pylist(), work.current()["filter/s"].counts


def test_each_document_is_kept_or_has_one_reason_with_its_value_and_threshold(tmp_path):
    rows, counts = run(tmp_path, licenses={"allow": ["MIT"]})
    assert [(row["reason"], row["value"], row["threshold"]) for row in rows] == [
        (None, None, None), ("empty", 0, 1), ("empty", 0, 1), ("too_few_words", 5, 20), ("repetition", pytest.approx(.95), .5),
        ("license_not_allowed", None, None), (None, None, None), (None, None, None)]
    assert [row["keep"] for row in rows] == [row["reason"] is None for row in rows]
    assert counts["read"] == counts["kept"] + sum(counts["dropped"].values()) == len(ROWS)


def test_a_host_on_the_list_takes_all_copies_of_a_text_with_it(tmp_path):
    (tmp_path / "hosts.txt").write_text("bad.org\n\n")
    rows, _ = run(tmp_path, exclude={"hosts": str(tmp_path / "hosts.txt")})
    assert [row["reason"] for row in rows][5:] == [None, "excluded", "excluded"]


@pytest.mark.parametrize("kind, entry, row", [("ids", "one", 0), ("urls", "https://good.org/copy", 6)])
def test_ids_of_the_user_and_urls_are_lists_too(tmp_path, kind, entry, row):
    (tmp_path / "list.txt").write_text(entry)
    rows, _ = run(tmp_path, exclude={kind: str(tmp_path / "list.txt")})
    assert rows[row]["reason"] == "excluded"


def test_an_empty_list_is_an_error(tmp_path):
    (tmp_path / "list.txt").write_text("\n")
    with pytest.raises(UsageError, match="list.txt has no entry"):
        run(tmp_path, exclude={"ids": str(tmp_path / "list.txt")})


def test_mode_tag_keeps_all_but_what_may_not_be_used(tmp_path):
    rows, _ = run(tmp_path, licenses={"allow": ["MIT"]}, filter={"mode": "tag"})
    assert [row["keep"] for row in rows] == [True] * 5 + [False] + [True] * 2 and rows[3]["reason"] == "too_few_words"


def test_no_profile_keeps_everything(tmp_path):
    rows, _ = run(tmp_path, filter={"profile": None})
    assert all(row["keep"] for row in rows)
