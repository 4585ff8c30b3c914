"""The swarm's tables as a fit sees them: mixtures, realised epochs and scores, joined by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee.engine.store import join, read_json, read_table
from cuvee.errors import DataError
from cuvee.kernels.grid import named_grid
from cuvee.kernels.runs import Runs
from cuvee.steps.store import TokenStore

AGAIN = "Delete the swarm's folder and run again."
SHOWN = 5  # names that an error lists


@dataclass(frozen=True)
class Inputs:
    """Where the swarm's tables lie; names and tokens of the domains as the token store has them."""

    folder: str
    names: tuple[str, ...]
    tokens: tuple[int, ...]
    target: int  # tokens of the real run
    old: str | None = None  # URL of reuse.py's runs of an earlier swarm

    @classmethod
    def of(cls, folder: str, tokens: TokenStore, target: int, old: str | None = None) -> Inputs:
        return cls(folder, tuple(tokens.names), tuple(tokens.tokens.tolist()), target, old)


@dataclass(frozen=True)
class Scores:
    """The runs that have a score, in order of their keys; domains that have tokens, in order of the store."""

    keys: tuple[str, ...]
    kinds: tuple[str, ...]
    domains: tuple[str, ...]
    runs: Runs
    tasks: tuple[Mapping[str, Any], ...]  # name, kind
    values: np.ndarray                    # (runs, tasks), bits per byte; NaN where there is none
    half: np.ndarray                      # the same at half of each run's tokens
    notes: tuple[str, ...]                # what is left out

    def place(self, task: str) -> int:
        """The column of a task."""
        return [each["name"] for each in self.tasks].index(task)

    def of(self, task: str) -> np.ndarray:
        """(runs,)"""
        return self.values[:, self.place(task)]


def read(inputs: Inputs) -> Scores:
    """Join the swarm's tables. Epochs are realised ones, tokens drawn / tokens offered."""
    described = read_json(join(inputs.folder, "runs.json"))
    drawn = read_table(join(inputs.folder, "run_domains.parquet"))
    same_domains(drawn["domain"].unique().to_pylist(), inputs.names)
    kinds = dict(sorted(zip(drawn["run"].to_pylist(), drawn["kind"].to_pylist())))
    rows, columns = ("run", list(kinds)), ("domain", inputs.names)
    weights, offered, used = (_pivot(drawn, rows, columns, name, 0.0) for name in ("weight", "subset_tokens", "tokens_drawn"))
    tokens = np.array(inputs.tokens, float)
    _check_weights(rows[1], weights, tokens > 0)
    scored = read_table(join(inputs.folder, "run_scores.parquet"))
    names = ("task", [task["name"] for task in described["tasks"]])
    values, half = (_pivot(scored, rows, names, name, np.nan) for name in ("score", "half"))
    values[~np.isfinite(values)] = np.nan
    has = np.isfinite(values).any(axis=1)
    epochs = np.divide(used, offered, out=np.zeros_like(used), where=offered > 0)
    part = np.ix_(has, tokens > 0)
    domains = tuple(name for name, count in zip(inputs.names, tokens) if count)
    runs = Runs(weights[part], epochs[part], inputs.target / tokens[tokens > 0], named_grid(domains))
    keys = tuple(key for key, keep in zip(kinds, has) if keep)
    found = Scores(keys, tuple(kinds[key] for key in keys), domains, runs, tuple(described["tasks"]), values[has], half[has],
                   _left_out(has, described["failed"]))
    return found if inputs.old is None else with_old(found, read_json(inputs.old)["runs"])


def with_old(found: Scores, old: Sequence[Mapping[str, Any]]) -> Scores:
    """The runs of now, then those of an earlier swarm as reuse.py left them, by name; they have no scores at half of their tokens."""
    def by_name(what: str, names: Sequence[str]) -> np.ndarray:
        return np.array([[run[what].get(name, np.nan) for name in names] for run in old])

    tasks = [task["name"] for task in found.tasks]
    runs = replace(found.runs, weights=np.vstack([found.runs.weights, by_name("weights", found.domains)]),
                   epochs=np.vstack([found.runs.epochs, by_name("epochs", found.domains)]))
    return replace(found, keys=(*found.keys, *(run["run"] for run in old)), kinds=(*found.kinds, *(run["kind"] for run in old)), runs=runs,
                   values=np.vstack([found.values, by_name("scores", tasks)]), half=np.vstack([found.half, np.full((len(old), len(tasks)), np.nan)]))


def same_domains(swarm: Sequence[str], tokens: Sequence[str]) -> None:
    """Raise where the domains of the swarm and of the token store differ by name."""
    for where, other, names in (("the swarm", "the token store", set(swarm) - set(tokens)), ("the token store", "the swarm", set(tokens) - set(swarm))):
        if names:
            raise DataError(f"{len(names)} domains of {where} are not in {other}: {', '.join(sorted(names)[:SHOWN])}. {AGAIN}")


def _pivot(table: pa.Table, rows: tuple[str, Sequence[str]], columns: tuple[str, Sequence[str]], value: str, empty: float) -> np.ndarray:
    """Values by the names in two columns, (rows, columns); an unknown name, or a pair that comes twice, is an error."""
    at, to = (_places(table, name, known, value) for name, known in (rows, columns))
    flat = at * len(columns[1]) + to
    if len(np.unique(flat)) < len(flat):
        raise DataError(f"swarm: two values of {value} for one {rows[0]} and {columns[0]}. {AGAIN}")
    out = np.full(len(rows[1]) * len(columns[1]), empty)
    out[flat] = table[value].cast(pa.float64()).to_numpy()
    return out.reshape(len(rows[1]), len(columns[1]))


def _places(table: pa.Table, column: str, known: Sequence[str], value: str) -> np.ndarray:
    number = {name: place for place, name in enumerate(known)}
    names = table[column].to_pylist()
    strange = sorted(set(names) - set(number))
    if strange:
        raise DataError(f"swarm: {value} of {len(strange)} unknown names of a {column}: {', '.join(strange[:SHOWN])}. {AGAIN}")
    return np.array([number[name] for name in names], np.int64)


def _check_weights(keys: Sequence[str], weights: np.ndarray, usable: np.ndarray) -> None:
    """Each run's weights sum to 1 over the domains that have tokens."""
    sums = np.where(usable, weights, 0.0).sum(axis=1)
    off = np.flatnonzero(~(np.abs(sums - 1) < 1e-6))
    if len(off):
        raise DataError(f"swarm: weights of run {keys[off[0]]} sum to {sums[off[0]]:.6g} over the domains that have tokens, not to 1. {AGAIN}")


def _left_out(has: np.ndarray, failed: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    if has.all():
        return ()
    reasons = "; ".join(f"{each['run']}: {each['reason']}" for each in failed[:SHOWN])
    return (f"{int((~has).sum())} of {len(has)} runs have no score and are left out. {reasons}".rstrip(),)
