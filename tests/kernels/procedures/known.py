"""A law that is known: four topics of two bands, three tasks that saturate, so that every answer can be judged."""
import numpy as np

from cuvee.kernels.procedures.base import Procedure, Seen, Setting

TOKENS = np.array([400.0, 200.0, 150.0, 100.0, 60.0, 40.0, 30.0, 20.0])
TOPICS, BANDS = np.repeat(np.arange(4), 2), np.tile(np.arange(2), 4)
GAIN = np.array([[0.1, 0.6, 0.0, 0.9, 0.0, 0.2, 0.0, 0.0], [0.0, 0.2, 0.1, 0.5, 0.0, 0.8, 0.0, 0.1], [0.0, 0.1, 0.0, 0.2, 0.2, 0.9, 0.3, 0.0]])


def setting(runs: int | None = 48, **changes) -> Setting:
    """A budget of all tokens, so that weight / natural share is epochs; at most 8 of them."""
    given = {"budget": TOKENS.sum(), "max_epochs": 8.0, "importance": np.array([0.5, 0.3, 0.2]), **changes}
    return Setting(TOKENS, topics=TOPICS, bands=BANDS, runs=runs, **given)


def truth(weights: np.ndarray) -> np.ndarray:
    """(n, 8) -> (n, 3)"""
    gained = 1 - np.exp(-((0.7 * weights * TOKENS.sum() / TOKENS) ** 0.7))
    return 1 + np.exp(0.3 - gained @ GAIN.T)


def play(procedure: Procedure, given: Setting, noise: float = 0.01, seed: int = 0) -> tuple[Seen, np.ndarray]:
    """Runs that were asked for, with their noisy scores, and the answer's weights."""
    rng, chance = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    seen = Seen.nothing(len(TOKENS), 3)
    while len(asked := procedure.ask(given, seen, rng)):
        seen = seen.joined(asked, truth(asked) + noise * chance.standard_normal((len(asked), 3)))
    return seen, procedure.answer(given, seen, rng).weights


def mean(weights: np.ndarray, given: Setting) -> float:
    return float(truth(weights[None])[0] @ given.importance)
