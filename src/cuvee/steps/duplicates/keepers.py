"""Who stays: the lexicographically first independent set over the edges, in priority order.

A row is dropped if an earlier neighbour is kept, and that neighbour is its keeper. There are no connected components:
a row goes only if a kept row resembles it (a 25T-token run joined unrelated texts by transitive closure).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_table
from cuvee.kernels.pairs import decide
from cuvee.record import positions
from cuvee.steps.duplicates.rows import Rows, id_halves, id_strings, places, source_ranks

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
    """One sweep over all documents that have company; memory grows with these, not with the corpus: about 300 bytes each."""
    member, edge = pa.concat_tables([open_arrow(url).read_all() for url in members]), _edges(edges, recipe)
    named = (member["document"], member["leader"], edge["left"], edge["right"])
    facts = _facts(rows, _distinct(named), judged)
    found = _sweep(_priority(facts, rows, recipe), _nodes(facts.document, member), edge)
    verdict = _verdict(facts, found, recipe)
    out.arrow("decided.arrow", _batches(facts, rows, found, verdict), DECIDED)
    return {"documents": len(facts.document), "dropped": int((~verdict.keep).sum())}


def _distinct(columns: Sequence[pa.ChunkedArray]) -> np.ndarray:
    """Sorted; each column is made distinct first, for most documents stand in several."""
    return np.unique(np.concatenate([np.unique(column.to_numpy()) for column in columns]))


def _edges(urls: Sequence[str], recipe: Recipe) -> pa.Table:
    """Edges that make a duplicate under this recipe."""
    table = pa.concat_tables([open_arrow(url).read_all() for url in urls])
    counts = pc.greater_equal(table["jaccard"], recipe.dedup.threshold)
    if recipe.dedup.containment is not None:
        counts = pc.or_(counts, pc.greater_equal(table["containment"], recipe.dedup.containment))
    return table.filter(counts)


@dataclass(frozen=True)
class Facts:
    """Of the active documents that take part, in document order: number, row, id, bytes, and licence as a place in `licenses`."""

    document: np.ndarray
    row: np.ndarray
    high: np.ndarray
    low: np.ndarray
    size: np.ndarray
    license: np.ndarray
    licenses: tuple[str, ...]  # sorted


def _facts(rows: Rows, active: np.ndarray, judged: Sequence[Sequence[str]]) -> Facts:
    """Read shard by shard into arrays: an id as a string takes as much as all of these."""
    document, row, high, low, size, license = (np.empty(len(active), kind) for kind in ("i8", "i8", "u8", "u8", "i8", "i4"))
    names: dict[str, int] = {}
    count = 0
    for shard, _, place in rows.by_shard(active):
        table = read_table(rows.urls[shard], ["row", "id", "bytes", "license"])
        place = place[eligible(table, judged[shard], rows.shards[shard])[place]]
        table, here = table.take(pa.array(place)), slice(count, count + len(place))
        document[here], row[here], size[here] = place + rows.firsts[shard], table["row"].to_numpy(), table["bytes"].to_numpy()
        high[here], low[here] = id_halves(table["id"])
        coded = table["license"].combine_chunks().dictionary_encode()
        own = [names.setdefault(name, len(names)) for name in coded.dictionary.to_pylist()]
        license[here] = np.array(own, "i4")[coded.indices.to_numpy()]
        count += len(place)
    order = sorted(names)
    license = np.argsort([names[name] for name in order]).astype("i4")[license[:count]] if count else license[:0]
    return Facts(document[:count], row[:count], high[:count], low[:count], size[:count], license, tuple(order))


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


def _priority(facts: Facts, rows: Rows, recipe: Recipe) -> np.ndarray:
    """Places in `facts`: frozen sources first, then larger priority, longer text, smaller id, and place."""
    return np.lexsort((facts.document, facts.low, facts.high, -facts.size, source_ranks(rows, recipe)[rows.shard_of(facts.document)]))


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


@dataclass(frozen=True)
class Verdict:
    """Per document of `facts`: stays: it is its own keeper; keep: and the recipe lets it stay; kind, a place in KINDS; copies."""

    stays: np.ndarray
    keep: np.ndarray
    kind: np.ndarray
    copies: np.ndarray


def _verdict(facts: Facts, found: Found, recipe: Recipe) -> Verdict:
    stays = found.keeper == np.arange(len(found.keeper))
    exact = (facts.high == facts.high[found.keeper]) & (facts.low == facts.low[found.keeper])
    kind = np.where(stays, UNIQUE, np.where(exact, EXACT, np.where(found.same, NORMALISED, NEAR))).astype(np.int8)
    copies = np.bincount(found.keeper, minlength=len(found.keeper))
    keep = stays & ~_in_conflict(found.keeper, facts, allowed(recipe))
    kind[stays & ~keep] = CONFLICT
    if recipe.dedup.keep == "none":
        keep = _without_groups(keep, kind, found.keeper, copies)
    return Verdict(stays, keep, kind, copies)


def _in_conflict(keeper: np.ndarray, facts: Facts, allowed: frozenset[str] | None) -> np.ndarray:
    """Which documents keep one whose licence is not allowed, bool (documents,)"""
    conflict = np.zeros(len(keeper), bool)
    if allowed is not None:
        bad = np.array([name not in allowed for name in facts.licenses], bool)[facts.license]
        conflict[keeper[bad]] = True
    return conflict


def _without_groups(keep: np.ndarray, kind: np.ndarray, keeper: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """What is kept where no member of a group may stay; a keeper that goes takes the `kind` of its first follower."""
    follower = np.flatnonzero(keeper != np.arange(len(keeper)))
    heads, first = np.unique(keeper[follower], return_index=True)
    crowded = keep[heads]
    kind[heads[crowded]] = kind[follower[first[crowded]]]
    return keep & (copies == 1)


def _batches(facts: Facts, rows: Rows, found: Found, verdict: Verdict) -> Iterator[pa.RecordBatch]:
    """DECIDED rows of each shard, in document order; strings are made for one shard at a time."""
    source, part = zip(*(shard.split("/", 1) for shard in rows.shards))
    known = sorted(set(source))
    owner, sources = rows.shard_of(facts.document), np.array([known.index(name) for name in source])
    licensed, sourced = _Sets(found.keeper, facts.license, facts.licenses), _Sets(found.keeper, sources[owner], known)
    bounds = np.searchsorted(owner, np.arange(len(rows.shards) + 1))
    for shard, (start, end) in enumerate(zip(bounds, bounds[1:])):
        here, keeper = slice(start, end), found.keeper[start:end]
        stays, keep = verdict.stays[here], verdict.keep[here]
        names = (pa.array(each, pa.string()).take(pa.array(owner[keeper], mask=stays)) for each in (source, part))
        yield pa.record_batch([
            facts.document[here] - rows.firsts[shard], keep, pa.array(KINDS).take(pa.array(verdict.kind[here])),
            pc.if_else(pa.array(stays), None, id_strings(facts.high[keeper], facts.low[keeper])), *names, pa.array(facts.row[keeper], mask=stays),
            pa.array(found.similarity[here], mask=stays), pa.array(verdict.copies[here], mask=~keep), licensed.of(start, keep),
            sourced.of(start, keep)], schema=DECIDED)


class _Sets:
    """Sorted distinct values over the copies of each document. codes: of each document, a place in the sorted `names`"""

    def __init__(self, keeper: np.ndarray, codes: np.ndarray, names: Sequence[str]) -> None:
        self.names = pa.array(names, pa.string())
        self.width = max(len(names), 1)
        self.pairs = np.unique(keeper * self.width + codes)

    def of(self, start: int, keep: np.ndarray) -> pa.ListArray:
        """Of the documents from `start` on; null where one is not kept."""
        pairs = self.pairs[slice(*np.searchsorted(self.pairs, [start * self.width, (start + len(keep)) * self.width]))]
        owner, value = pairs // self.width - start, pairs % self.width
        standing = keep[owner]
        bounds = np.searchsorted(owner[standing], np.arange(len(keep) + 1))
        return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), self.names.take(pa.array(value[standing])), mask=pa.array(~keep))
