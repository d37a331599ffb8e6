"""The contract of a conjugate distribution, and what its intervals are made of."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PyTree

from genclf.arguments.hyperparameters import Declared


class Interval(NamedTuple):
    """Bounds of a parameter, of its shape."""

    lower: Array
    upper: Array


class Prior(Declared):
    """A prior of parameters as a user states it; `resolve` is it as a distribution of them."""

    def strength(self, stats: PyTree) -> dict[str, Array]:
        """Free coordinates, which an optimiser may vary: the logarithms of the numbers."""
        dtype = jax.tree.leaves(stats)[0].dtype
        fields = dataclasses.fields(self)
        return {f.name: jnp.log(jnp.asarray(getattr(self, f.name), dtype)) for f in fields}

    def with_strength(self, free: dict[str, Array], stats: PyTree) -> Prior:
        """The prior of these coordinates."""
        return replace(self, **{name: jnp.exp(z) for name, z in free.items()})


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


def positive_or_nan(a: Array) -> Array:
    """NaN where a parameter that must be above 0 is not."""
    return jnp.where(a > 0, a, jnp.nan)
