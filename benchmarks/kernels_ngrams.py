"""MB of English text a second and core that the n-gram scan reads, tokenising included.

    python benchmarks/kernels_ngrams.py [--features 1000000]
"""

from __future__ import annotations

import argparse
import sysconfig
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from cuvee.kernels.ngrams import FeatureSet, features, scan
from cuvee.kernels.text import buffers, nfc
from cuvee.kernels.words import tokenize

MEGABYTES = 40
BATCH = 4_000_000  # bytes of text tokenised at a time


def corpus(megabytes: int) -> list[str]:
    """Docstrings and comments of the standard library and installed packages, in documents of about 4 kB."""
    pieces, size = [], 0
    for path in sorted(Path(sysconfig.get_path("purelib")).rglob("*.py")) + sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        text = path.read_text(errors="replace")
        prose = "\n".join(line.strip() for line in text.splitlines() if line.count(" ") > 6 and not line.rstrip().endswith((":", ")", "(", ",")))
        pieces += [prose[start : start + 4000] for start in range(0, len(prose), 4000)]
        size += len(prose)
        if size > megabytes * 1_000_000:
            break
    return pieces


def random_set(count: int, rng: np.random.Generator) -> FeatureSet:
    hashes = np.unique(rng.integers(0, 2**64, count, np.uint64))
    return FeatureSet.build(hashes, rng.integers(0, 2**64, len(hashes), np.uint64), np.arange(8, 14))


def batches(texts: list[str]) -> list[pa.Array]:
    ends = np.cumsum([len(text) for text in texts])
    cuts = [0, *np.searchsorted(ends, np.arange(BATCH, ends[-1], BATCH)), len(texts)]
    return [pa.array(texts[start:end], pa.large_string()) for start, end in zip(cuts, cuts[1:]) if end > start]


def rate(name: str, size: int, call) -> None:
    seconds = []
    for _ in range(4):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    print(f"{name:<34} {size / min(seconds[1:]) / 1e6:8.1f} MB/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--features", type=int, default=1_000_000)
    arguments = parser.parse_args()
    texts = batches(corpus(MEGABYTES))
    size = sum(text.nbytes for text in texts)
    start = time.process_time()
    known = random_set(arguments.features, np.random.default_rng(0))
    own = features(tokenize(*buffers(nfc(texts[0].slice(0, 50)))))
    order = np.unique(own.hashes, return_index=True)[1]
    print(f"{size / 1e6:.0f} MB, {len(known.hashes):,} features, set built in {time.process_time() - start:.2f} s")
    tokens = [tokenize(*buffers(text)) for text in texts]
    rate("tokenize", size, lambda: [tokenize(*buffers(text)) for text in texts])
    rate("scan of tokens, few matches", size, lambda: [scan(each, known) for each in tokens])
    found = FeatureSet.build(own.hashes[order], own.anchors[order], own.lengths[order])
    rate("scan of tokens, small set", size, lambda: [scan(each, found) for each in tokens])
    rate("nfc, tokenize, scan", size, lambda: [scan(tokenize(*buffers(nfc(text))), known) for text in texts])


if __name__ == "__main__":
    main()
