"""The one reader of documents: the rows that are still kept, with every edit of earlier steps applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cuvee.engine.shard import Table
from cuvee.engine.store import read_table
from cuvee.record import positions

Edit = Mapping[str, Any]  # start, end: bytes of the stored text; replacement


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
        edits: dict[int, list[Edit]] = {}
        for url in self.verdicts:
            documents = _judge(documents, url, f"{self.name} in {url}", edits)
        if edited and "text" in wanted:
            documents = _edit(documents, edits)
        return documents.select(list(dict.fromkeys(["row", "id", *columns])))


def shards(documents: Table, *verdicts: Table) -> list[Shard]:
    """Every documents shard with its verdicts' shards."""
    return [Shard(name, url, tuple(verdict.files[name] for verdict in verdicts)) for name, url in documents.files.items()]


def identity(source: str, documents: Table, *verdicts: Table) -> tuple[str, ...]:
    """What a per-source step that reads these rows hashes: the digests of that source's shards."""
    return (documents.digests[source], *(verdict.digests.get(source, "") for verdict in verdicts))


def _judge(documents: pa.Table, url: str, where: str, edits: dict[int, list[Edit]]) -> pa.Table:
    """The rows that this verdict keeps; its edits join `edits`, row -> list."""
    verdict = read_table(url)
    place = positions(verdict, documents["row"], documents["id"], where)
    keep = verdict["keep"].to_numpy(zero_copy_only=False)
    stays = place >= 0
    stays[stays] = keep[place[stays]]
    if "edits" in verdict.column_names and verdict["edits"].null_count < len(verdict):
        for row, changes in zip(verdict["row"].to_pylist(), verdict["edits"].to_pylist()):
            edits.setdefault(row, []).extend(changes or [])
    return documents.filter(pa.array(stays))


def _edit(documents: pa.Table, edits: Mapping[int, Sequence[Edit]]) -> pa.Table:
    if not any(edits.values()):
        return documents
    texts = documents["text"].to_pylist()
    for place, row in enumerate(documents["row"].to_pylist()):
        if edits.get(row):
            texts[place] = apply_edits(texts[place], edits[row])
    return documents.set_column(documents.column_names.index("text"), "text", pa.array(texts, pa.large_string()))


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """`text` with byte ranges replaced. Offsets are into `text`; where two edits overlap, the earlier one wins."""
    raw, pieces, at = text.encode(), [], 0
    for edit in sorted(edits, key=lambda edit: (edit["start"], edit["end"])):
        if edit["start"] >= at:
            pieces += [raw[at:edit["start"]], edit["replacement"].encode()]
        at = max(at, edit["end"])
    return b"".join([*pieces, raw[at:]]).decode()
