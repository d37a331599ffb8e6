"""Matrix products in full precision, also where the default of an accelerator has less."""

from functools import partial

import jax.numpy as jnp
from jax import lax

matmul = partial(jnp.matmul, precision=lax.Precision.HIGHEST)
einsum = partial(jnp.einsum, precision=lax.Precision.HIGHEST)
