"""The document schema, the row rule, and the schema of every table.

A row is (source, shard, row), written `source/shard:row`; `row` counts from 0 inside the documents shard.
Every table beside the documents carries `row` and `id` for the rows that take part in it, in row order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cuvee.errors import DataError

DOCUMENTS = pa.schema([
    pa.field("id", pa.string(), nullable=False),       # xxh3-128 of the UTF-8 text, 32 hex digits
    pa.field("text", pa.large_string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("license", pa.string(), nullable=False),  # SPDX id
    pa.field("url", pa.string()),
    pa.field("source_id", pa.string()),                # the user's own id
    pa.field("meta", pa.string()),                     # JSON object of every other column
])

EDITS = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64()), ("replacement", pa.string())]))

KEY = [pa.field("row", pa.int64(), nullable=False), pa.field("id", pa.string(), nullable=False)]

FILTER = pa.schema([
    *KEY,
    ("keep", pa.bool_()),
    ("reason", pa.string()),         # why it is dropped; null where kept
    ("value", pa.float64()),         # what was measured for that reason
    ("threshold", pa.float64()),     # what it was held against
    ("bytes", pa.int64()),           # UTF-8 bytes of the stored text
    ("words", pa.int64()),
    ("unique_words", pa.int64()),
    ("lines", pa.int64()),           # lines that are not blank
    ("mean_word_length", pa.float64()),      # characters
    ("duplicate_line_share", pa.float64()),  # characters in lines that occurred before, over characters in lines
    ("repetition", pa.float64()),    # words covered by 5-grams that occurred before, over words
    ("symbol_share", pa.float64()),  # category S characters, over shingle tokens
    ("edits", EDITS),
])

SCAN = pa.schema([
    *KEY,
    ("words", pa.int64()),
    ("hits", pa.large_list(pa.struct([  # every place where a feature stands, by first word, then length
        ("feature", pa.uint64()),    # hash of the run of words
        ("word", pa.int64()),        # first word, counted from 0
        ("length", pa.int64()),      # words
        ("start", pa.int64()),       # bytes in the stored text
        ("end", pa.int64())]))),
])

EVALS = pa.schema([
    ("eval", pa.string()),
    ("file", pa.string()),
    ("row", pa.int64()),             # line of the file
    ("source_id", pa.string()),      # the item's own id
    ("words", pa.int64()),
    ("features", pa.int64()),        # distinct n-grams, or 1 for an item matched whole
    ("set_aside", pa.int64()),       # of these, boilerplate
    ("checkable", pa.bool_()),
    ("documents", pa.int64()),       # rows that hold a feature of it that was not set aside
])

SET_ASIDE = pa.schema([
    ("text", pa.string()),
    ("documents", pa.int64()),       # distinct texts that hold it
    ("sources", pa.int64()),
    ("items", pa.list_(pa.string())),  # eval:row
])

DECONTAMINATE = pa.schema([
    *KEY,
    ("keep", pa.bool_()),
    ("hits", pa.int64()),            # distinct features found
    ("fraction", pa.float64()),      # words covered / words
    ("items", pa.list_(pa.string())),  # eval:row
    ("first_start", pa.int64()),     # bytes in the stored text
    ("first_end", pa.int64()),
    ("edits", EDITS),
])

SIGN = pa.schema([
    *KEY,
    ("source_id", pa.string()),
    ("license", pa.string()),
    ("bytes", pa.int64()),           # UTF-8 bytes of the text as compared
    ("tokens", pa.int64()),          # shingle tokens
    ("sequence_0", pa.uint64()),     # identity of the token sequence, 128 bits; 0, 0 without tokens
    ("sequence_1", pa.uint64()),
])

DEDUP = pa.schema([
    ("source", pa.string()),
    ("shard", pa.string()),
    *KEY,
    ("source_id", pa.string()),
    ("keep", pa.bool_()),
    ("kind", pa.string()),           # kept: unique, not_candidate; dropped: exact, normalised, near, license_conflict, and
                                     # filtered_again: repeated spans were cut, and the filter drops what is left
    ("kept_by", pa.string()),        # id of the row that stays instead
    ("kept_by_source", pa.string()),
    ("kept_by_shard", pa.string()),
    ("kept_by_row", pa.int64()),
    ("similarity", pa.float64()),    # Jaccard with the keeper
    ("copies", pa.int64()),          # 1 + rows whose keeper it is; null where dropped
    ("licenses", pa.list_(pa.string())),  # over its copies, sorted; null where dropped
    ("sources", pa.list_(pa.string())),
    ("edits", EDITS),                # repeated spans that stay elsewhere; null where there is none
])


def embed_schema(dimensions: int) -> pa.Schema:
    """Its metadata has `scale`: vector x scale is a unit vector, or zero where the embedder knows nothing of the text."""
    return pa.schema([
        *KEY,
        ("bytes", pa.int64()),       # UTF-8 bytes of the text as embedded, before it is cut to max_chars
        ("vector", pa.list_(pa.int8(), dimensions)),
    ])


TOPICS = pa.schema([
    *KEY,
    ("fine", pa.int32()),            # fine cluster; -1 for a zero vector, whose topic is 0
    ("topic", pa.int32()),           # 0 the largest
    ("similarity", pa.float32()),    # cosine with the fine cluster's centroid
])

QUALITY = pa.schema([
    *KEY,
    ("score", pa.float32()),         # null where nothing says what is good
    ("band", pa.int32()),            # 1 worst; after small domains joined a neighbour
    ("domain", pa.string()),         # domain_name(topic, band)
])

TOKENS = pa.schema([
    *KEY,
    ("bytes", pa.int64()),           # UTF-8 bytes of the text as tokenised
    ("tokens", pa.int64()),          # without the end mark
    ("u", pa.uint64()),              # hash64(id, seed): a nested random subset is u < x
])


RUN_DOMAINS = pa.schema([           # a row per run of the swarm and domain
    ("run", pa.string()),            # names parts and seed, so that the same run has the same name in every plan
    ("kind", pa.string()),           # proportional, repeat, concentrated, unimax, uniform, leave_one_out, proposal;
                                     # of later rounds: optimum (by the fits so far, repeated), improve, explore
    ("round", pa.int64()),           # counted from 1
    ("domain", pa.string()),
    ("weight", pa.float64()),        # rows drawn over rows of the run
    ("rows_drawn", pa.int64()),
    ("subset_tokens", pa.int64()),   # that the domain offered
    ("tokens_drawn", pa.int64()),
    ("epochs", pa.float64()),        # tokens_drawn / subset_tokens
    ("floored", pa.bool_()),         # it offered more than its share, so as not to be tiny
])

RUN_SCORES = pa.schema([
    ("run", pa.string()),
    ("task", pa.string()),
    ("score", pa.float64()),         # bits per UTF-8 byte; a run that failed has no row
    ("half", pa.float64()),          # the same at half of the run's tokens; null where it was not taken
])


def domain_name(topic: int, band: int) -> str:
    """`t07.q5`; bands count from 1, q1 worst."""
    return f"t{topic:02d}.q{band}"


def row_name(shard: str, row: int) -> str:
    """`source/shard:row`."""
    return f"{shard}:{row}"


def positions(table: pa.Table, rows: pa.Array, ids: pa.Array, where: str) -> np.ndarray:
    """Where each of `rows` stands in `table`; -1 where it does not. Ids that differ at one row are an error.

    rows, ids: of the rows looked for  ->  int64 (rows,)
    """
    have = table["row"].to_numpy()
    want = rows.to_numpy()
    at = np.searchsorted(have, want)
    found = (at < len(have)) & (have[np.minimum(at, max(len(have) - 1, 0))] == want) if len(have) else np.zeros(len(want), bool)
    place = np.where(found, at, -1)
    same = table["id"].take(pa.array(place[found])).combine_chunks().equals(_plain(ids).filter(pa.array(found)))
    if not same:
        mine, theirs = _plain(ids).filter(pa.array(found)).to_pylist(), table["id"].take(pa.array(place[found])).to_pylist()
        bad = next(i for i, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1])
        raise DataError(f"{where}, row {want[found][bad]}: id {theirs[bad]} where the documents have {mine[bad]}. "
                        "The two tables do not belong together: delete the step's folder and run again.")
    return place


def _plain(ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    return ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
