"""Rows of raw files to columns of documents; a row that gives none is a fault with its reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from cuvee.config import Ingest, Source
from cuvee.errors import DataError
from cuvee.kernels.text import text_ids
from cuvee.record import DOCUMENTS
from cuvee.steps.reading import raw
from cuvee.steps.reading.inputs import template_fields

ORIGIN = pa.schema([("file", pa.string()), ("row", pa.int64())])


def needed(source: Source) -> set[str]:
    """Columns that documents are made of, but for those that go to `meta`."""
    return {*template_fields(source.text), source.id or "id", source.url or "url", *filter(None, [source.license_column])}


@dataclass
class Documents:
    """Columns of a batch of documents, the raw rows they came from, and the faults found on the way."""

    rows: list[int] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)
    faults: list[raw.Fault] = field(default_factory=list)


def documents_of(batch: raw.Batch, source: Source, config: Ingest, file: str) -> Documents:
    texts = _texts(batch.records, source.text)
    rows, records, found = batch.rows, batch.records, Documents(faults=list(batch.faults))
    column = _column(texts, config.max_bytes)
    if column is None:
        faults = [_fault(text, config.max_bytes) for text in texts]
        found.faults += [raw.Fault(file, row, *fault) for row, fault in zip(rows, faults) if fault is not None]
        found.faults.sort(key=lambda fault: fault.row)
        good = [place for place, fault in enumerate(faults) if fault is None]
        rows, records, texts = ([values[place] for place in good] for values in (rows, records, texts))
        column = pa.array(texts, pa.large_string())
    found.rows = rows
    found.columns = {"text": column, "license": _licenses(records, source, file, rows), **_described(records, source, config)}
    return found


def _column(texts: Sequence[str | tuple[str, str]], max_bytes: int) -> pa.Array | None:
    """All texts of a batch at once; None where one of them has a fault."""
    try:
        column = pa.array(texts, pa.large_string())
    except (UnicodeEncodeError, pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    return column if longest <= max_bytes else None


def _texts(records: Sequence[dict[str, Any]], template: str) -> list[str | tuple[str, str]]:
    fields = template_fields(template)
    texts = [record.get(template) for record in records] if fields == [template] else []
    return texts if set(map(type, texts)) == {str} else [_text(record, template, fields) for record in records]


def _text(record: dict[str, Any], template: str, fields: Sequence[str]) -> str | tuple[str, str]:
    """The text of a row, or (reason, detail). A template needs each of its columns to be a string."""
    for name in fields:
        if not isinstance(record.get(name), str):
            kind = "is missing" if name not in record else f"is {type(record[name]).__name__}, not a string"
            return "no_text", f"column '{name}' {kind}; columns here: {', '.join(map(str, record))[:200]}"
    return record[template] if fields == [template] else template.format_map({name: record[name] for name in fields})


def _fault(text: str | tuple[str, str], max_bytes: int) -> tuple[str, str] | None:
    if isinstance(text, tuple):
        return text
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        return ("lone_surrogate", f"character {error.start} is a lone surrogate, U+{ord(text[error.start]):04X}")
    if size > max_bytes:
        return ("too_long", f"{size:,} bytes; ingest.max_bytes is {max_bytes:,}")
    return None


def _licenses(records: Sequence[dict[str, Any]], source: Source, file: str, rows: Sequence[int]) -> list[str]:
    if source.license_column is None:
        return [source.license or "NOASSERTION"] * len(records)
    found = [record.get(source.license_column) for record in records]
    bad = next((place for place, value in enumerate(found) if not isinstance(value, str) or not value.strip()), None)
    if bad is not None:
        raise DataError(f"source {source.name}, {file}, row {rows[bad]}: no licence in column '{source.license_column}'. "
                        "Fill it in the data, or give the source one `license`.")
    return found


def _described(records: Sequence[dict[str, Any]], source: Source, config: Ingest) -> dict[str, list[str | None]]:
    """Address, own id, and every other column, of each record."""
    id_column, url_column, used = source.id or "id", source.url or "url", needed(source)
    rest = ({str(key): value for key, value in record.items() if key not in used} for record in records)
    return {"url": _strings(records, url_column), "source_id": _strings(records, id_column),
            "meta": [_json(each) if each else None for each in rest] if config.meta else [None] * len(records)}


def _strings(records: Sequence[dict[str, Any]], column: str) -> list[str | None]:
    values = [record.get(column) for record in records]
    return values if set(map(type, values)) == {NoneType} else [_string(value) for value in values]


def _string(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else _json(value)
    return text if text.isascii() else text.encode(errors="replace").decode()


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # lone surrogates or integers over 64 bits, which the standard library escapes and writes
        return json.dumps(value, default=str)


def tables_of(found: Documents, source: str, file: str) -> tuple[pa.Table, pa.Table]:
    text = found.columns["text"]
    columns = {**found.columns, "id": text_ids(text), "source": pa.repeat(source, len(text))}
    documents = pa.table([pa.array(columns[each.name], each.type) for each in DOCUMENTS], schema=DOCUMENTS)
    return documents, pa.table([pa.repeat(file, len(text)), pa.array(found.rows, pa.int64())], schema=ORIGIN)
