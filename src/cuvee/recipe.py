"""Reading a recipe file: every error names the key, its line and the nearest known key; paths are made absolute."""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from cuvee.config import Recipe, Section
from cuvee.engine.store import exists, read_bytes
from cuvee.errors import RecipeError, UsageError, nearest

# Keys that hold paths, as they stand in a recipe; `*` is any item of a list.
PATHS = ("work", "sources.*.path", "evals.*.path", "exclude.ids", "exclude.urls", "exclude.hosts", "tokenizer.file",
         "embed.fit", "quality.labels", "swarm.scores", "fit.reuse", "mix.freeze")


def load(path: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a YAML file, with `--set a.b=c` overrides. Errors are RecipeErrors."""
    if not exists(path):
        raise UsageError(f"no such recipe: {path}. Write one with: cuvee init {os.path.basename(path)}")
    values, lines = _read(path)
    for override in overrides:
        _override(values, override)
    try:
        recipe = Recipe.model_validate(values)
    except ValidationError as error:
        raise RecipeError("\n".join(_explain(path, lines, each) for each in error.errors())) from None
    _check_licenses(path, recipe)
    return Recipe.model_validate(absolute(recipe.model_dump(by_alias=True), os.path.dirname(os.path.abspath(path))))


def absolute(values: dict[str, Any], base: str) -> dict[str, Any]:
    """`values` with every relative path made one from `base`."""
    for place in PATHS:
        _resolve(values, place.split("."), base)
    for stage in values["stream"]["stages"]:
        if stage["mixture"].endswith(".json"):
            _resolve(stage, ["mixture"], base)
    return values


def _resolve(values: Any, place: Sequence[str], base: str) -> None:
    head, *rest = place
    if head == "*":
        for item in values:
            _resolve(item, rest, base)
    elif rest:
        _resolve(values[head], rest, base)
    elif values[head] is not None:
        paths = values[head]
        values[head] = _from(base, paths) if isinstance(paths, str) else [_from(base, path) for path in paths]


def _from(base: str, path: str) -> str:
    return path if "://" in path else os.path.normpath(os.path.join(base, os.path.expanduser(path)))


def _read(path: str) -> tuple[dict[str, Any], dict[tuple[str | int, ...], int]]:
    """The values of a YAML file, and the line of every key."""
    try:
        text = read_bytes(path).decode()
        node = yaml.compose(text, yaml.SafeLoader)
        values = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: not UTF-8: byte {error.start}") from None
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}: not YAML: {error}") from None
    except RecursionError:
        raise RecipeError(f"{path}: nested too deeply, or a part holds itself") from None
    if not isinstance(values, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of keys such as work, sources, budget. See: cuvee init --schema")
    lines: dict[tuple[str | int, ...], int] = {}
    try:
        _note_lines(path, node, (), lines)
    except RecursionError:
        raise RecipeError(f"{path}: nested too deeply, or a part holds itself") from None
    return values, lines


def _note_lines(path: str, node: yaml.Node, place: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int]) -> None:
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*place, key.value)
            if here in lines:
                raise RecipeError(f"{path}, line {key.start_mark.line + 1}: '{key.value}' is given twice; "
                                  f"first on line {lines[here]}. Keep one.")
            _note_lines(path, value, here, lines)
            lines[here] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _note_lines(path, item, (*place, number), lines)


def _override(values: dict[str, Any], text: str) -> None:
    """`a.b=c` or `sources.0.priority=2`; c is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {text}: write it as section.key=value")
    *parents, last = [int(part) if part.isdigit() else part for part in key.split(".")]
    here: Any = values
    for part in parents:
        if isinstance(here, list) and not (isinstance(part, int) and part < len(here)):
            raise UsageError(f"--set {text}: there is no item {part}; the list has {len(here)}")
        here = here[part] if isinstance(here, list) else here.setdefault(part, {})
        if not isinstance(here, (dict, list)):
            raise UsageError(f"--set {text}: '{part}' holds {here!r}, not a section")
    if isinstance(here, list) and not (isinstance(last, int) and last < len(here)):
        raise UsageError(f"--set {text}: there is no item {last}; the list has {len(here)}")
    try:
        here[last] = yaml.safe_load(value)
    except yaml.YAMLError:
        raise UsageError(f"--set {text}: '{value}' is no YAML value; quote it") from None


def _explain(path: str, lines: Mapping[tuple[str | int, ...], int], error: Any) -> str:
    """One line for one of pydantic's errors."""
    place = tuple(part for part in error["loc"] if (part,) != ("str",) and not str(part).startswith(("list[", "constrained-")))
    line = next((lines[place[:n]] for n in range(len(place), -1, -1) if place[:n] in lines), 1)
    *section, key = place or ("",)
    where = ".".join(map(str, section))
    head = f"{path}, {where}: " if where else f"{path}: "
    if error["type"] == "extra_forbidden":
        known = _known_keys(Recipe, section)
        return f"{head}unknown key '{key}' (line {line}). {nearest(str(key), known)}"
    if error["type"] == "missing":
        return f"{head}'{key}' is missing (line {line})"
    shown = f"{key} = {error['input']!r} (line {line}): " if place else ""
    return f"{head}{shown}{error['msg'].removeprefix('Value error, ')}"


def _known_keys(model: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    for part in place:
        if isinstance(part, str):
            field = next(field for name, field in model.model_fields.items() if part in (name, field.alias))
            model = _section_in(field.annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _section_in(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, typing.get_args(annotation))), None)


def _check_licenses(path: str, recipe: Recipe) -> None:
    allow = recipe.licenses.allow
    for number, source in enumerate(recipe.sources):
        where = f"{path}, sources.{number} ({source.name})"
        if source.license is None and source.license_column is None:
            raise RecipeError(f"{where}: no licence. Add `license: <SPDX id>`, or `license_column: <column>`.")
        if source.license is not None and source.license_column is not None:
            raise RecipeError(f"{where}: both `license` and `license_column`. Keep one.")
        if source.license is not None and allow and source.license not in allow:
            raise RecipeError(f"{where}: licence {source.license} is not in licenses.allow ({', '.join(allow)}). "
                              "Add it there, or remove the source.")
