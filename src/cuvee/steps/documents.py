"""The one reader of documents: the rows that are still kept, with every edit of earlier steps applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cuvee.engine.shard import Table
from cuvee.engine.store import read_table
from cuvee.record import positions


@dataclass(frozen=True)
class Shard:
    """URLs of one documents shard and of the tables that judged its rows, in the order of the steps."""

    name: str  # source/part
    documents: str
    verdicts: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return self.name.split("/", 1)[0]

    @property
    def part(self) -> str:
        return self.name.split("/", 1)[1]

    def read(self, columns: Sequence[str] = ("text",), edited: bool = True) -> pa.Table:
        """`row`, `id` and `columns` of the rows that every verdict keeps, in row order."""
        wanted = [name for name in dict.fromkeys(["id", *columns]) if name != "row"]
        documents = read_table(self.documents, wanted)
        documents = documents.add_column(0, "row", pa.array(np.arange(len(documents), dtype=np.int64)))
        for url in self.verdicts:
            documents = _judged(documents, url, f"{self.name} in {url}", edited and "text" in wanted)
        return documents.select(list(dict.fromkeys(["row", "id", *columns])))


def shards(documents: Table, *verdicts: Table) -> list[Shard]:
    """Every documents shard with its verdicts' shards."""
    return [Shard(name, url, tuple(verdict.files[name] for verdict in verdicts)) for name, url in documents.files.items()]


def identity(source: str, documents: Table, *verdicts: Table) -> tuple[str, ...]:
    """What a per-source step that reads these rows hashes: the digests of that source's shards."""
    return (documents.digests[source], *(verdict.digests.get(source, "") for verdict in verdicts))


def _judged(documents: pa.Table, url: str, where: str, edited: bool) -> pa.Table:
    verdict = read_table(url)
    place = positions(verdict, documents["row"], documents["id"], where)
    keep = verdict["keep"].to_numpy(zero_copy_only=False)
    stays = place >= 0
    stays[stays] = keep[place[stays]]
    documents = documents.filter(pa.array(stays))
    if edited and "edits" in verdict.column_names:
        documents = _edit(documents, verdict["edits"].take(pa.array(place[stays])))
    return documents


def _edit(documents: pa.Table, edits: pa.ChunkedArray) -> pa.Table:
    """Apply edits (byte start, byte end, replacement; sorted, disjoint, offsets into the stored text)."""
    if edits.null_count == len(edits):
        return documents
    texts = documents["text"].to_pylist()
    for place, changes in enumerate(edits.to_pylist()):
        if changes:
            texts[place] = apply_edits(texts[place], changes)
    return documents.set_column(documents.column_names.index("text"), "text", pa.array(texts, pa.large_string()))


def apply_edits(text: str, changes: Sequence[Mapping[str, object]]) -> str:
    raw, pieces, at = text.encode(), [], 0
    for change in changes:
        pieces += [raw[at:change["start"]], change["replacement"].encode()]
        at = change["end"]
    return b"".join([*pieces, raw[at:]]).decode()
