"""Moments of the rows of a fold in many labellings, and what estimates of a shrinkage need.

These estimates are functions of `|W|²` and of the fourth powers of the deviations of rows from the
means of their classes. Neither requires the scatter W of a labelling: its sums follow from those of
all rows about their mean, which no labelling changes, and from sums over classes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genclf.covariance.shrinkage import ShrinkageTerms, intensity
from genclf.numerics.namespace import einsum, matmul

_LEAST = 0.03  # share of the variance of a feature within classes, below which precision is lost


class Rotated(NamedTuple):
    """The rows of one fold, in the eigenvectors of the scatter T of its training rows.

    Attributes:
        rows: all rows about the mean of the training rows, (n, r).
        eigenvalues: the eigenvalues of T, (r,).
        weight: weights of the training rows, 0 for others, (n,).
        regular: whether the eigenvalues are above rounding error.
        vector: the eigenvectors, for a target that is not a multiple of the identity: then T is n
            times the correlation matrix, (d, r); None for others.
    """

    rows: Float[Array, "n r"]
    eigenvalues: Float[Array, "r"]
    weight: Float[Array, "n"]
    regular: Bool[Array, ""]
    vector: Float[Array, "d r"] | None = None


class Labelled(NamedTuple):
    """The classes of the training rows of one fold, in each of P labellings.

    Attributes:
        is_class: whether each row is of each class, for all rows, (P, K, n).
        counts: the weight of each class, (P, K).
        root: its square root, or 1 where it is 0.
        between: B, `root` times the mean of each class, (P, K, r).
        within: the trace of the scatter within classes, (P,).
    """

    is_class: Float[Array, "P K n"]
    counts: Float[Array, "P K"]
    root: Float[Array, "P K"]
    between: Float[Array, "P K r"]
    within: Float[Array, "P"]

    def of_own_class(self, value: Float[Array, "P K n"]) -> Float[Array, "P n"]:
        """The value of the class of each row."""
        # A sum over the class axis takes XLA ten times as long.
        each = range(value.shape[1])
        return sum((self.is_class[:, k] * value[:, k] for k in each), jnp.zeros_like(value[:, 0]))


def labelled(fold: Rotated, y: Int[Array, "P n"], num_classes: int) -> Labelled:
    """The classes of the fold in each labelling."""
    is_class = jax.nn.one_hot(y, num_classes, axis=1, dtype=fold.rows.dtype)
    count = matmul(is_class, fold.weight)
    root = jnp.sqrt(jnp.where(count > 0, count, 1))
    between = _class_sums(is_class, fold, fold.rows) / root[..., None]
    within = fold.eigenvalues.sum() - (between**2).sum((1, 2))
    return Labelled(is_class, count, root, between, within)


def variances(fold: Rotated, between: Float[Array, "P K d"]) -> Float[Array, "P d"]:
    """The share of the variance of each feature that is within classes, from `vector` and B.

    1 for a feature that does not vary; NaN for one of which the labels explain almost all.
    """
    found = 1 - (between**2).sum(1) / fold.weight.sum()
    return jnp.where(found > _LEAST, found, jnp.nan)


def estimated_shrinkage(
    method: str, fold: Rotated, at: Labelled, num_features: int | Array
) -> Float[Array, "P"]:
    """The intensity that the method estimates for each labelling; NaN where precision is lost."""
    of = _of_covariances if fold.vector is None else _of_correlations
    return intensity(method, of(method, fold, at), num_features)


def _of_covariances(method: str, fold: Rotated, at: Labelled) -> ShrinkageTerms:
    """The terms of covariances, in units of the mean variance: squares could over- or underflow."""
    n, r = fold.weight.sum(), fold.rows.shape[1]
    mean = jnp.where(at.within > 0, at.within, 1) / r
    # |W|² = |T|² - 2 Σ_k b_kᵀ T b_k + |B Bᵀ|²
    eigenvalues = fold.eigenvalues[None] / mean[:, None]
    b = at.between / jnp.sqrt(mean)[:, None, None]
    whole, gram = (eigenvalues**2).sum(-1), einsum("pkd,pld->pkl", b, b)
    square = whole - 2 * (b**2 * eigenvalues[:, None]).sum((1, 2)) + (gram**2).sum((1, 2))
    square = jnp.where(square > 0.01 * whole, square, jnp.nan)
    fourth = None
    if method != "oas":
        share = jnp.broadcast_to(1 / mean[:, None], (len(mean), r))
        fourth = n * _fourth(fold, at, fold.rows, at.between, share)
    every = jnp.ones_like(mean)
    # Squares of the diagonal are for targets that are not the identity.
    return ShrinkageTerms(n * every, r * every, square, fourth, jnp.nan * every, None)


def _of_correlations(method: str, fold: Rotated, at: Labelled) -> ShrinkageTerms:
    """The terms of the correlations within classes of a fold with `vector`."""
    assert fold.vector is not None
    n, vector = fold.weight.sum(), fold.vector
    total = matmul(vector * fold.eigenvalues[None], vector.T) / n
    varies = jnp.diagonal(total) > 0.5  # 1, or 0 for a feature that does not vary
    between = matmul(at.between, vector.T)
    share = jnp.where(varies[None], 1 / variances(fold, between), 0)
    # r_ij² = a_i a_j s_ij², with the shares a and s_ij = t_ij - Σ_k b_ki b_kj
    b = between / jnp.sqrt(n)
    over = b * share[:, None]
    square = (matmul(share, total**2) * share).sum(-1)
    square = square - 2 * (matmul(over, total) * over).sum((1, 2))
    square = square + (einsum("pkd,pld->pkl", over, b) ** 2).sum((1, 2))
    num_varying = jnp.full_like(square, varies.sum())
    fourth = own_fourth = None
    if method != "oas":
        rows = matmul(fold.rows, vector.T)
        fourth = _fourth(fold, at, rows, between, share) / n
        if method == "james-stein":
            own_fourth = (_own_fourths(fold, at, rows, between) * share**2).sum(-1) / n
    return ShrinkageTerms(
        n * jnp.ones_like(square), num_varying, square, fourth, num_varying, own_fourth
    )


def _fourth(
    fold: Rotated,
    at: Labelled,
    rows: Float[Array, "n d"],
    between: Float[Array, "P K d"],
    share: Float[Array, "P d"],
) -> Float[Array, "P"]:
    """`Σ_n w_n (Σ_j a_j z_nj²)²`, with the shares a, for the deviations z of rows from their class.

    `(x - m)² = x² - (2 x m - m²)` for a row x of a class with mean m.
    """
    mean = between / at.root[..., None]
    over = mean * share[:, None]
    along = matmul(over.reshape(-1, over.shape[-1]), rows.T).reshape(*at.root.shape, -1)
    nearer = at.of_own_class(2 * along - (over * mean).sum(-1)[..., None])
    return matmul((matmul(share, (rows**2).T) - nearer) ** 2, fold.weight)


def _own_fourths(
    fold: Rotated, at: Labelled, rows: Float[Array, "n d"], between: Float[Array, "P K d"]
) -> Float[Array, "P d"]:
    """`Σ_n w_n z_nj⁴` for the deviations z of rows from the mean m of their class.

    `Σ (x - m)⁴ = Σ x⁴ - 4 m Σ x³ + 6 m² Σ x² - 3 n m⁴`, over the n rows of a class.
    """
    m, n = between / at.root[..., None], at.counts[..., None]
    third, second = (_class_sums(at.is_class, fold, rows**power) for power in (3, 2))
    less = m * (4 * third - m * (6 * second - 3 * n * m**2))
    return matmul(fold.weight, rows**4)[None] - less.sum(1)


def _class_sums(
    is_class: Float[Array, "P K n"], fold: Rotated, value: Float[Array, "n d"]
) -> Float[Array, "P K d"]:
    """The weighted sum of the value over the training rows of each class."""
    of_rows = is_class.reshape(-1, is_class.shape[-1])
    found = matmul(of_rows, fold.weight[:, None] * value)
    return found.reshape(*is_class.shape[:2], value.shape[1])
