"""Statistics of JAX as those of NumPy, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from genclf.numerics.namespace import Array
from genclf.sums.host import HostClassifier, HostMoments, HostStats, HostSums
from genclf.sums.statistics import ClassifierStats, Moments, Sums


def as_host(node: PyTree) -> HostStats:
    """Statistics of JAX as those of NumPy, in float64."""
    if isinstance(node, dict):
        return {name: as_host(item) for name, item in node.items()}
    if type(node) is Sums:
        return HostSums(*_whole((node.count, node.total), node.rounding))
    if type(node) is Moments:
        return HostMoments(*_whole((node.count, node.mean, node.scatter), node.rounding))
    if isinstance(node, ClassifierStats):
        return HostClassifier(as_host(node.labels), as_host(node.conditional), node.statistic)
    raise ValueError(f"{type(node).__name__} cannot be a part: use genclf.stats and merge")


def _whole(high: tuple[Array, ...], low: tuple[Array, ...] | None) -> list[np.ndarray]:
    found = [np.asarray(a, np.float64) for a in high]
    if low is None:
        return found
    return [a + np.asarray(b, np.float64) for a, b in zip(found, low, strict=True)]


def as_stats(node: HostStats) -> PyTree:
    """Statistics of NumPy in JAX's dtype; in float32, low parts keep the precision of float64."""
    return _as_library(node, _split)


def on_host_stats(node: HostStats) -> PyTree:
    """The same numbers as statistics of the library, in float64 and without JAX's arrays."""
    return _as_library(node, lambda *whole: whole)


def _as_library(node: HostStats, convert: Callable[..., tuple[PyTree, ...]]) -> PyTree:
    """Statistics of the library, from the converted arrays of each node."""
    if isinstance(node, dict):
        return {name: _as_library(item, convert) for name, item in node.items()}
    if isinstance(node, HostClassifier):
        labels = _as_library(node.labels, convert)
        return ClassifierStats(labels, _as_library(node.conditional, convert), node.statistic)
    kind: Any = Sums if isinstance(node, HostSums) else Moments
    return kind(*convert(*vars(node).values()))


def _split(*whole: np.ndarray) -> tuple[PyTree, ...]:
    high = [jnp.asarray(a) for a in whole]
    if high[0].dtype == np.float64:
        return tuple(high)
    low = tuple(jnp.asarray(a - np.asarray(h, a.dtype)) for a, h in zip(whole, high, strict=True))
    return (*high, low)
