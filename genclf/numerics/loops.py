"""Loops and branches of JAX that also work inside `jax.shard_map`.

There the type of an array includes the mesh axes over which it varies. JAX requires the start of a
loop to vary over all axes that its body adds, and all branches to return the same types. These
functions add the axes that the start or a branch lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar

from genclf.arguments.unlikely import is_open, member, note, without_unlikely
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
    if is_open():
        return _while_without_unlikely(cond, body, start)
    return lax.while_loop(cond, body, _started(body, start))


def _while_without_unlikely(cond: Callable[[S], Array], body: Callable[[S], S], start: S) -> S:
    """A loop whose steps leave out unlikely branches, too; it ends where one is needed."""

    def going(state: tuple[S, Array]) -> Array:
        return cond(state[0]) & ~state[1]

    def step(state: tuple[S, Array]) -> tuple[S, Array]:
        carried, is_wrong = without_unlikely(body, state[0])
        return carried, state[1] if is_wrong is None else is_wrong

    return _noted(*lax.while_loop(going, step, (start, jnp.asarray(False))))


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
    if is_open():
        return _scan_without_unlikely(body, start, xs, reverse=reverse, unroll=unroll)
    if not _is_mapped():
        return lax.scan(body, start, xs, reverse=reverse, unroll=unroll)

    def one(a: Array) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(
            a.shape[1:], a.dtype, manual_axis_type=jax.typeof(a).manual_axis_type
        )

    first = jax.tree.map(lambda a: one(jnp.asarray(a)), xs)
    start = _started(lambda at, x: body(at, x)[0], start, first)
    return lax.scan(body, start, xs, reverse=reverse, unroll=unroll)


def mapped(f: Callable[[PyTree], S], xs: PyTree, *, batch_size: int | None = None) -> S:
    """`jax.lax.map`."""
    if not is_open():
        return lax.map(f, xs, batch_size=batch_size)
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    n = jax.tree.leaves(xs)[0].shape[0]
    whole = n - n % batch_size
    batches = jax.tree.map(lambda a: a[:whole].reshape(-1, batch_size, *a.shape[1:]), xs)
    parts = []
    if whole:
        found = mapped(vmap(f), batches)
        parts += [jax.tree.map(lambda a: a.reshape(whole, *a.shape[2:]), found)]
    if whole < n:
        parts += [vmap(f)(jax.tree.map(lambda a: a[whole:], xs))]
    return jax.tree.map(lambda *each: jnp.concatenate(each), *parts)


def vmap(f: Callable[..., S], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., S]:
    """`jax.vmap`."""
    return jax.vmap(member(f) if is_open() else f, in_axes, out_axes)


def _scan_without_unlikely(
    body: Callable[[S, PyTree], tuple[S, PyTree]], start: S, xs: PyTree, **options: Any
) -> tuple[S, PyTree]:
    """A scan whose steps leave out unlikely branches, too."""

    def step(carried: S, x: PyTree) -> tuple[S, PyTree]:
        (carried, y), is_wrong = without_unlikely(body, carried, x)
        return carried, (y, is_wrong)

    end, (ys, is_wrong) = lax.scan(step, start, xs, **options)
    return _noted((end, ys), is_wrong)


def _cond_without_unlikely(
    which: Array, if_true: Callable[..., S], if_false: Callable[..., S], *operands: PyTree
) -> S:
    """A condition whose branches leave out unlikely ones, too."""

    def flagged(branch: Callable[..., S]) -> Callable[..., tuple[S, Array]]:
        def run(*operands: PyTree) -> tuple[S, Array]:
            result, is_wrong = without_unlikely(branch, *operands)
            return result, jnp.asarray(False if is_wrong is None else is_wrong)

        return run

    return _noted(*lax.cond(which, flagged(if_true), flagged(if_false), *operands))


def grad(f: Callable[[PyTree], Array]) -> Callable[[PyTree], PyTree]:
    """`jax.grad`."""

    def gradient(x: PyTree) -> PyTree:
        if not is_open():
            return jax.grad(f)(x)
        of = partial(without_unlikely, f, is_derived=True)
        found, is_wrong = jax.grad(of, has_aux=True)(x)
        return _noted(found, is_wrong)

    return gradient


def linearize(f: Callable[[PyTree], S], x: PyTree) -> tuple[S, Callable[[PyTree], S]]:
    """`jax.linearize`: the value, and a function from a change of x to that of the value."""
    if not is_open():
        return jax.linearize(f, x)
    of = partial(without_unlikely, f, is_derived=True)
    found, change, is_wrong = jax.linearize(of, x, has_aux=True)
    return _noted((found, change), is_wrong)


def _noted(found: S, is_wrong: Array | None) -> S:
    """The result of code from which unlikely branches were left out, and whether it is wrong."""
    if is_wrong is not None:
        note(any_member(is_wrong.any()))
    return found


def cond(
    which: Array, if_true: Callable[..., S], if_false: Callable[..., S], *operands: PyTree
) -> S:
    """`jax.lax.cond`; a branch of Python if the condition is known to NumPy."""
    if on_host(which):
        return (if_true if which else if_false)(*operands)
    if is_open():
        return _cond_without_unlikely(which, if_true, if_false, *operands)
    return lax.cond(which, *_alike(which, (if_true, if_false), operands), *operands)


def unlikely(which: Array, if_true: Callable[[], S], if_false: Callable[[], S]) -> S:
    """`cond` of a condition that is seldom true; under `jax.vmap`, one for the batch.

    A program that is first compiled without it is compiled again where the condition is true.
    """
    if not on_host(which) and is_open():
        note(any_member(which))
        return if_false()
    return cond(any_member(which), if_true, if_false)


def by_platform(cpu: Callable[..., S], default: Callable[..., S], *operands: PyTree) -> S:
    """`jax.lax.platform_dependent`, with one function for CPUs and one for all else."""
    if is_open():  # programs without unlikely branches are those of CPUs
        return cpu(*operands)
    return lax.platform_dependent(*operands, cpu=cpu, default=default)


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
