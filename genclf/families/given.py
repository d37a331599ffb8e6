"""Check means, covariance matrices and probabilities that a user gives."""

from __future__ import annotations

from types import ModuleType
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from genclf.arguments.arrays import real_array
from genclf.arguments.hyperparameters import is_concrete
from genclf.numerics.namespace import Array

A = TypeVar("A", Array, np.ndarray)
_OFF_ONE = 1e-5  # how far a sum of probabilities may be from 1
_ASYMMETRY = 1e-5  # largest difference of two entries, in units of the two standard deviations


def mean_and_factor(
    mean: object, covariance: object
) -> tuple[Float[Array, "K d"], Float[Array, "... d d"]]:
    """The means, and the lower Cholesky factor of each covariance; NaN if traced ones are invalid.

    Raises:
        ValueError: a shape does not fit, or a concrete number is invalid.
    """
    mean, covariance = real_array(mean, "mean"), real_array(covariance, "covariance")
    if mean.ndim != 2:
        raise ValueError(f"mean has shape {mean.shape}, expected (K, d): one row per class")
    num_classes, d = mean.shape
    if covariance.shape not in ((d, d), (num_classes, d, d)):
        raise ValueError(
            f"covariance has shape {covariance.shape}, expected {(d, d)} for one that all classes "
            f"share, or {(num_classes, d, d)} for one per class"
        )
    dtype = _dtype(mean, covariance)
    if is_concrete((mean, covariance)):
        _check(np.asarray(mean, float), np.asarray(covariance, float), float(jnp.finfo(dtype).eps))
    mean, covariance = jnp.asarray(mean, dtype), jnp.asarray(covariance, dtype).reshape(-1, d, d)
    sd, correlation = _correlations(covariance, jnp)
    differ = jnp.abs(correlation - correlation.mT).max((-2, -1), initial=0) > _ASYMMETRY
    factor = sd[..., None] * jnp.linalg.cholesky(correlation)
    finite = jnp.isfinite(mean).all() & ~differ.any() & jnp.isfinite(factor).all()
    return jnp.where(finite, mean, jnp.nan), jnp.where(finite, factor, jnp.nan)


def probabilities(value: object, name: str, *, tables: bool) -> Float[Array, "K _"]:
    """Probabilities of each class, shape (K, m); NaN where traced ones are invalid.

    Args:
        value: the numbers.
        name: the name of the argument in messages.
        tables: whether each row is a distribution, with sum 1.

    Raises:
        ValueError: the shape does not fit, or a concrete number is not a probability.
    """
    found = real_array(value, name)
    if found.ndim != 2:
        raise ValueError(f"{name} has shape {found.shape}, expected 2 axes: a row for each class")
    if is_concrete(found):
        host = np.asarray(found, float)
        for k, j in np.argwhere(~((host >= 0) & (host <= 1)))[:1]:
            raise ValueError(f"{name}[{k}, {j}] is {host[k, j]}, expected a number from 0 to 1")
        for k in np.flatnonzero(abs(host.sum(1) - 1) > _OFF_ONE)[:1] if tables else ():
            raise ValueError(f"{name}[{k}] sums to {host[k].sum():.6g}, expected 1")
    p = jnp.asarray(found, _dtype(found))
    valid = ((p >= 0) & (p <= 1)).all(-1, keepdims=True)
    if tables:
        valid = valid & (jnp.abs(p.sum(-1, keepdims=True) - 1) <= _OFF_ONE)
    return jnp.where(valid, p, jnp.nan)


def _dtype(*arrays: Array | np.ndarray) -> np.dtype:
    """The widest dtype of some arrays, at least float32."""
    widest = np.result_type(np.float32, *(array.dtype for array in arrays))
    return jax.dtypes.canonicalize_dtype(widest)


def _correlations(covariance: A, xp: ModuleType) -> tuple[A, A]:
    """Standard deviations and correlation matrices, so that units do not matter."""
    sd = xp.sqrt(xp.diagonal(covariance, axis1=-2, axis2=-1))
    return sd, covariance / sd[..., :, None] / sd[..., None, :]


def _check(mean: np.ndarray, covariance: np.ndarray, eps: float) -> None:
    """Raise for a number that is not finite, or a matrix that is not a covariance."""
    for name, values in (("mean", mean), ("covariance", covariance)):
        for at in np.argwhere(~np.isfinite(values))[:1]:
            raise ValueError(f"{name}{at.tolist()} is {values[*at]}, expected a finite number")
    for k, matrix in enumerate(covariance if covariance.ndim == 3 else covariance[None]):
        name = f"covariance[{k}]" if covariance.ndim == 3 else "covariance"
        for j in np.flatnonzero(np.diagonal(matrix) <= 0)[:1]:
            raise ValueError(f"{name}[{j}, {j}] is {matrix[j, j]}, expected a variance > 0")
        correlation = _correlations(matrix, np)[1]
        for i, j in np.argwhere(abs(correlation - correlation.T) > _ASYMMETRY)[:1]:
            raise ValueError(
                f"{name} is not symmetric: [{i}, {j}] is {matrix[i, j]} and [{j}, {i}] is "
                f"{matrix[j, i]}"
            )
        least, smallest = np.linalg.eigvalsh(correlation).min(initial=1), 4 * len(matrix) * eps
        if least < smallest:
            raise ValueError(
                f"{name} is not positive definite: the least eigenvalue of its correlation matrix "
                f"is {least:.3g}, expected at least {smallest:.1g}"
            )
