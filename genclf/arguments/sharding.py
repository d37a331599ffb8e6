"""Compile functions for arrays on one device and for arrays sharded over many.

`jax.make_mesh` makes explicit mesh axes. The sharding of an array is then part of its type, and an
operation whose result could be sharded in several ways needs an explicit choice. Inside the
functions compiled here the axes are automatic instead: the compiler chooses the shardings. The
results have explicit shardings again, which depend on the arguments alone, so these functions can
be called from code with explicit axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec,
    reshard,
    use_abstract_mesh,
)
from jaxtyping import Array, ArrayLike, PyTree

from genclf.arguments.unlikely import is_open, trace_state, without_unlikely


def compiled(
    function: Callable,
    *,
    static_argnums: int | tuple[int, ...] = (),
    batch_of: int | None = None,
    fast_compile: int = 0,
) -> Callable:
    """`jax.jit(function)` that also accepts arrays sharded over explicit mesh axes.

    A call on a CPU, outside traced code, runs a program without unlikely branches, and the whole
    one if a branch was needed; see `genclf.arguments.unlikely`. Later calls with arrays of the same
    shapes then run the whole one alone.

    Args:
        function: a function of positional arguments.
        static_argnums: as for `jax.jit`.
        batch_of: the position of the argument that holds examples. Arrays of the result that
            start with its batch axes are sharded like it; all others are replicated.
        fast_compile: a call with at most this many numbers, on a CPU and outside traced code, is
            compiled in a third to a half of the time, into a slower program; one with more, and
            at most 4 million, in a half to two thirds, into a program that takes up to 1.5 times
            as long. For large programs that are called a few times for each shape. 0: never.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums

    @wraps(function)
    def entry(*args: PyTree) -> PyTree:
        arrays = {index: arg for index, arg in enumerate(args) if index not in static}
        mesh = _explicit_mesh(arrays)
        if mesh is None:
            return function(*args)
        shape, spec = ((), ()) if batch_of is None else _batch(args[batch_of])

        def with_sharding(a: ArrayLike) -> Array:
            batched = shape and jnp.shape(a)[: len(shape)] == shape
            return reshard(a, NamedSharding(mesh, PartitionSpec(*spec if batched else ())))

        with use_abstract_mesh(mesh.update_axis_types(dict.fromkeys(mesh.explicit_axes, _AUTO))):
            arrays = reshard(arrays, PartitionSpec())  # this leaves automatic axes as they are
            result = function(*(arrays.get(index, arg) for index, arg in enumerate(args)))
        return jax.tree.map(with_sharding, result)

    def usual(*args: PyTree) -> tuple[PyTree, Array | None]:
        return without_unlikely(entry, *args)

    programs: dict[tuple[bool, int], Any] = {}
    needed: set[Any] = set()  # the outlines of calls that needed an unlikely branch

    def program(is_whole: bool, haste: int = 0) -> Any:
        kind = is_whole, haste
        if kind not in programs:
            programs[kind] = jax.jit(
                entry if is_whole else usual,
                static_argnums=static_argnums,
                compiler_options=_OPTIONS[haste],
            )
        return programs[kind]

    @wraps(function)
    def called(*args: PyTree) -> PyTree:
        if is_open():
            return entry(*args)
        leaves = jax.tree.leaves(args)
        if not _at_once(leaves):
            return program(True)(*args)
        size = sum(getattr(a, "size", 1) for a in leaves) if fast_compile else math.inf
        haste = 2 if size <= fast_compile else int(size <= _MOST)
        if not needed or _outline(args) not in needed:
            result, is_wrong = program(False, haste)(*args)
            if is_wrong is None or not np.asarray(is_wrong):  # faster than `bool` of it
                return result
            needed.add(_outline(args))
        return program(True, haste)(*args)

    # The whole program and the number of compiled ones, as functions of `jax.jit` have them.
    found: Any = called
    found.trace = lambda *args: program(True).trace(*args)
    found._cache_size = lambda: sum(each._cache_size() for each in programs.values())
    return found


def _outline(args: PyTree) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(args)
    return structure, *((np.shape(a), getattr(a, "dtype", type(a))) for a in leaves)


_MOST = 2**22  # numbers of a call that is compiled faster at all
_FASTER = {"xla_llvm_disable_expensive_passes": True, "xla_cpu_parallel_codegen_split_count": 1}
if jax.__version_info__ < (0, 11):  # later versions reject it
    _FASTER["xla_cpu_use_fusion_emitters"] = False
# By haste: the compiler's own options, and two levels of optimisation that are faster to compile.
_OPTIONS = None, *({"xla_backend_optimization_level": level} | _FASTER for level in (1, 0))

_config: Any = jax.config
_outside: list[Any] = []  # the last state of JAX that was found to be outside traced code


def _at_once(leaves: list[Any]) -> bool:
    """Whether a call is outside traced code, and on a CPU; not if NaN is to raise an error."""
    if any(isinstance(a, Tracer) for a in leaves) or jax.default_backend() != "cpu":
        return False
    if _config.jax_debug_nans or _config.jax_debug_infs:
        return False
    # In traced code, too, all arguments may be concrete: arrays that the code closes over.
    state = trace_state()
    if state not in _outside:
        if isinstance(jax.device_put(0), Tracer):  # it compiles nothing
            return False
        _outside[:] = [state]  # to compare states takes a hundredth of the time of a call
    return True


_AUTO = AxisType.Auto


def _explicit_mesh(args: PyTree) -> AbstractMesh | None:
    """The mesh of an argument that is sharded over explicit axes; None if all are replicated.

    A tracer does not show whether the axis that `vmap` maps over is sharded.
    """
    found = [(leaf, jax.typeof(leaf).sharding) for leaf in jax.tree.leaves(args)]
    explicit = [(leaf, sharding) for leaf, sharding in found if sharding.mesh.explicit_axes]
    may_hide = jax.sharding.get_abstract_mesh().empty
    if not any(any(s.spec) or (may_hide and isinstance(a, Tracer)) for a, s in explicit):
        return None
    meshes = list(dict.fromkeys(sharding.mesh for _, sharding in explicit))
    if len(meshes) > 1:
        raise ValueError(
            f"the arguments lie on different meshes, {' and '.join(map(str, meshes))}: "
            "jax.device_put them all on the same one"
        )
    return meshes[0]


def _batch(x: PyTree) -> tuple[tuple[int, ...], tuple]:
    """Shape and sharding of the batch axes, from the first array of x with a sharded batch axis."""
    found = [(a.shape[:-1], tuple(jax.typeof(a).sharding.spec)) for a in jax.tree.leaves(x)]
    of_batch = [(shape, spec[: len(shape)]) for shape, spec in found]
    return next((both for both in of_batch if any(both[1])), ((), ()))
