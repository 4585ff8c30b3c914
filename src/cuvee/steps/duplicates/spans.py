"""Spans: paragraphs, or windows of three sentences, that stand in several kept documents stay at their first place.

First is in the priority order of keepers.py, then by place inside the document; every other one is cut by an edit. The
units of all kept documents meet in a shuffle by their hash, so no process holds more than a partition of them. Whatever
sentence is cut still stands somewhere: its unit's first place comes earlier, and so on down to one that is not cut,
unless the filter then drops that document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Filter, Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.shuffle import gather, scatter
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, read_table
from cuvee.kernels import offsets
from cuvee.kernels.text import NFC, buffers, cut, nfc
from cuvee.kernels.units import paragraphs, three_sentences
from cuvee.kernels.words import SYMBOL, tokenize
from cuvee.record import EDITS, positions
from cuvee.steps import filter
from cuvee.steps.decontaminate import edits_of
from cuvee.steps.documents import Edit, Shard, apply_edits
from cuvee.steps.duplicates.rows import Rows, flat, id_halves, in_company, partition_of, partitions, source_ranks

VERSION = 1
BATCH_BYTES = 4_000_000  # text held as tokens at a time
UNIT_BYTES = 100         # text a unit, to count partitions by: a paragraph of 8 short words takes 40, a web page's line 150
LOSS = 0.05              # share of its words over which a document that loses them is filtered again (design, section 5)
KINDS = {"paragraph": paragraphs, "three_sentences": three_sentences}

UNIT = pa.schema([("key", pa.uint64()), ("id_high", pa.uint64()), ("id_low", pa.uint64()), ("bytes", pa.int64()),
                  ("document", pa.int64()), ("unit", pa.int64())])  # unit: its number inside the document
REPEAT = pa.schema([("document", pa.int64()), ("unit", pa.int64())])


def run(work: Work, recipe: Recipe, rows: Rows, judged: Sequence[Shard], whole: Table) -> Folder:
    """The dedup table with `edits`. judged: shards with all earlier verdicts; whole: verdicts on whole documents."""
    read = {shard.name: Shard(shard.name, shard.documents, (*shard.verdicts, whole.files[shard.name])) for shard in judged}
    named = [(shard, {"shard": read[shard], "signed": url, "first": first, "kind": recipe.dedup.spans})
             for shard, url, first in zip(rows.shards, rows.urls, rows.firsts)]
    count = partitions(rows.bytes // UNIT_BYTES)
    config = {"spans": recipe.dedup.spans, "partitions": count, "nfc": NFC}
    moved = work.do(Step("dedup.units", VERSION, config, (whole.fingerprint,), ("numba",)), [
        Task(flat(shard), units_shard, {**args, "count": count}) for shard, args in named])
    files, ranks = tuple(moved.file(f"{flat(shard)}.arrow") for shard in rows.shards), source_ranks(rows, recipe)
    repeats = work.do(Step("dedup.repeats", VERSION, {"ranks": ranks.tolist()}, (moved.fingerprint,)), [
        Task(f"{number:05d}", find_repeats, {"name": f"{number:05d}", "files": files, "partition": number, "rows": rows, "ranks": ranks})
        for number in range(count)])
    again = {"loss": LOSS, "filter": recipe.filter.identity(), "filter_version": filter.VERSION}
    found = tuple(repeats.file(name) for name in repeats.files)
    return work.do(Step("dedup", VERSION, again, (whole.fingerprint, repeats.fingerprint)), [
        Task(shard, cut_shard, {**args, "number": number, "repeats": found, "config": recipe.filter})
        for number, (shard, args) in enumerate(named)])


def units_shard(out: Output, shard: Shard, signed: str, first: int, kind: str, count: int) -> Counts:
    """Every unit of the kept documents, by partition of its hash."""
    documents, signs = shard.read(("text",)), read_table(signed, ["row", "id", "bytes"])
    pieces = [_units(texts, kind) for texts in cut(documents["text"], BATCH_BYTES)]
    key, unit, counts = (np.concatenate(columns) for columns in zip(*pieces))
    place = positions(signs, documents["row"], documents["id"], shard.name)
    facts = (*id_halves(documents["id"]), signs["bytes"].to_numpy()[place], first + place)
    table = pa.table([key, *(np.repeat(fact, counts) for fact in facts), unit], schema=UNIT)
    scatter(out, f"{flat(shard.name)}.arrow", table, partition_of(key, count), count)
    return {"read": len(documents), "bytes": pc.sum(pc.binary_length(documents["text"])).as_py() or 0, "units": len(table)}


def _units(texts: pa.Array, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hash and number of every unit, and how many each text has."""
    buffer, begins = buffers(nfc(texts))
    found = KINDS[kind](buffer, begins, tokenize(buffer, begins))
    counts = np.diff(found.offsets)
    return found.hashes, np.arange(len(found.hashes)) - np.repeat(found.offsets[:-1], counts), counts


