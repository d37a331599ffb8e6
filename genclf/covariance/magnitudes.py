"""Scales of the features of a data set, from its moments."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from genclf.sums.merging import pool
from genclf.sums.statistics import Moments, divide


class Magnitudes:
    """Scales of each feature, (d,): mean, within-class and total variance, mean square, rounding.

    `typical` is the variance that the ridge multiplies; `no_spread` marks features that are
    constant up to rounding; `square_of_class` is the mean square in each class, (K, d), or over all
    classes if the class has no weight; (1, d) if the scatter is pooled. `vanishing` marks nonzero
    features whose squares underflow or are inexact: their variance is unknown in this dtype.
    """

    def __init__(self, stats: Moments):
        """From the statistics of all classes."""
        n = stats.count.sum(0)
        overall = pool(stats.of_features())
        self.mean = overall.mean
        within = divide(stats.diagonal.sum(0), n)
        self.total = jnp.maximum(divide(overall.scatter, n), 0)  # rounding may make it negative
        self.square = self.total + self.mean**2
        self.floor = rounding_of(self.square)
        self.typical = jnp.where(within > self.floor, within, self.total)
        # Compare in units of x, since small squares underflow.
        eps = jnp.finfo(n.dtype).eps
        self.no_spread = jnp.sqrt(self.total) <= eps * jnp.sqrt(self.square)
        info = jnp.finfo(n.dtype)
        some = (stats.mean != 0).any(0) | (self.total != 0)
        self.vanishing = some & (self.square < info.tiny / info.eps)
        if stats.is_pooled:
            self.square_of_class = self.square[None]
            return
        count = stats.per_feature(stats.count)
        own = divide(stats.diagonal, jnp.broadcast_to(count, stats.mean.shape)) + stats.mean**2
        self.square_of_class = jnp.where(count == 0, self.square[None], own)


def rounding_of(square: Array) -> Array:
    """The variance that rounding gives equal numbers with this mean square: `(ε · rms)²`."""
    info = jnp.finfo(square.dtype)
    return jnp.maximum(info.eps**2 * square, info.tiny)
