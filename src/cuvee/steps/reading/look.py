"""A look at the first rows of every source, before anything is read as a whole."""

from __future__ import annotations

from cuvee.config import Ingest, Source
from cuvee.engine.run import Work
from cuvee.steps.ingest import Piece, batches, row_groups
from cuvee.steps.reading.columns import documents_of
from cuvee.steps.reading.inputs import Input, inputs_of


def first_rows(work: Work, source: Source, config: Ingest) -> str | None:
    """What is wrong with a source of whose first rows none gives a document; None where one does, or no row is there.

    The first batch of the first file that has rows is read: at most some thousands of rows, and a whole text file.
    """
    for file in inputs_of(work, source):
        batch = next(batches(_piece(file), None))
        found = documents_of(batch, source, config, file.name)
        if found.rows:
            return None
        if found.faults:
            first, count = found.faults[0], len(found.faults)
            return (f"source {source.name}: none of the first {count:,} rows of {file.url} gives a document. "
                    f"Row {first.row}: {first.reason}: {first.detail}")
    return None


def _piece(file: Input) -> Piece:
    return row_groups(file, 1)[0] if file.kind == "parquet" else Piece(file)
