"""Gradients of a fit are those of finite differences, with respect to all that is continuous."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import (
    MODELS,
    K,
    N,
    assert_finite,
    directions,
    floating,
    put,
    with_hyperparameters,
)

pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.parametrize("model", MODELS, ids=str)]

STEP = 1e-5
TOLERANCE = 1e-7  # STEP² times a third derivative


def score(at, clf, x, y, seen, loss):
    """A scalar that depends on everything continuous about a fit and a prediction."""
    clf = jax.tree.unflatten(jax.tree.structure(clf), at["hyper-parameters"])
    seen = put(seen, at["scored rows"])
    params = gcf.fit(clf, put(x, at["training rows"]), y, at["weights"])
    posterior = jnp.where(loss == 0, 0, gcf.log_posterior(params, seen))
    return ((posterior * loss).sum() + gcf.log_marginal(params, seen).sum()) / N


value_and_slope = jax.jit(jax.value_and_grad(score))


def continuous(clf, x, seen, weights):
    return {
        "hyper-parameters": [np.float64(leaf) for leaf in jax.tree.leaves(clf)],
        "weights": weights,
        "training rows": floating(x),
        "scored rows": floating(seen),
    }


@pytest.mark.slow("gaussian-diag", "gaussian-shared", "product")
def test_as_finite_differences(model):
    rng = np.random.default_rng(7)
    (x, y), (seen, _) = model.example("float64"), model.example("float64", seed=1)
    # Away from 0, where a hyper-parameter may go either way.
    clf = with_hyperparameters(model.classifier, lambda leaf: leaf + 0.5)
    at = continuous(clf, x, seen, rng.uniform(0.5, 2, N))
    rest = (clf, x, y, seen, rng.normal(size=(N, K)))
    _, slope = value_and_slope(at, *rest)
    assert_finite(slope)
    for name, value in at.items():
        direction = jax.tree.map(lambda a: rng.normal(size=np.shape(a)), value)
        if name == "hyper-parameters":  # a ridge beside a shrinkage stays 0
            direction = [u * (a != 0) for u, a in zip(direction, value, strict=True)]
        ahead = at | {name: jax.tree.map(lambda a, u: a + STEP * u, value, direction)}
        behind = at | {name: jax.tree.map(lambda a, u: a - STEP * u, value, direction)}
        high, low = (float(value_and_slope(place, *rest)[0]) for place in (ahead, behind))
        expected = (high - low) / (2 * STEP)
        pairs = zip(jax.tree.leaves(slope[name]), jax.tree.leaves(direction), strict=True)
        found = sum(float(np.vdot(g, u)) for g, u in pairs)
        assert found == pytest.approx(expected, rel=1e-5, abs=TOLERANCE), name


@pytest.mark.slow("product")
def test_finite_at_the_edge(model):
    # An empty class, a constant feature, a weight of 0, no smoothing.
    x, y = model.example("float64")
    if model.data is not directions:  # of which no feature is constant by itself
        for leaf in jax.tree.leaves(x):
            leaf[:, 0] = leaf[N - 1, 0]
    y = np.where(y == 1, 0, y).astype(np.int32)
    weights = np.ones(N)
    weights[:3] = 0
    # The empty class has log-posterior -inf, whose slope is nothing to look at.
    loss = np.array([1.0, 0.0, -2.0]) * np.ones((N, 1))
    at = continuous(model.plain, x, x, weights)
    _, slope = value_and_slope(at, model.plain, x, y, x, loss)
    assert_finite(slope)
