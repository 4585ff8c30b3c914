"""The token store: per domain, packed rows in u order, and the held-out documents.

A domain's rows are `NAME.rows.npy`, (rows, seq_len + 1); its held-out documents `NAME.heldout.arrow` (id, bytes,
tokens). A nested random subset of a domain is a prefix of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe, Tokenize
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.shuffle import gather, scatter
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, open_npy, read_table
from cuvee.errors import DataError
from cuvee.kernels.pack import pack_concat, pack_fit
from cuvee.kernels.text import hash64_many
from cuvee.record import positions
from cuvee.steps.tokenize import token_lists

VERSION = 2
PACK = {"concat": pack_concat, "fit": pack_fit}  # by tokenize.pack
HELDOUT_MOST = 200      # documents, where a 50th of the domain is fewer than that
HELDOUT_LEAST = 16      # documents; a domain that cannot give them from a tenth has no held-out task


@dataclass(frozen=True)
class Domain:
    """One domain of the store. documents counts those that train; tokens = rows x seq_len, padding included."""

    name: str
    rows_url: str
    heldout_url: str
    rows: int
    tokens: int
    documents: int
    bytes: int
    heldout: int  # documents

    def load(self, count: int | None = None) -> np.ndarray:
        """The first `count` rows, (count, seq_len + 1); memory-mapped where the store is local."""
        return open_npy(self.rows_url)[:count]

    def load_heldout(self) -> pa.Table:
        return open_arrow(self.heldout_url).read_all()


@dataclass(frozen=True)
class TokenStore:
    """All domains in name order; `fingerprint` names the bytes."""

    domains: tuple[Domain, ...]
    seq_len: int
    vocab: int
    end: int
    tokenizer: str  # URL
    fingerprint: str

    @property
    def tokens(self) -> np.ndarray:
        """int64 (domains,)"""
        return np.array([domain.tokens for domain in self.domains], np.int64)

    @property
    def names(self) -> list[str]:
        return [domain.name for domain in self.domains]


def run(work: Work, recipe: Recipe, tokens: Table, quality: Table, tokenizer: Folder) -> TokenStore:
    """Bring every document's tokens to its domain, and pack them."""
    config = recipe.tokenize
    names = sorted({name for counts in _domain_counts(work, tokens, quality) for name in counts})
    inputs = (tokens.fingerprint, quality.fingerprint)
    tasks = [Task(shard.replace("/", "."), scatter_shard, {
        "name": f"{shard.replace('/', '.')}.arrow", "tokens": tokens.files[shard], "quality": quality.files[shard], "domains": names})
        for shard in tokens.shards]
    moved = work.do(Step("tokens.scatter", VERSION, {"domains": names}, inputs), tasks)
    files = tuple(moved.file(name) for name in moved.files)
    step = Step("tokens", VERSION, config.identity(), (moved.fingerprint,))
    end = tokenizer.counts["end"]
    folder = work.do(step, [Task(name, pack_domain, {"files": files, "number": number, "name": name, "config": config, "end": end})
                            for number, name in enumerate(names)])
    if padding := folder.counts.get("padding_tokens"):
        share = padding / (folder.counts["rows"] * (config.seq_len + 1))
        work.progress.say(f"tokens: {share:.1%} of the rows' places are padding, which budgets and epochs count and losses do not")
    return _store(folder, names, config, tokenizer)


def opened(work: Work, recipe: Recipe) -> TokenStore | None:
    """The newest finished token store of a work folder; None where there is none."""
    current = work.current()
    if not {"tokens", "tokenizer.fit"} <= current.keys() or not current["tokens"].manifest["complete"]:
        return None
    return _store(current["tokens"], sorted(current["tokens"].manifest["tasks"]), recipe.tokenize, current["tokenizer.fit"])


