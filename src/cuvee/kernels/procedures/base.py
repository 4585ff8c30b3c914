"""What a procedure is: it asks for runs round by round, then answers with a mixture. One interface for ours and others'.

A driver plays ask -> train -> `Seen.joined` -> ask ... until a round has no mixture, then `answer`:

    seen = Seen.nothing(domains, tasks)
    while len(asked := procedure.ask(setting, seen, rng)):
        seen = seen.joined(asked, scores_of(asked))
    answer = procedure.answer(setting, seen, rng)
"""
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from cuvee.kernels.grid import grid_of
from cuvee.kernels.groups import Groups, no_groups
from cuvee.kernels.runs import Runs
from cuvee.kernels.simplex import epoch_caps, proportional
from cuvee.kernels.surrogate import Surrogate


@dataclass(frozen=True)
class Setting:
    """What is to be mixed, and for what.

    tokens: (domains,) > 0; budget: tokens of the real run; max_epochs: of any domain, a number or (domains,);
    importance: (tasks,) >= 0, sum 1; topics, bands: int (domains,), numbered from 0, bands in order of quality;
    runs: over all rounds together, or None for the procedure's own number; kl, risk: as in `mixture_objective`;
    groups: limits on what domains hold together; protect: (tasks,) most that a score may lie over that of the
    natural mixture, inf where it is free, or None.
    """

    tokens: np.ndarray
    budget: float
    max_epochs: float | np.ndarray
    importance: np.ndarray
    topics: np.ndarray
    bands: np.ndarray
    runs: int | None = None
    kl: float = 0.05
    risk: float = 1.0
    groups: Groups | None = None
    protect: np.ndarray | None = None

    @cached_property
    def natural(self) -> np.ndarray:
        return proportional(self.tokens)

    @cached_property
    def caps(self) -> np.ndarray:
        """Largest weight of each domain in the real run. (domains,)"""
        return epoch_caps(self.tokens, self.budget, self.max_epochs)

    @cached_property
    def limits(self) -> Groups:
        return no_groups(len(self.tokens)) if self.groups is None else self.groups


@dataclass(frozen=True)
class Seen:
    """Runs that were trained, in the order they were asked for.

    weights: (runs, domains); scores: (runs, tasks), NaN where a run has none; rounds: int (runs,), from 0;
    epochs: realised (runs, domains), or None: weights x budget / tokens.
    """

    weights: np.ndarray
    scores: np.ndarray
    rounds: np.ndarray
    epochs: np.ndarray | None = None

    @staticmethod
    def nothing(domains: int, tasks: int) -> "Seen":
        return Seen(np.zeros((0, domains)), np.zeros((0, tasks)), np.zeros(0, np.int64))

    def joined(self, weights: np.ndarray, scores: np.ndarray) -> "Seen":
        """With one round more. weights: (n, domains); scores: (n, tasks)"""
        if self.epochs is not None:
            raise ValueError("runs with realised epochs cannot be joined with runs without; build Seen anew.")
        return Seen(np.vstack([self.weights, weights]), np.vstack([self.scores, scores]),
                    np.r_[self.rounds, np.full(len(weights), self.asked)])

    @property
    def asked(self) -> int:
        """Rounds that were asked for so far."""
        return int(self.rounds.max()) + 1 if len(self.rounds) else 0

    def runs(self, setting: Setting) -> Runs:
        """As a surrogate is fitted to them: weight 1 stands for budget / tokens epochs; topics and bands make a grid. (runs, domains)"""
        rate = setting.budget / setting.tokens
        return Runs(self.weights, self.weights * rate if self.epochs is None else self.epochs, rate, grid_of(setting.topics, setting.bands))


@dataclass(frozen=True)
class Round:
    """What is to be trained next, and why; no mixture ends the search.

    weights: (n, domains); kinds: what each run is for; facts: numbers that led here, by name; why: why it ends, or "".
    """

    weights: np.ndarray
    kinds: tuple[str, ...]
    facts: dict[str, float] = field(default_factory=dict)
    why: str = ""

    @staticmethod
    def ended(domains: int, why: str, facts: dict[str, float] | None = None) -> "Round":
        return Round(np.zeros((0, domains)), (), facts or {}, why)


class Answer(NamedTuple):
    """weights: (domains,), under the caps; predicted: (tasks,) scores there; sd: (tasks,), of a new run (its noise included).

    predicted, sd and surrogate are None where a procedure has none.
    """

    weights: np.ndarray
    predicted: np.ndarray | None = None
    sd: np.ndarray | None = None
    surrogate: Surrogate | None = None


class Procedure(Protocol):
    """How runs are chosen and what is made of them. All randomness is `rng`'s."""

    name: ClassVar[str]

    def sizes(self, setting: Setting) -> list[int]: ...  # most runs of each round
    def propose(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Round: ...
    def answer(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> Answer: ...

    def ask(self, setting: Setting, seen: Seen, rng: np.random.Generator) -> np.ndarray:
        """Mixtures of the next round, (n, domains); n = 0 when the search is over."""
        return self.propose(setting, seen, rng).weights
