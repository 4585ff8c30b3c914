"""Marin's dupekit: clean, minhash, bands, in Rust over Arrow batches; rows that share a band are joined in Python.

It shingles characters only: 25 of them change with one word about as five words do, so that its Jaccard is near to ours.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import dupekit
import pyarrow as pa
from dupekit import Transformation
from rows import BANDS, ROWS, Groups, arguments, read, write_keepers, write_kept

BATCH = 512
CHARACTERS = 25
SEED = 42


def main() -> None:
    source, out, workers = arguments()
    lines, texts = read(source)
    steps = [Transformation.CleanText("text", "clean"), Transformation.MinHash("clean", "minima", BANDS * ROWS, CHARACTERS, SEED),
             Transformation.MinHashLSH("minima", "buckets", BANDS), Transformation.SelectColumns(["buckets"])]  # fmt: skip
    batches = [pa.RecordBatch.from_pydict({"text": texts[start : start + BATCH]}) for start in range(0, len(texts), BATCH)]
    with ThreadPoolExecutor(workers) as pool:
        signed = list(pool.map(lambda batch: dupekit.transform(batch, steps), batches))
    buckets = (row for batch in signed for row in batch.column(0).to_pylist())
    groups = Groups(len(texts))
    groups.join_equal((row, enumerate(own)) for row, own in enumerate(buckets))
    keepers = groups.keepers()
    write_kept(out, lines, keepers)
    write_keepers(out, keepers)


if __name__ == "__main__":
    sys.exit(main())
