"""Topics: fine clusters of the vectors on a by-hash sample, joined into topics of a least share of the bytes.

`topics.sample` -> `topics.fit` (centroids) -> `topics.assign` (fine cluster of every row, bytes of each cluster) ->
`topics.coarsen` (fine cluster -> topic) -> `topics.describe` (words and examples) -> `topics`: record.TOPICS, one lookup,
and `topics.json`. A zero vector, a text of which the embedder knows nothing, has fine cluster -1 and topic 0, the largest;
it takes no part in finding the topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from cuvee.config import Recipe
from cuvee.config import Topics as Config
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_json, read_table
from cuvee.errors import DataError
from cuvee.kernels.coarsen import coarsen
from cuvee.kernels.kmeans import assign, cluster
from cuvee.kernels.text import sampled
from cuvee.kernels.vectors import unit
from cuvee.record import TOPICS
from cuvee.steps import embed
from cuvee.steps.vectors import arrays, topic_summary

VERSION = 1
USES = ("numba", "numpy")
MASS = pa.schema([("fine", pa.int32()), ("documents", pa.int64()), ("bytes", pa.int64())])


def run(work: Work, recipe: Recipe, vectors: Table) -> Table:
    """record.TOPICS of every row of `vectors`."""
    digests = tuple(f"{source} {digest}" for source, digest in vectors.digests.items())
    centroids = _fit(work, recipe, vectors, digests)
    names = {shard.replace("/", "."): shard for shard in vectors.shards}
    step = Step("topics.assign", VERSION, {}, (*digests, centroids.files["centroids.npy"]), USES)
    tasks = [Task(name, assign_shard, {"name": name, "vectors": vectors.files[shard], "centroids": centroids.file("centroids.npy")})
             for name, shard in names.items()]
    assigned = work.do(step, tasks)
    joined = _coarsen(work, recipe, centroids, assigned, names)
    described = topic_summary.describe(work, vectors, assigned, joined)
    done = _finish(work, names, assigned, joined, described)
    note = read_json(joined.file("topics.json"))["note"]
    if note is not None:
        work.progress.say(f"topics: {note}")
    return Table.of("topics", [done])


def _fit(work: Work, recipe: Recipe, vectors: Table, digests: Sequence[str]) -> Folder:
    """`centroids.npy` of the fine clusters."""
    config = recipe.topics
    totals = {source: folder.counts for source, folder in embed.folders(vectors).items()}
    shares = _shares(totals, config.sample)
    step = Step("topics.sample", VERSION, {"shares": shares}, tuple(digests))
    tasks = [Task(shard.replace("/", "."), sample_shard, {"name": shard.replace("/", "."), "vectors": url,
                                                           "share": shares[shard.split("/")[0]]}) for shard, url in vectors.files.items()]
    sample = work.do(step, tasks)
    bytes_ = {source: counts.get("bytes", 0) for source, counts in totals.items()}
    args = {"files": {shard: sample.file(f"{shard.replace('/', '.')}.arrow") for shard in vectors.shards},
            "bytes_": bytes_, "config": config, "seed": recipe.seed}
    identity = {"count": config.count, "fine": config.fine, "seed": recipe.seed, "bytes": bytes_}
    return work.do(Step("topics.fit", VERSION, identity, tuple(sample.files.values()), USES), [Task("centroids", fit_sample, args)])


def _shares(totals: Mapping[str, Counts], rows: int) -> dict[str, float]:
    """The share of each source's documents to look at: about `rows` together, a source by the square root of its bytes."""
    roots = {source: np.sqrt(counts.get("bytes", 0)) for source, counts in totals.items()}
    whole = max(sum(roots.values()), 1)
    return {source: float(min(1.0, rows * root / whole / max(totals[source].get("read", 0), 1))) for source, root in roots.items()}


def sample_shard(out: Output, name: str, vectors: str, share: float) -> Counts:
    table = read_table(vectors, ["id", "vector"])
    chosen = table.filter(pa.array(sampled(table["id"], "topics", share))).select(["vector"]).combine_chunks()
    out.arrow(f"{name}.arrow", chosen.to_batches(), chosen.schema.remove_metadata())
    return {"read": len(table), "sampled": len(chosen)}


def fit_sample(out: Output, files: Mapping[str, str], bytes_: Mapping[str, int], config: Config, seed: int) -> Counts:
    """Weighted so that each source counts by the square root of its bytes, whatever its documents."""
    parts = {shard: embed.codes_of(open_arrow(url).read_all()["vector"]) for shard, url in files.items()}
    sampled_of: dict[str, int] = {}
    for shard, part in parts.items():
        sampled_of[shard.split("/")[0]] = sampled_of.get(shard.split("/")[0], 0) + len(part)
    weights = [np.full(len(part), np.sqrt(bytes_[shard.split("/")[0]]) / max(sampled_of[shard.split("/")[0]], 1))
               for shard, part in parts.items()]
    sample = np.concatenate(list(parts.values()))
    if not sample.any():
        raise DataError(f"topics: all {len(sample)} sampled vectors are zero: the embedder knows no word of them. "
                        "Use another embedder, or a larger embed.sample.")
    fine, count = sizes(config, len(sample))
    found = cluster(sample, np.concatenate(weights), fine, np.random.default_rng([seed, 1]))
    arrays.save(out, "centroids.npy", found.centroids)
    return {"sampled": len(sample), "fine": len(found.centroids), "topics": count, "loss": found.loss[-1]}


