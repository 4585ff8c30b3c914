"""Deduplication side by side with other tools on the same documents: python benchmarks/dedup.py [--full]

Makes the corpus (`near_duplicates.py`), a virtual environment for each tool, runs all of them in turn on the same files,
and prints Markdown: speed, memory, quality against exact Jaccard, then what `dedup_acceptance.py` holds us to. Without
`--full` the corpus is small, so that tools that start slowly look slow.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import dedup_acceptance
import numpy as np
import pyarrow.parquet as pq
from dedup_quality import Quality, Truth, quality
from exact_jaccard import shingle_sets
from near_duplicates import documents, write
from process_tree import Usage, run

THRESHOLD = 0.75
PEERS = Path(__file__).parent / "peers"
WARM = 300_000  # characters of the corpus that every tool runs on first: it compiles, caches, and shows what fails


@dataclass(frozen=True)
class Tool:
    """A peer's script and what pip installs for it, one list a call."""

    name: str
    package: str  # whose version is shown
    script: str
    installs: Sequence[Sequence[str]]


TOOLS = [
    Tool("datatrove", "datatrove", "datatrove_minhash.py", [["datatrove", "orjson", "xxhash<4", "spacy", "nltk", "regex", "tokenizers"]]),
    # its command for MinHash imports these; its other commands need Spark, onnxruntime and Sphinx, which are left out
    Tool("text-dedup", "text-dedup", "text_dedup_minhash.py", [
        ["--no-deps", "text-dedup"], ["bitarray", "click", "click-option-group", "datasets", "ftfy", "numpy", "psutil", "regex", "rich<14", "scipy", "tqdm", "xxhash"]]),
    Tool("rensa", "rensa", "rensa_rminhash.py", [["rensa"]]),
    Tool("Daft", "daft", "daft_minhash.py", [["daft"]]),
    Tool("dupekit", "marin-dupekit", "dupekit_minhash.py", [["marin-dupekit", "pyarrow"]]),
]


class Result(NamedTuple):
    usage: Usage
    keeper: np.ndarray  # int64 (rows,)


class Failed(Exception):
    """A tool that could not be installed or run, and its last words."""


def python_of(tool: Tool, venvs: Path) -> str:
    """The tool's own interpreter; its environment is made where it is not there yet. Never torch."""
    folder = venvs / tool.package
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        for install in tool.installs:
            done = subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *install], capture_output=True, text=True)
            if done.returncode:
                raise Failed("pip: " + last_line(done.stderr))
        if any(folder.glob("lib/*/site-packages/torch")):
            raise Failed("it installs torch")
        (folder / "complete").touch()
    return str(python)


def version_of(tool: Tool, python: str) -> str:
    script = f"import importlib.metadata; print(importlib.metadata.version('{tool.package}'))"
    return subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout.strip()


def run_tool(command: Sequence[str], out: Path, limit: float) -> Usage:
    usage = run(command, out.with_suffix(".log"), limit)
    if usage.status:
        reason = f"over {limit:.0f} s" if usage.status == -signal.SIGKILL else f"exit status {usage.status}"
        raise Failed(f"{reason}: {last_line(out.with_suffix('.log').read_text(errors='replace'))}")
    return usage


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")[:200]


def run_peer(tool: Tool, python: str, source: Path, out: Path, workers: int, limit: float) -> Result:
    usage = run_tool([python, str(PEERS / tool.script), str(source), str(out), str(workers)], out, limit)
    return Result(usage, np.loadtxt(out / "keepers.txt", np.int64, ndmin=1))


def run_ours(source: Path, out: Path, workers: int, limit: float) -> Result:
    files = sorted(map(str, source.iterdir()))
    usage = run_tool([sys.executable, "-m", "cuvee", "dedup", *files, "-o", str(out), "--threshold", str(THRESHOLD), "--workers", str(workers)], out, limit)
    return Result(usage, dedup_acceptance.keepers(pq.read_table(out / "dedup.parquet")))


