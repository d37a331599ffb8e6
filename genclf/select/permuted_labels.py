"""Cross-validation of linear discriminants for many labellings of the same rows.

The scatter T of a fold's training rows about their mean does not depend on the labels. The scatter
within classes is `W = T - BᵀB`, where row k of B is `√n_k` times the mean of class k. In the
eigenvectors of T the covariance is a diagonal minus a matrix of rank K, so its inverse needs only
that of a K × K matrix. An estimated shrinkage needs only `|W|²` and the norms of the deviations,
and neither requires W.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genclf.classifier.classifier import Classifier
from genclf.classifier.model import Model
from genclf.covariance.shrinkage import Estimated, ShrinkageTerms, intensity
from genclf.numerics.batched import cholesky, eigh, inverse_lower
from genclf.numerics.products import einsum, matmul
from genclf.select.downdates import gaussian_of, unpenalised_gaussian


class Rotated(NamedTuple):
    """The rows of one fold, in the eigenvectors of the scatter T of its training rows.

    Attributes:
        rows: all rows about the mean of the training rows, (n, r).
        eigenvalues: the eigenvalues of T, (r,).
        weight: weights of the training rows, 0 for others, (n,).
        regular: whether the eigenvalues are above rounding error.
    """

    rows: Float[Array, "n r"]
    eigenvalues: Float[Array, "r"]
    weight: Float[Array, "n"]
    regular: Bool[Array, ""]


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


def share_scatters(clf: Model) -> bool:
    """Whether `posteriors` applies: one covariance, shrunk, if at all, to the identity."""
    family = unpenalised_gaussian(clf)
    return family is not None and family.shared


def rotated(clf: Classifier, x: Float[Array, "n d"], weight: Float[Array, "n"]) -> Rotated:
    """The rows for a fold whose training rows have the given weights.

    Without a shrinkage, features are first divided by their standard deviations.

    Args:
        clf: the model.
        x: all rows.
        weight: the weights of the training rows; 0 for others.
    """
    family, width = gaussian_of(clf)
    assert family is not None
    n, eps = weight.sum(), jnp.finfo(x.dtype).eps
    origin = matmul(weight, x) / n
    z = x - origin[None]
    z = z - (matmul(weight, z) / n)[None]
    if family.shrinkage is None:
        variance = matmul(weight, z**2) / n
        z = z / jnp.sqrt(jnp.where(variance > 0, variance, 1))[None]
    eigenvalues, vector = eigh(matmul((weight[:, None] * z).T, z))
    least = 100 * len(x) * eps * eigenvalues[-1]
    r = len(eigenvalues)
    smallest = eigenvalues[jnp.maximum(0, r - (r if width is None else width))]
    return Rotated(matmul(z, vector), jnp.maximum(eigenvalues, 0), weight, smallest > least)


def posteriors(
    clf: Classifier, fold: Rotated, test: Int[Array, "m"], y: Int[Array, "P n"]
) -> tuple[Float[Array, "P m K"], Bool[Array, "P"]]:
    """Log-posteriors of the test rows for each labelling, and whether they are accurate."""
    family, width = gaussian_of(clf)
    assert family is not None
    width = jnp.asarray(fold.rows.shape[1] if width is None else width, fold.rows.dtype)
    at = labelled(fold, y, clf.num_classes)
    count, root, between, within = at.counts, at.root, at.between, at.within
    divisor = fold.weight.sum() - family.ddof
    given: Any = 0.0 if family.shrinkage is None else family.shrinkage
    if isinstance(given, Estimated):
        shrinkage = estimated_shrinkage(given.method, fold, at, width)
    else:
        shrinkage = jnp.full_like(within, given)
    added = shrinkage * within / (divisor * width)
    share = (1 - shrinkage) / divisor
    # Σ = diag(D) - share BᵀB, and M Σ⁻¹ = N^(-1/2) S⁻¹ B D⁻¹ with S = I - share B D⁻¹ Bᵀ.
    diagonal = share[:, None] * fold.eigenvalues[None] + added[:, None]
    over = between / jnp.where(diagonal > 0, diagonal, 1)[:, None]
    eye = jnp.eye(clf.num_classes, dtype=over.dtype)[None]
    factor = cholesky(eye - share[:, None, None] * einsum("pkd,pld->pkl", between, over))
    inverse = inverse_lower(factor)
    coef = matmul(inverse.mT, matmul(inverse, over)) / root[..., None]
    norm = 0.5 * (coef * between).sum(-1) / root
    log_prior = jax.vmap(clf.log_prior)(count)
    scores = einsum("md,pkd->pmk", fold.rows.at[test].get(mode="clip"), coef)
    scores = scores + (log_prior - norm)[:, None]
    pivots = jnp.diagonal(factor, axis1=-2, axis2=-1)
    exact = (pivots**2 > 1e-4).all(-1) & (fold.regular | (shrinkage > 0.01))
    return jax.nn.log_softmax(scores), exact


def labelled(fold: Rotated, y: Int[Array, "P n"], num_classes: int) -> Labelled:
    """The classes of the fold in each labelling."""
    is_class = jax.nn.one_hot(y, num_classes, axis=1, dtype=fold.rows.dtype)
    weight = is_class * fold.weight[None, None]
    count = weight.sum(-1)
    root = jnp.sqrt(jnp.where(count > 0, count, 1))
    sums = matmul(weight.reshape(-1, weight.shape[-1]), fold.rows)
    between = sums.reshape(*count.shape, -1) / root[..., None]
    within = fold.eigenvalues.sum() - (between**2).sum((1, 2))
    return Labelled(is_class, count, root, between, within)


def estimated_shrinkage(
    method: str, fold: Rotated, at: Labelled, num_features: int | Array
) -> Float[Array, "P"]:
    """The intensity that the method estimates for each labelling; NaN where precision is lost.

    Covariances are divided by their mean variance, because their squares could overflow or
    underflow.
    """
    n, r = fold.weight.sum(), fold.rows.shape[1]
    mean = jnp.where(at.within > 0, at.within, 1) / r
    unit = jnp.sqrt(mean)[:, None, None]
    # |W|² = |T|² - 2 Σ_k b_kᵀ T b_k + |B Bᵀ|²
    eigenvalues, b = fold.eigenvalues[None] / mean[:, None], at.between / unit
    whole, gram = (eigenvalues**2).sum(-1), einsum("pkd,pld->pkl", b, b)
    square = whole - 2 * (b**2 * eigenvalues[:, None]).sum((1, 2)) + (gram**2).sum((1, 2))
    fourth = None
    if method != "oas":
        # |x - m|² = |x|² - (2 xᵀ m - |m|²) for a row x of a class with mean m
        centre = b / at.root[..., None]
        along = einsum("nd,pkd->pkn", fold.rows, centre / unit)
        nearer = (at.is_class * (2 * along - (centre**2).sum(-1)[..., None])).sum(1)
        lengths = (fold.rows**2).sum(-1)[None] / mean[:, None] - nearer
        fourth = n * (fold.weight[None] * lengths**2).sum(-1)
    every = jnp.ones_like(mean)
    # Squares of the diagonal are for targets that are not the identity.
    terms = ShrinkageTerms(n * every, r * every, square, fourth, jnp.nan * every, None)
    return jnp.where(square > 0.01 * whole, intensity(method, terms, num_features), jnp.nan)
