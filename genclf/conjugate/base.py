"""The contract of a conjugate distribution, and what its intervals are made of."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float, PyTree


class Interval(NamedTuple):
    """Bounds of a parameter, of its shape."""

    lower: Array
    upper: Array


class Conjugate(eqx.Module):
    """A distribution of the parameters of K class densities, closed under adding statistics.

    Before any data it is the prior, after `update` the posterior. Parameters are named and held as
    the params class holds them (`log_theta`, `scale`); a density or an interval is that of their
    values (θ, variances), which are named apart.
    """

    @property
    @abc.abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """Axes in front of those that the methods know: the columns of `Independent`."""

    @abc.abstractmethod
    def update(self, stats: PyTree) -> Conjugate:
        """The posterior, given the statistics of examples."""

    @property
    @abc.abstractmethod
    def proper(self) -> Bool[Array, "K"]:
        """Whether the distribution of each class's parameters has an integral."""

    @abc.abstractmethod
    def improper(self, k: int) -> str:
        """What keeps that of class k from one, in words."""

    @property
    @abc.abstractmethod
    def example(self) -> str:
        """A proper prior, as one writes it."""

    @abc.abstractmethod
    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """Log-density of the values of parameters, given as the params class holds them."""

    @abc.abstractmethod
    def log_evidence(self, stats: PyTree) -> Float[Array, ""]:
        """Log-probability of examples, the parameters integrated out; from their statistics."""

    @abc.abstractmethod
    def expected(self) -> dict[str, Array]:
        """Expected values of the parameters, as the params class holds them."""

    @abc.abstractmethod
    def sample(self, key: Array) -> dict[str, Array]:
        """A draw of the parameters, as the params class holds them."""

    @abc.abstractmethod
    def interval(self, level: Array) -> dict[str, Interval]:
        """Bounds of the central interval of that probability, of each value by itself."""


def log_rising(a: Array, x: Array) -> Array:
    """`log Γ(a + x) / Γ(a)`, a > 0 and x >= 0, without the difference of large logarithms."""
    small = a < _STIRLING
    direct, large = jnp.where(small, a, 1), jnp.where(small, _STIRLING, a)
    # Stirling's series for both: (a - ½) log (1 + x/a) + x log (a + x) - x + σ(a+x) - σ(a).
    series = (large - 0.5) * jnp.log1p(x / large) + x * (jnp.log(large + x) - 1)
    series = series + _stirling(large + x) - _stirling(large)
    return jnp.where(small, gammaln(direct + x) - gammaln(direct), series)


def log_rising_beyond(a: Array, x: Array) -> Array:
    """`log Γ(a + x) / Γ(a) - (x log x - x)`: what is left when counts meet in large sums.

    Of a table, `Σ_v x_v log x_v` less that of the total is `Σ_v x_v log (x_v / Σ x)`, which has
    no large terms.
    """
    some = x > 0
    x = jnp.where(some, x, 1)
    ratio = x * jnp.log1p(a / x)
    # Stirling's series for both where a is large, for a + x alone where that is.
    large = jnp.maximum(a, _STIRLING)
    both = (large - 0.5) * jnp.log1p(x / large) + x * jnp.log1p(large / x)
    both = both + _stirling(large + x) - _stirling(large)
    small = jnp.minimum(a, _STIRLING)
    upper = jnp.maximum(small + x, _STIRLING)
    one = ratio + (small - 0.5) * jnp.log(upper) - small + _HALF_LOG_2PI + _stirling(upper)
    neither = gammaln(jnp.minimum(small + x, _STIRLING)) - x * jnp.log(x) + x
    found = jnp.where(small + x >= _STIRLING, one, neither) - gammaln(small)
    return jnp.where(some, jnp.where(a >= _STIRLING, both, found), 0)


def log_gamma_beyond(a: Array) -> Array:
    """`log Γ(a) - (a log a - a)`, without the difference of large logarithms."""
    small, large = jnp.minimum(a, _STIRLING), jnp.maximum(a, _STIRLING)
    series = _HALF_LOG_2PI - 0.5 * jnp.log(large) + _stirling(large)
    return jnp.where(a < _STIRLING, gammaln(small) - small * (jnp.log(small) - 1), series)


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_STIRLING = 16.0


def _stirling(z: Array) -> Array:
    """What is left of log Γ(z) after (z - ½) log z - z + ½ log 2π; to 1e-14 for z >= 16."""
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w / 1680))) / z


def central(level: Array, quantile_of: Callable[[Array], Array]) -> Interval:
    """The interval that leaves half of the rest on either side."""
    return Interval(quantile_of(0.5 * (1 - level)), quantile_of(0.5 * (1 + level)))


def quantile(name: str, *args: Array) -> Array:
    """An inverse distribution function of `scipy.special`, on the host."""
    from scipy import special

    if any(isinstance(a, Tracer) for a in args):
        raise ValueError(
            "interval is computed on the host: call it outside jit and vmap; the posterior may "
            "have batch axes, as from jax.vmap"
        )
    found = getattr(special, name)(*(np.asarray(a, np.float64) for a in args))
    return jnp.asarray(found, args[0].dtype)


def spread_to(value: Any, shape: tuple[int, ...], dtype: Any, name: str) -> Array:
    """A number, or an array of the last axes of `shape`, for all of `shape`."""
    given = jnp.shape(value)
    if given != shape[len(shape) - len(given) :]:
        raise ValueError(f"{name} has shape {given}, expected () or the last axes of {shape}")
    return jnp.broadcast_to(jnp.asarray(value, dtype), shape)


def numbers(value: Any) -> Any:
    """A list or tuple of numbers as an array; anything else as it is."""
    try:
        return np.asarray(value, float) if isinstance(value, list | tuple) else value
    except (TypeError, ValueError):
        return value  # a verb says what is wrong with it


def entropy(counts: Array, whole: Array) -> Float[Array, ""]:
    """`Σ_v c_v log (c_v / Σ c)`, with 0 log 0 = 0."""
    some = counts > 0
    share = jnp.where(some, counts, 1) / jnp.where(some, whole, 1)
    return jnp.where(some, counts * jnp.log(share), 0).sum()


def positive_or_nan(a: Array) -> Array:
    """NaN where a parameter that must be above 0 is not."""
    return jnp.where(a > 0, a, jnp.nan)
