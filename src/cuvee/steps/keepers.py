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
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, open_npy, read_table
from cuvee.kernels.pairs import decide
from cuvee.record import positions

VERSION = 1


DECIDED = pa.schema([
    ("document", pa.int64()), ("keep", pa.bool_()), ("kind", pa.string()), ("kept_by", pa.string()), ("kept_by_source", pa.string()),
    ("kept_by_shard", pa.string()), ("kept_by_row", pa.int64()), ("similarity", pa.float64()), ("copies", pa.int64()),
    ("licenses", pa.list_(pa.string())), ("sources", pa.list_(pa.string()))])


@dataclass(frozen=True)
class Rows:
    """Signed documents of all shards, numbered 0, 1, ... in the order source, part, row.

    shards: `source/part`; firsts: number of each shard's first document; urls: their record.SIGN tables.
    """

    shards: tuple[str, ...]
    firsts: tuple[int, ...]
    urls: tuple[str, ...]
    count: int

    @classmethod
    def of(cls, signatures: Table, folders: Sequence[Folder]) -> Rows:
        sizes = {f"{folder.source}/{part}": result["counts"]["read"] for folder in folders for part, result in folder.manifest["tasks"].items()}
        shards = sorted(signatures.shards, key=lambda shard: shard.split("/", 1))
        ends = np.cumsum([sizes[shard] for shard in shards]).astype(int).tolist()
        return cls(tuple(shards), (0, *ends[:-1]), tuple(signatures.files[shard] for shard in shards), ends[-1])

    def shard_of(self, documents: np.ndarray) -> np.ndarray:
        """Number of the shard that holds each document, int64"""
        return np.searchsorted(np.array(self.firsts), documents, side="right") - 1


def run(work: Work, recipe: Recipe, rows: Rows, signatures: Table, judged: Sequence[Table], groups: Folder, edges: Folder) -> Folder:
    """`decided.parquet` (DECIDED): every document that has a copy or a neighbour, or could not be compared."""
    config = {"dedup": recipe.dedup.identity(), "licenses": recipe.licenses.identity(),
              "sources": {source.name: [source.frozen, source.priority] for source in recipe.sources}}
    inputs = (signatures.fingerprint, groups.fingerprint, edges.fingerprint, *(table.fingerprint for table in judged))
    args = {"recipe": recipe, "rows": rows, "judged": tuple(tuple(table.files[shard] for table in judged) for shard in rows.shards),
            "members": tuple(map(groups.file, groups.files)), "edges": tuple(map(edges.file, edges.files))}
    return work.do(Step("dedup.decide", VERSION, config, inputs), [Task("decide", decide_all, args)])


def decide_all(out: Output, recipe: Recipe, rows: Rows, judged: Sequence[Sequence[str]], members: Sequence[str],
               edges: Sequence[str]) -> Counts:
    """One sweep over all documents that have company; memory grows with these, not with the corpus."""
    member = pa.concat_tables([open_arrow(url).read_all() for url in members])
    edge = _edges([url for url in edges if url.endswith(".arrow")], recipe)
    giants = np.unique(np.concatenate([np.asarray(open_npy(url)) for url in edges if url.endswith(".npy")]))
    named = [member["document"], member["leader"], edge["left"], edge["right"]]
    if _strict(recipe):
        named.append(pa.chunked_array([np.arange(rows.count)]))
    active = np.unique(np.concatenate([giants, *(column.to_numpy() for column in named)]))
    facts = _facts(rows, active, judged)
    found = _sweep(facts, _nodes(facts, member), edge, recipe)
    table = _table(facts, found, recipe, giants)
    out.table("decided.parquet", table)
    return {"documents": len(table), "dropped": len(table) - (pc.sum(table["keep"]).as_py() or 0)}


def _strict(recipe: Recipe) -> bool:
    return recipe.licenses.on_conflict == "strictest" and bool(recipe.licenses.allow)


def _edges(urls: Sequence[str], recipe: Recipe) -> pa.Table:
    """Edges that make a duplicate under this recipe."""
    table = pa.concat_tables([open_arrow(url).read_all() for url in urls])
    counts = pc.greater_equal(table["jaccard"], recipe.dedup.threshold)
    if recipe.dedup.containment is not None:
        counts = pc.or_(counts, pc.greater_equal(table["containment"], recipe.dedup.containment))
    return table.filter(counts)


