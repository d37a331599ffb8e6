"""Posterior, predictive and evidence: the identities that tie them, for every model."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

import genclf as gcf
from genclf.families.base import Params
from genclf.families.capabilities import HasConjugatePrior
from genclf.families.combined.priors import priors
from tests.registry import (
    BY_NAME,
    DISTINCT,
    FAMILIES,
    TWO_COVARIANCE,
    K,
    N,
    assert_close,
    assert_finite,
    assert_near,
    having,
    leaves_of,
    take,
)

pytestmark = pytest.mark.usefixtures("x64")

ROWS = 13
SHARED = ["gaussian-shared", "gaussian-diag", "gaussian-spherical-shared"]
TABLES = ["bernoulli", "categorical-unequal", "multinomial"]
core = pytest.mark.parametrize(
    "model",
    [*(BY_NAME[n] for n in ["gaussian", *SHARED, *TABLES, "product"]), TWO_COVARIANCE],
    ids=str,
)
every = pytest.mark.parametrize(
    "model", [*having(HasConjugatePrior, DISTINCT), TWO_COVARIANCE], ids=str
)
some = pytest.mark.parametrize(
    "model", [*having(HasConjugatePrior, FAMILIES), TWO_COVARIANCE], ids=str
)
single = pytest.mark.parametrize(
    "model",
    [*(BY_NAME[n] for n in ("gaussian", "univariate", "bernoulli", "multinomial")), TWO_COVARIANCE],
    ids=str,
)
plain = pytest.mark.parametrize("model", [BY_NAME[n] for n in [*SHARED, *TABLES]], ids=str)


def learned(model, n=101, dtype="float64"):
    x, y = model.example(dtype, n)
    return model.bayesian, x, y, gcf.stats(model.bayesian, x, y)


def stronger(
    clf,
    factor,
    names=("concentration", "a", "b", "shape", "rate", "kappa", "dof", "scale", "between"),
    of=None,
):
    """The classifier with these numbers of its priors, or of its family's, multiplied."""
    change = lambda path, leaf: leaf * factor if path[-1].name in names else leaf  # noqa: E731
    if of is None:
        return jax.tree_util.tree_map_with_path(change, clf)
    family = jax.tree_util.tree_map_with_path(change, of)
    return gcf.Classifier(family, K, clf.class_alpha, clf.class_prior)


def on_host(tree):
    """NumPy arrays, of which every slice is not a program of its own."""
    return jax.tree.map(np.asarray, tree)


@jax.jit
def joint(params, x, y):
    return gcf.log_joint(params, x)[jnp.arange(len(y)), y]


@pytest.mark.slow(
    but=(
        "categorical-unequal",
        "multinomial-tokens",
    )
)
@every
def test_evidence_is_the_product_of_one_step_ahead_predictives(model):
    clf, x, y, s = learned(model, ROWS)

    @jax.jit
    def step(s, x, y):
        ahead = joint(gcf.predictive(clf, s), x, y)[0]
        return ahead, gcf.merge(s, gcf.stats(clf, x, y))

    total, seen = 0.0, jax.tree.map(jnp.zeros_like, s)
    for i in range(ROWS):
        ahead, seen = step(seen, take(x, slice(i, i + 1)), y[i : i + 1])
        total += float(ahead)
    assert_near(gcf.log_evidence(clf, s), total, 1e-11, terms=ROWS)


@pytest.mark.slow
@core
def test_posterior_is_prior_times_likelihood_over_evidence(model):
    clf, x, y, s = learned(model)
    post, before = gcf.posterior(clf, s), gcf.bayes.prior(clf, s)
    drawn = on_host(post.sample(jax.random.key(3), (2,)))
    for params in [post.mode, *(jax.tree.map(lambda a: a[i], drawn) for i in range(2))]:  # noqa: B023
        prior, log_lik = before.log_prob(params), gcf.log_lik(params, s)
        bayes = prior + log_lik - gcf.log_evidence(clf, s)
        assert_near(post.log_prob(params), bayes, 1e-11, terms=(prior, log_lik))
        assert_near(log_lik, joint(params, x, y).sum(), 1e-11, terms=len(y))


