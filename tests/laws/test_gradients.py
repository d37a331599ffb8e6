"""Gradients of a fit are those of finite differences, with respect to all that is continuous."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import MODELS, K, N, assert_finite, is_hyperparameter

pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.parametrize("model", MODELS, ids=str)]

STEP = 1e-5
TOLERANCE = 1e-7  # STEP² times a third derivative


def split(model):
    """What is continuous about a fit, by name, and how to score it."""
    rng = np.random.default_rng(7)
    (x, y), (seen, _) = model.example("float64"), model.example("float64", seed=1)
    loss = rng.normal(size=(N, K))
    # Away from 0, where a hyper-parameter may go either way.
    clf = jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf + 0.5 if is_hyperparameter(path) else leaf, model.classifier
    )
    floating = lambda a: np.issubdtype(a.dtype, np.floating)  # noqa: E731
    where = {
        "hyper-parameters": [np.float64(leaf) for leaf in jax.tree.leaves(clf)],
        "weights": rng.uniform(0.5, 2, N),
        "training rows": [a for a in jax.tree.leaves(x) if floating(a)],
        "scored rows": [a for a in jax.tree.leaves(seen) if floating(a)],
    }

    def put(x, leaves):
        leaves = iter(leaves)
        return jax.tree.map(lambda a: next(leaves) if floating(a) else a, x)

    @jax.jit
    def score(at):
        model = jax.tree.unflatten(jax.tree.structure(clf), at["hyper-parameters"])
        params = gcf.fit(model, put(x, at["training rows"]), y, at["weights"])
        posterior = gcf.log_posterior(params, put(seen, at["scored rows"]))
        return (posterior * loss).sum() / N + gcf.log_marginal(params, seen).sum() / N

    return where, score


def test_as_finite_differences(model):
    where, score = split(model)
    slope = jax.jit(jax.grad(score))(where)
    assert_finite(slope)
    rng = np.random.default_rng(8)
    for name, at in where.items():
        direction = jax.tree.map(lambda a: rng.normal(size=np.shape(a)), at)
        ahead = jax.tree.map(lambda a, u: a + STEP * u, at, direction)
        behind = jax.tree.map(lambda a, u: a - STEP * u, at, direction)
        rise = float(score(where | {name: ahead})) - float(score(where | {name: behind}))
        expected = rise / (2 * STEP)
        pairs = zip(jax.tree.leaves(slope[name]), jax.tree.leaves(direction), strict=True)
        found = sum(float(np.vdot(g, u)) for g, u in pairs)
        assert found == pytest.approx(expected, rel=1e-5, abs=TOLERANCE), name


def test_finite_at_the_edge(model):
    # An empty class, a feature constant in every class, no smoothing.
    x, y = model.example("float64")
    for leaf in jax.tree.leaves(x):
        leaf[:] = leaf[N - 1] if leaf.ndim < 2 or leaf.shape[1] == 1 else leaf
        leaf[:, 0] = leaf[N - 1, 0]
    y = np.where(y == 1, 0, y).astype(np.int32)

    def score(clf, weights):
        params = gcf.fit(clf, x, y, weights)
        # The empty class has log-posterior -inf, whose gradient is nothing to look at.
        return jnp.take(gcf.log_posterior(params, x), np.array([0, 2]), 1).sum()

    clf = jax.tree.map(jnp.float64, model.plain)
    assert_finite(jax.grad(score, (0, 1))(clf, np.ones(N)))
