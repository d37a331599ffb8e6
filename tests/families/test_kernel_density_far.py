"""Rows far from all examples have a density and a class: those that extended precision gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf

N, M = 53, 211  # of examples in each of two classes, of queries
POWERS = {"float32": (2, 7), "float64": (10, 15)}

pytestmark = pytest.mark.usefixtures("optimised")


@pytest.fixture
def optimised():
    """Compiled as users have it: products and sums may then be rounded once, in any fusion."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def example(dtype, d):
    """Examples of two widths, and queries on either side, from near to the farthest."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(N, d)), 1 + 2 * rng.normal(size=(N, d))])
    towards = rng.normal(size=(M, d))
    towards = towards / np.linalg.norm(towards, axis=1, keepdims=True)
    new = np.logspace(*POWERS[dtype.name], M)[:, None] * towards
    return x.astype(dtype), np.repeat([0, 1], N), new.astype(dtype)


def of_numpy(x, y, new, bandwidth):
    """The log-densities and their derivatives by the queries, in extended precision."""
    x, new, bandwidth = (np.asarray(a).astype(np.longdouble) for a in (x, new, bandwidth))
    scores, slopes = [], []
    for k, width in enumerate(bandwidth):
        z = (new[:, None] - x[y == k][None]) / width
        half = 0.5 * (z**2).sum(-1)
        odds = np.exp(half.min(1, keepdims=True) - half)
        norm = np.log(N) + (np.log(width) + 0.5 * np.log(2 * np.pi)).sum()
        scores.append(np.log(odds.sum(1)) - half.min(1) - norm)
        share = odds / odds.sum(1, keepdims=True)
        slopes.append(-(share[..., None] * z / width).sum(1))
    return np.stack(scores, 1), np.stack(slopes, 1)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 11])
def test_far_rows_are_those_of_extended_precision(d, dtype):
    x, y, new = example(dtype, d)
    params = gcf.fit(gcf.Classifier(gcf.KernelDensity(), 2), x, y)
    expected, slope = of_numpy(x, y, new, params.conditional.bandwidth)
    tolerance = 20 * np.finfo(dtype).eps
    for size in (1, 7, M):
        at = [new[i : i + size] for i in range(0, M, size)]
        found = np.concatenate([gcf.log_joint(params, rows) for rows in at])
        np.testing.assert_allclose(found, expected + np.log(0.5), rtol=tolerance)
        label = np.concatenate([gcf.predict(params, rows) for rows in at])
        np.testing.assert_array_equal(label, expected.argmax(1))
    of_one = jax.jit(jax.vmap(jax.jacrev(params.conditional.log_prob)))
    of_all = jax.jit(
        jax.grad(lambda x, k: params.conditional.log_prob(x)[:, k].sum()), static_argnums=1
    )
    # A component of the derivative may be nearly 0; it is measured against the whole. Of several
    # features, squares of two examples may round alike: then either may be the nearest.
    size = np.linalg.norm(slope, axis=-1, keepdims=True)
    apart = np.linalg.norm(np.ptp(x, axis=0)) if d > 1 else 0
    allowed = tolerance + apart / np.linalg.norm(new, axis=1)[:, None, None]
    for found in (of_one(new), jnp.stack([of_all(jnp.asarray(new), k) for k in range(2)], 1)):
        assert (np.abs(np.asarray(found) - slope) <= allowed * size).all()


@pytest.mark.slow
def test_far_rows_of_independent_columns_are_a_sum(dtype):
    x, y, new = example(dtype, 3)
    params = gcf.fit(gcf.Classifier(gcf.Independent(gcf.KernelDensity()), 2), x, y)
    widths = np.asarray(params.conditional.columns.bandwidth)
    columns = [slice(j, j + 1) for j in range(3)]
    of_columns = zip(columns, widths, strict=True)
    expected = sum(of_numpy(x[:, j], y, new[:, j], width)[0] for j, width in of_columns)
    for size in (1, M):
        at = [new[i : i + size] for i in range(0, M, size)]
        found = np.concatenate([gcf.log_joint(params, rows) for rows in at])
        tolerance = 20 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, expected + np.log(0.5), rtol=tolerance)
