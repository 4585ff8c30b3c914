"""Every error that Cuvee raises on purpose; the message says what, where and what to do.

CuveeError
├── UsageError        exit 2: the call or the recipe is off; nothing was done
│   └── RecipeError   the recipe names an unknown key, a wrong value, a missing licence
├── DataError         exit 1: input that cannot be used, or tables that do not belong together
└── StepError         exit 1: a task failed; names the step and the task
    └── WorkerDied    a worker process ended without an answer more often than allowed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CuveeError(Exception):
    """Base of all; `exit_code` is what the command line returns."""

    exit_code = 1


class UsageError(CuveeError):
    exit_code = 2


class RecipeError(UsageError):
    pass


class DataError(CuveeError):
    pass


class StepError(CuveeError):
    pass


class WorkerDied(StepError):
    pass


def nearest(name: str, known: Iterable[str]) -> str:
    """The closest known name as a ready question, or the list of known names."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}."


def missing_extra(package: str, extra: str) -> UsageError:
    """The error for an optional package that is not installed."""
    return UsageError(f"{package} is not installed. Install it with: pip install 'cuvee[{extra}]'")
