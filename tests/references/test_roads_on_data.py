"""The three roads on real data: every covariance structure, tables, words, and the boundary."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_iris

import genclf as gcf
from tests.registry import assert_close

pytestmark = pytest.mark.usefixtures("x64")


def iris():
    x, y = load_iris(return_X_y=True)
    return x, y.astype(np.int32)


def vowel():
    data = gcf.datasets.load_vowel()
    return data.x_train, data.y_train


def votes():
    data = gcf.datasets.load_house_votes()
    return data.x, data.y


def votes_as_bits():
    x, y = votes()
    return np.concatenate([x == 0, x == 1], 1).astype(np.int32), y


def sms():
    """The 200 most frequent words of the messages."""
    data = gcf.datasets.load_sms_spam()
    counts = gcf.text.learn_vocabulary(data.texts).counts(data.texts, dtype=np.int32).toarray()
    return counts[:, np.argsort(-counts.sum(0), kind="stable")[:200]], data.y


def gaussian(covariance, shared, num_classes):
    return gcf.Classifier(gcf.Gaussian(covariance, shared=shared), num_classes)


CASES = {
    **{
        f"iris {covariance}{' shared' * shared}": (gaussian(covariance, shared, 3), iris)
        for covariance in ("full", "diag", "spherical")
        for shared in (False, True)
    },
    "vowel LDA": (gcf.lda(11), vowel),
    "votes categorical": (gcf.categorical_nb(2, 3), votes),
    "votes Bernoulli": (gcf.bernoulli_nb(2), votes_as_bits),
    "SMS multinomial": (gcf.multinomial_nb(2), sms),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_three_roads(name):
    clf, load = CASES[name]
    x, y = load()
    closed = gcf.fit(clf, x, y)
    s = gcf.stats(clf, x, y)
    by_gradient = gcf.fit_gradient(clf, x, y)
    by_lagrange = gcf.fit_lagrange(clf, s)
    assert by_gradient.converged and by_lagrange.converged
    assert_close(by_gradient.params, closed, 1e-6)
    assert_close(by_lagrange.params, closed, 1e-10)
    np.testing.assert_allclose(by_lagrange.multipliers["log_prior"], len(y), rtol=1e-10)
    for params in (closed, by_gradient.params, by_lagrange.params):
        assert gcf.certify(clf, params, x, y).valid
    last = by_gradient.value
    if isinstance(clf.family, gcf.Gaussian):  # the others are smoothed
        np.testing.assert_allclose(last, gcf.log_lik(closed, s), rtol=1e-10)


@pytest.mark.slow
def test_rows_of_tables_have_their_count_as_multiplier():
    (x, y), v = votes(), 3
    for alpha in (0.0, 1.0):
        clf = gcf.categorical_nb(2, v, alpha=alpha)
        found = gcf.fit_lagrange(clf, gcf.stats(clf, x, y))
        expected = np.bincount(y)[:, None] + v * alpha
        np.testing.assert_allclose(
            found.multipliers["log_theta"], np.broadcast_to(expected, (2, 16)), rtol=1e-10
        )


@pytest.mark.slow
def test_words_that_a_class_never_uses_are_on_the_boundary():
    x, y = sms()
    clf = gcf.multinomial_nb(2, alpha=0.0)
    s = gcf.stats(clf, x, y)
    never = np.asarray(s.conditional.total) == 0
    assert never.any()
    by_lagrange = gcf.fit_lagrange(clf, s)
    assert by_lagrange.converged
    closed = gcf.estimate(clf, s)
    assert_close(by_lagrange.params, closed, 1e-10)
    counts = np.stack([x[y == k].sum() for k in (0, 1)])[:, None]
    # On its bound θ is 0, and the bound's multiplier that of the table; elsewhere it is 0.
    np.testing.assert_array_equal(np.exp(by_lagrange.params.conditional.log_theta) == 0, never)
    np.testing.assert_allclose(
        by_lagrange.bound_multipliers["log_theta"], np.where(never, counts, 0), rtol=1e-10
    )
    certificate = gcf.certify(clf, closed, x, y)
    assert certificate.valid
    np.testing.assert_allclose(
        certificate.bound_multipliers["log_theta"], np.where(never, counts, 0), rtol=1e-10
    )
    by_gradient = gcf.fit_gradient(clf, x, y, max_steps=600)
    assert by_gradient.on_boundary and not by_gradient.converged


@pytest.mark.slow
def test_a_shared_covariance_is_a_constraint_with_multipliers():
    x, y = iris()
    found = gcf.fit_lagrange(gcf.lda(3), gcf.stats(gcf.qda(3), x, y))
    own = np.stack([np.cov(x[y == k].T, ddof=0) for k in range(3)])
    shared = found.params.conditional.covariances[0]
    np.testing.assert_allclose(shared, own.mean(0), rtol=1e-10)  # classes of equal size
    # ½ n_k (Σ - Σ_k): how hard each class pulls on what all of them share.
    np.testing.assert_allclose(
        found.multipliers["scale"], 25 * (shared[None] - own[1:]), rtol=1e-9, atol=1e-10
    )


@pytest.mark.slow
def test_five_thousand_words_by_their_conditions():
    rng = np.random.default_rng(0)
    totals = rng.poisson(rng.pareto(1.0, (3, 5000))).astype(float)
    totals[2], totals[2, 5] = 0, 3  # a class of three words, the same one
    clf = gcf.multinomial_nb(3, alpha=0.0)
    count = np.array([50.0, 40.0, 1.0])
    count, per_word = jnp.asarray(count), jnp.asarray(totals)
    s = gcf.ClassifierStats(gcf.Sums(count, count), gcf.Sums(count, per_word))
    found = gcf.fit_lagrange(clf, s)
    assert found.converged
    np.testing.assert_allclose(found.multipliers["log_theta"][:, 0], totals.sum(1), rtol=1e-10)
    theta = np.exp(found.params.conditional.log_theta)
    np.testing.assert_allclose(theta, totals / totals.sum(1, keepdims=True), atol=1e-14)


def test_a_system_that_is_too_large_names_the_other_roads():
    d = 90
    clf = gcf.lda(4)
    count = jnp.ones(4)
    moments = gcf.Moments(count, jnp.zeros((4, d)), jnp.ones((4, d, d)))
    s = gcf.ClassifierStats(gcf.Sums(count, count), moments)
    with pytest.raises(ValueError, match="fit_gradient"):
        gcf.fit_lagrange(clf, s)
