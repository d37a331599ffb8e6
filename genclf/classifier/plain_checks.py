"""Whether rows can have plain sums: their shapes, signs and sizes."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from genclf.arguments.domains import shown
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.categorical import Categorical
from genclf.numerics.namespace import Array, is_traced
from genclf.sums.statistics import ClassifierStats, Moments, Sums, is_statistic

_DIGITS = 1e-3  # relative rounding of a variance, above which it is called lost


def plain_array(given: Any, name: str) -> tuple[Array, float]:
    """Numbers in float64 unless they are traced, and their relative rounding."""
    if is_traced(given):
        found: Any = jnp.asarray(given)
        if not jnp.issubdtype(found.dtype, jnp.floating):
            found = found.astype(jnp.result_type(float))
    else:
        found = np.asarray(given)
        if found.dtype.kind not in "iuf":
            raise ValueError(
                f"{name} is {shown(given)}, expected an array of numbers: take float() of "
                "decimals, and 0 for the sums of no rows"
            )
    eps = float(jnp.finfo(found.dtype if found.dtype.kind == "f" else np.float64).eps)
    if not is_traced(found):
        found = found.astype(np.float64)
        refuse(~np.isfinite(found), found, name, "a finite sum")
    return found, eps


def of_shape(given: Any, name: str, *shapes: tuple[int, ...]) -> tuple[Array, float]:
    """`plain_array`, which must have one of these shapes."""
    found, eps = plain_array(given, name)
    if found.shape not in shapes:
        expected = " or ".join(map(str, dict.fromkeys(shapes)))
        raise ValueError(f"{name} has shape {found.shape}, expected {expected}")
    return found, eps


def refuse(wrong: Any, values: Any, name: str, expected: str) -> None:
    """Raise for the first wrong number, if they are known."""
    if is_traced((wrong, values)):
        return
    for at in np.argwhere(wrong):
        where = ", ".join(map(str, at))
        raise ValueError(f"{name}[{where}] is {values[tuple(at)]:.6g}, expected {expected}")


def check_counts(family: Any, total: Any, weight: Any, name: str) -> None:
    """Raise for counts that no rows have."""
    refuse(total < 0, total, name, "a sum >= 0")
    if isinstance(family, Bernoulli):
        refuse(total > weight * (1 + 1e-6), total, name, "at most the weight of the rows")
    if isinstance(family, Categorical) and not is_traced((total, weight)):
        v = family.num_values
        sizes = v if isinstance(v, tuple) else (v,) * (total.shape[-1] // v)
        ends = np.cumsum(sizes)[:-1]
        for table in np.split(np.asarray(total), ends, -1):
            rows, most = table.sum(-1), weight[..., 0]
            fits = rows <= most * (1 + 1e-6)
            if getattr(family, "missing", "error") == "error":
                fits &= rows >= most * (1 - 1e-6)
            refuse(~fits, rows, f"{name}, of a column,", "tables that sum to the count")


def check_scatter(found: Moments, products: Any, eps: float, of: str) -> None:
    """Raise for products that no rows have; warn where the subtraction lost the digits."""
    size = np.diagonal(products, axis1=-2, axis2=-1) if found.is_full else products
    variance = found.diagonal
    entries = np.isnan(found.scatter)
    if entries.any():
        at = np.argwhere(entries)[0].tolist()
        raise ValueError(
            f"products{of}[{', '.join(map(str, at))}] is {products[tuple(at)]:.6g}, which no rows "
            "with this count and total have; expected Σ w (x - c)(x - c)ᵀ about the same centre c"
        )
    if found.is_full:
        _check_definite(found, size, eps, f"products{of}")
    # Of all classes together: a feature may well be constant in one of them.
    size, variance = size.sum(-2), variance.sum(-2)
    lost = (size > 0) & (variance < eps / _DIGITS * size)
    if lost.any():
        at = ", ".join(map(str, np.argwhere(lost)[0].tolist()))
        warnings.warn(
            f"fewer than three digits are left of the variance of feature {at} in products{of}: "
            "it is constant, or the centre is far from the rows; sum about a centre among the "
            "rows, in float64",
            stacklevel=5,
        )


def _check_definite(found: Moments, size: Any, eps: float, name: str) -> None:
    """Raise for a scatter with a negative eigenvalue, beyond the rounding of B, of this size."""
    d = size.shape[-1]
    sd: Any = np.sqrt(found.diagonal + 64 * d * eps * size)
    sd = np.where(sd > 0, sd, 1)
    correlation = found.scatter / (sd[..., :, None] * sd[..., None, :])
    rounding = 1e-6 + 64 * d * eps * size / sd**2
    regular = correlation + rounding[..., None] * np.eye(d)
    for at in np.ndindex(regular.shape[:-2]):
        try:
            np.linalg.cholesky(regular[at])
        except np.linalg.LinAlgError:
            where = ", ".join(map(str, at))
            raise ValueError(
                f"{name}[{where}] minus the products of the means has a negative eigenvalue, which "
                "no rows have; expected Σ w (x - c)(x - c)ᵀ about the same centre c as total"
            ) from None


def impossible(found: ClassifierStats) -> Array:
    """Whether traced statistics are of no rows, as far as that is cheap to tell."""
    leaves = jax.tree.leaves(found)
    wrong = [~jnp.isfinite(leaf).all() for leaf in leaves] + [(found.count < 0).any()]
    for s in jax.tree.leaves(found.conditional, is_leaf=is_statistic):
        sums = s.total if isinstance(s, Sums) else s.mean
        weight = s.count if s.count.ndim == sums.ndim else s.count[..., None]
        wrong.append(((weight <= 0) & (sums != 0)).any())
        if isinstance(s, Sums):
            wrong.append((sums < 0).any())
    return jnp.stack(wrong).any()
