"""Stream: tokens in training order, each element a pure function of (seed, k).

`WORK/stream.json` is all that a reader needs. Element k is one row, seq_len + 1 tokens of one domain. Shares are exact
in each period of `parts` elements, and a period is never longer than the budget or its stage: otherwise a small run
would see a random piece of one, and neither its shares nor its epochs would be those of the mixture. Within a domain
every row is read once per epoch, each epoch in a new order, over all stages; inside a period epochs may overlap. The
stream has no end: its last stage goes on, and after a domain's last row its next epoch begins, whatever the budget was;
`place(k)` says which. `len(stream)` is the budget in rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.store import exists, join, open_npy, read_json, write_json
from cuvee.errors import DataError, UsageError
from cuvee.kernels.pack import copy_rows, predicted
from cuvee.kernels.permute import Places, locate
from cuvee.steps.stages import Segment, check_caps, segments, stages
from cuvee.steps.store import TokenStore

VERSION = 2
FILE = "stream.json"


class Place(NamedTuple):
    domain: str
    epoch: int  # passes over the domain that ended before
    row: int    # of the domain's rows


def write(work: Work, recipe: Recipe, tokens: TokenStore, mix: Folder) -> None:
    """`WORK/stream.json`; URLs in it are relative to WORK, so that the folder can be moved."""
    found = stages(recipe, tokens, mix.file("mixture.json"))
    check_caps(found, tokens, recipe.mix.max_epochs)
    room = recipe.mix.max_epochs * np.array([domain.rows for domain in tokens.domains])
    starts = np.cumsum([0] + [stage.rows for stage in found])
    write_json(join(work.url, FILE), {
        "version": VERSION, "seed": recipe.seed, "seq_len": tokens.seq_len, "vocab": tokens.vocab, "end": tokens.end,
        "pack": recipe.tokenize.pack, "tokenizer": _relative(tokens.tokenizer, work.url), "budget": recipe.budget.target,
        "domains": [{"name": domain.name, "rows": _relative(domain.rows_url, work.url), "count": domain.rows} for domain in tokens.domains],
        "stages": [{"mixture": stage.mixture, "start": int(start), "rows": stage.rows, "weights": dict(zip(tokens.names, stage.weights.tolist()))}
                   for stage, start in zip(found, starts)],
        "segments": [{"start": each.start, "parts": each.parts.tolist()} for each in segments(found, recipe.stream.parts, room)],
        "fingerprints": {"mix": mix.fingerprint, "tokens": tokens.fingerprint}})


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
        self._segments = [Segment(each["start"], np.array(each["parts"], np.int64)) for each in description["segments"]]
        self._before = _before(self._segments)
        self._counts = np.array([domain["count"] for domain in description["domains"]], np.int64)
        self._sizes = [domain.get("of", domain["count"]) for domain in description["domains"]]  # a run of the swarm reads the first rows of more
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

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process maps the rows anew: pickled, a map would be the rows themselves."""
        return {**self.__dict__, "_rows": {}}

    def __len__(self) -> int:
        """Elements of the budget. There are more: the last stage has no end."""
        return self.description["budget"] // self.seq_len

    def __getitem__(self, k: int) -> np.ndarray:
        return self.gather(np.array([k]))[0]

    def take(self, start: int, count: int) -> np.ndarray:
        """Elements start to start + count - 1, int32 (count, seq_len + 1)."""
        if count < 0:
            raise IndexError(f"a number of elements is at least 0; got {count}.")
        return self.gather(np.arange(start, start + count))

    def gather(self, k: np.ndarray) -> np.ndarray:
        """Elements k, in any order. (many,) integers -> int32 (many, seq_len + 1)"""
        places = self.places(k)
        found = np.empty((len(places.row), self.seq_len + 1), np.int32)
        order = np.argsort(places.domain, kind="stable")
        ends = np.cumsum(np.bincount(places.domain, minlength=len(self.names)))
        for domain in np.unique(places.domain).tolist():
            mine = order[ends[domain - 1] if domain else 0 : ends[domain]]
            copy_rows(self._load(domain), places.row[mine], found, mine)
        return found

    def predicted(self, rows: np.ndarray) -> np.ndarray:
        """Which targets a loss counts, bool (many, seq_len): all but padding. rows: (many, seq_len + 1)"""
        return predicted(rows, self.description["end"])

    def place(self, k: int) -> Place:
        """Where element k comes from."""
        domain, epoch, row = (int(each[0]) for each in self.places(np.array([k])))
        return Place(self.names[domain], epoch, row)

    def places(self, k: np.ndarray) -> Places:
        """Domain (its place in `names`), epoch and row of elements k, three int64 (many,)."""
        k = np.asarray(k, np.int64)
        if k.size and k.min() < 0:
            raise IndexError(f"elements are numbered from 0 without end; got {k.min()}.")
        segment = np.searchsorted([each.start for each in self._segments], k, side="right") - 1
        found = Places(*np.empty((3, k.size), np.int64))
        for number in np.unique(segment).tolist():
            mine, (start, parts) = np.flatnonzero(segment == number), self._segments[number]
            for whole, part in zip(found, locate(k[mine] - start, parts, self._counts, self.seed, *self._before[number])):
                whole[mine] = part
        return found

    def _load(self, domain: int) -> np.ndarray:
        if domain not in self._rows:
            rows = open_npy(self._urls[domain])
            if rows.shape != (self._sizes[domain], self.seq_len + 1):
                raise DataError(f"{self._urls[domain]}: {rows.shape} rows and tokens, stream.json says "
                                f"({self._sizes[domain]}, {self.seq_len + 1}). Run the recipe again.")
            self._rows[domain] = np.asarray(rows)[:self._counts[domain]]
        return self._rows[domain]


def _before(segments: Sequence[Segment]) -> list[tuple[np.ndarray, int]]:
    """Rows of each domain, int64 (domains,), and periods that the segments before each one hold."""
    found = [(np.zeros_like(segments[0].parts), 0)]
    for each, following in zip(segments, segments[1:]):
        drawn, periods = found[-1]
        times = (following.start - each.start) // int(each.parts.sum())
        found.append((drawn + times * each.parts, periods + times))
    return found


def _absolute(folder: str, url: str) -> str:
    return url if "://" in url or url.startswith("/") else join(folder, url)