def _domain_counts(work: Work, tokens: Table, quality: Table) -> list[dict[str, int]]:
    """Documents per domain of every shard."""
    step = Step("tokens.domains", VERSION, {}, (tokens.fingerprint, quality.fingerprint))
    tasks = [Task(shard.replace("/", "."), count_domains, {"quality": quality.files[shard]}) for shard in tokens.shards]
    return [result["counts"]["domains"] for _, result in sorted(work.do(step, tasks).manifest["tasks"].items())]


def count_domains(out: Output, quality: str) -> Counts:
    names, counts = np.unique(read_table(quality, ["domain"])["domain"].to_numpy(zero_copy_only=False), return_counts=True)
    return {"domains": dict(zip(names.tolist(), counts.tolist()))}


def scatter_shard(out: Output, name: str, tokens: str, quality: str, domains: Sequence[str]) -> Counts:
    """One shard's documents with their tokens, grouped by domain."""
    table, judged = read_table(tokens), read_table(quality, ["row", "id", "domain"])
    place = positions(judged, table["row"], table["id"], quality)
    if (place < 0).any():
        raise DataError(f"{quality}: no domain for {int((place < 0).sum())} rows of {tokens}. Delete the quality folder and run again.")
    number = {domain: at for at, domain in enumerate(domains)}
    partition = np.array([number[each] for each in judged["domain"].take(pa.array(place)).to_pylist()], np.int64)
    lists = token_lists(tokens)
    moved = pa.table({"id": table["id"], "u": table["u"], "bytes": table["bytes"], "tokens": lists})
    scatter(out, name, moved, partition, len(domains))
    return {"read": len(table)}


def pack_domain(out: Output, files: Sequence[str], number: int, name: str, config: Tokenize, end: int) -> Counts:
    """Hold out, order by u, pack. Equal u goes by id; equal ids are equal texts."""
    documents = gather(files, number)
    documents = documents.take(pa.array(np.lexsort((np.array(documents["id"].to_pylist(), "U32"), documents["u"].to_numpy()))))
    held = _held_out(documents["id"].to_pylist(), config.heldout_share)
    training, heldout = documents.filter(pa.array(~held)), documents.filter(pa.array(held))
    lists = training["tokens"].combine_chunks()
    packed = PACK[config.pack](lists.values.to_numpy(), lists.offsets.to_numpy(), end, config.seq_len)
    out.npy(f"{name}.rows.npy", packed.rows)
    kept = heldout.select(["id", "bytes", "tokens"])
    out.arrow(f"{name}.heldout.arrow", kept.combine_chunks().to_batches(), kept.schema)
    return {"read": len(documents), "documents": len(training), "heldout": len(heldout), "rows": len(packed.rows),
            "bytes": int(np.sum(training["bytes"].to_numpy())), "cut_tokens": packed.dropped, "padding_tokens": packed.padding}


def _held_out(ids: list[str], share: float) -> np.ndarray:
    """Which documents of a domain are held out: those of smallest hash64(id, "heldout"), bool (documents,)"""
    count = len(ids)
    wanted = max(math.ceil(share * count), min(HELDOUT_MOST, count // 50), HELDOUT_LEAST)
    wanted = min(wanted, count // 10)
    held = np.zeros(count, bool)
    if wanted >= HELDOUT_LEAST:
        held[np.lexsort((np.array(ids, "U32"), hash64_many(ids, "heldout")))[:wanted]] = True
    return held


def _store(folder: Folder, names: Sequence[str], config: Tokenize, tokenizer: Folder) -> TokenStore:
    domains = [_domain(folder, name, config, folder.manifest["tasks"][name]["counts"]) for name in names]
    return TokenStore(tuple(domains), config.seq_len, tokenizer.counts["vocab"], tokenizer.counts["end"],
                      tokenizer.file("tokenizer.json"), folder.fingerprint)


def _domain(folder: Folder, name: str, config: Tokenize, counts: dict[str, Any]) -> Domain:
    return Domain(name, folder.file(f"{name}.rows.npy"), folder.file(f"{name}.heldout.arrow"), counts["rows"],
                  counts["rows"] * config.seq_len, counts["documents"], counts["bytes"], counts["heldout"])
