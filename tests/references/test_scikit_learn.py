"""The same numbers as scikit-learn, wherever the conventions coincide: 1e-10 in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

import genclf as gcf

pytestmark = pytest.mark.usefixtures("x64")

PARITY = {"atol": 1e-10, "rtol": 1e-10}
TABLES = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}


def table(name):
    if name == "vowel":
        vowel = gcf.datasets.load_vowel()
        return vowel.x_train, vowel.y_train, 11
    x, y = TABLES[name](return_X_y=True)
    return x, y, int(y.max()) + 1


def counts(seed=0, high=5):
    rng = np.random.default_rng(seed)
    return rng.integers(0, high, (101, 7)), rng.integers(0, 3, 101), rng.exponential(size=101)


@pytest.mark.slow("False-iris", "False-vowel", "False-wine")
@pytest.mark.parametrize("name", ["iris", "wine", "vowel"])
@pytest.mark.parametrize("prior", [False, True])
def test_lda(name, prior):
    x, y, num_classes = table(name)
    fixed = np.arange(1.0, num_classes + 1) / (num_classes * (num_classes + 1) / 2)
    peer = LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    params = gcf.fit(gcf.lda(num_classes), x, y)
    if prior:  # the peer's own priors would weigh the classes' covariances too
        params = gcf.with_prior(params, fixed)
        peer.intercept_ += np.log(fixed) - np.log(peer.priors_)
    np.testing.assert_allclose(params.conditional.mean, peer.means_, **PARITY)
    np.testing.assert_allclose(params.conditional.covariances[0], peer.covariance_, **PARITY)
    log_joint = peer.decision_function(x)
    log_p = log_joint - np.logaddexp.reduce(log_joint, axis=1, keepdims=True)
    np.testing.assert_allclose(gcf.log_posterior(params, x), log_p, **PARITY)
    coef, intercept = map(np.asarray, gcf.linear_form(params))
    np.testing.assert_allclose(coef - coef[0], peer.coef_ - peer.coef_[0], **PARITY)
    np.testing.assert_allclose(
        intercept - intercept[0], peer.intercept_ - peer.intercept_[0], rtol=1e-9, atol=1e-9
    )


@pytest.mark.slow("vowel", "wine")
@pytest.mark.parametrize("name", ["iris", "wine", "vowel"])
def test_qda(name):
    x, y, num_classes = table(name)
    peer = QuadraticDiscriminantAnalysis(store_covariance=True).fit(x, y)
    params = gcf.fit(gcf.qda(num_classes), x, y)
    shares = np.bincount(y)[:, None, None]
    found = np.asarray(params.conditional.covariances)
    divisors = {
        divisor: np.abs(found * shares / (shares - divisor) - np.stack(peer.covariance_)).max()
        for divisor in (0, 1)
    }
    divisor = min(divisors, key=divisors.get)
    assert divisors[divisor] < 1e-10
    same = gcf.fit(gcf.Classifier(gcf.Gaussian(ddof=float(divisor)), num_classes), x, y)
    joint = gcf.log_joint(same, x)
    np.testing.assert_allclose(
        gcf.log_posterior(same, x),
        peer._decision_function(x)
        - np.logaddexp.reduce(peer._decision_function(x), axis=1, keepdims=True),
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_array_equal(joint.argmax(1), peer.predict(x))


@pytest.mark.parametrize("name", ["iris", "wine", "vowel", "breast_cancer"])
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_naive_bayes(name, weighted):
    x, y, num_classes = table(name)
    weights = np.random.default_rng(3).exponential(size=len(y)) if weighted else None
    peer = GaussianNB(var_smoothing=0.0).fit(x, y, sample_weight=weights)
    params = gcf.fit(gcf.gaussian_nb(num_classes), x, y, weights)
    np.testing.assert_allclose(params.conditional.mean, peer.theta_, **PARITY)
    np.testing.assert_allclose(params.conditional.scale**2, peer.var_, **PARITY)
    np.testing.assert_allclose(gcf.log_joint(params, x), peer._joint_log_likelihood(x), **PARITY)
    np.testing.assert_allclose(gcf.log_posterior(params, x), peer.predict_log_proba(x), **PARITY)


@pytest.mark.parametrize("alpha", [1.0, 0.3, 1e-3])
@pytest.mark.parametrize("weighted", [False, True])
def test_multinomial(alpha, weighted):
    x, y, weights = counts()
    weights = weights if weighted else None
    peer = MultinomialNB(alpha=alpha).fit(x, y, sample_weight=weights)
    params = gcf.fit(gcf.multinomial_nb(3, alpha=alpha), x, y, weights)
    np.testing.assert_allclose(params.conditional.log_theta, peer.feature_log_prob_, **PARITY)
    np.testing.assert_allclose(params.log_prior, peer.class_log_prior_, **PARITY)
    np.testing.assert_allclose(gcf.log_joint(params, x), peer._joint_log_likelihood(x), **PARITY)
    np.testing.assert_allclose(gcf.log_posterior(params, x), peer.predict_log_proba(x), **PARITY)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_bernoulli(alpha, weighted):
    x, y, weights = counts()
    weights = weights if weighted else None
    peer = BernoulliNB(alpha=alpha, binarize=1.5).fit(x, y, sample_weight=weights)
    params = gcf.fit(gcf.Classifier(gcf.Bernoulli(alpha, threshold=1.5), 3), x, y, weights)
    np.testing.assert_allclose(np.log(params.conditional.probs), peer.feature_log_prob_, **PARITY)
    np.testing.assert_allclose(gcf.log_posterior(params, x), peer.predict_log_proba(x), **PARITY)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_categorical(alpha, weighted):
    x, y, weights = counts(high=4)
    weights = weights if weighted else None
    peer = CategoricalNB(alpha=alpha, min_categories=5).fit(x, y, sample_weight=weights)
    params = gcf.fit(gcf.categorical_nb(3, 5, alpha=alpha), x, y, weights)
    for j in range(7):
        found = params.conditional.table(j)
        np.testing.assert_allclose(found, peer.feature_log_prob_[j], **PARITY)
    np.testing.assert_allclose(gcf.log_posterior(params, x), peer.predict_log_proba(x), **PARITY)


@pytest.mark.slow
def test_float32_stays_near_float64():
    x, y, num_classes = table("vowel")
    exact = gcf.log_posterior(gcf.fit(gcf.lda(num_classes), x, y), x)
    with jax.enable_x64(False):
        single = gcf.log_posterior(gcf.fit(gcf.lda(num_classes), x, y), x)
        assert single.dtype == jnp.float32
    np.testing.assert_allclose(np.exp(single), np.exp(exact), atol=2e-5)
