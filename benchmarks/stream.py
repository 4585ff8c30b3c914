"""The stream beside plain reads of the same rows: places a second, and MB a second from a memory map.

    python benchmarks/stream.py [--domains 200] [--megabytes 800] [--folder DIR]

Makes a store of that size (weights from 1e-5 up), then, in turns: `places` alone; `take` of batches; the same rows of
one flat file by numpy's own indexing of a memory map, which knows nothing of domains or order. Warm: the file is in
memory. Cold: its pages are given back before each pass (a disk that caches by itself may still hold them).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from cuvee.kernels.simplex import quantize
from cuvee.steps.stream import VERSION, Stream

SEQ_LEN, ROUNDS, ROWS = 2048, 5, 16_384  # rows a pass
PARTS = 1_048_576


def store(folder: Path, domains: int, megabytes: int) -> Stream:
    """Rows of random tokens, a file a domain and the same in one file; the sizes of domains differ a hundredfold."""
    rng = np.random.default_rng(0)
    counts = quantize((sizes := np.geomspace(1, 100, domains)) / sizes.sum(), megabytes * 1_000_000 // (2 * (SEQ_LEN + 1)))
    weights = np.geomspace(1e-5, 1, domains)
    parts = np.maximum(quantize(weights / weights.sum(), PARTS), 10)
    parts[-1] += PARTS - parts.sum()
    with open(folder / "flat.bin", "wb") as flat:
        for number, count in enumerate(counts):
            rows = rng.integers(0, 2**16, (count, SEQ_LEN + 1), np.uint16)
            np.save(folder / f"d{number:03d}.npy", rows)
            rows.tofile(flat)
    os.sync()
    names = [{"name": f"d{number:03d}", "rows": f"d{number:03d}.npy", "count": int(count)} for number, count in enumerate(counts)]
    return Stream(str(folder), {"version": VERSION, "seed": 0, "seq_len": SEQ_LEN, "vocab": 2**16, "end": 0, "tokenizer": "", "budget": 10**12,
                                "domains": names, "segments": [{"start": 0, "parts": parts.tolist()}]})


def fresh(stream: Stream, folder: Path, cold: bool) -> tuple[Stream, np.ndarray]:
    """New maps of all files, their pages given back to the system if cold."""
    stream = Stream(str(folder), stream.description)
    if cold:
        for path in sorted(folder.iterdir()):
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return stream, np.memmap(folder / "flat.bin", np.uint16, "r").reshape(-1, SEQ_LEN + 1)


def seconds(call, clock=time.perf_counter) -> float:
    start = clock()
    call()
    return clock() - start


def passes(stream: Stream, folder: Path, batch: int, cold: bool) -> tuple[float, float]:
    """Median seconds in which `ROWS` elements are taken, and in which the same rows are read plainly, in turns.

    Warm passes are timed by the CPU, which other work on the machine leaves alone; cold ones by the wall.
    """
    first = np.cumsum([0] + [each["count"] for each in stream.description["domains"]])
    clock, found = time.perf_counter if cold else time.process_time, ([], [])
    for turn in range(2 * ROUNDS):
        starts = range(turn // 2 * 7_000_000, turn // 2 * 7_000_000 + ROWS, batch)
        rows = [(places := stream.places(np.arange(start, start + batch))).row + first[places.domain] for start in starts]
        opened, flat = fresh(stream, folder, cold)
        calls = [lambda opened=opened, starts=starts: [opened.take(start, batch) for start in starts],
                 lambda flat=flat, rows=rows: [flat[each].astype(np.int32) for each in rows]]
        if not cold:
            calls[turn % 2]()
        found[turn % 2].append(seconds(calls[turn % 2], clock))
    return float(np.median(found[0])), float(np.median(found[1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--domains", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=800)
    parser.add_argument("--folder", help="on the disk that is to be measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        folder = Path(temporary)
        stream = store(folder, arguments.domains, arguments.megabytes)
        k = np.arange(5_000_000, 6_000_000)
        stream.places(k[:10])
        rate = len(k) / min(seconds(lambda: stream.places(k), time.process_time) for _ in range(ROUNDS))
        print(f"{arguments.domains} domains, rows of {SEQ_LEN + 1} tokens of 2 bytes, {arguments.megabytes} MB, one thread.\n")
        print(f"Position to domain, epoch and row: {rate / 1e6:.2f} M rows/s of CPU.\n")
        print("| batch | memory | take, MB/s | plain reads, MB/s | take / plain |\n|---|---|---|---|---|")
        for batch, cold in ((64, False), (64, True), (1024, False), (1024, True)):
            rates = [ROWS * 2 * (SEQ_LEN + 1) / 1e6 / each for each in passes(stream, folder, batch, cold)]
            print(f"| {batch} | {'cold' if cold else 'warm'} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rates[0] / rates[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
