"""The class probabilities of a classifier: fixed ones, and those estimated from labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from genclf.families.base import safe_log

if TYPE_CHECKING:
    from genclf.classifier import Classifier, ClassifierStats


def log_class_prior(clf: Classifier, stats: ClassifierStats) -> Float[Array, "K"]:
    """Logarithms of the class probabilities, fixed or estimated."""
    if clf.fixed_prior is not None:
        if problem := prior_problem(clf.fixed_prior, clf.num_classes, "class_prior"):
            raise ValueError(problem)
        return log_fixed(jnp.asarray(clf.fixed_prior, stats.count.dtype))
    count = stats.count + clf.class_pseudo_counts(stats.count)
    # No examples at all: no class is preferred.
    count = jnp.where(count.sum() == 0, 1, count)
    return safe_log(count) - jnp.log(count.sum())


def prior_problem(prior: Any, num_classes: int, name: str) -> str | None:
    """What is wrong with class probabilities, in words; values only if they are concrete."""
    if jnp.shape(prior) != (num_classes,):
        return f"{name} has shape {jnp.shape(prior)}, expected ({num_classes},): one per class"
    if isinstance(prior, Tracer):
        return None
    values = np.asarray(prior, np.float64)
    for k in np.flatnonzero(~(values >= 0)):
        return f"{name}[{k}] is {values[k]}, expected a probability >= 0"
    if abs(values.sum() - 1) > 1e-5:
        return f"{name} {values} sums to {values.sum():.6g}, expected 1; divide it by its sum"
    return None


def log_fixed(prior: Array) -> Array:
    """Logarithms of fixed probabilities; NaN where they are none."""
    valid = (prior >= 0).all() & (jnp.abs(prior.sum() - 1) < 1e-5)
    return safe_log(jnp.where(valid, prior, jnp.nan))
