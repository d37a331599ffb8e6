"""The set that a parameter is in: declared once, for every numerical fit and its checks.

A `Parameter` has the name of the set in `numpyro.distributions.constraints`, and the coordinate in
which the params class stores the value. This module derives the rest from the two: unconstrained
coordinates, the constraints of a Lagrangian, and whether given params are feasible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

Link = Literal["identity", "log", "logit"]

# Probabilities up to 1e-30 count as 0: this changes no sum in any dtype, and the log is finite.
LOG_TINY = math.log(1e-30)


@dataclass(frozen=True)
class Parameter:
    """The set that the values of one array of a params class are in.

    Attributes:
        constraint: name in `numpyro.distributions.constraints`, e.g. "simplex".
        link: how the array stores the value: as it is, as its logarithm, or as its logit.
        event_ndim: number of axes after the class axis.
        tables: for a simplex, sizes of the tables that are side by side; () for one table.
    """

    constraint: str
    link: Link = "identity"
    event_ndim: int = 1
    tables: tuple[int, ...] = ()

    def value(self, stored: Array) -> Array:
        """The constrained value, e.g. probabilities from their logarithms."""
        return {"identity": lambda a: a, "log": jnp.exp, "logit": jax.nn.sigmoid}[self.link](stored)

    def stored(self, value: Array) -> Array:
        """The stored form of a value; infinite, with gradient 0, on a bound."""
        if self.link == "identity":
            return value
        log = _safe_log(value)
        return log if self.link == "log" else log - _safe_log(1 - value)

    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of each value; infinite where there is none."""
        lower = 0.0 if self.constraint in ("simplex", "unit_interval", "positive") else -math.inf
        return lower, 1.0 if self.constraint == "unit_interval" else math.inf

    def num_free(self, shape: tuple[int, ...]) -> int:
        """The number of free values among those of an array of this shape."""
        size = math.prod(shape)
        if self.constraint == "simplex":
            return size - size // shape[-1] * len(self.tables or shape[-1:])
        if self.constraint == "lower_cholesky":
            return size // shape[-1] * (shape[-1] + 1) // 2
        return size

    def membership(self) -> Any:
        """The numpyro constraint."""
        from numpyro.distributions import constraints

        return getattr(constraints, self.constraint)

    def table_of(self, size: int) -> np.ndarray:
        """The table of each of `size` entries, as a number in 0..number of tables - 1."""
        sizes = self.tables or (size,)
        return np.repeat(np.arange(len(sizes)), sizes)

    def table_sums(self, values: Float[Array | np.ndarray, "*batch V"]) -> Any:
        """The sum over each table of a simplex, (..., tables), which the constraint sets to 1."""
        if isinstance(values, np.ndarray):
            sizes = self.tables or values.shape[-1:]
            return np.add.reduceat(values, np.cumsum((0, *sizes[:-1])), axis=-1)
        table = self.table_of(values.shape[-1])
        sums = jnp.zeros((*values.shape[:-1], table[-1] + 1), values.dtype)
        return sums.at[..., table].add(values)

    def entry_sums(self, values: Float[Array | np.ndarray, "*batch V"]) -> Any:
        """For each entry, the sum over its table, (..., V)."""
        return self.table_sums(values)[..., self.table_of(values.shape[-1])]

    def infeasibility(self, stored: Any) -> Float[Array | np.ndarray, ""]:
        """The largest violation of a sum, a bound or a required zero; inf for NaN.

        NumPy computes it for a NumPy array, so that nothing is compiled.
        """
        xp: Any = np if isinstance(stored, np.ndarray) else jnp
        sigmoid = lambda a: 0.5 + 0.5 * xp.tanh(0.5 * a)  # noqa: E731
        value = {"identity": xp.asarray, "log": xp.exp, "logit": sigmoid}[self.link](stored)
        if self.constraint == "simplex":
            worst = xp.abs(self.table_sums(value) - 1)
        elif self.constraint == "lower_cholesky":
            above = xp.abs(xp.triu(value, 1)) / xp.abs(value).max((-1, -2), keepdims=True)
            pivots = xp.diagonal(value, axis1=-2, axis2=-1)
            worst = above + xp.where(pivots > 0, 0.0, xp.inf)[..., None]
        else:
            lower, upper = self.bounds()
            inside = (value > 0) if self._is_open else (value >= lower) & (value <= upper)
            worst = xp.where(inside, xp.zeros(inside.shape, value.dtype), xp.inf)
        return xp.where(xp.isfinite(value).all(), worst.max(initial=0), xp.inf)

    @property
    def _is_open(self) -> bool:
        """Whether the bound itself is outside; a logarithm stores it as -inf."""
        return self.constraint == "positive" and self.link == "identity"

    def at_bound(self, stored: Array) -> Bool[Array, "..."]:
        """Entries on the bound of a simplex or an interval, up to `LOG_TINY`."""
        if self.link == "identity":
            return jnp.zeros(stored.shape, bool)
        beyond = stored <= LOG_TINY
        return beyond | (stored >= -LOG_TINY) if self.link == "logit" else beyond

    def pressed_to_bound(
        self, stored: Array, slope: Array, count: Float[Array, "K"], near: Array
    ) -> Bool[Array, "..."]:
        """Entries within `near` of a bound towards which the objective increases.

        Args:
            stored: values inside the set.
            slope: derivative of the objective by the stored array.
            count: weight of each class.
            near: the largest value, or distance from 1, that counts as near the bound.
        """
        # Rounding alone gives small slopes: require half of the slope of an entry with count 0.
        if self.constraint == "simplex":
            # At a maximum slope_v = λ θ_v, with λ = Σ_v slope_v; with count 0 slope_v is 0.
            multiplier = self.entry_sums(slope)
            return (jnp.exp(stored) < near) & (slope < 0.5 * multiplier * jnp.exp(stored))
        if self.link == "logit":
            # With count 0 the slope is -n p.
            p = jnp.exp(-jnp.abs(stored))
            pressure = slope * jnp.sign(stored)
            weight = jnp.broadcast_to(count[:, None], stored.shape)
            return (p < near) & (pressure > 0.5 * weight * p)
        if self.constraint in ("lower_cholesky", "positive") and self.link == "identity":
            full = self.constraint == "lower_cholesky"
            pivots = jnp.diagonal(stored, axis1=-2, axis2=-1) if full else stored
            return pivots < near
        return jnp.zeros(stored.shape, bool)

    def free(self, stored: Array) -> Any:
        """Unconstrained coordinates of values inside the set; `constrained` undoes it."""
        if self.constraint == "simplex" and self.link == "log":
            return [_sticks(stored[..., at]) for at in self.equal_tables(stored.shape[-1])]
        if self._link_is_free:
            return stored
        return _rowwise(self._transform().inv, stored, self.event_ndim)

    def constrained(self, free: Any, size: int) -> Array:
        """The stored array from unconstrained coordinates; `size` is that of its last axis."""
        if self.constraint == "simplex" and self.link == "log":
            tables = self.equal_tables(size)
            stored = jnp.zeros((*free[0].shape[:-2], size), free[0].dtype)
            for at, sticks in zip(tables, free, strict=True):
                stored = stored.at[..., at].set(_log_simplex(sticks))
            return stored
        if self._link_is_free:
            return free
        event = 1 if self.constraint == "lower_cholesky" else self.event_ndim
        return _rowwise(self._transform(), free, event)

    @property
    def _link_is_free(self) -> bool:
        # In these two cases the link is the inverse of numpyro's bijection for the constraint.
        return (self.constraint, self.link) in [("unit_interval", "logit"), ("positive", "log")]

    def _transform(self) -> Any:
        from numpyro.distributions.transforms import biject_to

        if self.link != "identity":
            raise ValueError(f"{self} has no unconstrained coordinates")
        return biject_to(self.membership())

    def equal_tables(self, size: int) -> list[np.ndarray]:
        """Indices of the tables of each size, (tables, size), which are transformed together."""
        sizes = np.asarray(self.tables or (size,))
        first = np.cumsum(sizes) - sizes
        return [first[sizes == v][:, None] + np.arange(v) for v in np.unique(sizes)]