def sizes(config: Config, rows: int) -> tuple[int, int]:
    """Fine clusters and topics for a sample of so many rows. A fine cluster has some 50 rows; a topic at least 4 of them."""
    count = config.count if config.count is not None else min(40, max(2, rows // 1_000))
    fine = config.fine if config.fine is not None else min(5_000, max(rows // 50, 4 * count))
    return max(1, min(fine, rows)), count


def assign_shard(out: Output, name: str, vectors: str, centroids: str) -> Counts:
    table, codes = embed.read_vectors(vectors)
    fine, similarity = assign(codes, arrays.load(centroids))
    known = codes.any(axis=1)
    fine[~known], similarity[~known] = -1, 0
    columns = {"row": table["row"], "id": table["id"], "fine": fine, "similarity": similarity}
    out.table(f"{name}.parquet", pa.table(columns))
    number, place, documents = np.unique(fine, return_inverse=True, return_counts=True)
    held = np.zeros(len(number), np.int64)
    np.add.at(held, place, table["bytes"].to_numpy())
    out.arrow(f"{name}.mass.arrow", [pa.record_batch([number, documents, held], schema=MASS)], MASS)
    return {"read": len(table), "zero": int((~known).sum())}


def _coarsen(work: Work, recipe: Recipe, centroids: Folder, assigned: Folder, names: Mapping[str, str]) -> Folder:
    """`topic.npy` (fine,), `directions.npy` (topics, d), and `topics.json`: documents, bytes and sources of each topic."""
    config = {"count": centroids.counts["topics"], "min_share": recipe.topics.min_share, "seed": recipe.seed}
    masses = {shard: assigned.file(f"{name}.mass.arrow") for name, shard in names.items()}
    args = {"centroids": centroids.file("centroids.npy"), "masses": masses, **config}
    return work.do(Step("topics.coarsen", VERSION, config, (assigned.fingerprint,), USES), [Task("topics", join_fine, args)])


def join_fine(out: Output, centroids: str, masses: Mapping[str, str], count: int, min_share: float, seed: int) -> Counts:
    directions = np.asarray(arrays.load(centroids))
    fine = len(directions)
    by_source = {shard.split("/")[0]: np.zeros((2, fine + 1), np.int64) for shard in masses}
    for shard, url in masses.items():
        number, *held = (column.to_numpy() for column in open_arrow(url).read_all().columns)
        by_source[shard.split("/")[0]][:, number] += np.stack(held)  # -1, the zero vectors, is the last place
    mass = sum(by_source.values())[1, :fine]
    found = coarsen(directions, mass, count, min_share, np.random.default_rng([seed, 2]))
    lookup = np.append(found.topic, np.int32(0))
    arrays.save(out, "topic.npy", lookup)
    arrays.save(out, "directions.npy", _directions(directions, mass, found.topic, len(found.bytes)))
    topics = [_sums(by_source, lookup == topic) for topic in range(len(found.bytes))]
    out.json("topics.json", {"topics": topics, "note": found.note})
    return {"topics": len(topics), "loss": found.loss}


def _directions(centroids: np.ndarray, mass: np.ndarray, topic: np.ndarray, topics: int) -> np.ndarray:
    """Mean direction of each topic, its fine clusters weighing by their bytes. -> unit float32 (topics, d)"""
    sums = np.zeros((topics, centroids.shape[1]))
    np.add.at(sums, topic, centroids.astype(np.float64) * mass[:, None])
    return unit(sums)


def _sums(by_source: Mapping[str, np.ndarray], inside: np.ndarray) -> dict[str, object]:
    """Documents, bytes, and each source's share of the bytes, over some fine clusters."""
    documents, held = sum(by_source.values())[:, inside].sum(axis=1).tolist()
    shares = {source: int(table[1, inside].sum()) / max(held, 1) for source, table in sorted(by_source.items())}
    return {"documents": documents, "bytes": held, "sources": {source: share for source, share in shares.items() if share > 0}}


def _finish(work: Work, names: Mapping[str, str], assigned: Folder, joined: Folder, described: Folder) -> Folder:
    tasks = [Task(name, look_up, {"shard": shard, "assigned": assigned.file(f"{name}.parquet"), "topic": joined.file("topic.npy")})
             for name, shard in names.items()]
    summary = Task("topics.json", topic_summary.write, {
        "topics": joined.file("topics.json"), "files": tuple(described.file(name) for name in described.files)})
    return work.do(Step("topics", VERSION, {}, (assigned.fingerprint, joined.fingerprint, described.fingerprint)), [*tasks, summary])


def look_up(out: Output, shard: str, assigned: str, topic: str) -> Counts:
    table = read_table(assigned)
    topics = arrays.load(topic)[table["fine"].to_numpy()]
    columns = [table["row"], table["id"], table["fine"], pa.array(topics, pa.int32()), table["similarity"]]
    out.table(f"{shard}.parquet", pa.table(columns, schema=TOPICS))
    return {"documents": len(table)}
