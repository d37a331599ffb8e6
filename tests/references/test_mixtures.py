"""Mixtures and missing cells beside scikit-learn, and on real data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.mixture import GaussianMixture

import genclf as gcf


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_gaussian_mixture_from_the_same_start(covariance, x64):
    rng = np.random.default_rng(3)
    n, d, k = 1009, 5, 3
    x = 2.5 * rng.normal(size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))
    start = x[:k]
    one = {"full": np.tile(np.eye(d), (k, 1, 1)), "diag": np.ones((k, d)), "spherical": np.ones(k)}
    peer = GaussianMixture(
        k, covariance_type=covariance, means_init=start, weights_init=np.full(k, 1 / k),
        precisions_init=one[covariance], reg_covar=0.0, tol=1e-14, max_iter=5000,
    ).fit(x)  # fmt: skip
    scale = jnp.asarray(one[covariance]).reshape(
        k, *{"full": (d, d), "diag": (d,)}.get(covariance, (1,))
    )
    init = gcf.ClassifierParams(
        jnp.full(k, -np.log(k)), gcf.GaussianParams(jnp.asarray(start), scale, covariance, False)
    )
    clf = gcf.Classifier(gcf.Gaussian(covariance), k)
    found = gcf.em(
        clf, x, np.full(n, -1), key=jax.random.key(0), init=init, tol=0.0, max_steps=5000
    )
    np.testing.assert_allclose(found.value / n, peer.score(x), rtol=1e-8)
    np.testing.assert_allclose(found.params.conditional.mean, peer.means_, atol=1e-5)
    np.testing.assert_allclose(jnp.exp(found.params.log_prior), peer.weights_, atol=1e-6)
    ours = found.params.conditional.covariances
    theirs = {
        "full": lambda c: c,
        "diag": lambda c: c[:, :, None] * np.eye(d),
        "spherical": lambda c: c[:, None, None] * np.eye(d),
    }[covariance](peer.covariances_)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


DATA = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "vowel": lambda: (v := gcf.datasets.load_vowel()) and (v.x_train, v.y_train),
}


def divergence(params, truth):
    """Mean Kullback-Leibler divergence of the fitted class densities from the true ones."""
    a, b = truth.conditional, params.conditional
    covariance, other = np.asarray(a.covariances), np.asarray(b.covariances)
    apart = np.asarray(b.mean - a.mean)
    inverse = np.linalg.inv(other)
    ratio = np.linalg.slogdet(other)[1] - np.linalg.slogdet(covariance)[1]
    trace = np.einsum("kij,kji->k", inverse, covariance)
    shift = np.einsum("ki,kij,kj->k", apart, inverse, apart)
    return 0.5 * (trace + shift + ratio - a.mean.shape[1]).mean()


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["lda", "qda"])
@pytest.mark.parametrize("name", DATA)
def test_nearer_the_complete_fit_than_filling_or_dropping(name, shared, x64):
    """With 30% of the cells missing at random."""
    x, y = DATA[name]()
    k, rng = int(y.max()) + 1, np.random.default_rng(0)
    holes = np.where(rng.random(x.shape) < 0.3, np.nan, x)
    prior = gcf.NormalInverseWishart()
    strict = gcf.Classifier(gcf.Gaussian(shared=shared, prior=prior), k)
    seen = gcf.Classifier(gcf.Gaussian(shared=shared, prior=prior, missing="marginalize"), k)
    truth = gcf.fit(strict, x, y)
    em = divergence(gcf.fit(seen, holes, y), truth)
    filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    whole = ~np.isnan(holes).any(1)
    assert em < 0.75 * divergence(gcf.fit(strict, filled, y), truth)
    dropped = divergence(gcf.fit(strict, x[whole], y[whole]), truth)
    assert not dropped < em  # NaN where too few rows are left


@pytest.mark.slow
def test_three_gaussians_per_class_on_waveforms():
    """Published: LDA .191, mixture discriminant analysis .169 (ESL, table 12.4)."""

    mixture = gcf.Classifier(gcf.Mixture(gcf.Gaussian("diag", shared=True), 3), 3)

    def errors(key):
        key_train, key_test, key_em = jax.random.split(key, 3)
        x, y = gcf.datasets.sample_waveform(key_train, (300,))
        seen, truth = gcf.datasets.sample_waveform(key_test, (500,))
        fits = gcf.em(mixture, x, y, key=key_em, tol=1e-4).params, gcf.fit(gcf.lda(3), x, y)
        return [(gcf.predict(params, seen) != truth).mean() for params in fits]

    mda, lda = jax.vmap(errors)(jax.random.split(jax.random.key(0), 20))
    assert mda.mean() < 0.175
    assert 0.185 < lda.mean() < 0.22
