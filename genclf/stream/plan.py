"""What a model reads and sums, described for machines without JAX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from genclf.classifier.classifier import Classifier
from genclf.classifier.estimation import empty
from genclf.classifier.model import check_hyperparameters, require_generative
from genclf.families.base import Family
from genclf.families.capabilities import is_additive
from genclf.families.combined.combinator import leaf_families
from genclf.families.combined.mixed import mixed_product
from genclf.families.combined.mixture import Mixture
from genclf.families.combined.product import Product, ProductParams
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.multinomial import Multinomial
from genclf.families.counts.poisson import Poisson
from genclf.families.gaussian.gaussian import Gaussian
from genclf.stream.recipes import (
    OfBits,
    OfCategories,
    OfEvents,
    OfMoments,
    OfWords,
    PartOfModel,
    Recipe,
)
from genclf.tables.cells import Value
from genclf.tables.columns import Column, sizes_of
from genclf.tables.features import may_be_missing
from genclf.tables.rules import Kind


def generative(clf: Any) -> Classifier:
    """The model; raise unless it is a `Classifier`."""
    require_generative(clf, "Schema.of")
    return check_hyperparameters(clf)


def kinds_of(clf: Classifier) -> dict[str | None, Kind]:
    """The kind of the columns of each part of a model; a model without parts has the key None."""
    return {name: _kind(part) for name, part in named_parts(clf.family).items()}


def named_parts(whole: Any) -> dict[str | None, Any]:
    """The parts of a family or a density by name; one without parts has the key None."""
    if not isinstance(whole, Product | ProductParams):
        return {None: whole}
    return {str(name): part for name, part in whole.parts.items()}


def _leaves(family: Family) -> list[Family]:
    while isinstance(family, Mixture):
        family = family.family
    return [leaf for (leaf,) in leaf_families(family)]


def _kind(family: Family) -> Kind:
    inner = set(map(type, _leaves(family)))
    if inner == {Categorical}:
        return "categorical"
    return "count" if inner <= {Multinomial, Poisson} else "numeric"


def with_unseen(clf: Classifier, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns, whose unseen values are ignored where the model ignores them."""
    parts, found = named_parts(clf.family), []
    for column in columns:
        if column.is_coded and column.has_values and not column.is_listed:
            family = parts[column.part]
            own = all(getattr(leaf, "unseen", "error") == "ignore" for leaf in _leaves(family))
            if column.unseen == "ignore" and not (own or may_be_missing(family)):
                raise ValueError(
                    f'unseen is "ignore", but {family} has no density for a value that column '
                    f'{column.name!r} lacks: give the model unseen="ignore" or '
                    'missing="marginalize", or expect such values by unseen="other"'
                )
            column = replace(column, unseen=column.unseen or ("ignore" if own else None))
        found.append(column)
    return tuple(found)


def mixed_model(
    columns: Sequence[Column],
    num_classes: int,
    *,
    alpha: float = 1.0,
    ridge: float = 0.0,
    class_alpha: float = 0.0,
) -> Classifier:
    """Naive Bayes of columns of any kinds."""
    product = mixed_product(sizes_of(columns), alpha=alpha, ridge=ridge)
    return Classifier(product, num_classes, class_alpha)


def parts_of(
    clf: Classifier, columns: Sequence[Column], classes: Sequence[Value]
) -> tuple[tuple[PartOfModel, ...], str | None]:
    """The parts of a model, and its statistics in words; raise if classes or values differ."""
    if clf.num_classes != len(classes):
        raise ValueError(
            f"the rows have {len(classes)} classes, {', '.join(map(repr, classes)):.100}, but the "
            f"model {clf.num_classes}: give all classes by classes=, or scan all batches"
        )
    found, rows = [], {}
    for name, family in named_parts(clf.family).items():
        own = [column for column in columns if column.part == name]
        if not own:
            raise ValueError(f"part {name!r} of the model has no column in the schema")
        sizes = tuple(column.size for column in own if column.is_coded)
        missing = may_be_missing(family)
        found.append(PartOfModel(name, _kind(family), missing, recipe_of(family, own, sizes)))
        rows[name] = _abstract(own)
    if not is_additive(clf.family):
        return tuple(found), None
    with jax.enable_x64(True):
        made = empty(clf, rows[None] if None in rows else rows)
    return tuple(found), made.statistic


def _abstract(columns: Sequence[Column]) -> PyTree:
    if columns[0].is_coded:
        return jax.ShapeDtypeStruct((1, len(columns)), np.int32)
    width = sum(column.size for column in columns)
    return jax.ShapeDtypeStruct((1, width), np.float64)


@singledispatch
def recipe_of(family: Family, columns: Sequence[Column], sizes: tuple[int, ...]) -> Recipe | None:
    """What a family sums over these columns; None if only JAX can do it."""
    return None


@recipe_of.register
def _(family: Gaussian, columns: Sequence[Column], sizes: tuple[int, ...]) -> Recipe | None:
    full, missing = family.arithmetic.is_full, may_be_missing(family)
    if family.needs_fourth or (full and missing):
        return None
    return OfMoments(full, family.shared, missing)


@recipe_of.register
def _(family: Categorical, columns: Sequence[Column], sizes: tuple[int, ...]) -> Recipe | None:
    expected = family.columns(len(sizes)).num_values
    for column, size, own in zip(columns, sizes, expected, strict=True):
        if size != own:
            others = " and others" if size > len(column.values) else ""
            raise ValueError(
                f"column {column.name!r} has {size} values, {column.values!r:.100}{others}, but "
                f"the model {own}: give them by kinds=, or scan all batches"
            )
    return OfCategories(sizes, may_be_missing(family))


@recipe_of.register
def _(family: Bernoulli, columns: Sequence[Column], sizes: tuple[int, ...]) -> Recipe | None:
    threshold: Any = family.threshold
    if np.ndim(threshold):
        return None
    return OfBits(None if threshold is None else float(threshold), may_be_missing(family))


@recipe_of.register
def _(family: Multinomial, columns: Sequence[Column], sizes: tuple[int, ...]) -> Recipe | None:
    return OfWords(family.presence) if not family.may_miss else None


@recipe_of.register
def _(family: Poisson, columns: Sequence[Column], sizes: tuple[int, ...]) -> Recipe | None:
    return OfEvents(may_be_missing(family))
