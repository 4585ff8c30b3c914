"""datatrove's four MinHash stages, one task a file, its English word tokeniser (spaCy's) and text normalisation."""

from __future__ import annotations

import struct
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.hashing import HashConfig
from rows import BANDS, ROWS, WIDTH, arguments, files, write_keepers


def main() -> None:
    source, out, workers = arguments()
    config = MinhashConfig(n_grams=WIDTH, num_buckets=BANDS, hashes_per_bucket=ROWS, hash_config=HashConfig(precision=64))
    tasks, reader = len(files(source)), JsonlReader(str(source), glob_pattern="*.jsonl")
    signatures, buckets, removed = (str(out / name) for name in ("signatures", "buckets", "removed"))
    stages = [([reader, MinhashDedupSignature(signatures, config=config)], tasks),
              ([MinhashDedupBuckets(signatures, buckets, config=config)], BANDS),
              ([MinhashDedupCluster(buckets, removed, config=config, save_cluster_id=True)], 1),
              ([reader, MinhashDedupFilter(removed), JsonlWriter(str(out / "kept"), compression=None)], tasks)]  # fmt: skip
    for number, (pipeline, count) in enumerate(stages):
        LocalPipelineExecutor(pipeline, tasks=count, workers=min(workers, count), logging_dir=str(out / f"log{number}")).run()
    write_keepers(out, keepers(source, Path(removed)))


def keepers(source: Path, removed: Path) -> list[int]:
    """From the clusters of each file: the member that is not removed stands for the others."""
    kept, cluster_of, start = [], {}, 0
    stand: dict[int, int] = {}
    for number, path in enumerate(files(source)):
        gone = {row for (row,) in _read(removed / f"{number:06d}.remove", "<I")}
        for row, cluster in _read(removed / f"{number:06d}.clusters", "<2I"):
            cluster_of[start + row] = cluster
            if row not in gone:
                stand[cluster] = start + row
        start += sum(1 for _ in open(path, "rb"))
    for row in range(start):
        kept.append(stand[cluster_of[row]] if row in cluster_of else row)
    return kept


def _read(path: Path, form: str) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(form, path.read_bytes())) if path.exists() else []


if __name__ == "__main__":
    main()
