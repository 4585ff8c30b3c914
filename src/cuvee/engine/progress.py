"""What a person sees while a step runs: a bar on a terminal, one line a step elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

REMOVED_MOST = 0.6  # of the rows that a step reads


class Progress:
    """Reports to `stream` (stderr). A terminal gets a bar with documents/s, MB/s and time left."""

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.stream = stream or sys.stderr
        self.quiet = quiet

    def say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=self.stream, flush=True)

    def removed(self, step: str, read: int, kept: int) -> None:
        """Say loudly when a step removes nothing, or more than REMOVED_MOST."""
        if warning := removal(step, read, kept):
            self.say(f"WARNING: {warning}")

    @contextlib.contextmanager
    def step(self, name: str, total: int, done: int) -> Iterator[_Bar]:
        bar = _Bar(name, total, done)
        if self.quiet:
            yield bar
            return
        if self.stream.isatty():
            with _rich_bar(bar, self.stream):
                yield bar
        else:
            yield bar
        self.say(bar.line())


def removal(step: str, read: int, kept: int) -> str | None:
    """What is to be said where a step removes nothing, or more than REMOVED_MOST."""
    if read and (kept == read or read - kept > REMOVED_MOST * read):
        return f"{step} removed {read - kept:,} of {read:,} rows ({1 - kept / read:.1%}). Is that what you expect?"
    return None


class _Bar:
    """Counts of one step so far: tasks, documents (`read`), bytes of text (`bytes`)."""

    def __init__(self, name: str, total: int, done: int) -> None:
        self.name, self.total, self.done = name, total, done
        self.skipped = done
        self.documents = 0
        self.bytes = 0
        self.start = time.monotonic()
        self.on_advance = lambda: None

    def advance(self, counts: dict[str, Any]) -> None:
        self.done += 1
        self.documents += counts.get("read", 0)
        self.bytes += counts.get("bytes", 0)
        self.on_advance()

    def rates(self) -> str:
        seconds = max(time.monotonic() - self.start, 1e-3)
        rate = f"{self.documents / seconds:,.0f} documents/s" if self.documents else ""
        return rate + (f", {self.bytes / seconds / 1e6:,.1f} MB/s" if self.bytes else "")

    def line(self) -> str:
        seconds = time.monotonic() - self.start
        resumed = f", {self.skipped} done before" if self.skipped else ""
        rates = self.rates()
        return f"{self.name:<28} {self.done}/{self.total} tasks{resumed}, {seconds:.1f} s" + (f", {rates}" if rates else "")


@contextlib.contextmanager
def _rich_bar(bar: _Bar, stream: TextIO) -> Iterator[None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rates]}"),
               TimeRemainingColumn())
    with RichProgress(*columns, console=Console(file=stream), transient=True) as shown:
        task = shown.add_task(bar.name, total=bar.total, completed=bar.done, rates="")
        bar.on_advance = lambda: shown.update(task, completed=bar.done, rates=bar.rates())
        yield
