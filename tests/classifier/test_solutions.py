"""All iterative methods return a `Solution`, and those of statistics take rows too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf

N = 101
rng = np.random.default_rng(0)
Y = rng.integers(0, 3, N)
X = rng.normal(size=(N, 5)) @ rng.normal(size=(5, 5)) + Y[:, None]
W = rng.uniform(0.5, 2, N)
COUNTS = rng.poisson(np.array([[1, 2, 3, 4], [4, 1, 1, 2], [2, 2, 5, 1]])[Y])


def log_likelihood(params, x, y, w):
    return (w * np.asarray(gcf.log_joint(params, x))[np.arange(len(y)), y]).sum()


@pytest.fixture(name="solutions")
def fixture_solutions(x64):
    sums = gcf.stats(gcf.multinomial_nb(3), COUNTS, Y)
    one = jnp.ones(2) / 2
    return {
        "em": gcf.em(gcf.lda(3), X, Y, weights=W),
        "adapt_prior": gcf.adapt_prior(gcf.fit(gcf.lda(3), X, Y), X),
        "fit_gradient": gcf.fit_gradient(gcf.lda(3), X, Y, W),
        "fit_lagrange": gcf.fit_lagrange(gcf.lda(3), X, Y, W),
        "fit_prior": gcf.fit_prior(gcf.multinomial_nb(3), sums),
        "softmax": gcf.fit(gcf.SoftmaxRegression(3, l2=0.1), X, Y, W),
        "solve_constrained": gcf.solve_constrained(
            lambda p: 3 * jnp.log(p[0]) + jnp.log(p[1]), lambda p: p.sum() - 1, one
        ),
    }


def test_each_has_params_an_objective_and_says_whether_it_converged(solutions):
    for name, found in solutions.items():
        assert isinstance(found, gcf.Solution), name
        assert found.converged, name
        assert found.steps >= 1, name
        assert np.shape(found.value) == (), name
        lines = repr(found).splitlines()
        assert len(lines) <= 25 and max(map(len, lines)) <= 100, name
        if np.ndim(found.objective):  # a trace, which ends at the value
            trace = np.asarray(found.objective)
            assert trace[~np.isnan(trace)][-1] == found.value, name


def test_the_objective_is_what_was_maximised(solutions):
    expected = log_likelihood(gcf.fit(gcf.lda(3), X, Y, W), X, Y, W)
    for name in ("em", "fit_gradient", "fit_lagrange"):
        np.testing.assert_allclose(solutions[name].value, expected, rtol=1e-9, err_msg=name)
    adapted = solutions["adapt_prior"]
    marginal = np.asarray(gcf.log_marginal(adapted.params, X)).sum()
    np.testing.assert_allclose(adapted.value, marginal, rtol=1e-9)
    best = solutions["fit_prior"]
    sums = gcf.stats(best.classifier, COUNTS, Y)
    np.testing.assert_allclose(best.value, gcf.log_evidence(best.classifier, sums), rtol=1e-12)
    for a, b in zip(
        jax.tree.leaves(best.params),
        jax.tree.leaves(gcf.estimate(best.classifier, sums)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    softmax = solutions["softmax"]
    log_p = np.asarray(gcf.log_posterior(softmax, X))[np.arange(N), Y]
    penalty = 0.05 * W.sum() * (np.asarray(softmax.coef) ** 2).sum()
    np.testing.assert_allclose(softmax.objective, (W * log_p).sum() - penalty, rtol=1e-9)
    assert np.isnan(gcf.softmax_form(gcf.fit(gcf.lda(3), X, Y)).objective)
    value = 3 * np.log(0.75) + np.log(0.25)
    np.testing.assert_allclose(solutions["solve_constrained"].value, value, rtol=1e-9)


def test_a_penalty_is_part_of_the_objective(x64):
    clf = gcf.multinomial_nb(3, alpha=0.5)
    by_gradient, exact = gcf.fit_gradient(clf, COUNTS, Y), gcf.fit_lagrange(clf, COUNTS, Y)
    np.testing.assert_allclose(by_gradient.value, exact.value, rtol=1e-9)


BAYES = gcf.gaussian_nb(3, prior=gcf.NormalInverseWishart())
OF_EITHER = {
    "fit_lagrange": gcf.gaussian_nb(3),
    "posterior": BAYES,
    "predictive": BAYES,
    "log_evidence": BAYES,
    "fit_prior": gcf.multinomial_nb(3),
}


@pytest.mark.slow("fit_lagrange")
@pytest.mark.parametrize("name", OF_EITHER)
def test_rows_and_their_statistics_give_the_same(name, x64):
    clf, verb = OF_EITHER[name], getattr(gcf, name)
    x = COUNTS if name == "fit_prior" else X
    sums = gcf.stats(clf, x, Y, W)
    for found in (verb(clf, x, Y, W), verb(clf, x=x, y=Y, weights=W), verb(clf, x, weights=W, y=Y)):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(verb(clf, sums)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    jax.jit(verb)(clf, x, Y, W)


def test_rows_give_the_multipliers_of_a_shared_covariance(x64):
    found = gcf.fit_lagrange(gcf.lda(3), X, Y)
    count = np.bincount(Y)
    own = np.stack([np.cov(X[Y == k].T, bias=True) for k in range(3)])
    shared = (count[:, None, None] * own).sum(0) / N
    expected = count[1:, None, None] / 2 * (shared - own[1:])
    np.testing.assert_allclose(found.multipliers["scale"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda s: gcf.fit_lagrange(gcf.lda(3), s, Y), "takes statistics or rows"),
        (lambda s: gcf.fit_lagrange(gcf.lda(3), X, Y, stats=s), "takes statistics or rows"),
        (lambda s: gcf.fit_lagrange(gcf.lda(3), x=X), "takes rows with their labels"),
        (lambda s: gcf.fit_lagrange(gcf.lda(3), X), "stats is an array"),
        (lambda s: gcf.fit_lagrange(3, X, Y), "clf is 3"),
        (lambda s: gcf.fit_lagrange(gcf.lda(3), X, Y + 1), "subtract 1"),
    ],
)
def test_a_mixture_of_the_two_is_refused(call, wrong):
    with pytest.raises(ValueError, match=wrong):
        call(gcf.stats(gcf.lda(3), X, Y))


def test_em_starts_from_key_0_if_none_is_given():
    y = np.where(np.arange(N) < 20, Y, -1)
    alone, given = (
        gcf.em(gcf.gaussian_nb(3), X, y, **how) for how in ({}, {"key": jax.random.key(0)})
    )
    for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(given), strict=True):
        np.testing.assert_array_equal(a, b)