def find_repeats(out: Output, name: str, files: Sequence[str], partition: int, rows: Rows, ranks: np.ndarray) -> Counts:
    """Of each hash all units but the first, by shard."""
    table = gather(files, partition)
    read, table = len(table), table.filter(pa.array(in_company(table["key"].to_numpy())))
    key, high, low, size, document, unit = (table[column].to_numpy() for column in UNIT.names)
    order = np.lexsort((unit, document, low, high, -size, ranks[rows.shard_of(document)], key))
    again = np.append(False, key[order[1:]] == key[order[:-1]])[:len(order)]
    document, unit = document[order[again]], unit[order[again]]
    scatter(out, f"{name}.arrow", pa.table([document, unit], schema=REPEAT), rows.shard_of(document), len(rows.shards))
    return {"units": read, "repeats": len(document)}


def cut_shard(out: Output, shard: Shard, signed: str, first: int, number: int, kind: str, repeats: Sequence[str], config: Filter) -> Counts:
    """The shard's table with its repeated units as edits; a document that lost much and fails the filter now is dropped."""
    documents, table = shard.read(("text",)), read_table(shard.verdicts[-1])
    place, unit = _repeated(documents, gather(repeats, number), read_table(signed, ["row"]), first)
    affected, local = np.unique(place, return_inverse=True)
    texts = documents["text"].take(pa.array(affected)).combine_chunks()
    document, start, end, lost = _spans(texts, kind, local, unit)
    gone = lost > LOSS
    gone[gone] = filter.fails(_without(texts, np.flatnonzero(gone), document, start, end), config)
    row = documents["row"].take(pa.array(affected))
    starts, ends = _stored(edits_of(shard), row.to_pylist(), texts, document, start, end)
    at = np.searchsorted(table["row"].to_numpy(), row.to_numpy())
    table = _with(table, _edits(table, at[document], starts, ends), at[gone])
    out.table(f"{shard.name}.parquet", table)
    stays = ~gone
    left = pc.binary_length(documents["text"]).to_numpy().astype(np.int64)
    np.subtract.at(left, affected[document], end - start)
    left[affected[gone]] = 0
    kinds = {each["values"]: each["counts"] for each in pc.value_counts(table["kind"]).to_pylist()}
    return {"read": len(table), "kept": len(documents) - int(gone.sum()), "kept_bytes": int(left.sum()), "kinds": dict(sorted(kinds.items())),
            "cut": int(stays.sum()), "cut_bytes": int((end - start)[stays[document]].sum())}


