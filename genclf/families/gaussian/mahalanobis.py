"""Class means with their rounding errors, and loops over classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jaxtyping import Float, PyTree

from genclf.numerics.namespace import Array, namespace, on_host
from genclf.numerics.products import matmul
from genclf.numerics.sizes import is_at_most

_SMALL = 2**16  # numbers, up to which an (n, K, d) array is cheap


class Means(NamedTuple):
    """Class means `high + low`; low is their rounding error, None if they are exact."""

    high: Float[Array, "K d"]
    low: Float[Array, "K d"] | None = None

    @property
    def centre(self) -> Float[Array, "1 d"]:
        """A point among the means, in their dtype; it is the mean if all are equal.

        It is a matrix product, which XLA computes once. XLA may compute a mean again in each loop
        that uses it, with another rounding, and rows and means would be centred differently.
        """
        xp = namespace(self.high)
        share = xp.full((1, len(self.high)), 1 / len(self.high), self.high.dtype)
        return self.high[:1] + matmul(share, self.high - self.high[:1])

    def about(self, centre: Float[Array, "1 d"]) -> Float[Array, "K d"]:
        """The means minus a point."""
        deviation = self.high - centre
        return deviation if self.low is None else deviation + self.low

    def subtracted_from(self, x: Array) -> Array:
        """The rows minus the means; x has as many axes as the means."""
        deviation = x - self.high
        return deviation if self.low is None else deviation - self.low


def from_one(x: Float[Array, "n d"], mean: Means) -> Float[Array, "n d"]:
    """Deviations of rows from the mean of one class."""
    return jax.tree.map(lambda a: a[None], mean).subtracted_from(x)


def over_classes(f: Callable[..., Array], *leaves: PyTree, x: Array) -> Array:
    """Map f over classes: at once if x is small, else in turn, since (n, K, d) would be large."""
    if on_host(x, *jax.tree.leaves(leaves)):
        each: Any = [f(*jax.tree.map(lambda a, k=k: a[k], leaves)) for k in range(len(leaves[-1]))]
        stacked: Any = np.stack(each, -1)
        return stacked
    if is_at_most(x.size * len(jax.tree.leaves(leaves)[0]), _SMALL):
        return jax.vmap(f)(*leaves).T
    return lax.map(lambda leaf: f(*leaf), leaves).T
