"""Fits with more features than rows, in the row space, are those of the full matrices."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.families.gaussian.row_space import RowSpaceParams
from tests.registry import K, assert_close

FAMILIES = {
    "lda": gcf.Gaussian(shared=True, shrinkage=0.2),
    "qda": gcf.Gaussian(shrinkage=0.2, ddof=1.0),
    "rda": gcf.Gaussian(pooling=0.3, shrinkage=0.1),
    "ledoit-wolf": gcf.Gaussian(shrinkage="ledoit-wolf"),
    "shared-oas": gcf.Gaussian(shared=True, shrinkage="oas"),
    "diagonal": gcf.Gaussian(shared=True, shrinkage=0.2, target="diagonal"),
    "james-stein": gcf.Gaussian(shared=True, shrinkage="james-stein", target="diagonal"),
}
NAMED = pytest.mark.parametrize("name", FAMILIES)


def rows(n=43, d=101, offset=0.0, seed=0):
    """Rows of features in different units, other rows off their span, and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    unit = rng.uniform(0.5, 2, d)
    x = (rng.normal(size=(n, d)) + 0.4 * rng.normal(size=(K, d))[y]) * unit + offset
    return x, y, rng.normal(size=(29, d)) * unit + offset


def both(family, x, y, weights=None):
    """A fit, and the estimate from statistics with whole matrices."""
    clf = gcf.Classifier(family, K, class_alpha=0.5)
    found = gcf.fit(clf, x, y, weights)
    assert isinstance(found.conditional, RowSpaceParams)
    return found, gcf.estimate(clf, gcf.stats(clf, x, y, weights))


