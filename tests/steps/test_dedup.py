from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.engine.store import open_arrow, open_npy
from cuvee.steps import decontaminate, dedup, ingest
from tests.end_to_end.brute_force import shingles, tokens

WORDS = "oak elm ash fir yew bay fig box may ivy rue nut".split()
SAID = ("id", "keep", "kind", "kept_by", "similarity", "copies")  # what hangs on the texts alone, not on where they stand


def corpus(seed: int, count: int = 150) -> list[str]:
    """Texts of few words: copies, other punctuation, few or many changed words, chains of changes, short ones, none at all."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, int(rng.integers(30, 120)))) for _ in range(count // 6)]
    while len(texts) < count:
        words = texts[int(rng.integers(len(texts)))].split() or ["yew"]
        for _ in range(int(rng.choice([0, 1, 1, 2, 4, 12]))):
            words[int(rng.integers(len(words)))] = str(rng.choice(WORDS))
        shape = int(rng.integers(12))
        drawn = {0: " ".join(words).upper() + "!", 1: " ".join(words[:3]), 2: "" if rng.random() < 0.5 else "... --", 3: "; ".join(words)}
        texts.append(drawn.get(shape, " ".join(words)))
    return [texts[place] for place in rng.permutation(count)]


def split(texts: list[str], parts: int) -> dict[str, list[str]]:
    return {f"s{part}": texts[part::parts] for part in range(parts)}


def recipe_of(folder: Path, sources: dict[str, list[str]], per_source: dict[str, dict] | None = None, **sections: Any) -> Recipe:
    """A recipe over one JSONL file a source."""
    made = []
    for name, texts in sources.items():
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        made.append({"name": name, "path": str(path), "license": "MIT", **(per_source or {}).get(name, {})})
    return Recipe(work=str(folder / "work"), sources=made, **sections)


def deduplicated(recipe: Recipe, engine: Any = None) -> tuple[Work, list[dict[str, Any]]]:
    """The dedup table in the order of sources and rows, judged by decontaminate where the recipe has evaluations."""
    work = Work(recipe.work, engine or LocalEngine(1))
    documents = ingest.run(work, recipe)
    judged = [decontaminate.run(work, recipe, documents)] if recipe.evals else []
    table = dedup.run(work, recipe, documents, (), judged)
    return work, [row for shard in table.shards for row in table.read(shard).to_pylist()]


def said(rows: list[dict[str, Any]]) -> list[tuple]:
    return sorted((tuple(row[name] for name in SAID) for row in rows), key=str)


def stored(work: Work, step: str, prefix: str) -> list[dict[str, Any]]:
    folder = work.current()[step]
    return [row for name in folder.files if name.startswith(prefix) for row in open_arrow(folder.file(name)).read_all().to_pylist()]


# An independent reference in plain Python, over the pairs that were retrieved.

def jaccard(a: str, b: str) -> float:
    one, other = (shingles(tokens(text, symbols=True)) for text in (a, b))
    return len(one & other) / max(1, len(one | other))


def reference(texts: list[str], pairs: list[tuple[int, int]], threshold: float, rank: dict[int, tuple]) -> dict[int, tuple]:
    """Place of each dropped text -> (kind, place of its keeper, similarity)."""
    order = sorted(range(len(texts)), key=lambda i: (*rank.get(i, ()), -len(texts[i].encode()), xxhash.xxh3_128_hexdigest(texts[i].encode()), i))
    group = {i: tuple(tokens(texts[i], symbols=True)) or texts[i] for i in order}
    head: dict[Any, int] = {}
    for i in order:
        head.setdefault(group[i], i)
    near = defaultdict(dict)
    for a, b in pairs:
        if (similarity := jaccard(texts[a], texts[b])) >= threshold:
            near[group[a]][group[b]] = near[group[b]][group[a]] = similarity
    keeper: dict[Any, Any] = {}
    for each in head:  # in priority order of their heads
        keeper[each] = next((other for other in head if other in near[each] and keeper.get(other) == other), each)
    found = {}
    for i in order:
        by = head[keeper[group[i]]]
        if by != i:
            kind = "exact" if texts[i] == texts[by] else "normalised" if group[i] == group[by] else "near"
            found[i] = (kind, by, 1.0 if kind != "near" else near[group[i]][group[by]])
    return found


@pytest.mark.parametrize("seed, threshold", [(0, 0.75), (1, 0.75), (2, 0.65), (3, 0.9), (4, 1.0)])
def test_every_row_is_what_a_slow_reference_says(seed, threshold, tmp_path):
    sources = split(corpus(seed), 3)
    texts = [text for name in sources for text in sources[name]]
    work, rows = deduplicated(recipe_of(tmp_path, sources, dedup={"threshold": threshold}))
    pairs = [(row["left"], row["right"]) for row in stored(work, "dedup.pairs", "pairs.")]
    found = {i: (row["kind"], [name for name in sources].index(row["kept_by_source"]), row["kept_by_row"], row["similarity"])
             for i, row in enumerate(rows) if not row["keep"]}
    firsts = np.cumsum([0, *map(len, sources.values())])
    assert {i: (kind, firsts[source] + row, pytest.approx(similarity, abs=1e-6)) for i, (kind, source, row, similarity) in found.items()} == reference(
        texts, pairs, threshold, {})
    assert len(pairs) > 30 and {kind for kind, *_ in found.values()} == {"exact", "normalised", *(["near"] if threshold < 1 else [])}


@pytest.mark.parametrize("seed", [0, 1])
def test_what_was_retrieved_is_stored_at_its_exact_similarity_and_little_is_missed(seed, tmp_path):
    texts = corpus(seed)
    work, rows = deduplicated(recipe_of(tmp_path, {"s": texts}))
    edges = {(row["left"], row["right"]): row["jaccard"] for row in stored(work, "dedup.edges", "edges.")}
    for row in stored(work, "dedup.pairs", "pairs."):
        similarity = jaccard(texts[row["left"]], texts[row["right"]])
        assert edges.get((row["left"], row["right"]), 0.0) == pytest.approx(similarity if similarity >= 0.65 else 0.0, abs=1e-9)
    kept = [text for text, row in zip(texts, rows) if row["keep"]]
    pairs = [jaccard(a, b) for i, a in enumerate(kept) for b in kept[:i]]
    assert max(pairs) < 0.9 and sum(similarity >= 0.75 for similarity in pairs) <= 3  # P(candidate) at .75 is .94, at .9 1 - 2e-6


def test_pairs_are_thinned_by_the_share_of_equal_minima(tmp_path):
    pairs = [[" ".join(f"{n}{'w' if place < 41 else side}{place}" for place in range(60)) for side in "ab"] for n in range(80)]  # Jaccard .49
    work, _ = deduplicated(recipe_of(tmp_path, {"s": [*sum(pairs, []), *corpus(0)]}))
    minima = np.concatenate([open_npy(folder.file(name)) for place, folder in work.current().items() if place.startswith("dedup.sign") for name in folder.files if name.endswith("npy")])
    found = {(row["left"], row["right"]) for row in stored(work, "dedup.candidates", "")}
    assert {pair for pair in found if (minima[pair[0]] == minima[pair[1]]).mean() >= 0.55} == {
        (row["left"], row["right"]) for row in stored(work, "dedup.pairs", "pairs.")} < found


@pytest.mark.parametrize("change", ["order", "split", "shards", "one file"])
def test_order_files_and_shards_change_nothing(change, tmp_path):
    texts = corpus(5)
    other = {"order": lambda: recipe_of(tmp_path / "b", split(texts[::-1], 3)), "split": lambda: recipe_of(tmp_path / "b", split(texts, 7)),
             "shards": lambda: recipe_of(tmp_path / "b", split(texts, 3), ingest={"shard_bytes": 3_000}),
             "one file": lambda: recipe_of(tmp_path / "b", {"s": texts})}[change]()
    _, first = deduplicated(recipe_of(tmp_path / "a", split(texts, 3)))
    work, second = deduplicated(other)
    assert said(first) == said(second) and (change != "shards" or len(work.current()["dedup"].files) > 6)


@pytest.mark.slow
def test_every_engine_leaves_the_same_bytes(tmp_path):
    pytest.importorskip("ray")
    from cuvee.engine.ray import RayEngine

    sources, found = split(corpus(6), 3), []
    for name, engine in (("one", LocalEngine(1)), ("two", LocalEngine(2)), ("ray", RayEngine(None, 2))):
        work, _ = deduplicated(recipe_of(tmp_path / name, sources), engine)
        found.append({place: folder.files for place, folder in work.current().items()})
        engine.close()
    assert found[0] == found[1] == found[2]


def test_order_changes_nothing_in_a_group_too_large_for_all_its_pairs(tmp_path):
    words = [f"w{n}" for n in range(200)]
    texts = [" ".join("x" * int(n % 7 + 1) if place in (n, 3 * n % 200) else word for place, word in enumerate(words)) for n in range(150)]
    texts += [text.upper().replace(" ", ", " if n % 2 else " ") for n, text in enumerate(texts)]
    found = [deduplicated(recipe_of(tmp_path / name, {"s": list(order)})) for name, order in (("a", texts), ("b", texts[::-1]), ("c", sorted(texts)))]
    assert found[0][0].current()["dedup.candidates"].counts["left_out"] > 0
    assert said(found[0][1]) == said(found[1][1]) == said(found[2][1])


# Who wins.

LONG = " ".join(f"w{n}" for n in range(60))
MORE = LONG + " and one more end"                            # Jaccard 56/60
OTHER = " ".join(f"v{n}" for n in range(60))


def test_the_longer_text_stays_then_the_smaller_id(tmp_path):
    _, rows = deduplicated(recipe_of(tmp_path, {"a": [LONG, LONG.upper()], "b": [MORE, LONG + "!"]}))
    assert [row["keep"] for row in rows] == [False, False, True, False] and rows[2]["copies"] == 4
    assert rows[0]["similarity"] == pytest.approx(56 / 60) and {row["kept_by_row"] for row in rows if not row["keep"]} == {0}
    _, rows = deduplicated(recipe_of(tmp_path / "b", {"a": [LONG, LONG.upper()]}))
    ids = sorted(row["id"] for row in rows)
    assert [row["id"] for row in rows if row["keep"]] == ids[:1] and [row["kept_by"] for row in rows if not row["keep"]] == ids[:1]


@pytest.mark.parametrize("per_source, winner", [({}, "b"), ({"a": {"priority": 1}}, "a"), ({"a": {"priority": 9}, "c": {"frozen": True}}, "c"),
                                                ({"b": {"priority": -1}, "c": {"priority": -2}}, "a"), ({"a": {"frozen": True}, "c": {"frozen": True, "priority": 1}}, "c")])
def test_frozen_sources_win_then_larger_priority(per_source, winner, tmp_path):
    _, rows = deduplicated(recipe_of(tmp_path, {"a": [LONG], "b": [MORE], "c": [LONG.upper()]}, per_source))
    assert [row["source"] for row in rows if row["keep"]] == [winner]
    assert next(row["sources"] for row in rows if row["keep"]) == ["a", "b", "c"]


def test_frozen_texts_that_resemble_each_other_lose_to_each_other_only(tmp_path):
    _, rows = deduplicated(recipe_of(tmp_path, {"old": [LONG, OTHER], "new": [MORE, OTHER + " end"]}, {"old": {"frozen": True}}))
    assert [row["keep"] for row in rows if row["source"] == "old"] == [True, True]


def test_a_chain_loses_only_what_a_kept_text_resembles(tmp_path):
    words = [f"w{n}" for n in range(100)]
    texts = [" ".join([*(f"x{n}" for n in range(step * 4)), *words[step * 4:], *["tail"] * (9 - step)]) for step in range(8)]
    _, rows = deduplicated(recipe_of(tmp_path, {"s": texts}))
    kept = [text for text, row in zip(texts, rows) if row["keep"]]
    assert 1 < len(kept) < 8 and jaccard(texts[0], texts[-1]) < 0.75 < jaccard(texts[0], texts[1])
    assert all(max(jaccard(text, other) for other in kept) >= 0.75 for text, row in zip(texts, rows) if not row["keep"])


def test_copies_collapse_to_the_longest_wherever_it_stands(tmp_path):
    work, _ = deduplicated(recipe_of(tmp_path, {"a": [LONG, LONG.upper()], "b": [LONG + "!!", LONG + "!"]}))
    assert sorted((row["document"], row["leader"]) for row in stored(work, "dedup.groups", "")) == [(0, 2), (1, 2), (3, 2)]


def test_texts_without_tokens_are_compared_by_id_alone(tmp_path):
    _, rows = deduplicated(recipe_of(tmp_path, {"s": ["", "...", "", "--", "...", "\n", "x"]}))
    assert [row["kind"] for row in rows] == ["unique", "unique", "exact", "unique", "exact", "unique", "unique"]


# Options.

def test_keep_none_leaves_no_member_of_a_group(tmp_path):
    _, rows = deduplicated(recipe_of(tmp_path, {"s": [LONG, MORE, OTHER, OTHER, "alone in the world"]}, dedup={"keep": "none"}))
    assert [(row["keep"], row["kind"]) for row in rows] == [(False, "near"), (False, "near"), (False, "exact"), (False, "exact"), (True, "unique")]
    assert [row["copies"] for row in rows] == [None, None, None, None, 1]


@pytest.mark.parametrize("on_conflict, kinds, licenses", [
    ("keeper", ["unique", "near", "unique", "unique", "unique", "near"], [["CC0-1.0", "MIT"], ["GPL-3.0", "MIT"], ["MIT"], ["GPL-3.0"]]),
    ("strictest", ["license_conflict", "near", "license_conflict", "unique", "license_conflict", "near"], [["MIT"]])])
def test_a_copy_that_is_not_allowed_drops_the_group_where_the_strictest_decides(on_conflict, kinds, licenses, tmp_path):
    sources = {"a": [MORE], "b": [LONG, OTHER + " end", "alone and allowed"], "c": ["alone in the world", OTHER]}
    own = {"a": {"license": "CC0-1.0"}, "b": {"license": "MIT"}, "c": {"license": "GPL-3.0"}}
    _, rows = deduplicated(recipe_of(tmp_path, sources, own, licenses={"allow": ["MIT"], "on_conflict": on_conflict}))
    assert [row["kind"] for row in rows] == kinds and [row["licenses"] for row in rows if row["keep"]] == licenses
    assert [row["kept_by_source"] for row in rows] == [None, "a", None, None, None, "b"]


def test_containment_finds_most_of_a_longer_text(tmp_path):
    longer = [" ".join(f"{n}w{place}" for place in range(60)) for n in range(12)]
    texts = [*longer, *(" ".join(text.split()[:38]) for text in longer)]  # 34 of 56 shingles: Jaccard .61, all of the smaller
    assert all(row["keep"] for row in deduplicated(recipe_of(tmp_path / "a", {"s": texts}))[1])
    _, rows = deduplicated(recipe_of(tmp_path / "b", {"s": texts}, dedup={"containment": 0.95}))
    gone = [row for row in rows if not row["keep"]]
    assert 2 <= len(gone) <= 12 and all(row["row"] == row["kept_by_row"] + 12 and row["similarity"] == pytest.approx(34 / 56) for row in gone)


def test_a_text_too_long_to_compare_is_said_and_its_copies_still_go(tmp_path):
    sources = {"s": [LONG, LONG.upper(), MORE, OTHER]}
    _, rows = deduplicated(recipe_of(tmp_path, sources, dedup={"max_shingles": 57}))
    assert sorted(row["kind"] for row in rows[:2]) == ["normalised", "unique"] and [row["kind"] for row in rows[2:]] == ["not_candidate", "unique"]
    _, rows = deduplicated(recipe_of(tmp_path / "b", sources, dedup={"max_shingles": 55}))
    assert sorted(row["kind"] for row in rows) == ["normalised", "not_candidate", "not_candidate", "not_candidate"]


def test_a_giant_group_stays_bounded_and_leaves_one(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"w{n}" for n in range(300)]
    texts = [" ".join([*words, "end"])] + [" ".join("other" if place == n else word for place, word in enumerate(words)) for n in rng.permutation(300)]
    work, rows = deduplicated(recipe_of(tmp_path, {"s": texts}))
    counts = work.current()["dedup.candidates"].counts
    assert counts["left_out"] > 0 and counts["candidates"] <= 20 * 32 * len(texts)
    assert [row["keep"] for row in rows].count(True) == 1 and {row["kind"] for row in rows} == {"unique", "near"}


def test_a_contaminated_text_is_never_a_keeper(tmp_path):
    (tmp_path / "quiz.jsonl").write_text(json.dumps({"q": "how many grey geese flew over the old stone mill before the long winter came"}))
    spoilt = LONG + " how many grey geese flew over the old stone mill before the long winter came"
    recipe = recipe_of(tmp_path, {"s": [spoilt, LONG, MORE]}, {}, evals=[{"name": "quiz", "path": str(tmp_path / "quiz.jsonl")}], dedup={"threshold": 0.7})
    _, rows = deduplicated(recipe)
    assert jaccard(spoilt, MORE) > 0.7 and [(row["row"], row["keep"], row["kept_by_row"]) for row in rows] == [(1, False, 2), (2, True, None)]
    _, rows = deduplicated(recipe.model_copy(update={"evals": []}))
    assert [(row["row"], row["keep"]) for row in rows] == [(0, True), (1, False), (2, False)]


# What runs again.

def done_again(recipe: Recipe) -> set[str]:
    return {place for place in deduplicated(recipe)[0].done if place.startswith("dedup")}


@pytest.fixture
def known(tmp_path):
    """A recipe that was run, and the texts of its sources."""
    sources = split(corpus(7, 60), 2)
    recipe = recipe_of(tmp_path, sources)
    deduplicated(recipe)
    return recipe, sources, tmp_path


@pytest.mark.parametrize("update", [{"dedup": {"threshold": 0.9}}, {"dedup": {"threshold": 0.65}}, {"dedup": {"keep": "none"}}, "priority", "eval"])
def test_a_new_threshold_priority_or_evaluation_decides_alone(update, known):
    recipe, sources, folder = known
    (folder / "quiz.jsonl").write_text(json.dumps({"q": " ".join(f"never{n}" for n in range(20))}))
    again = {"priority": lambda: recipe_of(folder, sources, {"s1": {"priority": 2}}),
             "eval": lambda: recipe_of(folder, sources, evals=[{"name": "quiz", "path": str(folder / "quiz.jsonl")}])}
    assert done_again(recipe) == set()
    assert done_again(again[update]() if isinstance(update, str) else recipe_of(folder, sources, **update)) == {"dedup.decide", "dedup"}


def test_a_threshold_under_the_floor_verifies_again(known):
    recipe, sources, folder = known
    assert done_again(recipe_of(folder, sources, dedup={"threshold": 0.6})) == {"dedup.pairs", "dedup.shingles", "dedup.edges", "dedup.decide", "dedup"}


def test_a_new_source_signs_only_itself(known):
    _, sources, folder = known
    done = done_again(recipe_of(folder, {**sources, "new": corpus(8, 20)}))
    assert {place for place in done if place.startswith("dedup.sign")} == {"dedup.sign/new"} and "dedup.groups" in done
