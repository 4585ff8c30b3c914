from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import tokenizers
import yaml

from cuvee.errors import UsageError
from cuvee.steps import export, finished, stream
from tests.steps.swarms import mixed


@pytest.fixture
def streamed(made):
    weights = dict(zip(made.tokens.names, [0.5, 0.25, 0.125, 0.125, 0.0, 0.0]))
    stream.write(made.work, made.recipe, made.tokens, mixed(made.work, made.recipe, made.tokens, weights)[1])
    return made


def lines(urls):
    return [json.loads(line) for url in urls for line in gzip.open(url, "rt")]


def test_json_has_what_a_trainer_and_a_lawyer_ask(streamed, tmp_path):
    export.write(streamed.work, streamed.recipe, "json", str(tmp_path / "out"))
    found = json.loads((tmp_path / "out/mixture.json").read_text())
    assert [each["weight"] for each in found["domains"]] == [0.5, 0.25, 0.125, 0.125, 0, 0]
    assert [each["rows"] for each in found["domains"]] == [domain.rows for domain in streamed.tokens.domains]
    assert [(each["documents"], each["kept"], each["licenses"]) for each in found["sources"]] == [(400, 399, {"MIT": 399})] * 3
    assert found["steps"]["tokens"] == streamed.tokens.fingerprint and found["seq_len"] == 16
    built = tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer/tokenizer.json"))
    assert built.get_vocab_size() == found["vocab"] and built.token_to_id("<|endoftext|>") == found["end"]
    card = (tmp_path / "out/DATACARD.md").read_text()
    assert "| MIT | 1,197 |" in card and "| t00.q1 | 183 |" in card and "| sea | 400 | 399 | MIT |" in card


def test_levanter_gets_every_kept_document_once_held_out_ones_apart(streamed, tmp_path):
    export.write(streamed.work, streamed.recipe, "levanter", str(tmp_path / "out"))
    data = yaml.safe_load((tmp_path / "out/levanter.yaml").read_text())["data"]
    assert data["train_weights"] == dict(zip(streamed.tokens.names, [0.5, 0.25, 0.125, 0.125, 0, 0])) and sum(data["train_weights"].values()) == 1
    assert all(Path(data[name]).is_absolute() for name in ("tokenizer", "cache_dir"))
    kept = {row["id"]: row["text"] for shard in finished.kept(streamed.work, streamed.recipe) for row in shard.read(("text",)).to_pylist()}
    found: dict[str, str] = {}
    for domain in streamed.tokens.domains:
        train, held = (lines(data["configs"][domain.name][kind]) for kind in ("train_urls", "validation_urls"))
        assert {row["id"] for row in held} == set(domain.load_heldout()["id"].to_pylist()) and len(train) == domain.documents
        found |= {row["id"]: row["text"] for row in train + held}
    assert found == kept and len(kept) == 1_197


def test_a_folder_of_something_else_is_left_alone(streamed, tmp_path):
    out = str(tmp_path / "out")
    export.write(streamed.work, streamed.recipe, "json", out)
    before = (tmp_path / "out/mixture.json").read_bytes()
    export.write(streamed.work, streamed.recipe, "json", out)
    assert (tmp_path / "out/mixture.json").read_bytes() == before
    other = mixed(streamed.work, streamed.recipe, streamed.tokens, dict(zip(streamed.tokens.names, [0, 0.5, 0.5, 0, 0, 0])))[1]
    with pytest.raises(UsageError, match="mixture is newer than stream.json"):
        export.write(streamed.work, streamed.recipe, "json", out)
    stream.write(streamed.work, streamed.recipe, streamed.tokens, other)
    with pytest.raises(UsageError, match="export of another mixture"):
        export.write(streamed.work, streamed.recipe, "json", out)
    with pytest.raises(UsageError, match="is not empty"):
        export.write(streamed.work, streamed.recipe, "json", str(tmp_path))
    with pytest.raises(UsageError, match="Did you mean 'levanter'"):
        export.write(streamed.work, streamed.recipe, "levant", out)
