"""Dedup of many documents from the command line: wall time, MB/s of text, and the peak memory of each process.

`python benchmarks/dedup_scale.py [DOCUMENTS] [WORKERS] [FOLDER]`, as 300000 2. Documents of about 1 kB in ten files, a
fifth of them near-duplicates: one in twenty words of an earlier document changed, so that most pairs stand over .5 and
about half over .75.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

FILES = 10
WORDS = 50_000  # of the vocabulary, drawn by Zipf's law
LENGTH = 150    # words a document, 60 to 240
COPIES = 0.2    # share of documents that repeat an earlier one
CHANGED = (0.0, 0.005, 0.02, 0.05)  # share of a copy's words that are others


def generate(folder: Path, documents: int, seed: int = 0) -> int:
    """Write the files, unless they are there; bytes of text."""
    done = folder.with_suffix(f".{documents}.bytes")
    if done.exists():
        return int(done.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 10, WORDS)
    words = np.array(["".join(map(chr, rng.integers(97, 123, length))) for length in lengths])
    share = 1 / np.arange(10, WORDS + 10)
    share /= share.sum()
    per_file, texts, total = documents // FILES, [], 0
    for number in range(FILES):
        with open(folder / f"{number:02d}.jsonl", "w") as file:
            for row in range(per_file):
                if texts and rng.random() < COPIES:
                    drawn = texts[int(rng.integers(len(texts)))].copy()
                    changed = rng.random(len(drawn)) < rng.choice(CHANGED)
                    drawn[changed] = rng.choice(WORDS, int(changed.sum()), p=share)
                else:
                    drawn = rng.choice(WORDS, int(rng.integers(LENGTH * 2 // 5, LENGTH * 8 // 5)), p=share)
                    if len(texts) < 100_000:
                        texts.append(drawn.astype(np.int32))
                text = " ".join(words[drawn])
                total += len(text)
                file.write(json.dumps({"id": f"{number}-{row}", "text": text, "when": row}) + "\n")
    done.write_text(str(total))
    return total


def peaks(root: int, found: dict[int, int], stop: threading.Event) -> None:
    """Largest resident kB (VmHWM) of every process below `root`, looked up every tenth of a second."""
    while not stop.wait(0.1):
        parent = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    lines = dict(line.split(":", 1) for line in Path("/proc", entry, "status").read_text().splitlines())
                    parent[int(entry)] = (int(lines["PPid"]), int(lines.get("VmHWM", "0 kB").split()[0]))
                except (OSError, ValueError):
                    continue
        for pid, (above, peak) in parent.items():
            while above != root and pid != root and above in parent:
                above = parent[above][0]
            if above == root or pid == root:
                found[pid] = max(found.get(pid, 0), peak)


def main() -> None:
    documents, workers = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000, sys.argv[2] if len(sys.argv) > 2 else "2"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[3] if len(sys.argv) > 3 else temporary)
        size = generate(folder / "in", documents)
        out = folder / f"out-{time.time_ns()}"
        start, stop, found = time.monotonic(), threading.Event(), {}
        files = sorted(map(str, (folder / "in").iterdir()))
        running = subprocess.Popen([sys.executable, "-m", "cuvee", "dedup", *files, "-o", str(out), "--workers", workers])
        watch = threading.Thread(target=peaks, args=(running.pid, found, stop))
        watch.start()
        running.wait()
        seconds, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        stop.set()
        watch.join()
        biggest = ", ".join(f"{peak / 1e6:.2f}" for peak in sorted(found.values(), reverse=True)[: int(workers) + 1])
        cpu = used.ru_utime + used.ru_stime
        print(f"{documents:,} documents, {size / 1e6:,.0f} MB: {seconds:.1f} s, {size / 1e6 / seconds:.1f} MB/s; "
              f"{cpu:.1f} s of CPU, {size / 1e6 / cpu:.1f} MB/s a core; peak GB a process: {biggest}")
        sys.exit(running.returncode)


if __name__ == "__main__":
    main()
