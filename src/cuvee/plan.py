"""`cuvee plan`: runs, tokens, FLOPs and hours of the swarm and of validation before any is spent, and what they can show."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cuvee.config import Recipe, parse_count
from cuvee.engine.local import cores
from cuvee.engine.run import Work
from cuvee.engine.step import one_thread
from cuvee.engine.store import read_json
from cuvee.errors import UsageError, nearest
from cuvee.kernels.noise import resolvable
from cuvee.record import domain_name
from cuvee.steps import store, tokenize, validate
from cuvee.steps.proxies import rounds, training

if TYPE_CHECKING:
    from cuvee.proxy.model import ProxyConfig

MOST_TOPICS = 40  # where the recipe leaves their number to the data
EFFICIENCY = 0.5  # of a core's matrix product rate that training reaches
STEPS = 3         # of a proxy that are timed, after one that compiles
GROUPS = (1, 4)   # proxies trained together that --time compares
FREEDOM = 6       # degrees of freedom of the noise after round 1: repeats of 5 and 3
PEAKS = {         # dense bfloat16 FLOP/s, from the makers' data sheets
    "A100": 312e12, "H100": 989e12, "H200": 989e12, "B200": 2250e12, "L40S": 362e12, "MI300X": 1307e12, "TPU-v5e": 197e12, "TPU-v5p": 459e12}


class Machine(NamedTuple):
    """said: what it is and how its speed is known; speed: tokens a second of a proxy, all that it trains at once together."""

    said: str
    speed: Callable[[ProxyConfig], float]


class Part(NamedTuple):
    """Runs of one size."""

    name: str
    runs: int
    tokens: int  # of each
    proxy: ProxyConfig


def machine(accelerator: str | None, flops: str | None, mfu: float, clocked: bool) -> Machine:
    """What the options of the command name."""
    if not 0 < mfu <= 1:
        raise UsageError(f"--mfu {mfu:g}: the share of the peak that training reaches is in (0, 1]")
    if clocked and flops is not None:
        raise UsageError(f"--time and --flops {flops}: only this machine can be timed. Keep one of them.")
    if accelerator is None and flops is not None:
        return stated("accelerator", _count("--flops", flops), mfu)
    if accelerator is not None and clocked:
        raise UsageError(f"--time and --accelerator {accelerator}: only this machine can be timed. Keep one of them.")
    if accelerator is not None:
        return stated(accelerator, None if flops is None else _count("--flops", flops), mfu)
    return timed() if clocked else here()


def _count(option: str, text: str) -> float:
    try:
        return float(parse_count(text))
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}. Write a number such as 990T.") from None


def here() -> Machine:
    """This machine, by the rate of a matrix product that it shows now."""
    count, speed = cores(), core_speed()
    said = f"hours: on {count} cores at {speed / 1e9:.0f} GFLOP/s each, as measured just now, of which training reaches {EFFICIENCY:.0%}"
    return Machine(said, lambda proxy: count * speed * EFFICIENCY / proxy.flops_per_token)


def timed() -> Machine:
    """This machine, by a few steps of the proxy itself: one on each core, or on an accelerator where there is one."""
    from cuvee.proxy.train import accelerators

    chips, count = len(accelerators()), cores()
    place = f"{chips} accelerators" if chips else f"{count} cores, a proxy on each"
    return Machine(f"hours: on {place}, from {STEPS} steps of each proxy, timed just now",
                   lambda proxy: time_steps(_on(proxy, chips), 1, chips) * (1 if chips else count))


def stated(name: str, flops: float | None, mfu: float) -> Machine:
    """An accelerator by its stated peak. flops: FLOP/s, needed where the name is not a known one"""
    peak = PEAKS.get(name) if flops is None else flops
    if peak is None:
        raise UsageError(f"--accelerator {name}: its peak is not known here. Give it with --flops, such as --flops 990T. {nearest(name, PEAKS)}")
    if not 0 < peak < float("inf"):
        raise UsageError(f"--flops {peak:g}: a peak is over 0 FLOP/s and finite, such as 990T")
    return Machine(f"hours: on one {name} of {peak / 1e12:,.0f} TFLOP/s, stated, of which training reaches {mfu:.0%}, assumed; "
                   "a proxy of few layers may reach far less: --time there measures it", lambda proxy: peak * mfu / proxy.flops_per_token)


def core_speed(size: int = 512, count: int = 8) -> float:
    """FLOP/s of a float32 matrix product on one core."""
    square = np.ones((size, size), np.float32)
    with one_thread():
        square @ square
        start = time.perf_counter()
        for _ in range(count):
            square @ square
    return 2 * size**3 * count / (time.perf_counter() - start)


def _on(proxy: ProxyConfig, chips: int) -> ProxyConfig:
    return replace(proxy, compute="bfloat16") if chips else proxy


def time_steps(proxy: ProxyConfig, group: int, chips: int) -> float:
    """Tokens a second of so many proxies trained together, over all of them; one step before compiles."""
    import jax

    from cuvee.proxy.train import Group

    rows = [np.full(((1 + STEPS) * proxy.batch, proxy.seq_len + 1), seed % proxy.vocab, np.int32) for seed in range(group)]
    together = Group(proxy, rows, list(range(group)), max(1, chips))
    state = together.advance(together.begin(), 1)
    jax.block_until_ready(state.params)
    start = time.perf_counter()
    jax.block_until_ready(together.advance(state, 1 + STEPS).params)
    return group * STEPS * proxy.batch * proxy.seq_len / (time.perf_counter() - start)


def advice(work: Work, recipe: Recipe) -> list[str]:
    """Whether proxies train faster alone or together here, by the clock; the recipe's swarm.group stays as it is."""
    from cuvee.proxy.train import accelerators

    chips = len(accelerators())
    proxy = _on(_proxy(work, recipe, recipe.swarm.depth), chips)
    speeds = {group: time_steps(proxy, group, chips) for group in GROUPS}
    best = max(speeds, key=lambda group: speeds[group])
    shown = ", ".join(f"{speed:,.0f} tokens/s in groups of {group}" for group, speed in speeds.items())
    return [f"{'an accelerator' if chips else 'one core'}: {shown}. The faster is swarm.group: {best}; auto takes "
            f"{'what memory allows' if chips else '1'} and never looks at a clock."]