@pytest.mark.slow
@core
def test_fit_is_the_mode(model):
    clf, x, y, s = learned(model)
    post = gcf.posterior(clf, s)
    assert_close(gcf.fit(clf, x, y), post.mode, 1e-12)
    mode = post.mode
    best = post.log_prob(mode)
    drawn = post.sample(jax.random.key(5), (200,))

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0))
    def density_towards(share, drawn):
        # Some way towards a draw, which stays inside the set of parameters.
        moved = jax.tree.map(lambda m, p: m + share * (p - m), mode, drawn)
        return post.log_prob(_on_the_simplex(moved))

    for share in (1.0, 1e-2):
        assert (np.asarray(density_towards(share, drawn)) < float(best)).all()


def _on_the_simplex(params):
    """Tables renormalised, each within its own column."""

    def fix(node):
        if isinstance(node, gcf.CategoricalParams):
            flat = [jax.nn.log_softmax(node.table(j)) for j in range(node.num_features)]
            return gcf.CategoricalParams(jnp.concatenate(flat, -1), node.columns)
        if isinstance(node, gcf.MultinomialParams):
            log_theta = jax.nn.log_softmax(node.log_theta)
            return gcf.MultinomialParams(log_theta, node.mean_length, node.presence)
        return node

    kinds = (gcf.CategoricalParams, gcf.MultinomialParams)
    conditional = params.conditional
    if isinstance(conditional, gcf.IndependentParams):
        columns = jax.vmap(lambda node: fix(node))(conditional.columns)
        conditional = gcf.IndependentParams(columns)
    else:
        conditional = jax.tree.map(fix, conditional, is_leaf=lambda n: isinstance(n, kinds))
    return gcf.ClassifierParams(jax.nn.log_softmax(params.log_prior), conditional)


@pytest.mark.slow
@plain
def test_the_certificate_and_the_roads_agree_on_the_mode(model):
    clf, x, y, s = learned(model)
    params = gcf.fit(clf, x, y)
    assert gcf.certify(clf, params, x, y).valid
    solved = gcf.fit_lagrange(clf, s)
    assert solved.converged
    assert_close(solved.params, params, 1e-9)


@pytest.mark.slow
@core
def test_draws_have_the_mean_and_the_intervals_of_the_posterior(model):
    clf, _, _, s = learned(model)
    post = gcf.posterior(clf, s)
    drawn = post.sample(jax.random.key(0), (4001,))
    drawn = on_host(drawn)
    means = leaves_of(values(on_host(post.mean)))
    for (path, expected), (_, draws) in zip(means, leaves_of(values(drawn)), strict=True):
        error = draws.std(0) / np.sqrt(len(draws))
        assert (np.abs(draws.mean(0) - expected) <= 6 * error + 1e-12).all(), path
    for level in (0.5, 0.9):
        for name, (lower, upper) in post.interval(level).items():
            draws = np.asarray(find(drawn, name)).reshape(4001, *lower.shape)
            if (lower == upper).all():  # a number that is known
                np.testing.assert_allclose(draws, np.broadcast_to(lower, draws.shape), 1e-12)
                continue
            inside = ((draws > np.asarray(lower)) & (draws < np.asarray(upper))).mean(0)
            # Six standard errors, on either side.
            assert np.abs(inside - level).max() < 6 * np.sqrt(0.25 / 4001), name
            below = (draws < np.asarray(lower)).mean(0)
            assert np.abs(below - (1 - level) / 2).max() < 6 * np.sqrt(0.25 / 4001), name


def values(params):
    """The parameters as probabilities, means and covariances."""
    density = lambda node: isinstance(node, Params) and bool(node.parameters)  # noqa: E731

    def of(node):
        if isinstance(node, gcf.GaussianParams):
            return node.mean, covariance(node)
        if isinstance(node, gcf.BernoulliParams):
            return 1 / (1 + np.exp(-np.asarray(node.logits)))
        return np.exp(node.log_theta)

    parts = jax.tree.map(of, params.conditional, is_leaf=density)
    return np.exp(params.log_prior), parts


