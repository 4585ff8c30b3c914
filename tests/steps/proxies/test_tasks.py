from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from cuvee.config import Recipe
from cuvee.engine.store import open_arrow, read_json
from cuvee.errors import DataError, UsageError
from cuvee.kernels.text import hash64
from cuvee.proxy.model import ProxyConfig, init
from cuvee.steps.proxies import tasks
from cuvee.steps.tokenize import load


def evaluated(made, tmp_path, records, **templates):
    """The recipe with one evaluation over `records`."""
    (tmp_path / "e.jsonl").write_text("\n".join(map(json.dumps, records)))
    one = {"name": "e", "path": str(tmp_path / "e.jsonl"), **templates}
    return Recipe.model_validate({**made.recipe.model_dump(by_alias=True), "evals": [one]})


def items(folder, number):
    rows = open_arrow(f"{folder.url}/items.arrow").read_all().to_pylist()
    return [row for row in rows if row["task"] == number]


def test_tokens_of_a_record_are_those_of_its_text_and_bytes_those_of_the_answer(made, tmp_path):
    records = [{"q": "the whale", "a": " and the ship"}, {"q": "a harb", "a": "our"}, {"q": "n", "a": 7}, {"q": "no answer"}, {"q": "x", "a": ""}]
    folder = tasks.run(made.work, evaluated(made, tmp_path, records, context="{q}:", continuation="{a}"), made.tokens)
    tokenizer, found = load(made.tokens.tokenizer), items(folder, 0)
    assert read_json(folder.file("tasks.json"))[0] == {"name": "e", "kind": "eval", "items": 3, "bytes": 13 + 3 + 1, "records": 3}
    assert {row["context"][0] for row in found} == {made.tokens.end}
    texts = [(tokenizer.decode(row["context"][1:]), tokenizer.decode(row["continuation"]), row["bytes"]) for row in found]
    assert texts == [("the whale:", " and the ship", 13), ("a harb:", "our", 3), ("n:", "7", 1)]


@pytest.mark.parametrize("record, templates, text", [
    ({"q": "Two?", "choices": ["one", "two"], "answer": 1}, ("{q} ", "{choices[answer]}"), "Two? |two"),         # multiple choice by number
    ({"q": "Two?", "choices": ["one", "two"], "answer": "B"}, ("{q} ", "{choices[answer]}"), "Two? |two"),       # ... and by letter
    ({"text": "the ship sails", "last": " home"}, ("text", "last"), "the ship sails| home"),                     # completion
    ({"question": "Who?", "answer": "a gull"}, ("Q: {question}\nA: ", "{answer}"), "Q: Who?\nA: |a gull"),     # question and answer
    ({"prompt": "def f():\n", "solution": "    return {}\n"}, ("{prompt}", "{solution}"), "def f():\n|    return {}\n")])  # code
def test_every_kind_of_record_is_its_gold_continuation_given_its_context(made, tmp_path, record, templates, text):
    folder = tasks.run(made.work, evaluated(made, tmp_path, [record], context=templates[0], continuation=templates[1]), made.tokens)
    tokenizer, (item,) = load(made.tokens.tokenizer), items(folder, 0)
    assert "|".join(tokenizer.decode(item[part]) for part in ("context", "continuation")) == text  # the end mark is not shown
    assert item["bytes"] == len(text.split("|")[1].encode())


def test_a_token_across_the_boundary_is_not_scored_as_context(made):
    tokenizer = load(made.tokens.tokenizer)
    given, whole = tokenizer.encode("the ").ids, tokenizer.encode("the sail").ids
    assert whole[:len(given)] != given  # the space joins the s
    item = tasks._item(tokenizer, "the ", "sail", made.tokens.end)
    assert tokenizer.decode(item.context[1:]) == "the " and tokenizer.decode(item.continuation) == "sail" and item.bytes == 4