def side_by_side(folder: Path, venvs: Path, size: int, rounds: int, workers: int) -> None:
    """Run every tool in every round, each round from another one on, and print a row for the best of each."""
    small, corpus = folder / "small", folder / "corpus"
    write(small, documents(WARM, seed=7))
    made = documents(size, seed=0)
    write(corpus, made)
    texts = [document.text for document in made]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    truth = Truth.of(shingle_sets(texts), THRESHOLD)
    print(f"{len(texts):,} English documents of 2-10 kB, {megabytes:.1f} MB; {truth.left.size:,} pairs at {THRESHOLD} or more; {workers} workers; best of {rounds} rounds; "
          f"{machine()}\n", flush=True)
    calls, versions, failed = prepare(small, venvs, folder, workers)
    best: dict[str, Result] = {}
    for number in range(rounds):
        names = list(calls)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            try:
                result = calls[name](corpus / "in", folder / f"{name}-{number}", workers, 60 + 20 * megabytes)
            except Failed as error:
                failed[name] = str(error)
                del calls[name]
                continue
            if name not in best or result.usage.wall < best[name].usage.wall:
                best[name] = result
    print_tables({name: (versions[name], result.usage, quality(result.keeper, truth)) for name, result in best.items()}, failed, megabytes)


def prepare(small: Path, venvs: Path, folder: Path, workers: int) -> tuple[dict, dict[str, str], dict[str, str]]:
    """Install and try every tool on a little text -> how to call those that work, versions, and why others do not"""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=PEERS, capture_output=True, text=True).stdout.strip()
    calls, versions, failed = {"Cuvee": run_ours}, {"Cuvee": commit or "this checkout"}, {}
    run_ours(small / "in", folder / "Cuvee-small", workers, 600)
    for tool in TOOLS:
        try:
            python = python_of(tool, venvs)
            run_peer(tool, python, small / "in", folder / f"{tool.name}-small", workers, 600)
        except Failed as error:
            failed[tool.name] = str(error)
            continue
        calls[tool.name] = lambda source, out, count, limit, tool=tool, python=python: run_peer(tool, python, source, out, count, limit)
        versions[tool.name] = version_of(tool, python)
    return calls, versions, failed


def print_tables(rows: dict[str, tuple[str, Usage, Quality]], failed: dict[str, str], megabytes: float) -> None:
    print("| tool | version | s | s of CPU | MB/s | MB/s a core | peak GB |\n|---|---|---|---|---|---|---|")
    for name, (version, usage, _) in rows.items():
        print(f"| {name} | {version} | {usage.wall:.1f} | {usage.cpu:.1f} | {megabytes / usage.wall:.2f} | {megabytes / usage.cpu:.2f} | {usage.memory / 1e9:.2f} |")
    print("\n| tool | removed | precision | recall | F1 | B-cubed precision | B-cubed recall | largest group | removed within the threshold of their keeper | kept within it of another kept |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, (_, _, found) in rows.items():
        print(f"| {name} | {found.removed:,} | {found.precision:.4f} | {found.recall:.4f} | {found.f1:.4f} | {found.bcubed_precision:.4f} | {found.bcubed_recall:.4f} | "
              f"{found.largest} | {100 * found.faithful:.2f} % | {found.missed:,} |")
    for name, reason in failed.items():
        print(f"\n{name} could not be run: {reason}")
    sys.stdout.flush()


def machine() -> str:
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores of {model}, load {os.getloadavg()[0]:.1f} before the start, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="60 MB, two rounds, 20,000 pairs a level")
    parser.add_argument("--megabytes", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--venvs", type=Path, help="folder of the tools' environments, to use them again")
    parser.add_argument("--no-acceptance", action="store_true")
    arguments = parser.parse_args()
    megabytes, rounds, pairs = (60, 2, 20_000) if arguments.full else (4, 1, 1_000)
    with tempfile.TemporaryDirectory() as temporary:
        side_by_side(Path(temporary), arguments.venvs or Path(temporary) / "venvs", int(1e6 * (arguments.megabytes or megabytes)), arguments.rounds or rounds, arguments.workers)
    if not arguments.no_acceptance:
        print()
        sys.exit(not dedup_acceptance.main(pairs))


if __name__ == "__main__":
    main()
