"""Deduplicate: sign every document, find pairs that are alike, decide who stays.

`dedup.sign` is done per source; candidates.py finds the pairs among all of them; keepers.py decides. Signing and pairs
see every row that `signed` verdicts keep, so that a new evaluation, threshold or priority re-runs the decision alone.
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
from cuvee.engine.store import Output, read_table
from cuvee.kernels.minhash import sign
from cuvee.kernels.text import NFC
from cuvee.record import DEDUP, SIGN
from cuvee.steps import candidates, keepers
from cuvee.steps.documents import Shard, identity, shards

VERSION = 1


def run(work: Work, recipe: Recipe, documents: Table, signed: Sequence[Table], judged: Sequence[Table]) -> Table:
    """signed: verdicts that say which rows are signed and paired; judged: verdicts that say which of these take part."""
    folders = sign_sources(work, recipe, documents, signed)
    signatures = Table.of("dedup.sign", folders)
    rows = keepers.Rows.of(signatures, folders)
    groups, edges = candidates.run(work, recipe.dedup, rows, documents, signed, signatures)
    decided = keepers.run(work, recipe, rows, signatures, judged, groups, edges)
    step = Step("dedup", VERSION, {}, (decided.fingerprint,))
    tasks = [Task(shard, decision_shard, {
        "name": shard, "first": first, "signed": url, "judged": tuple(table.files[shard] for table in judged),
        "decided": decided.file("decided.parquet")}) for shard, first, url in zip(rows.shards, rows.firsts, rows.urls)]
    return Table.of("dedup", [work.do(step, tasks)])


def sign_sources(work: Work, recipe: Recipe, documents: Table, signed: Sequence[Table]) -> list[Folder]:
    steps = [(Step("dedup.sign", VERSION, {"nfc": NFC}, identity(source.name, documents, *signed), ("numba",), source.name),
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


def decision_shard(out: Output, name: str, first: int, signed: str, judged: Sequence[str], decided: str) -> Counts:
    """The dedup table of one shard: what was decided for its rows, and `unique` for those that nothing resembles."""
    rows = read_table(signed)
    found = keepers.decisions(decided, first, len(rows))
    at = np.full(len(rows), -1)
    at[found["document"].to_numpy() - first] = np.arange(len(found))
    decision = found.take(pa.array(at, mask=at < 0))
    table = pa.table(_columns(name, rows, decision), schema=DEDUP).filter(pa.array(keepers.eligible(rows, judged, name)))
    out.table(f"{name}.parquet", table)
    kinds = {each["values"]: each["counts"] for each in pc.value_counts(table["kind"]).to_pylist()}
    return {"read": len(table), "kept": pc.sum(table["keep"]).as_py() or 0, "kinds": dict(sorted(kinds.items()))}


def _columns(name: str, rows: pa.Table, decision: pa.Table) -> list[pa.Array]:
    """Columns of record.DEDUP; `decision` has a row of nulls where nothing was decided."""
    source, part = name.split("/", 1)
    count = len(rows)
    own_license = pa.array([[each] for each in rows["license"].to_pylist()], DEDUP.field("licenses").type)
    own_source = pa.array([[source]] * count, DEDUP.field("sources").type)
    decided = decision["keep"].is_valid()
    return [pa.array([source] * count, pa.string()), pa.array([part] * count, pa.string()), rows["row"], rows["id"], rows["source_id"],
            pc.fill_null(decision["keep"], True), pc.fill_null(decision["kind"], "unique"),
            *(decision[column] for column in ("kept_by", "kept_by_source", "kept_by_shard", "kept_by_row", "similarity")),
            pc.if_else(decided, decision["copies"], 1), pc.if_else(decided, decision["licenses"], own_license),
            pc.if_else(decided, decision["sources"], own_source)]
