"""Precision and recall of decontamination on planted items, with and without the rule for boilerplate; MB/s of the scan.

    python benchmarks/decontaminate.py [--peer datatrove=PYTHON] [--peer dupekit=PYTHON]

Carriers are pieces of the bundled corpus; `planted.py` says what is planted in them. A peer is `peers/NAME_decontaminate.py`,
run by the interpreter of an environment of its own (`pip install datatrove==0.10.1 spacy "xxhash<4"`; `pip install
marin-dupekit==0.1.1 numpy`). All scans are of the same documents, in CPU seconds of one process, reading excluded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import planted
import pyarrow as pa
import pyarrow.parquet as pq
from slow_words import GRAM, Runs, leaves, words

from cuvee import standalone
from cuvee.config import Decontaminate
from cuvee.engine.local import LocalEngine
from cuvee.engine.progress import Progress
from cuvee.kernels.ngrams import FeatureSet, features, scan
from cuvee.kernels.text import buffers, cut, nfc
from cuvee.kernels.words import tokenize

ROOT = Path(__file__).resolve().parents[1]
LEAST, MOST = 300, 1200  # characters of a carrier
FILES = 5
SIZES = (1_000_000, 20_000_000)  # features of the scan
BATCH = 4_000_000  # bytes of text tokenised at a time


class Verdict(NamedTuple):
    """What a tool says of each document, in the order of `Planted.documents`."""

    removed: list[bool]
    items: list[set[str]] | None  # None: the tool does not name them all


def corpus(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".txt" and "LICENSES" not in path.parts:
            yield path.read_text(encoding="utf-8")
        elif path.suffix == ".parquet":
            yield from (row.get("body", row.get("text")) for row in pq.read_table(path).to_pylist())
        elif ".jsonl" in path.name:
            with pa.input_stream(path, compression="detect") as file:
                yield from (row.get("text", row.get("content")) for row in map(json.loads, file.read().splitlines()))


def pieces(texts: Iterable[str]) -> list[str]:
    """LEAST to MOST characters each, cut at the last line end, else at a space."""
    found = []
    for text in texts:
        start = 0
        while len(text) - start > LEAST:
            end = max(text.rfind("\n", start + LEAST, start + MOST), text.rfind(" ", start + MOST - 100, start + MOST))
            end = end if end > 0 and len(text) - start > MOST else min(len(text), start + MOST)
            found.append(text[start:end].strip())
            start = end
    return found


def write(made: planted.Planted, folder: Path) -> None:
    for name, records in made.evals.items():
        _write(folder / "evals" / name, records)
    for number in range(FILES):
        _write(folder / "in" / f"part-{number}.jsonl", ({"text": document.text} for document in made.documents[number::FILES]))


def _write(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")


def cuvee(folder: Path, boilerplate: bool, workers: int = 1) -> Verdict:
    engine, out = LocalEngine(workers), folder / f"out-{boilerplate}"
    call = standalone.Call(sorted(map(str, (folder / "in").iterdir())), str(out), "text", None, engine, Progress())
    standalone.decontaminate(call, Decontaminate(boilerplate=boilerplate), sorted(map(str, (folder / "evals").iterdir())), None)
    engine.close()
    rows = sorted(pq.read_table(out / "decontaminate.parquet").to_pylist(), key=lambda row: (row["row"], row["file"]))
    return Verdict([not row["keep"] for row in rows], [set(row["items"]) for row in rows])


def peer(name: str, python: str, folder: Path, count: int) -> tuple[Verdict, float]:
    """Its verdict, and MB of text a CPU second."""
    script, out = ROOT / "benchmarks" / "peers" / f"{name}_decontaminate.py", folder / name
    command = [python, str(script), str(folder / "evals"), str(folder / "in"), str(out), str(SIZES[0])]
    speed = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()[-1])
    removed = {(int(row), int(file[5])) for file, row in map(str.split, out.read_text().splitlines())}
    return Verdict([divmod(place, FILES) in removed for place in range(count)], None), speed


def scan_speed(made: planted.Planted, size: int) -> float:
    """MB of text a CPU second: NFC, words, search among `size` features. The best of three."""
    items = ["\n".join(leaves(record)) for records in made.evals.values() for record in records]
    own, rng = features(tokenize(*buffers(nfc(pa.array(items))))), np.random.default_rng(0)
    hashes, first = np.unique(np.append(own.hashes, rng.integers(0, 2**64, size, np.uint64)), return_index=True)
    anchors, lengths = np.append(own.anchors, rng.integers(0, 2**64, size, np.uint64)), np.append(own.lengths, np.full(size, GRAM))
    known = FeatureSet.build(hashes, anchors[first], lengths[first])
    batches = list(cut(pa.chunked_array([pa.array([document.text for document in made.documents], pa.large_string())]), BATCH))
    seconds = []
    for _ in range(4):  # the first compiles
        start = time.process_time()
        for texts in batches:
            scan(tokenize(*buffers(nfc(texts))), known)
        seconds.append(time.process_time() - start)
    return sum(len(document.text.encode()) for document in made.documents) / min(seconds[1:]) / 1e6


def true_pairs(made: planted.Planted, places: Sequence[int], verdict: Verdict) -> tuple[int, int]:
    """Named (document, item) pairs, and those that a slow search of words confirms."""
    known = {f"{file}:{row}": Runs.of(record) for file, records in made.evals.items() for row, record in enumerate(records)}
    named = [(place, item) for place in places for item in verdict.items[place]]
    return len(named), sum(known[item].occur(words(made.documents[place].text)) for place, item in named)


def table(made: planted.Planted, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """Lines of a Markdown table: of planted documents the share that goes, of the others too."""
    yield f"| documents | count | {' | '.join(verdicts)} | pairs named | true |"
    yield "|---|---|" + "---|" * (len(verdicts) + 2)
    families = {family: [place for place, document in enumerate(made.documents) if document.family == family] for family in planted.FAMILIES}
    for family, places in families.items():
        shares = [sum(verdict.removed[place] for place in places) / len(places) for verdict in verdicts.values()]
        pairs, true = true_pairs(made, places, next(iter(verdicts.values())))
        yield f"| {family} | {len(places):,} | {' | '.join(f'{share:.3f}' for share in shares)} | {pairs:,} | {true:,} |"
    for name, figure in (("**precision**", precision), ("**recall**", recall)):
        yield f"| {name} | | {' | '.join(f'{figure(made, verdict):.4f}' for verdict in verdicts.values())} | | |"


def precision(made: planted.Planted, verdict: Verdict) -> float:
    return sum(bool(document.items) for document, gone in zip(made.documents, verdict.removed) if gone) / sum(verdict.removed)


def recall(made: planted.Planted, verdict: Verdict) -> float:
    """Of planted documents those that go, the planted item named where the tool names items."""
    places = [place for place, document in enumerate(made.documents) if document.items]
    named = sum(verdict.removed[place] and (verdict.items is None or made.documents[place].items <= verdict.items[place]) for place in places)
    return named / len(places)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    peers = [each.split("=", 1) for each in parser.parse_args().peer]
    real = {path.name: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            for path in sorted((ROOT / "examples" / "evals").glob("*.jsonl"))}  # fmt: skip
    made = planted.build(pieces(corpus(ROOT / "examples" / "corpus")), real, planted.Size())
    size = sum(len(document.text.encode()) for document in made.documents) / 1e6
    print(f"{len(made.documents):,} documents in {FILES} files, {size:.1f} MB; {sum(map(len, made.evals.values())):,} items in {len(made.evals)} files", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        write(made, Path(folder))
        verdicts = {"rule on": cuvee(Path(folder), True), "rule off": cuvee(Path(folder), False)}
        speeds = {f"cuvee, {count / 1e6:.0f} M features": scan_speed(made, count) for count in SIZES}
        for name, python in peers:
            verdicts[name], speeds[f"{name}, {SIZES[0] / 1e6:.0f} M features"] = peer(name, python, Path(folder), len(made.documents))
    print(*table(made, verdicts), sep="\n")
    for name, speed in speeds.items():
        print(f"{name}: {speed:.1f} MB/s a core")


if __name__ == "__main__":
    main()
