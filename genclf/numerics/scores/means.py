"""Class means with their rounding errors, and loops over classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from genclf.numerics.namespace import Array, jax, lax, matmul, namespace, on_host
from genclf.numerics.sizes import is_at_most

_SMALL = 2**16  # numbers, up to which an (n, K, d) array is cheap


class Means(NamedTuple):
    """Class means `high + low`; low is their rounding error, None if they are exact."""

    high: Float[Array, "K d"]
    low: Float[Array, "K d"] | None = None

    def at(self, key: Any) -> Means:
        """The entries of both parts at an index."""
        return Means(self.high[key], None if self.low is None else self.low[key])

    def of_rows(self, k: Int[Array, "n"]) -> Means:
        """The mean of the class k of each row."""
        return Means(rows_of(self.high, k), None if self.low is None else rows_of(self.low, k))

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


def rows_of(of_class: Array, k: Int[Array, "n"]) -> Array:
    """The entry of the class k of each row."""
    return of_class[k] if on_host(of_class) else of_class.at[k].get(mode="promise_in_bounds")


def from_one(x: Float[Array, "n d"], mean: Means) -> Float[Array, "n d"]:
    """Deviations of rows from the mean of one class."""
    return mean.at(None).subtracted_from(x)


def over_classes(f: Callable[..., Array], means: Means, *more: Array, x: Array) -> Array:
    """Map f over classes: at once if x is small, else in turn, since (n, K, d) would be large."""
    if on_host(x, means.high, *more):
        of_class = [f(means.at(k), *(a[k] for a in more)) for k in range(len(means.high))]
        stacked: Any = np.stack(of_class, -1)
        return stacked
    if is_at_most(x.size * len(means.high), _SMALL):
        return jax.vmap(f)(means, *more).T
    return lax.map(lambda own: f(*own), (means, *more)).T
