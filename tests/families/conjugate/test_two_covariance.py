"""The two-covariance model (PLDA) beside dense Gaussians of all rows in NumPy and SciPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import genclf as gcf
from tests.registry import assert_finite

K, D = 7, 5
SIZES = (1, 4, 3, 0, 6, 1, 8)  # one class has no row, and two have one

rng = np.random.default_rng(3)
ROOTS = rng.normal(size=(2, D, D))
BETWEEN, WITHIN = (root @ root.T + 0.5 * np.eye(D) for root in ROOTS)
MEAN = rng.normal(size=D)
Y = np.repeat(np.arange(K), SIZES)
X = MEAN + (rng.normal(size=(K, D)) @ ROOTS[0].T)[Y] + rng.normal(size=(len(Y), D)) @ ROOTS[1].T

FORMS = {
    "full": ("full", BETWEEN, WITHIN),
    "diag": ("diag", np.diag(BETWEEN), np.diag(WITHIN)),
    "spherical": ("spherical", 2.3, 1.7),
    "numbers": ("full", 2.3, 1.7),
    "rank one": ("full", np.outer(ROOTS[0, 0], ROOTS[0, 0]), WITHIN),
    "none": ("full", 0.0, WITHIN),
}
form = pytest.mark.parametrize("name", FORMS)
pytestmark = pytest.mark.usefixtures("x64")


def matrix(a):
    return a if np.ndim(a) == 2 else np.diag(np.broadcast_to(a, D))


def model(name, num_classes=K, **options):
    covariance, between, within = FORMS[name]
    prior = gcf.TwoCovariance(MEAN, between, within)
    family = gcf.Gaussian(covariance, shared=True, prior=prior)
    return gcf.Classifier(family, num_classes, class_alpha=1.0, **options), *map(
        matrix, (between, within)
    )


def log_of_rows(x, y, mean, between, within):
    """Log-density of all rows together: one Gaussian of n d numbers."""
    same = y[:, None] == y[None]
    dense = np.kron(np.eye(len(y)), within) + np.kron(same, between)
    return multivariate_normal(np.tile(mean, len(y)), dense).logpdf(x.ravel())


def evidence(clf, x, y):
    """That of the rows given their labels."""
    s = gcf.stats(clf, x, y)
    return clf.family.conjugate_prior(s.conditional).log_evidence(s.conditional)


@pytest.mark.slow("full", "diag")
@form
def test_means_predictive_and_evidence_are_those_of_one_dense_gaussian(name):
    clf, between, within = model(name)
    mean = np.asarray(gcf.fit(clf, X, Y).conditional.mean)
    score = np.asarray(gcf.predictive(clf, X, Y).conditional.log_prob(jnp.asarray(X)))
    for k in range(K):
        n = SIZES[k]
        gain = between @ np.linalg.inv(between + within / n) if n else np.zeros((D, D))
        at = MEAN + gain @ (X[k == Y].mean(0) - MEAN) if n else MEAN
        np.testing.assert_allclose(mean[k], at, atol=1e-12)
        law = multivariate_normal(at, within + between - gain @ between)
        np.testing.assert_allclose(score[:, k], law.logpdf(X), rtol=1e-11)
    expected = log_of_rows(X, Y, MEAN, between, within)
    np.testing.assert_allclose(evidence(clf, X, Y), expected, rtol=1e-12)
    covariance = gcf.fit(clf, X, Y).conditional.covariances
    np.testing.assert_allclose(matrix(np.asarray(covariance[0])), within, atol=1e-13)


@form
def test_the_ratio_of_evidences_is_that_of_dense_gaussians(name):
    clf, between, within = model(name)
    first, second = gcf.stats(clf, X, Y), gcf.stats(replace(clf, num_classes=3), X, Y % 3)
    found = np.asarray(gcf.bayes.same_class(clf, first, second))
    assert found.shape == (K, 3)
    joint = lambda *sets: log_of_rows(  # noqa: E731
        np.concatenate(sets), np.zeros(sum(map(len, sets)), int), MEAN, between, within
    )
    for k in range(K):
        for j in range(3):
            a, b = X[k == Y], X[j == Y % 3]
            expected = joint(a, b) - joint(a) - joint(b) if len(a) else 0
            np.testing.assert_allclose(found[k, j], expected, atol=1e-9)
    np.testing.assert_allclose(gcf.bayes.same_class(clf, second, first), found.T, atol=1e-10)


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_numbers_left_to_the_data_are_the_moment_estimates(covariance):
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=True, prior=gcf.TwoCovariance()), K)
    s = gcf.stats(clf, X, Y)
    used = clf.family.prior.with_numbers_of(clf.family.conjugate_prior(s.conditional))
    n = np.bincount(Y, minlength=K)
    present = n > 0
    means = np.stack([X[k == Y].mean(0) if n[k] else MEAN for k in range(K)])
    scatter = sum((X[k == Y] - means[k]).T @ (X[k == Y] - means[k]) for k in range(K))
    within = scatter / (len(X) - present.sum())
    deviation = means - X.mean(0)
    spread = (n[:, None] * deviation).T @ deviation / (present.sum() - 1)
    each = (len(X) - (n**2).sum() / len(X)) / (present.sum() - 1)
    between = (spread - within) / each
    if covariance == "full":
        root = np.linalg.cholesky(within)
        whitened = np.linalg.solve(root, np.linalg.solve(root, between).T)
        values, vectors = np.linalg.eigh(whitened)
        assert values[0] < 0
        basis = root @ vectors
        between = (basis * np.maximum(values, 0)) @ basis.T
    else:
        within, between = np.diag(within), np.diag(between)
        if covariance == "spherical":
            within, between = within.mean(keepdims=True), between.mean(keepdims=True)
        between = np.maximum(between, 0)
    np.testing.assert_allclose(used.within, within, rtol=1e-12)
    np.testing.assert_allclose(used.between, between, atol=1e-12)
    forms = [matrix(a[0] if a.size == 1 else a) for a in (between, within)]
    known = [np.linalg.inv(forms[0] + forms[1] / n[k]) for k in range(K) if n[k]]
    weighted = sum(a @ m for a, m in zip(known, means[present], strict=True))
    np.testing.assert_allclose(used.mean, np.linalg.solve(sum(known), weighted), rtol=1e-10)


@pytest.mark.slow("diag", "full")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_em_finds_the_highest_evidence_that_an_optimiser_finds(covariance):
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=True, prior=gcf.TwoCovariance()), K)
    found = gcf.fit_prior(clf, X, Y)
    assert found.converged and found.gradient_norm <= 1e-9 and found.steps < 300
    size = {"full": D * D, "diag": D, "spherical": 1}[covariance]
    p = found.classifier.family.prior
    form = lambda a: matrix(a.reshape(D, D) if size == D * D else a if size == D else a[0])  # noqa: E731

    def loss(free):
        mean, b, w = np.split(free, [D, D + size])
        b, w = form(b), form(w)
        return -log_of_rows(X, Y, mean, b @ b.T, w @ w.T)

    def root(a):
        a = np.asarray(a)
        values, vectors = np.linalg.eigh(a) if size == D * D else (a, np.eye(1))
        root = np.sqrt(np.maximum(values, 1e-4))
        return (vectors * root).ravel() if size == D * D else root

    start = np.concatenate([np.asarray(p.mean) + 0.01, root(p.between), root(p.within)])
    best = minimize(loss, start, method="BFGS", options={"maxiter": 40})
    own = evidence(found.classifier, X, Y)
    assert own >= -best.fun - 1e-7 * abs(best.fun)
    ends = [matrix(a[0] if size == 1 else a) for a in map(np.asarray, (p.between, p.within))]
    np.testing.assert_allclose(own, log_of_rows(X, Y, np.asarray(p.mean), *ends), rtol=1e-10)


def test_a_singular_start_keeps_its_rank():
    factor = rng.normal(size=(D, 2))
    prior = gcf.TwoCovariance(MEAN, factor @ factor.T, WITHIN)
    clf = gcf.Classifier(gcf.Gaussian(shared=True, prior=prior), K)
    found = gcf.fit_prior(clf, X, Y)
    values = np.linalg.eigvalsh(found.classifier.family.prior.between)
    assert found.converged and (np.abs(values[:3]) < 1e-12).all() and values[3] > 1e-3
    assert gcf.log_evidence(found.classifier, X, Y) > gcf.log_evidence(clf, X, Y)


def test_means_vary_in_the_directions_of_between_alone():
    clf, *_ = model("rank one")
    post = gcf.posterior(clf, X, Y)
    mode = post.mode
    drawn = post.sample(jax.random.key(0), (5,))
    direction = ROOTS[0, 0] / np.linalg.norm(ROOTS[0, 0])
    for mean in (mode.conditional.mean, *drawn.conditional.mean):
        away = np.asarray(mean) - MEAN
        np.testing.assert_allclose(away - np.outer(away @ direction, direction), 0, atol=1e-12)
    assert np.isfinite(post.log_prob(mode))
    outside = np.linalg.svd(direction[None])[2][-1]
    moved = replace(mode.conditional, mean=mode.conditional.mean + outside[None])
    assert post.log_prob(replace(mode, conditional=moved)) == -np.inf
    own = gcf.bayes.prior(clf, gcf.stats(clf, X, Y))
    prior, likelihood = own.log_prob(mode), gcf.log_lik(mode, gcf.stats(clf, X, Y))
    told = prior + likelihood - gcf.log_evidence(clf, X, Y)
    np.testing.assert_allclose(post.log_prob(mode), told, rtol=1e-10)


@pytest.mark.slow
def test_the_story_draws_means_from_standard_noise():
    clf, *_ = model("rank one")
    noise = np.random.default_rng(0).normal(size=(K, D))
    sites = {"mean_noise": noise, "class_prior": np.full(K, 1 / K)}
    found, trace = log_density(gcf.bayes.story(clf), (X, Y), {}, sites)
    mean = trace["mean"]["value"]
    drawn = gcf.ClassifierParams.of(np.full(K, 1 / K), gcf.GaussianParams.of(mean, WITHIN))
    expected = (
        gcf.log_joint(drawn, X)[np.arange(len(Y)), Y].sum() + dist.Normal().log_prob(noise).sum()
    )
    expected = expected + dist.Dirichlet(np.full(K, 2.0)).log_prob(np.full(K, 1 / K))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
def test_unlabelled_rows_and_missing_cells_do_not_decrease_the_objective():
    clf, *_ = model("full")
    hidden = np.where(np.arange(len(Y)) % 3 == 0, -1, Y)
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    for fitted, x in (
        (clf, X),
        (replace(clf, family=replace(clf.family, missing="marginalize")), holes),
    ):
        found = gcf.em(fitted, x, hidden)
        trace = np.asarray(found.objective)[: int(found.steps)]
        assert found.converged and len(trace) > 3 and (np.diff(trace) > -1e-9).all()
        covariance = found.params.conditional.covariances[0]
        np.testing.assert_allclose(covariance, WITHIN, rtol=1e-10)


@pytest.mark.slow
def test_derivatives_are_those_of_differences():
    clf, *_ = model("full")
    s = gcf.stats(clf, X, Y)
    change = rng.normal(size=(2, D, D))
    change = change + change.transpose(0, 2, 1)

    def told(step):
        prior = gcf.TwoCovariance(MEAN, BETWEEN + step * change[0], WITHIN + step * change[1])
        moved = replace(clf, family=replace(clf.family, prior=prior))
        rows = gcf.predictive(moved, s).conditional.log_prob(jnp.asarray(X[:7]))
        return gcf.log_evidence(moved, s) + rows.sum()

    told = jax.jit(told)
    slope = (told(1e-5) - told(-1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(told)(0.0), slope, rtol=1e-6)
    open_ = gcf.Classifier(gcf.Gaussian(shared=True, prior=gcf.TwoCovariance()), K)
    of_rows = lambda x: gcf.log_evidence(open_, x, Y)  # noqa: E731
    grad = jax.jit(jax.grad(of_rows))(X)
    assert_finite(grad)
    away = rng.normal(size=X.shape)
    slope = (of_rows(X + 1e-5 * away) - of_rows(X - 1e-5 * away)) / 2e-5
    np.testing.assert_allclose((grad * away).sum(), slope, rtol=1e-5)


def test_singular_counts_and_wrong_numbers_are_named():
    gaussian = lambda **prior: gcf.Gaussian(shared=True, prior=gcf.TwoCovariance(**prior))  # noqa: E731
    few = X[[0, 1, 5]], np.arange(3)
    open_ = gcf.Classifier(gaussian(), 3)
    for function in (gcf.log_evidence, gcf.fit_prior, gcf.validate):
        with pytest.raises(ValueError, match="3 rows of 3 classes do not determine the covariance"):
            function(open_, *few)
    still = np.where(np.arange(D) == 2, 1.0, X)
    for prior in ({}, {"mean": 0.0, "between": 1.0, "within": 1.0}):
        with pytest.raises(ValueError, match=r"features \[2\] do not vary within classes"):
            gcf.fit_prior(gcf.Classifier(gaussian(**prior), K), still, Y)
    with pytest.raises(ValueError, match="between is None, and 1 class has rows"):
        gcf.log_evidence(gcf.Classifier(gaussian(), 1), X, 0 * Y)
    given = {"mean": 0.0, "between": 1.0, "within": 1.0}
    for wrong, text in [
        ({"within": 0.0}, "within of the prior is 0.0, expected positive definite"),
        ({"between": -1.0}, "between of the prior is -1.0, expected positive semi-definite"),
        ({"between": np.array([-1e-6, 1, 1, 1, 1])}, "between of the prior is .*semi-definite"),
        ({"between": np.diag([-1.0, 1, 1, 1, 1e10])}, "between of the prior is"),
        ({"within": np.eye(D) + np.eye(D, k=1)}, "within of the prior is"),
        ({"between": np.ones((2, 3))}, r"between of the prior has shape \(2, 3\)"),
        ({"within": np.eye(4)}, r"within has shape \(4, 4\), expected"),
        ({"mean": np.zeros((K, D))}, r"mean has shape \(7, 5\), expected"),
    ]:
        with pytest.raises(ValueError, match=text):
            gcf.fit(gcf.Classifier(gaussian(**given | wrong), K), X, Y)
    with pytest.raises(ValueError, match="expected shared=True"):
        gcf.fit(gcf.qda(K, prior=gcf.TwoCovariance(**given)), X, Y)
    with pytest.raises(ValueError, match="certify: the covariance is that of TwoCovariance"):
        clf = gcf.Classifier(gaussian(**given), K)
        gcf.certify(clf, gcf.fit(clf, X, Y), X, Y)
    with pytest.raises(ValueError, match="EM cannot use a TwoCovariance without numbers"):
        gcf.em(gcf.Classifier(gaussian(), K), X, Y)
    sets = gcf.stats(gcf.lda(K), X, Y)
    with pytest.raises(ValueError, match="TwoCovariance leaves numbers to the data"):
        gcf.bayes.same_class(gcf.Classifier(gaussian(), K), sets, sets)
    shared = gcf.lda(K, prior=gcf.NormalInverseWishart(0.0, 1.0, 1.0, D + 2.0))
    with pytest.raises(ValueError, match="share a covariance that is not known"):
        gcf.bayes.same_class(shared, sets, sets)
    columns = gcf.Independent(gaussian(**given))
    with pytest.raises(ValueError, match="one TwoCovariance in Independent"):
        gcf.fit_prior(gcf.Classifier(columns, K), X, Y)


def test_wrong_matrices_are_nan_under_jit():
    def mean(between, within):
        prior = gcf.TwoCovariance(MEAN, between, within)
        return gcf.fit(gcf.Classifier(gcf.Gaussian(shared=True, prior=prior), K), X, Y)

    of = jax.jit(lambda b, w: mean(b, w).conditional.mean)
    assert_finite(of(BETWEEN, WITHIN))
    for between, within in [
        (np.diag([-1.0, 1, 1, 1, 1e10]), WITHIN),
        (np.eye(D) + 0.5 * np.eye(D, k=1), WITHIN),
        (BETWEEN, np.eye(D) + 0.5 * np.eye(D, k=1)),
        (BETWEEN, -WITHIN),
    ]:
        assert np.isnan(of(between, within)).all()


def test_units_of_features_do_not_matter():
    units = np.array([1.0, 1e-8, 1e8, 1e-3, 1e3])
    scaled = [a * units * units[:, None] for a in (BETWEEN, WITHIN)]
    clf, *_ = model("full", inference="predictive")
    prior = gcf.TwoCovariance(MEAN * units, *scaled)
    other = replace(clf, family=replace(clf.family, prior=prior))
    found = gcf.log_posterior(gcf.fit(other, X * units, Y), X * units)
    np.testing.assert_allclose(found, gcf.log_posterior(gcf.fit(clf, X, Y), X), atol=1e-9)


@pytest.mark.slow("full")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_an_offset_costs_the_search_no_digits_in_float32(covariance):
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=True, prior=gcf.TwoCovariance()), K)
    far = (X + 1e5).astype(np.float32)
    expected = gcf.fit_prior(clf, far.astype(np.float64), Y)
    with jax.enable_x64(False):
        found = gcf.fit_prior(clf, far, Y)
    assert found.converged
    np.testing.assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-5)
    for name in ("between", "within"):
        a, b = (getattr(f.classifier.family.prior, name) for f in (found, expected))
        np.testing.assert_allclose(a, b, atol=1e-2 * np.abs(b).max())


@pytest.mark.parametrize("name", ["full", "diag"])
@pytest.mark.parametrize("inference", ["map", "predictive"])
def test_a_common_offset_costs_no_digits_in_float32(name, inference):
    clf, *_ = model(name, inference=inference)
    far = (X + 1e6).astype(np.float32)
    at = lambda dtype: np.round(MEAN + 1e6, 1).astype(dtype)  # noqa: E731

    def score(dtype):
        prior = replace(clf.family.prior, mean=at(np.float32).astype(dtype))
        own = replace(clf, family=replace(clf.family, prior=prior))
        return np.asarray(gcf.log_joint(gcf.fit(own, far.astype(dtype), Y), far.astype(dtype)))

    expected = score(np.float64)
    with jax.enable_x64(False):
        np.testing.assert_allclose(score(np.float32), expected, atol=1e-3)


def test_rounding_of_a_singular_between_is_no_other_direction():
    v = np.array([1.0, 2, -1, 0, 1])
    hidden = np.where(np.arange(len(Y)) % 3 == 0, -1, Y)
    with jax.enable_x64(False):
        prior = gcf.TwoCovariance(
            *(np.asarray(a, np.float32) for a in (1e4, np.outer(v, v), WITHIN))
        )
        clf = gcf.Classifier(gcf.Gaussian(shared=True, prior=prior), K)
        found = gcf.em(clf, (X + 1e4).astype(np.float32), hidden)
    assert np.isfinite(np.asarray(found.objective)[: int(found.steps)]).all()


@pytest.mark.slow("full")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_the_search_starts_from_numbers_of_any_form(covariance):
    ends = []
    forms = [(None, None), (1.3, 0.7)]
    forms += [(np.full(D, 1.3), np.full(D, 0.7))] * (covariance != "spherical")
    forms += [(BETWEEN, WITHIN), (2.0, WITHIN)] * (covariance == "full")
    for between, within in forms:
        prior = gcf.TwoCovariance(0.0 if within is not None else None, between, within)
        clf = gcf.Classifier(gcf.Gaussian(covariance, shared=True, prior=prior), K)
        found = gcf.fit_prior(clf, X, Y)
        assert found.converged
        ends.append(float(found.log_evidence))
    np.testing.assert_allclose(ends, ends[0], rtol=1e-6)


@pytest.mark.slow("gaussian", "independent")
@pytest.mark.parametrize(
    "family",
    [
        gcf.Gaussian(prior=gcf.NormalInverseWishart(0.0, 1.0, 2.0, D + 2.0)),
        gcf.Independent(gcf.Gaussian(prior=gcf.NormalInverseWishart(0.0, 1.0, 2.0, 3.0))),
        gcf.Bernoulli(threshold=0.0),
    ],
    ids=["gaussian", "independent", "bernoulli"],
)
def test_the_ratio_of_any_conjugate_model_is_that_of_its_evidences(family):
    clf = gcf.Classifier(family, K, class_prior=np.full(K, 1 / K))
    one = gcf.Classifier(family, 1, class_prior=np.ones(1))
    found = gcf.bayes.same_class(clf, gcf.stats(clf, X, Y), gcf.stats(clf, X, Y[::-1].copy()))

    def own(*sets):
        x = np.concatenate(sets)
        return gcf.log_evidence(one, x, np.zeros(len(x), int))

    a, b = X[Y == 4], X[Y[::-1] == 6]
    np.testing.assert_allclose(found[4, 6], own(a, b) - own(a) - own(b), atol=1e-10)


def test_pairs_of_new_classes_are_verified_by_what_old_ones_tell():
    """Rows of 31 classes that the prior has not seen: ratios, error rate and log-loss of pairs."""
    rng = np.random.default_rng(11)

    def rows(y):
        means = rng.normal(size=(y.max() + 1, D)) @ ROOTS[0]
        return means[y] + 2 * rng.normal(size=(len(y), D)) @ ROOTS[1]

    old, new = np.repeat(np.arange(211), 3), np.repeat(np.arange(31), 5)
    x, asked = rows(old), rows(new)
    clf = gcf.Classifier(gcf.Gaussian(shared=True, prior=gcf.TwoCovariance()), 211)
    told = gcf.fit_prior(clf, x, old)
    p = told.classifier.family.prior
    n = len(asked)
    sets = gcf.stats(replace(told.classifier, num_classes=n), asked, np.arange(n))
    ratio = np.asarray(gcf.bayes.same_class(told.classifier, sets, sets))
    mean, between, within = (np.asarray(a) for a in (p.mean, p.between, p.within))
    whole = np.kron(np.eye(2), within) + np.kron(np.ones((2, 2)), between)
    pairs = np.stack([np.hstack([asked[i], asked[j]]) for i, j in np.ndindex(n, n)])
    alone = multivariate_normal(mean, between + within).logpdf(asked)
    direct = multivariate_normal(np.tile(mean, 2), whole).logpdf(pairs).reshape(n, n)
    direct = direct - alone[:, None] - alone[None]
    np.testing.assert_allclose(ratio, direct, atol=1e-9)
    above = np.triu_indices(n, 1)
    same = (new[:, None] == new[None])[above]
    plain = -((asked[:, None] - asked[None]) ** 2).sum(-1)
    assert equal_error_rate(ratio[above], same) < 0.8 * equal_error_rate(plain[above], same)
    odds = np.log(same.mean() / (1 - same.mean()))
    log_loss = np.logaddexp(0, np.where(same, -1, 1) * (ratio[above] + odds)).mean()
    of_shares = -(same.mean() * np.log(same.mean()) + (1 - same.mean()) * np.log(1 - same.mean()))
    assert log_loss < of_shares


def equal_error_rate(score, same):
    """Where as many pairs of one class are rejected as pairs of two are accepted."""
    order = np.argsort(score)
    rejected = np.cumsum(same[order]) / same.sum()
    accepted = 1 - np.cumsum(~same[order]) / (~same).sum()
    return rejected[np.argmin(np.abs(rejected - accepted))]
