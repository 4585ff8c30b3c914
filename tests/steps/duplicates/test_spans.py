from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from cuvee.config import Dedup, Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.steps import decontaminate, dedup, filter, ingest
from cuvee.steps.documents import shards
from tests.end_to_end.brute_force import tokens
from tests.kernels.test_units import lines_of, sentences_of
from tests.steps.test_dedup import recipe_of, split

WORDS = "oak elm ash fir yew bay fig box may ivy rue nut caf\u00e9 cafe\u0301 天 地".split()
LINES = [f"{a} {b} one two three four five six" for a in WORDS[:12] for b in WORDS[:5]]  # 8 words each
PASSAGES = ["Box may ivy. Rue nut oak? “Elm ash fir!” ", "May ivy. Rue nut oak? Elm ash fir. Yew bay fig. May ivy.", "天地。天地天地。天地天地天。地"]


def corpus(seed: int, count: int = 60) -> list[str]:
    """Texts of lines and sentences that many share, short lines, blank lines, own words, both forms of é."""
    rng = np.random.default_rng(seed)

    def line() -> str:
        if rng.random() < 0.15:
            return str(rng.choice(PASSAGES))
        own = " ".join(rng.choice(WORDS, int(rng.integers(5, 14))))
        return str(rng.choice(LINES)) + rng.choice(["", "!", "."]) if rng.random() < 0.3 else own.capitalize() + rng.choice([".", "。", "", "! Yes. No."])

    return [str(rng.choice(["\n", "\n\n", "\r\n", " "])).join(line() for _ in range(int(rng.integers(1, 14)))) for _ in range(count)]


def ran(recipe: Recipe, engine: Any = None) -> tuple[Work, list[dict[str, Any]], dict[tuple[str, int], str]]:
    """The dedup table, and the edited text of every row that stays, by source and row."""
    work = Work(recipe.work, engine or LocalEngine(1))
    documents = ingest.run(work, recipe)
    filtered = [filter.run(work, recipe, documents)]
    judged = [decontaminate.run(work, recipe, documents, *filtered)] if recipe.evals else []
    table = dedup.run(work, recipe, documents, filtered, judged)
    read = shards(documents, *filtered, *judged, table)
    left = {(shard.name if "shard_bytes" in recipe.ingest.model_fields_set else shard.source, row["row"]): row["text"] for shard in read for row in shard.read().to_pylist()}
    return work, [row for shard in table.shards for row in table.read(shard).to_pylist()], left


def unfiltered(folder: Path, sources: dict[str, list[str]], spans: str = "paragraph", per_source: dict | None = None, **sections: Any) -> Recipe:
    return recipe_of(folder, sources, per_source, **({"dedup": {"spans": spans}, "filter": {"profile": None}} | sections))


def reference(texts: list[str], spans: str) -> list[str]:
    """Each text of NFC without what an earlier one holds: longer texts first, then smaller ids, then their order."""
    seen, left = set(), list(texts)
    for place in sorted(range(len(texts)), key=lambda i: (-len(texts[i].encode()), xxhash.xxh3_128_hexdigest(texts[i].encode()), i)):
        pieces = lines_of(texts[place], 0) if spans == "paragraph" else sentences_of(texts[place])
        wide, gone, found, at = 1 if spans == "paragraph" else 3, set(), [], 0
        for piece in pieces:
            found.append(at := texts[place].index(piece, at))
            at += len(piece)
        for first in range(len(pieces) - wide + 1):
            unit = tuple(tuple(tokens(piece, symbols=True)) for piece in pieces[first:first + wide])
            if sum(len(tokens(piece, symbols=False)) for piece in pieces[first:first + wide]) >= 8:
                if unit in seen:
                    gone |= set(range(found[first], found[first + wide - 1] + len(pieces[first + wide - 1])))
                seen.add(unit)
        left[place] = "".join(char for at, char in enumerate(texts[place]) if at not in gone)
    return left


