"""The waveform data of Breiman et al. (1984): simulated, with a known Bayes rule."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Real

from genclf.arguments.arrays import real_array
from genclf.arguments.calls import checked_call
from genclf.arguments.domains import draw_shape, random_key
from genclf.discretize import floating

_J = np.arange(1, 22)
_H1, _H2, _H3 = (np.maximum(6.0 - abs(_J - peak), 0.0) for peak in (11, 15, 7))
# Class k lies around the segment from _ENDS[1, k] (at U = 0) to _ENDS[0, k] (at U = 1).
_ENDS = np.array([[_H1, _H1, _H2], [_H2, _H3, _H3]])


@checked_call
def sample_waveform(
    key: Array, shape: tuple[int, ...] = ()
) -> tuple[Float[Array, "*shape 21"], Int[Array, "*shape"]]:
    """The waveform data: d = 21, K = 3, each class a random mixture of two of three triangles.

    With `h1(j) = max(6 - |j - 11|, 0)`, `h2(j) = h1(j - 4)` and `h3(j) = h1(j + 4)`, j = 1..21::

        x = U h1 + (1 - U) h2 + ε    in class 0
        x = U h1 + (1 - U) h3 + ε    in class 1
        x = U h2 + (1 - U) h3 + ε    in class 2

    with one U ~ Uniform(0, 1) for each row, ε ~ N(0, I), and classes of equal probability. No class
    is Gaussian. The Bayes rule is the argmax of `waveform_log_joint`; its error rate is 13.3%
    (Breiman et al. estimated 14%).

    Args:
        key: a `jax.random` key.
        shape: shape of the draws; () for one, (200, 300) for 200 training sets of 300 rows.

    Returns:
        (x, y): y is int32 of shape `shape`, and x has shape `(*shape, 21)`.

    Raises:
        ValueError: key is not a single key, or shape is not a tuple of sizes.

    Example:
        >>> import jax
        >>> from genclf.datasets import sample_waveform
        >>> x, y = sample_waveform(jax.random.key(0), (200, 300))
        >>> print(x.shape, y.shape)
        (200, 300, 21) (200, 300)

    References:
        Breiman, Friedman, Olshen, Stone (1984), "Classification and Regression Trees", pages 49-55.
        Hastie, Tibshirani, Friedman (2009), "The Elements of Statistical Learning", eq. 12.64.
    """
    shape = draw_shape(shape, "shape")
    key_y, key_u, key_noise = jax.random.split(random_key(key, "key"), 3)
    y = jax.random.randint(key_y, shape, 0, 3, jnp.int32)
    u = jax.random.uniform(key_u, (*shape, 1))
    noise = jax.random.normal(key_noise, (*shape, 21))
    first, second = jnp.asarray(_ENDS, noise.dtype)
    return u * first[y] + (1 - u) * second[y] + noise, y


@checked_call
def waveform_log_joint(x: Real[ArrayLike, "*batch 21"]) -> Float[Array, "*batch 3"]:
    """The log-joint from which `sample_waveform` draws; its argmax is the Bayes rule.

    `log 1/3 + log ∫₀¹ N(x; u a_k + (1 - u) b_k, I) du`, with a_k and b_k the two triangles of class
    k, by Gauss-Legendre quadrature at 64 points.

    Args:
        x: rows, shape (..., 21).

    Returns:
        log p(x, y = k), shape (..., 3).

    Raises:
        ValueError: x is not an array of real numbers, or does not have 21 columns.

    Example:
        >>> import jax
        >>> from genclf.datasets import sample_waveform, waveform_log_joint
        >>> x, y = sample_waveform(jax.random.key(0), (100_000,))
        >>> error = (waveform_log_joint(x).argmax(-1) != y).mean()
        >>> print(f"{error:.2f}")
        0.13
    """
    rows = real_array(x, "x")
    if rows.shape[-1:] != (len(_J),):
        raise ValueError(f"x has shape {rows.shape}, expected (..., {len(_J)})")
    return _log_joint(floating(rows))


@jax.jit
@partial(jnp.vectorize, signature="(d)->(k)")
def _log_joint(x: Array) -> Array:
    node, weight = np.polynomial.legendre.leggauss(64)
    # From [-1, 1] to [0, 1].
    u = (node[:, None, None] + 1) / 2
    mean = jnp.asarray(u * _ENDS[0] + (1 - u) * _ENDS[1], x.dtype)
    log_weight = jnp.asarray(np.log(weight / 2 / 3) - 21 / 2 * np.log(2 * np.pi), x.dtype)
    distance = ((x[None, None] - mean) ** 2).sum(-1)
    return jax.nn.logsumexp(log_weight[:, None] - distance / 2, axis=0)
