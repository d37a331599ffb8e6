"""The errors of `validate` for Gaussians that the rows do not determine, or not precisely."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, PyTree

from genclf.covariance.estimate import GaussianDiagnosis

VALUE_ROUNDS = 2.0**-8  # largest rounding error of the values of a feature, in deviations
REGULAR = 'shrinkage, e.g. "oas", or ridge > 0, e.g. 1e-3; drop or merge features, use more rows'
_SCORE_ROUNDS = 2.0**-10  # largest ε times the square root of the condition number


def check_determined(found: PyTree, prefix: str, latent: bool) -> None:
    """Raise if a Gaussian's covariance is singular, or too ill-conditioned for the dtype."""
    if isinstance(found, dict):
        for name, part in found.items():
            check_determined(part, f"x[{name!r}]: ", latent)
    if isinstance(found, GaussianDiagnosis):
        # Leading axes are the columns of `Independent`.
        found = jax.tree.map(np.asarray, found)
        _check_squares(found, prefix)
        _check_divisor(found, prefix)
        _check_rank(found, prefix, latent)
        _check_digits(found, prefix)


def _check_squares(found: GaussianDiagnosis, prefix: str) -> None:
    if found.out_of_range.any():
        features = _features(found.out_of_range)
        dtype = found.rounding.dtype
        double = ", or use float64" if dtype == np.float32 else ""
        raise ValueError(
            f"{prefix}the squares of features {features} are too small or too large for {dtype}: "
            f"use other units{double}, and weights of about 1"
        )


def _check_divisor(found: GaussianDiagnosis, prefix: str) -> None:
    """Raise if the number of rows minus `ddof`, by which a scatter is divided, is not above 0."""
    for *column, k, _ in np.argwhere(np.isnan(found.rounding))[:1].tolist():
        raise ValueError(
            f"{prefix}{_whose(found, column, k)} has no divisor: ddof is not below the number of "
            "rows; give a smaller one, or more rows"
        )


def _check_rank(found: GaussianDiagnosis, prefix: str, latent: bool) -> None:
    d = found.constant.shape[-1]
    singular = [tuple(int(i) for i in index) for index in np.argwhere(found.rank < d)]
    if not singular:
        return
    clauses = []
    for *column, k in singular:
        constant = np.flatnonzero(found.constant[(*column, k)])
        features = f"; features {constant.tolist()} are constant" if len(constant) else ""
        dependent = np.flatnonzero(found.dependent[(*column, k)])
        if 0 < len(dependent) < d:
            features += f"; features {dependent.tolist()} are linearly dependent"
        rank = f"has rank {found.rank[(*column, k)]} of {d}{features}"
        clauses.append(f"{_whose(found, column, k)} {rank}")
    # Classes that share a covariance give the same clause.
    clauses = list(dict.fromkeys(clauses))
    everywhere = found.constant.reshape(-1, d).all(0) & (found.rank.ndim == 1)
    if everywhere.any():
        advice = f"drop features {np.flatnonzero(everywhere).tolist()}, constant in all classes"
        advice += ", and set ridge > 0, e.g. 1e-3, for the others" if len(clauses) > 1 else ""
    elif latent:
        advice = "em would start there: give prior=NormalInverseWishart(), or more labels"
    else:
        pooling = "" if found.shared else ", pool those of all classes (shared=True)"
        advice = f"set {REGULAR}{pooling}"
    raise ValueError(f"{prefix}{'; '.join(clauses)}: {advice}")


def _check_digits(found: GaussianDiagnosis, prefix: str) -> None:
    dtype = found.rounding.dtype
    eps = float(jnp.finfo(dtype).eps)
    double = " or use float64" if dtype == np.float32 else ""
    far = found.rounding > VALUE_ROUNDS
    if far.any():
        *_, k, _ = index = tuple(int(i) for i in np.argwhere(far)[0])
        features = _features(far)
        raise ValueError(
            f"{prefix}features {features} are too far from 0 for {dtype}, which rounds their "
            f"values: {found.rounding[index] / eps:.2g} standard deviations in class {k}, expected "
            f"at most {VALUE_ROUNDS / eps:.2g}; subtract a constant before they become {dtype}"
            f"{double}"
        )
    many = np.sqrt(found.condition) * eps > _SCORE_ROUNDS
    if many.any():
        *column, k = (int(i) for i in np.argwhere(many)[0])
        raise ValueError(
            f"{prefix}the correlations in {_whose(found, column, k)} have condition "
            f"number {found.condition[(*column, k)]:.2g}, expected at most "
            f"{(_SCORE_ROUNDS / eps) ** 2:.2g} for {dtype}: set ridge > 0, e.g. 1e-3, drop or "
            f"merge features{double}"
        )


def _features(marked: ArrayLike) -> list[int]:
    """The features with a mark: of (K, d), or of a leading axis of columns."""
    return sorted({int(i) for i in np.argwhere(marked)[:, 0 if np.ndim(marked) == 3 else -1]})


def _whose(found: GaussianDiagnosis, column: list[int], k: int) -> str:
    whose = "the shared covariance" if found.shared else f"the covariance of class {k}"
    return f"{whose}{f' in column {column[0]}' if column else ''}"