@pytest.mark.slow
@NAMED
def test_as_from_whole_matrices(name, x64):
    x, y, new = rows()
    weights = np.arange(len(y)) % 4 + 0.5
    found, expected = both(FAMILIES[name], x, y, weights)
    for verb in (gcf.log_joint, gcf.log_posterior, gcf.log_marginal):
        for seen in (x, new):
            assert_close(verb(found, seen), verb(expected, seen), 1e-11)
    assert_close(found.conditional.mean, expected.conditional.mean, 1e-12)
    assert_close(found.conditional.covariances, expected.conditional.covariances, 1e-12)
    stats = gcf.stats(gcf.Classifier(FAMILIES[name], K), new, np.arange(29) % K)
    assert_close(gcf.log_lik(found, stats), gcf.log_lik(expected, stats), 1e-10)
    if FAMILIES[name].shared:
        for a, b in zip(gcf.linear_form(found), gcf.linear_form(expected), strict=True):
            differences = (np.asarray(u) - np.asarray(u)[:1] for u in (a, b))
            assert_close(*map(jnp.asarray, differences), 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lda", "rda", "james-stein"])
def test_gradients_as_from_whole_matrices(name, x64):
    x, y, new = rows(n=23, d=61)
    x[5] = x[8]
    weights = np.random.default_rng(1).uniform(0.5, 2, 23)
    weights[3] = 0

    def loss(x, weights, new, road):
        clf = gcf.Classifier(FAMILIES[name], K)
        s = None if road else gcf.stats(clf, x, y, weights)
        params = gcf.fit(clf, x, y, weights) if road else gcf.estimate(clf, s)
        posterior = gcf.log_posterior(params, new) * jnp.arange(29.0 * K).reshape(29, K)
        return posterior.sum() + gcf.log_marginal(params, new).sum()

    slope = jax.grad(loss, (0, 1, 2))
    for a, b in zip(slope(x, weights, new, True), slope(x, weights, new, False), strict=True):
        assert_close(a / jnp.abs(b).max(), b / jnp.abs(b).max(), 1e-10)


@pytest.mark.slow
def test_gradient_by_the_shrinkage(x64):
    x, y, new = rows()

    def loss(shrinkage, road):
        clf = gcf.rda(K, pooling=0.3, shrinkage=shrinkage)
        params = gcf.fit(clf, x, y) if road else gcf.estimate(clf, gcf.stats(clf, x, y))
        return gcf.log_posterior(params, new)[:, 0].mean()

    slopes = [jax.vmap(jax.grad(lambda s, r=r: loss(s, r)))(jnp.array([0.1, 0.5])) for r in (1, 0)]
    assert_close(*slopes, 1e-10)


@pytest.mark.slow("rda")
@pytest.mark.parametrize("name", ["lda", "rda"])
def test_an_offset_costs_no_digits(name, x64):
    x, y, new = rows(d=1501, n=61, offset=1e6)
    _, expected = both(FAMILIES[name], x - 1e6, y)
    found = gcf.fit(gcf.Classifier(FAMILIES[name], K, class_alpha=0.5), x, y)
    assert_close(gcf.log_posterior(found, new), gcf.log_posterior(expected, new - 1e6), 1e-10)


@pytest.mark.slow("lda", "rda")
@pytest.mark.parametrize("name", ["lda", "rda", "diagonal"])
def test_in_float32(name):
    x, y, new = (a.astype(np.float32) if a.ndim > 1 else a for a in rows(d=307))
    found = gcf.fit(gcf.Classifier(FAMILIES[name], K), x, y)
    with jax.enable_x64(True):
        clf = gcf.Classifier(FAMILIES[name], K)
        exact = gcf.estimate(clf, gcf.stats(clf, x.astype(np.float64), y))
        right = np.exp(gcf.log_posterior(exact, new.astype(np.float64)))
    # Posteriors are of differences of scores, whose size in float32 is their precision.
    unit = np.finfo(np.float32).eps * np.abs(gcf.log_joint(found, new)).max()
    assert np.abs(np.exp(gcf.log_posterior(found, new)) - right).max() < unit


@pytest.mark.slow("lda", "ledoit-wolf")
@pytest.mark.parametrize("name", ["lda", "ledoit-wolf", "diagonal"])
def test_rows_without_weight_may_hold_anything(name, x64):
    x, y, new = rows()
    weights = (np.arange(len(y)) % 5 > 0).astype(float)
    clean = gcf.log_joint(both(FAMILIES[name], x, y, weights)[0], new)
    for garbage in (np.nan, 1e30, -np.inf):
        spoiled = np.where(weights[:, None] == 0, garbage, x)
        found = gcf.fit(gcf.Classifier(FAMILIES[name], K, class_alpha=0.5), spoiled, y, weights)
        assert_close(gcf.log_joint(found, new), clean, 1e-9)
    spoiled = np.where(np.arange(len(y))[:, None] == 7, np.nan, x)
    found = gcf.fit(gcf.Classifier(FAMILIES[name], K), spoiled, y)
    assert np.isnan(gcf.log_joint(found, new)).any(1).all()


@pytest.mark.slow("lda", "qda")
@pytest.mark.parametrize("name", ["lda", "qda", "diagonal"])
def test_constant_and_equal_features(name, x64):
    x, y, new = rows()
    x[:, 3] = new[:, 3] = 5.0
    x[:, 4], new[:, 4] = x[:, 9], new[:, 9]
    found, expected = both(FAMILIES[name], x, y)
    assert_close(gcf.log_joint(found, new), gcf.log_joint(expected, new), 1e-11)


@pytest.mark.slow("lda")
@pytest.mark.parametrize("preset", [gcf.lda, gcf.qda])
def test_little_shrinkage_in_float32(preset):
    # The variances of coordinates in the space are hundreds of times those of features.
    x, y, new = (a.astype(np.float32) if a.ndim > 1 else a for a in rows(d=10_007, n=31))
    clf = preset(K, shrinkage=1e-3)
    found = np.asarray(gcf.log_posterior(gcf.fit(clf, x, y), new), np.float64)
    with jax.enable_x64(True):
        exact = gcf.log_posterior(gcf.fit(clf, x.astype(np.float64), y), new.astype(np.float64))
        exact = np.asarray(exact)
    assert np.abs(found - exact).max() < 1e-4 * np.abs(exact).max()


@pytest.mark.slow("float32")
def test_a_traced_shrinkage_of_0_is_finite(dtype):
    x, y, new = (a.astype(dtype) if a.ndim > 1 else a for a in rows())
    for preset in (gcf.lda, gcf.qda):
        score = jax.jit(lambda s, p=preset: gcf.log_joint(gcf.fit(p(K, shrinkage=s), x, y), new))
        assert np.isfinite(score(0.0)).all() and np.abs(score(0.0)).max() < 1e14
        assert_close(score(0.0), score(float(np.finfo(dtype).eps) ** (2 / 3)), 1e-5)


def test_draws_have_the_means_and_covariances():
    x, y, _ = rows(n=11, d=17)
    params = gcf.fit(gcf.Classifier(FAMILIES["qda"], K), x, y)
    drawn, labels = gcf.sample(jax.random.key(0), params, (60_000,))
    drawn, labels = np.asarray(drawn, np.float64), np.asarray(labels)
    for k in range(K):
        of_class = drawn[labels == k]
        covariance = np.asarray(params.conditional.covariances[k])
        scale = np.abs(covariance).max()
        assert np.abs(of_class.mean(0) - params.conditional.mean[k]).max() < 0.05 * scale**0.5
        assert np.abs(np.cov(of_class.T) - covariance).max() < 0.05 * scale


@pytest.mark.slow
def test_one_rotation_serves_many_fits(x64):
    x, y, new = rows()
    space = gcf.row_space(x)
    clf = gcf.qda(K, shrinkage=0.3)
    folds = np.arange(len(y)) * 7 % 5
    inside = space.model(clf)
    one_out = jax.vmap(lambda k: gcf.fit(inside, space.rows, y, folds != k))(jnp.arange(5))
    for k in range(5):
        params = jax.tree.map(lambda a, k=k: a[k], one_out)
        kept = folds != k
        expected = gcf.estimate(clf, gcf.stats(clf, x[kept], y[kept]))
        for found, seen in ((params, space.rows), (space.params(params), x)):
            score = gcf.log_joint(found, seen)[folds == k]
            assert_close(score, gcf.log_joint(expected, x[folds == k]), 1e-11)
        assert_close(gcf.log_joint(space.params(params), new), gcf.log_joint(expected, new), 1e-11)


@pytest.mark.slow
def test_one_part_of_a_product(x64):
    x, y, new = rows()
    parts = {"genes": FAMILIES["lda"], "age": gcf.Gaussian("diag")}
    clf = gcf.Classifier(gcf.Product(parts), K)
    of = lambda a: {"genes": a[:, :99], "age": a[:, 99:]}  # noqa: E731
    found, expected = gcf.fit(clf, of(x), y), gcf.estimate(clf, gcf.stats(clf, of(x), y))
    assert isinstance(found.conditional.parts["genes"], RowSpaceParams)
    assert_close(gcf.log_joint(found, of(new)), gcf.log_joint(expected, of(new)), 1e-11)
    assert (np.asarray(gcf.diagnose(clf, of(x), y).conditional["genes"].rank) == 99).all()


def test_the_likelihood_of_coordinates(x64):
    """Of rows that are given by their coordinates it is the sum of their log-densities."""
    x, y, _ = rows()
    found = gcf.fit(gcf.lda(K, shrinkage=0.25), x, y).conditional
    z = found.rotation.coordinates(jnp.asarray(x))
    inside = dataclasses.replace(found, rotation=None)
    moments = gcf.stats(gcf.lda(K), z, y).conditional
    expected = np.take_along_axis(np.asarray(inside.log_prob(z)), y[:, None], 1).sum()
    np.testing.assert_allclose(inside.log_lik(moments), expected, rtol=1e-11)


def test_what_is_told_of_it():
    x, y, _ = rows()
    found = gcf.diagnose(gcf.lda(K, shrinkage=0.25), x, y).conditional
    assert (np.asarray(found.rank) == 101).all()
    np.testing.assert_allclose(found.shrinkage, 0.25)
    exact = np.linalg.cond(gcf.fit(gcf.lda(K, shrinkage=0.25), x, y).conditional.covariances[0])
    np.testing.assert_allclose(found.condition, exact, rtol=1e-3)
    gcf.validate(gcf.lda(K, shrinkage=0.25), x, y)
    for clf in (gcf.lda(K), gcf.qda(K)):
        with pytest.raises(
            ValueError, match=r'43 rows of 101 features .* set shrinkage, e.g. "oas"'
        ):
            gcf.validate(clf, x, y)


def test_what_has_no_row_space():
    x, y, _ = rows()
    space = gcf.row_space(x)
    for clf in (gcf.lda(K), gcf.gaussian_nb(K), gcf.lda(K, shrinkage=0.1, missing="marginalize")):
        with pytest.raises(ValueError, match="whose scores change under rotations"):
            space.model(clf)
    with pytest.raises(ValueError, match="expected a fit of space"):
        space.params(gcf.fit(gcf.lda(K, shrinkage=0.1), x, y))


@pytest.mark.parametrize("name", ["lda", "qda", "diagonal"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_are_equal_within_classes(name, dtype, request):
    if dtype == "float64":
        request.getfixturevalue("x64")
    x, y, _ = rows()
    means = x[:K][y].astype(dtype)
    clf = gcf.Classifier(FAMILIES[name], K)
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(101, 101)))[0].astype(dtype)
    found = [gcf.log_posterior(gcf.fit(clf, seen, y), seen) for seen in (means, means + 10)]
    if name != "diagonal":
        found.append(gcf.log_posterior(gcf.fit(clf, means @ turned, y), means @ turned))
    np.testing.assert_array_equal(np.argmax(found[0], 1), y)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], 1e-4 if dtype == "float32" else 1e-9, atol=1e-4)
    equal = gcf.log_posterior(gcf.fit(clf, np.ones_like(means), y), means)
    np.testing.assert_allclose(equal, np.broadcast_to(equal[:1], equal.shape), 1e-4)
