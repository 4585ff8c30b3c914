"""What a finished step leaves: a folder of files, and tables whose shards bear their documents' names."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from cuvee.engine.step import Counts
from cuvee.engine.store import join, read_json, read_table
from cuvee.errors import DataError

SUFFIX = ".parquet"


@dataclass(frozen=True)
class Folder:
    """A finished step: its URL, its fingerprint, and its manifest."""

    url: str
    fingerprint: str
    manifest: Mapping[str, Any] = field(repr=False)

    @classmethod
    def open(cls, url: str) -> Folder:
        manifest = read_json(join(url, "manifest.json"))
        return cls(url, manifest["fingerprint"], manifest)

    @property
    def source(self) -> str | None:
        return self.manifest["source"]

    @property
    def counts(self) -> Counts:
        """Counts added up over tasks in name order; a value that is not a number is taken from the last task."""
        return add(result["counts"] for _, result in sorted(self.manifest["tasks"].items()))

    @functools.cached_property
    def files(self) -> dict[str, str]:
        """File name -> checksum, in name order."""
        found = {name: sum_ for result in self.manifest["tasks"].values() for name, sum_ in result["files"].items()}
        return dict(sorted(found.items()))

    def file(self, name: str) -> str:
        """URL of a file that the manifest names."""
        if name not in self.files:
            raise DataError(f"{self.url}: the manifest names no file {name}.")
        return join(self.url, name)


def add(counts: Iterable[Counts]) -> Counts:
    """Sum numbers key by key, merge nested mappings, keep the last of anything else."""
    total: Counts = {}
    for each in counts:
        for key, value in each.items():
            if isinstance(value, Mapping):
                total[key] = add([total.get(key, {}), value])
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                total[key] = total.get(key, 0) + value
            else:
                total[key] = value
    return total


@dataclass(frozen=True)
class Table:
    """One fact-per-document file set: shard `source/part` -> URL, and per source the digest of its bytes.

    A per-source step's folder holds `part.parquet`, a global step's `source/part.parquet`.
    """

    name: str
    files: Mapping[str, str]
    digests: Mapping[str, str]
    fingerprint: str

    @classmethod
    def of(cls, name: str, folders: Sequence[Folder]) -> Table:
        files: dict[str, str] = {}
        sums: dict[str, list[str]] = {}
        for folder in folders:
            for file, checksum in folder.files.items():
                if not file.endswith(SUFFIX):
                    continue
                shard = file.removesuffix(SUFFIX) if folder.source is None else f"{folder.source}/{file.removesuffix(SUFFIX)}"
                files[shard] = join(folder.url, file)
                sums.setdefault(shard.split("/")[0], []).append(f"{shard} {checksum}")
            if folder.source is not None:
                sums.setdefault(folder.source, [])
        digests = {source: _sha256(sorted(lines)) for source, lines in sorted(sums.items())}
        return cls(name, dict(sorted(files.items())), digests, _sha256(sorted(folder.fingerprint for folder in folders)))

    @property
    def shards(self) -> tuple[str, ...]:
        return tuple(self.files)

    def of_source(self, source: str) -> tuple[str, ...]:
        return tuple(shard for shard in self.files if shard.split("/")[0] == source)

    def read(self, shard: str, columns: Sequence[str] | None = None) -> pa.Table:
        if shard not in self.files:
            raise DataError(f"table {self.name} has no shard {shard}; it has {len(self.files)}.")
        return read_table(self.files[shard], columns)


def _sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
