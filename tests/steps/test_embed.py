from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cuvee.config import Embed, Recipe
from cuvee.engine.shard import Folder
from cuvee.errors import DataError, UsageError
from cuvee.kernels.text import text_ids
from cuvee.kernels.vectors import dequantise, scale_of
from cuvee.steps import embed, ingest
from cuvee.steps.vectors.embedders import COLUMNS, Embedder, Lexical, SentenceModel, fixed
from tests.steps.small import begin, rows, vectors


def tfidf_cosines(texts: list[str]) -> np.ndarray:
    """Cosines of sublinear TF-IDF vectors, by hand: words of two documents or more."""
    words = sorted({word for text in texts for word in text.split()})
    counts = np.array([[text.split().count(word) for word in words] for text in texts], float)
    holds = (counts > 0).sum(axis=0)
    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * np.where(holds > 1, np.log((1 + len(texts)) / (1 + holds)) + 1, 0)
    unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    return unit @ unit.T


def test_lexical_cosines_are_those_of_tfidf_where_the_dimensions_hold_the_rank(tmp_path):
    _, _, documents, table, _ = vectors(tmp_path, 10, embed={"dimensions": 64})
    found = np.concatenate([dequantise(embed.read_vectors(url)[1]) for url in table.files.values()])
    texts = [row["text"] for row in rows(documents)]
    assert np.abs(found @ found.T - tfidf_cosines(texts)).max() < 0.02


def test_a_shard_has_rows_ids_bytes_scale_and_beginnings(tmp_path):
    _, _, documents, table, _ = vectors(tmp_path, 5)
    for shard, url in table.files.items():
        texts = documents.read(shard)["text"].to_pylist()
        found, codes = embed.read_vectors(url)
        assert found["row"].to_pylist() == list(range(10)) and found["id"].to_pylist() == text_ids(pa.array(texts))
        assert found["bytes"].to_pylist() == [len(text.encode()) for text in texts] and codes.shape == (10, 32)
        assert float(pq.read_schema(url).metadata[b"scale"]) == scale_of(32)
        assert embed.read_sample(url)["text"].to_pylist() == texts


def test_adding_a_source_embeds_only_that_source_if_the_projection_is_pinned(tmp_path):
    work, recipe, documents, table, _ = vectors(tmp_path, 5)
    fit = shutil.copy(work.current()["embed.fit"].file("projection.npy"), tmp_path / "copy.npy")
    pinned = recipe.model_copy(update={"embed": Embed(fit=str(fit), dimensions=32)})
    work.done.clear()
    assert embed.run(work, pinned, documents, []) == table and work.done == []
    more = pinned.model_copy(update={"sources": [*recipe.sources, recipe.sources[0].model_copy(update={"name": "c"})]})
    embed.run(work, more, ingest.run(work, more), [])
    assert work.done == ["ingest/c", "embed/c"]


def test_a_text_without_known_words_has_a_zero_vector_and_is_counted(tmp_path):
    work, recipe, documents, _ = begin(tmp_path, 5)
    (tmp_path / "c.jsonl").write_text('{"text": "zyx wvu tsr"}\n{"text": ""}\n{"text": "the judge and the court"}')
    more = Recipe(work=recipe.work, embed=recipe.embed, sources=[
        *recipe.sources, {"name": "c", "path": str(tmp_path / "c.jsonl"), "license": "MIT"}])
    table = embed.run(work, more, ingest.run(work, more), [])
    assert embed.read_vectors(table.files[table.of_source("c")[0]])[1].any(axis=1).tolist() == [False, False, True]
    assert work.current()["embed/c"].counts["zero"] == 2
    assert "2 of 23 documents have a zero vector" in work.progress.stream.getvalue()


def test_clipping_over_a_ten_thousandth_is_an_error():
    def done(clipped: int) -> list[Folder]:
        return [Folder("u", "f", {"source": "web", "tasks": {"t": {"counts": {"values": 10_000, "clipped": clipped}, "files": {}}}})]

    embed._check_clipped(done(1))
    with pytest.raises(DataError, match=r"source web: 2 of 10000 values \(0.020%\)"):
        embed._check_clipped(done(2))


@pytest.mark.parametrize("content, words", [(None, "no such file"), (b"not an array", "no .npy file")])
def test_a_pinned_file_that_is_no_projection_is_an_error(tmp_path, content, words):
    if content is not None:
        (tmp_path / "p.npy").write_bytes(content)
    with pytest.raises(UsageError, match=words):
        fixed(Embed(fit=str(tmp_path / "p.npy")))


def test_a_pinned_array_of_another_shape_is_an_error(tmp_path):
    np.save(tmp_path / "p.npy", np.zeros((3, 4), np.float32))
    with pytest.raises(UsageError, match=r"float32 \(3, 4\); a projection is float32 \(131072, dimensions\)"):
        fixed(Embed(fit=str(tmp_path / "p.npy")))


def lexical(folder: Path) -> Embedder:
    np.save(folder / "p.npy", np.random.default_rng(0).standard_normal((COLUMNS, 8), np.float32))
    return Lexical.pinned(str(folder / "p.npy"))


def sentence_model(folder: Path) -> Embedder:
    """A static model of a few words, made here: no download."""
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers: pip install 'cuvee[embed]'")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"?": 0, "whale": 1, "court": 2, "ship": 3}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu").save(str(folder / "model"))
    return SentenceModel.find(str(folder / "model"), None)


@pytest.mark.parametrize("make", [lexical, sentence_model])
def test_every_embedder_gives_unit_vectors_that_hang_on_the_text_alone(tmp_path, make):
    embedder = make(tmp_path)
    texts = pa.array(["whale ship", "court", "ship whale whale"], pa.large_string())
    found = embedder.embed(texts)
    assert found.dtype == np.float32 and found.shape == (3, embedder.dimensions)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(embedder.embed(texts[1:2])[0], found[1], atol=1e-6)
    assert embedder.identity() == make(tmp_path).identity()


@pytest.mark.skipif(importlib.util.find_spec("sentence_transformers") is not None, reason="sentence-transformers is installed")
def test_a_model_without_its_package_names_the_extra():
    with pytest.raises(UsageError, match=r"pip install 'cuvee\[embed\]'"):
        fixed(Embed(model="some/model"))
