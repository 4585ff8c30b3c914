"""The standalone commands as a person calls them, in this process, and what they leave."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cuvee import cli


@dataclass
class Done:
    """Exit code, what was printed, and the outputs where there are any."""

    code: int
    out: str
    err: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, Any]:
        return self.manifest["counts"]


def cuvee(*arguments: str) -> Done:
    """`cuvee ARGUMENTS`; an exit through an error is a code, as in a process of its own."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    code = 0
    sys.argv = ["cuvee", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    return Done(code, out.getvalue(), err.getvalue())


def call(command: str, files: list[Path], out: Path, workers: int = 1, **options: Any) -> Done:
    """`cuvee COMMAND FILES -o OUT --OPTION VALUE ...`; an option with a list of values is repeated."""
    given = [(name, value) for name, values in options.items() for value in (values if isinstance(values, list) else [values])]
    done = cuvee(command, *map(str, files), "-o", str(out), "--workers", str(workers), *(part for name, value in given for part in (f"--{name}", str(value))))
    if done.code == 0:
        done.rows = pq.read_table(out / f"{command}.parquet").to_pylist()
        done.faults = [json.loads(line) for line in (out / "quarantine.jsonl").read_bytes().splitlines()] if (out / "quarantine.jsonl").exists() else []
        done.manifest = json.loads((out / "manifest.json").read_text())
    return done
