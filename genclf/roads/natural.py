"""Natural parameters of a Gaussian: coordinates in which its log-likelihood is concave.

They are `η = Λ μ` and the precision `Λ = Σ⁻¹`. Newton's method on mean and covariance diverges
even from the overall mean; on the natural parameters it converges from any start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from genclf.families.gaussian.gaussian import GaussianParams
from genclf.numerics.batched import cholesky, inverse_lower
from genclf.numerics.namespace import einsum, matmul
from genclf.roads.constrained import LARGEST_MATRIX, ConstrainedSolution, solve_constrained
from genclf.roads.reference import transform
from genclf.sums.merging import merged
from genclf.sums.statistics import Moments, divide

Solve = Callable[..., ConstrainedSolution]


class Natural(NamedTuple):
    """Natural parameters of each class.

    Attributes:
        eta: `Λ_k μ_k`, shape (K, d).
        precision: Λ_k: for a "full" covariance its lower triangle row by row, (K, d(d+1)/2); for
            "diag" its diagonal, (K, d); for "spherical" one number, (K, 1).
    """

    eta: Float[Array, "K d"]
    precision: Float[Array, "..."]


def standard_natural(like: GaussianParams) -> Natural:
    """Natural parameters of mean 0 and covariance I, for each class of `like`."""
    num_classes, d = like.mean.shape
    one = jnp.ones((num_classes, like.scale.shape[-1]), like.mean.dtype)
    if like.arithmetic.is_full:
        rows, columns = np.tril_indices(d)
        one = jnp.broadcast_to(jnp.asarray(rows == columns, one.dtype), (num_classes, len(rows)))
    return Natural(jnp.zeros_like(like.mean), one)


def of_natural(natural: Natural, reference: GaussianParams) -> GaussianParams:
    """Params from natural parameters that are relative to the reference.

    If the reference is shared and `natural` has one precision, the params share one scale.
    """
    num_classes, d = natural.eta.shape
    shared = reference.shared and len(natural.precision) == 1
    if reference.arithmetic.is_full:
        covariance, _ = _inverse(_matrices(natural.precision, d))
        scale = cholesky(covariance)
        each = jnp.broadcast_to(covariance, (num_classes, d, d))
        mean = einsum("kij,kj->ki", each, natural.eta)
    else:
        scale = 1 / jnp.sqrt(natural.precision)
        mean = natural.eta / jnp.broadcast_to(natural.precision, natural.eta.shape)
    return transform(GaussianParams(mean, scale, reference.covariance, shared), reference)


def log_lik(natural: Natural, reference: GaussianParams, stats: Moments) -> Float[Array, ""]:
    """`GaussianParams.log_lik` of `of_natural`, up to a constant, in terms of Λ and η.

    `½ Σ_k n_k log |Λ_k| - ½ tr Λ_k T_k`, T_k the scatter about `Λ_k⁻¹ η_k`, relative to the
    reference. Derivatives reuse the inverse of Λ.
    """
    d = reference.mean.shape[1]
    centred = stats.mean - reference.mean
    if not reference.arithmetic.is_full:
        precision = jnp.broadcast_to(natural.precision, centred.shape)
        deviation = centred / reference.scale - natural.eta / precision
        about = stats.scatter / reference.scale**2 + stats.outer(stats.count, deviation)
        return 0.5 * (matmul(stats.count, jnp.log(precision).sum(1)) - (precision * about).sum())
    precision = _matrices(natural.precision, d)
    covariance, log_det = _inverse(precision)
    root = jnp.broadcast_to(inverse_lower(reference.scale), precision.shape)
    deviation = einsum("kij,kj->ki", root, centred) - einsum("kij,kj->ki", covariance, natural.eta)
    about = einsum("kij,kjl,kml->kim", root, stats.scatter, root)
    about = about + stats.outer(stats.count, deviation)
    return 0.5 * (matmul(stats.count, log_det) - (precision * about).sum())


def _matrices(lower: Float[Array, "K p"], d: int) -> Float[Array, "K d d"]:
    rows, columns = np.tril_indices(d)
    index = np.zeros((d, d), int)
    index[rows, columns] = index[columns, rows] = np.arange(len(rows))
    return lower[:, index]


@jax.custom_jvp
def _inverse(matrix: Float[Array, "K d d"]) -> tuple[Array, Array]:
    """Inverse and log-determinant of positive definite matrices; NaN where one is not."""
    factor = cholesky(matrix)
    inverse = inverse_lower(factor)
    log_det = 2 * jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return einsum("kji,kjl->kil", inverse, inverse), log_det


@_inverse.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple:
    inverse, log_det = _inverse(*primals)
    changed = matmul(inverse, tangents[0])
    return (inverse, log_det), (-matmul(changed, inverse), jnp.trace(changed, axis1=-2, axis2=-1))


def precision_multipliers(
    multipliers: Float[Array, "K_minus_1 p"], reference: GaussianParams
) -> Float[Array, "..."]:
    """Multipliers of `precision` in the units of the data, as matrices where it is full."""
    if not reference.arithmetic.is_full:
        return multipliers * reference.scale[:1] ** 2
    rows, columns = np.tril_indices(reference.mean.shape[-1])
    # An off-diagonal entry occurs twice in Λ, but once among the constraints.
    half = 0.5 * multipliers
    d = reference.mean.shape[-1]
    lower = jnp.zeros((len(multipliers), d, d), multipliers.dtype).at[:, rows, columns].set(half)
    matrices = lower + jnp.swapaxes(lower, 1, 2)
    root = reference.scale[:1]
    return matmul(matmul(root, matrices), jnp.swapaxes(root, 1, 2))


def solve_gaussian(
    reference: GaussianParams, stats: Moments, prior_stats: Moments
) -> ConstrainedSolution:
    """The estimate of each class alone, or of all classes constrained to share a precision."""
    _check_size(reference)
    share = divide(stats.count, jnp.broadcast_to(stats.count.sum(0), stats.count.shape))
    both = merged(stats.in_shares(share), prior_stats.in_shares(share))

    def together(init: Natural, reference: GaussianParams, stats: Moments) -> ConstrainedSolution:
        classes = lambda flat: Natural(*jnp.split(flat, [init.eta.shape[1]], axis=1))  # noqa: E731
        start = jnp.concatenate(init, axis=1)

        def objective(flat: Array) -> Array:
            natural = classes(flat)
            # A class without weight has no estimate; this term keeps it at its start, and a
            # precision that it shares at that of the others.
            place = init
            if reference.shared:
                own = lax.stop_gradient(natural.precision[stats.count.argmax()])
                place = Natural(init.eta, jnp.broadcast_to(own, init.precision.shape))
            moved = ((flat - jnp.concatenate(place, axis=1)) ** 2).sum(1)
            # Its weight is small, so that Newton's steps need not know that the others move.
            total = stats.count.sum()
            weight = jnp.where(stats.count == 0, jnp.where(total == 0, 1, 1e-3 * total), 0)
            return log_lik(natural, reference, stats) - matmul(weight, moved)

        def agree(flat: Array) -> Array:
            precision = classes(flat).precision
            return precision[1:] - precision[:1]

        constraints = agree if reference.shared else None
        found = solve_constrained(objective, constraints, start, block_size=start.shape[1])
        return replace(found, params=classes(found.params))

    solve = together if reference.shared else _for_each_class(together)
    if not reference.coupled:
        solve = _for_each_feature(solve)
    found = solve(standard_natural(reference), reference, both)
    natural: Natural = found.params
    multipliers = {}
    if reference.shared:
        natural = natural._replace(precision=natural.precision[:1])
        multipliers["scale"] = precision_multipliers(found.multipliers, reference)
    params = of_natural(natural, reference)
    return replace(found, params=params, multipliers=multipliers, lower_multipliers={})


def _check_size(reference: GaussianParams) -> None:
    num_classes, d = reference.mean.shape
    entries = {"full": d * (d + 1) // 2, "diag": 1, "spherical": 1}[reference.covariance]
    block = entries + (d if reference.coupled else 1)
    numbers = num_classes * block * max(block, (num_classes - 1) * entries * reference.shared)
    if numbers > LARGEST_MATRIX:
        raise ValueError(
            f"the KKT system of {num_classes} classes of {d} features has matrices of {numbers} "
            f"numbers, more than {LARGEST_MATRIX}; use fit, fit_gradient (which needs no linear "
            "system), or fewer features"
        )


def _for_each_class(solve: Solve) -> Solve:
    """Solve the problem of each class alone, with a class axis of length 1."""

    def one(*trees: PyTree) -> ConstrainedSolution:
        found = solve(*jax.tree.map(lambda a: a[None], trees))
        return replace(found, params=jax.tree.map(lambda a: a[0], found.params))

    return jax.vmap(one)


def _for_each_feature(solve: Solve) -> Solve:
    """Solve the problem of each feature alone; all share the counts, which have no feature axis."""

    def all_features(*trees: PyTree) -> ConstrainedSolution:
        axes = jax.tree.map(lambda a: -1 if a.ndim == 2 else None, trees)

        def one(*trees: PyTree) -> ConstrainedSolution:
            spread = jax.tree.map(
                lambda a, axis: a if axis is None else a[..., None],
                trees,
                axes,
                is_leaf=lambda a: a is None,
            )
            found = solve(*spread)
            pick = lambda tree: jax.tree.map(lambda a: a[..., 0], tree)  # noqa: E731
            return replace(found, params=pick(found.params), multipliers=pick(found.multipliers))

        return jax.vmap(one, in_axes=axes, out_axes=-1)(*trees)

    return all_features
