"""Canonical variates: the axes on which class means are furthest apart."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from genclf.arguments.arrays import numbers
from genclf.arguments.domains import shown, whole_number
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.families.gaussian.row_space import RowSpaceParams
from genclf.multivariate.eraser import Eraser
from genclf.multivariate.one_covariance import (
    PARAMS_OR_STATISTICS,
    about_their_mean,
    with_one_covariance,
)
from genclf.numerics.namespace import matmul
from genclf.numerics.row_blocks import broadcast_rows
from genclf.numerics.scores.means import Means
from genclf.sums.statistics import ClassifierStats, divide


class DiscriminantAxes(ShowsNumbers):
    """Canonical variates `aᵀ (x - centre)`, as `discriminant_axes` returns them.

    Attributes:
        coefficient: one axis a in each column, shape (d, m) with m = min(K - 1, d). Within classes,
            scores on the axes are uncorrelated with variance 1.
        standardised: `coefficient` for features in units of their standard deviations within
            classes, shape (d, m), which makes coefficients comparable.
        centre: mean of the class means, weighted by the class prior, shape (d,).
        mean: class means on the axes, shape (K, m).
        ratio: variance between classes on each axis, in descending order, shape (m,): the
            eigenvalues of `Σ⁻¹ B`, `B = Σ_k π_k (μ_k - centre)(μ_k - centre)ᵀ`.
        explained: the share of each axis in the sum of `ratio`, shape (m,).
    """

    coefficient: Float[Array, "d m"]
    standardised: Float[Array, "d m"]
    centre: Float[Array, "d"]
    mean: Float[Array, "K m"]
    ratio: Float[Array, "m"]
    explained: Float[Array, "m"]


@checked_arguments(source=PARAMS_OR_STATISTICS)
def discriminant_axes(source: ClassifierParams | ClassifierStats) -> DiscriminantAxes:
    """The axes of linear discriminant analysis: canonical variates, or Fisher's discriminants.

    The columns a of `coefficient` maximise `aᵀ B a / aᵀ Σ a`, one after the other; each is
    uncorrelated within classes with those before. B is the covariance of the class means, weighted
    by the class prior. Σ is the covariance within classes, with divisor n or that of the params.
    The largest standardised coefficient of each axis is positive.

    Args:
        source: params of a `Gaussian(shared=True)`, with their prior, shrinkage and ridge; or
            statistics with full scatters, whose pooled covariance is used without regularisation.

    Returns:
        `DiscriminantAxes`; `transform` gives scores on them. If the covariance is singular, as with
        more features than n - K and no shrinkage, the first axes are directions without variance
        within classes, whose ratios only rounding limits; `validate` raises an error then.

    Raises:
        ValueError: the classes do not share a covariance, or the statistics have no scatter matrix.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> axes = gcf.discriminant_axes(gcf.fit(gcf.lda(11), vowel.x_train, vowel.y_train))
        >>> print([f"{share:.3f}" for share in axes.explained[:3]])
        ['0.562', '0.352', '0.045']

    References:
        Hastie, Tibshirani & Friedman (2009), §4.3.3; Mardia, Kent & Bibby (1979), §12.5.
    """
    return _axes(with_one_covariance(source))


@checked_arguments(axes=None)
def transform(
    axes: DiscriminantAxes | Eraser, x: Shaped[ArrayLike, "*batch d"], num_axes: int | None = None
) -> Float[Array, "*batch m"]:
    """Scores on discriminant axes, `(x - centre) coefficient`; or rows with a trace erased.

    Args:
        axes: from `discriminant_axes`; or from `eraser`, whose `removed coefficientᵀ (x - centre)`
            is subtracted from x.
        x: one example, or any leading batch axes.
        num_axes: number of axes; all by default, and for an eraser.

    Returns:
        shape (..., num_axes); of an eraser (..., d).

    Raises:
        ValueError: a shape is wrong, or `num_axes` is too large.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> axes = gcf.discriminant_axes(gcf.fit(gcf.lda(11), vowel.x_train, vowel.y_train))
        >>> print(gcf.transform(axes, vowel.x_test, num_axes=2).shape)
        (462, 2)
    """
    if not isinstance(axes, DiscriminantAxes | Eraser):
        raise ValueError(
            f"axes is {shown(axes)}, expected the result of discriminant_axes or eraser"
        )
    if isinstance(axes, Eraser) and num_axes is not None:
        raise ValueError(f"num_axes is {num_axes}, expected None for an eraser, which uses all")
    most = axes.coefficient.shape[-1]
    m = most if num_axes is None else whole_number(num_axes, "num_axes", 1)
    x, d = jnp.asarray(numbers(x)), len(axes.centre)
    if m > most:
        raise ValueError(f"num_axes is {m}, expected at most {most}")
    if x.ndim < 1 or x.shape[-1] != d:
        raise ValueError(f"x has shape {x.shape}, expected (..., {d})")
    if isinstance(axes, Eraser):
        return axes.erased(x.astype(axes.centre.dtype))
    centred = x.astype(axes.centre.dtype) - broadcast_rows(axes.centre, x)
    return matmul(centred, axes.coefficient[:, :m])


@checked_arguments
def reduced_rank(params: ClassifierParams, num_axes: int) -> ClassifierParams:
    """The classifier whose class means differ only on the first discriminant axes.

    The means become `centre + Σ A Aᵀ (μ_k - centre)`, A the first columns of the coefficients of
    `discriminant_axes`: the maximum-likelihood means of that rank. All other params are kept,
    so predictions are those of the nearest mean on these axes, with the class prior.

    Args:
        params: params of a `Gaussian(shared=True)`.
        num_axes: rank of the means, 1..min(K - 1, d).

    Returns:
        `ClassifierParams` of the same kind.

    Raises:
        ValueError: the classes do not share a covariance, or `num_axes` is too large.

    Example:
        >>> import genclf as gcf
        >>> vowel = gcf.datasets.load_vowel()
        >>> params = gcf.fit(gcf.lda(11), vowel.x_train, vowel.y_train)
        >>> for m in (1, 2, 10):
        ...     reduced = gcf.reduced_rank(params, m)
        ...     print((gcf.predict(reduced, vowel.x_test) != vowel.y_test).mean().round(3))
        0.699
        0.491
        0.556

    References:
        Hastie, Tibshirani & Friedman (2009), §4.3.3 and figure 4.10.
    """
    given = with_one_covariance(params)
    k, d = given.conditional.mean.shape
    if whole_number(num_axes, "num_axes", 1) > min(k - 1, d):
        raise ValueError(f"num_axes is {num_axes}, expected at most {min(k - 1, d)}: min(K - 1, d)")
    return _reduced(given, num_axes)


@compiled
def _axes(params: ClassifierParams) -> DiscriminantAxes:
    given = params.conditional
    if isinstance(given, RowSpaceParams):
        found = _axes(replace(params, conditional=given.inside))
        if given.rotation is None:
            return found
        unit, basis = given.rotation.unit[:, None], given.rotation.basis
        coefficient = matmul(basis, found.coefficient) / unit
        centre = given.rotation.back(found.centre)
        inside = given.inside.covariances[0] - given.outside[0] * jnp.eye(basis.shape[1])
        variance = (matmul(basis, inside) * basis).sum(1) + given.outside[0]
        deviation = jnp.sqrt(variance)[:, None] * unit
    else:
        found = _in_space(params)
        coefficient, centre = found.coefficient, found.centre
        deviation = given.arithmetic.deviations(given.scale)[0]
        deviation = jnp.broadcast_to(deviation, centre.shape)[:, None]
    standardised = coefficient * deviation
    largest = jnp.take_along_axis(standardised, jnp.abs(standardised).argmax(0)[None], 0)
    sign = jnp.where(largest < 0, -1, 1)
    return replace(
        found,
        coefficient=sign * coefficient,
        standardised=sign * standardised,
        centre=centre,
        mean=sign * found.mean,
    )


def _whitened_means(params: ClassifierParams) -> tuple[Array, Array, Array, Array]:
    """The centre, the whitened means about it, and an SVD of these means weighted by the prior."""
    given, share = params.conditional, jnp.exp(params.log_prior)
    centre, deviation = about_their_mean(Means(given.mean, given.rounding), share)
    inverse = given.arithmetic.inverse(given.scale)[0]
    z = given.arithmetic.whiten(inverse, deviation)
    _, size, direction = jnp.linalg.svd(jnp.sqrt(share)[:, None] * z, full_matrices=False)
    return centre, z, size, direction


def _in_space(params: ClassifierParams) -> DiscriminantAxes:
    given = params.conditional
    centre, z, size, direction = _whitened_means(params)
    most = min(len(z) - 1, z.shape[1])
    direction, ratio = direction[:most], size[:most] ** 2
    inverse = given.arithmetic.inverse(given.scale)[0]
    coefficient = given.arithmetic.weights(inverse, direction).T
    return DiscriminantAxes(
        coefficient,
        coefficient,
        centre,
        matmul(z, direction.T),
        ratio,
        divide(ratio, jnp.broadcast_to(ratio.sum(), ratio.shape)),
    )


@partial(compiled, static_argnums=1)
def _reduced(params: ClassifierParams, num_axes: int) -> ClassifierParams:
    given = params.conditional
    if isinstance(given, RowSpaceParams):
        inside = _reduced(replace(params, conditional=given.inside), num_axes).conditional
        return replace(params, conditional=replace(given, inside=inside))
    centre, z, _, direction = _whitened_means(params)
    kept = matmul(matmul(z, direction[:num_axes].T), direction[:num_axes])
    moved = given.arithmetic.noise(kept, given.scale, jnp.zeros(len(z), jnp.int32))
    mean = centre[None] + moved
    rounding = None if given.rounding is None else jnp.zeros_like(given.rounding)
    return replace(params, conditional=replace(given, mean=mean, rounding=rounding))
