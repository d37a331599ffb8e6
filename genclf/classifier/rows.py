"""Rows of x with class weights, and checks of their structure, rank, shapes and dtypes.

The checks need only shapes and dtypes, so they also raise while a function is traced.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, PyTree

from genclf.arguments.module import Module
from genclf.arguments.remembered import Remembered
from genclf.classifier.conversion import float_dtype, widen
from genclf.classifier.labels import (
    AnyArray,
    check_labels,
    check_minus_one,
    check_some_labels,
    valid_labels,
    valid_weights,
)
from genclf.classifier.model import Fitted, Model, TakesExamples
from genclf.families.base import Density, Scalar
from genclf.families.structure import named_arrays
from genclf.numerics.namespace import Array
from genclf.sums.blocks import ClassWeights, Hard, class_rows, row_weights
from genclf.sums.class_sums import class_counts
from genclf.sums.sparse import map_arrays
from genclf.sums.statistics import nan_if

T = TypeVar("T")
_num_features = Remembered()


class Rows(Module):
    """Rows with class weights, made once from the checked arguments of a public function.

    Functions of `Rows` check nothing.

    Attributes:
        x: the rows, in the structure of the model.
        w: class weights, meaningless in rows with an invalid label or weight.
        invalid: whether any label or weight is invalid; then every result is NaN.
    """

    x: PyTree
    w: ClassWeights
    invalid: Bool[Array, ""]

    @property
    def count(self) -> Float[Array, "K"]:
        """The weight of each class."""
        return class_counts(self.w)

    @property
    def responsibilities(self) -> Float[Array, "n K"]:
        """The class weights as a dense array."""
        return class_rows(self.w).T

    @property
    def filled(self) -> PyTree:
        """The rows; each row without weight is replaced by a copy of a row with weight."""
        return filled(self.x, row_weights(self.w) > 0)

    @classmethod
    def of(
        cls,
        x: PyTree,
        y: Array,
        weights: Array | None,
        num_classes: int,
        unlabelled_weight: Scalar | None = None,
    ) -> Rows:
        """The rows; unlabelled ones have weight 0.

        With `unlabelled_weight`, they have the label -1 and their weight times this factor.
        """
        dtype = float_dtype(x)
        weight = jnp.ones(y.shape[0], dtype) if weights is None else weights.astype(dtype)
        valid = valid_weights(weight).all() & valid_labels(y, num_classes).all()
        latent: Array | int = 0
        if unlabelled_weight is not None:
            share = jnp.asarray(unlabelled_weight, dtype)
            latent, valid = share * weight, valid & valid_weights(share)
        if y.ndim == 2:
            return cls(x, y.astype(dtype) * weight[:, None], ~valid)
        y = widen(y)
        known = (y >= 0) & (y < num_classes)
        label = jnp.where(known, y, -1).astype(jnp.int32)
        return cls(x, Hard(label, jnp.where(known, weight, latent), num_classes), ~valid)

    def nan_if_invalid(self, made: T) -> T:
        """A result made from the rows; all NaN if any label or weight is invalid.

        An invalid row could belong to any class, so every number is in doubt.
        """
        return nan_if(self.invalid, made)


def filled(x: PyTree, used: Bool[Array, "n"]) -> PyTree:
    """The rows; each unused row is replaced by a copy of a used one, or emptied if it is sparse.

    An unused row may hold anything, even values without a finite gradient.
    """
    stand_in = jnp.where(used, jnp.arange(used.shape[0]), jnp.argmax(used))
    return map_arrays(lambda a: a[stand_in], x, sparse=lambda a: a.only(used))


def check_rows(
    model: Model | Fitted, x: PyTree, y: AnyArray | jax.ShapeDtypeStruct, weights: AnyArray | None
) -> None:
    """Raise unless x holds rows of the model, and y and weights fit them."""
    n, num_classes = None, model.num_classes
    for name, _, _, block in named_arrays(model.support, x):
        shape = block.shape
        if len(shape) != 2:
            hint = f"; a single feature is {name}[:, None]" if len(shape) == 1 else ""
            raise ValueError(
                f"{name} has shape {shape}, expected (n, d): one row per example{hint}"
            )
        if not shape[1]:
            raise ValueError(f"{name} has shape {shape}, expected at least one feature")
        if n is not None and shape[0] != n:
            raise ValueError(f"{name} has {shape[0]} rows, but the parts before it have {n}")
        n = shape[0]
    if y.ndim not in (1, 2) or y.shape[0] != n:
        raise ValueError(
            f"y has shape {y.shape}, expected ({n},) labels or ({n}, {num_classes}) "
            f"responsibilities for the {n} rows of x"
        )
    integral = jnp.issubdtype(y.dtype, jnp.integer)
    if y.ndim == 2 and (y.shape[1] != num_classes or (integral and num_classes == 1)):
        column = "; labels in a column are y[:, 0]" if y.shape[1] == 1 else ""
        raise ValueError(
            f"y has shape {y.shape} and dtype {y.dtype}, expected ({n}, {num_classes}) "
            f"responsibilities, one column per class (num_classes = {num_classes}), or ({n},) "
            f"integer labels{column}"
        )
    unsigned = jnp.issubdtype(y.dtype, jnp.unsignedinteger) and y.dtype.itemsize >= 4
    if y.ndim == 1 and (unsigned or not integral):
        raise ValueError(
            f"y has dtype {y.dtype}, expected signed integer labels 0..{num_classes - 1}, -1 for "
            f"an unknown one (or a float array of responsibilities of shape ({n}, {num_classes})); "
            "labels with missing values are read as floats"
        )
    if weights is not None and weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}, expected ({n},): one per row of x")


def check_supervised_rows(
    model: Model | Fitted, x: PyTree, y: AnyArray, weights: AnyArray | None
) -> None:
    """`check_rows` and `check_labels`; raise also if no row teaches, or if -1 may be a class."""
    check_rows(model, x, y, weights)
    check_labels(y, model.num_classes)
    check_some_labels(y, weights)
    check_minus_one(y, weights, model.num_classes)


def check_examples(params: Model | TakesExamples | Density, x: PyTree, called: str = "x") -> None:
    """Raise unless x holds examples with the number of features that the params were fitted to."""
    batch, of_fit = None, _num_features.of(params, attrgetter("num_features"))
    if not isinstance(of_fit, dict) and isinstance(x, AnyArray) and x.shape[-1:] == (of_fit,):
        return
    for name, path, _, block in named_arrays(params.support, x, called):
        shape, fitted = block.shape, of_fit
        for part in path:
            fitted = fitted[part]
        if shape[-1:] != (fitted,):
            raise ValueError(
                f"{name} has shape {shape}, expected (..., {fitted}): the model was fitted to "
                f"{fitted} features"
            )
        if batch is not None and shape[:-1] != batch:
            raise ValueError(f"{name} has batch axes {shape[:-1]}, the parts before it {batch}")
        batch = shape[:-1]
