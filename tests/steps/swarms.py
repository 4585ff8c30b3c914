"""A token store of six domains (three topics, two bands) with one evaluation, small enough to train a swarm on in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Step, Task
from cuvee.engine.store import read_table
from cuvee.record import DEDUP, QUALITY, domain_name
from cuvee.steps import decontaminate, filter, ingest, store, tokenize
from tests.steps import corpus

SECTIONS = {"tokenizer": {"train": {"vocab": 300}}, "tokenize": {"seq_len": 16}, "budget": {"target": 150_000, "proxy": 2_000},
            "swarm": {"depth": 1, "batch": 4, "runs": 12, "rounds": 1, "subset_documents": 1, "task_items": 20, "heldout_items": 4}}


class Made(NamedTuple):
    work: Work
    recipe: Recipe
    tokens: store.TokenStore


def make(folder: Path) -> Made:
    work, found = recipe(folder)
    return Made(work, found, build(work, found))


def assign(out, name: str, url: str):
    """A quality table: the source is the topic, rows alternate between two bands."""
    rows = read_table(url, ["row", "id"])
    band = (rows["row"].to_numpy() % 2 + 1).astype(np.int32)
    topic = list(corpus.WORDS).index(name.split("/")[0])
    columns = [rows["row"], rows["id"], np.zeros(len(rows), np.float32), band, [domain_name(topic, each) for each in band]]
    out.table(f"{name}.parquet", pa.table(dict(zip(QUALITY.names, columns))).cast(QUALITY))
    return {}


def judge(out, name: str, url: str):
    """A dedup table that drops the first row of each shard as a copy of the second."""
    rows = read_table(url, ["id", "license"])
    source, part = name.split("/")
    table = pa.Table.from_pylist([
        {"source": source, "shard": part, "row": row, "id": each["id"], "keep": row > 0, "kind": "unique" if row else "near", "copies": 1 if row else None,
         "licenses": [each["license"]] if row else None, "sources": [source] if row else None} for row, each in enumerate(rows.to_pylist())], schema=DEDUP)
    out.table(f"{name}.parquet", table)
    return {"read": len(table), "kept": len(table) - 1}


def recipe(folder: Path, documents: int = 400, **sections: Any) -> tuple[Work, Recipe]:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    texts = [corpus.document(rng, "sea", 12).split(" ", 4) for _ in range(30)]
    (folder / "quiz.jsonl").write_text("\n".join(json.dumps({"q": " ".join(text[:4]), "a": text[4]}) for text in texts))
    evals = [{"name": "quiz", "path": str(folder / "quiz.jsonl"), "context": "{q} ", "continuation": "{a}"}]
    return corpus.recipe(folder, documents, **{**SECTIONS, "evals": evals, **sections})


def build(work: Work, recipe: Recipe) -> store.TokenStore:
    """Every step up to the token store; the tables of dedup and quality are made by hand."""
    documents = ingest.run(work, recipe)
    filtered = filter.run(work, recipe, documents)
    judged = decontaminate.run(work, recipe, documents, filtered)
    tasks = [Task(shard, judge, {"name": shard, "url": url}) for shard, url in documents.files.items()]
    verdicts = [filtered, judged, Table.of("dedup", [work.do(Step("dedup", 1), tasks)])]
    tokenizer = tokenize.fit(work, recipe, documents, verdicts)
    tokens = tokenize.run(work, recipe, documents, verdicts, tokenizer)
    tasks = [Task(shard, assign, {"name": shard, "url": tokens.files[shard]}) for shard in tokens.shards]
    quality = Table.of("quality", [work.do(Step("quality", 1), tasks)])
    return store.run(work, recipe, tokens, quality, tokenizer)


def mixed(work: Work, recipe: Recipe, tokens: store.TokenStore, weights: dict[str, float], baselines: dict[str, Any] | None = None) -> tuple[Folder, Folder]:
    """The folders that fit and mix would leave for a mixture."""
    budget, parts = recipe.budget.target, recipe.stream.parts
    domains = [{"name": domain.name, "weight": weights[domain.name], "parts": round(weights[domain.name] * parts), "tokens": domain.tokens,
                "epochs": weights[domain.name] * budget / domain.tokens, "natural": domain.tokens / tokens.tokens.sum(), "low": None, "high": None}
               for domain in tokens.domains]
    mixture = {"version": 1, "budget": budget, "parts": parts, "domains": domains, "objective": -1.0, "kkt": 0.0, "baselines": baselines or {},
               "tasks": [{"name": "quiz", "predicted": 1.5, "sd": 0.1, "proportional": 1.75}], "fingerprints": {"tokens": tokens.fingerprint}}
    fit = work.do(Step("fit", 1), [Task("fit", leave, {"name": "fit.json", "value": {"tasks": [{"name": "quiz", "weight": 1.0, "noise_sd": None}], "mean": {"noise_sd": None}, "runs": []}})])
    return fit, work.do(Step("mix", 1, {"weights": weights, "baselines": baselines}), [Task("mix", leave, {"name": "mixture.json", "value": mixture})])


def leave(out, name: str, value: dict):
    out.json(name, value)
    return {}
