from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from cuvee.engine.shard import Table
from cuvee.engine.step import Step, Task
from cuvee.engine.store import read_table
from cuvee.errors import DataError, UsageError
from cuvee.kernels.text import hash64
from cuvee.record import QUALITY
from cuvee.steps import filter, ingest, store, tokenize
from tests.steps import corpus


def assign(out, name: str, url: str, wrong: bool = False):
    """A quality table that puts odd rows in t00.q1 and even ones in t01.q2."""
    rows = read_table(url, ["row", "id"])
    number = rows["row"].to_numpy() % 2
    domains = np.array(["t01.q2", "t00.q1"])[number]
    columns = [rows["row"], rows["id"], np.zeros(len(rows), np.float32), 2 - number.astype(np.int32), domains]
    table = pa.table(dict(zip(QUALITY.names, columns))).cast(QUALITY)
    out.table(f"{name}.parquet", table.slice(1) if wrong else table)
    return {}


def tokens_of(tmp_path, wrong=False, **sections):
    sections = {"tokenizer": {"train": {"vocab": 400}}, "tokenize": {"seq_len": 16}, **sections}
    work, recipe = corpus.recipe(tmp_path, 400, **sections)
    documents = ingest.run(work, recipe)
    filtered = filter.run(work, recipe, documents)
    tokenizer = tokenize.fit(work, recipe, documents, [filtered])
    tokens = tokenize.run(work, recipe, documents, [filtered], tokenizer)
    tasks = [Task(shard.replace("/", "."), assign, {"name": shard, "url": tokens.files[shard], "wrong": wrong}) for shard in tokens.shards]
    quality = Table.of("quality", [work.do(Step("quality", 1, {"wrong": wrong}), tasks)])
    return work, recipe, documents, tokens, quality, tokenizer


def test_tokens_decode_to_the_text_and_u_is_its_hash(tmp_path):
    _, _, documents, tokens, _, tokenizer = tokens_of(tmp_path)
    built = tokenize.load(tokenizer.file("tokenizer.json"))
    for shard in tokens.shards:
        table, texts = tokens.read(shard), documents.read(shard)["text"].to_pylist()
        lists = tokenize.token_lists(tokens.files[shard]).to_pylist()
        assert [built.decode(ids) for ids in lists] == texts
        assert table["tokens"].to_pylist() == [len(ids) for ids in lists]
        assert table["u"].to_pylist() == [hash64(id, 0) for id in table["id"].to_pylist()]
        assert table["bytes"].to_pylist() == [len(text.encode()) for text in texts]


def test_every_document_is_in_one_domain_held_out_or_packed_in_u_order(tmp_path):
    work, recipe, _, tokens, quality, tokenizer = tokens_of(tmp_path)
    found = store.run(work, recipe, tokens, quality, tokenizer)
    assert found.names == ["t00.q1", "t01.q2"]
    for domain, parity in zip(found.domains, (1, 0)):
        rows = [row | {"ids": ids} for shard in tokens.shards
                for row, ids in zip(tokens.read(shard).to_pylist(), tokenize.token_lists(tokens.files[shard]).to_pylist()) if row["row"] % 2 == parity]
        held = set(sorted((row["id"] for row in rows), key=lambda id: hash64(id, "heldout"))[:16])  # 600 documents: 2 % is under 16
        assert set(domain.load_heldout()["id"].to_pylist()) == held and domain.heldout == 16
        flat = [token for row in sorted(rows, key=lambda row: row["u"]) if row["id"] not in held for token in [*row["ids"], found.end]]
        want = np.array(flat[:len(flat) // 17 * 17]).reshape(-1, 17)
        assert (domain.load() == want).all() and (domain.load(3) == want[:3]).all()
        assert (domain.rows, domain.tokens, domain.documents) == (len(want), len(want) * 16, len(rows) - 16)


@pytest.mark.parametrize("documents, held", [(159, 0), (160, 16), (1_000, 20), (10_000, 200), (300_000, 300)])
def test_how_many_documents_are_held_out(documents, held):
    ids = [f"{number:032x}" for number in range(documents)]
    assert store._held_out(ids, 0.001).sum() == held


def test_a_document_without_a_domain_stops_the_store(tmp_path):
    work, recipe, _, tokens, quality, tokenizer = tokens_of(tmp_path, wrong=True)
    with pytest.raises(DataError, match="no domain for 1 rows"):
        store.run(work, recipe, tokens, quality, tokenizer)


def test_a_tokenizer_file_enters_by_content_and_needs_its_end_mark(tmp_path):
    *_, tokenizer = tokens_of(tmp_path / "a")
    file = tokenizer.file("tokenizer.json")
    work, recipe, documents, tokens, *_ = tokens_of(tmp_path / "b", tokenizer={"file": file})
    *_, first, _, _ = tokens_of(tmp_path / "a")
    assert [read_table(tokens.files[shard]) for shard in tokens.shards] == [read_table(first.files[shard]) for shard in first.shards]
    with pytest.raises(UsageError, match="has no token '<eos>'"):
        tokens_of(tmp_path / "c", tokenizer={"file": file, "end": "<eos>"})
