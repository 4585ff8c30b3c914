"""Portraits: what each domain is made of, so that another recipe, or a person, can know it again: `portraits.json`.

Per domain: documents, bytes, tokens, sources by bytes, languages by bytes of the beginnings that embed kept, mean and range
of the quality score, and the centroid of its vectors. Sums of int8 codes are whole numbers, so the order of shards changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_table
from cuvee.errors import DataError
from cuvee.kernels import languages
from cuvee.kernels.vectors import unit
from cuvee.record import positions
from cuvee.steps import embed
from cuvee.steps.store import TokenStore

VERSION = 1
FILE = "portraits.json"
DIGITS = 5  # of a coordinate of a centroid
SUMS = pa.schema([("domain", pa.string()), ("source", pa.string()), ("documents", pa.int64()), ("bytes", pa.int64()), ("vector", pa.list_(pa.int64())),
                  ("languages", pa.map_(pa.string(), pa.int64())), ("scored", pa.int64()), ("score", pa.float64()), ("low", pa.float64()), ("high", pa.float64())])


def run(work: Work, vectors: Table, quality: Table, tokens: TokenStore) -> Folder:
    inputs = (*vectors.digests.values(), quality.fingerprint, *embed.sample_checksums(vectors))
    names = {shard.replace("/", "."): shard for shard in vectors.shards}
    sums = work.do(Step("portraits.sum", VERSION, {}, inputs, ("numpy",)), [
        Task(name, sum_shard, {"name": name, "source": shard.split("/")[0], "vectors": vectors.files[shard], "quality": quality.files[shard]})
        for name, shard in names.items()])
    args = {"files": tuple(map(sums.file, sums.files)), "tokens": dict(zip(tokens.names, tokens.tokens.tolist()))}
    return work.do(Step("portraits", VERSION, {}, (sums.fingerprint, tokens.fingerprint), ("numpy",)), [Task("portraits", draw, args)])


def sum_shard(out: Output, name: str, source: str, vectors: str, quality: str) -> Counts:
    """A row for each domain in the shard: documents, bytes, scores and vectors, summed; languages of some."""
    table, codes = embed.read_vectors(vectors)
    judged = read_table(quality, ["row", "id", "score", "domain"])
    if not judged["row"].equals(table["row"]):
        raise DataError(f"{quality}: its rows are not those of {vectors}. Delete the quality folder and run again.")
    domains, place = np.unique(judged["domain"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    score = judged["score"].to_numpy(zero_copy_only=False).astype(float)
    held, summed = np.zeros((2, len(domains)), np.int64), np.zeros((len(domains), codes.shape[1]), np.int64)
    np.add.at(held[0], place, 1)
    np.add.at(held[1], place, table["bytes"].to_numpy())
    np.add.at(summed, place, codes.astype(np.int64))
    sample = embed.read_sample(vectors)
    texts, shown = sample["text"].to_pylist(), place[positions(judged, sample["row"], sample["id"], quality)]
    rows = [{"domain": domain, "source": source, "documents": int(held[0, at]), "bytes": int(held[1, at]), "vector": summed[at].tolist(),
             "languages": languages.held([texts[number] for number in np.flatnonzero(shown == at)]), **_scores(score[place == at])}
            for at, domain in enumerate(domains.tolist())]
    out.arrow(f"{name}.arrow", pa.Table.from_pylist(rows, SUMS).to_batches(), SUMS)
    return {"read": len(table)}


def _scores(values: np.ndarray) -> dict[str, float | int | None]:
    """Sum and range of the scores; none where nothing says what is good."""
    known = values[np.isfinite(values)]
    return {"scored": len(known), "score": float(known.sum()), "low": float(known.min()) if len(known) else None,
            "high": float(known.max()) if len(known) else None}


def draw(out: Output, files: Sequence[str], tokens: Mapping[str, int]) -> Counts:
    rows = [row for file in files for row in open_arrow(file).read_all().to_pylist()]
    by_domain: dict[str, list[dict]] = {}
    for row in rows:
        by_domain.setdefault(row["domain"], []).append(row)
    out.json(FILE, {"domains": [_portrait(name, by_domain[name], tokens.get(name, 0)) for name in sorted(by_domain)]})
    return {"domains": len(by_domain)}


def _portrait(name: str, rows: Sequence[Mapping], tokens: int) -> dict:
    scored, ranges = sum(row["scored"] for row in rows), [row for row in rows if row["scored"]]
    quality = {"mean": sum(row["score"] for row in rows) / scored, "low": min(row["low"] for row in ranges),
               "high": max(row["high"] for row in ranges)} if scored else None
    centroid = unit(np.sum([row["vector"] for row in rows], axis=0)[None].astype(float))[0]
    return {"name": name, "documents": sum(row["documents"] for row in rows), "bytes": sum(row["bytes"] for row in rows), "tokens": tokens,
            "quality": quality, "sources": _shares((row["source"], row["bytes"]) for row in rows),
            "languages": _shares(pair for row in rows for pair in row["languages"]),
            "centroid": [round(float(value), DIGITS) for value in centroid]}


def _shares(pairs: Iterable[tuple[str, int]]) -> dict[str, float]:
    """Bytes by name, as shares of their sum."""
    held: dict[str, int] = {}
    for name, count in pairs:
        held[name] = held.get(name, 0) + count
    whole = max(sum(held.values()), 1)
    return {name: count / whole for name, count in sorted(held.items()) if count}
