"""What the page is made of: plain values, read by gather.py and turned into HTML by the sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Example = Mapping[str, Any]  # as passages.beside and passages.listed take it


@dataclass(frozen=True)
class Passed:
    """One step's documents of one source. bytes: UTF-8, of the texts that it kept; None where nobody counted."""

    step: str
    read: int
    kept: int
    bytes: int | None
    dropped: Mapping[str, int]  # reason -> documents

    @property
    def fault(self) -> str | None:
        accounted = self.kept + sum(self.dropped.values())
        return None if accounted == self.read else f"{self.step} read {self.read:,}, and {accounted:,} are accounted for"


@dataclass(frozen=True)
class Flow:
    """One source through the steps, in their order; ingest is the first, and reads raw rows."""

    source: str
    steps: tuple[Passed, ...]
    tokens: int | None = None

    @property
    def faults(self) -> list[str]:
        """What does not add up: inside a step, or from one step to the next."""
        inside = [step.fault for step in self.steps if step.fault]
        between = [f"{later.step} read {later.read:,}, {earlier.step} kept {earlier.kept:,}"
                   for earlier, later in zip(self.steps, self.steps[1:]) if later.read != earlier.kept]
        return inside + between


@dataclass(frozen=True)
class Drop:
    """One reason of the filter: all documents under it, and of some shards the values and a few texts."""

    reason: str
    documents: int
    threshold: float | None = None
    values: tuple[float, float, float] | None = None  # lowest, middle, highest
    examples: Sequence[Example] = ()


@dataclass(frozen=True)
class Done:
    """One finished step: the fingerprints of its folders (one a source, or one), and what it took the last time."""

    step: str
    fingerprints: tuple[str, ...]
    tasks: int
    seconds: float | None
    uses: Mapping[str, str]


@dataclass(frozen=True)
class Eval:
    """Items of one evaluation. matches: pairs of an item and a document that holds some of it."""

    name: str
    items: int
    checkable: int
    found: int
    matches: int


@dataclass(frozen=True)
class Facts:
    """All that a page says; None where the step is not done."""

    work: str
    version: str
    seed: int
    recipe: str  # what differs from the defaults, as YAML
    done: Sequence[Done]
    flows: Sequence[Flow]
    stale: Sequence[str] = ()  # why a step's table does not belong to the documents
    shards: tuple[int, int] = (0, 0)  # looked at for examples, of
    licenses: Sequence[tuple[str, int]] = ()  # licences of a document and its copies, documents
    drops: Sequence[Drop] | None = None
    evals: Sequence[Eval] | None = None
    set_aside: Sequence[Mapping[str, Any]] = ()
    contaminated: Sequence[Example] = ()
    duplicates: Sequence[Example] | None = None
    copied: Sequence[Example] = ()
    topics: Mapping[str, Any] | None = None
    domains: Mapping[str, Any] | None = None
    portraits: Mapping[str, Any] | None = None
    store: Mapping[str, Mapping[str, int]] | None = None  # domain -> counts of the token store
    swarm: Mapping[str, Any] | None = None
    drawn: Sequence[Mapping[str, Any]] = ()  # rows of run_domains
    rounds: Mapping[str, Any] | None = None
    fit: Mapping[str, Any] | None = None
    mixture: Mapping[str, Any] | None = None
    validation: Mapping[str, Any] | None = None