def cost(work: Work, recipe: Recipe, machine: Machine) -> list[str]:
    """Runs, tokens, FLOPs and hours, a line for each part, and what of it is not known yet."""
    if not recipe.budget.proxy or not recipe.budget.target:
        return ["no budget: the run ends with `--until tokenize`. Set budget.target and budget.proxy for a swarm."]
    parts = [*_swarm(work, recipe), *_validation(work, recipe)]
    lines = [f"{'':<28}{'runs':>6}{'tokens each':>16}{'parameters':>14}{'FLOPs':>10}{'hours':>10}"]
    flops, hours, speeds = [], [], {part.proxy: machine.speed(part.proxy) for part in parts}
    for part in parts:
        flops.append(part.runs * part.tokens * part.proxy.flops_per_token)
        hours.append(part.runs * part.tokens / speeds[part.proxy] / 3600)
        lines.append(f"{part.name:<28}{part.runs:>6}{part.tokens:>16,}{part.proxy.parameters:>14,}{flops[-1]:>10.1e}{hours[-1]:>10.3g}")
    total, tokens = sum(part.runs for part in parts), sum(part.runs * part.tokens for part in parts)
    return [*lines, f"{'all':<28}{total:>6}{tokens:>16,}{'':>14}{sum(flops):>10.1e}{sum(hours):>10.3g}   (tokens of all runs together)",
            f"{machine.said}; reading held-out documents adds up to {recipe.swarm.eval_share:.0%}", *_unknown(work, recipe)]