@pytest.mark.parametrize("seed, spans", [(0, "paragraph"), (1, "paragraph"), (2, "three_sentences"), (3, "three_sentences")])
def test_what_stays_is_what_a_slow_reference_leaves(seed, spans, tmp_path):
    texts = [unicodedata.normalize("NFC", text) for text in corpus(seed, 40)]
    sources = split(texts, 3)
    _, rows, left = ran(unfiltered(tmp_path, sources, spans))
    stays = [(row["source"], row["row"]) for row in rows if row["keep"]]
    expected = reference([sources[source][row] for source, row in stays], spans)
    assert {key: left[key] for key in stays} == dict(zip(stays, expected))
    edits = [[place for edit in row["edits"] for place in (edit["start"], edit["end"])] for row in rows if row["edits"]]
    assert len(edits) > 5 and all(places == sorted(set(places)) for places in edits)  # sorted and apart


@pytest.mark.parametrize("seed", [4, 5])
def test_no_paragraph_of_eight_words_stands_twice(seed, tmp_path):
    _, rows, left = ran(unfiltered(tmp_path, split(corpus(seed, 150), 2)))
    lines = [tuple(tokens(line, symbols=True)) for text in left.values() for line in text.split("\n") if len(tokens(line, symbols=False)) >= 8]
    assert len(lines) == len(set(lines)) > 200 and sum(row["edits"] is not None for row in rows) > 50


@pytest.mark.parametrize("spans", ["paragraph", "three_sentences"])
@pytest.mark.parametrize("change", ["order", "split", "shards", "workers"])
def test_order_files_shards_and_workers_change_nothing(change, spans, tmp_path):
    texts = corpus(6, 90)
    other = {"order": lambda: unfiltered(tmp_path / "b", split(texts[::-1], 3), spans), "split": lambda: unfiltered(tmp_path / "b", split(texts, 5), spans),
             "shards": lambda: unfiltered(tmp_path / "b", split(texts, 3), spans, ingest={"shard_bytes": 3_000}),
             "workers": lambda: unfiltered(tmp_path / "b", split(texts, 3), spans)}[change]()
    work, rows, first = ran(unfiltered(tmp_path / "a", split(texts, 3), spans))
    engine = LocalEngine(2) if change == "workers" else None
    again, _, second = ran(other, engine)
    assert sorted(first.values()) == sorted(second.values()) and sorted(first.values()) != sorted(texts)
    if engine:
        engine.close()
        assert again.current()["dedup"].files == work.current()["dedup"].files


# Who keeps a paragraph.

SHARED = " ".join(f"s{n}" for n in range(12))


def own(name: str, count: int = 300) -> str:
    return " ".join(f"{name}{n}" for n in range(count))


@pytest.mark.parametrize("per_source, holds", [({}, "b"), ({"a": {"priority": 1}}, "a"), ({"a": {"priority": 9}, "c": {"frozen": True}}, "c")])
def test_the_first_in_priority_order_keeps_it(per_source, holds, tmp_path):
    _, rows, left = ran(unfiltered(tmp_path, {"a": [f"{own('a')}\n{SHARED}"], "b": [f"{SHARED}\n{own('b', 400)}"], "c": [f"{own('c')}\n\n{SHARED.upper()}!\n"]}, per_source=per_source))
    assert [source for (source, _), text in left.items() if "s11" in text.lower()] == [holds] and all(row["keep"] for row in rows)
    assert {row["source"] for row in rows if row["edits"] is None} == {holds}


def test_a_dropped_document_keeps_no_paragraph(tmp_path):
    near = own("a", 60)
    _, rows, left = ran(unfiltered(tmp_path, {"s": [f"{near} more\n{SHARED}", f"{near}\n{SHARED}", f"{own('b', 40)}\n{SHARED}"]}))
    assert [row["keep"] for row in rows] == [True, False, True] and left["s", 2] == own("b", 40) + "\n"


