"""Coordinates relative to reference params, so that the units of the data do not matter.

Gaussian params are relative to the location and scale of the reference. The parameters of other
families have no units.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import jax.numpy as jnp

from genclf.families.base import AnyDensity, Params
from genclf.families.gaussian.params import GaussianParams
from genclf.numerics.namespace import einsum, matmul


@singledispatch
def standardise(reference: Params) -> Params:
    """The params that `transform` maps to the reference."""
    return reference


@standardise.register
def _(reference: GaussianParams) -> GaussianParams:
    """Mean 0 and scale 1."""
    one = jnp.ones_like(reference.scale)
    if reference.arithmetic.is_full:
        one = jnp.tril(jnp.triu(one))
    return replace(reference, mean=jnp.zeros_like(reference.mean), scale=one)


@singledispatch
def transform(params: Params, reference: Params) -> AnyDensity:
    """The params of draws scaled by the reference's scale and shifted by its location."""
    return params


@transform.register
def _(params: GaussianParams, reference: GaussianParams) -> GaussianParams:
    """Params of `m + L z`, z a draw: mean `m + L mean` and scale `L scale`."""
    if params.arithmetic.is_full:
        root = jnp.broadcast_to(reference.scale, (len(params.mean), *reference.scale.shape[1:]))
        moved = einsum("kij,kj->ki", root, params.mean)
        scale = matmul(reference.scale, params.scale)
    else:
        moved = jnp.broadcast_to(reference.scale, params.mean.shape) * params.mean
        scale = reference.scale * params.scale
    return replace(params, mean=reference.mean + moved, scale=scale)
