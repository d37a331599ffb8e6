"""Functions mapped over a long leading axis: in chunks, by one program, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Int, PyTree

from genclf.arguments.domains import Domain
from genclf.numerics import loops
from genclf.numerics.namespace import is_traced

Progress = Callable[[int, int], Any]
"""A function of the number of members done and the number of all members."""

PROGRESS = Domain("a function of (done, total), or None", callable, optional=True)

_CACHE_BYTES = 2**18  # bytes of the members that are worked on at once
_LARGEST_BATCH = 1024
_BATCHES = 16  # number of batches in a chunk


class Sizes(NamedTuple):
    """The number of members of a chunk, and how many of these are worked on at once."""

    chunk: int
    batch: int


def sizes(count: int, stacked: PyTree, batch_size: int | None, traced: PyTree = ()) -> Sizes:
    """Sizes for arrays with a leading axis; one chunk in traced code.

    Chunks are made of whole batches, so that one program serves all.
    """
    leaves = jax.tree.leaves(stacked)
    each = sum(a.size * a.dtype.itemsize for a in leaves) // max(1, count)
    batch = min(batch_size or min(max(1, _CACHE_BYTES // max(1, each)), _LARGEST_BATCH), count)
    if any(isinstance(a, Tracer) for a in (*leaves, *jax.tree.leaves(traced))):
        return Sizes(count, batch)
    return Sizes(batch * min(_BATCHES, count // batch), batch)


def map_chunk(
    function: Callable[[PyTree], PyTree], stacked: PyTree, first: Int[Array, ""], size: Sizes
) -> PyTree:
    """The function of each member of the chunk that starts at `first`, batch after batch."""
    chunk = jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, first, size.chunk), stacked)
    return loops.mapped(function, chunk, batch_size=size.batch)


def over_chunks(
    function: Callable[[Int[Array, ""]], PyTree],
    count: int,
    size: int,
    progress: Progress | None = None,
) -> PyTree:
    """The results for all members, along their first axis.

    The operations of small fits take one core each, so chunks run on as many threads as there are
    cores.

    Args:
        function: a compiled function from the number of a chunk's first member to its results.
        count: number of members, of which the results are.
        size: number of members of a chunk; there may be more than `count`.
        progress: called after each chunk, in the thread of the caller.
    """
    if count <= size:
        found = function(jnp.int32(0))
        return found if count == size else jax.tree.map(partial(_first, count), found)
    starts = [*range(0, count - size, size), count - size]  # the last chunk overlaps the one before
    in_double = jnp.result_type(float) == jnp.float64  # thread-local, so each thread sets it

    def one(start: int) -> PyTree:
        with jax.enable_x64(in_double):
            return jax.block_until_ready(function(jnp.int32(start)))

    parts = [one(starts[0])]  # before the threads start, so that it is compiled only once
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for part in threads.map(one, starts[1:]):
            if progress is not None:
                progress(size * len(parts), count)
            parts.append(part)
    if progress is not None:
        progress(count, count)
    return _joined(parts, starts, size)


def in_order(parts: list[PyTree], numbers: list[Int[np.ndarray, "_"]]) -> PyTree:
    """The results of all parts in the order of the members, whose numbers each part has."""
    back = np.argsort(np.concatenate(numbers))
    xp = jnp if is_traced(parts) else np  # jnp would compile it for each number of members
    return jax.tree.map(lambda *a: jax.device_put(xp.concatenate(a)[back]), *parts)


def _first(count: int, a: Array) -> Array:
    """The first members; jnp would compile it for each number."""
    return a[:count] if isinstance(a, Tracer) else jax.device_put(np.asarray(a)[:count])


def _joined(parts: list[PyTree], starts: list[int], size: int) -> PyTree:
    new = starts[-1] - starts[-2]

    def one(*each: Array) -> Array:
        on_host = [np.asarray(a) for a in each]
        on_host[-1] = on_host[-1][size - new :]
        return jax.device_put(np.concatenate(on_host))  # jnp would compile it for each size

    return jax.tree.map(one, *parts)
