from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from cuvee.config import Quality, Recipe
from cuvee.engine.store import read_json
from cuvee.errors import DataError
from cuvee.steps import embed, quality, topics
from tests.steps.small import VOCABULARY, begin, kinds, rows, vectors


def run(tmp_path, documents=60, **config):
    work, recipe, table, embedded, said = vectors(tmp_path, documents, topics={"count": 2, "fine": 8}, quality=config)
    judged = topics.run(work, recipe, embedded)
    found = quality.run(work, recipe, embedded, judged)
    merged = [{**text, **topic, **row} for text, topic, row in zip(rows(table), rows(judged), rows(found), strict=True)]
    return table, merged, read_json(work.current()["quality"].file("domains.json")), said.getvalue()


def test_documents_like_the_target_score_higher(tmp_path):
    documents, found, summary, _ = run(tmp_path, target=["b"])
    mean = {kind: np.mean([row["score"] for row, own in zip(found, kinds(documents)) if own == kind]) for kind in VOCABULARY}
    assert mean["sea"] < 0.15 < 0.35 < mean["law"] < 0.65 < 0.85 < mean["code"]  # law is in both
    assert summary["heldout_spearman"] > 0.7 and summary["labels"] == 240 and 0 < summary["heldout"] < 240


def test_bands_of_a_topic_have_equal_bytes_and_split_it_by_score(tmp_path):
    _, found, _, _ = run(tmp_path, target=["b"], bands=3, min_documents=1)
    for topic in {row["topic"] for row in found}:
        parts = [[row for row in found if (row["topic"], row["band"]) == (topic, band)] for band in (1, 2, 3)]
        sizes = [sum(len(row["text"]) for row in part) for part in parts]
        assert max(sizes) - min(sizes) <= 2 * max(len(row["text"]) for row in found)  # each of two cuts is off by under a text
        for worse, better in zip(parts, parts[1:]):
            assert max(row["score"] for row in worse) < min(row["score"] for row in better)
    assert {row["domain"] for row in found} == {f"t{topic:02d}.q{band}" for topic in (0, 1) for band in (1, 2, 3)}


def test_small_domains_join_and_the_summary_counts_what_the_table_holds(tmp_path):
    _, found, summary, _ = run(tmp_path, target=["b"], bands=5, min_documents=40)
    domains = defaultdict(list)
    for row in found:
        domains[row["domain"]].append(row)
    assert sorted(domains) == [each["name"] for each in summary["domains"]] and min(map(len, domains.values())) >= 40
    for each in summary["domains"]:
        mine = domains[each["name"]]
        scores = [row["score"] for row in mine]
        assert (each["documents"], each["bytes"]) == (len(mine), sum(len(row["text"]) for row in mine))
        assert (each["low"], each["high"]) == (min(scores), max(scores))
        assert len(each["examples"]) == 3 and {e["score"] for e in each["examples"]} <= set(scores)


def test_labels_join_by_id_or_by_text(tmp_path):
    _, recipe, documents, _ = begin(tmp_path)
    every = list(zip(rows(documents), kinds(documents)))
    lines = [{"id": row["id"], "label": 5 if kind == "sea" else 1} for row, kind in every[::2]]
    lines += [{"text": row["text"], "label": 5 if kind == "sea" else 1} for row, kind in every[1::2]]
    (tmp_path / "l.jsonl").write_text("\n".join(map(json.dumps, [*lines, {"text": "nowhere", "label": 3}])))
    _, found, summary, said = run(tmp_path, labels=str(tmp_path / "l.jsonl"))
    scores = {kind: [row["score"] for row, (_, own) in zip(found, every) if own == kind] for kind in VOCABULARY}
    assert min(scores["sea"]) > 3 > max(scores["law"] + scores["code"]) and summary["labels"] == 240
    assert "240 of 241 rated texts are among the kept documents" in said


@pytest.mark.parametrize("line, words", [
    ('{"id": "x", "label": true}', "label is True"), ('{"label": 1}', "neither `id`"), ('{"id": "x", "label": NaN}', "not JSON"),
    ("[1]", "label is None")])
def test_a_bad_label_names_its_line(tmp_path, line, words):
    (tmp_path / "l.jsonl").write_text('{"text": "fine", "label": 2.5}\n\n' + line)
    with pytest.raises(DataError, match=rf"l.jsonl, line 3: .*{words}"):
        run(tmp_path, 5, labels=str(tmp_path / "l.jsonl"))


def test_without_a_word_on_what_is_good_there_is_one_band_and_no_score(tmp_path):
    _, found, summary, said = run(tmp_path, 7)
    assert {(row["score"], row["band"]) for row in found} == {(None, 1)}
    assert [(each["name"], each["low"], each["high"]) for each in summary["domains"]] == [("t00.q1", None, None), ("t01.q1", None, None)]
    assert summary["heldout_spearman"] is None and "NO SCORES, one band (q1)" in said


def test_too_few_labels_give_one_band_and_say_why(tmp_path):
    (tmp_path / "l.jsonl").write_text('{"text": "nowhere", "label": 1}')
    _, found, summary, said = run(tmp_path, 7, labels=str(tmp_path / "l.jsonl"))
    assert {row["domain"] for row in found} == {"t00.q1", "t01.q1"}
    assert summary["reason"] in said and "0 labels" in summary["reason"]


@pytest.mark.parametrize("config, words", [
    ({"target": ["a"], "labels": "l"}, "keep one"), ({"raw": ["a"]}, "name the target"), ({"target": ["a"], "raw": ["a"]}, "both target and raw")])
def test_a_recipe_says_once_what_is_good(config, words):
    with pytest.raises(ValidationError, match=words):
        Quality(**config)


@pytest.mark.parametrize("target, words", [(["webb"], "Did you mean 'web'"), (["web"], "every source is a target")])
def test_target_sources_exist_and_leave_something_to_compare_with(target, words):
    with pytest.raises(ValidationError, match=words):
        Recipe(work="w", sources=[{"name": "web", "path": "p"}], quality={"target": target})


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_as_one(tmp_path):
    def digests(workers: int) -> dict[str, str]:
        folder = tmp_path / str(workers)
        folder.mkdir()
        work, recipe, documents, _ = begin(folder, 40, workers, topics={"count": 3}, quality={"target": ["b"], "bands": 2})
        embedded = embed.run(work, recipe, documents, [])
        quality.run(work, recipe, embedded, topics.run(work, recipe, embedded))
        work.engine.close()
        files = [path for path in Path(recipe.work).rglob("*") if path.is_file() and path.name not in ("timings.json", "inputs.json")]
        return {str(path.relative_to(recipe.work)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    one = digests(1)
    assert len(one) > 30 and one == digests(2)
