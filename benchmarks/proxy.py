"""Speed of the proxies beside PyTorch, of groups on a CPU, and whether the learning rates carry over from depth to depth.

`python benchmarks/proxy.py` prints Markdown in under ten minutes on two idle cores. `--parts speed,groups,rates,forms` takes
some of it, `--seconds` and `--rounds` set how long each measurement lasts and how often it is repeated, `--venvs DIR`
keeps PyTorch's environment (torch 2.13.0, CPU) for the next call. All processes of a size are started and warm before
any is measured; then they are measured in turn, round after round, and the median of the rounds counts. On a machine
with other work compare by seconds of CPU only.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PEER = ROOT / "benchmarks" / "peers" / "torch_proxy.py"
TORCH = ("torch==2.13.0", "numpy", "setuptools")
VOCAB, SEQ, BATCH = 8192, 256, 16
DEPTHS = "2,4"  # widths 64 and 128
STEPS = 2_000  # that there are rows for; more than all rounds take
TEXTS = {"handbook_en": "text", "office_en": "text", "cpython": "content"}  # of examples/corpus, JSONL: the key of the text
FACTORS = {"layers": (0.25, 0.5, 1, 2, 4), "head": (0.5, 2), "embed": (0.5, 2)}  # on the rule's rates; 1 is the same proxy for all
SWEEP_VOCAB, SWEEP_SEQ, SWEEP_DEPTHS, HELD = 2048, 128, (2, 3, 4), 128  # of the sweeps; rows that are held out
FORMS = ("", "mlp=swiglu", "tied=true", "optimizer=muon")


class Rate(NamedTuple):
    wall: float  # tokens a second
    cpu: float   # tokens a second of CPU


class Timed:
    """A process that trains when told to: a line of seconds in; tokens, seconds and seconds of CPU out."""

    def __init__(self, command: list[str]) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ready(self) -> None:
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit(f"{' '.join(self._process.args)} did not start")

    def begin(self, seconds: float) -> None:
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def end(self) -> tuple[float, float, float]:
        return tuple(map(float, self._process.stdout.readline().split()))

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def measured(calls: dict[Any, list[Timed]], rounds: int, seconds: float) -> dict[Any, Rate]:
    """Tokens a second of each call, the processes of which run side by side: the medians of the rounds, taken in turn."""
    for each in {process for processes in calls.values() for process in processes}:
        each.ready()
    found: dict[Any, list[Rate]] = {name: [] for name in calls}
    for number in range(rounds):
        names = list(calls)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            for process in calls[name]:
                process.begin(seconds)
            ends = [process.end() for process in calls[name]]
            found[name].append(Rate(sum(tokens / took for tokens, took, _ in ends), sum(end[0] for end in ends) / sum(end[2] for end in ends)))
    for each in {process for processes in calls.values() for process in processes}:
        each.stop()
    return {name: Rate(*map(statistics.median, zip(*rates))) for name, rates in found.items()}


def ours(depth: int, group: int) -> Timed:
    return Timed([sys.executable, __file__, "--worker", f"{depth},{group}"])


def worker(depth: int, group: int) -> None:
    """Train `group` proxies together on random rows, for as long as each line of stdin says."""
    from cuvee.proxy.model import ProxyConfig
    from cuvee.proxy.train import Group

    config = ProxyConfig(VOCAB, SEQ, depth, BATCH)
    rows = np.random.default_rng(0).integers(0, VOCAB, (STEPS * BATCH, SEQ + 1), np.uint16)
    runs = Group(config, [rows] * group, range(group))
    state = runs.advance(runs.begin(), 3)
    print("ready", flush=True)
    for line in sys.stdin:
        start, cpu, first = time.perf_counter(), time.process_time(), state.step
        while time.perf_counter() - start < float(line):
            state = runs.advance(state, state.step + 1)
            state.losses[-1].block_until_ready()
        print((state.step - first) * group * BATCH * SEQ, time.perf_counter() - start, time.process_time() - cpu, flush=True)


def torch_python(venvs: Path) -> str:
    """The interpreter of an environment with PyTorch for CPUs; made where it is not there yet."""
    folder = venvs / "torch"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TORCH], check=True)
        (folder / "complete").touch()
    return str(python)


def speed(venvs: Path, depths: list[int], rounds: int, seconds: float) -> None:
    python = torch_python(venvs)
    print(f"Training, tokens/s, random rows, vocabulary {VOCAB}, {SEQ} tokens a row, {BATCH} rows a step\n")
    print("| model | cores | Cuvee | PyTorch eager | torch.compile | Cuvee / eager | / compile | by CPU: Cuvee / eager | / compile |\n|---|---|---|---|---|---|---|---|---|")
    for depth in depths:
        pair = [ours(depth, 1), ours(depth, 1)]
        calls = {("Cuvee", 1): pair[:1], ("Cuvee", 2): pair}
        for threads, mode in itertools.product((1, 2), ("eager", "compile")):
            calls[mode, threads] = [Timed([python, str(PEER), *map(str, (depth, VOCAB, SEQ, BATCH, threads)), mode])]
        found = measured(calls, rounds, seconds)
        for cores in (1, 2):
            mine, eager, compiled = (found[name, cores] for name in ("Cuvee", "eager", "compile"))
            ratios = [mine.wall / eager.wall, mine.wall / compiled.wall, mine.cpu / eager.cpu, mine.cpu / compiled.cpu]
            print(f"| d{32 * depth} L{depth} | {cores} | {mine.wall:,.0f} | {eager.wall:,.0f} | {compiled.wall:,.0f} | "
                  f"{' | '.join(f'{ratio:.2f}' for ratio in ratios)} |", flush=True)


def groups(depths: list[int], rounds: int, seconds: float) -> None:
    print("\nProxies in groups on a CPU, two processes of one thread side by side, tokens/s\n")
    print("| model | group: auto (1) | group: 2 | group: 4 | auto / the better | by CPU |\n|---|---|---|---|---|---|")
    for depth in depths:
        found = measured({size: [ours(depth, size), ours(depth, size)] for size in (1, 2, 4)}, rounds, seconds)
        ratios = [found[1][kind] / max(rate[kind] for rate in found.values()) for kind in (0, 1)]
        print(f"| d{32 * depth} L{depth} | {' | '.join(f'{found[size].wall:,.0f}' for size in found)} | {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True)


class Sweep(NamedTuple):
    """A proxy to train: its depth, changes to its form, and a factor on the rate of its `layers`, `head` or `embed`."""

    depth: int
    form: str = ""  # such as mlp=swiglu
    part: str = "layers"
    factor: float = 1


def quality(tokens: int, kinds: list[str]) -> None:
    """Held-out loss by depth and factor on each of the learning rates; and by form."""
    rates = [Sweep(depth, "", part, factor) for part, factors in FACTORS.items() for depth, factor in itertools.product(SWEEP_DEPTHS, factors)]
    forms = [Sweep(depth, form) for depth, form in itertools.product(SWEEP_DEPTHS, FORMS)]
    wanted = list(dict.fromkeys((rates if "rates" in kinds else []) + (forms if "forms" in kinds else [])))
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npy"
        np.save(rows, corpus_rows())
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            found = dict(zip(wanted, pool.map(swept, wanted, itertools.repeat(tokens), itertools.repeat(str(rows)))))
    print(f"\nHeld-out nats a token after {tokens:,} tokens of examples/corpus ({', '.join(TEXTS)}), vocabulary {SWEEP_VOCAB}, "
          f"{SWEEP_SEQ} tokens a row, {BATCH} rows a step; one seed\n")
    if "rates" in kinds:
        print(f"| rate of | model | {' | '.join(f'x {factor:g}' for factor in FACTORS['layers'])} | best |\n|---|---|{'---|' * (len(FACTORS['layers']) + 1)}")
        for part, depth in itertools.product(FACTORS, SWEEP_DEPTHS):
            losses = {factor: found[Sweep(depth, "", part, factor)] for factor in FACTORS[part]} | {1: found[Sweep(depth)]}
            shown = " | ".join(f"{losses[factor]:.3f}" if factor in losses else "" for factor in FACTORS["layers"])
            print(f"| {part} | d{32 * depth} L{depth} | {shown} | x {min(losses, key=losses.get):g} |")
    if "forms" in kinds:
        print(f"\n| model | {' | '.join(form or 'default' for form in FORMS)} |\n|---|{'---|' * len(FORMS)}")
        for depth in SWEEP_DEPTHS:
            print(f"| d{32 * depth} L{depth} | {' | '.join(f'{found[Sweep(depth, form)]:.3f}' for form in FORMS)} |")


def corpus_rows() -> np.ndarray:
    """Shuffled rows of the bundled corpus, (rows, SWEEP_SEQ + 1)."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    texts = []
    for name, key in TEXTS.items():
        with gzip.open(ROOT / "examples" / "corpus" / name / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            texts += [json.loads(line)[key] for line in file]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=SWEEP_VOCAB, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    flat = np.concatenate([np.array(each.ids, np.uint16) for each in tokenizer.encode_batch(texts)])
    rows = flat[: len(flat) // (SWEEP_SEQ + 1) * (SWEEP_SEQ + 1)].reshape(-1, SWEEP_SEQ + 1)
    return np.random.default_rng(0).permutation(rows)


def swept(sweep: Sweep, tokens: int, path: str) -> float:
    """Mean held-out loss of one proxy, nats a token."""
    from cuvee.proxy.evaluate import rows_bits
    from cuvee.proxy.model import ProxyConfig
    from cuvee.proxy.train import train

    def scaled(name: str, part: str) -> property:
        return property(lambda config: getattr(ProxyConfig, name).fget(config) * (sweep.factor if sweep.part == part else 1))

    @dataclass(frozen=True)
    class Scaled(ProxyConfig):
        rate = scaled("rate", "layers")
        head_rate = scaled("head_rate", "head")
        embed_rate = scaled("embed_rate", "embed")

    changes = {name: value == "true" if name == "tied" else value for name, value in (pair.split("=") for pair in sweep.form.split(",") if pair)}
    rows, config = np.load(path), Scaled(SWEEP_VOCAB, SWEEP_SEQ, sweep.depth, BATCH, **changes)
    steps = tokens // (BATCH * SWEEP_SEQ)
    trained = train(config, rows[HELD : HELD + steps * BATCH], seed=0)
    return float(rows_bits(trained.params, config, rows[:HELD]).mean() / SWEEP_SEQ * np.log(2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="speed,groups,rates,forms")
    parser.add_argument("--depths", default=DEPTHS, help="of speed and groups")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=200_000, help="of each proxy of the sweeps")
    parser.add_argument("--venvs", type=Path, help="folder of PyTorch's environment, to use it again")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(*map(int, arguments.worker.split(",")))
    parts, depths = arguments.parts.split(","), list(map(int, arguments.depths.split(",")))
    with tempfile.TemporaryDirectory() as temporary:
        if "speed" in parts:
            speed(arguments.venvs or Path(temporary), depths, arguments.rounds, arguments.seconds)
    if "groups" in parts:
        groups(depths, arguments.rounds, arguments.seconds)
    if {"rates", "forms"} & set(parts):
        quality(arguments.tokens, parts)


if __name__ == "__main__":
    main()
