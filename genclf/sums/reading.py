"""Moments in one pass over the rows, or in two if the first is too inexact.

In float32 a scatter matrix loses as many digits as its condition number has. So a small scatter is
computed in float64. If a large one is too inexact, the rows are read again, about the means and
whitened by the factor of the first scatter, so that the second scatter has condition number 1
("Cholesky-QR twice").

References:
    Yamamoto, Nakatsukasa, Yanagisawa & Fukaya (2015), Roundoff error analysis of CholeskyQR2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from genclf.numerics import loops
from genclf.numerics.compensated import Pair, rounded
from genclf.numerics.double import gram, gram_and_sums, is_cheap, product, symmetric, unwhiten
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.sizes import is_at_most
from genclf.sums.blocks import ClassWeights
from genclf.sums.factors import by_classes, needs_double, whitener
from genclf.sums.near import ALL_ROWS, points_near_means
from genclf.sums.statistics import Moments

_MANY_FEATURES = 512  # from which products are computed in pieces
_PIECES = 4
_CANCELS = 64  # a scatter is recomputed if it is a difference of terms this many times its size


class Products(NamedTuple):
    """How products of rows are computed.

    Attributes:
        exact: whether they are computed in float64.
        pieces: number of pieces of the features; products with earlier pieces are left out.
        whitener: lower triangular matrices that first whiten the rows, (K or 1, d, d), or None.
    """

    exact: bool
    pieces: int = 1
    whitener: Array | None = None

    def whitened(self, z: Array, k: Array | int = 0) -> Array:
        """The rows, whitened by the matrix of class k."""
        return z if self.whitener is None else matmul(z, self.whitener[k].T)

    def with_sums(
        self, z: Array | Pair, weight: Array, columns: Array, k: Array | int = 0
    ) -> tuple[Pair, Pair]:
        """`Σ_n weight_n z_n z_nᵀ` of whitened rows, and `Σ_n columns_n z_nᵀ` of rows as they are.

        If `exact`, a row may be given as any two terms.
        """
        if self.whitener is None or isinstance(z, tuple):
            return gram_and_sums(weight, z, columns, self.exact, self.pieces)
        return gram(weight, self.whitened(z, k), False), product(columns, z, False)

    def scatter(self, found: Pair) -> Pair:
        """The scatter matrices of the rows before whitening, from sums of products."""
        if self.whitener is not None:
            of_classes = lambda of: unwhiten(*of)  # noqa: E731
            return by_classes(of_classes, (self.whitener, rounded(found)))
        return symmetric(found[0], self.pieces), symmetric(found[1], self.pieces)


def moments_by(
    read: Callable[[Array, Products], Moments],
    x: Array,
    w: ClassWeights,
    full: bool,
    near: Array | None = None,
) -> Moments:
    """The moments by `read` about points near the means; by a second pass if it is needed."""
    centre = points_near_means(x, w) if near is None else lax.stop_gradient(near)
    (n, d), single_floats = x.shape, full and centre.dtype == jnp.float32
    # An E step gives points near the means; float64 would be a large part of its work.
    exact = single_floats and is_cheap(n if near is None else 16 * n, d)
    few = is_at_most(n, d)  # then the scatter is singular, whatever its rounding
    pieces = _PIECES if d >= _MANY_FEATURES and not (few or exact) else 1
    found = read(centre, Products(exact, pieces))
    if single_floats and few and not exact and (low := found.rounding):
        low = (*low[:2], jnp.zeros_like(low[2]))  # marks products in float32
        found = Moments(found.count, found.mean, found.scatter, low)
    # With few rows, the points are the means of all rows.
    may_cancel = near is not None or not is_at_most(n, ALL_ROWS)
    may_lose = single_floats and not exact and not few and near is None
    if not (may_cancel or may_lose):
        return found
    known = lax.stop_gradient(found)
    off = known.mean - centre
    cancels = found.summed_if_pooled(found.count[:, None] * off * off) > _CANCELS * known.diagonal
    better = jnp.where(jnp.isfinite(known.mean), known.mean, centre)
    is_inexact, products = cancels.any(), lambda: Products(exact, pieces)
    if may_lose:
        unit, inexact = needs_double(known.scatter)
        is_inexact = is_inexact | inexact.any()
        products = lambda: Products(False, whitener=whitener(known.scatter, unit))  # noqa: E731

    def again() -> Moments:
        second = read(better, products())
        return jax.tree.map(lambda a, b: jnp.where(is_inexact, a, b), second, found)

    return loops.unlikely(is_inexact, again, lambda: found)
