"""Who stays: the lexicographically first independent set over the edges, in priority order.

A row is dropped if an earlier neighbour is kept, and that neighbour is its keeper. There are no connected components:
a row goes only if a kept row resembles it (a 25T-token run joined unrelated texts by transitive closure).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.shuffle import scatter
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_table
from cuvee.kernels.pairs import decide
from cuvee.record import positions
from cuvee.steps.rows import Rows, id_halves, places, source_ranks

VERSION = 1

DECIDED = pa.schema([
    ("place", pa.int64()), ("keep", pa.bool_()), ("kind", pa.string()), ("kept_by", pa.string()), ("kept_by_source", pa.string()),
    ("kept_by_shard", pa.string()), ("kept_by_row", pa.int64()), ("similarity", pa.float64()), ("copies", pa.int64()),
    ("licenses", pa.list_(pa.string())), ("sources", pa.list_(pa.string()))])
KINDS = ("unique", "exact", "normalised", "near", "license_conflict")
UNIQUE, EXACT, NORMALISED, NEAR, CONFLICT = range(len(KINDS))


def run(work: Work, recipe: Recipe, rows: Rows, signatures: Table, judged: Sequence[Table], groups: Folder, edges: Folder) -> Folder:
    """`decided.arrow` (DECIDED), by shard: every document that has a copy or a neighbour; `place` is its row in record.SIGN."""
    config = {"dedup": recipe.dedup.model_dump(mode="json", exclude={"spans"}), "allowed": sorted(allowed(recipe) or []),
              "sources": {source.name: [source.frozen, source.priority] for source in recipe.sources}}
    inputs = (signatures.fingerprint, groups.fingerprint, edges.fingerprint, *(table.fingerprint for table in judged))
    args = {"recipe": recipe, "rows": rows, "judged": tuple(tuple(table.files[shard] for table in judged) for shard in rows.shards),
            "members": tuple(map(groups.file, groups.files)), "edges": tuple(map(edges.file, edges.files))}
    return work.do(Step("dedup.decide", VERSION, config, inputs), [Task("decide", decide_all, args)])


def allowed(recipe: Recipe) -> frozenset[str] | None:
    """Licences that every copy must be under; None where a keeper's own is enough (the filter saw to that)."""
    strict = recipe.licenses.on_conflict == "strictest" and recipe.licenses.allow
    return frozenset(recipe.licenses.allow) if strict else None


def decide_all(out: Output, recipe: Recipe, rows: Rows, judged: Sequence[Sequence[str]], members: Sequence[str],
               edges: Sequence[str]) -> Counts:
    """One sweep over all documents that have company; memory grows with these, not with the corpus."""
    member, edge = pa.concat_tables([open_arrow(url).read_all() for url in members]), _edges(edges, recipe)
    named = (member["document"], member["leader"], edge["left"], edge["right"])
    facts = _facts(rows, np.unique(np.concatenate([column.to_numpy() for column in named])), judged)
    document = facts["document"].to_numpy()
    found = _sweep(_priority(facts, rows, recipe), _nodes(document, member), edge)
    table = _table(facts, rows, found, recipe)
    scatter(out, "decided.arrow", table, rows.shard_of(document), len(rows.shards))
    return {"documents": len(table), "dropped": len(table) - (pc.sum(table["keep"]).as_py() or 0)}


def _edges(urls: Sequence[str], recipe: Recipe) -> pa.Table:
    """Edges that make a duplicate under this recipe."""
    table = pa.concat_tables([open_arrow(url).read_all() for url in urls])
    counts = pc.greater_equal(table["jaccard"], recipe.dedup.threshold)
    if recipe.dedup.containment is not None:
        counts = pc.or_(counts, pc.greater_equal(table["containment"], recipe.dedup.containment))
    return table.filter(counts)


def _facts(rows: Rows, active: np.ndarray, judged: Sequence[Sequence[str]]) -> pa.Table:
    """Of the active documents that take part: document, row, id, bytes and licence, in document order."""
    columns = ["row", "id", "bytes", "license"]
    pieces = [pa.table({"document": pa.array([], pa.int64()), "row": pa.array([], pa.int64()), "id": pa.array([], pa.string()),
                        "bytes": pa.array([], pa.int64()), "license": pa.array([], pa.string())})]
    for shard, _, place in rows.by_shard(active):
        table = read_table(rows.urls[shard], columns)
        place = place[eligible(table, judged[shard], rows.shards[shard])[place]]
        pieces.append(table.take(pa.array(place)).add_column(0, "document", pa.array(place + rows.firsts[shard])))
    return pa.concat_tables([piece.cast(pieces[0].schema) for piece in pieces])


def eligible(table: pa.Table, judged: Sequence[str], where: str) -> np.ndarray:
    """Which signed rows every further verdict keeps, bool (rows,)"""
    stays = np.ones(len(table), bool)
    for url in judged:
        verdict = read_table(url, ["row", "id", "keep"])
        place = positions(verdict, table["row"], table["id"], f"{where} in {url}")
        stays[place < 0] = False
        stays[place >= 0] &= verdict["keep"].to_numpy()[place[place >= 0]]
    return stays


