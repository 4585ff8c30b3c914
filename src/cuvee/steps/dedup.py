"""Deduplicate: sign every document, find pairs that are alike, decide who stays.

`dedup.sign` is done per source; sequences.py, candidates.py and edges.py find what is alike among all of them; keepers.py
decides; spans.py then cuts what repeats inside of what stays, where the recipe asks for it. All but these two see every
row that `signed` verdicts keep, so that a new evaluation, threshold or priority re-runs the decision alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_table
from cuvee.kernels.minhash import sign
from cuvee.kernels.shingles import WIDTH
from cuvee.kernels.text import NFC
from cuvee.record import DEDUP, EDITS, SIGN
from cuvee.steps.documents import Shard, identity, shards
from cuvee.steps.duplicates import candidates, edges, keepers, sequences, spans
from cuvee.steps.duplicates.rows import Rows

VERSION = 2        # of the table
SIGN_VERSION = 1


def run(work: Work, recipe: Recipe, documents: Table, signed: Sequence[Table], judged: Sequence[Table]) -> Table:
    """signed: verdicts that say which rows are signed and paired; judged: verdicts that say which of these take part."""
    folders = sign_sources(work, recipe, documents, signed)
    signatures = Table.of("dedup.sign", folders)
    rows = Rows.of(signatures, folders)
    groups = sequences.collapse(work, rows, signatures)
    pairs = candidates.run(work, recipe.dedup, rows, signatures, groups)
    found = edges.run(work, recipe.dedup, rows, documents, signed, pairs)
    decided = keepers.run(work, recipe, rows, signatures, judged, groups, found)
    if recipe.dedup.spans == "off":
        return Table.of("dedup", [_decisions(work, recipe, "dedup", rows, judged, decided)])
    whole = Table.of("dedup.whole", [_decisions(work, recipe, "dedup.whole", rows, judged, decided)])
    return Table.of("dedup", [spans.run(work, recipe, rows, shards(documents, *signed, *judged), whole)])


def _decisions(work: Work, recipe: Recipe, name: str, rows: Rows, judged: Sequence[Table], decided: Folder) -> Folder:
    """The table of verdicts on whole documents."""
    args = {"decided": decided.file("decided.arrow"), "longest": recipe.dedup.max_shingles + WIDTH - 1, "allowed": keepers.allowed(recipe)}
    return work.do(Step(name, VERSION, {}, (decided.fingerprint,)), [
        Task(shard, decision_shard, {"name": shard, "number": number, "signed": url, "judged": tuple(table.files[shard] for table in judged),
                                     **args}) for number, (shard, url) in enumerate(zip(rows.shards, rows.urls))])


def sign_sources(work: Work, recipe: Recipe, documents: Table, signed: Sequence[Table]) -> list[Folder]:
    steps = [(Step("dedup.sign", SIGN_VERSION, {"nfc": NFC}, identity(source.name, documents, *signed), ("numba",), source.name),
              [Task(shard.part, sign_shard, {"shard": shard}) for shard in shards(documents, *signed) if shard.source == source.name])
             for source in recipe.sources]
    return work.do_all(steps)


def sign_shard(out: Output, shard: Shard) -> Counts:
    """`part.parquet` (record.SIGN) and `part.signatures.npy`, uint32 (rows, MINIMA)."""
    documents = shard.read(("text", "source_id", "license"))
    found = sign(documents["text"])
    sizes = pc.binary_length(documents["text"]).cast(pa.int64())
    columns = [documents["row"], documents["id"], documents["source_id"], documents["license"], sizes, found.tokens,
               found.sequence[:, 0], found.sequence[:, 1]]
    out.table(f"{shard.part}.parquet", pa.table(columns, schema=SIGN))
    out.npy(f"{shard.part}.signatures.npy", found.signatures)
    return {"read": len(documents), "bytes": pc.sum(sizes).as_py() or 0}


def decision_shard(out: Output, name: str, number: int, signed: str, judged: Sequence[str], decided: str, longest: int,
                   allowed: frozenset[str] | None) -> Counts:
    """The dedup table of one shard: what was decided for its rows, and `unique` for those that nothing resembles."""
    rows = read_table(signed)
    found = pa.Table.from_batches([open_arrow(decided).get_batch(number)])
    at = np.full(len(rows), -1)
    at[found["place"].to_numpy()] = np.arange(len(found))
    table = _table(name, rows, found.take(pa.array(at, mask=at < 0)), longest, allowed)
    table = table.filter(pa.array(keepers.eligible(rows, judged, name)))
    out.table(f"{name}.parquet", table)
    kinds = {each["values"]: each["counts"] for each in pc.value_counts(table["kind"]).to_pylist()}
    return {"read": len(table), "kept": pc.sum(table["keep"]).as_py() or 0, "kinds": dict(sorted(kinds.items()))}


def _table(name: str, rows: pa.Table, decision: pa.Table, longest: int, allowed: frozenset[str] | None) -> pa.Table:
    """record.DEDUP; `decision` has a row of nulls where nothing was decided: such a document stands for itself alone."""
    source, part = (pa.repeat(text, len(rows)) for text in name.split("/", 1))
    alone = decision["keep"].is_null()
    conflict = pc.and_(alone, pc.invert(pc.is_in(rows["license"], pa.array(sorted(allowed), pa.string())))) if allowed is not None else pa.repeat(False, len(rows))
    keep = pc.and_(pc.fill_null(decision["keep"], True), pc.invert(conflict))
    kind = pc.if_else(conflict, "license_conflict", pc.fill_null(decision["kind"], "unique"))
    long = pc.and_(pc.equal(kind, "unique"), pc.greater(rows["tokens"], longest))
    stands = pc.and_(alone, keep)
    return pa.table([
        source, part, rows["row"], rows["id"], rows["source_id"], keep, pc.if_else(long, "not_candidate", kind),
        *(decision[column] for column in ("kept_by", "kept_by_source", "kept_by_shard", "kept_by_row", "similarity")),
        pc.if_else(stands, 1, decision["copies"]), *(pc.if_else(stands, _single(own), decision[column])
                                                     for column, own in (("licenses", rows["license"]), ("sources", source))),
        pa.nulls(len(rows), EDITS)], schema=DEDUP)


def _single(values: pa.Array | pa.ChunkedArray) -> pa.ListArray:
    """Each value as a list of one."""
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1), pa.int32()), values)
