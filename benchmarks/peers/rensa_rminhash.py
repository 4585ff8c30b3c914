"""rensa's deduplicator, one row after another against those kept so far; shingles are made in Python, in one process."""

from __future__ import annotations

import re

from rensa import RMinHash, RMinHashDeduplicator
from rows import BANDS, ROWS, THRESHOLD, WIDTH, arguments, read, write_keepers, write_kept

BATCH = 2_000
SEED = 42
WORD = re.compile(r"\w+")


def shingles(text: str) -> list[str]:
    words = WORD.findall(text.lower())
    return [" ".join(words[place : place + WIDTH]) for place in range(max(1, len(words) - WIDTH + 1))]


def main() -> None:
    source, out, _ = arguments()
    lines, texts = read(source)
    known = RMinHashDeduplicator(THRESHOLD, BANDS * ROWS, True, BANDS, SEED)
    keepers: list[int] = []
    signed: list[RMinHash] = []
    for start in range(0, len(texts), BATCH):
        batch = RMinHash.from_token_sets([shingles(text) for text in texts[start : start + BATCH]], BANDS * ROWS, SEED)
        added = known.add_pairs([(str(start + place), each) for place, each in enumerate(batch)])
        signed += batch
        for row, (new, each) in enumerate(zip(added, batch), start):
            earlier = [] if new else [key for key in map(int, known.get_duplicates(each)) if key < row]
            keepers.append(max(earlier, key=lambda key: (each.jaccard(signed[key]), -key), default=row))
    write_kept(out, lines, keepers)
    write_keepers(out, keepers)


if __name__ == "__main__":
    main()
