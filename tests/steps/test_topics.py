from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from cuvee.config import Recipe, Topics
from cuvee.engine.store import read_json
from cuvee.steps import embed, examples, ingest, topics
from cuvee.steps.vectors import topic_summary
from tests.steps.small import VOCABULARY, begin, kinds, rows, vectors


def run(tmp_path, documents=60, **sections):
    work, recipe, table, embedded, said = vectors(tmp_path, documents, **sections)
    found = topics.run(work, recipe, embedded)
    return table, rows(found), read_json(work.current()["topics"].file("topics.json"))["topics"], said.getvalue()


def test_vocabularies_become_topics_and_name_them(tmp_path):
    documents, found, summary, _ = run(tmp_path, topics={"count": 3, "fine": 12})
    of_kind = defaultdict(set)
    for kind, row in zip(kinds(documents), found, strict=True):
        of_kind[kind].add(row["topic"])
    assert of_kind["law"] == {0} and sorted(map(len, of_kind.values())) == [1, 1, 1]  # law is in both sources: the largest
    for kind, (topic,) in of_kind.items():
        assert set(summary[topic]["name"].split(", ")) <= set(VOCABULARY[kind])
        assert {word for word, _ in summary[topic]["words"]} == set(VOCABULARY[kind])


def test_the_summary_counts_what_the_table_holds(tmp_path):
    documents, found, summary, _ = run(tmp_path, topics={"count": 3, "fine": 12})
    texts = rows(documents)
    for each in summary:
        mine = [(row["shard"].split("/")[0], len(text["text"])) for row, text in zip(found, texts) if row["topic"] == each["topic"]]
        total = sum(size for _, size in mine)
        assert (each["documents"], each["bytes"]) == (len(mine), total)
        assert each["sources"] == {name: sum(size for source, size in mine if source == name) / total for name in sorted(dict(mine))}
        for example in each["examples"]:
            shard, _, row = example["row"].rpartition(":")
            assert (shard, int(row)) in {(row["shard"], row["row"]) for row in found if row["topic"] == each["topic"]}
    assert [each["bytes"] for each in summary] == sorted((each["bytes"] for each in summary), reverse=True)


def test_a_zero_vector_is_in_no_fine_cluster_and_in_topic_0(tmp_path):
    work, recipe, _, _ = begin(tmp_path, 20)
    (tmp_path / "c.jsonl").write_text('{"text": "zyx wvu tsr"}\n{"text": "python import loop"}')
    more = Recipe(work=recipe.work, embed=recipe.embed, topics={"count": 3}, sources=[
        *recipe.sources, {"name": "c", "path": str(tmp_path / "c.jsonl"), "license": "MIT"}])
    documents = ingest.run(work, more)
    found = topics.run(work, more, embed.run(work, more, documents, []))
    zero, code = [row for row in rows(found) if row["shard"].startswith("c/")]
    assert (zero["fine"], zero["topic"], zero["similarity"]) == (-1, 0, 0)
    assert code["fine"] >= 0 and code["topic"] > 0 and code["similarity"] > 0.3
    assert sum(each["documents"] for each in read_json(work.current()["topics"].file("topics.json"))["topics"]) == 82


@pytest.mark.parametrize("sections", [{}, {"topics": {"count": 40}}, {"topics": {"fine": 1}}, {"topics": {"count": 1}}])
def test_a_tiny_corpus_gets_as_many_topics_as_it_can(tmp_path, sections):
    _, found, summary, said = run(tmp_path, 7, **sections)
    asked = Topics(**sections.get("topics", {})).count or 2
    assert len(found) == 28 and 1 <= len(summary) <= asked
    assert ("topics instead of" in said) == (len(summary) < asked)
    assert sorted({row["topic"] for row in found}) == list(range(len(summary)))


def test_sources_are_sampled_by_the_square_root_of_their_bytes():
    totals = {"a": {"bytes": 100, "read": 10}, "b": {"bytes": 400, "read": 10}, "c": {"bytes": 0, "read": 0}}
    assert topics._shares(totals, 9) == pytest.approx({"a": .3, "b": .6, "c": 0})
    assert topics._shares(totals, 1_000) == {"a": 1, "b": 1, "c": 0}


def test_sizes_follow_the_sample():  # sample, count, fine asked for -> fine, topics
    assert topics.sizes(Topics(), 100_000) == (2_000, 40)
    assert topics.sizes(Topics(), 10_000) == (200, 10)
    assert topics.sizes(Topics(count=40), 1_000) == (160, 40)
    assert topics.sizes(Topics(fine=9), 5) == (5, 2)


def test_words_count_once_a_text_and_are_spelt_as_they_are_compared():
    texts = pa.chunked_array([["Été ÉTÉ l\u2019eau 42 +", "e\u0301te\u0301 漢字", "été"]])
    table = topic_summary.word_texts(texts, np.array([1, 1, 0]))
    assert table.to_pydict() == {"topic": [0, 1, 1, 1, 1], "word": ["été", "l'eau", "été", "字", "漢"], "texts": [1, 1, 2, 1, 1]}


def test_examples_are_the_first_by_key_and_show_a_text_once():
    table = pa.table([[1, 0, 0, 0, 0, 0], [.5, .1, .1, .1, .2, .4], list("zabacd"), list("uvwxyz"), [0.] * 6, list("ZABACD")],
                     schema=examples.SCHEMA)
    assert examples.first(table)["row"].to_pylist() == ["v", "w", "y", "u"]
