"""The order of the steps, and what the verbs `check`, `run`, `status`, `report` and `export` do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuvee import recipe as recipes
from cuvee.config import Budget, Recipe, parse_share
from cuvee.engine.local import LocalEngine
from cuvee.engine.progress import Progress
from cuvee.engine.run import Engine, Work
from cuvee.engine.shard import Folder, Table
from cuvee.errors import UsageError, nearest
from cuvee.report import write_report as render
from cuvee.steps import decontaminate, dedup, embed, export as exports, filter, fit, ingest, mix, quality, store, stream, swarm, tokenize, topics, validate
from cuvee.steps.inputs import inputs_of


@dataclass
class Run:
    """A recipe on its way: what each step has left so far."""

    recipe: Recipe
    work: Work
    sample: float | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    folders: dict[str, Folder] = field(default_factory=dict)
    tokens: store.TokenStore | None = None

    def verdicts(self, *names: str) -> list[Table]:
        return [self.tables[name] for name in names]


JUDGES = ("filter", "decontaminate", "dedup")


def _ingest(run: Run) -> None:
    run.tables["documents"] = ingest.run(run.work, run.recipe, run.sample)


def _filter(run: Run) -> None:
    run.tables["filter"] = filter.run(run.work, run.recipe, run.tables["documents"])
    _loudly(run, "filter", [folder for place, folder in run.work.current().items() if place.startswith("filter/")])


def _decontaminate(run: Run) -> None:
    run.tables["decontaminate"] = decontaminate.run(run.work, run.recipe, run.tables["documents"], run.tables["filter"])


def _dedup(run: Run) -> None:
    run.tables["dedup"] = dedup.run(run.work, run.recipe, run.tables["documents"], run.verdicts("filter"), run.verdicts("decontaminate"))


def _embed(run: Run) -> None:
    run.tables["embed"] = embed.run(run.work, run.recipe, run.tables["documents"], run.verdicts(*JUDGES))


def _topics(run: Run) -> None:
    run.tables["topics"] = topics.run(run.work, run.recipe, run.tables["documents"], run.verdicts(*JUDGES), run.tables["embed"])


def _quality(run: Run) -> None:
    run.tables["quality"] = quality.run(run.work, run.recipe, run.tables["documents"], run.verdicts(*JUDGES), run.tables["embed"],
                                        run.tables["topics"])


def _tokenize(run: Run) -> None:
    verdicts = run.verdicts(*JUDGES)
    tokenizer = tokenize.fit(run.work, run.recipe, run.tables["documents"], verdicts)
    run.tables["tokenize"] = tokenize.run(run.work, run.recipe, run.tables["documents"], verdicts, tokenizer)
    run.tokens = store.run(run.work, run.recipe, run.tables["tokenize"], run.tables["quality"], tokenizer)


def _swarm(run: Run) -> None:
    run.folders["swarm"] = swarm.run(run.work, run.recipe, run.tokens)


def _fit(run: Run) -> None:
    run.folders["fit"] = fit.run(run.work, run.recipe, run.tokens, run.folders["swarm"])


def _mix(run: Run) -> None:
    run.folders["mix"] = mix.run(run.work, run.recipe, run.tokens, run.folders["fit"])


def _validate(run: Run) -> None:
    run.folders["validate"] = validate.run(run.work, run.recipe, run.tokens, run.folders["swarm"], run.folders["mix"])


def _stream(run: Run) -> None:
    stream.write(run.work, run.recipe, run.tokens, run.folders["mix"])


STEPS: dict[str, Callable[[Run], None]] = {
    "ingest": _ingest, "filter": _filter, "decontaminate": _decontaminate, "dedup": _dedup, "embed": _embed, "topics": _topics,
    "quality": _quality, "tokenize": _tokenize, "swarm": _swarm, "fit": _fit, "mix": _mix, "validate": _validate, "stream": _stream}
