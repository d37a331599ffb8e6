"""Priors: what each smoothing stands for, what is invalid, improper or on a boundary."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import genclf as gcf
from tests.registry import BY_NAME, D, K, N, assert_close, assert_near

X = np.array([[0.0, 1.0], [2.0, 5.0], [4.0, 4.0], [6.0, 3.0], [5.0, 9.0]], np.float32)
Y = np.array([0, 0, 1, 1, 1])


def with_stats(clf, x=X, y=Y):
    return clf, gcf.stats(clf, x, y)


def test_laplace_smoothing_is_a_mode_and_a_mean(x64):
    x, y = BY_NAME["multinomial"].example("float64")
    laplace = gcf.fit(gcf.multinomial_nb(K), x, y)
    assert_close(gcf.fit(gcf.multinomial_nb(K, prior=gcf.Dirichlet(2.0)), x, y), laplace, 1e-14)
    uniform, s = with_stats(gcf.multinomial_nb(K, alpha=0.0), x, y)
    mean = gcf.posterior(uniform, s).mean
    assert_close(mean.conditional, laplace.conditional, 1e-14)
    bits, y = BY_NAME["bernoulli"].example("float64")
    laplace = gcf.fit(gcf.bernoulli_nb(K), bits, y).conditional
    uniform, s = with_stats(gcf.bernoulli_nb(K, alpha=0.0), bits, y)
    assert_close(gcf.predictive(uniform, s).conditional, laplace, 1e-13)
    assert_close(
        gcf.fit(gcf.bernoulli_nb(K, prior=gcf.Beta(2.0, 2.0)), bits, y).conditional, laplace, 1e-14
    )


@pytest.mark.slow
def test_divisors_are_modes_and_means(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    d = x.shape[1]
    for shared, ddof in ((False, 1), (True, K)):
        clf, s = with_stats(gcf.Classifier(gcf.Gaussian(shared=shared), K), x, y)
        post = gcf.posterior(clf, s).conditional
        ml = gcf.fit(clf, x, y).conditional
        unbiased = gcf.fit(gcf.Classifier(gcf.Gaussian(shared=shared, ddof=ddof), K), x, y)
        # The mode of Σ alone, the means integrated out: Ψ / (ν + d + 1).
        mode = post.scale / (post.dof + d + 1)[:, None, None]
        assert_near(np.broadcast_to(mode, (K, d, d)), unbiased.conditional.covariances, 1e-12)
        joint = post.scale / (post.dof + d + 1 + (K if shared else 1))[:, None, None]
        assert_near(np.broadcast_to(joint, (K, d, d)), ml.covariances, 1e-12)


def test_map_of_a_gaussian_by_hand(x64):
    # Murphy (2012), §4.6.3.4: mode of the joint posterior.
    x = np.array([[2.0, 1.0], [4.0, -1.0], [3.0, 3.0]])
    mean, kappa, scale, dof = np.array([1.0, 0.0]), 0.5, np.array([[2.0, 0.3], [0.3, 1.0]]), 4.0
    clf = gcf.Classifier(gcf.Gaussian(prior=gcf.NormalInverseWishart(mean, kappa, scale, dof)), 1)
    found = gcf.fit(clf, x, np.zeros(3, int)).conditional
    centred, away = x - x.mean(0), x.mean(0) - mean
    psi = scale + centred.T @ centred + 3 * kappa / (3 + kappa) * np.outer(away, away)
    np.testing.assert_allclose(found.mean[0], (3 * x.mean(0) + kappa * mean) / (3 + kappa))
    np.testing.assert_allclose(found.covariances[0], psi / (dof + 3 + 2 + 2), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_prior_makes_every_class_regular(covariance, shared):
    # Class 0 has one row, class 1 none, a feature is constant: all is proper.
    x = np.array([[1.0, 3.0], [4.0, 3.0], [6.0, 3.0]], np.float32)
    family = gcf.Gaussian(covariance, shared, prior=gcf.NormalInverseWishart())
    for inference in ("map", "predictive"):
        clf = gcf.Classifier(family, 3, class_alpha=1.0, inference=inference)
        params = gcf.fit(clf, x, np.array([0, 2, 2]))
        posterior = np.exp(gcf.log_posterior(params, x))
        assert np.isfinite(posterior).all() and (posterior > 0).all()
        np.testing.assert_allclose(posterior.sum(1), 1, rtol=1e-5)
        assert (gcf.predict(params, x) == np.array([0, 2, 2])).all()


def test_unseen_values_and_words_have_their_share():
    clf, s = with_stats(
        gcf.categorical_nb(2, 3, alpha=0.0), np.array([[0], [1], [1]]), np.array([0, 1, 1])
    )
    theta = np.exp(gcf.predictive(clf, s).conditional.log_theta)
    np.testing.assert_allclose(theta, [[2 / 4, 1 / 4, 1 / 4], [1 / 5, 3 / 5, 1 / 5]], rtol=1e-6)
    clf, s = with_stats(gcf.multinomial_nb(1, alpha=0.0), np.array([[3, 0]]), np.array([0]))
    new = gcf.log_joint(gcf.predictive(clf, s), np.array([[0, 1], [0, 2]]))
    np.testing.assert_allclose(np.exp(new[:, 0]), [1 / 5, 1 / 5 * 2 / 6], rtol=1e-6)


@pytest.mark.slow
def test_a_mode_on_the_boundary_is_reported():
    x, y = np.array([[3, 0, 1], [0, 2, 0]]), np.array([0, 1])
    clf, s = with_stats(gcf.multinomial_nb(2, prior=gcf.Dirichlet(0.5)), x, y)
    post = gcf.posterior(clf, s)
    theta = np.exp(post.mode.conditional.log_theta)
    # Counts less one half: 2.5, none, 0.5; and 1.5.
    np.testing.assert_allclose(theta, [[5 / 6, 0, 1 / 6], [0, 1, 0]], rtol=1e-6)
    expected = [[False, True, False], [True, False, True]]
    np.testing.assert_array_equal(post.on_boundary["log_theta"], expected)
    assert not post.on_boundary["log_prior"].any()
    # The mean, the predictive and draws are inside.
    assert (np.exp(post.mean.conditional.log_theta) > 0.05).all()
    assert np.isfinite(gcf.log_joint(gcf.predictive(clf, s), x)).all()
    bits = np.array([[1, 0], [1, 1], [0, 0]])
    clf, s = with_stats(gcf.bernoulli_nb(2, prior=gcf.Beta(0.5, 0.5)), bits, np.array([0, 0, 1]))
    post = gcf.posterior(clf, s)
    np.testing.assert_allclose(post.mode.conditional.probs, [[1, 0.5], [0, 0]], rtol=1e-6)
    np.testing.assert_array_equal(post.on_boundary["logits"], [[True, False], [True, True]])
    events = gcf.Classifier(gcf.Poisson(prior=gcf.Gamma(1.0, 1.0)), 2)
    post = gcf.posterior(events, gcf.stats(events, jnp.array([[0, 2], [3, 1]]), jnp.array([0, 1])))
    np.testing.assert_array_equal(post.on_boundary["log_rate"], [[True, False], [False, False]])


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.5, 1.0])
@pytest.mark.parametrize(("a", "b"), [(1, 3), (3, 1), (1, 1), (2, 5), (0.5, 0.3), (2e3, 7e3)])
def test_the_density_of_a_beta_at_the_ends_too(p, a, b, x64):
    arrays = {"logits": jnp.full((1, 1), scipy.special.logit(p))}
    prior = gcf.Beta(a, b).resolve(arrays["logits"])
    expected = scipy.stats.beta.logpdf(p, a, b)
    np.testing.assert_allclose(prior.log_prob(arrays), expected, rtol=1e-9, atol=1e-12)


def raises(message, call):
    with pytest.raises(ValueError, match=message):
        call()


def niw(**changes):
    return gcf.NormalInverseWishart(
        **({"mean": 0.0, "kappa": 1.0, "scale": 1.0, "dof": 3.0} | changes)
    )


@pytest.mark.parametrize(
    "verb", ["fit", "estimate", "posterior", "predictive", "log_evidence", "fit_prior"]
)
@pytest.mark.parametrize(
    ("clf", "message"),
    [
        (gcf.qda(2, prior=niw(dof=1.0)), r"dof of the prior is 1.0, expected > p - 1 = 1"),
        (gcf.qda(2, prior=niw(kappa=0.0)), r"kappa of the prior is 0.0, expected > 0"),
        (gcf.qda(2, prior=niw(scale=-1.0)), r"scale of the prior is -1.0, expected positive"),
        (gcf.qda(2, prior=niw(), ridge=0.1), r"ridge and a prior are given"),
        (gcf.gaussian_nb(2, prior=niw(dof=0.0)), r"dof of the prior is 0.0, expected > p - 1 = 0"),
        (gcf.multinomial_nb(2, prior=gcf.Dirichlet(0.0)), r"concentration of the prior is 0.0"),
        (gcf.multinomial_nb(2, alpha=0.5, prior=gcf.Dirichlet(2.0)), r"alpha and a prior are"),
        (gcf.bernoulli_nb(2, prior=gcf.Beta(1.0, -1.0)), r"b of the prior is -1.0, expected > 0"),
        (gcf.Classifier(gcf.Gaussian("diag", prior=niw()), 2, class_prior=gcf.Dirichlet(-1.0)),
         r"concentration of class_prior is -1.0"),
        (gcf.multinomial_nb(2, prior=gcf.Dirichlet(np.ones(5))), r"has shape \(5,\), expected"),
    ],
)  # fmt: skip
def test_invalid_priors_raise_in_every_verb(verb, clf, message):
    x = X.astype(int) if not isinstance(clf.family, gcf.Bernoulli) else (X > 2).astype(int)
    if verb == "fit":
        raises(message, lambda: gcf.fit(clf, x, Y))
        return
    family = replace(clf.family, prior=None, **({"ridge": 0.0} if "ridge" in message else {}))
    s = gcf.stats(gcf.Classifier(family, clf.num_classes), x, Y)
    raises(message, lambda: getattr(gcf, verb)(clf, s))


@pytest.mark.slow
def test_improper_posteriors_raise_and_are_nan_in_traced_code():
    clf, s = with_stats(gcf.qda(2))
    raises(
        r"posterior.*class 0.*dof is -2, expected > 1.*NormalInverseWishart",
        lambda: gcf.posterior(clf, s),
    )
    raises(r"the predictive needs.*class 0", lambda: gcf.predictive(clf, s))
    raises(
        r"log_evidence needs a proper prior.*class 0.*kappa is 0", lambda: gcf.log_evidence(clf, s)
    )
    raises(r"fit_prior needs a proper prior", lambda: gcf.fit_prior(clf, s))
    raises(r"prior needs a proper prior", lambda: gcf.bayes.prior(clf, s))
    raises(r"the predictive needs", lambda: gcf.fit(gcf.qda(2, inference="predictive"), X, Y))
    assert np.isnan(jax.jit(gcf.log_evidence)(clf, s))
    params = jax.jit(gcf.predictive)(clf, s)
    assert (gcf.predict(params, X) == -1).all()
    # In a column of Independent, in a block of a Product.
    mixed = gcf.Product({"a": gcf.Independent(gcf.Gaussian()), "b": gcf.Bernoulli()})
    clf = gcf.Classifier(mixed, 2)
    s = gcf.stats(clf, {"a": X, "b": (X > 2).astype(int)}, Y)
    raises(r"class 0 is improper: a: column \[0\]: dof is -1", lambda: gcf.posterior(clf, s))


@pytest.mark.slow
def test_invalid_numbers_in_traced_code_are_nan():
    def score(dof):
        clf = gcf.qda(2, prior=niw(dof=dof))
        return gcf.log_evidence(clf, gcf.stats(clf, X, Y))

    found = jax.vmap(score)(jnp.array([0.5, 3.0]))
    np.testing.assert_array_equal(np.isnan(found), [True, False])

    def of(a):
        clf = gcf.multinomial_nb(2, prior=gcf.Dirichlet(a))
        return gcf.fit(clf, X, Y).conditional.log_theta

    found = jax.vmap(of)(jnp.array([-1.0, 2.0]))
    np.testing.assert_array_equal(np.isnan(found).all((1, 2)), [True, False])


def test_scales_that_are_not_positive_definite_are_nan_in_traced_code():
    d = X.shape[1]
    lopsided = np.eye(d) + np.diag(np.full(d - 1, 0.5), 1)

    def posterior(scale):
        return gcf.log_posterior(gcf.fit(gcf.qda(2, prior=niw(scale=scale)), X, Y), X)

    scales = np.stack([np.eye(d), 1 - 2 * np.eye(d), -np.eye(d), lopsided])
    found = np.isnan(jax.vmap(posterior)(jnp.asarray(scales))).all((1, 2))
    np.testing.assert_array_equal(found, [False, True, True, True])
    found = np.isnan(jax.vmap(posterior)(jnp.array([1.0, 0.0, -1.0]))).all((1, 2))
    np.testing.assert_array_equal(found, [False, True, True])


@pytest.mark.slow
def test_many_data_sets_at_once(x64):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 23, 2)) + np.arange(23)[:, None] % 2
    y = np.tile(np.arange(23) % 2, (7, 1))
    clf = gcf.lda(2, prior=gcf.NormalInverseWishart(), inference="predictive")
    many = jax.vmap(gcf.fit, (None, 0, 0))(clf, x, y)
    one = gcf.fit(clf, x[2], y[2])
    assert_close(jax.tree.map(lambda a: a[2], many), one, 1e-12)
    solutions = jax.vmap(lambda x, y: gcf.fit_prior(clf, gcf.stats(clf, x, y)))(x, y)
    alone = gcf.fit_prior(clf, gcf.stats(clf, x[2], y[2]))
    np.testing.assert_allclose(solutions.log_evidence[2], alone.log_evidence, rtol=1e-11)


def test_a_student_t_has_no_likelihood_of_statistics():
    clf, s = with_stats(gcf.lda(2, prior=niw()))
    raises("log_lik needs sufficient statistics", lambda: gcf.log_lik(gcf.predictive(clf, s), s))


def test_a_new_prior_is_no_new_trace():
    traces = []

    @jax.jit
    def evidence(clf, s):
        traces.append(1)
        return gcf.log_evidence(clf, s)

    s = gcf.stats(gcf.qda(2), X, Y)
    for dof in (3.0, 4.0, 5.0):
        evidence(gcf.qda(2, prior=niw(dof=dof)), s)
    assert len(traces) == 1


@pytest.mark.slow
def test_every_verb_heeds_inference():
    x, y = BY_NAME["gaussian-diag"].example("float32")
    prior = gcf.NormalInverseWishart(mean=0.0, kappa=5.0, scale=3.0, dof=7.0)
    ml = gcf.gaussian_nb(K, prior=prior, class_alpha=3.0, inference="ml")
    params, s = gcf.fit(ml, x, y), gcf.stats(ml, x, y)
    assert_close(params, gcf.fit(gcf.gaussian_nb(K), x, y), 1e-6)
    assert gcf.certify(ml, params, x, y).valid
    assert not gcf.certify(gcf.gaussian_nb(K, prior=prior), params, x, y).valid
    assert_close(gcf.fit_lagrange(ml, s).params, params, 1e-5)
    assert_close(gcf.fit_gradient(ml, x, y).params, params, 1e-3)
    predictive = gcf.gaussian_nb(K, prior=prior, inference="predictive")
    for verb in (gcf.fit_gradient, gcf.certify):
        args = (predictive, params, x, y) if verb is gcf.certify else (predictive, x, y)
        raises("integrates the parameters out", lambda: verb(*args))  # noqa: B023
    raises("integrates the parameters out", lambda: gcf.fit_lagrange(predictive, s))
    # One row in a class: with a prior regular, without its use singular.
    few, labels = x[:4], np.array([0, 1, 1, 2])
    gcf.validate(gcf.gaussian_nb(K, prior=prior), few, labels)
    raises("rank", lambda: gcf.validate(ml_like(ml), few, labels))
    gcf.validate(predictive, few, labels)
    flat = gcf.qda(K, inference="predictive")
    seven_each = np.random.default_rng(0).normal(size=(21, 5)).astype(np.float32)
    raises(
        "the predictive needs a proper posterior",
        lambda: gcf.validate(flat, seven_each, np.arange(21) % K),
    )


def ml_like(clf):
    return gcf.Classifier(clf.family, K, inference="ml")


@pytest.mark.slow("1.0-diag", "1.0-full", "1.0-spherical", "10000.0-full")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
@pytest.mark.parametrize("strength", [1.0, 1e4, 1e8])
def test_evidence_of_gaussians_in_float32(covariance, strength):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1009, 2)), np.arange(1009) % 2
    found = {}
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            prior = niw(kappa=strength, scale=strength, dof=strength + 2)
            clf = gcf.Classifier(gcf.Gaussian(covariance, prior=prior), 2)
            found[dtype] = float(gcf.log_evidence(clf, gcf.stats(clf, x.astype(dtype), y)))
    np.testing.assert_allclose(found["float32"], found["float64"], rtol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.05, 1.0, 1e4, 1e6])
def test_evidence_and_densities_of_tables_in_float32(strength):
    # A column of ones, fractional weights: rounding leaves zeros that are none.
    rng = np.random.default_rng(0)
    x = (rng.random((100_003, 2)) < [2, 0.5]).astype(int)
    y, w = rng.integers(0, 2, len(x)), rng.random(len(x))
    found = {}
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            bits = gcf.bernoulli_nb(2, prior=gcf.Beta(strength, strength))
            codes = gcf.categorical_nb(2, 2, prior=gcf.Dirichlet(strength))
            of = [gcf.stats(clf, x.astype(dtype), y, w.astype(dtype)) for clf in (bits, codes)]
            evidence = [
                float(gcf.log_evidence(c, s)) for c, s in zip((bits, codes), of, strict=True)
            ]
            post = gcf.posterior(bits, of[0])
            found[dtype] = [*evidence, float(post.log_prob(post.mean))]
    # Sums of 1e5 weights are good to a few units of 1e-7.
    np.testing.assert_allclose(found["float32"][:2], found["float64"][:2], rtol=3e-6)
    # In the density of the class prior, logarithms of gamma functions of n cancel.
    atol = np.finfo(np.float32).eps * len(x)
    np.testing.assert_allclose(found["float32"][2], found["float64"][2], rtol=0, atol=atol)


def test_statistics_of_another_model_are_refused():
    three = gcf.stats(gcf.qda(3), X, np.array([0, 1, 2, 0, 1]))
    clf = gcf.qda(2, prior=niw())
    many = jax.vmap(lambda y: gcf.stats(clf, X, y))(jnp.stack([Y, Y]))
    for verb in (gcf.posterior, gcf.predictive, gcf.log_evidence, gcf.fit_prior, gcf.bayes.prior):
        raises(r"stats.count has shape \(3,\), expected \(2,\)", lambda: verb(clf, three))  # noqa: B023
        raises(r"stats.count has shape \(2, 2\)", lambda: verb(clf, many))  # noqa: B023
        words = gcf.stats(gcf.multinomial_nb(2), X.astype(int), Y)
        raises("estimates from Moments", lambda: verb(clf, words))  # noqa: B023
        invalid = gcf.stats(clf, np.where(X == 9, np.nan, X), Y)
        raises("statistics hold NaN.*validate", lambda: verb(clf, invalid))  # noqa: B023


@pytest.mark.parametrize(
    ("clf", "message"),
    [
        (gcf.qda(2, prior=niw(dof=np.array([3.0, 4.0]))), "dof of the prior.*one finite number"),
        (gcf.qda(2, prior=niw(mean=np.nan)), "mean of the prior is nan, expected finite"),
        (gcf.qda(2, prior=niw(kappa=np.inf)), "kappa of the prior is inf, expected > 0 and finite"),
        (gcf.qda(2, prior=niw(scale=np.ones((3, 2)))), r"scale of the prior has shape \(3, 2\)"),
        (gcf.qda(2, prior=niw(scale=1e-9 * np.array([[1, 0.5], [0, 1]]))), "positive definite"),
    ],
)
def test_numbers_of_a_prior_are_checked(clf, message):
    raises(message, lambda: gcf.fit(clf, X, Y))


def test_a_prior_of_another_family_is_named():
    x = X.astype(int)
    wrong = gcf.Classifier(gcf.Multinomial(prior=None), 2)
    for family, name in (
        (gcf.Gaussian, "NormalInverseWishart"),
        (gcf.Multinomial, "Dirichlet"),
        (gcf.Bernoulli, "Beta"),
    ):
        other = gcf.Beta(1.0, 1.0) if name != "Beta" else gcf.Dirichlet(1.0)
        model = family(prior=None)
        object.__setattr__(model, "prior", other)
        clf = gcf.Classifier(model, wrong.num_classes)
        raises(f"prior is .*, expected a {name}", lambda: gcf.fit(clf, x, Y))  # noqa: B023


@pytest.mark.slow
def test_no_examples_prefer_no_prior():
    clf, s = with_stats(gcf.multinomial_nb(2), X.astype(int))
    nobody = jax.tree.map(jnp.zeros_like, s)
    assert gcf.log_evidence(clf, nobody) == 0
    assert not gcf.fit_prior(clf, nobody).converged


def test_lists_are_arrays():
    clf = gcf.multinomial_nb(2, prior=gcf.Dirichlet([2.0, 3.0]))
    same = gcf.multinomial_nb(2, prior=gcf.Dirichlet(np.array([2.0, 3.0])))
    assert_close(gcf.fit(clf, X, Y), gcf.fit(same, X, Y), 0)


def test_intervals_of_what_is_certain_and_of_no_level():
    clf, s = with_stats(gcf.categorical_nb(1, (2, 1)), np.array([[0, 0]]), np.array([0]))
    post = gcf.posterior(clf, s)
    lower, upper = post.interval(0.9)["theta"]
    assert lower[0, 2] == upper[0, 2] == 1 and 0 < lower[0, 0] < upper[0, 0] < 1
    for level in (0.0, 1.0, 95.0, jnp.array([0.5, 0.9])):
        raises("expected one probability between 0 and 1", lambda: post.interval(level))  # noqa: B023
    raises("on the host", lambda: jax.jit(lambda s: gcf.posterior(clf, s).interval())(s))


@pytest.mark.slow("full", "diag")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_a_prior_with_the_numbers_of_some_data_is_the_same_for_others(covariance):
    x, y = BY_NAME["gaussian"].example("float32")
    s, few = (gcf.stats(gcf.qda(K), x[:n], y[:n]).conditional for n in (N, 17))
    for given in ({}, {"mean": 0.5}, {"scale": 2.0}):
        prior = gcf.NormalInverseWishart(kappa=0.3, dof=8.0, **given)
        used = prior.resolve(s, covariance, shared=False)
        assert_close(prior.with_numbers_of(used).resolve(few, covariance, shared=False), used, 1e-6)


def test_fit_prior_gives_the_numbers_that_it_used():
    x, y = BY_NAME["gaussian"].example("float32")
    family = gcf.Product({"a": gcf.Gaussian(prior=gcf.NormalInverseWishart())})
    clf = gcf.Classifier(family, K)
    found = jax.eval_shape(lambda: gcf.fit_prior(clf, gcf.stats(clf, {"a": x}, y)))
    prior = found.classifier.family.parts["a"].prior
    assert prior.mean.shape == (D,) and prior.scale.shape == (D, D)


def test_a_proper_prior_is_given():
    with pytest.raises(ValueError, match=r"Poisson has no proper prior: give prior=Gamma"):
        _ = gcf.Poisson().given_prior
    assert gcf.Poisson(prior=gcf.Gamma(2.0, 3.0)).given_prior == gcf.Gamma(2.0, 3.0)
