"""NumPy and JAX compute one formula: statistics, estimates, scores and forms agree."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import genclf as gcf
from genclf.classifier.by_numpy import (
    by_numpy,
    discriminant_by_numpy,
    estimate_by_numpy,
    log_marginal_by_numpy,
    statistics_by_numpy,
)
from genclf.families.capabilities import HasLinearForm, has
from tests.registry import MODELS, WITH_HOLES, K, Model, assert_close, reals, take, tokens

TOLERANCE = 1e-12


def constant(rng, y, dtype):
    """A feature is constant, another within a class, and a third is a sum of two."""
    x = reals(rng, y, dtype)
    x[:, 1], x[y == 1, 2] = 5.0, 2.0
    x[:, 4] = x[:, 0] + x[:, 3]
    return x


def wide(rng, y, dtype):
    return rng.normal(size=(len(y), 113)).astype(dtype)


def far(rng, y, dtype):
    return (reals(rng, y, dtype) + 1e7).astype(dtype)


def far_apart(rng, y, dtype):
    return (reals(rng, y, dtype) + 1e7 * y[:, None]).astype(dtype)


GAUSSIANS = {
    "shared": gcf.Gaussian(shared=True),
    "own": gcf.Gaussian(),
    "diag": gcf.Gaussian("diag"),
    "spherical-shared": gcf.Gaussian("spherical", shared=True),
}
CASES = {"constant": constant, "wide": wide, "far": far, "far-apart": far_apart}
OTHERS = [
    Model(f"{name}-{case}", family, data)
    for name, family in GAUSSIANS.items()
    for case, data in CASES.items()
]
RULES = [
    Model("lw", gcf.Gaussian(shared=True, shrinkage="ledoit-wolf"), reals),
    Model("js", gcf.Gaussian(shrinkage="james-stein", target="diagonal"), reals),
    Model("oas", gcf.Gaussian(shrinkage="oas"), reals),
    Model("rda", gcf.Gaussian(pooling=0.3, shrinkage=0.1), constant),
    Model("ridge", gcf.Gaussian(ridge=0.1, ddof=1.0), constant),
    Model("centroids", gcf.Gaussian("diag", shared=True, soft_threshold=0.7), reals),
]
BY_NUMPY = [
    model
    for model in [*MODELS, *WITH_HOLES, *OTHERS, *RULES]
    if by_numpy(model.family) and "tokens" not in model.name and model.data is not tokens
]


def _has_tokens(model):
    return any(isinstance(leaf, gcf.Tokens) for leaf in _nodes(model.example("float64")[0]))


def _nodes(x):
    return jax.tree.leaves(x, is_leaf=lambda node: isinstance(node, gcf.Tokens))


@pytest.mark.slow("own-wide", "shared-wide")
@pytest.mark.parametrize("model", [m for m in BY_NUMPY if not _has_tokens(m)], ids=str)
def test_numpy_and_jax_agree(model, x64):
    x, y = model.example("float64")
    weights = np.random.default_rng(0).exponential(size=len(y))
    weights[::7] = 0.0
    clf = replace(model.classifier, num_classes=K + 1)  # a class without rows
    both = statistics_by_numpy(clf, x, y, weights)
    stats, params = estimate_by_numpy(clf, both)
    assert all(type(a) in (np.ndarray, np.float64) for a in jax.tree.leaves((stats, params)))
    expected = gcf.stats(clf, x, y, weights)
    assert_close(stats, expected, TOLERANCE)
    # Singular covariances magnify rounding, by up to ε^(-2/3).
    of_same = gcf.estimate(clf, expected)
    tolerance = 1e-5 if model in OTHERS else TOLERANCE
    assert_close(params, of_same, tolerance)
    given = jax.tree.map(np.asarray, of_same)
    assert_close(discriminant_by_numpy(given, x), gcf.discriminant(of_same, x), tolerance)
    assert_close(log_marginal_by_numpy(given, x), gcf.log_marginal(of_same, x), tolerance)
    if has(of_same.conditional, HasLinearForm):
        assert_close(given.linear(), gcf.linear_form(of_same), tolerance)


NEAR = [m for m in BY_NUMPY if not (_has_tokens(m) or "far" in m.name)]  # means of few digits


@pytest.mark.parametrize("model", NEAR, ids=str)
def test_statistics_of_parts_merge(model, x64):
    x, y = model.example("float64")
    weights = np.random.default_rng(0).exponential(size=len(y))
    parts = [slice(0, 29), slice(29, 58), slice(58, len(y))]
    clf, merged = model.classifier, None
    for part in parts:
        found = statistics_by_numpy(clf, take(x, part), y[part], weights[part])
        merged, _ = estimate_by_numpy(clf, found, merged)
    assert_close(merged, statistics_by_numpy(clf, x, y, weights), TOLERANCE)
