"""The modes of densities, and how far rows are from them."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, PyTree, Shaped

from genclf.families.base import Density
from genclf.families.of_classes import of_classes
from genclf.families.parts import InParts
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import broadcast_rows


@singledispatch
def mode(density: Any) -> Shaped[Array, "K d"]:
    """The most probable row of each class; raise for a density without a mode in closed form."""
    raise ValueError(
        f"distance needs the mode of each class, and {type(density).__name__} has none in closed "
        "form: genclf.typicality by folds takes any density"
    )


@singledispatch
def deviance(density: Any, x: PyTree) -> Float[Array, "*batch K"]:
    """`2 (max log p(· | k) - log p(x | k))`, >= 0; the maximum is over rows with the same holes.

    The deviance of parts that are independent within a class is the sum of theirs.
    """
    if isinstance(density, InParts):
        return density.total(density.map(deviance, density.split(x)))
    modes, missing = mode(density), density.support.missing
    if missing is None:
        score = density.log_prob(x)
        return 2 * jnp.maximum(broadcast_rows(peaks(density, modes), score) - score, 0)

    def of_class(of: tuple[Array, Array]) -> Float[Array, "*batch"]:
        own, row = of_classes(density, of[0][None]), of[1]
        at_mode = jnp.where(missing(x), x, jnp.broadcast_to(row.astype(x.dtype), x.shape))
        return (own.log_prob(at_mode) - own.log_prob(x))[..., 0]

    classes = jnp.arange(len(modes), dtype=jnp.int32)
    return 2 * jnp.maximum(jnp.moveaxis(lax.map(of_class, (classes, modes)), 0, -1), 0)


def peaks(density: Density, modes: Shaped[Array, "K d"]) -> Float[Array, "K"]:
    """The log-density of each class at its mode."""

    def of_class(of: tuple[Array, Array]) -> Float[Array, ""]:
        return of_classes(density, of[0][None]).log_prob(of[1])[0]

    return lax.map(of_class, (jnp.arange(len(modes), dtype=jnp.int32), modes))
