"""The raw files of a source: found, recognised by content, and identified by content."""

from __future__ import annotations

import functools
import hashlib
import os
import string
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from cuvee.config import Source
from cuvee.engine.run import Work
from cuvee.engine.store import exists, filesystem, is_local, join, open_input, read_json, write_json
from cuvee.errors import UsageError
from cuvee.steps.reading import raw

TEXT_NAMES = (".txt", ".text", ".md", ".rst")
COMPRESSED_NAMES = (".gz", ".zst", ".zstd", ".bz2", ".xz")
HASHED = 1 << 23  # bytes of a file that are hashed at a time: so many that another thread can work meanwhile


@dataclass(frozen=True)
class Input:
    """One raw file. name: its path below the part of the source's path without wildcards; identity: by content."""

    url: str
    name: str
    kind: str
    compression: str | None
    size: int
    identity: str


def inputs_of(work: Work, source: Source) -> list[Input]:
    """Every file of a source in path order. No file, or a Parquet file without a named column, is a UsageError."""
    known = Identities(work.url)
    found = [input_file(url, name, source.kind, known.of(url)) for url, name in expand(source.path, f"source {source.name}")]
    known.save()
    for file in found:
        if file.kind == "parquet":
            check_columns(file, source)
    return found


def expand(path: str | Sequence[str], where: str) -> list[tuple[str, str]]:
    """(URL, name) of every file that one or several paths, folders or globs give."""
    paths = [path] if isinstance(path, str) else list(path)
    found = [pair for each in paths for pair in _expand_one(each, where)]
    return sorted(dict(found).items())


def _expand_one(path: str, where: str) -> list[tuple[str, str]]:
    fs, inside = filesystem(path)
    if any(mark in inside for mark in "*?[") and not fs.exists(inside):  # a file may bear such a mark in its name
        matches = [match for match in fs.glob(inside) if fs.isfile(match)]
        if not matches:
            raise UsageError(f"{where}: no file matches {path}")
        root = inside[:min(inside.index(mark) for mark in "*?[" if mark in inside)].rpartition("/")[0]
    elif fs.isdir(inside):
        matches = [match for match in fs.find(inside) if not os.path.basename(match).startswith(".")]
        if not matches:
            raise UsageError(f"{where}: the folder {path} holds no file")
        root = inside
    elif fs.exists(inside):
        matches, root = [inside], inside.rpartition("/")[0]
    else:
        raise UsageError(f"{where}: no such file: {path}")
    root = fs._strip_protocol(root) if root else ""
    return [(fs.unstrip_protocol(match) if not is_local(path) else match, match.removeprefix(root).lstrip("/")) for match in matches]


def input_file(url: str, name: str, kind: str, identity: str) -> Input:
    with open_input(url) as file:
        head = file.read(8)
        size = file.seek(0, 2)
    if head.startswith(raw.ZIP):
        raise UsageError(f"{url} is a zip archive. Unpack it first; gzip, zstd, bzip2 and xz are read as they are.")
    return Input(url, name, _kind(kind, name, head), raw.compression(head), size, identity)


def _kind(kind: str, name: str, head: bytes) -> str:
    if kind != "auto":
        return kind
    if head.startswith(raw.PARQUET):
        return "parquet"
    stem = name.lower()
    for suffix in COMPRESSED_NAMES:
        stem = stem.removesuffix(suffix)
    return "text" if stem.endswith(TEXT_NAMES) else "jsonl"


def check_columns(file: Input, source: Source) -> None:
    """A Parquet file without a column that the source names is a UsageError."""
    try:
        with open_input(file.url) as opened:
            columns = pq.read_schema(opened).names
    except (pa.ArrowInvalid, OSError):
        return  # ingest counts the broken file
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise UsageError(f"{file.url}: two columns are named '{twice[0]}'. Rename one.")
    wanted = [*template_fields(source.text), *filter(None, (source.license_column, source.id, source.url))]
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise UsageError(f"{file.url}: no column '{missing[0]}'. Columns: {', '.join(columns)}")


def template_fields(text: str) -> list[str]:
    """Columns that `text` names: those of a template such as "{title}\\n{body}", or the one column."""
    try:
        parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise UsageError(f"'{text}' is no template: {error}. Write a column name, or columns in braces.") from None
    odd = [name for _, name, spec, conversion in parts if not name or name.isdigit() or set(name) & set(".[") or spec or conversion]
    if odd or not text:
        raise UsageError(f"'{text}' is no template: write a column name, or column names alone in braces, as in '{{title}} {{body}}'.")
    return list(dict.fromkeys(name for _, name, _, _ in parts)) or [text]


class Identities:
    """Identity of raw files by content: sha256 of local ones, cached by path, size and mtime; elsewhere what the store says."""

    def __init__(self, work: str) -> None:
        self.url = join(work, "inputs.json")
        self.known: dict[str, list[str | int]] = read_json(self.url) if exists(self.url) else {}
        self.new = False

    def of(self, url: str) -> str:
        fs, path = filesystem(url)
        if not is_local(url):
            return f"{fs.size(path)} {fs.checksum(path)}"
        try:
            status = os.stat(path)
        except FileNotFoundError:
            raise UsageError(f"{url}: no such file; a link that leads nowhere?") from None
        stamp = [status.st_size, status.st_mtime_ns]
        if self.known.get(path, [])[:2] != stamp:
            self.known[path] = [*stamp, _sha256(path, *stamp)]
            self.new = True
        return str(self.known[path][2])

    def save(self) -> None:
        if self.new:
            write_json(self.url, self.known)


@functools.lru_cache(maxsize=10_000)
def _sha256(path: str, size: int, mtime: int) -> str:
    """Of a file as it is by its size and time: a process that looks twice reads once."""
    return sha256(path)


def sha256(url: str) -> str:
    """Of a file's bytes. A pipe, which would never end or give its bytes once, is a UsageError."""
    if is_local(url) and not os.path.isfile(path := filesystem(url)[1]):
        raise UsageError(f"{path} is not a regular file (a pipe?), and files are read more than once. Write it to disk first.")
    digest = hashlib.sha256()
    with open_input(url) as file:
        while piece := file.read(HASHED):
            digest.update(piece)
    return digest.hexdigest()
