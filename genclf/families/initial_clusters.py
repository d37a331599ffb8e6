"""Initial clusters: around examples drawn far from each other (k-means++), or random ones."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from genclf.families.capabilities import Init
from genclf.numerics import loops
from genclf.numerics.namespace import Array
from genclf.sums.sparse import SparseRows, map_arrays


def initial_weights(
    key: Array,
    distance: Callable[[PyTree, PyTree], Array],
    x: PyTree,
    label: Int[Array, "n"],
    weight: Float[Array, "n"],
    num_clusters: int,
    init: Init,
) -> Float[Array, "n J"]:
    """Initial weights of each row in the clusters, which sum to 1.

    Args:
        key: a `jax.random` key.
        distance: function of rows x and one example; returns the distance of each row from it.
        x: rows; a row of weight 0 may hold anything.
        label: the cluster of each row, -1 if unknown. A cluster with known rows starts at one of
            these.
        weight: weight of each row.
        num_clusters: J.
        init: "k-means++" or "random".
    """
    known = jax.nn.one_hot(label, num_clusters, dtype=weight.dtype)
    if init == "random":
        shares = jax.random.exponential(key, (*label.shape, num_clusters), weight.dtype)
        shares = shares / shares.sum(1, keepdims=True)
    else:
        nearest = _nearest_seed(key, distance, x, label, weight, known * weight[:, None])
        shares = jax.nn.one_hot(nearest, num_clusters, dtype=weight.dtype)
    return jnp.where(label[:, None] < 0, shares, known)


def hamming_distance(x: Array | SparseRows, seed: Array) -> Float[Array, "n"]:
    """How many cells of each row differ from those of one example."""
    if isinstance(x, SparseRows):
        dtype = jnp.result_type(float)
        there = seed[x.columns]
        more = (x.values != there).astype(dtype) - (there != 0).astype(dtype)
        ones = jnp.ones((x.num_columns, 1), dtype)
        return x.with_values(lambda _: more).dot(ones)[:, 0] + (seed != 0).astype(dtype).sum()
    return (x != seed[None]).sum(-1).astype(jnp.result_type(float))


def _nearest_seed(
    key: Array,
    distance: Callable[[PyTree, PyTree], Array],
    x: PyTree,
    label: Int[Array, "n"],
    weight: Float[Array, "n"],
    known: Float[Array, "n J"],
) -> Int[Array, "n"]:
    """The index of the seed nearest to each row; seeds are drawn one after the other.

    The seed of a cluster without known rows is drawn with probability proportional to the
    distance from the earlier seeds: Arthur & Vassilvitskii (2007), "k-means++".
    """
    is_known = known.sum(0) > 0
    latent = jnp.where(label < 0, weight, 0)
    order = jnp.argsort(~is_known, stable=True).astype(label.dtype)

    def next_seed(i: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        closest, nearest = at
        k = order[i]
        far = jnp.where(latent > 0, latent * jnp.where(i == 0, 1, closest), 0)
        far = jnp.where(far.sum() > 0, far, latent)  # fewer different rows than clusters
        chances = jnp.where(is_known[k], known[:, k], far)
        row = jax.random.categorical(jax.random.fold_in(key, i), jnp.log(chances))
        seed = map_arrays(lambda a: a[row], x, sparse=lambda a: a.row(row))
        found = distance(x, seed).astype(closest.dtype)
        closer = found < closest
        return jnp.where(closer, found, closest), jnp.where(closer, k, nearest)

    start = jnp.full_like(weight, jnp.inf), jnp.zeros_like(label)
    return loops.fori_loop(0, known.shape[1], next_seed, start)[1]
