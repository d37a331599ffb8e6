"""Longer schemas: new categories, words and classes, and parts made before in their form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from genclf.stream.batches import Batches
from genclf.stream.files import Reader
from genclf.stream.host import HostMoments, HostStats, HostSums
from genclf.stream.learning import collected, in_one_order, values_in
from genclf.stream.part import Part
from genclf.stream.recipes import OfCategories, OfWords, PartOfModel
from genclf.tables.arrays import check_type
from genclf.tables.arrow_cells import ArrowCells
from genclf.tables.columns import Column
from genclf.tables.place import Place

if TYPE_CHECKING:
    from genclf.stream.schema import Schema
else:
    Schema = object


def longer_lists(schema: Schema, batches: Batches) -> tuple[tuple[Column, ...], tuple[Any, ...]]:
    """The columns and classes of a schema, with the values that these rows have beside its own."""
    values: dict[str, set[Any]] = {c.name: set() for c in schema.columns if c.has_values}
    classes: set[Any] = set()
    for source, table in Reader().all_tables(batches):
        place = Place(source)
        for column in schema.columns:
            if column.name in values:
                cells = ArrowCells(table[column.name])
                check_type(cells, column, place)
                collected(values[column.name], cells, column, place, "ignore")
        cells = ArrowCells(table[schema.label])
        classes |= values_in(cells, schema.label, place)
    columns = tuple(_extended(c, values[c.name]) if c.name in values else c for c in schema.columns)
    return columns, in_one_order(schema.classes, classes)


def _extended(column: Column, new: set[Any]) -> Column:
    values = in_one_order(column.values, new)
    kind = column.kind
    if kind == "binary" and len(values) > 2:
        kind = "categorical"
    return replace(column, kind=kind, values=values)


def extended_part(part: Part, schema: Schema, longer: Schema) -> Part:
    """A part of a schema in the form of a longer one; values that are new have no rows in it."""
    if part.digest != schema.digest:
        raise ValueError(
            f"part {part.part_ids[0]!r} was computed with the schema {part.digest[:12]}, but "
            f"schema is {schema.digest[:12]}: give the schema of the part"
        )
    names = [column.name for column in schema.columns]
    if names != [column.name for column in longer.columns]:
        raise ValueError("longer has other columns than schema, expected what schema.extend gave")
    of_class = _places(schema.classes, longer.classes, "the classes")
    conditional = part.conditional
    if isinstance(conditional, dict):
        conditional = {
            own.name: _padded(conditional[own.name], own, schema, longer, of_class)
            for own in schema.parts
        }
    else:
        conditional = _padded(conditional, schema.parts[0], schema, longer, of_class)
    return replace(
        part,
        labels=_by_class(part.labels, of_class, len(longer.classes)),
        conditional=conditional,
        digest=longer.digest,
        statistic=longer.statistic,
    )


def _places(old: Sequence[Any], new: Sequence[Any], what: str) -> np.ndarray:
    """The index among the new values of each old one."""
    index = {value: i for i, value in enumerate(new)}
    if lost := [value for value in old if value not in index]:
        raise ValueError(f"longer lacks {lost[0]!r} among {what}, expected all of schema's")
    return np.array([index[value] for value in old], int)


def _by_class(stats: Any, places: np.ndarray, num_classes: int) -> Any:
    """Statistics whose first axis is that of more classes; those that are new have no rows."""

    def placed(array: np.ndarray) -> np.ndarray:
        if len(array) != len(places):  # pooled over the classes
            return array
        found = np.zeros((num_classes, *array.shape[1:]))
        found[places] = array
        return found

    if isinstance(stats, HostMoments):
        return HostMoments(placed(stats.count), placed(stats.mean), placed(stats.scatter))
    return HostSums(placed(stats.count), placed(stats.total))


def _padded(
    stats: HostStats, own: PartOfModel, schema: Schema, longer: Schema, of_class: np.ndarray
) -> HostStats:
    if own.recipe is None:
        raise ValueError(f"only JAX can sum part {own.name!r} of the model: sum its rows again")
    found = _by_class(stats, of_class, len(longer.classes))
    if not isinstance(own.recipe, OfCategories | OfWords):
        return found
    pairs = zip(schema.columns_of(own.name), longer.columns_of(own.name), strict=True)
    at, start = [], 0
    for old, new in pairs:
        if old.has_values:
            places = _places(old.values, new.values, f"the values of column {old.name!r}")
            if old.unseen == "other":
                places = np.append(places, new.size - 1)
            at.append(start + places)
        else:
            at.append(start + np.arange(old.size))
        start += new.size
    total = np.zeros((len(found.total), start))
    total[:, np.concatenate(at)] = found.total
    return HostSums(found.count, total)