def test_the_beginnings_of_held_out_documents_are_read(made):
    folder = tasks.run(made.work, made.recipe, made.tokens)
    tokenizer, domain = load(made.tokens.tokenizer), made.tokens.domains[2]
    names = [each["name"] for each in read_json(folder.file("tasks.json"))]
    found, held = items(folder, names.index(f"heldout/{domain.name}")), domain.load_heldout().to_pylist()
    chosen = {row["id"] for row in sorted(held, key=lambda row: hash64(row["id"], "task"))[:4]}
    whole = [tokenizer.decode(row["tokens"]) for row in held if row["id"] in chosen]
    assert all(row["context"] == [made.tokens.end] and len(row["continuation"]) <= 16 for row in found)
    texts = [tokenizer.decode(row["continuation"]) for row in found]
    assert len(texts) == 4 and all(text.startswith(beginning) for text, beginning in zip(whole, texts))
    assert [row["bytes"] for row in found] == [len(text.encode()) for text in texts]


def test_which_records_are_asked_depends_on_their_text_alone(made):
    folder, tokenizer = tasks.run(made.work, made.recipe, made.tokens), load(made.tokens.tokenizer)
    with open(made.recipe.evals[0].path) as file:
        records = [json.loads(line) for line in file]
    chosen = sorted(records, key=lambda record: hash64(record["q"] + " \0" + record["a"], "task"))[:20]
    assert [tokenizer.decode(row["continuation"]) for row in items(folder, 0)] == [record["a"] for record in records if record in chosen]


@pytest.mark.parametrize("room", range(1, 12))
def test_a_document_is_not_cut_inside_a_character(made, room):
    tokenizer, text = load(made.tokens.tokenizer), "é日本語🙂"  # 2, 3, 3, 3 and 4 bytes, a token each
    ids = tokenizer.encode(text).ids
    cut, size = tasks._beginning(tokenizer, ids, len(text.encode()), room)
    assert len(ids) == 15
    if room >= 2:
        assert text.startswith(tokenizer.decode(cut)) and size == len(cut) == max(n for n in (2, 5, 8, 11) if n <= room)


def test_an_untrained_proxy_needs_log2_of_the_vocabulary_a_token(made):
    folder = tasks.run(made.work, made.recipe, made.tokens)
    config = ProxyConfig(made.tokens.vocab, made.tokens.seq_len, 1, 4)
    scores = tasks.score(init(jax.random.key(0), config), config, folder.url)
    for number, task in enumerate(read_json(folder.file("tasks.json"))):
        count = sum(len(row["continuation"]) for row in items(folder, number))
        assert scores[task["name"]] == pytest.approx(count * np.log2(made.tokens.vocab) / task["bytes"], rel=1e-5)


def test_what_is_no_task_is_said(made, tmp_path):
    with pytest.raises(UsageError, match="`context` without `continuation`"):
        tasks.run(made.work, evaluated(made, tmp_path, [{"q": "a"}], context="{q}"), made.tokens)
    with pytest.raises(DataError, match="none of 1 records gives a continuation. Its templates need the columns q, answer"):
        tasks.run(made.work, evaluated(made, tmp_path, [{"q": "a", "a": "b"}], context="{q}", continuation="{answer}"), made.tokens)


@pytest.mark.parametrize("domains, documents", [(1, 4), (12, 4), (0, 4)])
def test_held_out_documents_stay_affordable(made, domains, documents):
    assert tasks.heldout_documents(made.recipe, domains) == documents  # at most swarm.heldout_items, at least 4


def test_more_domains_mean_fewer_documents_each(made):
    big = Recipe.model_validate({**made.recipe.model_dump(by_alias=True), "budget": {"target": 10**9, "proxy": 160_000}, "swarm": {"heldout_items": 500}})
    # 20 % of training on 160,000 tokens is worth reading 96,000, or 3,000 beginnings of 16 at half of the run and at its end
    assert [tasks.heldout_documents(big, domains) for domains in (1, 20, 60, 6_000)] == [500, 150, 50, 4]