def test_a_document_repeats_itself_once(tmp_path):
    _, _, left = ran(unfiltered(tmp_path, {"s": [f"{SHARED}\n\n{SHARED}\nshort line\nshort line\n{SHARED}."]}))
    assert left["s", 0] == f"{SHARED}\n\nshort line\nshort line\n"


@pytest.mark.parametrize("own_words, sections, kept", [
    (300, {}, True), (19, {}, False), (20, {}, True), (19, {"min_words": 19}, True), (19, {"mode": "tag"}, True), (0, {}, False), (0, {"profile": None}, True)])
def test_what_loses_over_a_twentieth_of_its_words_is_filtered_again(own_words, sections, kept, tmp_path):
    texts = [f"{SHARED} {SHARED} x\n{own('a', 310)}", f"{SHARED} {SHARED} x\n{own('b', own_words)}"]
    work, rows, left = ran(unfiltered(tmp_path, {"s": texts}, filter=sections))
    assert [row["keep"] for row in rows] == [True, kept] and (("s", 1) in left) == kept and rows[1]["edits"] is not None
    assert kept or (rows[1]["kind"], rows[1]["kept_by"], rows[1]["copies"], rows[1]["licenses"]) == ("filtered_again", None, None, None)
    counts = work.current()["dedup"].counts
    assert counts["kept_bytes"] == sum(len(text.encode()) for text in left.values()) and counts["cut"] == int(kept)


def test_a_small_loss_is_not_filtered_again(tmp_path):
    """1 to 10 words short of 5 %: the filter that would drop it is not asked."""
    long = own("b", 229)
    texts = [f"{SHARED}\n{own('a')}", f"{SHARED}\n{long}", f"{SHARED}\n{own('c', 227)}"]
    recipe = unfiltered(tmp_path, {"s": texts}, filter={"min_words": 239})
    assert [row["kind"] for row in ran(recipe)[1]] == ["unique", "unique", "filtered_again"]  # 12 of 241 words, 12 of 239


def test_edits_are_bytes_of_the_stored_text_after_other_edits_and_nfc(tmp_path):
    (tmp_path / "quiz.jsonl").write_text(json.dumps({"q": (asked := " ".join(f"q{n}" for n in range(20)))}))
    texts = [f"Cafe\u0301 {own('a')}\n{SHARED}\nend", f"Cafe\u0301 {asked} {own('b', 60)}\nCafe\u0301 {SHARED} {asked}\n{SHARED}\nCafe\u0301\n"]
    recipe = unfiltered(tmp_path, {"s": texts}, evals=[{"name": "quiz", "path": str(tmp_path / "quiz.jsonl")}], decontaminate={"rule": "cut"})
    _, rows, left = ran(recipe)
    edit, = rows[1]["edits"]
    assert texts[1].encode()[edit["start"]:edit["end"]].decode() == f"{SHARED}\n" and edit["replacement"] == ""
    assert left["s", 1] == f"Cafe\u0301  {own('b', 60)}\nCafe\u0301 {SHARED} \nCafe\u0301\n"


# What runs again.

def test_spans_change_the_table_alone(tmp_path):
    sources = split(corpus(7), 2)
    before = ran(unfiltered(tmp_path, sources, "off"))
    after, rows, _ = ran(unfiltered(tmp_path, sources))
    assert {place for place in after.done if place.startswith("dedup")} == {"dedup.whole", "dedup.units", "dedup.repeats", "dedup"}
    same = ["source", "row", "kind", "kept_by", "similarity"]
    assert all(row["edits"] is None for row in before[1]) and [[row[name] for name in same] for row in before[1]] == [[row[name] for name in same] for row in rows]
    assert not [place for place in ran(unfiltered(tmp_path, sources))[0].done if place.startswith("dedup")]


@pytest.mark.parametrize("value", [False, "off"])
def test_off_is_off_in_yaml(value):
    assert Dedup.model_validate({"spans": value}).spans == "off"
