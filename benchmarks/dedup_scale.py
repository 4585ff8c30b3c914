"""Dedup of many documents from the command line: time per document and peak memory per process, at several sizes.

`python benchmarks/dedup_scale.py [DOCUMENTS,...] [WORKERS] [FOLDER] [--keep]`, as 100000,1000000 2. Documents of about
1 kB in ten files. A fifth are copies with none to one in twenty words changed, of documents anywhere in the corpus, so
that groups are of one size however many documents there are: about half of the pairs stand over .75. Inputs are made
before the clock starts and deleted at the end, unless --keep is given.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

FILES = 10
WORDS = 50_000  # of the vocabulary, drawn by Zipf's law
LENGTH = (60, 240)  # words a document, 150 on average
CHUNK, COPIES = 1_000, 200  # documents that are drawn together, and how many of them repeat others
CHANGED = (0.0, 0.005, 0.02, 0.05)  # share of a copy's words that are others


class Vocabulary(NamedTuple):
    words: np.ndarray
    ends: np.ndarray  # cumulative shares

    @classmethod
    def of(cls, seed: int) -> Vocabulary:
        rng = np.random.default_rng([seed, 0])
        words = np.array(["".join(map(chr, rng.integers(97, 123, length))) for length in rng.integers(2, 10, WORDS)], object)
        share = np.cumsum(1 / np.arange(10, WORDS + 10))
        return cls(words, share / share[-1])

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return np.searchsorted(self.ends, rng.random(count))


def originals(vocabulary: Vocabulary, seed: int, chunk: int) -> list[np.ndarray]:
    """Words of the documents of a chunk that copy no other: a function of its number alone."""
    rng = np.random.default_rng([seed, 1, chunk])
    lengths = rng.integers(*LENGTH, CHUNK - COPIES)
    return np.split(vocabulary.draw(rng, int(lengths.sum())), np.cumsum(lengths)[:-1])


def documents_of(vocabulary: Vocabulary, seed: int, chunk: int, chunks: int) -> list[str]:
    rng = np.random.default_rng([seed, 2, chunk])
    drawn = originals(vocabulary, seed, chunk)
    others = originals(vocabulary, seed, int(rng.integers(chunks)))
    for place in rng.integers(len(others), size=COPIES):
        copy = others[place].copy()
        changed = np.flatnonzero(rng.random(len(copy)) < rng.choice(CHANGED))
        copy[changed] = vocabulary.draw(rng, len(changed))
        drawn.append(copy)
    return [" ".join(vocabulary.words[drawn[place]]) for place in rng.permutation(CHUNK)]


def write_file(number: int, folder: Path, documents: int, seed: int) -> int:
    """One file, chunk by chunk; bytes of text."""
    vocabulary, chunks, size = Vocabulary.of(seed), documents // CHUNK, 0
    with open(folder / f"{number:02d}.jsonl", "w") as file:
        for chunk in range(number, chunks, FILES):
            texts = documents_of(vocabulary, seed, chunk, chunks)
            size += sum(map(len, texts))
            file.writelines(json.dumps({"id": f"{chunk}-{row}", "text": text}) + "\n" for row, text in enumerate(texts))
    return size


def generate(folder: Path, documents: int, workers: int, seed: int = 0) -> int:
    """Write the files; bytes of text."""
    folder.mkdir(parents=True)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return sum(pool.map(partial(write_file, folder=folder, documents=documents, seed=seed), range(FILES), chunksize=1))


class Watch:
    """Largest memory of every process below `root`, in kB: resident with mapped files (VmHWM), and without them."""

    def __init__(self, root: int, timings: Path) -> None:
        self.root, self.timings = root, timings
        self.peak: dict[int, int] = {}
        self.own: dict[int, int] = {}
        self.steps: dict[str, float] = {}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def end(self) -> None:
        self.stop.set()
        self.thread.join()

    def _run(self) -> None:
        while not self.stop.wait(0.05):
            self._look()
            try:
                self.steps = json.loads(self.timings.read_text())
            except (OSError, ValueError):
                continue

    def _look(self) -> None:
        found = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                lines = dict(line.split(":", 1) for line in Path("/proc", entry, "status").read_text().splitlines())
            except (OSError, ValueError):
                continue
            kilobytes = [int(lines.get(name, "0 kB").split()[0]) for name in ("VmHWM", "RssAnon")]
            found[int(entry)] = (int(lines["PPid"]), *kilobytes)
        for pid in found:
            above = pid
            while above in found and above != self.root:
                above = found[above][0]
            if above == self.root:
                self.peak[pid] = max(self.peak.get(pid, 0), found[pid][1])
                self.own[pid] = max(self.own.get(pid, 0), found[pid][2])


def measure(folder: Path, documents: int, workers: int, keep: bool) -> float:
    """Run one size and print what it took; seconds of CPU a document."""
    size = generate(folder / f"in-{documents}", documents, workers)
    out = folder / f"out-{documents}"
    files = sorted(map(str, (folder / f"in-{documents}").iterdir()))
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    running = subprocess.Popen([sys.executable, "-m", "cuvee", "dedup", *files, "-o", str(out), "--workers", str(workers)], stderr=subprocess.DEVNULL)
    watch = Watch(running.pid, out / ".work" / "timings.json")
    code = running.wait()
    seconds, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    watch.end()
    if code:
        sys.exit(code)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(f"{documents:,} documents, {size / 1e6:,.0f} MB, {workers} workers: {seconds:.1f} s, {size / 1e6 / seconds:.1f} MB/s, "
          f"{seconds / documents * 1e6:.1f} us a document; CPU {cpu:.1f} s, {cpu / documents * 1e6:.1f} us a document")
    for name, peaks in (("resident", watch.peak), ("without mapped files", watch.own)):
        others = sorted((peak for pid, peak in peaks.items() if pid != running.pid), reverse=True)[:workers]
        print(f"  peak GB {name}: driver {peaks[running.pid] / 1e6:.2f}, workers {', '.join(f'{peak / 1e6:.2f}' for peak in others)}")
    print("  steps, us a document:", ", ".join(f"{name} {spent / documents * 1e6:.2f}" for name, spent in watch.steps.items()), flush=True)
    shutil.rmtree(out)
    if not keep:
        shutil.rmtree(folder / f"in-{documents}")
    return cpu / documents


def main() -> None:
    given = [each for each in sys.argv[1:] if each != "--keep"]
    sizes = [int(each) for each in (given[0] if given else "100000").split(",")]
    workers = int(given[1]) if len(given) > 1 else 2
    with tempfile.TemporaryDirectory(dir=given[2] if len(given) > 2 else None) as folder:
        spent = [measure(Path(folder), documents, workers, "--keep" in sys.argv) for documents in sizes]
    print(f"CPU a document, last size over first: {spent[-1] / spent[0]:.2f}")


if __name__ == "__main__":
    main()