def _facts(rows: Rows, active: np.ndarray, judged: Sequence[Sequence[str]]) -> pa.Table:
    """Of the active documents that take part: number, place, id, bytes and licence, in number order."""
    pieces = []
    owner = rows.shard_of(active)
    for number in np.unique(owner):
        table = read_table(rows.urls[number], ["row", "id", "bytes", "license"])
        stays = eligible(table, judged[number], rows.shards[number])
        here = active[owner == number] - rows.firsts[number]
        here = here[stays[here]]
        source, part = rows.shards[number].split("/", 1)
        piece = table.take(pa.array(here)).append_column("document", pa.array(here + rows.firsts[number]))
        piece = piece.append_column("source", pa.array([source] * len(here), pa.string()))
        pieces.append(piece.append_column("shard", pa.array([part] * len(here), pa.string())))
    return pa.concat_tables(pieces) if pieces else pa.table({name: [] for name in ("row", "id", "bytes", "license", "document", "source", "shard")})


def eligible(table: pa.Table, judged: Sequence[str], where: str) -> np.ndarray:
    """Which signed rows every further verdict keeps, bool (rows,)"""
    stays = np.ones(len(table), bool)
    for url in judged:
        verdict = read_table(url, ["row", "id", "keep"])
        place = positions(verdict, table["row"], table["id"], f"{where} in {url}")
        stays &= (place >= 0) & verdict["keep"].to_numpy(zero_copy_only=False)[place]
    return stays


def _nodes(facts: pa.Table, member: pa.Table) -> np.ndarray:
    """The leader of each document's group; itself where it has no other: int64 (documents,)"""
    document = facts["document"].to_numpy()
    order = np.argsort(member["document"].to_numpy())
    follower, leader = member["document"].to_numpy()[order], member["leader"].to_numpy()[order]
    at = np.searchsorted(follower, document)
    follows = (at < len(follower)) & (follower[np.minimum(at, max(len(follower) - 1, 0))] == document) if len(follower) else np.zeros(len(document), bool)
    return np.where(follows, leader[np.minimum(at, max(len(follower) - 1, 0))] if len(follower) else document, document)


@dataclass(frozen=True)
class Found:
    """Per document of `facts`: keeper: its place in `facts`, own where kept; same: keeper has the same tokens; similarity."""

    keeper: np.ndarray
    same: np.ndarray
    similarity: np.ndarray


def _sweep(facts: pa.Table, node: np.ndarray, edge: pa.Table, recipe: Recipe) -> Found:
    """Sweep over nodes (documents of one token sequence); the head of a node is its first document in priority order."""
    order = _priority(facts, recipe)
    nodes, of = np.unique(node, return_inverse=True)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    first = np.full(len(nodes), len(order))
    np.minimum.at(first, of, rank)
    head = order[first] if len(order) else order
    left, right, jaccard = _between(nodes, edge)
    kept_by = decide(np.argsort(first, kind="stable"), left, right)
    keeper = np.where(kept_by < 0, np.arange(len(nodes)), kept_by)
    similarity = _similarity(np.arange(len(nodes)), keeper, left, right, jaccard)
    return Found(head[keeper[of]] if len(of) else of, keeper[of] == of, similarity[of])


def _priority(facts: pa.Table, recipe: Recipe) -> np.ndarray:
    """Places in `facts`: frozen sources first, then larger priority, longer text, smaller id, and place."""
    known = {source.name: source for source in recipe.sources}
    own = [known[name] for name in facts["source"].to_pylist()]
    frozen = np.array([source.frozen for source in own], bool)
    priority = np.array([source.priority for source in own], np.int64)
    ids = np.array(facts["id"].to_pylist(), "U32")
    return np.lexsort((facts["document"].to_numpy(), ids, -facts["bytes"].to_numpy(), -priority, ~frozen))


