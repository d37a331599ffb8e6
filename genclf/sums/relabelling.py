"""Statistics of other classes: merged, reordered, left out, or with more that have no rows."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from genclf.numerics import loops
from genclf.numerics.compensated import add_to
from genclf.numerics.either import by_either
from genclf.numerics.namespace import Array, is_traced, namespace, on_host
from genclf.sums.statistics import ClassifierStats, Moments, Sums, is_statistic, nan_if

T = TypeVar("T")
ClassMap = Int[Array, "K"] | Int[np.ndarray, "K"]


def relabelled(stats: T, to: ClassMap, num_classes: int) -> T:
    """The statistics after a change of labels; see `genclf.relabel`.

    A known map without two classes in one moves numbers and computes none.
    """
    return (_each_relabelled if is_injective(to) else _merged_classes)(stats, to, num_classes)


def _each_relabelled(stats: T, to: ClassMap, num_classes: int) -> T:
    if isinstance(stats, ClassifierStats):
        axes = jax.tree.map(lambda a: -1, stats.labels)
        labels = _relabelled(stats.labels, axes, to, num_classes)
        inside = _each_relabelled(stats.conditional, to, num_classes)
        return ClassifierStats(labels, inside, stats.statistic)  # type: ignore[return-value]

    def one(s: Sums | Moments) -> Sums | Moments:
        return _relabelled(s, s.class_axes(), to, num_classes)

    return jax.tree.map(one, stats, is_leaf=is_statistic)


_merged_classes = by_either(_each_relabelled, static_argnums=2)


def _relabelled(s: Any, axes: Any, to: ClassMap, num_classes: int) -> Any:
    if isinstance(s, Moments) and s.is_pooled:
        return _pooled(s, to, num_classes)
    xp = namespace(*jax.tree.leaves(s), to)
    front = jax.tree.map(lambda a, axis: xp.moveaxis(a, axis, 0), s, axes)
    found = (_moved if is_injective(to) else _merged)(front, to, num_classes)
    return jax.tree.map(lambda a, axis: xp.moveaxis(a, 0, axis), found, axes)


def is_injective(to: ClassMap) -> bool:
    """Whether no two classes become one, as far as that is known."""
    if is_traced(to):
        return False
    kept = np.asarray(to)[np.asarray(to) >= 0]
    return len(np.unique(kept)) == len(kept)


def lost_classes(s: Moments, to: ClassMap) -> Bool[Array, "*batch K"]:
    """Which classes of a pooled scatter have rows and are left out."""
    xp = namespace(s.count, to)
    return (to < 0) & (xp.moveaxis(s.count, s.class_axes().count, -1) != 0)


def _moved(front: T, to: ClassMap, num_classes: int) -> T:
    """Each class in its new place; the class axis is the first."""
    to = np.asarray(to)
    source = np.full(num_classes, -1)
    source[to[to >= 0]] = np.flatnonzero(to >= 0)
    return take_classes(front, source)


def take_classes(front: T, source: np.ndarray) -> T:
    """The classes at these places of the first axis; zeros at -1."""
    leaves = jax.tree.leaves(front)
    if (source == np.arange(len(source))).all() and len(source) == len(leaves[0]):
        return front
    return _taken_at_once(front, source)


def _taken(front: T, source: Any) -> T:
    xp = namespace(source)

    def one(a: Array) -> Array:
        found = a[xp.maximum(source, 0)]
        new = (source < 0).reshape(-1, *(1,) * (found.ndim - 1))
        return xp.where(new, xp.zeros_like(found), found)

    return jax.tree.map(one, front)


_taken_at_once = by_either(_taken)


def _merged(front: T, to: ClassMap, num_classes: int) -> T:
    """Each class merged with those before it; the class axis is the first."""
    num_before = len(jax.tree.leaves(front)[0])
    at = lambda tree, k: jax.tree.map(lambda a: a[k], tree)  # noqa: E731
    if on_host(to, *jax.tree.leaves(front)):
        empty = jax.tree.map(lambda a: np.zeros_like(a[0]), front)
        classes = [empty] * num_classes
        for k in range(num_before):
            if to[k] >= 0:
                classes[to[k]] = classes[to[k]]._merge(at(front, k))
        return jax.tree.map(lambda *each: np.stack(each), *classes)
    to = jnp.asarray(to)
    last = num_classes  # classes that are left out

    def step(k: Array, found: Any) -> Any:
        new = jnp.where(to[k] < 0, last, to[k])
        sum_of_both = at(found, new)._merge(at(front, k))
        return jax.tree.map(lambda a, b: a.at[new].set(b), found, sum_of_both)

    zeros = jax.tree.map(lambda a: jnp.zeros((num_classes + 1, *a.shape[1:]), a.dtype), front)
    found = loops.fori_loop(0, num_before, step, zeros)
    return jax.tree.map(lambda a: a[:num_classes], found)


def _pooled(s: Moments, to: ClassMap, num_classes: int) -> Moments:
    """Moments with one scatter, which gains the scatter of merged class means about the new one."""
    xp = namespace(s.mean, to)
    low, zeros = s.rounding, xp.zeros_like(s.mean)
    own = Moments.quick(s.count, s.mean, zeros, low and (*low[:2], zeros))
    new = _relabelled(own, own.class_axes(), to, num_classes)
    if is_injective(to):
        spread: Any = s.scatter, None if low is None else low[2]
    else:
        # S' = S + Σ_k n_k δ_k δ_kᵀ, with δ_k = m_k - m'_to(k)
        of_new = (new.mean, xp.zeros_like(new.mean) if low is None else new.rounding[1])
        less = jax.tree.map(lambda a: -a[..., xp.maximum(to, 0), :], of_new)
        delta = add_to((s.mean, zeros if low is None else low[1]), less)
        total = s.scatter, xp.zeros_like(s.scatter) if low is None else low[2]
        spread = add_to(total, s.outer_pair(s.count, delta))
    rounding = None if low is None else (*new.rounding[:2], spread[1])
    found = Moments.quick(new.count, new.mean, spread[0], rounding)
    lost = lost_classes(s, to).any()
    return found if on_host(lost) and not lost else nan_if(lost, found)
