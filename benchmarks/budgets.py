"""How the best mixture moves with the budget, from swarms at three ratios of proxy to target: `python benchmarks/budgets.py`.

A law of which the optimum is known: tokens of a domain teach ever less, and repeated ones less still. Three swarms of 48
runs, for 50B, 300B and 2T tokens, are fitted as `cuvee fit` does, and every budget between is mixed for in three ways: with
all three, drawn in log budget, and with the middle one alone, by what it says of the same weights or of the same epochs.
Prints Markdown and writes docs/budgets.svg.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cuvee.config import Mix
from cuvee.errors import DataError
from cuvee.kernels.ratios import elsewhere, interpolate, share_between
from cuvee.kernels.runs import Runs
from cuvee.kernels.search import minimise
from cuvee.kernels.simplex import epoch_caps, proportional
from cuvee.kernels.surrogate import Surrogate, fit_tasks
from cuvee.report import svg
from cuvee.steps.mixing.problem import Problem, cap_parts, choose

DOMAINS = ["web", "forums", "code", "books", "maths"]
TOKENS = np.array([3000.0, 400.0, 200.0, 60.0, 20.0]) * 1e9
TASKS = ["reading", "reasoning", "coding"]
WORTH = np.array([[0.5, 0.6, 0.3, 1.4, 0.9], [0.4, 0.5, 0.6, 1.0, 2.0], [0.3, 0.4, 1.6, 0.5, 1.2]])  # (tasks, domains) of a token among few
RETURNS, LASTING = 0.75, 6.0  # power of a domain's tokens; passes after which repeating teaches little (Muennighoff et al. 2023: some 4 to 16)
TRAINED = (50e9, 300e9, 2e12)
ASKED = (50e9, 90e9, 160e9, 300e9, 550e9, 1e12, 2e12)
BETWEEN = (90e9, 120e9, 160e9, 550e9, 800e9, 1.2e12)
RUNS, NOISE, MAX_EPOCHS, PARTS = 48, 0.004, 8.0, 1_048_576
SCALE = np.linspace(0, 1, 12)  # where the three ratios are drawn between, for the figure


def truth(weights: np.ndarray, budget: float) -> np.ndarray:
    """Bits per byte of a proxy that stands for `budget`. (runs, domains) -> (runs, tasks)"""
    passes = np.maximum(weights * budget / TOKENS, 1e-12)
    counted = weights * (1 - np.exp(-passes / LASTING)) * LASTING / passes
    return 0.6 + 0.8 * (counted ** RETURNS @ WORTH.T) ** -0.5


def swarm(budget: float, seed: int) -> Surrogate:
    rng = np.random.default_rng(seed)
    around = np.sqrt(proportional(TOKENS))
    weights = np.array([rng.dirichlet(strength * around / around.sum()) for strength in rng.uniform(2, 12, RUNS)])
    scores = truth(weights, budget) + NOISE * rng.normal(size=(RUNS, len(TASKS)))
    return fit_tasks("saturating", DOMAINS, TASKS, Runs(weights, weights * budget / TOKENS, budget / TOKENS), scores)


def mixed(surrogate: Surrogate, budget: float) -> np.ndarray | None:
    """What mix would propose, (domains,); None where its runs saw too few epochs"""
    problem = Problem(surrogate, np.full(len(TASKS), 1 / len(TASKS)), TOKENS, int(budget), Mix(max_epochs=MAX_EPOCHS, kl=0.01), PARTS)
    try:
        return choose(problem, cap_parts(problem))[1] / PARTS
    except DataError:
        return None


def by_epochs(surrogate: Surrogate, budget: float) -> Surrogate:
    """A swarm's law in epochs, at the epochs of another budget."""
    fields = surrogate.to_dict()
    return Surrogate.from_dict(fields | {"runs": fields["runs"] | {"rate": (budget / TOKENS).tolist()}})


def best(budget: float) -> np.ndarray:
    """The optimum of the law itself under the same caps, (domains,)"""
    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        moved = [truth((weights + sign * 1e-7 * np.eye(len(weights))), budget).mean(axis=1) for sign in (1, -1)]
        return float(truth(weights[None], budget).mean()), (moved[0] - moved[1]) / 2e-7

    return minimise(objective, proportional(TOKENS), epoch_caps(TOKENS, budget, MAX_EPOCHS), 1e-5, 3000).weights