def _safe_log(p: Array) -> Array:
    return jnp.where(p <= 0, -jnp.inf, jnp.log(jnp.where(p <= 0, 1, p)))


def _rowwise(transform: Any, x: Array, event_ndim: int) -> Array:
    """A transform of numpyro for each event, without broadcasting over the axes before it."""
    batch = x.shape[: x.ndim - event_ndim]
    rows = x.reshape(math.prod(batch), *x.shape[len(batch) :])
    out = jax.vmap(transform)(rows)
    return out.reshape(*batch, *out.shape[1:])


def _offsets(v: int, like: Array) -> Array:
    """`log (V - 1 - j)`, which makes coordinates of 0 the uniform table."""
    offsets = jnp.log(jnp.arange(v - 1, 0, -1, dtype=like.dtype))
    return jnp.broadcast_to(offsets, (*like.shape[:-1], v - 1))


def _log_simplex(free: Float[Array, "*batch V_minus_1"]) -> Float[Array, "*batch V"]:
    """Logarithm of numpyro's stick-breaking bijection, without forming probabilities.

    `log θ_j = log σ(z_j) + Σ_{i<j} log σ(-z_i)`, `z_j = free_j - log (V - 1 - j)`.
    """
    z = free - _offsets(free.shape[-1] + 1, free)
    zero = jnp.zeros((*free.shape[:-1], 1), free.dtype)
    left = jnp.concatenate([zero, jnp.cumsum(jax.nn.log_sigmoid(-z), -1)], -1)
    return jnp.concatenate([jax.nn.log_sigmoid(z), zero], -1) + left


def _sticks(log_theta: Float[Array, "*batch V"]) -> Float[Array, "*batch V_minus_1"]:
    """The inverse of `_log_simplex`: logits of `θ_j / Σ_{i>=j} θ_i`, plus the offsets."""
    after = jax.lax.cumlogsumexp(log_theta, axis=log_theta.ndim - 1, reverse=True)[..., 1:]
    return log_theta[..., :-1] - after + _offsets(log_theta.shape[-1], after)
