"""Statistics of a schema in the form of a longer one, with more categories, words and classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from genclf.stream.recipes import OfCategories, OfWords, PartOfModel
from genclf.sums.host import HostMoments, HostStats, HostSums

if TYPE_CHECKING:
    from genclf.stream.schema import Schema
else:
    Schema = object


def extended(
    labels: HostSums, conditional: HostStats, schema: Schema, longer: Schema
) -> tuple[HostSums, HostStats]:
    """Statistics of a schema in the form of a longer one; values that are new have no rows."""
    names = [column.name for column in schema.columns]
    if names != [column.name for column in longer.columns]:
        raise ValueError("longer has other columns than schema, expected what schema.extend gave")
    of_class = _places(schema.classes, longer.classes, "the classes")
    if isinstance(conditional, dict):
        conditional = {
            own.name: _padded(conditional[own.name], own, schema, longer, of_class)
            for own in schema.parts
        }
    else:
        conditional = _padded(conditional, schema.parts[0], schema, longer, of_class)
    return _by_class(labels, of_class, len(longer.classes)), conditional


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
