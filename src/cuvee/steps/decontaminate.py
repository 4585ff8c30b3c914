"""Decontaminate: documents that hold what an evaluation asks or answers.

`evals` makes the features, once; `scan` finds them in every source and stores all matches with their places; `decide`
judges these by the rule, without reading text again; `boilerplate` before it says what is no evidence, and after it
reports by item.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_table
from cuvee.kernels import offsets
from cuvee.kernels.boilerplate import distinct
from cuvee.kernels.ngrams import FeatureSet, Spans, scan, spans
from cuvee.kernels.text import NFC, buffers, cut, nfc
from cuvee.kernels.words import tokenize
from cuvee.record import DECONTAMINATE, EDITS, SCAN
from cuvee.steps.documents import Edit, Shard, identity, shards
from cuvee.steps.overlap import boilerplate, evals

VERSION = 1
BATCH_BYTES = 4_000_000  # text held as tokens at a time: few enough to stay in the cache
HIT = SCAN.field("hits").type.value_type


def run(work: Work, recipe: Recipe, documents: Table, *verdicts: Table) -> Table:
    """verdicts: the tables that judged the documents so far, in the order of the steps. Without evaluations all is kept."""
    features = evals.run(work, recipe.evals)
    folders = scan_sources(work, recipe, features, documents, verdicts)
    scanned = Table.of("decontaminate.scan", folders)
    aside = boilerplate.run(work, recipe.decontaminate, features, folders)
    args = {"features": features.file("features.arrow"), "items": features.file("items.arrow"),
            "records": features.file("records.parquet"), "aside": aside.file("set_aside.arrow") if aside else None,
            "rule": recipe.decontaminate.rule}
    tasks = [Task(name, decide_shard, {"name": name, "scanned": url, **args}) for name, url in scanned.files.items()]
    inputs = (features.fingerprint, scanned.fingerprint, aside.fingerprint if aside else "")
    decided = work.do(Step("decontaminate", VERSION, recipe.decontaminate.identity(), inputs), tasks)
    boilerplate.report(work, features, aside, decided)
    return Table.of("decontaminate", [decided])


def scan_sources(work: Work, recipe: Recipe, features: Folder, documents: Table, verdicts: Sequence[Table]) -> list[Folder]:
    """Matches of every source. What enters is the set of features, not whose they are."""
    steps = []
    for source in recipe.sources:
        tasks = [Task(shard.part, scan_shard, {"shard": shard, "features": features.file("features.arrow")})
                 for shard in shards(documents, *verdicts) if shard.source == source.name]
        inputs = (features.files["features.arrow"], *identity(source.name, documents, *verdicts))
        steps.append((Step("decontaminate.scan", VERSION, {"nfc": NFC}, inputs, source=source.name), tasks))
    return work.do_all(steps)


@functools.lru_cache(maxsize=1)
def feature_set(url: str) -> FeatureSet:
    """The set of a features.arrow: built once a process, over hashes that all processes of a machine share."""
    stored = open_arrow(url).get_batch(0)
    return FeatureSet.build(*(stored[name].to_numpy() for name in evals.FEATURES.names))


def scan_shard(out: Output, shard: Shard, features: str) -> Counts:
    """Store every match of a shard; where there is nothing to look for, no text is read."""
    known = feature_set(features)
    if len(known.hashes):
        documents = shard.read(("text",))
        words, bounds, hits = _matches(shard, documents, known)
    else:
        documents = shard.read(())
        words, bounds, hits = np.zeros(len(documents), np.int64), np.zeros(len(documents) + 1, np.int64), [[]] * 5
    listed = pa.LargeListArray.from_arrays(pa.array(bounds), pa.StructArray.from_arrays(
        [pa.array(column, field.type) for column, field in zip(hits, HIT)], fields=list(HIT)))
    columns = [documents["row"], documents["id"], pa.array(words), listed]
    out.table(f"{shard.part}.parquet", pa.table(columns, schema=SCAN))
    boilerplate.scatter_holders(out, f"{shard.part}.holders.arrow", documents["id"], bounds, listed.values)
    size = pc.sum(pc.binary_length(documents["text"])).as_py() if "text" in documents.column_names else 0
    return {"read": len(documents), "bytes": size or 0, "matched": int((np.diff(bounds) > 0).sum()),
            "hits": int(bounds[-1])}


def _matches(shard: Shard, documents: pa.Table, known: FeatureSet) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Words of each document, where its matches begin and end, and the columns of HIT of all matches."""
    found = [_matches_of(texts, known) for texts in cut(documents["text"], BATCH_BYTES)]
    words, counts, *hits = (np.concatenate(columns) for columns in zip(*found))
    bounds = np.concatenate([[0], np.cumsum(counts)])
    edits = edits_of(shard) if bounds[-1] else {}
    changed = {place: edits[row] for place, row in enumerate(documents["row"].to_pylist()) if row in edits} if edits else {}
    sizes = pc.binary_length(documents["text"]).to_numpy() if changed else []
    _undo(changed, lambda place: offsets.edited(int(sizes[place]), changed[place]), bounds, *hits[3:])
    return words, bounds, hits