def covariance(node):
    if node.covariance != "full":
        return node.scale**2
    return np.einsum("...ij,...kj->...ik", node.scale, node.scale)


def find(params, name):
    *block, value = name.split(".")
    if value == "class_prior":
        return np.exp(params.log_prior)
    node = params.conditional
    node = node.parts[block[0]] if block else node
    node = node.columns if isinstance(node, gcf.IndependentParams) else node
    if value == "variance":
        found = covariance(node)
        full = node.covariance == "full"
        return np.diagonal(found, axis1=-2, axis2=-1) if full else found
    found = {"theta": lambda: np.exp(node.log_theta), "probs": lambda: node.probs}
    return found[value]() if value in found else getattr(node, value)


@pytest.mark.slow
@core
def test_predictive_is_the_average_density_of_draws(model):
    clf, x, _, s = learned(model)
    drawn = gcf.posterior(clf, s).sample(jax.random.key(1), (2003,))
    few = take(x, slice(0, 5))
    densities = np.exp(jax.vmap(gcf.log_joint, (0, None))(drawn, few))
    error = densities.std(0) / np.sqrt(len(densities))
    exact = np.exp(gcf.log_joint(gcf.predictive(clf, s), few))
    # Densities are skewed: eight standard errors.
    assert (np.abs(densities.mean(0) - exact) <= 8 * error + 1e-12).all()


@pytest.mark.slow
@core
def test_one_flag(model):
    clf, x, y, s = learned(model)
    of = lambda inference: gcf.Classifier(  # noqa: E731
        clf.family, K, clf.class_alpha, clf.class_prior, inference
    )
    assert_close(gcf.fit(of("map"), x, y), gcf.posterior(clf, s).mode, 1e-14)
    assert_close(gcf.fit(of("ml"), x, y), gcf.fit(model.plain, x, y), 1e-12)
    assert_close(gcf.fit(of("predictive"), x, y), gcf.predictive(clf, s), 1e-14)
    # Params of the other two are those of other laws.
    params = gcf.predictive(clf, s)
    posterior = np.asarray(gcf.log_posterior(params, x))
    np.testing.assert_allclose(np.exp(posterior).sum(-1), 1, rtol=1e-12)
    np.testing.assert_array_equal(gcf.predict(params, x), posterior.argmax(-1))
    drawn, labels = gcf.sample(jax.random.key(0), params, (N,))
    assert (np.asarray(gcf.predict(params, drawn)) >= 0).all() and labels.shape == (N,)


@pytest.mark.slow
@some
def test_under_jit_vmap_and_in_float32(model):
    clf, x, _, s = learned(model)

    def everything(s):
        post = gcf.posterior(clf, s)
        score = gcf.log_joint(gcf.predictive(clf, s), take(x, slice(0, 7)))
        return post, post.mean, score, gcf.log_evidence(clf, s)

    eager = everything(s)
    two = jax.tree.map(lambda a: np.stack([a, a]), s)
    batched = jax.jit(jax.vmap(everything))(two)
    second = lambda tree: jax.tree.map(lambda a: np.asarray(a)[1], tree)  # noqa: E731
    assert_close(second(batched[1:]), on_host(eager[1:]), 1e-11)
    assert_close(second(batched[0].interval(0.8)), on_host(eager[0].interval(0.8)), 1e-10)
    with jax.enable_x64(False):
        clf32, x32, _, s32 = learned(model, dtype="float32")
        single = gcf.log_joint(gcf.predictive(clf32, s32), take(x32, slice(0, 7)))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, eager[2], rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(gcf.log_evidence(clf32, s32), eager[3], rtol=1e-4)


@pytest.mark.slow
@single
def test_gradients_of_the_evidence_and_of_a_predictive_score(model):
    clf, x, y, s = learned(model)
    few, labels = take(x, slice(0, 7)), y[:7]

    @jax.jit
    def objective(step):
        moved = stronger(clf, 1 + step)
        score = joint(gcf.predictive(moved, s), few, labels).sum()
        return score + gcf.log_evidence(moved, s)

    h = 1e-5
    slope = (objective(h) - objective(-h)) / (2 * h)
    assert_near(jax.jit(jax.grad(objective))(0.0), slope, 1e-6)
    assert_near(jax.jit(lambda t: jax.jvp(objective, (0.0,), (t,))[1])(1.0), slope, 1e-6)
    assert_finite(jax.jit(jax.grad(lambda s: gcf.log_evidence(clf, s), allow_int=True))(s))


