"""Base classes of priors and of conjugate distributions, and helpers for their intervals."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Float, PyTree

from genclf.arguments.hyperparameters import Declared, is_concrete
from genclf.arguments.reprs import ShowsNumbers
from genclf.numerics.namespace import Array, namespace


class Interval(NamedTuple):
    """Lower and upper bounds of a parameter, in its shape."""

    lower: Array
    upper: Array


class Prior(Declared):
    """A prior as the user gives it; `resolve` turns it into a distribution of the parameters."""

    @property
    def is_complete(self) -> bool:
        """Whether the prior leaves no number to the data."""
        return True

    def strength(self, stats: PyTree) -> dict[str, Array]:
        """Unconstrained coordinates for an optimiser: the logarithms of the hyper-parameters."""
        dtype = jax.tree.leaves(stats)[0].dtype
        fields = dataclasses.fields(self)
        return {f.name: jnp.log(jnp.asarray(getattr(self, f.name), dtype)) for f in fields}

    def with_strength(self, free: dict[str, Array], stats: PyTree) -> Prior:
        """The prior with these coordinates: the inverse of `strength`."""
        return replace(self, **{name: jnp.exp(z) for name, z in free.items()})

    def with_numbers_of(self, used: Conjugate) -> Prior:
        """This prior, with numbers that it leaves to the data taken from the distribution."""
        return self

    def in_shape_of(self, like: Array) -> list[Array]:
        """The hyper-parameters, each in the shape of `like`; NaN where not positive."""
        kind, xp = type(self).__name__, namespace(like)
        values = {f"{f.name} of {kind}": getattr(self, f.name) for f in dataclasses.fields(self)}
        return [
            positive_or_nan(broadcast_to_last_axes(value, like.shape, like.dtype, name, xp))
            for name, value in values.items()
        ]


class Conjugate(ShowsNumbers):
    """A distribution of the parameters of K class densities, closed under adding statistics.

    Without data it is the prior, after `update` the posterior. Parameters have the names and the
    coordinates of the params class (`log_theta`, `scale`). Densities and intervals are those of the
    values themselves (θ, variances), which have other names.
    """

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes, such as the columns of `Independent`; the methods need `vmap` over them.

        By default they are the axes of the first field before those of a class and its features.
        """
        return getattr(self, dataclasses.fields(self)[0].name).shape[:-2]

    @abc.abstractmethod
    def update(self, stats: PyTree) -> Conjugate:
        """The posterior, given the statistics of examples."""

    @property
    @abc.abstractmethod
    def proper(self) -> Bool[Array, "K"]:
        """Whether the distribution of each class's parameters is proper."""

    @abc.abstractmethod
    def why_improper(self, k: int) -> str:
        """Why the distribution of class k is improper, for an error message."""

    @property
    @abc.abstractmethod
    def example(self) -> str:
        """The code of a proper prior, for an error message."""

    @abc.abstractmethod
    def log_prob(self, arrays: Mapping[str, Array]) -> Float[Array, ""]:
        """Log-density of the values; `arrays` holds them in the params class's coordinates."""

    @abc.abstractmethod
    def log_evidence(self, stats: PyTree) -> Float[Array, ""]:
        """Log marginal likelihood of examples, parameters integrated out, from statistics."""

    @abc.abstractmethod
    def expected(self) -> dict[str, Array]:
        """Expected values of the parameters, as the params class holds them."""

    @abc.abstractmethod
    def sample(self, key: Array) -> dict[str, Array]:
        """A draw of the parameters, as the params class holds them."""

    @abc.abstractmethod
    def interval(self, level: Array) -> dict[str, Interval]:
        """Central credible interval of each value separately, with probability `level`."""


def central(level: Array, quantile_of: Callable[[Array], Array]) -> Interval:
    """The central interval, with probability (1 - level) / 2 on either side."""
    return Interval(quantile_of(0.5 * (1 - level)), quantile_of(0.5 * (1 + level)))


def quantile(name: str, *args: Array) -> Array:
    """A quantile function of `scipy.special`, computed on the host."""
    from scipy import special

    if any(isinstance(a, Tracer) for a in args):
        raise ValueError(
            "interval is computed on the host: call it outside jit and vmap; the posterior may "
            "have batch axes, as from jax.vmap"
        )
    found = getattr(special, name)(*(np.asarray(a, np.float64) for a in args))
    return jnp.asarray(found, args[0].dtype)


def broadcast_to_last_axes(
    value: Any, shape: tuple[int, ...], dtype: Any, name: str, xp: Any = jnp
) -> Array:
    """Broadcast a number, or an array with the last axes of `shape`, to `shape`."""
    given = np.shape(value)
    if given != shape[len(shape) - len(given) :]:
        raise ValueError(f"{name} has shape {given}, expected () or the last axes of {shape}")
    return xp.broadcast_to(xp.asarray(value, dtype), shape)


def in_form(value: Any, shape: tuple[int, ...], dtype: Any, name: str) -> Array:
    """A covariance in this shape; a number, or one for each feature, stands for a diagonal."""
    if len(shape) == 2 and jnp.ndim(value) < 2:
        return jnp.diag(broadcast_to_last_axes(value, shape[:1], dtype, name))
    return broadcast_to_last_axes(value, shape, dtype, name)


def covariance_problems(
    value: Any, name: str, definite: str, is_valid: Callable[[np.ndarray], bool]
) -> list[str]:
    """The error message for a concrete covariance of a prior that is not valid."""
    if value is None or not is_concrete(value):
        return []
    matrix = np.asarray(value, np.float64)
    matrix = matrix if matrix.ndim >= 2 else np.diag(np.atleast_1d(matrix))
    if matrix.ndim > 2 or matrix.shape[0] != matrix.shape[1]:
        return [f"{name} of the prior has shape {matrix.shape}, expected (), (d,) or (d, d)"]
    if is_valid(matrix):
        return []
    return [f"{name} of the prior is {value}, expected positive {definite}"]


def positive_or_nan(a: Array) -> Array:
    """The parameter, with NaN where it is not > 0."""
    xp = namespace(a)
    return xp.where(a > 0, a, xp.nan)
