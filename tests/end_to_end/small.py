"""A recipe of all steps that ends in well under 30 s, and ways to run it, kill it, and compare what it leaves."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from tests.steps import corpus

VOLATILE = ("timings.json", "inputs.json", ".lock", "report.html")  # times, and what depends on times


def write_recipe(folder: Path, name: str = "recipe.yaml", work: str = "work", documents: int = 420) -> Path:
    """Three sources, one of them with copies of another's texts, and an evaluation of which some items occur."""
    sources = corpus.write(folder / "raw", documents)
    lines = (folder / "raw" / "sea.jsonl").read_text().splitlines()
    (folder / "raw" / "again.jsonl").write_text("\n".join(lines[:40] + [lines[50].replace("whale", "shark"), lines[51][:-2] + ' Ahoy."}']))
    sources.append({"name": "again", "path": str(folder / "raw" / "again.jsonl"), "license": "CC0-1.0"})
    texts = [json.loads(line)["text"] for line in (folder / "raw" / "law.jsonl").read_text().splitlines()]
    items = [{"q": " ".join(texts[n].split()[:20]), "a": " ".join(texts[n].split()[20:30])} for n in range(4)]
    items += [{"q": f"Which word of {topic} is number {n}?", "a": words[n]} for topic, words in corpus.WORDS.items() for n in range(12)]
    (folder / "raw" / "qa.jsonl").write_text("\n".join(map(json.dumps, items)))
    recipe = {
        "work": str(folder / work), "sources": sources, "licenses": {"allow": ["MIT", "CC0-1.0"]},
        "evals": [{"name": "qa", "path": str(folder / "raw" / "qa.jsonl"), "context": "{q} ", "continuation": "{a}"}],
        "ingest": {"shard_bytes": 100_000}, "tokenizer": {"train": {"vocab": 512}}, "tokenize": {"seq_len": 32},
        "embed": {"dimensions": 16}, "topics": {"count": 3}, "quality": {"bands": 2, "target": ["law"], "min_documents": 50},
        "budget": {"target": 40_000, "proxy": 8_000}, "swarm": {"depth": 1, "batch": 8, "runs": 18, "rounds": 2, "max_floored": 1.0},
        "mix": {"tasks": {"heldout/t00.q1": 1.0}},  # which the natural mixture serves badly, so that there is a second round
        "validate": {"sizes": [{"depth": 1, "budget_factor": 1.5}, {"depth": 1, "budget_factor": 2}], "seeds": 2}}
    path = folder / name
    path.write_text(yaml.safe_dump(recipe))
    return path


def start(recipe: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "cuvee", "run", str(recipe), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(recipe: Path, *options: str) -> str:
    """Run to the end; what was printed."""
    process = start(recipe, *options)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    return output


def files(work: Path) -> dict[str, str]:
    """Every file that a run leaves, but those that hold times, with its checksum."""
    paths = (path for path in sorted(work.rglob("*")) if path.is_file() and path.name not in VOLATILE)
    return {str(path.relative_to(work)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def children(pid: int) -> list[int]:
    """Processes that `pid` started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return sorted(found)


def workers(pid: int) -> list[int]:
    """Worker processes of a driver, without multiprocessing's resource tracker."""
    return [child for child in children(pid) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def steps(work: Path) -> int:
    """How many steps have begun, by their manifests."""
    return sum(1 for _ in work.rglob("manifest.json"))


def kill(process: subprocess.Popen, what: str, work: Path, begun: int, delay: float) -> bool:
    """SIGKILL the driver, or one of its workers, `delay` seconds after so many steps have begun; whether there was one to hit."""
    while process.poll() is None and steps(work) < begun:
        time.sleep(0.005)
    time.sleep(delay)
    targets = [process.pid] if what == "driver" else workers(process.pid)
    if process.poll() is not None or not targets:
        return False
    target = targets[int(delay * 1e6) % len(targets)]
    os.kill(target, signal.SIGKILL)
    return True
