"""A small corpus of made-up documents for tests of steps, and its way through the first of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.config import Recipe
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work

WORDS = {
    "sea": "whale ship sail harbour captain wave anchor deck mast tide storm crew voyage island reef net gull".split(),
    "code": "function return value class import module object string list number parse error test call loop index".split(),
    "law": "court judge statute clause party contract claim appeal witness verdict jury counsel evidence rule".split(),
}


def document(rng: np.random.Generator, topic: str, words: int) -> str:
    """Words of a topic in random order with some glue, as sentences of ten words."""
    drawn = rng.choice([*WORDS[topic], "the", "of", "and", "to"], size=words)
    return ". ".join(" ".join(drawn[start:start + 10]) for start in range(0, words, 10)) + "."


def write(folder: Path, documents: int = 120, seed: int = 0) -> list[dict[str, Any]]:
    """`documents` texts in each of three JSONL files, one a topic; the sources of a recipe."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sources = []
    for topic in WORDS:
        lines = [json.dumps({"text": document(rng, topic, int(rng.integers(40, 120))), "id": f"{topic}-{n}"}) for n in range(documents)]
        (folder / f"{topic}.jsonl").write_text("\n".join(lines))
        sources.append({"name": topic, "path": str(folder / f"{topic}.jsonl"), "license": "MIT"})
    return sources


def recipe(folder: Path, documents: int = 120, **sections: Any) -> tuple[Work, Recipe]:
    """A recipe over `write`'s files, and its work folder on an engine in this process."""
    made = Recipe(work=str(folder / "work"), sources=write(folder / "raw", documents), **sections)
    return Work(made.work, LocalEngine(1)), made
