"""Matrix products in full precision, also on accelerators whose default is lower."""

from functools import partial

import jax.numpy as jnp
from jax import lax

matmul = partial(jnp.matmul, precision=lax.Precision.HIGHEST)
einsum = partial(jnp.einsum, precision=lax.Precision.HIGHEST)