def _repeated(documents: pa.Table, repeats: pa.Table, signs: pa.Table, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Place in `documents` and number of each repeated unit, in order."""
    row = signs["row"].to_numpy()[repeats["document"].to_numpy() - first]
    place, unit = np.searchsorted(documents["row"].to_numpy(), row), repeats["unit"].to_numpy()
    order = np.lexsort((unit, place))
    return place[order], unit[order]


def _spans(texts: pa.Array, kind: str, document: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, ...]:
    """What to cut of texts: document, first byte, one past the last, disjoint and in order; and the share of words that each loses.

    document, unit: the repeated units, sorted
    """
    found, base = [], 0
    for piece in cut(texts, BATCH_BYTES):
        mine = slice(*np.searchsorted(document, [base, base + len(piece)]))
        at, start, end, lost = _spans_of(piece, kind, document[mine] - base, unit[mine])
        found.append((base + at, start, end, lost))
        base += len(piece)
    return tuple(np.concatenate(columns) for columns in zip(*found))


def _spans_of(texts: pa.Array, kind: str, document: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, ...]:
    normal = nfc(texts)
    buffer, begins = buffers(normal)
    tokens = tokenize(buffer, begins)
    units = KINDS[kind](buffer, begins, tokens)
    at = units.offsets[document] + unit
    start, end = units.starts[at], units.ends[at]  # windows of a document overlap; their ends are in order, too
    fresh = np.ones(len(at), bool)
    fresh[1:] = (document[1:] != document[:-1]) | (start[1:] > end[:-1])
    document, start, end = document[fresh], start[fresh], end[np.append(fresh[1:], True)[:len(fresh)]]
    spoken = np.concatenate([[0], np.cumsum(tokens.kinds != SYMBOL)])
    cut_words = spoken[np.searchsorted(tokens.starts, end)] - spoken[np.searchsorted(tokens.starts, start)]
    lost = np.bincount(document, cut_words, len(texts)) / np.maximum(np.diff(spoken[tokens.offsets]), 1)
    start, end = start - begins[document], end - begins[document]
    for place in np.flatnonzero(pc.not_equal(texts, normal).to_numpy(zero_copy_only=False)).tolist():
        _undo(offsets.normalised(texts[place].as_py()), document, place, start, end)
    return document, start, end, lost


def _undo(pieces: offsets.Pieces, document: np.ndarray, place: int, start: np.ndarray, end: np.ndarray) -> None:
    """Turn the spans of document `place`, in place, into spans of what it was changed from."""
    mine = slice(*np.searchsorted(document, [place, place + 1]))
    start[mine], end[mine] = pieces.starts(start[mine]), pieces.ends(end[mine])


def _without(texts: pa.Array, wanted: np.ndarray, document: np.ndarray, start: np.ndarray, end: np.ndarray) -> pa.Array:
    """The texts at `wanted` without their spans."""
    left = []
    for place in wanted.tolist():
        mine = slice(*np.searchsorted(document, [place, place + 1]))
        spans = zip(start[mine].tolist(), end[mine].tolist())
        left.append(apply_edits(texts[place].as_py(), [{"start": first, "end": last, "replacement": ""} for first, last in spans]))
    return pa.array(left, pa.large_string())


def _stored(edits: Mapping[int, Sequence[Edit]], rows: Sequence[int], texts: pa.Array, document: np.ndarray, start: np.ndarray,
            end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The spans in bytes of the stored texts, before the edits of earlier verdicts."""
    start, end = start.copy(), end.copy()
    for place, row in enumerate(rows):
        if row in edits:
            _undo(offsets.edited(len(texts[place].as_py().encode()), edits[row]), document, place, start, end)
    return start, end


def _edits(table: pa.Table, at: np.ndarray, start: np.ndarray, end: np.ndarray) -> pa.Array:
    """Deletions of the spans of rows `at`, sorted; null where a row has none."""
    counts = np.bincount(at, minlength=len(table))
    spans = pa.StructArray.from_arrays([pa.array(start), pa.array(end), pa.repeat("", len(at))], fields=list(EDITS.value_type))
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32()), spans, mask=pa.array(counts == 0))


def _with(table: pa.Table, edits: pa.Array, gone: np.ndarray) -> pa.Table:
    """record.DEDUP with `edits`, where rows `gone` are dropped as `filtered_again`."""
    drops = np.zeros(len(table), bool)
    drops[gone] = True
    drops = pa.array(drops)
    changed = {"keep": pc.and_(table["keep"], pc.invert(drops)), "kind": pc.if_else(drops, "filtered_again", table["kind"]), "edits": edits}
    changed |= {name: pc.if_else(drops, pa.scalar(None, table[name].type), table[name]) for name in ("copies", "licenses", "sources")}
    return pa.table([changed.get(name, table[name]) for name in table.column_names], schema=table.schema)
