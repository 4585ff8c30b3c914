"""The quality head: a ridge regression from vectors to what the recipe calls good.

Labels are 1 for documents of the target sources and 0 for the raw ones, a by-hash sample of each, or those of a file.
Some are held out by hash and never fitted on; the rank correlation with them says how far the scores can be trusted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_bytes, read_table
from cuvee.errors import DataError
from cuvee.kernels.bands import ridge, score, spearman
from cuvee.kernels.text import hash64_many, sampled, text_ids
from cuvee.kernels.vectors import dequantise, unit
from cuvee.steps import embed
from cuvee.steps.reading.inputs import sha256

VERSION = 1
HELDOUT = 0.2           # share of labels that the head is not fitted on
LEAST = 10              # labels to fit, or to compare with; two a fold of the penalty's cross-validation
LABELS = pa.schema([("id", pa.string()), ("label", pa.float64())])


def fit(work: Work, recipe: Recipe, vectors: Table) -> Folder | None:
    """`head.json`: coefficients, intercept, counts and heldout_spearman, or the reason why there is no head.

    None where the recipe does not say what is good.
    """
    config = recipe.quality
    digests = tuple(f"{source} {digest}" for source, digest in vectors.digests.items())
    if config.labels is not None:
        rated = work.do(Step("quality.labels", VERSION, {}, (sha256(config.labels),)), [Task("labels", read_labels, {"url": config.labels})])
        chosen = {source: {"labels": rated.file("labels.arrow")} for source in vectors.digests}
        step = Step("quality.sample", VERSION, {}, (rated.files["labels.arrow"], *digests))
    elif config.target:
        chosen = _sides(recipe, vectors)
        step = Step("quality.sample", VERSION, {"sides": chosen}, digests)
    else:
        return None
    tasks = [Task(shard.replace("/", "."), sample_shard, {"name": shard.replace("/", "."), "vectors": url, **chosen[shard.split("/")[0]]})
             for shard, url in vectors.files.items() if shard.split("/")[0] in chosen]
    sample = work.do(step, tasks)
    args = {"files": tuple(map(sample.file, sample.files))}
    fitted = work.do(Step("quality.fit", VERSION, {}, tuple(sample.files.values()), ("numpy", "scipy")), [Task("head", fit_head, args)])
    if config.labels is not None and fitted.counts["labels"] < rated.counts["labels"]:
        work.progress.say(f"quality.labels: {fitted.counts['labels']} of {rated.counts['labels']} rated texts are among the kept documents.")
    return fitted


def _sides(recipe: Recipe, vectors: Table) -> dict[str, dict[str, float]]:
    """Source -> the label of its documents, and the share of them to look at, such that a side gives about `sample`."""
    config = recipe.quality
    raw = config.raw or [source.name for source in recipe.sources if source.name not in config.target]
    rows = {source: folder.counts.get("read", 0) for source, folder in embed.folders(vectors).items()}
    chosen = {}
    for label, side in ((0.0, raw), (1.0, config.target)):
        total = sum(rows.get(source, 0) for source in side)
        chosen |= {source: {"label": label, "share": min(1.0, config.sample / max(total, 1))} for source in side}
    return chosen


def read_labels(out: Output, url: str) -> Counts:
    """`labels.arrow`, by id; a text that is rated several times gets the mean."""
    rated: dict[str, list[float]] = {}
    for number, line in enumerate(read_bytes(url).splitlines(), 1):
        if line.strip():
            id, label = _rating(line, f"quality.labels: {url}, line {number}")
            rated.setdefault(id, []).append(label)
    rows = [(id, math.fsum(labels) / len(labels)) for id, labels in sorted(rated.items())]
    batch = pa.record_batch([[id for id, _ in rows], [label for _, label in rows]], schema=LABELS)
    out.arrow("labels.arrow", [batch], LABELS)
    return {"labels": len(rows)}


def _rating(line: bytes, where: str) -> tuple[str, float]:
    try:
        value: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON: {error}") from None
    label = value.get("label") if isinstance(value, dict) else None
    if not isinstance(label, (int, float)) or isinstance(label, bool):
        raise DataError(f"{where}: label is {label!r}. Write a number, larger for better.")
    named = [value[key] for key in ("id", "text") if isinstance(value.get(key), str)]
    if not named:
        raise DataError(f"{where}: neither `id` (xxh3-128 of the text, 32 hex digits) nor `text`. Add one of them.")
    return named[0] if isinstance(value.get("id"), str) else text_ids(pa.array([named[0]]))[0], float(label)


def sample_shard(out: Output, name: str, vectors: str, label: float = 0.0, share: float = 0.0, labels: str | None = None) -> Counts:
    """Labelled rows: id, label, vector."""
    table = read_table(vectors, ["id", "vector"])
    if labels is None:
        value = np.where(sampled(table["id"], "quality", share), label, np.nan)
    else:
        known = _labels(labels)
        value = np.array([known.get(id, np.nan) for id in table["id"].to_pylist()], np.float64)
    chosen = table.add_column(1, "label", pa.array(value)).filter(pa.array(~np.isnan(value))).combine_chunks()
    chosen = chosen.replace_schema_metadata(None)
    out.arrow(f"{name}.arrow", chosen.to_batches(), chosen.schema)
    return {"read": len(table), "labels": len(chosen)}


@functools.lru_cache(maxsize=1)
def _labels(url: str) -> dict[str, float]:
    table = open_arrow(url).read_all()
    return dict(zip(table["id"].to_pylist(), table["label"].to_pylist()))


def fit_head(out: Output, files: Sequence[str]) -> Counts:
    ids, labels, vectors = _labelled(files)
    heldout = sampled(pa.array(ids, pa.string()), "quality.heldout", HELDOUT)
    fitted = labels[~heldout]
    if len(fitted) < LEAST or np.ptp(fitted) == 0:
        found: dict[str, Any] = {"reason": f"{len(labels)} labels, of which {int(heldout.sum())} held out, cannot fit a head: it needs "
                                           f"{LEAST} or more that are not all equal"}
    else:
        head = ridge(vectors[~heldout], fitted)
        agreement = spearman(score(vectors[heldout], head), labels[heldout]) if heldout.sum() >= LEAST else math.nan
        found = {"reason": None, "coefficients": head.coefficients.tolist(), "intercept": head.intercept, "penalty": head.penalty,
                 "heldout_spearman": None if math.isnan(agreement) else agreement}
    out.json("head.json", {"labels": len(labels), "heldout": int(heldout.sum()), **found})
    return {"labels": len(labels), "heldout": int(heldout.sum())}


def _labelled(files: Sequence[str]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Each labelled text once, its label the mean over its rows, in an order by hash: ids, labels, unit vectors."""
    table = pa.concat_tables([open_arrow(file).read_all() for file in files])
    ids, first, place, count = np.unique(table["id"].to_numpy(zero_copy_only=False).astype("U32"), return_index=True,
                                         return_inverse=True, return_counts=True)
    labels = np.bincount(place, table["label"].to_numpy(), len(ids)) / count
    order = np.argsort(hash64_many(ids.tolist(), "quality.order"), kind="stable")
    return ids[order].tolist(), labels[order], unit(dequantise(embed.codes_of(table["vector"])[first[order]]))