def lost(weights: np.ndarray, optimum: np.ndarray, budget: float) -> float:
    """Share of what could be gained over the natural mixture that `weights` lose."""
    mine, least, most = (truth(each[None], budget).mean() for each in (weights, optimum, proportional(TOKENS)))
    return float((mine - least) / (most - least))


def size(budget: float) -> str:
    return f"{budget / 1e12:g}T" if budget >= 1e12 else f"{budget / 1e9:g}B"


def main() -> None:
    swarms = [swarm(budget, seed) for seed, budget in enumerate(TRAINED)]
    print(f"| budget | {' | '.join(DOMAINS)} | most epochs | lost by three swarms | by the middle one, same weights | same epochs |")
    print("|---|" + "---|" * (len(DOMAINS) + 4))
    for budget in ASKED:
        optimum = best(budget)
        three, *alone = (mixed(each, budget) for each in (interpolate(swarms, TRAINED, budget), elsewhere(swarms[1], budget / TOKENS), by_epochs(swarms[1], budget)))
        losses = ["no answer" if each is None else f"{lost(each, optimum, budget):.1%}" for each in (three, *alone)]
        shares = " | ".join(f"{mine:.1%} ({true:.1%})" for mine, true in zip(three, optimum))
        print(f"| {size(budget)} | {shares} | {(three * budget / TOKENS).max():.1f} | {' | '.join(losses)} |")
    print(f"\nWeight by three swarms, in brackets that of the law's own optimum under the same caps of {MAX_EPOCHS:g} epochs. Lost: of what could be "
          "gained over the natural mixture. No answer: the caps that this swarm can vouch for do not reach that budget.")
    errors(swarms)
    figure(swarms)


def errors(swarms: list[Surrogate]) -> None:
    """How well 200 other mixtures are predicted between the budgets that were trained, by four ways to get there."""
    rng, around = np.random.default_rng(9), np.sqrt(proportional(TOKENS))
    weights = rng.dirichlet(8 * around / around.sum(), 200)
    print("\n| budget | line, same weights | line, same epochs | middle swarm, same weights | middle swarm, same epochs |\n|---|---|---|---|---|")
    for budget in BETWEEN:
        true, epochs, (place, share) = truth(weights, budget), weights * budget / TOKENS, share_between(TRAINED, budget)
        ends = [(1 - share, swarms[place]), (share, swarms[place + 1])]
        ways = (interpolate(swarms, TRAINED, budget).predict(weights), sum(part * end.predict(weights, epochs) for part, end in ends),
                swarms[1].predict(weights), swarms[1].predict(weights, epochs))
        off = [np.sqrt((((each - true) / true.std(axis=0)) ** 2).mean()) for each in ways]
        print(f"| {size(budget)} | {' | '.join(f'{each:.2f}' for each in off)} |")
    print("\nRoot mean square error of predictions, in SDs of the scores of these mixtures at that budget.")


def figure(swarms: list[Surrogate]) -> None:
    budgets = TRAINED[0] * (TRAINED[-1] / TRAINED[0]) ** SCALE
    drawn = np.array([mixed(interpolate(swarms, TRAINED, budget), budget) for budget in budgets])
    optima = np.array([best(budget) for budget in ASKED])
    lines = [(name, list(zip((budgets / 1e9).tolist(), drawn[:, place].tolist()))) for place, name in enumerate(DOMAINS)]
    marks = [(name, list(zip((np.array(ASKED) / 1e9).tolist(), optima[:, place].tolist()))) for place, name in enumerate(DOMAINS)]
    page = svg.lines(lines, marks, "tokens of the training run, billions", "weight in the mixture",
                     "Weights of five domains by the budget; lines from three swarms, points the optimum of the law", log=True)
    alone = page.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" style="background:#fff;font:13px sans-serif" ', 1)
    (Path(__file__).parents[1] / "docs" / "budgets.svg").write_text(alone + "\n")


if __name__ == "__main__":
    main()
