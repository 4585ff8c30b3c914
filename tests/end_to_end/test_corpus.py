"""On the bundled corpus, the pipeline and an independent slow script find the same duplicates and the same eval items."""

from __future__ import annotations

import re

import pytest

from cuvee import recipe as recipes
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.store import open_arrow
from cuvee.steps import decontaminate, dedup, ingest
from tests.conftest import ROOT
from tests.end_to_end import brute_force

pytestmark = pytest.mark.slow
SURE = 0.86  # Jaccard from which 20 bands of 7 rows miss fewer than one pair in 1,000


@pytest.fixture(scope="module")
def documents():
    """The documents of the demo's sources as the slow script reads them."""
    files = [path for path in sorted((ROOT / "examples" / "corpus").rglob("*")) if path.is_file() and "LICENSES" not in path.parts]
    named = [path for path in files if path.name.endswith((".txt", ".parquet", ".jsonl", ".gz", ".zst"))]
    return [document for path in named for document in brute_force.read(path, ["text", "body", "content"])]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """file:row -> row of the dedup and of the decontaminate table, of one priority and without the boilerplate rule."""
    recipe = recipes.load(str(ROOT / "examples" / "demo.yaml"), [f"work={tmp_path_factory.mktemp('work')}", "decontaminate.boilerplate=false"])
    recipe = recipe.model_copy(update={
        "sources": [source.model_copy(update={"priority": 0}) for source in recipe.sources],
        "evals": [each.model_copy(update={"fields": None}) for each in recipe.evals]})
    work = Work(recipe.work, LocalEngine(1))
    texts = ingest.run(work, recipe)
    clean, unique = decontaminate.run(work, recipe, texts), dedup.run(work, recipe, texts, [], [])
    places = {shard: _places(url) for shard, url in texts.files.items()}
    found = {}
    for shard in texts.shards:
        for hit, twin in zip(clean.read(shard).to_pylist(), unique.read(shard).to_pylist()):
            if twin["kept_by"]:
                twin["keeper"] = places[f"{twin['kept_by_source']}/{twin['kept_by_shard']}"][twin["kept_by_row"]]
            found[places[shard][twin["row"]]] = twin | {"items": hit["items"], "hit": not hit["keep"]}
    return found


def _places(url: str) -> list[str]:
    rows = open_arrow(url.removesuffix(".parquet") + ".origin.arrow").read_all().to_pylist()
    return [f"{row['file'].rpartition('/')[2]}:{row['row']}" for row in rows]


def test_every_document_is_there(documents, verdicts):
    assert sorted(f"{document.file}:{document.row}" for document in documents) == sorted(verdicts)


def test_duplicates_are_those_of_the_slow_script(documents, verdicts):
    place = [f"{document.file}:{document.row}" for document in documents]
    found = brute_force.duplicates(documents, 0.75)
    similarity = {frozenset((place[i], place[j])): value for i, j, value in found["near"]}
    similarity |= {frozenset((place[i], place[j])): 1.0 for rows in found["normalised"] for i in rows for j in rows}
    removed = {name: row for name, row in verdicts.items() if not row["keep"]}
    for name, row in removed.items():
        assert verdicts[row["keeper"]]["keep"] and row["similarity"] == pytest.approx(_similarity(similarity, found, place, name, row["keeper"]), abs=1e-6)
    for pair, value in similarity.items():
        assert value < SURE or len(pair) == 1 or not all(verdicts[name]["keep"] for name in pair), pair
    expected = brute_force.dropped(documents, found)
    assert len(removed) > 300 and abs(len(removed) - len(expected)) <= 0.02 * len(expected)


def _similarity(known, found, place, name, keeper):
    """Of a removed row and its keeper; copies of one token sequence are as similar to anything as each other."""
    if frozenset((name, keeper)) in known:
        return known[frozenset((name, keeper))]
    twins = [{place[i] for i in rows} for rows in found["normalised"]]
    mine, theirs = (next((group for group in twins if each in group), {each}) for each in (name, keeper))
    return next(known[frozenset((a, b))] for a in mine for b in theirs if frozenset((a, b)) in known)


def test_eval_items_are_those_of_the_slow_script(documents, verdicts):
    place = [f"{document.file}:{document.row}" for document in documents]
    found = brute_force.contaminated(documents, sorted((ROOT / "examples" / "evals").glob("*.jsonl")))
    expected: dict[str, set[str]] = {}
    for item, rows in found.items():
        for row in rows:
            expected.setdefault(place[row], set()).add(item.replace(".jsonl", ""))
    assert {name: set(row["items"]) for name, row in verdicts.items() if row["hit"]} == expected and len(found) == 43


EXAMPLE = re.compile(r"^\| `([^`]+:\d+)` \| `([^`]+:\d+)` \| ([^|]+) \|", re.MULTILINE)


def test_the_examples_of_the_demo_page_are_true(documents, verdicts):
    """Each table row of docs/demo.md that names two rows: a removed one and its twin, or a document and an eval item."""
    examples = EXAMPLE.findall((ROOT / "docs" / "demo.md").read_text())
    text = {f"{document.file}:{document.row}": document.text for document in documents}
    pairs = [(left, right, value) for left, right, value in examples if right in text]
    items = [(left, right) for left, right, _ in examples if right not in text]
    assert len(pairs) >= 5 and len(items) >= 3
    for left, right, value in pairs:
        a, b = (brute_force.shingles(brute_force.tokens(text[name], symbols=True)) for name in (left, right))
        assert len(a & b) / len(a | b) == pytest.approx(float(value), abs=5e-4)
        assert not verdicts[left]["keep"] or not verdicts[right]["keep"]
    for document, item in items:
        assert item.replace(".jsonl", "") in verdicts[document]["items"]
