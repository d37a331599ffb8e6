"""How often the sets of classes hold the true class, and how often they are empty."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genclf.arguments.domains import SHARE
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.conversion import as_arrays, float_dtype, widen
from genclf.classifier.labels import check_labels, check_minus_one, valid_weights
from genclf.numerics.namespace import is_traced
from genclf.select.groups import check_one_per_row

Z95 = 1.959963984540054  # of a normal distribution: 95 % of it are within


class Share(ShowsNumbers):
    """A share of rows, with its 95 % interval, as `novelty` and `coverage` return them.

    Attributes:
        value: the share, NaN without rows.
        lower: the lower end of Wilson's interval.
        upper: its upper end.
        count: the weight of the rows.
    """

    value: Float[Array, "..."]
    lower: Float[Array, "..."]
    upper: Float[Array, "..."]
    count: Float[Array, "..."]

    @classmethod
    def of(cls, part: Float[Array, "..."], count: Float[Array, "..."]) -> Share:
        """The share `part / count` of independent rows."""
        n = jnp.where(count > 0, count, jnp.nan)
        share = part / n
        middle = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
        half = jnp.sqrt(share * (1 - share) / n + (Z95 / (2 * n)) ** 2) * (Z95 / (1 + Z95**2 / n))
        return cls(share, jnp.maximum(middle - half, 0), jnp.minimum(middle + half, 1), count)


class Coverage(ShowsNumbers):
    """How the sets `p > alpha` of rows with labels turn out, as `coverage` returns it.

    Attributes:
        of_class: share of the rows of each class whose set holds it, (K,).
        empty: share of the rows whose set is empty.
        size: mean number of classes in a set.
        alpha: the level of the sets; the share of a class should be near 1 - alpha.
    """

    of_class: Share
    empty: Share
    size: Float[Array, ""]
    alpha: Float[Array, ""]


@checked_arguments(p=as_arrays, alpha=SHARE)
def coverage(
    p: Float[ArrayLike, "n K"],
    y: ArrayLike,
    *,
    alpha: float = 0.05,
    weights: ArrayLike | None = None,
) -> Coverage:
    """How often the sets `p > alpha` of rows that were not learned hold their true class.

    Args:
        p: p-values of the rows, as `typicality` returns them, (n, K). A row with p-values that are
            NaN has the empty set.
        y: labels 0..K-1, (n,); rows labelled -1 count for no class, but may have empty sets.
        alpha: the level, 0 to 1.
        weights: weight of each row, >= 0, (n,); None for ones.

    Returns:
        A `Coverage`. Its intervals are those of independent rows of weight 1; NaN if a label is
        invalid in traced code.

    Raises:
        ValueError: a shape does not fit, alpha is not from 0 to 1, or a label is no class; or y
            contains -1 and lacks a class, so -1 may be meant as a class.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> p = jnp.array([[0.6, 0.2], [0.03, 0.8], [0.01, 0.02], [0.0, 0.4]])
        >>> found = gcf.coverage(p, jnp.array([0, 0, 1, 1]))
        >>> print(found.of_class.value, found.empty.value, found.size)
        [0.5 0.5] 0.25 1.0

    References:
        Wilson (1927), "Probable inference, the law of succession, and statistical inference".
    """
    p = _checked_p(p)
    if y.shape != p.shape[:1] or not jnp.issubdtype(y.dtype, jnp.integer):
        raise ValueError(
            f"y has shape {y.shape} and dtype {y.dtype}, expected {p.shape[:1]} integer labels"
        )
    check_labels(y, p.shape[1])
    check_one_per_row(y.shape, weights=weights)
    check_minus_one(y, weights, p.shape[1])
    return _coverage(p, y, weights, alpha)


@checked_arguments(p=as_arrays, alpha=SHARE)
def novelty(p: Float[ArrayLike, "n K"], *, alpha: float = 0.05) -> Share:
    """The share of rows that are typical of no class: those whose set `p > alpha` is empty.

    Where all rows are of the known classes, the share is at most about alpha: the p-value for the
    true class alone is below alpha that often. A share whose interval is above alpha says that
    there are rows of no known class, or that the classes have changed.

    Args:
        p: p-values of the rows, as `typicality` returns them, (n, K). A row with p-values that are
            NaN is typical of no class.
        alpha: the level, 0 to 1.

    Returns:
        A `Share`, with Wilson's 95 % interval for independent rows.

    Raises:
        ValueError: p is not (n, K) numbers, or alpha is not from 0 to 1.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> found = gcf.novelty(jnp.array([[0.6, 0.2], [0.03, 0.8], [0.01, 0.02], [0.0, 0.4]]))
        >>> print(found.value, found.lower.round(2), found.upper.round(2))
        0.25 0.05 0.7
    """
    p = _checked_p(p)
    ones = jnp.ones(p.shape[0], p.dtype)
    return _empty(p, ones, jnp.asarray(alpha, p.dtype))


def _checked_p(p: Array) -> Array:
    if p.ndim != 2 or not jnp.issubdtype(p.dtype, jnp.floating):
        raise ValueError(
            f"p has shape {p.shape} and dtype {p.dtype}, expected (n, K) p-values, as "
            "genclf.typicality returns them"
        )
    if not is_traced(p):
        for row, k in np.argwhere((np.asarray(p) < 0) | (np.asarray(p) > 1))[:1]:
            raise ValueError(f"p[{row}, {k}] is {p[row, k]:.6g}, expected a p-value from 0 to 1")
    return p.astype(float_dtype(p))


@compiled
def _empty(p: Array, weight: Array, alpha: Array) -> Share:
    none = ~(p > alpha).any(1)
    return Share.of(jnp.where(none, weight, 0).sum(), weight.sum())


@compiled
def _coverage(p: Array, y: Array, weights: Array | None, alpha: Array) -> Coverage:
    num_classes = p.shape[1]
    y, alpha = widen(y), jnp.asarray(alpha, p.dtype)
    weight = jnp.ones(len(y), p.dtype) if weights is None else weights.astype(p.dtype)
    valid = (y >= -1) & (y < num_classes) & valid_weights(weight)
    weight = jnp.where(valid.all(), weight, jnp.nan)
    own = jax.nn.one_hot(y, num_classes, dtype=p.dtype) * weight[:, None]
    inside = p > alpha
    of_class = Share.of(jnp.where(inside, own, 0).sum(0), own.sum(0))
    size = (weight * inside.sum(1).astype(p.dtype)).sum() / weight.sum()
    return Coverage(of_class, _empty(p, weight, alpha), size, alpha)
