"""Stream: tokens in training order, each element a pure function of (seed, k).

`WORK/stream.json` is all that a reader needs. Element k is one row, seq_len + 1 tokens of one domain. Shares are exact
in each period of `parts` elements, and a period is never longer than the budget: otherwise a small run would see a
random piece of one, and neither its shares nor its epochs would be those of the mixture. Within a domain every row is
read once per epoch, each epoch in a new order; inside a period epochs may overlap. The stream has no end: after a
domain's last row its next epoch begins, whatever the budget was; `place(k)` says which.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.store import exists, join, open_npy, read_json, write_json
from cuvee.errors import DataError, UsageError
from cuvee.kernels.permute import locate
from cuvee.kernels.simplex import quantize
from cuvee.steps.store import TokenStore
from cuvee.steps.training import matched

VERSION = 1
FILE = "stream.json"


class Place(NamedTuple):
    domain: str
    epoch: int  # passes over the domain that ended before
    row: int    # of the domain's rows


def write(work: Work, recipe: Recipe, tokens: TokenStore, mix: Folder) -> None:
    """`WORK/stream.json`; URLs in it are relative to WORK, so that the folder can be moved."""
    mixture = read_json(mix.file("mixture.json"))
    weights = matched({each["name"]: each["weight"] for each in mixture["domains"]}, tokens, "mixture.json")
    parts = quantize(weights, period(recipe, tokens.seq_len))
    domains = [{"name": domain.name, "rows": _relative(domain.rows_url, work.url), "count": domain.rows, "parts": int(mine)}
               for domain, mine in zip(tokens.domains, parts)]
    write_json(join(work.url, FILE), {
        "version": VERSION, "seed": recipe.seed, "seq_len": tokens.seq_len, "vocab": tokens.vocab, "end": tokens.end,
        "tokenizer": _relative(tokens.tokenizer, work.url), "budget": recipe.budget.target, "parts": int(parts.sum()),
        "domains": domains, "fingerprints": {"mix": mix.fingerprint, "tokens": tokens.fingerprint}})


def period(recipe: Recipe, seq_len: int) -> int:
    """Elements after which shares are exact: stream.parts, or the rows of the target budget where those are fewer."""
    return max(1, min(recipe.stream.parts, recipe.budget.target // seq_len))


def _relative(url: str, base: str) -> str:
    return url.removeprefix(base.rstrip("/") + "/")


class Stream:
    """`stream[k]` -> int32 (seq_len + 1,). A checkpoint is the integer k; nothing else is kept."""

    def __init__(self, folder: str, description: dict[str, Any], seed: int | None = None) -> None:
        self.description = description
        self.seed: int = description["seed"] if seed is None else seed
        self.seq_len: int = description["seq_len"]
        self.names = [domain["name"] for domain in description["domains"]]
        self.tokenizer = _absolute(folder, description["tokenizer"])
        self._parts = np.array([domain["parts"] for domain in description["domains"]], np.int64)
        self._counts = np.array([domain["count"] for domain in description["domains"]], np.int64)
        self._urls = [_absolute(folder, domain["rows"]) for domain in description["domains"]]
        self._rows: dict[int, np.ndarray] = {}

    @classmethod
    def open(cls, path: str, seed: int | None = None) -> Stream:
        """path: a work folder, or the stream.json in it; seed: another order of the same mixture."""
        url = path if path.endswith(".json") else join(path, FILE)
        if not exists(url):
            raise UsageError(f"{url}: no such file. The last step of `cuvee run` writes it.")
        description = read_json(url)
        if description["version"] != VERSION:
            raise UsageError(f"{url}: version {description['version']}; this Cuvee reads {VERSION}. Run the recipe again.")
        return cls(url.rpartition("/")[0] or ".", description, seed)

    def __getitem__(self, k: int) -> np.ndarray:
        return self.take(k, 1)[0]

    def take(self, start: int, count: int) -> np.ndarray:
        """Elements start to start + count - 1, int32 (count, seq_len + 1)."""
        places = self._locate(start, count)
        found = np.empty((count, self.seq_len + 1), np.int32)
        for domain in np.unique(places.domain):
            mine = places.domain == domain
            found[mine] = self._load(int(domain))[places.row[mine]]
        return found

    def place(self, k: int) -> Place:
        """Where element k comes from."""
        domain, epoch, row = (int(each[0]) for each in self._locate(k, 1))
        return Place(self.names[domain], epoch, row)

    def _locate(self, start: int, count: int) -> Any:
        if start < 0 or count < 0:
            raise IndexError(f"elements are numbered from 0 without end; got start {start}, count {count}.")
        return locate(np.arange(start, start + count), self._parts, self._counts, self.seed)

    def _load(self, domain: int) -> np.ndarray:
        if domain not in self._rows:
            rows = open_npy(self._urls[domain])
            if rows.shape != (self._counts[domain], self.seq_len + 1):
                raise DataError(f"{self._urls[domain]}: {rows.shape} rows and tokens, stream.json says "
                                f"({self._counts[domain]}, {self.seq_len + 1}). Run the recipe again.")
            self._rows[domain] = rows
        return self._rows[domain]


def _absolute(folder: str, url: str) -> str:
    return url if "://" in url or url.startswith("/") else join(folder, url)
