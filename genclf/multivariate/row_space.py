"""Many features, few rows: one rotation to the row space serves any number of fits."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from genclf.arguments.domains import shown
from genclf.arguments.reprs import summary
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.conversion import float_dtype
from genclf.covariance.rotation import Rotation, rotation_of
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.gaussian.row_space import RowSpaceGaussian, RowSpaceParams


class RowSpace(NamedTuple):
    """Rows in coordinates of the space that they span, as `row_space` returns them.

    Attributes:
        rotation: the rotation, with `origin` (d,) and orthonormal columns `basis` (d, r).
        rows: coordinates of the rows, `(x - origin) basis`, shape (n, r) with r = min(n, d).
    """

    rotation: Rotation
    rows: Float[Array, "n r"]

    def __repr__(self) -> str:
        return summary(self)

    def model(self, clf: Classifier) -> Classifier:
        """The same model for `rows`.

        Args:
            clf: a model of Gaussian classes with a shrinkage towards the identity.

        Returns:
            A `Classifier` that takes coordinates in place of features.

        Raises:
            ValueError: the model's scores change under rotations.
        """
        family = clf.family
        if not (isinstance(family, Gaussian) and family.is_equivariant):
            raise ValueError(
                f"clf has the family {shown(family)}, whose scores change under rotations: "
                'expected Gaussian(shrinkage=...) with covariance="full", target="identity", '
                'missing="error" and no prior'
            )
        return replace(clf, family=RowSpaceGaussian(family, len(self.rotation.basis)))

    def params(self, params: ClassifierParams) -> ClassifierParams:
        """Params of a fit to `rows`, as params that take the original features.

        Args:
            params: a fit of `model(clf)`.

        Returns:
            `ClassifierParams`, whose scores of x are those of `params` for the coordinates of x.

        Raises:
            ValueError: the params are of another model.
        """
        inside = params.conditional
        if not isinstance(inside, RowSpaceParams) or inside.rotation is not None:
            raise ValueError(
                f"params hold {shown(inside)}, expected a fit of space.model(clf) to space.rows"
            )
        return replace(params, conditional=replace(inside, rotation=self.rotation))


@checked_arguments
def row_space(x: Float[ArrayLike, "n d"]) -> RowSpace:
    """Rotate rows to the space that they span, where models with many features are small.

    With shrinkage towards the identity, a Gaussian model of n rows and d features has the same
    scores in the r = min(n, d) coordinates `(x - m) V` of its rows, m their mean and V the
    orthonormal factor of `(x - m)ᵀ = V R`. After one rotation, in O(n² d), each fit costs O(n r²),
    as in a cross-validation, with permuted labels or on a grid of shrinkages. `fit` of a single
    model does this by itself.

    Args:
        x: rows, shape (n, d).

    Returns:
        `RowSpace`, a pair of the rotation and the rotated rows; its `model` converts models to the
        coordinates, and its `params` converts fits back.

    Raises:
        ValueError: x is not a matrix of numbers.

    Example:
        >>> import jax, jax.numpy as jnp, genclf as gcf
        >>> y = jnp.arange(12) % 2
        >>> x = jax.random.normal(jax.random.key(0), (12, 500)).at[y == 1].add(1.0)
        >>> space = gcf.row_space(x)
        >>> clf = space.model(gcf.lda(2, shrinkage=0.5))
        >>> one_out = jax.vmap(lambda i: gcf.fit(clf, space.rows, y, jnp.arange(12) != i))
        >>> scores = jax.vmap(gcf.log_posterior)(one_out(jnp.arange(12)), space.rows)
        >>> print((scores.argmax(1) == y).mean())
        1.0

    References:
        Hastie & Tibshirani (2004), "Efficient quadratic regularization for expression arrays".
    """
    if not isinstance(x, jax.Array) or x.ndim != 2:
        raise ValueError(f"x is {shown(x)}, expected rows of shape (n, d)")
    return _row_space(x)


@compiled
def _row_space(x: Array) -> RowSpace:
    x = x.astype(float_dtype(x))
    rotation = rotation_of(x, jnp.ones(len(x), x.dtype))
    return RowSpace(rotation, rotation.coordinates(x))
