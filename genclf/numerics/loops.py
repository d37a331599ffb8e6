"""Loops and branches of JAX that also work inside `jax.shard_map`.

There the type of an array includes the mesh axes over which it varies. JAX requires the start of a
loop to vary over all axes that its body adds, and all branches to return the same types. These
functions add the axes that the start or a branch lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from genclf.numerics.namespace import Array, PyTree, jax, jnp, lax, on_host

S = TypeVar("S")
Axes = frozenset[Any]


def zeros_like(a: Array | jax.ShapeDtypeStruct) -> Array:
    """Zeros that vary over the same mesh axes."""
    return _varying(jnp.zeros_like(a), axes_of(a))


def axes_of(a: Array | jax.ShapeDtypeStruct) -> Axes:
    """The mesh axes over which an array varies."""
    mapped = (a if isinstance(a, jax.ShapeDtypeStruct) else jax.typeof(a)).manual_axis_type
    return frozenset(mapped.varying) if mapped else frozenset()


def _varying(a: Array, axes: Axes) -> Array:
    lacks = tuple(axes - axes_of(a))
    return lax.pcast(a, lacks, to="varying") if lacks else a


def _is_mapped() -> bool:
    """Whether this is traced inside `jax.shard_map`."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def while_loop(cond: Callable[[S], Array], body: Callable[[S], S], start: S) -> S:
    """`jax.lax.while_loop`."""
    return lax.while_loop(cond, body, _started(body, start))


def fori_loop(lower: int | Array, upper: int | Array, body: Callable, start: S) -> S:
    """`jax.lax.fori_loop`."""
    index = jnp.asarray(lower)
    return lax.fori_loop(lower, upper, body, _started(lambda at: body(index, at), start))


def scan(
    body: Callable[[S, PyTree], tuple[S, PyTree]],
    start: S,
    xs: PyTree,
    *,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[S, PyTree]:
    """`jax.lax.scan`."""
    if not _is_mapped():
        return lax.scan(body, start, xs, reverse=reverse, unroll=unroll)

    def one(a: Array) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(
            a.shape[1:], a.dtype, manual_axis_type=jax.typeof(a).manual_axis_type
        )

    first = jax.tree.map(lambda a: one(jnp.asarray(a)), xs)
    start = _started(lambda at, x: body(at, x)[0], start, first)
    return lax.scan(body, start, xs, reverse=reverse, unroll=unroll)


def cond(
    which: Array, if_true: Callable[..., S], if_false: Callable[..., S], *operands: PyTree
) -> S:
    """`jax.lax.cond`; a branch of Python if the condition is known to NumPy."""
    if on_host(which):
        return (if_true if which else if_false)(*operands)
    return lax.cond(which, *_alike(which, (if_true, if_false), operands), *operands)


def any_member(flag: Array) -> Array:
    """The flag; under `jax.vmap`, one flag for the batch: whether any member has it set."""
    return flag if on_host(flag) else _any_member()(flag)


@cache
def _any_member() -> Callable[[Array], Array]:
    from jax.custom_batching import custom_vmap

    @custom_vmap
    def of(flag: Array) -> Array:
        return flag

    @of.def_vmap
    def _(axis_size: int, in_batched: list[bool], flag: Array) -> tuple[Array, bool]:
        return of(flag.any(0)), False

    return of


def switch(which: Array, branches: Sequence[Callable[..., S]], *operands: PyTree) -> S:
    """`jax.lax.switch`."""
    return lax.switch(which, _alike(which, branches, operands), *operands)


def _started(step: Callable[..., S], start: S, *more: PyTree) -> S:
    """The start of a loop, varying over all axes that its steps add."""
    while _is_mapped():
        after = jax.eval_shape(step, start, *more)
        wider = jax.tree.map(lambda a, b: _varying(jnp.asarray(a), axes_of(b)), start, after)
        pairs = zip(jax.tree.leaves(wider), jax.tree.leaves(start), strict=True)
        if all(axes_of(a) == axes_of(jnp.asarray(b)) for a, b in pairs):
            break
        start = wider
    return start


def _alike(
    which: Array, branches: Sequence[Callable[..., S]], operands: tuple[PyTree, ...]
) -> Sequence[Callable[..., S]]:
    """The branches, with results that vary over the same axes."""
    if not _is_mapped():
        return branches
    found = [jax.eval_shape(branch, *operands) for branch in branches]
    of_all = jax.tree.map(lambda *each: axes_of(which).union(*map(axes_of, each)), *found)
    return [
        lambda *given, branch=branch: jax.tree.map(_varying, branch(*given), of_all)
        for branch in branches
    ]
