"""Natural parameters of a Gaussian: coordinates in which its log-likelihood is concave.

`η = Λ μ` and the precision `Λ = Σ⁻¹`. Newton's method on mean and covariance diverges from starts
as near as the overall mean; on these it converges from anywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from genclf.families.gaussian import GaussianParams
from genclf.roads.reference import transform
from genclf.sums.blocks import einsum, matmul
from genclf.sums.covariance import inverse_lower
from genclf.sums.statistics import Moments


class Natural(NamedTuple):
    """Natural parameters of each class.

    Attributes:
        eta: `Λ_k μ_k`, shape (K, d).
        precision: Λ_k: its lower triangle row by row, shape (K, d(d+1)/2), where the covariance
            is full; its diagonal, (K, d); or one number, (K, 1).
    """

    eta: Float[Array, "K d"]
    precision: Float[Array, "..."]


def standard_natural(like: GaussianParams) -> Natural:
    """Of mean 0 and covariance 1, for each class of `like`."""
    num_classes, d = like.mean.shape
    one = jnp.ones((num_classes, like.scale.shape[-1]), like.mean.dtype)
    if like.covariance == "full":
        rows, columns = np.tril_indices(d)
        one = jnp.broadcast_to(jnp.asarray(rows == columns, one.dtype), (num_classes, len(rows)))
    return Natural(jnp.zeros_like(like.mean), one)


def of_natural(natural: Natural, reference: GaussianParams) -> GaussianParams:
    """The params of natural parameters that are relative to the reference.

    Where `natural` has one precision and the reference one scale, the params share it.
    """
    num_classes, d = natural.eta.shape
    shared = reference.shared and len(natural.precision) == 1
    if reference.covariance == "full":
        covariance, _ = _inverse(_matrices(natural.precision, d))
        scale = lax.linalg.cholesky(covariance, symmetrize_input=False)
        each = jnp.broadcast_to(covariance, (num_classes, d, d))
        mean = einsum("kij,kj->ki", each, natural.eta)
    else:
        scale = 1 / jnp.sqrt(natural.precision)
        mean = natural.eta / jnp.broadcast_to(natural.precision, natural.eta.shape)
    return transform(GaussianParams(mean, scale, reference.covariance, shared), reference)


def log_lik(natural: Natural, reference: GaussianParams, stats: Moments) -> Float[Array, ""]:
    """`GaussianParams.log_lik` of `of_natural`, up to a constant, written in Λ and η.

    `½ Σ_k n_k log |Λ_k| - ½ tr Λ_k T_k`, T_k the scatter about `Λ_k⁻¹ η_k`, relative to the
    reference. A derivative inverts Λ and factors nothing anew.
    """
    d = reference.mean.shape[1]
    centred = stats.mean - reference.mean
    if reference.covariance != "full":
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
    place = np.zeros((d, d), int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return lower[:, place]


@jax.custom_jvp
def _inverse(matrix: Float[Array, "K d d"]) -> tuple[Array, Array]:
    """Inverse and log-determinant of positive definite matrices; NaN where one is not."""
    factor = lax.linalg.cholesky(matrix, symmetrize_input=False)
    inverse = inverse_lower(factor)
    log_det = 2 * jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return einsum("kji,kjl->kil", inverse, inverse), log_det


@_inverse.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple:
    inverse, log_det = _inverse(*primals)
    changed = matmul(inverse, tangents[0])
    return (inverse, log_det), (
        -matmul(changed, inverse),
        jnp.trace(changed, axis1=-2, axis2=-1),
    )


def precision_multipliers(
    multipliers: Float[Array, "K_minus_1 p"], reference: GaussianParams
) -> Float[Array, "..."]:
    """Multipliers of `precision` in the units of the data, as matrices where it is full."""
    if reference.covariance != "full":
        return multipliers * reference.scale[:1] ** 2
    rows, columns = np.tril_indices(reference.mean.shape[-1])
    # An entry off the diagonal stands twice in Λ and once among the constraints.
    half = 0.5 * multipliers
    d = reference.mean.shape[-1]
    lower = jnp.zeros((len(multipliers), d, d), multipliers.dtype).at[:, rows, columns].set(half)
    matrices = lower + jnp.swapaxes(lower, 1, 2)
    root = reference.scale[:1]
    return matmul(matmul(root, matrices), jnp.swapaxes(root, 1, 2))
