"""Hyper-parameters at the ends of their intervals, and within 1e-6 of them."""

import itertools

import jax
import numpy as np
import pytest

import genclf as gcf
from tests.registry import MODELS, K, hyperparameters, reals, with_hyperparameters

NEAR = 1e-6
SHARES = 0.0, NEAR, 0.3, 1 - NEAR, 1.0
WIDE = 13, 29  # rows and features; the other shape has more rows than features
LONG = 101, 5


def posterior(x, y, new, *, own, pooling, shrinkage, ridge, target):
    """Of new rows, from whole matrices in NumPy."""
    means = np.stack([x[y == k].mean(0) for k in range(K)])
    apart = x - means[y]
    scatters = np.stack([apart[y == k].T @ apart[y == k] for k in range(K)])
    count, whole = np.bincount(y), scatters.sum(0) / len(x)
    covariances = scatters / count[:, None, None] if own else np.stack([whole] * K)
    covariances = (1 - pooling) * covariances + pooling * whole
    joint = []
    for k, (mean, matrix) in enumerate(zip(means, covariances, strict=True)):
        of_target = np.trace(matrix) / len(matrix) * np.eye(len(matrix))
        of_target = np.diag(np.diag(matrix)) if target == "diagonal" else of_target
        matrix = (1 - shrinkage) * matrix + shrinkage * of_target + ridge * np.diag(np.diag(whole))
        square = np.einsum("nd,nd->n", new - mean, np.linalg.solve(matrix, (new - mean).T).T)
        joint.append(np.log(count[k]) - (square + np.linalg.slogdet(matrix)[1]) / 2)
    joint = np.stack(joint, 1)
    joint -= joint.max(1, keepdims=True)
    return np.exp(joint) / np.exp(joint).sum(1, keepdims=True)


def rows(shape, dtype):
    n, d = shape
    rng = np.random.default_rng(n)
    y = rng.permutation(np.arange(n) % K)
    x = reals(rng, y, dtype, d)
    return x, y, reals(rng, y, dtype, d)[:7]


def grid(own):
    """Every end of pooling, shrinkage and ridge, with each target."""
    for pooling, share in itertools.product(SHARES if own else (0.0,), SHARES):
        yield pooling, share, 0.0
    for pooling, ridge in itertools.product(SHARES if own else (0.0,), (NEAR, 0.3)):
        yield pooling, 0.0, ridge


@pytest.mark.slow("float32-wide-shared-diagonal", "float64-wide-shared-diagonal")
@pytest.mark.parametrize("target", ["identity", "diagonal"])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("shape", [LONG, WIDE], ids=["long", "wide"])
def test_gaussians_are_those_of_whole_matrices(shape, own, target, dtype):
    x, y, new = rows(shape, dtype)
    tolerance = 1e-9 if dtype == np.float64 else 2e-4

    @jax.jit
    def found(pooling, shrinkage, ridge):
        shrunk = {"ridge": ridge} if shrinkage is None else {"shrinkage": shrinkage}
        own_only = {"pooling": pooling} if own else {}
        family = gcf.Gaussian(shared=not own, target=target, **own_only, **shrunk)
        return gcf.log_posterior(gcf.fit(gcf.Classifier(family, K), x, y), new)

    tried = 0
    for pooling, shrinkage, ridge in grid(own):
        # With fewer rows than features, the rule of directions without variance decides if little
        # is added.
        if shape == WIDE and max(shrinkage, ridge) <= NEAR:
            continue
        values = dtype.type(pooling), dtype.type(shrinkage), dtype.type(ridge)
        given = (values[0], None, values[2]) if ridge else (*values[:2], values[2])
        expected = posterior(
            *(a.astype(np.float64) if a.dtype == dtype else a for a in (x, y, new)),
            own=own,
            pooling=float(values[0]),
            shrinkage=float(values[1]),
            ridge=float(values[2]),
            target=target,
        )
        np.testing.assert_allclose(
            np.exp(found(*given)),
            expected,
            atol=tolerance,
            err_msg=str((pooling, shrinkage, ridge)),
        )
        tried += 1
    assert tried >= 4


def test_every_door_takes_a_shrinkage_of_1_with_more_features_than_rows(x64):
    """Cross-validation, tuning and the row space, beside a shrinkage just below 1."""
    x, y, new = rows(WIDE, np.float64)
    folds = np.arange(len(y)) % 3
    for make in (gcf.lda, gcf.qda):
        least, most = make(K, shrinkage=1 - NEAR), make(K, shrinkage=1.0)
        for door in (
            lambda clf: gcf.log_posterior(gcf.fit(clf, x, y), new),
            lambda clf: gcf.cross_validate(clf, x, y, folds).log_posterior,
        ):
            np.testing.assert_allclose(np.exp(door(most)), np.exp(door(least)), atol=1e-4)
        tuned = gcf.tune(
            lambda shrinkage, make=make: make(K, shrinkage=shrinkage),
            {"shrinkage": [1 - NEAR, 1.0]},
            x,
            y,
            folds,
        )
        np.testing.assert_allclose(*tuned.table["score"], rtol=1e-4)


@pytest.mark.parametrize("model", [m for m in MODELS if hyperparameters(m.classifier)], ids=str)
def test_hyperparameters_are_continuous_at_their_ends(model, x64):
    """All of a model at the least numbers of their intervals."""
    x, y = model.example("float64")
    found = jax.jit(lambda clf: gcf.log_posterior(gcf.fit(clf, x, y), x))

    def at(value):
        return np.exp(found(with_hyperparameters(model.classifier, lambda leaf: value)))

    np.testing.assert_allclose(at(0.0), at(NEAR), atol=1e-3)
