"""Embed: every kept document's vector, int8.

The lexical embedder is fitted first, by `embed.fit` on a by-hash sample, unless the recipe pins a file. What enters the
per-source steps is the fitted file's content, so a fit that gives the same file, or a pinned copy, embeds nothing again.
Beside each shard's table stands `part.sample.arrow` (row, id, text): beginnings of some texts, so that naming topics and
showing examples reads no text again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_table
from cuvee.errors import DataError
from cuvee.kernels.text import NFC, hash64_many, large, sampled
from cuvee.kernels.vectors import fit_projection, quantise, scale_of
from cuvee.record import embed_schema
from cuvee.steps.documents import Shard, identity, shards
from cuvee.steps.vectors import arrays
from cuvee.steps.vectors.embedders import COLUMNS, Embedder, Lexical, fixed, weights_of

VERSION = 1
BATCH = 1_024           # documents embedded at a time, counted from the start of a shard
SAMPLE_ROWS = 2_000     # texts whose beginning is kept beside a shard, those of smallest hash ...
SAMPLE_CHARS = 2_000    # ... and how much: up to 4 MB beside the 128 MB of a shard
MOST_CLIPPED = 1e-4     # share of values; more means that the vectors are no unit vectors of this many dimensions
WEIGHTS = pa.schema([("columns", pa.large_list(pa.int32())), ("weights", pa.large_list(pa.float32()))])


def run(work: Work, recipe: Recipe, documents: Table, verdicts: Sequence[Table]) -> Table:
    """record.embed_schema of every document that all verdicts keep."""
    embedder = fixed(recipe.embed) or fit(work, recipe, documents, verdicts)
    config = {**embedder.identity(), "max_chars": recipe.embed.max_chars}
    kept = shards(documents, *verdicts)
    args = {"embedder": embedder, "max_chars": recipe.embed.max_chars}
    steps = [(Step("embed", VERSION, config, identity(source.name, documents, *verdicts), embedder.uses, source.name),
              [Task(shard.part, embed_shard, {"shard": shard, **args}) for shard in kept if shard.source == source.name])
             for source in recipe.sources]
    done = work.do_all(steps)
    _check_clipped(done)
    zero, rows = (sum(folder.counts.get(name, 0) for folder in done) for name in ("zero", "read"))
    if zero:
        work.progress.say(f"embed: {zero} of {rows} documents have a zero vector: the embedder knows no word of them.")
    return Table.of("embed", done)


def fit(work: Work, recipe: Recipe, documents: Table, verdicts: Sequence[Table]) -> Lexical:
    """The lexical embedder of these documents: IDF and projection of a by-hash sample."""
    config = recipe.embed
    inputs = tuple(part for source in recipe.sources for part in identity(source.name, documents, *verdicts))
    kept = {shard.name.replace("/", "."): shard for shard in shards(documents, *verdicts)}
    counted = work.do(Step("embed.count", VERSION, {}, inputs), [Task(name, count_shard, {"shard": shard}) for name, shard in kept.items()])
    share = min(1.0, config.sample / max(counted.counts.get("read", 0), 1))
    sampling = {"share": share, "max_chars": config.max_chars}
    step = Step("embed.sample", VERSION, {**sampling, "columns": COLUMNS, "nfc": NFC}, inputs)
    sample = work.do(step, [Task(name, sample_shard, {"name": name, "shard": shard, **sampling}) for name, shard in kept.items()])
    args = {"files": tuple(sample.file(name) for name in sample.files), "dimensions": config.dimensions, "seed": recipe.seed}
    step = Step("embed.fit", VERSION, {"dimensions": config.dimensions, "seed": recipe.seed}, tuple(sample.files.values()), Lexical.uses)
    fitted = work.do(step, [Task("projection", fit_sample, args)])
    return Lexical(fitted.file("projection.npy"), fitted.files["projection.npy"], config.dimensions)


def count_shard(out: Output, shard: Shard) -> Counts:
    return {"read": len(shard.read(()))}


def sample_shard(out: Output, name: str, shard: Shard, share: float, max_chars: int) -> Counts:
    """Term weights of the documents whose hash lies under `share`."""
    documents = shard.read(("text",))
    chosen = documents.filter(pa.array(sampled(documents["id"], "embed", share)))
    weights = weights_of(_beginnings(chosen["text"], max_chars))
    lists = [pa.LargeListArray.from_arrays(pa.array(weights.indptr, pa.int64()), pa.array(values, kind.value_type))
             for values, kind in zip((weights.indices, weights.data), WEIGHTS.types)]
    out.arrow(f"{name}.arrow", [pa.record_batch(lists, schema=WEIGHTS)], WEIGHTS)
    return {"read": len(documents), "sampled": len(chosen)}


def fit_sample(out: Output, files: Sequence[str], dimensions: int, seed: int) -> Counts:
    table = pa.concat_tables([open_arrow(file).read_all() for file in files]).combine_chunks()
    columns, weights = (table[name].combine_chunks() for name in WEIGHTS.names)
    matrix = sparse.csr_array((weights.flatten().to_numpy(), columns.flatten().to_numpy(), columns.offsets.to_numpy()),
                              shape=(len(table), COLUMNS))
    try:
        projection = fit_projection(matrix, dimensions, np.random.default_rng(seed))
    except ValueError as error:
        raise DataError(f"embed: {error}") from None
    arrays.save(out, "projection.npy", projection)
    return {"sampled": len(table)}


def embed_shard(out: Output, shard: Shard, embedder: Embedder, max_chars: int) -> Counts:
    documents = shard.read(("text",))
    codes, clipped = _codes(embedder, _beginnings(documents["text"], max_chars))
    sizes = pc.binary_length(documents["text"]).to_numpy().astype(np.int64)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(codes.ravel()), codes.shape[1])
    table = pa.table([documents["row"], documents["id"], sizes, vectors], schema=embed_schema(codes.shape[1]))
    out.table(f"{shard.part}.parquet", table, {"scale": repr(float(scale_of(codes.shape[1])))})
    _keep_beginnings(out, f"{shard.part}.sample.arrow", documents)
    return {"read": len(documents), "bytes": int(sizes.sum()), "zero": int((~codes.any(axis=1)).sum()),
            "values": codes.size, "clipped": clipped}


def _codes(embedder: Embedder, texts: pa.Array) -> tuple[np.ndarray, int]:
    """Vectors of all texts as int8 (texts, dimensions), and how many values were clipped."""
    parts = [quantise(embedder.embed(texts.slice(start, BATCH))) for start in range(0, len(texts), BATCH)]
    codes = np.concatenate([np.zeros((0, embedder.dimensions), np.int8), *(part for part, _ in parts)])
    return codes, sum(clipped for _, clipped in parts)


def _beginnings(texts: pa.ChunkedArray, chars: int) -> pa.Array:
    return pc.utf8_slice_codeunits(large(texts), 0, chars)


def _keep_beginnings(out: Output, name: str, documents: pa.Table) -> None:
    smallest = np.argsort(hash64_many(documents["id"], "sample"), kind="stable")[:SAMPLE_ROWS]
    chosen = documents.take(pa.array(np.sort(smallest))).combine_chunks()
    table = chosen.set_column(2, "text", _beginnings(chosen["text"], SAMPLE_CHARS))
    out.arrow(name, table.to_batches(), table.schema)


def _check_clipped(done: Sequence[Folder]) -> None:
    for folder in done:
        clipped, values = folder.counts.get("clipped", 0), folder.counts.get("values", 0)
        if clipped > MOST_CLIPPED * values:
            raise DataError(f"embed, source {folder.source}: {clipped} of {values} values ({clipped / values:.3%}) do not fit into int8; "
                            f"at most {MOST_CLIPPED:.2%} may. The embedder has a few large coordinates: use another one.")


def folders(vectors: Table) -> dict[str, Folder]:
    """What `run` left, by source; a source without shards has no folder."""
    urls = sorted({url.rpartition("/")[0] for url in vectors.files.values()})
    return {folder.source: folder for folder in map(Folder.open, urls)}


def sample_checksums(vectors: Table) -> list[str]:
    """What a step that calls `read_sample` hashes."""
    return [sum_ for folder in folders(vectors).values() for name, sum_ in folder.files.items() if name.endswith(".sample.arrow")]


def read_vectors(url: str) -> tuple[pa.Table, np.ndarray]:
    """row, id and bytes of a shard, and its vectors as int8 (rows, dimensions)."""
    table = read_table(url)
    return table.drop_columns("vector"), codes_of(table["vector"])


def codes_of(vectors: pa.ChunkedArray) -> np.ndarray:
    """A column of vectors as int8 (rows, dimensions)."""
    parts = [chunk.flatten().to_numpy() for chunk in vectors.chunks]
    return np.concatenate([np.zeros(0, np.int8), *parts]).reshape(len(vectors), vectors.type.list_size)


def read_sample(url: str) -> pa.Table:
    """row, id and the beginning of the text of some rows of a shard, in row order."""
    return open_arrow(url.removesuffix(".parquet") + ".sample.arrow").read_all()
