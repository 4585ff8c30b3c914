"""text-dedup's MinHash command, with the faster of its two hashes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

from rows import BANDS, ROWS, THRESHOLD, WIDTH, arguments, files, write_keepers


def main() -> None:
    source, out, workers = arguments()
    command = [sys.executable, "-m", "text_dedup.minhash", "--path", "json", "--data_files", str(source / "*.jsonl"), "--split", "train",
               "--cache_dir", str(out / "cache"), "--output", str(out / "kept"), "--column", "text", "--num_proc", str(workers),
               "--ngram", str(WIDTH), "--num_perm", str(BANDS * ROWS), "--b", str(BANDS), "--r", str(ROWS), "--threshold", str(THRESHOLD),
               "--hash_func", "xxh3", "--debug"]  # fmt: skip
    subprocess.run(command, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(out / "home")})
    with open(out / "kept" / "uf.pkl", "rb") as file:
        groups = pickle.load(file)
    rows = sum(1 for path in files(source) for _ in open(path, "rb"))
    write_keepers(out, (groups.find(row) for row in range(rows)))


if __name__ == "__main__":
    main()
