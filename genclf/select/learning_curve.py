"""Error against the number of training examples, over many random splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PyTree

from genclf.arguments.domains import Domain, shown, whole
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.conversion import as_arrays, float_dtype
from genclf.classifier.labels import check_labels
from genclf.classifier.model import Model, check_hyperparameters
from genclf.classifier.rows import check_rows
from genclf.classifier.scores import predictions
from genclf.families.structure import widths
from genclf.fitting.fit import fitted
from genclf.numerics import loops

_SHARED = 8  # a program for one number of rows is also that of an eighth of it


class LearningCurve(ShowsNumbers):
    """Errors of several models, trained on the same random splits, from `learning_curve`.

    Attributes:
        sizes: numbers of training rows, shape (S,).
        errors: per model, the share of test rows it predicts wrongly in each split,
            shape (S, num_splits).
    """

    sizes: Int[Array, "S"]
    errors: dict[str, Float[Array, "S splits"]]

    @property
    def mean(self) -> dict[str, Float[Array, "S"]]:
        """Mean error of each model."""
        return {name: errors.mean(1) for name, errors in self.errors.items()}

    @property
    def standard_error(self) -> dict[str, Float[Array, "S"]]:
        """Standard error of the mean over the splits, `sd / sqrt(num_splits)`."""
        return {name: standard_error(errors) for name, errors in self.errors.items()}

    def difference(self, a: str, b: str) -> tuple[Float[Array, "S"], Float[Array, "S"]]:
        """Mean of `error_a - error_b` over the splits, and its standard error."""
        difference = self.errors[a] - self.errors[b]
        return difference.mean(1), standard_error(difference)

    def crossings(self, a: str, b: str, *, z: float = 2.0) -> list[tuple[int, int]]:
        """The sizes between which the curves cross: `(m, M)` if one is lower at m, the other at M.

        Sizes at which the curves differ by no more than z standard errors are left out. The result
        is computed on the host.
        """
        mean, error = map(np.asarray, self.difference(a, b))
        distinct = np.flatnonzero(np.abs(mean) > z * error)
        sizes, sign = np.asarray(self.sizes)[distinct], np.sign(mean[distinct])
        return [(int(sizes[i]), int(sizes[i + 1])) for i in np.flatnonzero(np.diff(sign))]


def standard_error(values: Float[Any, "*batch n"]) -> Float[Any, "*batch"]:
    """`sd / √n` of n numbers along the last axis, where sd has the divisor n - 1."""
    return values.std(-1, ddof=1) / np.sqrt(values.shape[-1]).astype(values.dtype)


_MODELS = Domain(
    "a dict of models by name",
    lambda given: isinstance(given, Mapping) and all(isinstance(name, str) for name in given),
)


def _checked_sizes(sizes: Any, name: str) -> list[int]:
    given = sizes.tolist() if isinstance(sizes, np.ndarray | jax.Array) else sizes
    if not isinstance(given, Sequence) or any(whole(1).problem(size, name) for size in given):
        raise ValueError(f"{name} is {shown(sizes)}, expected a list of whole numbers >= 1")
    return [int(size) for size in given]


@checked_arguments(models=_MODELS, sizes=_checked_sizes, num_splits=whole(1))
def learning_curve(
    models: Mapping[str, Model],
    x: PyTree,
    y: ArrayLike,
    sizes: Sequence[int],
    *,
    key: Array,
    num_splits: int = 200,
    test: tuple[PyTree, ArrayLike] | None = None,
    batch_size: int | None = None,
) -> LearningCurve:
    """Error of each model against the number of rows it is trained on.

    For each size m, `num_splits` times: draw m rows without replacement (the same for all models),
    fit each model, and count its errors on the other rows, or on `test`. All splits of a size are
    one call, and sizes up to 8 times as large share its program. Rows are drawn without regard to
    the classes: a class that is not among the m rows cannot be predicted, and its test rows count
    as errors. So do rows for which a model predicts no class (-1). Splits of one data set overlap,
    so the standard errors are those of the mean over its splits, not over data sets.

    Args:
        models: what to compare, by name: `Classifier` or `SoftmaxRegression`.
        x: rows, as the models take them.
        y: labels 0..K-1, shape (n,), without -1.
        sizes: numbers of training rows, each below n, or at most n with `test`.
        key: a `jax.random` key; another call with the same key, sizes and n draws the same splits.
        num_splits: number of random splits.
        test: (x, y) to count the errors on, instead of the rows not drawn.
        batch_size: number of splits to hold in memory at once; None for all.

    Returns:
        A `LearningCurve`.

    Raises:
        ValueError: a shape or size is wrong, or a label is outside 0..K-1.

    Example:
        >>> import jax, genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> curve = gcf.learning_curve(
        ...     {"lda": gcf.lda(11), "softmax": gcf.SoftmaxRegression(11, l2=1e-3)},
        ...     vowel.x_train, vowel.y_train, [50, 400], key=jax.random.key(0), num_splits=20,
        ... )
        >>> print(curve.errors["lda"].shape, curve.mean["softmax"] < curve.mean["softmax"][0])
        (2, 20) [False  True]

    References:
        Ng & Jordan (2002), §4.
    """
    if any(isinstance(a, Tracer) for a in jax.tree.leaves((models, x, y, test))):
        raise ValueError(
            "learning_curve runs on the host, and compiles what it needs: call it outside jit"
        )
    if test is not None:
        if not isinstance(test, tuple | list) or len(test) != 2:
            raise ValueError(f"test is {shown(test)}, expected (x, y), or None")
        test = as_arrays(test[0], "test[0]"), as_arrays(test[1], "test[1]")
    models = {
        name: check_hyperparameters(m, widths(x), f"models[{name!r}]") for name, m in models.items()
    }
    for model in models.values():
        for x_given, y_given in ((x, y), test or (x, y)):
            check_rows(model, x_given, y_given, None)
            if y_given.ndim != 1:
                raise ValueError("y holds responsibilities, expected the labels of all rows")
            check_labels(y_given, model.num_classes, unlabelled=False)
    n, largest = len(y), len(y) - (test is None)
    if not len(sizes) or not models:
        raise ValueError("sizes or models is empty, expected at least one of each")
    for size in sizes:
        if size > largest:
            raise ValueError(f"sizes holds {size}, expected 1..{largest} of the {n} rows")
    found: dict[str, list[Array]] = {name: [] for name in models}
    for i, size in enumerate(sizes):
        drawn = _draws(jax.random.fold_in(key, i), n, num_splits)
        train = drawn[:, : _width(size, sizes)]
        for name, model in models.items():
            found[name].append(_errors(model, x, y, test, train, size, batch_size))
    errors = {name: jnp.stack(of_sizes) for name, of_sizes in found.items()}
    return LearningCurve(jnp.asarray(sizes), errors)


def _width(size: int, sizes: Sequence[int]) -> int:
    """The number of rows for which the program of a size is compiled."""
    width = max(sizes)
    while width > _SHARED * size:
        width = max(other for other in sizes if _SHARED * other < width)
    return width


@partial(jax.jit, static_argnums=(1, 2))
def _draws(key: Array, n: int, num_splits: int) -> Int[Array, "splits n"]:
    """The rows in the order in which each split draws them."""
    return jax.vmap(partial(jax.random.permutation, x=n))(jax.random.split(key, num_splits))


@partial(compiled, static_argnums=6, fast_compile=2**14)
def _errors(
    model: Model,
    x: PyTree,
    y: Array,
    test: tuple[PyTree, Array] | None,
    train: Int[Array, "splits most"],
    size: Int[Array, ""],
    batch_size: int | None,
) -> Float[Array, "splits"]:
    """Share of wrong predictions in each split, whose training rows are the first `size`."""
    used = jnp.arange(train.shape[1]) < size

    def one_split(train: Array) -> Array:
        rows = jax.tree.map(lambda a: a[train], x)
        params = fitted(model, rows, y[train], used.astype(float_dtype(x)))
        if test is not None:
            return (predictions(params, test[0]) != test[1]).mean()
        # All rows are scored and training rows masked, which is cheaper than gathering test rows.
        held_out = jnp.ones(len(y), bool).at[train].min(~used)
        return (held_out & (predictions(params, x) != y)).sum() / (len(y) - size)

    return loops.mapped(one_split, train, batch_size=batch_size or len(train))
