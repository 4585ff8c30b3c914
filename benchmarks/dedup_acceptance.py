"""What deduplication must hold to, on generated near-duplicates: python benchmarks/dedup_acceptance.py [PAIRS]

Retrieval by signatures alone against the S-curve, from so many pairs a level of Jaccard (20,000 if not given); then a
whole run of the command line, in several scripts: no removal under the threshold, exact similarities, and nothing left
that was compared and is within it.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dedup_quality import Truth
from exact_jaccard import jaccard, shingle_sets
from kernels_text import SCRIPTS
from near_duplicates import NOISE, base, documents, pieces, spell, write

from cuvee.kernels.minhash import BANDS, ROWS, agreement_pairs, band_keys, sign
from cuvee.kernels.pairs import group_offsets, group_pairs
from cuvee.kernels.shingles import jaccard_pairs, shingles
from cuvee.kernels.text import buffers, nfc
from cuvee.kernels.words import tokenize

LEVELS = np.arange(50, 96, 5) / 100
NEAR_LEVEL = 0.02
BATCH = 5_000  # pairs
THRESHOLD, COMPARED = 0.75, 0.55  # of Jaccard, and of equal minima under which a pair is not compared
SPOT = 200  # pairs of each batch whose Jaccard is computed a second, independent way
ALLOWED, ENOUGH = 0.01, 20_000  # of retrieval from the S-curve; pairs a level that tell so little from chance


class Level(NamedTuple):
    jaccard: float
    pairs: int
    found: float  # share that shares a band
    expected: float  # mean of the S-curve at the pairs' own Jaccard


def s_curve(similarity: np.ndarray) -> np.ndarray:
    return 1 - (1 - similarity**ROWS) ** BANDS


def pair_texts(rng: random.Random, count: int) -> list[str]:
    """Pairs one after another, about 1 kB a text, of all kinds of noise; a quarter in another script."""
    texts = []
    for pair in range(count):
        left = base(rng, 1_000)
        right = list(NOISE.values())[pair % len(NOISE)](rng, pieces(left), rng.uniform(0.45, 1.0))
        script = rng.choice(list(SCRIPTS)) if rng.random() < 0.25 else None
        texts += [spell(text, script) if script else text for text in (left, right)]
    return texts


def pair_batches(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Jaccard of pairs, and whether their signatures share a band, without end."""
    rng = random.Random(seed)
    while True:
        texts = pair_texts(rng, BATCH)
        array = pa.array(texts, pa.large_string())
        left = np.arange(0, len(texts), 2)
        words = tokenize(*buffers(nfc(array)))
        similarity = jaccard_pairs(*shingles(words.hashes, words.offsets), left, left + 1)
        second = jaccard(shingle_sets(texts[: 2 * SPOT]), left[:SPOT], left[:SPOT] + 1)
        if np.abs(second - similarity[:SPOT]).max() > 1e-12:
            raise SystemExit(f"Jaccard of a pair: {similarity[:SPOT]} by the kernel and {second} by its definition")
        keys = band_keys(sign(array).signatures)
        yield similarity, (keys[0::2] == keys[1::2]).any(axis=1)


def retrieval(pairs: int, seed: int = 0) -> list[Level]:
    """Of at least so many pairs near each level of Jaccard."""
    similarity, found = np.zeros(0), np.zeros(0, bool)
    for more, hits in pair_batches(seed):
        similarity, found = np.append(similarity, more), np.append(found, hits)
        near = [np.flatnonzero(np.abs(similarity - level) <= NEAR_LEVEL) for level in LEVELS]
        if min(each.size for each in near) >= pairs:
            return [Level(float(level), each.size, float(found[each].mean()), float(s_curve(similarity[each]).mean())) for level, each in zip(LEVELS, near)]
    raise AssertionError


