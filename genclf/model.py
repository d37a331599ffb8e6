"""What the verbs ask of a model and of its params, generative or not."""

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from genclf.accumulate import ClassWeights, Hard
from genclf.families.base import Support


class Fitted(eqx.Module):
    """What was learned: scores of K classes, `p(y=k | x) = softmax_k(discriminant(x))`."""

    generative: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @property
    @abc.abstractmethod
    def num_features(self) -> PyTree[int]:
        """Number of features of one example, in the structure of x."""

    @abc.abstractmethod
    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log p(y=k | x)` up to a term that all classes share."""

    @abc.abstractmethod
    def linear(self) -> tuple[PyTree, Float[Array, "K"]]:
        """(coef, intercept) of the discriminant where it is linear in x."""

    @abc.abstractmethod
    def quadratic(self) -> tuple[Array, Array, Array]:
        """(matrix, coef, intercept) of the discriminant where it is quadratic in x."""


class Model(eqx.Module):
    """How to learn from labelled examples of K classes; fields are hyper-parameters."""

    generative: ClassVar[bool] = True
    if TYPE_CHECKING:  # at run time it would be taken for the default of the field

        @property
        def num_classes(self) -> int:
            """K."""

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @abc.abstractmethod
    def invalid_hyperparameters(self, d: Any = None) -> list[str]:
        """What is wrong with the concrete hyper-parameters, in words; d features, if known."""

    @abc.abstractmethod
    def _fit(self, x: PyTree, y: Array, weights: Array | None, init: Any) -> Fitted:
        """The params; arguments as for `genclf.fit`, as arrays, in traced code."""


def require_generative(given: object, verb: str) -> None:
    """Raise where `given` is a model, or its params, without a density of x."""
    if isinstance(given, Model | Fitted) and not given.generative:
        raise ValueError(
            f"{verb} needs p(x, y), and {type(given).__name__} is a model of p(y | x) alone: use "
            "predict, log_posterior or discriminant, or fit a Classifier, such as genclf.lda"
        )


def check_hyperparameters(clf: Model, d: Any = None) -> None:
    """Raise on invalid hyper-parameters, as far as they are concrete; d features, if known."""
    if not isinstance(clf, Model):
        raise ValueError(
            f"clf is {clf!r}, expected a Classifier, such as genclf.lda(num_classes=3)"
        )
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(clf)):
        return
    try:
        problems = clf.invalid_hyperparameters(d)
    except TypeError as error:
        raise ValueError(
            f"a hyper-parameter is no number ({error}); distributions are for genclf.bayes.story"
        ) from error
    if clf.num_classes < 1:
        problems.append(f"num_classes is {clf.num_classes}, expected >= 1")
    if problems:
        raise ValueError("; ".join(problems))


def widen(labels: Array) -> Array:
    """Integer labels in at least 32 bits, so that they can be compared to -1."""
    return labels.astype(jnp.int32) if labels.dtype.itemsize < 4 else labels


def valid_labels(y: Array, num_classes: int) -> Array:
    """Which labels are classes or -1, or which responsibilities are finite and >= 0."""
    if y.ndim == 2:
        return jnp.isfinite(y) & (y >= 0)
    y = widen(y)
    return (y >= -1) & (y < num_classes)


def valid_weights(weights: Array) -> Array:
    """Which weights are finite and >= 0."""
    return jnp.isfinite(weights) & (weights >= 0)


def class_weights(
    y: Array, weights: Array | None, num_classes: int, dtype: Any
) -> tuple[ClassWeights, Array]:
    """Class weights of the rows, and whether any label or weight is invalid."""
    weight = jnp.ones(len(y), dtype) if weights is None else weights.astype(dtype)
    invalid = ~(valid_weights(weight).all() & valid_labels(y, num_classes).all())
    if y.ndim == 2:
        return y.astype(dtype) * weight[:, None], invalid
    y = widen(y)
    known = (y >= 0) & (y < num_classes)
    w = Hard(jnp.where(known, y, -1).astype(jnp.int32), jnp.where(known, weight, 0), num_classes)
    return w, invalid