def _nodes(document: np.ndarray, member: pa.Table) -> np.ndarray:
    """The leader of each document's group; itself where it has no other: int64 (documents,)"""
    node = document.copy()
    at = places(document, member["document"].to_numpy())
    node[at[at >= 0]] = member["leader"].to_numpy()[at >= 0]
    return node


def _priority(facts: pa.Table, rows: Rows, recipe: Recipe) -> np.ndarray:
    """Places in `facts`: frozen sources first, then larger priority, longer text, smaller id, and place."""
    document, (high, low) = facts["document"].to_numpy(), id_halves(facts["id"])
    return np.lexsort((document, low, high, -facts["bytes"].to_numpy(), source_ranks(rows, recipe)[rows.shard_of(document)]))


@dataclass(frozen=True)
class Found:
    """Per document of `facts`: keeper: its place in `facts`, own where kept; same: keeper has the same tokens; similarity."""

    keeper: np.ndarray
    same: np.ndarray
    similarity: np.ndarray


def _sweep(order: np.ndarray, node: np.ndarray, edge: pa.Table) -> Found:
    """Sweep over nodes (documents of one token sequence); the head of a node is its first document in priority order."""
    nodes, of = np.unique(node, return_inverse=True)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    first = np.full(len(nodes), len(order))
    np.minimum.at(first, of, rank)
    left, right = (places(nodes, edge[side].to_numpy()) for side in ("left", "right"))
    there = (left >= 0) & (right >= 0)  # both have a document that takes part
    left, right, jaccard = left[there], right[there], edge["jaccard"].to_numpy()[there]
    kept_by = decide(np.argsort(first), left, right)
    keeper = np.where(kept_by < 0, np.arange(len(nodes)), kept_by)
    similarity = np.ones(len(nodes))
    for one, other in ((left, right), (right, left)):
        mine = keeper[one] == other
        similarity[one[mine]] = jaccard[mine]
    return Found(order[first[keeper[of]]], keeper[of] == of, similarity[of])


def _table(facts: pa.Table, rows: Rows, found: Found, recipe: Recipe) -> pa.Table:
    """DECIDED rows, in document order."""
    document, high = facts["document"].to_numpy(), id_halves(facts["id"])
    stays = found.keeper == np.arange(len(facts))
    exact = np.logical_and(*(half == half[found.keeper] for half in high))
    kind = np.where(stays, UNIQUE, np.where(exact, EXACT, np.where(found.same, NORMALISED, NEAR)))
    copies = np.bincount(found.keeper, minlength=len(facts))
    keep = stays & ~_in_conflict(found.keeper, facts["license"], allowed(recipe))
    kind[stays & ~keep] = CONFLICT
    if recipe.dedup.keep == "none":
        keep = _without_groups(keep, kind, found.keeper, copies)
    owner = rows.shard_of(document)
    source, part = (pa.array(names, pa.string()).take(pa.array(owner)) for names in zip(*(shard.split("/", 1) for shard in rows.shards)))
    by = [pa.array(found.keeper, mask=stays)] * 4
    columns = [document - np.array(rows.firsts)[owner], keep, pa.array(KINDS).take(pa.array(kind)), *(
        column.take(at) for column, at in zip((facts["id"], source, part, facts["row"]), by)),
        pa.array(found.similarity, mask=stays), pa.array(copies, mask=~keep),
        _sets(found.keeper, facts["license"], keep), _sets(found.keeper, source, keep)]
    return pa.table(dict(zip(DECIDED.names, columns))).cast(DECIDED)


def _in_conflict(keeper: np.ndarray, licenses: pa.ChunkedArray, allowed: frozenset[str] | None) -> np.ndarray:
    """Which documents keep one whose licence is not allowed, bool (documents,)"""
    conflict = np.zeros(len(keeper), bool)
    if allowed is not None:
        bad = ~pc.is_in(licenses, pa.array(sorted(allowed), pa.string())).to_numpy()
        conflict[keeper[bad]] = True
    return conflict


def _without_groups(keep: np.ndarray, kind: np.ndarray, keeper: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """What is kept where no member of a group may stay; a keeper that goes takes the `kind` of its first follower."""
    follower = np.flatnonzero(keeper != np.arange(len(keeper)))
    heads, first = np.unique(keeper[follower], return_index=True)
    crowded = keep[heads]
    kind[heads[crowded]] = kind[follower[first[crowded]]]
    return keep & (copies == 1)


def _sets(keeper: np.ndarray, values: pa.Array | pa.ChunkedArray, keep: np.ndarray) -> pa.ListArray:
    """Sorted distinct values over the copies of each document that is kept; null for the others."""
    names = pa.array(sorted(pc.unique(values).to_pylist()), pa.string())
    pairs = np.unique(keeper * max(len(names), 1) + pc.index_in(values, names).to_numpy())
    owner, value = pairs // max(len(names), 1), pairs % max(len(names), 1)
    standing = keep[owner]
    bounds = np.searchsorted(owner[standing], np.arange(len(keep) + 1))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), names.take(pa.array(value[standing])), mask=pa.array(~keep))
