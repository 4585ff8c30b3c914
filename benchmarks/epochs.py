"""Does a short run that repeats its data as often as the long one will rank mixtures as the long one does?

    python benchmarks/epochs.py [--work DIR] [--mixtures 40] [--long 400K] [--ratio 4] [--only swarm|ladder]

Each mixture is trained three times on the bundled corpus (depth 2, one seed): long, on all that each domain has; short
and *matched*, a `ratio`-th of the tokens on a `ratio`-th of each domain, so that domains repeat as in the long run; short
and *unmatched*, on all that each domain has. Scores are bits per byte on held-out documents of each domain. Domains have
1/64 to 1/4 of their rows, drawn by a fixed seed, so that what is scarce is not what is small.

*swarm*: proposals as a swarm makes them. *ladder*: a scarce topic or domain has .05 to .9 of the tokens, the others share
the rest by size, and what counts is the score on its own held-out documents: how much of it is best? Scores are kept in
DIR, a line a run; runs that stand there are not trained again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import orjson

from cuvee import recipe as recipes
from cuvee.config import parse_count
from cuvee.engine.local import LocalEngine
from cuvee.engine.run import Work
from cuvee.kernels.agreement import regret_at_1, spearman
from cuvee.kernels.permute import locate
from cuvee.kernels.proposals import proposals
from cuvee.kernels.simplex import epoch_caps, epochs, project_kl, proportional, quantize, uniform
from cuvee.proxy.evaluate import bits_per_byte, documents_bits
from cuvee.proxy.model import ProxyConfig
from cuvee.proxy.train import train
from cuvee.steps import store, tokenize

ROOT = Path(__file__).resolve().parents[1]
MOST_EPOCHS = 40.0  # of any domain, in the long run
MANY = 8.0          # epochs of some domain from which a mixture counts as repeating
ARMS = ("long", "matched", "unmatched")
STEPS = (0.05, 0.15, 0.3, 0.5, 0.7, 0.9)  # of the ladder
LADDERS = ("t02", "t04.q2")               # scarce under the fixed seed: 308 and 105 rows


def opened(work: str) -> store.TokenStore:
    path = str(ROOT / "examples" / "demo.yaml")
    recipe = recipes.load(path, [f"work={work}"])
    found = store.opened(Work(recipe.work, LocalEngine(1)), recipe)
    if found is None:
        subprocess.run([sys.executable, "-m", "cuvee", "run", path, "--until", "tokenize", "--set", f"work={work}", "--workers", "1"], check=True)
        return opened(work)
    return found


def mixtures(names: list[str], have: np.ndarray, long: int, count: int) -> np.ndarray:
    """Proportional, uniform and proposals that lie far apart, under MOST_EPOCHS. have: tokens of each domain"""
    caps, natural = epoch_caps(have, long, MOST_EPOCHS), proportional(have)
    topics, bands = np.unique([name[:3] for name in names], return_inverse=True)[1], np.array([int(name[-1]) - 1 for name in names])
    drawn = proposals(natural, topics, bands, count - 2, caps, np.random.default_rng(0))
    return np.vstack([project_kl(natural, caps), project_kl(uniform(len(have)), caps), drawn])


def ladder(names: list[str], have: np.ndarray, scarce: str) -> np.ndarray:
    """Mixtures in which the domains of a topic, or one domain, hold STEPS of all tokens. (steps, domains)"""
    mine = np.array([name.startswith(scarce) for name in names])
    parts = [proportional(np.where(chosen, have, 0)) for chosen in (mine, ~mine)]
    return np.array([step * parts[0] + (1 - step) * parts[1] for step in STEPS])


def beginnings(domain: store.Domain, tokens: store.TokenStore) -> tuple[list[list[int]], np.ndarray]:
    """The first seq_len tokens of held-out documents, and the UTF-8 bytes that they stand for."""
    tokenizer = tokenize.load(tokens.tokenizer)
    held = [ids[: tokens.seq_len] for ids in domain.load_heldout()["tokens"].to_pylist()]
    return held, np.array([len(tokenizer.decode(ids, skip_special_tokens=False).encode()) for ids in held])


def score(domains: list[store.Domain], heldout: list, config: ProxyConfig, tokens: store.TokenStore, weights: np.ndarray, offered: np.ndarray,
          budget: int) -> list[float]:
    """Train on `budget` tokens of a mixture of the first `offered` rows of each domain; bits per byte of every domain."""
    count = budget // (config.seq_len * config.batch) * config.batch
    places = locate(np.arange(count), quantize(weights, count), offered, seed=0)
    rows = np.empty((count, config.seq_len + 1), np.uint16)
    for number, domain in enumerate(domains):
        rows[places.domain == number] = domain.load()[places.row[places.domain == number]]
    params = train(config, rows, seed=0).params
    return [bits_per_byte(documents_bits(params, config, held, tokens.end), sizes) for held, sizes in heldout]


class Trainer:
    """Scores of mixtures in all arms, (mixtures, domains) each, from a file where they are known."""

    def __init__(self, tokens: store.TokenStore, domains: list[store.Domain], have: np.ndarray, long: int, ratio: int) -> None:
        self.tokens, self.domains = tokens, domains
        self.heldout = [beginnings(domain, tokens) for domain in domains]
        self.config = ProxyConfig(tokens.vocab, tokens.seq_len, depth=2, batch=16)
        self.arms = {"long": (have, long), "matched": (-(-have // ratio), long // ratio), "unmatched": (have, long // ratio)}

    def scores(self, tried: np.ndarray, out: Path) -> dict[str, np.ndarray]:
        known = {(each["arm"], each["mixture"]): each["scores"] for each in map(orjson.loads, out.read_bytes().splitlines())} if out.exists() else {}
        for number, weights in enumerate(tried):
            for arm, (offered, budget) in self.arms.items():
                if (arm, number) not in known:
                    known[arm, number] = score(self.domains, self.heldout, self.config, self.tokens, weights, offered, budget)
                    with open(out, "ab") as file:
                        file.write(orjson.dumps({"arm": arm, "mixture": number, "scores": known[arm, number]}) + b"\n")
                    print(out.stem, arm, number, np.mean(known[arm, number]).round(4), file=sys.stderr, flush=True)
        return {arm: np.array([known[arm, number] for number in range(len(tried))]) for arm in ARMS}


def each_domain(scores: np.ndarray, long: np.ndarray) -> tuple[float, float]:
    """Mean over domains of the rank correlation with long, and of the regret. (mixtures, domains) x 2"""
    pairs = list(zip(scores.T, long.T))
    return float(np.mean([spearman(*pair) for pair in pairs])), float(np.mean([regret_at_1(*pair) for pair in pairs]))


def compare(scores: dict[str, np.ndarray], most: np.ndarray) -> None:
    """scores: of each arm, (mixtures, domains); most: epochs of each mixture's most repeated domain in the long run"""
    print("| score | mixtures | Spearman with long: matched | unmatched | difference, 90 % interval | regret: matched | unmatched |\n|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    mean = {arm: each.mean(axis=1, keepdims=True) for arm, each in scores.items()}
    many = most > MANY
    for what, values in (("mean over domains", mean), ("each domain, then averaged", scores)):
        for name, chosen in (("all", most > 0), (f"a domain over {MANY:g} epochs", many), ("no such domain", ~many)):
            long, matched, unmatched = (values[arm][chosen] for arm in ARMS)
            drawn = [rng.integers(0, len(long), len(long)) for _ in range(1000)]
            gains = [each_domain(matched[rows], long[rows])[0] - each_domain(unmatched[rows], long[rows])[0] for rows in drawn]
            low, high = np.quantile(gains, [0.05, 0.95])
            (a, lost), (b, worse) = each_domain(matched, long), each_domain(unmatched, long)
            print(f"| {what} | {name} ({len(long)}) | {a:.3f} | {b:.3f} | {a - b:+.3f}, {low:+.3f} to {high:+.3f} | {lost:.4f} | {worse:.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", default=str(Path(tempfile.gettempdir()) / "cuvee_epochs"))
    parser.add_argument("--mixtures", type=int, default=40)
    parser.add_argument("--long", default="400K", help="tokens of a long run")
    parser.add_argument("--ratio", type=int, default=4)
    parser.add_argument("--only", choices=("swarm", "ladder"))
    arguments = parser.parse_args()
    long, ratio = parse_count(arguments.long), arguments.ratio
    tokens = opened(arguments.work)
    domains = [domain for domain in tokens.domains if domain.heldout]
    names, rows = [domain.name for domain in domains], np.array([domain.rows for domain in domains])
    have = np.ceil(rows * np.exp(np.random.default_rng(1).uniform(np.log(1 / 64), np.log(1 / 4), len(rows)))).astype(np.int64)
    trainer, size = Trainer(tokens, domains, have, long, ratio), have * tokens.seq_len
    print(f"{len(domains)} domains of {int(size.sum()):,} tokens, long runs of {long:,}, short ones of {long // ratio:,}.\n")
    if arguments.only != "ladder":
        tried = mixtures(names, size, long, arguments.mixtures)
        most = epochs(tried, long, size).max(axis=1)
        print(f"The most repeated domain of a mixture is seen {np.median(most):.1f} times (median), {most.max():.0f} at most.\n")
        compare(trainer.scores(tried, Path(arguments.work) / f"epochs_{long}_{ratio}.jsonl"), most)
    for scarce in LADDERS if arguments.only != "swarm" else ():
        tried = ladder(names, have, scarce)
        mine = [place for place, name in enumerate(names) if name.startswith(scarce)]
        scores = trainer.scores(tried, Path(arguments.work) / f"ladder_{scarce}_{long}_{ratio}.jsonl")
        print(f"\n| share of {scarce} | epochs in the long run | {' | '.join(ARMS)} |\n|---|---|---|---|---|")
        for step, passes, *values in zip(STEPS, epochs(tried, long, size)[:, mine[0]], *(scores[arm][:, mine].mean(axis=1) for arm in ARMS)):
            print(f"| {step:g} | {passes:.1f} | {' | '.join(f'{value:.3f}' for value in values)} |")


if __name__ == "__main__":
    main()
