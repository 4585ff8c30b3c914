"""What `cuvee init` writes: a recipe to start from, and every key with its default."""

from __future__ import annotations

import inspect
import re
import typing
from typing import Any

from pydantic_core import PydanticUndefined

from cuvee import config
from cuvee.config import Recipe, Section

STARTER = """\
# From these datasets to a mixture: name your files, then `cuvee check` and `cuvee run`.
# `cuvee init --schema` prints every key with its default.
work: work                            # where results go; local or any fsspec URL
seed: 0
licenses: {allow: [CC0-1.0, CC-BY-4.0, MIT, Apache-2.0]}   # SPDX ids
sources:
  - {name: web,  path: "data/web/*.jsonl.gz", license: CC-BY-4.0}
  - {name: docs, path: "data/docs/*.parquet", text: body, license_column: license, priority: 1}
evals:                                # removed from the data; with context and continuation also tasks of the swarm
  - {name: qa, path: data/qa.jsonl, context: "{question}\\n", continuation: "{answer}"}
tokenizer: {train: {vocab: 8192}}     # or {file: tokenizer.json}
budget: {target: 1B, proxy: 2M}       # tokens of the real run, and of one proxy
quality: {target: [docs]}             # what good text looks like
"""


def schema_text() -> str:
    """Every section and key: default, type, and the comment that stands beside it in config.py."""
    return "\n".join(_lines(Recipe, 0))


def _lines(model: type[Section], depth: int) -> list[str]:
    notes = _comments(model)
    lines = []
    for name, field in model.model_fields.items():
        key, inner = field.alias or name, _section(field.annotation)
        note = f"  # {notes[name]}" if name in notes else ""
        if inner is None:
            lines.append(f"{'  ' * depth}{key}: {_default(field)}{note}")
        else:
            many = typing.get_origin(field.annotation) is list
            lines += [f"{'  ' * depth}{key}:{'  # a list of:' if many else ''}{note}", *_lines(inner, depth + 1)]
    return lines


def _section(annotation: Any) -> type[Section] | None:
    if inspect.isclass(annotation) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section, typing.get_args(annotation))), None)


def _default(field: Any) -> str:
    if field.default is PydanticUndefined:
        return "(required)"
    return "null" if field.default is None else str(field.default).lower() if isinstance(field.default, bool) else repr(field.default)


def _comments(model: type[Section]) -> dict[str, str]:
    """The comment at the end of each field's line in the source of config.py."""
    source = inspect.getsource(getattr(config, model.__name__))
    return {match[1]: match[2].strip() for match in re.finditer(r"^    (\w+): .*?  # (.*)$", source, re.MULTILINE)}