def _swarm(work: Work, recipe: Recipe) -> list[Part]:
    """The rounds of the swarm; a recipe with several targets has a swarm for each."""
    proxy, several = _proxy(work, recipe, recipe.swarm.depth), len(recipe.budget.trained)
    sizes = rounds.sizes(recipe, _domains(work, recipe))
    more = f" x {several} targets" if several > 1 else ""
    return [Part(f"swarm, round {number}{more}", several * size, recipe.budget.proxy, proxy) for number, size in enumerate(sizes, 1)]


def _validation(work: Work, recipe: Recipe) -> list[Part]:
    """At the proxy's own size the swarm has proportional already."""
    if recipe.swarm.scores is not None:
        return []
    return [Part(f"validate, depth {depth}", len(validate.MIXTURES) * recipe.validation.seeds if larger else max(validate.REPEATS, recipe.validation.seeds),
                 tokens, _proxy(work, recipe, depth)) for _, depth, tokens, larger in validate.places(recipe)]


def _proxy(work: Work, recipe: Recipe, depth: int) -> ProxyConfig:
    tokens = store.opened(work, recipe)
    vocab = tokens.vocab if tokens else tokenize.load(recipe.tokenizer.file).get_vocab_size() if recipe.tokenizer.file else recipe.tokenizer.train.vocab
    return training.proxy(recipe, vocab, recipe.tokenize.seq_len, depth)


def _domains(work: Work, recipe: Recipe) -> list[str]:
    """Names of the domains that have tokens; before they exist, those that the recipe asks for."""
    tokens = store.opened(work, recipe)
    if tokens is not None:
        return [domain.name for domain in tokens.domains if domain.rows]
    return [domain_name(topic, band) for topic in range(recipe.topics.count or MOST_TOPICS) for band in range(1, recipe.quality.bands + 1)]


def _unknown(work: Work, recipe: Recipe) -> list[str]:
    if recipe.swarm.scores is not None:
        return ["the swarm is trained elsewhere (swarm.scores), so nothing of this is spent here, and validate is left out"]
    if store.opened(work, recipe) is not None:
        return []
    topics = "" if recipe.topics.count else f"; topics.count is left to the data, {MOST_TOPICS} at most, which is what is counted here"
    return [f"not known yet: how many domains the data gives, since small ones join a neighbour{topics}. After `--until tokenize` it is."]


def resolution(work: Work, recipe: Recipe) -> list[str]:
    """The smallest differences that are no chance, from the noise of repeats where the swarm is trained."""
    current, seeds = work.current(), recipe.validation.seeds
    if "fit" not in current or not current["fit"].files:
        return [f"resolution: the noise of a run is not known before its repeats are trained. With the {FREEDOM} degrees of freedom that round 1 gives, "
                f"two runs differ by more than chance (95 %) from {resolvable(1, FREEDOM):.1f} times that noise, means of {seeds} from "
                f"{resolvable(1, FREEDOM, seeds):.1f} times."]
    found = read_json(current["fit"].file("fit.json"))
    tasks = [each for each in found["tasks"] if each["weight"] and each["noise_sd"] is not None]
    said = [_resolves("weighted mean", found["mean"], seeds, "SDs of the swarm")] if found["mean"]["noise_sd"] is not None else []
    return ["resolution, from the noise of repeats at the proxy's size: differences from which chance is under 5 %; runs paired by seed may show less",
            *said, *(_resolves(each["name"], each, seeds, "bits per byte") for each in tasks)]


def _resolves(name: str, each: dict[str, Any], seeds: int, unit: str) -> str:
    return (f"  {name}: {each['resolves']:.3g} between two runs, {resolvable(each['noise_sd'], each['freedom'], seeds):.3g} between means of {seeds}; "
            f"{unit}, {each['freedom']} degrees of freedom")
