"""The part of batches of rows, computed by NumPy alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from genclf.stream.batches import ArrowTable, Batches, as_tables
from genclf.stream.files import ROWS
from genclf.stream.part import Part, part_of
from genclf.stream.schema import Rows, Schema
from genclf.sums.host import HostClassifier, HostSums, LabelledRows
from genclf.tables.place import Place


def pieces(
    schema: Schema, batches: Batches, part_id: str, *, unlabelled: bool = False
) -> Iterator[Rows]:
    """The rows of the batches, at most `ROWS` at a time; see `Schema.read`."""
    for piece, place in sliced(as_tables(batches), part_id):
        yield schema.read(piece, place, unlabelled=unlabelled)


def sliced(tables: Iterator[ArrowTable], name: str) -> Iterator[tuple[ArrowTable, Place]]:
    """Slices of the tables, of at most `ROWS` rows, and where each is; one of an empty table."""
    first = 0
    for table in tables:
        for start in range(0, max(len(table), 1), ROWS):
            yield table.slice(start, ROWS), Place(name, first + start)
        first += len(table)


def host_part(schema: Schema, batches: Batches, part_id: str) -> Part:
    """The part of these batches, without JAX."""
    total, rows, used, unseen = _sums(schema, schema.no_rows()), 0, 0, 0
    for piece in pieces(schema, batches, part_id):
        total = total.merge(_sums(schema, piece))
        rows += len(piece.label)
        used += int(piece.counted().sum())
        unseen += piece.num_unseen()
    return part_of(total, rows, part_id, schema.digest, rows - used, unseen)


def _sums(schema: Schema, rows: Rows) -> HostClassifier:
    """What the model sums over the rows with a label and weight."""
    counted = rows.counted()
    rows = rows if counted.all() else Rows(*(_rows_of(counted, given) for given in rows))
    labelled = LabelledRows(rows.label, rows.weight, len(schema.classes))
    count, found = labelled.counts(), schema.sums(rows.x, labelled)
    conditional = found[None] if None in found else found
    return HostClassifier(HostSums(count, count), conditional, schema.statistic)


def _rows_of(which: np.ndarray, given: Any) -> Any:
    """These rows of all arrays."""
    if isinstance(given, dict):
        return {name: _rows_of(which, item) for name, item in given.items()}
    if isinstance(given, list):
        return [_rows_of(which, item) for item in given]
    return given if given is None else given[which]
