"""Marin's way: n-grams of white-space words inside a line, blake2b, dupekit's Bloom filter; one overlap removes.

Called as `datatrove_decontaminate.py` is. Marin's package is not published; of it only dupekit is, so the loop around the
filter is written here as its `decon.py` describes it, with 13 words (its default is 8) and a rate of false hits of 1e-12.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

import numpy as np
from dupekit import Bloom
from items import measure, read, records

WIDTH, FALSE_HITS = 13, 1e-12


def hashes(text: str) -> Iterator[int]:
    for line in text.split("\n"):
        found = line.split()
        for start in range(len(found) - WIDTH + 1):
            yield int.from_bytes(hashlib.blake2b(" ".join(found[start : start + WIDTH]).encode(), digest_size=8).digest(), "big")


def main() -> None:
    evals, source, out, random = sys.argv[1:]
    own = {each for text in records(evals) for each in hashes(text)}
    known = Bloom(len(own) + int(random), FALSE_HITS)
    known.update(own)
    known.update(np.random.default_rng(0).integers(0, 2**64, int(random), np.uint64).tolist())
    measure(read(source), lambda text: any(each in known for each in hashes(text)), out)


if __name__ == "__main__":
    main()
