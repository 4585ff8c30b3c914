"""What the decontamination scripts here read and write. Standard library only."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any


def records(folder: str) -> Iterator[str]:
    """The strings of each record, keys `*_id` and `id` aside, joined by newlines."""
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield "\n".join(_strings(json.loads(line)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "id" and not key.endswith("_id"):
                yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def read(folder: str) -> list[tuple[str, int, str]]:
    """File, row and text of every document."""
    paths = sorted(Path(folder).glob("*.jsonl"))
    return [(path.name, row, json.loads(line)["text"]) for path in paths
            for row, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1])]  # fmt: skip


def measure(documents: Iterable[tuple[str, int, str]], removes: Callable[[str], bool], out: str) -> None:
    documents = list(documents)
    start = time.process_time()
    removed = [(name, row) for name, row, text in documents if removes(text)]
    seconds = time.process_time() - start
    Path(out).write_text("".join(f"{name} {row}\n" for name, row in removed))
    print(sum(len(text.encode()) for *_, text in documents) / seconds / 1e6)
