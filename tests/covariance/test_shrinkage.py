"""Pooled and shrunk covariances beside scikit-learn, R's conventions and published errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf, oas
from sklearn.datasets import load_breast_cancer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import genclf as gcf
from tests.registry import BY_NAME, D, K, N, assert_close, stack

OF_NAME = {"ledoit-wolf": ledoit_wolf, "oas": oas}


@pytest.fixture
def data(x64):
    return BY_NAME["gaussian"].example("float64")


def fitted(family, x, y, weights=None):
    """Covariances of a fit, and the intensities that `diagnose` tells."""
    clf = gcf.Classifier(family, K)
    params = gcf.fit(clf, x, y, weights).conditional
    found = gcf.diagnose(clf, x, y, weights).conditional.shrinkage
    return np.asarray(params.covariances), np.asarray(found)


def centred(x, y):
    return x - np.stack([x[y == k].mean(0) for k in range(K)])[y]


@pytest.mark.slow("ledoit-wolf")
@pytest.mark.parametrize("method", OF_NAME)
def test_intensities_of_each_class_as_scikit_learn(method, data):
    x, y = data
    covariances, shrinkage = fitted(gcf.Gaussian(shrinkage=method), x, y)
    scaled, towards_diagonal = fitted(gcf.Gaussian(shrinkage=method, target="diagonal"), x, y)
    for k in range(K):
        expected, intensity = OF_NAME[method](x[y == k])
        np.testing.assert_allclose(covariances[k], expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(shrinkage[k], intensity, rtol=1e-10)
        unit = x[y == k].std(0)
        expected, intensity = OF_NAME[method](x[y == k] / unit)
        np.testing.assert_allclose(scaled[k], expected * np.outer(unit, unit), atol=1e-12)
        np.testing.assert_allclose(towards_diagonal[k], intensity, rtol=1e-10)


@pytest.mark.parametrize("method", OF_NAME)
def test_intensity_of_the_pooled_covariance_as_scikit_learn(method, data):
    x, y = data
    expected, intensity = OF_NAME[method](centred(x, y), assume_centered=True)
    covariances, shrinkage = fitted(gcf.Gaussian(shared=True, shrinkage=method), x, y)
    np.testing.assert_allclose(covariances[0], expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(shrinkage, intensity, rtol=1e-10)


@pytest.mark.parametrize("shared", [False, True])
def test_james_stein_as_schaefer_and_strimmer_write_it(shared, data):
    x, y = data
    family = gcf.Gaussian(shared=shared, shrinkage="james-stein", target="diagonal")
    covariances, shrinkage = fitted(family, x, y)
    for k in range(1 if shared else K):
        z = centred(x, y)[slice(None) if shared else y == k]
        n, unit = len(z), z.std(0, ddof=1)
        w = np.einsum("ni,nj->nij", z / unit, z / unit)
        r = n / (n - 1) * w.mean(0)
        variance = n / (n - 1) ** 3 * ((w - w.mean(0)) ** 2).sum(0)
        off = ~np.eye(D, dtype=bool)
        intensity = variance[off].sum() / (r[off] ** 2).sum()
        np.testing.assert_allclose(shrinkage[k], intensity, rtol=1e-10)
        expected = np.cov(z.T, bias=True)
        expected = np.where(off, 1 - intensity, 1) * expected
        np.testing.assert_allclose(covariances[k], expected, atol=1e-12)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_lda_as_scikit_learn(shrinkage, data):
    x, y = data
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(x, y)
    params = gcf.fit(gcf.lda(K, shrinkage=shrinkage), x, y)
    found = jnp.exp(gcf.log_posterior(params, x))
    np.testing.assert_allclose(found, peer.predict_proba(x), rtol=0, atol=1e-10)


def test_rda_as_written_down(data):
    x, y = data
    own = np.stack([np.cov(x[y == k].T) for k in range(K)])
    n = np.bincount(y) - 1
    pooled = np.einsum("k,kij->ij", n, own) / n.sum()
    mixed = 0.7 * own + 0.3 * pooled
    spheres = np.trace(mixed, axis1=1, axis2=2)[:, None, None] / D * np.eye(D)
    covariances, shrinkage = fitted(gcf.Gaussian(pooling=0.3, shrinkage=0.2, ddof=1.0), x, y)
    np.testing.assert_allclose(covariances, 0.8 * mixed + 0.2 * spheres, atol=1e-12)
    np.testing.assert_allclose(shrinkage, 0.2)
    of_each, _ = fitted(gcf.Gaussian("diag", pooling=0.3, shrinkage=0.2, ddof=1.0), x, y)
    variance = np.diagonal(mixed, axis1=1, axis2=2)
    expected = 0.8 * variance + 0.2 * variance.mean(1, keepdims=True)
    np.testing.assert_allclose(np.diagonal(of_each, axis1=1, axis2=2), expected)


def test_pooling_goes_from_qda_to_lda(data):
    x, y = data
    for pooling, end in ((0.0, gcf.qda(K)), (1.0, gcf.lda(K))):
        clf = gcf.Classifier(gcf.Gaussian(pooling=pooling), K)
        found = gcf.log_joint(gcf.fit(clf, x, y), x)
        assert_close(found, gcf.log_joint(gcf.fit(end, x, y), x), 1e-12)


def test_errors_on_vowel_by_pooling():
    vowel = gcf.datasets.load_vowel()
    poolings = jnp.array([0.0, 0.09, 1.0])

    @jax.vmap
    def errors(pooling):
        params = gcf.fit(gcf.rda(11, pooling=pooling, shrinkage=0.0), vowel.x_train, vowel.y_train)
        wrong = gcf.predict(params, vowel.x_train) != vowel.y_train
        return wrong.mean(), (gcf.predict(params, vowel.x_test) != vowel.y_test).sum()

    of_train, of_test = errors(poolings)
    np.testing.assert_allclose(of_train, [0.0114, 0.0170, 0.3163], atol=5e-5)
    assert list(np.asarray(of_test)) == [244, 207, 257]


def test_qda_with_shrinkage_on_features_of_very_different_units():
    x, y = load_breast_cancer(return_X_y=True)
    x = x.astype(np.float32)
    found = gcf.diagnose(gcf.qda(2, shrinkage="oas"), x, y).conditional
    assert (np.asarray(found.rank) == 30).all()
    for clf in (gcf.qda(2), gcf.Classifier(gcf.Gaussian(shrinkage=0.1, target="diagonal"), 2)):
        wrong = np.asarray(gcf.predict(gcf.fit(clf, x, y), x)) != y
        assert wrong.mean() < 0.06


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        gcf.Gaussian(shrinkage="ledoit-wolf"),
        gcf.Gaussian(shared=True, shrinkage="ledoit-wolf"),
        gcf.Gaussian(shrinkage="james-stein", target="diagonal"),
        gcf.Gaussian(shared=True, shrinkage="oas"),
        gcf.Gaussian(pooling=0.3, shrinkage=0.2),
    ],
    ids=repr,
)
def test_from_merged_statistics(family, data):
    x, y = data
    clf, weights = gcf.Classifier(family, K), np.arange(N) % 4 + 0.5
    parts = [gcf.stats(clf, x[i::3], y[i::3], weights[i::3]) for i in range(3)]
    whole = gcf.stats(clf, x, y, weights)
    assert_close(gcf.merge(gcf.merge(parts[0], parts[1]), parts[2]), whole, 1e-12)
    assert_close(gcf.remove(gcf.remove(whole, parts[2]), parts[1]), parts[0], 1e-12)
    assert_close(gcf.stats(clf, x, np.eye(K)[y], weights), whole, 1e-12)
    assert_close(gcf.scale(gcf.scale(whole, 2.0), 0.5), whole, 1e-12)
    assert_close(gcf.pool(stack(parts)), whole, 1e-12)
    times = np.arange(N) % 3 + 1
    repeated = gcf.fit(clf, np.repeat(x, times, 0), np.repeat(y, times))
    assert_close(gcf.fit(clf, x, y, times.astype(float)), repeated, 1e-12)
    assert_close(gcf.estimate(clf, whole), gcf.fit(clf, x, y, weights), 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        gcf.Gaussian(pooling=0.3, shrinkage=0.2),
        gcf.Gaussian("diag", pooling=0.3, shrinkage=0.2, ddof=1.0),
        gcf.Gaussian("spherical", pooling=0.3),
        gcf.Gaussian(shared=True, shrinkage="ledoit-wolf"),
        gcf.Gaussian(shrinkage="james-stein", target="diagonal"),
    ],
    ids=repr,
)
def test_the_maximum_of_a_penalised_likelihood(family, data):
    clf = gcf.Classifier(family, K)
    params = gcf.fit(clf, *data)
    assert gcf.certify(clf, params, *data).valid
    assert_close(gcf.fit_gradient(clf, *data).params, params, 1e-7)


@pytest.mark.slow
def test_a_class_without_weight_has_the_pooled_intensity(data):
    x, y = data
    weights = (y != 1).astype(float)
    for method in ("oas", "ledoit-wolf"):
        covariances, shrinkage = fitted(gcf.Gaussian(shrinkage=method), x, y, weights)
        pooled, of_pooled = fitted(gcf.Gaussian(shared=True, shrinkage=method), x, y, weights)
        np.testing.assert_allclose(shrinkage[1], of_pooled[1])
        np.testing.assert_allclose(covariances[1], pooled[1])


def test_a_class_of_one_row(x64):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(41, 4)), np.array([0] * 20 + [1] * 20 + [2])
    for family in (
        gcf.Gaussian(pooling=1.0, shrinkage=0.2, ddof=1.0),
        gcf.Gaussian(shrinkage="ledoit-wolf"),
        gcf.Gaussian(shrinkage="james-stein", target="diagonal"),
    ):
        params = gcf.fit(gcf.Classifier(family, 3), x, y)
        assert np.isfinite(gcf.log_joint(params, x)).all()


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (dict(shrinkage=1.5), r"shrinkage is 1.5, expected one number from 0 to 1, 'ledoit-wolf'"),
        (dict(shrinkage="lw"), "shrinkage is 'lw', expected one number from 0 to 1, 'ledoit-wolf'"),
        (dict(pooling=-0.1), "pooling is -0.1, expected one number from 0 to 1, or None"),
        (
            dict(shared=True, pooling=0.5),
            "pooling needs a covariance per class, expected shared=False",
        ),
        (dict(ridge=0.1, shrinkage=0.1), "ridge and shrinkage are given, expected one of them"),
        (dict(shrinkage="james-stein"), 'expected Gaussian.*james-stein.*, target="diagonal"'),
        (dict(shrinkage="oas", pooling=0.5), "is estimated before pooling, expected a number"),
        (dict(covariance="diag", shrinkage="oas"), "needs a full covariance and complete rows"),
        (dict(covariance="spherical", shrinkage=0.1), "does not change a spherical"),
        (
            dict(covariance="diag", shrinkage=0.1, target="diagonal"),
            "does not change a diagonal cov",
        ),
        (
            dict(prior=gcf.NormalInverseWishart(), pooling=0.1, shrinkage=0.1),
            "pooling and a prior are given, expected one of them",
        ),
    ],
)
def test_what_excludes_each_other(family, message):
    x, y = BY_NAME["gaussian"].example("float32")
    with pytest.raises(ValueError, match=message):
        gcf.fit(gcf.Classifier(gcf.Gaussian(**family), K), x, y)


def test_what_needs_more_than_the_regularised_covariance():
    x, y = BY_NAME["gaussian"].example("float32")
    clf = gcf.lda(K, shrinkage="ledoit-wolf")
    with pytest.raises(ValueError, match="shrinkage='ledoit-wolf' needs fourth moments"):
        gcf.estimate(clf, gcf.stats(gcf.lda(K), x, y))
    gcf.estimate(gcf.lda(K), gcf.stats(clf, x, y))  # they hold all that lda asks for
    with pytest.raises(
        ValueError, match="fit_gradient: pooling is 1, and such an estimate does not"
    ):
        gcf.fit_gradient(gcf.rda(K, pooling=1.0, shrinkage=0.0), x, y)
    with pytest.raises(ValueError, match="no conjugate prior that stands for shrinkage"):
        gcf.posterior(gcf.lda(K, shrinkage=0.1), gcf.stats(gcf.lda(K), x, y))
    with pytest.raises(ValueError, match="EM cannot use shrinkage"):
        gcf.em(clf, x, y, key=jax.random.key(0))
    traced = jax.jit(lambda ridge: gcf.fit(gcf.lda(K, ridge=ridge, shrinkage=0.1), x, y))
    assert not np.isnan(traced(0.0).conditional.scale).any()
    assert np.isnan(traced(0.1).conditional.scale).all()


@pytest.mark.parametrize("shared", [False, True])
def test_fourth_moments_of_known_responsibilities(shared, x64):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, 3)), np.arange(N) % K
    for target in ("identity", "diagonal"):
        family = gcf.Gaussian(shared=shared, shrinkage="ledoit-wolf", target=target)
        clf = gcf.Classifier(family, K)
        soft = gcf.stats(clf, x, np.eye(K)[y]).conditional
        hard = gcf.stats(clf, x, y).conditional
        for name in ("third", "fourth"):
            np.testing.assert_allclose(
                getattr(soft, name), getattr(hard, name), rtol=1e-9, atol=1e-12
            )
        z = x - np.stack([x[y == k].mean(0) for k in range(K)])[y]
        u = (z**2).sum(1, keepdims=True) if target == "identity" else z**2
        expected = np.stack([u[y == k].T @ u[y == k] for k in range(K)])
        found = hard.fourth * np.asarray(hard.unit)[:, None, None] ** 4
        np.testing.assert_allclose(found, expected, rtol=1e-9)