@pytest.mark.slow
@single
def test_fit_prior_finds_a_stationary_point_of_the_evidence(model):
    clf, _, _, s = learned(model)
    found = gcf.fit_prior(clf, s)
    best = found.log_evidence
    np.testing.assert_allclose(best, gcf.log_evidence(found.classifier, s), rtol=1e-12)
    assert best >= gcf.log_evidence(clf, s)
    for one, other in zip(
        jax.tree.leaves(priors(found.classifier.family, s.conditional)),
        jax.tree.leaves(priors(found.classifier.family, gcf.scale(s, 0.3).conditional)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    assert found.converged
    family = found.classifier.family
    given = clf.family.prior
    if isinstance(given, gcf.NormalInverseWishart):  # a scale left to the data changes with dof
        left = {"mean": given.mean, "scale": given.scale}
        family = replace(family, prior=replace(family.prior, **left))
    for factor in (0.98, 1.02):
        for name in ("concentration", "a", "b", "kappa", "dof", "between", "within"):
            worse = stronger(found.classifier, factor, names=(name,), of=family)
            assert gcf.log_evidence(worse, s) <= best + 1e-9 * abs(best)


@pytest.mark.slow
def test_scale_of_the_data_does_not_matter_to_a_prior_of_its_units():
    x, y = BY_NAME["gaussian"].example("float64")
    for covariance_ in ("full", "diag", "spherical"):
        for shared in (False, True):
            family = gcf.Gaussian(covariance_, shared, prior=gcf.NormalInverseWishart())
            clf = gcf.Classifier(family, K, inference="predictive")
            expected = gcf.log_posterior(gcf.fit(clf, x, y), x)
            for factor in (2.0**-30, 2.0**30):
                found = gcf.log_posterior(gcf.fit(clf, factor * x, y), factor * x)
                np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_ranks_of_true_parameters_are_uniform():
    # Simulation-based calibration: parameters from the prior, data from them, and the rank of the
    # parameter among draws of the posterior.
    prior = gcf.NormalInverseWishart(mean=1.0, kappa=0.5, scale=2.0, dof=6.0)
    clf = gcf.Classifier(gcf.Gaussian(prior=prior), 2, class_prior=gcf.Dirichlet(3.0))
    x = jnp.zeros((2, 3))
    before = gcf.bayes.prior(clf, gcf.stats(clf, x, jnp.arange(2)))

    @jax.jit
    @jax.vmap
    def ranks(key):
        keys = jax.random.split(key, 3)
        truth = before.sample(keys[0])
        s = gcf.stats(clf, *gcf.sample(keys[1], truth, (11,)))
        drawn = gcf.posterior(clf, s).sample(keys[2], (99,))
        of = lambda p: jnp.stack(  # noqa: E731
            [p.log_prior[0], p.conditional.mean[0, 1], p.conditional.scale[1, 2, 0]]
        )
        return (jax.vmap(of)(drawn) < of(truth)[None]).sum(0)

    found = np.asarray(ranks(jax.random.split(jax.random.key(2), 1009)))
    rng = np.random.default_rng(0)
    for rank in found.T:
        assert kstest((rank + rng.random(len(rank))) / 100, "uniform").pvalue > 1e-4


@pytest.mark.slow
def test_draws_of_the_prior_write_documents_of_the_usual_length():
    model = BY_NAME["multinomial"]
    clf, x, _, s = learned(model)
    params = gcf.bayes.prior(clf, s).sample(jax.random.key(0))
    drawn, _ = gcf.sample(jax.random.key(1), params, (2003,))
    mean = x.sum() / len(x)
    assert abs(drawn.sum(1).mean() - mean) < 6 * np.sqrt(mean / 2003)
