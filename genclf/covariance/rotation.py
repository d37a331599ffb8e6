"""Coordinates in the space that rows span, for more features than rows."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float, Shaped

from genclf.arguments.domains import POSITIVES
from genclf.arguments.reprs import ShowsNumbers
from genclf.numerics.batched import orthonormal, pseudo_inverse
from genclf.numerics.logarithms import power_of_two
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.row_blocks import broadcast_rows, over_rows
from genclf.sums.blocks import ignore_absent
from genclf.sums.statistics import divide


class Rotation(ShowsNumbers):
    """Coordinates `z = Vᵀ (x - origin) / unit` of rows, V with orthonormal columns.

    Attributes:
        origin: the point with coordinates 0, shape (d,).
        unit: the units of the features, shape (d,).
        basis: V, shape (d, r).
    """

    domains: ClassVar = {"unit": POSITIVES}

    origin: Float[Array, "d"]
    unit: Float[Array, "d"]
    basis: Float[Array, "d r"]

    def _problems(self) -> list[str]:
        basis = np.asarray(self.basis, float)
        length = np.square(basis).sum(-2)
        # A column is 0 if the rows span fewer than r directions.
        is_unit = (np.abs(length - 1) < 1e-3) | (length == 0)
        return [] if is_unit.all() else ["basis has columns whose length is neither 0 nor 1"]

    def centred(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """`(x - origin) / unit`."""
        x = x.astype(self.origin.dtype)
        return (x - broadcast_rows(self.origin, x)) / broadcast_rows(self.unit, x)

    def coordinates(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch r"]:
        """The coordinates z of each row."""
        return matmul(self.centred(x), self.basis)

    def squared_distance(self, x: Shaped[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """`|(x - origin) / unit|² - |z|²`, the squared distance from the space."""

        def rows(x: Array) -> Array:
            centred = self.centred(x)
            rest = centred - matmul(matmul(centred, self.basis), self.basis.T)
            return (rest**2).sum(-1)

        return over_rows(rows, x, 1, 4 * x.shape[-1])

    def back(self, z: Float[Array, "*batch r"]) -> Float[Array, "*batch d"]:
        """The points of the space with coordinates z."""
        centred = matmul(z, self.basis.T)
        unit = broadcast_rows(self.unit, centred)
        return broadcast_rows(self.origin, centred) + unit * centred


def rotation_of(
    x: Shaped[Array, "n d"], weight: Float[Array, "n"], unit: Float[Array, "d"] | None = None
) -> Rotation:
    """The rotation to the row space of the centred rows.

    Its r = min(n, d) columns are orthonormal up to rounding, whatever the condition of the rows.
    """
    dtype = weight.dtype
    x = ignore_absent(x.astype(dtype), weight != 0)
    x = jnp.where(jnp.isfinite(x), x, 0)
    # The mean of large numbers has a rounding error, which a second mean, of deviations, corrects.
    origin = jnp.zeros(x.shape[1], dtype)
    for _ in range(2):
        origin = origin + divide(matmul(weight, x - origin[None]), weight.sum())
    unit = jnp.ones_like(origin) if unit is None else unit
    return Rotation(origin, unit, _basis((x - origin[None]) / unit[None], weight))


def unit_of(x: Shaped[Array, "n d"], weight: Float[Array, "n"]) -> Float[Array, ""]:
    """The unit in which the largest deviation in the rows is about 1; some unit if it is 0."""
    present = weight != 0
    x = x.astype(weight.dtype)
    largest = jnp.where(present[:, None], jnp.abs(x - x[present.argmax()][None]), 0).max()
    usable = (largest > 0) & jnp.isfinite(largest)
    return lax.stop_gradient(power_of_two(jnp.where(usable, largest, 1))[0])


@jax.custom_jvp
def _basis(rows: Float[Array, "n d"], weight: Float[Array, "n"]) -> Float[Array, "d r"]:
    return orthonormal(rows.T)


@_basis.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # V turns only so far that its space still holds the moved rows: dV Lᵀ = (I - V Vᵀ) dxᵀ for rows
    # L Vᵀ. The derivative of the QR factors would also turn V within the space, and is infinite if
    # rows are linearly dependent, as centred rows are. Where rows coincide, the
    # space keeps their weighted mean.
    (rows, weight), (moved, _) = primals, tangents
    basis, root = _basis(rows, weight), jnp.sqrt(weight)[:, None]
    out = moved - matmul(matmul(moved, basis), basis.T)
    return basis, matmul(pseudo_inverse(root * matmul(rows, basis)), root * out).T
