"""What every script here reads and writes: JSON lines with `id` d0, d1, ... and `text`; the rows kept, and `keepers.txt`,
the number of the row that stands for each, its own where it is kept. Standard library only.

Called as `python SCRIPT IN_FOLDER OUT_FOLDER WORKERS`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

WIDTH, BANDS, ROWS, THRESHOLD = 5, 20, 7, 0.75


def arguments() -> tuple[Path, Path, int]:
    source, out, workers = sys.argv[1:]
    Path(out).mkdir(parents=True, exist_ok=True)
    return Path(source), Path(out), int(workers)


def files(source: Path) -> list[str]:
    return sorted(map(str, source.glob("*.jsonl")))


def read(source: Path) -> tuple[list[bytes], list[str]]:
    """Lines and texts in row order."""
    lines = [line for path in files(source) for line in Path(path).read_bytes().splitlines(keepends=True)]
    return lines, [json.loads(line)["text"] for line in lines]


def write_kept(out: Path, lines: Sequence[bytes], keepers: Sequence[int]) -> None:
    with open(out / "kept.jsonl", "wb") as file:
        file.writelines(line for row, line in enumerate(lines) if keepers[row] == row)


def write_keepers(out: Path, keepers: Iterable[int]) -> None:
    (out / "keepers.txt").write_text("\n".join(map(str, keepers)) + "\n")


class Groups:
    """Connected components of rows; the first row of each is kept, as tools without a verification do."""

    def __init__(self, rows: int):
        self.parent = list(range(rows))

    def find(self, row: int) -> int:
        while self.parent[row] != row:
            self.parent[row] = self.parent[self.parent[row]]
            row = self.parent[row]
        return row

    def join(self, a: int, b: int) -> None:
        first, last = sorted((self.find(a), self.find(b)))
        self.parent[last] = first

    def join_equal(self, keys: Iterable[tuple[int, Iterable[Hashable]]]) -> None:
        """Join rows that share a key: (row, its keys)"""
        seen: dict[Hashable, int] = defaultdict(lambda: -1)
        for row, own in keys:
            for key in own:
                if seen[key] < 0:
                    seen[key] = row
                else:
                    self.join(seen[key], row)

    def keepers(self) -> list[int]:
        return [self.find(row) for row in range(len(self.parent))]
