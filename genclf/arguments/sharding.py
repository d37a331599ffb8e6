"""The compiled entry of a verb, for arrays on one device and for arrays sharded over many.

Where the axes of a mesh are explicit, as `jax.make_mesh` makes them, how an array lies on the
devices is part of its type, and an operation whose result could lie in several ways must be told
in which. Inside a verb the axes are automatic instead: the compiler decides. What leaves it has a
type again, known from the arguments alone, so that a verb can stand in explicit code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec,
    reshard,
    use_abstract_mesh,
)
from jaxtyping import Array, PyTree


def compiled(
    function: Callable, *, static_argnums: int | tuple[int, ...] = (), batch_of: int | None = None
) -> Callable:
    """`jax.jit(function)` that takes arrays sharded over explicit axes of a mesh too.

    Args:
        function: of positional arguments.
        static_argnums: as for `jax.jit`.
        batch_of: the argument, of examples, whose batch axes begin the arrays of the result: those
            are sharded as it is. Other arrays of a result are whole on every device.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums

    @wraps(function)
    def entry(*args: Any) -> Any:
        arrays = {place: arg for place, arg in enumerate(args) if place not in static}
        mesh = _explicit_mesh(arrays)
        if mesh is None:
            return function(*args)
        shape, spec = ((), ()) if batch_of is None else _batch(args[batch_of])

        def of_type(a: Any) -> Array:
            batched = shape and jnp.shape(a)[: len(shape)] == shape
            return reshard(a, NamedSharding(mesh, PartitionSpec(*spec if batched else ())))

        with use_abstract_mesh(mesh.update_axis_types(dict.fromkeys(mesh.explicit_axes, _AUTO))):
            arrays = reshard(arrays, PartitionSpec())  # which leaves automatic axes as they are
            result = function(*(arrays.get(place, arg) for place, arg in enumerate(args)))
        return jax.tree.map(of_type, result)

    return jax.jit(entry, static_argnums=static_argnums)


_AUTO = AxisType.Auto


def _explicit_mesh(args: PyTree) -> AbstractMesh | None:
    """The mesh over whose explicit axes an argument is sharded; None where all are whole."""
    of_args = [jax.typeof(leaf).sharding for leaf in jax.tree.leaves(args)]
    explicit = [sharding for sharding in of_args if sharding.mesh.explicit_axes]
    if not any(any(sharding.spec) for sharding in explicit):
        return None
    meshes = list(dict.fromkeys(sharding.mesh for sharding in explicit))
    if len(meshes) > 1:
        raise ValueError(
            f"the arguments lie on different meshes, {' and '.join(map(str, meshes))}: "
            "jax.device_put them all on the same one"
        )
    return meshes[0]


def _batch(x: PyTree) -> tuple[tuple[int, ...], tuple]:
    """Shape and sharding of the batch axes: of the first array of x in which one is sharded."""
    found = [(a.shape[:-1], tuple(jax.typeof(a).sharding.spec)) for a in jax.tree.leaves(x)]
    of_batch = [(shape, spec[: len(shape)]) for shape, spec in found]
    return next((both for both in of_batch if any(both[1])), ((), ()))
