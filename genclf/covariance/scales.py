"""The arithmetic of square roots of covariances, by the form of the covariances.

A scale is such a root; its class axis has length 1 if the classes share it. Its other axes depend
on the form:

    ===========  =====================================  ==================
    form         scale                                  axes
    ===========  =====================================  ==================
    "full"       lower Cholesky factor                  (K or 1, d, d)
    "diag"       standard deviations                    (K or 1, d)
    "spherical"  one standard deviation                 (K or 1, 1)
    "low-rank"   deviations of noise, and loadings      (K or 1, d, 1 + r)
    ===========  =====================================  ==================

A family has one of the first three; `LowRank` makes covariances of the last form.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from jaxtyping import Float, Int

from genclf.covariance.loadings import Loadings
from genclf.covariance.scale import Scale, finite, inverse_lower, squares
from genclf.numerics import loops
from genclf.numerics.namespace import Array, einsum, jnp, matmul, namespace

Covariance = Literal["full", "diag", "spherical"]
Form = Literal["full", "diag", "spherical", "low-rank"]


class Spherical(Scale):
    """The arithmetic of scales that are one standard deviation for all features."""

    is_spherical, is_product = True, False

    def shape(self, d: int) -> tuple[int, ...]:
        return (1,)

    def num_parameters(self, d: int) -> int:
        return 1

    def coordinates(self, d: int) -> int:
        return d


class Triangular(Scale):
    """The arithmetic of scales that are lower Cholesky factors."""

    is_full, is_product = True, False
    of_scale, event_ndim, spread = "lower_cholesky", 2, "scatter matrix"

    def shape(self, d: int) -> tuple[int, ...]:
        return (d, d)

    def num_parameters(self, d: int) -> int:
        return d * (d + 1) // 2

    def dimension(self, d: int) -> int:
        return d

    def row_size(self, d: int) -> int:
        return d * d

    def inverse(self, scale: Array) -> Array:
        return inverse_lower(scale)

    def whiten(self, inverse: Array, deviation: Float[Array, "n d"]) -> Float[Array, "n _"]:
        return matmul(deviation, inverse.T)

    def weights(self, inverse: Array, z: Float[Array, "n _"]) -> Float[Array, "n d"]:
        return matmul(z, inverse)

    def squared_lengths(self, inverse: Array, deviation: Float[Array, "n d"]) -> Float[Array, "n"]:
        # With many features most zeros of the triangle are left out.
        xp = namespace(deviation)
        d = len(inverse)
        pieces = 4 if d >= 256 else 1
        total = xp.zeros(deviation.shape[0], deviation.dtype)
        for start, end in pairwise(d * i // pieces for i in range(pieces + 1)):
            z = self.whiten(inverse[start:end, :end], deviation[:, :end])
            # A sum can overflow before it reaches a finite number; a single product cannot.
            total = total + squares(finite(z))
        return total

    def diagonal(self, scale: Array) -> Float[Array, "..."]:
        xp = namespace(scale)
        return xp.diagonal(scale, axis1=-2, axis2=-1)

    def matrices(self, scale: Array, d: int) -> Float[Array, "... d d"]:
        return einsum("...ij,...lj->...il", scale, scale)

    def triangular(self, scale: Array, d: int) -> Float[Array, "... d d"]:
        return scale

    def precisions(self, inverse: Array, d: int) -> Float[Array, "one_or_K d d"]:
        return einsum("kji,kjl->kil", inverse, inverse)

    def traces(self, inverse: Array, scatter: Array) -> Float[Array, "K"]:
        xp = namespace(inverse)
        inverse = xp.broadcast_to(inverse, scatter.shape)
        return einsum("kij,kil,kjl->k", inverse, inverse, scatter)

    def noise(
        self, noise: Float[Array, "*shape d"], scale: Array, y: Int[Array, "*shape"]
    ) -> Float[Array, "*shape d"]:
        if len(scale) == 1:
            return matmul(noise, scale[0].T)

        def add_class(k: Array, out: Array) -> Array:
            return jnp.where((y == k)[..., None], matmul(noise, scale[k].T), out)

        return loops.fori_loop(0, len(scale), add_class, noise)


SCALES: dict[Form, Scale] = {
    "full": Triangular(),
    "diag": Scale(),
    "spherical": Spherical(),
    "low-rank": Loadings(),
}


class OfForm:
    """What holds scales of one form, which its field `covariance` names."""

    if TYPE_CHECKING:

        @property
        def covariance(self) -> Form: ...

    @property
    def arithmetic(self) -> Scale:
        """The arithmetic of the scales, which are square roots of covariances."""
        return SCALES[self.covariance]
