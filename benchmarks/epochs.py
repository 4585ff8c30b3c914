"""Does a short run that repeats its data as often as the long one will rank mixtures as the long one does?

    python benchmarks/epochs.py [--work DIR] [--mixtures 40] [--long 400K] [--ratio 4] [--out FILE.jsonl]

Each mixture is trained three times on the bundled corpus (depth 2, one seed): long, on all that each domain has; short
and *matched*, a `ratio`-th of the tokens on a `ratio`-th of each domain, so that domains repeat as in the long run; short
and *unmatched*, on all that each domain has. A score is the mean over domains of bits per byte on held-out documents.
Domains have 1/64 to 1/4 of their rows, drawn by a fixed seed, so that what is scarce is not what is small.
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


def compare(scores: dict[str, np.ndarray], most: np.ndarray) -> None:
    """scores: of each arm, (mixtures,); most: epochs of each mixture's most repeated domain in the long run"""
    print("| mixtures | Spearman with long: matched | unmatched | difference, 90 % interval | regret: matched | unmatched |\n|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for name, chosen in (("all", most > 0), (f"a domain over {MANY:g} epochs", most > MANY), ("no such domain", most <= MANY)):
        long, matched, unmatched = (scores[arm][chosen] for arm in ARMS)
        drawn = [rng.integers(0, len(long), len(long)) for _ in range(2000)]
        low, high = np.quantile([spearman(matched[rows], long[rows]) - spearman(unmatched[rows], long[rows]) for rows in drawn], [0.05, 0.95])
        a, b = spearman(matched, long), spearman(unmatched, long)
        print(f"| {name} ({len(long)}) | {a:.3f} | {b:.3f} | {a - b:+.3f}, {low:+.3f} to {high:+.3f} | {regret_at_1(matched, long):.4f} | "
              f"{regret_at_1(unmatched, long):.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", default=str(Path(tempfile.gettempdir()) / "cuvee_epochs"))
    parser.add_argument("--mixtures", type=int, default=40)
    parser.add_argument("--long", default="400K", help="tokens of a long run")
    parser.add_argument("--ratio", type=int, default=4)
    parser.add_argument("--out", help="scores, a line a run; runs that stand there are not trained again")
    arguments = parser.parse_args()
    long, ratio = parse_count(arguments.long), arguments.ratio
    tokens = opened(arguments.work)
    domains = [domain for domain in tokens.domains if domain.heldout]
    rows = np.array([domain.rows for domain in domains])
    have = np.ceil(rows * np.exp(np.random.default_rng(1).uniform(np.log(1 / 64), np.log(1 / 4), len(rows)))).astype(np.int64)
    names = [domain.name for domain in domains]
    tried = mixtures(names, have * tokens.seq_len, long, arguments.mixtures)
    heldout = [beginnings(domain, tokens) for domain in domains]
    config = ProxyConfig(tokens.vocab, tokens.seq_len, depth=2, batch=16)
    arms = {"long": (have, long), "matched": (-(-have // ratio), long // ratio), "unmatched": (have, long // ratio)}
    out = Path(arguments.out or Path(arguments.work) / f"epochs_{long}_{ratio}.jsonl")
    known = {(each["arm"], each["mixture"]): each["scores"] for each in map(orjson.loads, out.read_bytes().splitlines())} if out.exists() else {}
    for number, weights in enumerate(tried):
        for arm, (offered, budget) in arms.items():
            if (arm, number) not in known:
                known[arm, number] = score(domains, heldout, config, tokens, weights, offered, budget)
                with open(out, "ab") as file:
                    file.write(orjson.dumps({"arm": arm, "mixture": number, "scores": known[arm, number]}) + b"\n")
                print(arm, number, np.mean(known[arm, number]).round(4), file=sys.stderr, flush=True)
    most = epochs(tried, long, have * tokens.seq_len).max(axis=1)
    print(f"{len(domains)} domains of {int(have.sum() * tokens.seq_len):,} tokens, long runs of {long:,}, short ones of {long // ratio:,}; "
          f"the most repeated domain of a mixture is seen {np.median(most):.1f} times (median), {most.max():.0f} at most.\n")
    per_domain = {arm: np.array([known[arm, number] for number in range(len(tried))]) for arm in ARMS}
    compare({arm: each.mean(axis=1) for arm, each in per_domain.items()}, most)
    each = [[spearman(per_domain[arm][:, place], per_domain["long"][:, place]) for place in range(len(domains))] for arm in ARMS[1:]]
    print(f"\nDomain by domain, mean Spearman with long: matched {np.mean(each[0]):.3f}, unmatched {np.mean(each[1]):.3f}; "
          f"matched is the better one in {int(np.sum(np.array(each[0]) > each[1]))} of {len(domains)}.")


if __name__ == "__main__":
    main()