def _matches_of(texts: pa.Array, known: FeatureSet) -> tuple[np.ndarray, ...]:
    """Words and matches of each text, then the columns of HIT; positions are in bytes of `texts` as they are here."""
    normal = nfc(texts)
    buffer, begins = buffers(normal)
    tokens = tokenize(buffer, begins)
    found = scan(tokens, known)
    counts = np.diff(found.offsets)
    begin = np.repeat(begins[:-1], counts)
    start, end = tokens.starts[found.first] - begin, tokens.ends[found.last] - begin
    changed = np.flatnonzero(pc.not_equal(texts, normal).to_numpy(zero_copy_only=False)).tolist()
    _undo(changed, lambda place: offsets.normalised(texts[place].as_py()), found.offsets, start, end)
    return found.document_words, counts, known.hashes[found.features], found.words, found.lengths, start, end


def _undo(changed: Iterable[int], pieces: Callable[[int], offsets.Pieces], bounds: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """Turn positions in changed texts, in place, into positions in what they were changed from."""
    for place in changed:
        mine = slice(bounds[place], bounds[place + 1])
        if mine.stop > mine.start:
            change = pieces(place)
            start[mine], end[mine] = change.starts(start[mine]), change.ends(end[mine])


def edits_of(shard: Shard) -> dict[int, list[Edit]]:
    """The edits that the shard's verdicts make, by row."""
    edits: dict[int, list[Edit]] = {}
    for url in shard.verdicts:
        verdict = read_table(url)
        if "edits" in verdict.column_names and verdict["edits"].null_count < len(verdict):
            for row, changes in zip(verdict["row"].to_pylist(), verdict["edits"].to_pylist()):
                if changes:
                    edits.setdefault(row, []).extend(changes)
    return edits


def decide_shard(out: Output, name: str, scanned: str, features: str, items: str, records: str, aside: str | None, rule: str) -> Counts:
    stored = read_table(scanned)
    listed = stored["hits"].combine_chunks()
    bounds, hits = listed.offsets.to_numpy(), listed.values
    word, length, start, end = (hits.field(column).to_numpy() for column in ("word", "length", "start", "end"))
    feature = evals.places(features, hits.field("feature").to_numpy())
    standing = ~np.isin(feature, boilerplate.set_aside_features(aside))
    covered = spans(bounds, word, length, standing)
    holds = distinct(np.repeat(np.arange(len(stored)), np.diff(bounds))[standing], feature[standing])
    count = np.bincount(holds[0], minlength=len(stored))
    fraction = covered.covered / np.maximum(stored["words"].to_numpy(), 1)
    drops, cuts = judge(rule, count, fraction)
    document, item = evals.items_of(items, *holds)
    first_start, first_end = _first(covered, start, end)
    columns = [stored["row"], stored["id"], ~drops, count, fraction, _names(records, document, item, len(stored)),
               first_start, first_end, _edits(covered, start, end, cuts)]
    out.table(f"{name}.parquet", pa.table([pa.array(column) if isinstance(column, np.ndarray) else column for column in columns],
                                          names=DECONTAMINATE.names).cast(DECONTAMINATE))
    boilerplate.write_item_counts(out, f"{name}.items.arrow", item)
    return {"read": len(stored), "kept": int((~drops).sum()), "dropped": {"contaminated": int(drops.sum())}, "cut": int(cuts.sum())}


def judge(rule: str, hits: np.ndarray, fraction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Documents that go, and documents that lose what was found: bool, bool (documents,)

    A document of which `cut` would leave no word goes.
    """
    kind, _, value = rule.partition(":")
    if kind == "cut":
        return fraction == 1, (hits > 0) & (fraction < 1)
    drops = {"any": lambda: hits > 0, "hits": lambda: hits >= int(value), "fraction": lambda: (hits > 0) & (fraction >= float(value))}
    return drops[kind](), np.zeros(len(hits), bool)


def _first(found: Spans, start: np.ndarray, end: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """Bytes of each document's first span; null without one."""
    none = np.diff(found.offsets) == 0
    span = np.where(none, 0, found.offsets[:-1])
    nothing = np.zeros(len(none), np.int64)
    both = (start[found.first[span]], end[found.last[span]]) if len(found.first) else (nothing, nothing)
    return tuple(pa.array(column, mask=none) for column in both)


def _names(records: str, document: np.ndarray, item: np.ndarray, documents: int) -> pa.Array:
    bounds = np.searchsorted(document, np.arange(documents + 1))
    names = read_table(records, ["name"])["name"].combine_chunks() if len(item) else pa.array([], pa.string())
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), names.take(pa.array(item)))


def _edits(found: Spans, start: np.ndarray, end: np.ndarray, cuts: np.ndarray) -> pa.Array:
    """Deletions of the spans of the documents in `cuts`; null for the others."""
    counts = np.diff(found.offsets)
    mine = np.repeat(cuts, counts)
    columns = [pa.array(start[found.first[mine]]), pa.array(end[found.last[mine]]), pa.array([""] * int(mine.sum()), pa.string())]
    bounds = np.concatenate([[0], np.cumsum(np.where(cuts, counts, 0))])
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.StructArray.from_arrays(columns, fields=list(EDITS.value_type)),
                                    mask=pa.array(~cuts))