class Verdict(NamedTuple):
    rows: int
    removed: int
    under: int  # removed rows under the threshold
    deviation: float  # largest, of a similarity from the exact one
    left: int  # pairs of kept rows that were compared and are within the threshold
    unretrieved: int  # pairs of kept rows within the threshold that share no band


def verdict(folder: Path, size: int, seed: int = 1) -> Verdict:
    """Deduplicate a corpus in several scripts, and hold every row to its exact Jaccard."""
    made = documents(size, seed, scripts=True)
    write(folder, made)
    texts = [document.text for document in made]
    inputs = sorted(map(str, (folder / "in").iterdir()))
    subprocess.run([sys.executable, "-m", "cuvee", "dedup", *inputs, "-o", str(folder / "out"), "--threshold", str(THRESHOLD)], check=True, capture_output=True)
    table = pq.read_table(folder / "out" / "dedup.parquet")
    keeper = keepers(table)
    truth = Truth.of(shingle_sets(texts), THRESHOLD)
    removed = np.flatnonzero(keeper != np.arange(keeper.size))
    exact = jaccard(truth.sets, removed, keeper[removed])
    kept = keeper == np.arange(keeper.size)
    both = kept[truth.left] & kept[truth.right]
    compared = compared_pairs(texts)
    left = sum((a, b) in compared for a, b in zip(truth.left[both].tolist(), truth.right[both].tolist()))
    deviation = np.abs(exact - table["similarity"].to_numpy()[removed]).max(initial=0)
    return Verdict(keeper.size, removed.size, int((exact < THRESHOLD).sum()), float(deviation), left, int(both.sum()) - left)


def keepers(table: pa.Table) -> np.ndarray:
    """Row that stands for each row of a dedup table, its own where it is kept -> int64 (rows,)"""
    place = {name: row for row, name in enumerate(zip(table["file"].to_pylist(), table["row"].to_pylist()))}
    named = zip(table["keep"].to_pylist(), table["kept_by_file"].to_pylist(), table["kept_by_row"].to_pylist())
    return np.array([row if keep else place[file, number] for row, (keep, file, number) in enumerate(named)])


def compared_pairs(texts: list[str]) -> set[tuple[int, int]]:
    """Pairs that share a band and whose signatures agree enough, left < right."""
    signed = sign(pa.array(texts, pa.large_string()))
    keys, compared = band_keys(signed.signatures), set()
    for band in range(BANDS):
        order = np.argsort(keys[:, band], kind="stable")
        for start, end in zip(cuts := group_offsets(keys[order, band]), cuts[1:]):
            pairs = group_pairs(np.zeros(end - start, np.uint64))
            left, right = order[start + pairs.left], order[start + pairs.right]
            enough = agreement_pairs(signed.signatures, left, right) >= COMPARED
            compared |= set(zip(left[enough].tolist(), right[enough].tolist()))
    return compared


def main(pairs: int = ENOUGH, megabytes: float = 8) -> bool:
    """Print both tables; whether all holds, retrieval only if there are enough pairs."""
    print("| Jaccard | pairs | retrieved % | S-curve % | difference, points |\n|---|---|---|---|---|")
    levels = retrieval(pairs)
    for level in levels:
        print(f"| {level.jaccard:.2f} | {level.pairs:,} | {100 * level.found:.2f} | {100 * level.expected:.2f} | {100 * (level.found - level.expected):+.2f} |")
    with tempfile.TemporaryDirectory() as folder:
        found = verdict(Path(folder), int(megabytes * 1e6))
    print(f"\n{found.rows:,} rows, {found.removed:,} removed: {found.under} of them under the threshold; similarities differ from the exact Jaccard by "
          f"{found.deviation:.1g} at most; {found.left} pairs of kept rows were compared and are within the threshold ({found.unretrieved} such pairs share no band)")
    on_curve = pairs < ENOUGH or all(abs(level.found - level.expected) <= ALLOWED for level in levels)
    return on_curve and not (found.under or found.left) and found.deviation <= 1e-6


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:2])))
