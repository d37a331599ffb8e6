"""Functions of one data set, under `jax.vmap` over many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeVar

import jax
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero
from jax.tree_util import Partial
from jaxtyping import PyTree

from genclf.arguments.unlikely import is_open
from genclf.numerics import loops
from genclf.numerics.row_blocks import map_in_blocks

S = TypeVar("S")
_TOGETHER = 2**18  # numbers of the data sets that are worked on at once
ITERATED = 8  # data sets whose iterations go on together, until the last has ended


def in_cache(function: Callable[..., S], most: int = _TOGETHER) -> Callable[..., S]:
    """A function that `jax.vmap` computes for a few members at a time, so they stay in a cache.

    They are `most` at most. It is the function itself on an accelerator, for sharded members, and
    for derivatives.
    """
    by_members = custom_vmap(function)

    @by_members.def_vmap
    def _(size: int, batched: list[PyTree], *args: PyTree) -> tuple[S, PyTree]:
        own, put = part(args, jax.tree.leaves(batched))
        of_some = jax.vmap(lambda own: function(*put(own)))
        block = min(most, max(1, _TOGETHER * size // sum(a.size for a in own)))
        if size <= block or any(jax.typeof(a).sharding.spec[0] is not None for a in own):
            found = of_some(own)
        else:
            by_blocks = partial(map_in_blocks, of_some, block=block)
            found = loops.by_platform(by_blocks, of_some, own)
        return found, jax.tree.map(lambda _: True, found)

    with_jvp = jax.custom_jvp(by_members)

    @partial(with_jvp.defjvp, symbolic_zeros=True)
    def _(primals: tuple[PyTree, ...], tangents: tuple[PyTree, ...]) -> tuple[S, S]:
        changes = jax.tree.leaves(tangents)
        moves = [not isinstance(change, SymbolicZero) for change in changes]
        own, put = part(primals, moves)
        moved = [change for change, does in zip(changes, moves, strict=True) if does]
        return jax.jvp(lambda own: function(*put(own)), (own,), (moved,))

    @wraps(function)
    def called(*args: PyTree) -> S:
        # A derivative by traced values that a function closes over would be 0.
        is_function = lambda a: isinstance(a, Partial)  # noqa: E731
        has_function = any(map(is_function, jax.tree.leaves(args, is_leaf=is_function)))
        return (function if is_open() or has_function else with_jvp)(*args)

    return called


def part(tree: PyTree, chosen: Sequence[bool]) -> tuple[list[Any], Callable[[list[Any]], PyTree]]:
    """The chosen leaves, and a function from others in their place to a tree."""
    leaves, structure = jax.tree.flatten(tree)

    def put(own: list[Any]) -> PyTree:
        each = iter(own)
        every = [next(each) if is_own else a for a, is_own in zip(leaves, chosen, strict=True)]
        return jax.tree.unflatten(structure, every)

    return [a for a, is_own in zip(leaves, chosen, strict=True) if is_own], put
