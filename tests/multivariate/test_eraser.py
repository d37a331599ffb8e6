"""`eraser` beside the formula of LEACE in NumPy, with a symmetric square root."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

import genclf as gcf
from tests.registry import labels, reals

N, D, K = 101, 5, 3


def rows(dtype=np.float64):
    rng = np.random.default_rng(0)
    y = labels(rng)
    return reals(rng, y, dtype), y


def leace(x, y, num_classes):
    """x - Σ^½ P Σ^-½ (x - μ), with pseudoinverses."""
    z = np.eye(num_classes)[y]
    centred = x - x.mean(0)
    value, vector = np.linalg.eigh(centred.T @ centred / len(x))
    good = value > 1e-10 * value.max()
    root = lambda power: (  # noqa: E731
        (vector[:, good] * value[good] ** power) @ vector[:, good].T
    )
    left, size, _ = np.linalg.svd(root(-0.5) @ centred.T @ (z - z.mean(0)) / len(x))
    basis = left[:, : (size > 1e-9).sum()]
    return x - centred @ root(-0.5) @ basis @ basis.T @ root(0.5)


@pytest.mark.parametrize("model", [gcf.lda, gcf.qda])
def test_rows_are_those_of_the_formula(model):
    with jax.enable_x64(True):
        x, y = rows()
        eraser = gcf.eraser(gcf.stats(model(K), x, y))
        found = gcf.transform(eraser, x)
        np.testing.assert_allclose(found, leace(x, y, K), 1e-10, 1e-10)
        again = gcf.transform(eraser, found)
        np.testing.assert_allclose(again, found, 1e-12, 1e-12)
        np.testing.assert_allclose(gcf.transform(eraser, x[0]), found[0], 1e-12)
        more = np.asarray(gcf.transform(eraser, x.reshape(1, N, D)))
        np.testing.assert_allclose(more[0], found, 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_classes_have_the_mean_of_all_rows(dtype):
    with jax.enable_x64(dtype == "float64"):
        x, y = rows(dtype)
        x = x + np.asarray(1000, dtype)
        found = np.asarray(gcf.transform(gcf.eraser(gcf.stats(gcf.lda(K), x, y)), x), np.float64)
        means = np.stack([found[y == k].mean(0) for k in range(K)])
        scale = 1e-3 if dtype == "float32" else 1e-9
        np.testing.assert_allclose(means, np.broadcast_to(x.mean(0), (K, D)), 0, scale)


def test_merged_statistics_and_weights_erase_the_same():
    with jax.enable_x64(True):
        x, y = rows()
        clf, w = gcf.lda(K), np.where(np.arange(N) % 4 == 0, 2.0, 1.0)
        parts = gcf.merge(gcf.stats(clf, x[:37], y[:37]), gcf.stats(clf, x[37:], y[37:]))
        whole = gcf.eraser(gcf.stats(clf, x, y))
        found = gcf.transform(gcf.eraser(parts), x)
        np.testing.assert_allclose(found, gcf.transform(whole, x), 1e-10, 1e-12)
        twice = np.repeat(np.arange(N), w.astype(int))
        want = gcf.transform(gcf.eraser(gcf.stats(clf, x[twice], y[twice])), x)
        found = gcf.transform(gcf.eraser(gcf.stats(clf, x, y, weights=w)), x)
        np.testing.assert_allclose(found, want, 1e-10, 1e-12)


def test_units_and_features_that_do_not_vary_change_nothing():
    with jax.enable_x64(True):
        x, y = rows()
        want = np.asarray(gcf.transform(gcf.eraser(gcf.stats(gcf.lda(K), x, y)), x))
        unit = 10.0 ** np.arange(-4, 6, 2)
        found = gcf.transform(gcf.eraser(gcf.stats(gcf.lda(K), unit * x, y)), unit * x)
        np.testing.assert_allclose(np.asarray(found) / unit, want, 1e-8)
        constant = np.concatenate([x, np.full((N, 1), 7.0)], 1)
        found = gcf.transform(gcf.eraser(gcf.stats(gcf.lda(K), constant, y)), constant)
        np.testing.assert_allclose(found[:, :D], want, 1e-9)
        np.testing.assert_allclose(found[:, D], 7.0, 1e-12)


def test_equal_means_have_no_trace_and_classes_without_rows_no_say():
    with jax.enable_x64(True):
        x, y = rows()
        same = np.concatenate([x, x])
        of_two = np.repeat([0, 1], N)
        eraser = gcf.eraser(gcf.stats(gcf.lda(2), same, of_two))
        np.testing.assert_allclose(gcf.transform(eraser, same), same, 1e-12)
        two = y < 2
        want = gcf.transform(gcf.eraser(gcf.stats(gcf.lda(2), x[two], y[two])), x)
        found = gcf.transform(gcf.eraser(gcf.stats(gcf.lda(K), x[two], y[two])), x)
        np.testing.assert_allclose(found, want, 1e-10)


def test_more_features_than_rows():
    with jax.enable_x64(True):
        rng = np.random.default_rng(1)
        y = np.arange(23) % 3
        x = rng.normal(size=(23, 41)) + y[:, None]
        found = np.asarray(gcf.transform(gcf.eraser(gcf.stats(gcf.lda(3), x, y)), x))
        np.testing.assert_allclose(found, leace(x, y, 3), 1e-6, 1e-6)


def test_under_vmap_jit_and_grad():
    x, y = rows(np.float32)
    both = np.stack([x, x[::-1]]), np.stack([y, y[::-1]])
    erased = lambda x, y: gcf.transform(gcf.eraser(gcf.stats(gcf.lda(K), x, y)), x)  # noqa: E731
    found = jax.jit(jax.vmap(erased))(*both)
    np.testing.assert_allclose(found[0], erased(x, y), 2e-4, 2e-4)
    slope = jax.grad(lambda x: (erased(x, y) ** 2).sum())(jnp.asarray(x))
    assert np.isfinite(slope).all()


@pytest.mark.slow
def test_a_linear_probe_of_digits_sees_nothing_and_qda_something():
    x, y = load_digits(return_X_y=True)
    x = x.astype(np.float32)
    clf = gcf.lda(10)
    eraser = gcf.eraser(gcf.stats(clf, x, y))
    erased = np.asarray(gcf.transform(eraser, x))
    majority = np.bincount(y).max() / len(y)
    probe = RidgeClassifier(alpha=1.0)
    assert probe.fit(x, y).score(x, y) > 0.9
    assert probe.fit(erased, y).score(erased, y) < majority + 0.08
    assert (gcf.predict(gcf.fit(clf, erased, y), erased) == y).mean() < majority + 0.08
    quadratic = gcf.qda(10, shrinkage=0.1)
    assert (gcf.predict(gcf.fit(quadratic, erased, y), erased) == y).mean() > 0.9


def test_what_cannot_be_erased_is_refused():
    x, y = rows(np.float32)
    with pytest.raises(ValueError, match="no scatter matrix"):
        gcf.eraser(gcf.stats(gcf.gaussian_nb(K), x, y))
    with pytest.raises(ValueError, match="num_axes is 1, expected None for an eraser"):
        gcf.transform(gcf.eraser(gcf.stats(gcf.lda(K), x, y)), x, num_axes=1)