def _between(nodes: np.ndarray, edge: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges whose two nodes both have a document that takes part, as places in `nodes`."""
    ends = [edge[side].to_numpy() for side in ("left", "right")]
    places = [np.searchsorted(nodes, each) for each in ends]
    there = np.ones(len(edge), bool)
    for each, place in zip(ends, places):
        there &= (place < len(nodes)) & (nodes[np.minimum(place, max(len(nodes) - 1, 0))] == each) if len(nodes) else False
    return places[0][there], places[1][there], edge["jaccard"].to_numpy()[there]


def _similarity(node: np.ndarray, keeper: np.ndarray, left: np.ndarray, right: np.ndarray, jaccard: np.ndarray) -> np.ndarray:
    """Jaccard of each node with its keeper; 1 where it is its own."""
    count = np.int64(len(node) + 1)
    low, high = np.minimum(left, right), np.maximum(left, right)
    order = np.argsort(low * count + high)
    keys = (low * count + high)[order]
    wanted = np.minimum(node, keeper) * count + np.maximum(node, keeper)
    found = np.ones(len(node))
    away = node != keeper
    found[away] = jaccard[order][np.searchsorted(keys, wanted[away])]
    return found


def _table(facts: pa.Table, found: Found, recipe: Recipe, giants: np.ndarray) -> pa.Table:
    """DECIDED rows, in document order."""
    count = len(facts)
    stays = found.keeper == np.arange(count)
    ids = np.array(facts["id"].to_pylist(), "U32")
    exact = ids == ids[found.keeper] if count else stays
    kind = np.where(exact, "exact", np.where(found.same, "normalised", "near")).astype(object)
    kind[stays] = "unique"
    kind[stays & np.isin(facts["document"].to_numpy(), giants)] = "not_candidate"
    copies = np.bincount(found.keeper, minlength=count)
    licenses, sources = (_sets(found.keeper, facts[name]) for name in ("license", "source"))
    keep = _without_conflicts(stays.copy(), kind, licenses, copies, found, recipe)
    gone = pa.array(stays)
    keeper = facts.take(pa.array(found.keeper))
    columns = [facts["document"], pa.array(keep), pa.array(kind, pa.string()), *(
        pc.if_else(gone, None, keeper[name]) for name in ("id", "source", "shard", "row")),
        pc.if_else(gone, None, pa.array(found.similarity)), pa.array(np.where(keep, copies, -1)),
        pa.array([each if kept else None for each, kept in zip(licenses, keep)], DECIDED.field("licenses").type),
        pa.array([each if kept else None for each, kept in zip(sources, keep)], DECIDED.field("sources").type)]
    table = pa.table(dict(zip(DECIDED.names, columns)))
    return table.set_column(8, "copies", pc.if_else(pc.equal(table["copies"], -1), None, table["copies"])).cast(DECIDED)


def _sets(keeper: np.ndarray, values: pa.ChunkedArray) -> list[list[str]]:
    """Sorted distinct values over the copies of each keeper; empty for a document that keeps nobody."""
    gathered: list[set[str]] = [set() for _ in range(len(keeper))]
    for place, value in zip(keeper.tolist(), values.to_pylist()):
        gathered[place].add(value)
    return [sorted(each) for each in gathered]


def _without_conflicts(keep: np.ndarray, kind: np.ndarray, licenses: Sequence[Sequence[str]], copies: np.ndarray, found: Found,
                       recipe: Recipe) -> np.ndarray:
    """What is kept after `on_conflict: strictest` and `keep: none`; a keeper that goes says why in `kind`."""
    if _strict(recipe):
        allowed = set(recipe.licenses.allow)
        conflict = keep & np.array([not set(each) <= allowed for each in licenses], bool)
        keep &= ~conflict
        kind[conflict] = "license_conflict"
    if recipe.dedup.keep == "none":
        crowded = keep & (copies > 1)
        keep &= ~crowded
        for place in np.flatnonzero(crowded):
            follower = int(np.flatnonzero((found.keeper == place) & (np.arange(len(keep)) != place))[0])
            kind[place] = kind[follower]
    return keep


def decisions(decided: str, first: int, count: int) -> pa.Table:
    """Rows of `decided.parquet` of the documents [first, first + count)."""
    table = read_table(decided)
    document = table["document"].to_numpy()
    start, end = np.searchsorted(document, [first, first + count])
    return table.slice(start, end - start)
