"""Missing cells are integrated out: in a score exactly, in a fit by the likelihood of the rest."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as sps

import genclf as gcf
from genclf.families.capabilities import is_additive
from tests.registry import (
    BY_NAME,
    SEEN_IN_PART,
    UNEQUAL,
    WITH_HOLES,
    D,
    K,
    V,
    assert_close,
    assert_finite,
    marginalizing,
    stack,
    take,
)

COMPLETE = [replace(model, family=marginalizing(model.family)) for model in SEEN_IN_PART]
GAUSSIANS = [model for model in WITH_HOLES if model.name.startswith(("gaussian", "univariate"))]
ADDITIVE = [model for model in WITH_HOLES if is_additive(model.family)]
IN_FLOAT32 = ("gaussian", "gaussian-shared", "bernoulli", "categorical", "multinomial")


def named(*names):
    return [model for model in WITH_HOLES if model.name in names]


THINNED = [m for m in WITH_HOLES if "spherical" not in m.name and "threshold" not in m.name]


def blank(x, column):
    """x without the values of one column."""
    x = x.copy()
    x[:, column] = np.nan if np.issubdtype(x.dtype, np.floating) else -1
    return x


def without(family, column):
    """The family for the other columns."""
    sizes = getattr(family, "num_values", None)
    if not isinstance(sizes, tuple):
        return family
    return replace(family, num_values=tuple(np.delete(sizes, column)))


ROWS = 307  # enough for every class to have a covariance
MANY_COLUMNS = [model for model in COMPLETE if "univariate" not in model.name]


@pytest.mark.slow
@pytest.mark.parametrize("model", MANY_COLUMNS, ids=str)
def test_a_missing_column_is_a_model_without_it(model, x64):
    """Hard case 22."""
    x, y = model.example("float64", n=ROWS)
    params = gcf.fit(model.classifier, x, y)
    strict = BY_NAME[model.name].family
    for column in (0, D - 1):
        left = np.delete(x, column, axis=1)
        expected = gcf.fit(gcf.Classifier(without(strict, column), K), left, y)
        if model.name == "gaussian-spherical" or model.name == "gaussian-spherical-shared":
            # One variance for all features: with fewer of them it is another model.
            c, keep = params.conditional, np.delete(np.arange(D), column)
            expected = replace(
                expected,
                conditional=replace(expected.conditional, scale=c.scale, mean=c.mean[:, keep]),
            )
        for f in (gcf.log_joint, gcf.log_posterior, gcf.log_marginal):
            found = f(params, blank(x, column))
            np.testing.assert_allclose(found, f(expected, left), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(
            gcf.predict(params, blank(x, column)), gcf.predict(expected, left)
        )


def check_nothing_missing(model, dtype, tolerance):
    x, y = model.example(dtype, n=ROWS)
    strict = BY_NAME[model.name].classifier
    found, expected = gcf.fit(model.classifier, x, y), gcf.fit(strict, x, y)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_close(a, b, tolerance)
    same = replace(expected, conditional=expected.conditional.marginalized())
    assert_close(gcf.log_joint(same, x), gcf.log_joint(expected, x), tolerance)
    if dtype == "float64":  # extreme scores amplify how params round in float32
        assert_close(gcf.log_joint(found, x), gcf.log_joint(expected, x), tolerance)


@pytest.mark.slow("gaussian-shared")
@pytest.mark.parametrize("model", COMPLETE, ids=str)
def test_nothing_missing_is_the_strict_model(model, x64):
    check_nothing_missing(model, "float64", 1e-12)


@pytest.mark.slow("gaussian-shared")
@pytest.mark.parametrize("model", [m for m in COMPLETE if m.name in IN_FLOAT32], ids=str)
def test_the_same_in_float32(model):
    check_nothing_missing(model, "float32", 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", THINNED, ids=str)
def test_nothing_seen_is_the_class_prior(model, x64):
    x, y = model.example("float64", n=ROWS)
    params = gcf.fit(model.classifier, x, y)
    nothing = jax.tree.map(
        lambda a: (
            np.full_like(a, np.nan if np.issubdtype(a.dtype, np.floating) else -1)
            if a.dtype != bool and a.ndim == 2
            else np.zeros_like(a)
        ),
        x,
    )
    posterior = gcf.log_posterior(params, nothing)
    expected = jnp.broadcast_to(params.log_prior, posterior.shape)
    assert_close(posterior, expected, 1e-12)


@pytest.mark.parametrize("model", WITH_HOLES, ids=str)
def test_strict_is_the_default(model):
    x, y = model.example("float32")
    holes = [a for a in jax.tree.leaves(x) if a.dtype != bool]
    assert any(np.isnan(a).any() if a.dtype.kind == "f" else (a == -1).any() for a in holes)
    gcf.validate(model.classifier, x, y)
    strict = BY_NAME.get(model.name.removesuffix("-holes"))
    if strict is None or strict.name == "bernoulli-threshold":
        return
    with pytest.raises(ValueError, match="expected"):
        gcf.validate(strict.classifier, x, y)
    params = gcf.fit(strict.classifier, x, y)
    assert any(np.isnan(leaf).any() for leaf in jax.tree.leaves(params))


@pytest.mark.slow("gaussian-diag-shared-holes", "independent-categorical-holes", "poisson-holes")
@pytest.mark.parametrize(
    "model", [m for m in ADDITIVE if m.family.num_parameters(K, D) > K], ids=str
)
def test_a_column_is_fitted_to_the_rows_that_have_it(model, x64):
    """Naive Bayes: per-cell weights are the fit of each column by itself."""
    if "spherical" in model.name:
        pytest.skip("one variance for all columns")
    x, y = model.example("float64", n=ROWS)
    params = gcf.fit(model.classifier, x, y)
    strict = BY_NAME[model.name.removesuffix("-holes")].classifier.family
    d = x.shape[1]
    for column in (0, d - 1):
        seen = ~np.isnan(x[:, column]) if x.dtype.kind == "f" else x[:, column] != -1
        alone = (
            strict
            if not hasattr(strict, "num_values") or isinstance(strict.num_values, int)
            else (replace(strict, num_values=(strict.num_values[column],)))
        )
        values = np.where(seen, x[:, column], 0).astype(x.dtype)[:, None]
        one = gcf.fit(gcf.Classifier(alone, K), values, y, seen.astype(float))
        blanked = x
        for other in set(range(d)) - {column}:
            blanked = blank(blanked, other)
        found = gcf.log_joint(params, blanked) - params.log_prior[None]
        expected = gcf.log_joint(one, values) - one.log_prior[None]
        np.testing.assert_allclose(found[seen], expected[seen], rtol=1e-10, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("model", GAUSSIANS, ids=str)
def test_gaussian_scores_are_those_of_scipy(model, x64):
    x, y = model.example("float64", n=ROWS)
    params = gcf.fit(model.classifier, x, y)
    mean, covariance = params.conditional.mean, np.asarray(params.conditional.covariances)
    expected = np.zeros((len(x), K))
    for n, row in enumerate(x):
        o = ~np.isnan(row)
        for k in range(K):
            block = covariance[k][np.ix_(o, o)]
            expected[n, k] = (
                sps.multivariate_normal.logpdf(row[o], mean[k][o], block) if o.any() else 0
            )
    expected += np.asarray(params.log_prior)
    np.testing.assert_allclose(gcf.log_joint(params, x), expected, rtol=1e-11, atol=1e-11)
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(gcf.log_posterior(params, x), expected, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("model", GAUSSIANS, ids=str)
def test_the_fit_is_a_maximum_of_what_is_seen(model, x64):
    x, y = model.example("float64", n=ROWS)
    found = gcf.em(model.classifier, x, y, key=jax.random.key(0), tol=0.0, max_steps=3000)

    def log_lik(params):
        joint = gcf.log_joint(params, x)
        return jnp.take_along_axis(joint, jnp.asarray(y)[:, None], 1).mean()

    slope = jax.grad(log_lik)(found.params).conditional
    sd = float(jnp.abs(found.params.conditional.scale).max())
    assert np.abs(slope.mean).max() * sd < 1e-6
    assert np.abs(jnp.tril(slope.scale) if slope.scale.ndim == 3 else slope.scale).max() * sd < 1e-6


@pytest.mark.slow("gaussian-holes")
@pytest.mark.parametrize("model", named("gaussian-holes", "multinomial-holes"), ids=str)
def test_data_sets_side_by_side(model, x64):
    data = [model.example("float64", n=ROWS, seed=seed) for seed in (0, 1)]
    x = jax.tree.map(lambda *leaves: np.stack(leaves), *(x for x, _ in data))
    y = np.stack([y for _, y in data])
    many = jax.vmap(gcf.fit, (None, 0, 0))(model.classifier, x, y)
    scores = jax.vmap(gcf.log_joint)(many, x)
    for i in range(2):
        alone = gcf.fit(model.classifier, take(x, i), y[i])
        assert_close(jax.tree.map(lambda a, i=i: a[i], many), alone, 1e-9)
        assert_close(scores[i], gcf.log_joint(alone, take(x, i)), 1e-9)
        one = gcf.log_joint(alone, take(take(x, i), 7))
        assert_close(one, gcf.log_joint(alone, take(x, i))[7], 1e-12)


ADDITIVE_IN_BRIEF = named("gaussian-diag-shared-holes", "bernoulli-holes", "categorical-holes")


@pytest.mark.slow("gaussian-diag-shared-holes")
@pytest.mark.parametrize("model", ADDITIVE_IN_BRIEF, ids=str)
def test_derivatives_are_differences(model, x64):
    """The others, which EM fits, are differentiated in the laws of EM."""
    x, y = model.example("float64", n=ROWS)

    @jax.jit
    def score(weights):
        return gcf.log_posterior(gcf.fit(model.classifier, x, y, weights), x).mean()

    weights = np.linspace(0.5, 1.5, ROWS)
    slope = jax.jit(jax.grad(score))(weights)
    step = 1e-4 * np.random.default_rng(0).normal(size=ROWS)
    differ = (score(weights + step) - score(weights - step)) / 2
    np.testing.assert_allclose(slope @ step, differ, rtol=1e-4, atol=1e-9)


@pytest.mark.slow("gaussian-diag-shared-holes")
@pytest.mark.parametrize("model", ADDITIVE, ids=str)
def test_statistics_of_cells_add_up(model, x64):
    x, y = model.example("float64", n=ROWS)
    clf = model.classifier
    parts = [gcf.stats(clf, take(x, rows), y[rows]) for rows in (slice(0, 41), slice(41, ROWS))]
    whole = gcf.stats(clf, x, y)
    assert_close(gcf.merge(*parts), whole, 1e-12)
    assert_close(gcf.pool(stack(parts)), whole, 1e-12)
    params = gcf.estimate(clf, whole)
    joint = np.asarray(gcf.log_joint(params, x))
    np.testing.assert_allclose(
        gcf.log_lik(params, whole), joint[np.arange(ROWS), y].sum(), rtol=1e-11
    )


@pytest.mark.slow
def test_the_code_is_one_s_own(x64):
    model = BY_NAME["categorical"]
    x, y = model.example("float64")
    rng = np.random.default_rng(0)
    hole = rng.random(x.shape) < 0.3
    minus = gcf.categorical_nb(K, V, missing="marginalize")
    other = gcf.Classifier(gcf.Categorical(V, missing="marginalize", missing_code=V + 2), K)
    floats = np.where(hole, np.nan, x)
    params = gcf.fit(minus, np.where(hole, -1, x), y)
    for clf, filled in ((other, np.where(hole, V + 2, x)), (minus, floats)):
        found = gcf.fit(clf, filled, y)
        assert_close(found.conditional.log_theta, params.conditional.log_theta, 1e-15)
        assert_close(
            gcf.log_joint(found, filled), gcf.log_joint(params, np.where(hole, -1, x)), 1e-15
        )
    with pytest.raises(ValueError, match="missing_code is 2, which is a value"):
        gcf.fit(gcf.Classifier(gcf.Categorical(V, missing="marginalize", missing_code=2), K), x, y)


def test_a_value_that_is_none_is_still_invalid():
    clf = gcf.categorical_nb(2, UNEQUAL, missing="marginalize")
    x = np.zeros((4, D), np.int32)
    x[1, 2], x[2, 0] = -1, -2
    with pytest.raises(ValueError, match=r"x\[2, 0\] is -2.*or NaN \(-1 among integers\)"):
        gcf.validate(clf, x, np.array([0, 1, 0, 1]))
    params = gcf.fit(clf, x, np.array([0, 1, 0, 1]))
    assert np.isnan(params.conditional.log_theta).any()
    never = np.where(np.arange(D) == 1, -1, 0).repeat(4).reshape(D, 4).T
    with pytest.raises(ValueError, match=r"columns \[1\] of x have no value in any row"):
        gcf.validate(clf, never, np.array([0, 1, 0, 1]))
    infinite = np.full((3, 2), np.inf, "float32")
    with pytest.raises(ValueError, match="is inf"):
        gcf.validate(gcf.lda(2, missing="marginalize"), infinite, np.array([0, 1, 1]))


@pytest.mark.slow
def test_more_rows_than_a_block(x64):
    """Blocks without a hole take another road than those with."""
    rng = np.random.default_rng(0)
    n = 20_011
    y = rng.integers(0, K, n)
    x = rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + y[:, None]
    x[n // 2 :] = np.where(rng.random((n - n // 2, D)) < 0.2, np.nan, x[n // 2 :])
    params = gcf.fit(gcf.qda(K, missing="marginalize"), x, y)
    few = np.r_[0:50, n - 50 : n]
    assert_close(gcf.log_joint(params, x)[few], gcf.log_joint(params, x[few]), 1e-12)
    shuffled = rng.permutation(n)
    again = gcf.fit(gcf.qda(K, missing="marginalize"), x[shuffled], y[shuffled])
    assert_close(again, params, 1e-8)


@pytest.mark.slow
def test_a_column_that_is_never_seen_in_a_class(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    x = x.copy()
    x[y == 1, 2] = np.nan
    for clf in (gcf.gaussian_nb(K, missing="marginalize"), gcf.lda(K, missing="marginalize")):
        params = gcf.fit(clf, x, y)
        assert_finite(params)
        assert_finite(gcf.log_posterior(params, x))
