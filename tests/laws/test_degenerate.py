"""What data do not determine is decided by a rule, the same in every dtype, and is said."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.families.capabilities import is_hidden
from tests.registry import K

N, D = 29, 5
SHAPES = [(c, s) for c in ("full", "diag", "spherical") for s in (False, True)]
STRUCTURES = [gcf.Gaussian(c, s) for c, s in SHAPES]
HOLES = [gcf.Gaussian(c, s, missing="marginalize") for c, s in SHAPES]
GAUSSIANS = pytest.mark.parametrize("family", STRUCTURES, ids=str)
BOTH = pytest.mark.parametrize("preset", [gcf.lda, gcf.qda])


def rows(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(N) % K).astype(np.int32)
    return 2 * rng.normal(size=(K, D))[y] + rng.normal(size=(N, D)), y


def constant_in_class(seed=0):
    x, y = rows(seed)
    x[y == 1, 2], x[y == 0, 4], x[y == 1, 4] = 0, 3.7, 3.7
    return x, y


def log_posterior(family, x, y, seen, dtype):
    with jax.enable_x64(dtype == "float64"):
        params = gcf.fit(gcf.Classifier(family, K), x.astype(dtype), y)
        return np.asarray(gcf.log_posterior(params, seen.astype(dtype)), np.float64)


@pytest.mark.slow
@GAUSSIANS
def test_constant_in_a_class_in_both_dtypes(family):
    x, y = constant_in_class()
    single, double = (log_posterior(family, x, y, rows(1)[0], t) for t in ("float32", "float64"))
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-4)


@GAUSSIANS
def test_constant_in_a_class_in_any_unit(family, x64):
    x, y = constant_in_class()
    unit = 2.0**-20 if family.covariance == "spherical" else 2.0 ** np.array([-20, 3, 17, 0, -9])
    seen = rows(1)[0]
    expected = log_posterior(family, x, y, seen, "float64")
    found = log_posterior(family, x * unit, y, seen * unit, "float64")
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_variance_of_a_constant(dtype):
    x, y = constant_in_class()
    params = gcf.fit(gcf.gaussian_nb(K), x.astype(dtype), y)
    within = sum(((x - x[y == k].mean(0)) ** 2)[y == k].sum(0) for k in range(K)) / N
    expected = np.stack([x[y == k].var(0) for k in range(K)])
    for k, j in ((1, 2), (0, 4), (1, 4)):
        expected[k, j] = within[j] / ((y == k).sum() + 1)
    np.testing.assert_allclose(params.conditional.scale**2, expected, rtol=1e-5)


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_other_classes_are_left_alone(covariance, dtype):
    x, y = (a.astype(t) for a, t in zip(constant_in_class(), (dtype, np.int32), strict=True))
    fitted = gcf.fit(gcf.Classifier(gcf.Gaussian(covariance), K), x, y).conditional
    alone = gcf.fit(gcf.Classifier(gcf.Gaussian(covariance), 1), x[y == 2], y[y == 2] * 0)
    np.testing.assert_allclose(fitted.scale[2], alone.conditional.scale[0], rtol=1e-6)


def few_rows(y):
    return np.where(np.arange(N) < 3, np.arange(N) % K, -1)


DEGENERATE = {
    "one row in each class": lambda x, y: (x, few_rows(y)),
    "one row in a class": lambda x, y: (x, np.where((y == 2) & (y[::-1] != 2), 0, y)),
    "an empty class": lambda x, y: (x, np.where(y == 2, 0, y)),
    "a constant": lambda x, y: (x * (np.arange(D) != 2) + 7.3 * (np.arange(D) == 2), y),
    "constant in a class": lambda x, y: constant_in_class(),
    "a class at 0": lambda x, y: (x * (y != 1)[:, None], y),
    "a duplicate": lambda x, y: (x[:, [0, 1, 2, 3, 0]], y),
    "constants of classes": lambda x, y: (1e-4 * y[:, None] * np.ones(D), y),
    "nothing but ones": lambda x, y: (np.ones((N, D)), y),
}
BATCH = [data(*rows()) for data in DEGENERATE.values()]


@pytest.mark.slow
@pytest.mark.parametrize("family", STRUCTURES + [f for f in HOLES if not is_hidden(f)], ids=str)
def test_gradients_are_finite_where_values_are(family, dtype):
    x = jnp.asarray(np.stack([x for x, _ in BATCH]), dtype)
    if family.missing == "marginalize":
        x = x.at[:, 3, 1].set(jnp.nan)
    y = jnp.asarray(np.stack([y for _, y in BATCH]), jnp.int32)

    def score(at, y):
        params = gcf.fit(gcf.Classifier(family, K), at["x"], y, at["weights"])
        posterior = gcf.log_posterior(params, at["x"])
        never = jnp.isneginf(params.log_prior)[None]
        marginal = gcf.log_marginal(params, at["x"])
        return jnp.where(never, 0, posterior).sum() + marginal.sum()

    at = {"x": x, "weights": jnp.ones((len(BATCH), N), dtype)}
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(score)))(at, y)
    for i, name in enumerate(DEGENERATE):
        assert np.isfinite(values[i]), name
        for slope in jax.tree.leaves(slopes):
            assert np.isfinite(slope[i]).all(), name


def fitted_all(dtype):
    x, y = rows()
    for family in STRUCTURES + [f for f in HOLES if not is_hidden(f)]:
        yield family, gcf.fit(gcf.Classifier(family, K), x.astype(dtype), y)
    for covariance, shared in SHAPES:
        prior = gcf.NormalInverseWishart(mean=0.0, kappa=1.0, scale=2.0, dof=D + 3.0)
        family = gcf.Gaussian(covariance, shared, prior=prior)
        clf = gcf.Classifier(family, K, inference="predictive")
        yield "Student-t", gcf.fit(clf, x.astype(dtype), y)


@pytest.mark.slow
def test_infinite_cells_have_no_scores(dtype):
    x = rows(1)[0].astype(dtype)
    x[2, 0], x[3, 4], x[5, 1], x[5, 2] = np.inf, -np.inf, np.inf, np.inf
    bad = np.isin(np.arange(N), [2, 3, 5])
    for family, params in fitted_all(dtype):
        for function in (gcf.log_posterior, gcf.log_joint, gcf.discriminant):
            found = np.asarray(function(params, x))
            assert np.isnan(found[bad]).all(), (family, function)
            assert np.isfinite(found[~bad]).all(), (family, function)


@pytest.mark.slow
def test_infinite_cells_beside_missing_ones(dtype):
    x, y = rows()
    q = x.astype(dtype)
    q[2, :2], q[3, 3:] = (np.nan, np.inf), (-np.inf, np.nan)
    for family in HOLES:
        clf = gcf.Classifier(gcf.Gaussian(family.covariance, family.shared), K)
        params = gcf.fit(clf, x.astype(dtype), y)
        params = replace(params, conditional=params.conditional.marginalized())
        found = np.asarray(gcf.log_posterior(params, q))
        assert np.isnan(found[2:4]).all() and np.isfinite(found[4:]).all(), family


@pytest.mark.slow
def test_a_column_that_a_class_never_shows(dtype):
    x, y = (a.astype(t) for a, t in zip(rows(), (dtype, np.int32), strict=True))
    x[y == 1, 3] = np.nan
    for family in HOLES:
        clf = gcf.Classifier(family, K)
        found = gcf.diagnose(clf, x, y)
        assert np.argwhere(found.unseen).tolist() == [[1, 3]]
        with pytest.raises(ValueError, match=r"x has no value of columns \[3\] in class 1"):
            gcf.validate(clf, x, y)
        gcf.validate(replace(clf, family=replace(family, prior=gcf.NormalInverseWishart())), x, y)
    params = gcf.fit(gcf.Classifier(HOLES[2], K), x, y).conditional
    np.testing.assert_allclose(params.mean[1, 3], np.nanmean(x[:, 3]), rtol=1e-5)
    np.testing.assert_allclose(params.scale[1, 3], np.nanstd(x[:, 3]), rtol=1e-5)
    sphere = gcf.fit(gcf.Classifier(HOLES[4], K), x, y).conditional
    expected = x[y == 1][:, [0, 1, 2, 4]].std(0)
    expected = np.sqrt((expected**2).mean())
    np.testing.assert_allclose(sphere.scale[1, 0], expected, rtol=1e-5)


@pytest.mark.slow
def test_one_dimension_stays_as_it_was(dtype):
    x, y = (a.astype(t) for a, t in zip(rows(), (dtype, np.int32), strict=True))
    one = gcf.fit(gcf.Classifier(gcf.Gaussian(), K), x[:, :1], y).conditional
    other = gcf.fit(gcf.gaussian_nb(K), x[:, :1], y).conditional
    np.testing.assert_allclose(one.scale[..., 0], other.scale, rtol=1e-6)
    np.testing.assert_allclose(one.mean, other.mean, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.slow
@pytest.mark.parametrize("preset", [gcf.lda, gcf.qda, gcf.gaussian_nb])
def test_validate_says_where_float32_has_too_few_digits(preset):
    x, y = rows()
    clf = preset(K)
    for far in (0, 1e4):
        gcf.validate(clf, (x + far).astype(np.float32), y)
    expected = r"features \[2\] are too far from 0 for float32.*subtract a constant"
    off = (x + 1e5 * (np.arange(D) == 2)).astype(np.float32)
    with pytest.raises(ValueError, match=expected):
        gcf.validate(clf, off, y)
    found = gcf.diagnose(clf, off, y).conditional
    assert found.rounding.shape == (K, D) and (np.asarray(found.rounding)[:, 2] > 2**-8).all()
    with jax.enable_x64(True):
        gcf.validate(clf, x + 1e6, y)


def test_validate_says_where_correlations_cost_digits():
    x, y = rows()
    almost = x.copy()
    almost[:, 4] = x[:, 0] + 5e-5 * x[:, 4]
    with pytest.raises(ValueError, match=r"shared covariance have condition number .* for float32"):
        gcf.validate(gcf.lda(K), almost.astype(np.float32), y)
    with jax.enable_x64(True):
        gcf.validate(gcf.lda(K), almost, y)
    almost[:, 4] = x[:, 0] + 0.1 * x[:, 4]
    gcf.validate(gcf.lda(K), almost.astype(np.float32), y)


def test_linear_form_far_from_zero():
    x, y = rows()
    x = (x + 1e4).astype(np.float32)
    params = gcf.fit(gcf.lda(K), x, y)
    coef, intercept = gcf.linear_form(params)
    score = x.astype(np.float64) @ np.asarray(coef, np.float64).T + np.asarray(intercept)
    expected = np.exp(np.asarray(gcf.log_posterior(params, x), np.float64))
    found = np.exp(score - score.max(1, keepdims=True))
    np.testing.assert_allclose(found / found.sum(1, keepdims=True), expected, rtol=0, atol=5e-3)


def test_validate_lists_all_constants_by_class(dtype):
    x, y = constant_in_class()
    with pytest.raises(ValueError, match=r"class 0 .*\[4\] are.*class 1 .*\[2, 4\] are constant: "):
        gcf.validate(gcf.gaussian_nb(K), x.astype(dtype), y)


def test_a_number_beyond_the_dtype_is_shown_as_given():
    x = [[1e200, 0.0], [0.0, 1.0]]
    expected = r"x\[0, 0\] is 1e\+200 .*at most 3.4e\+38 in float32"
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=expected):
        gcf.validate(gcf.lda(2), x, np.array([0, 1]))


# Directions in which nothing varies.


def rows_in_few_directions(dtype=np.float64, n=15, d=31, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)).astype(dtype), np.arange(n) % K


@pytest.mark.slow("lda-31", "qda-31", "qda-7")
@pytest.mark.parametrize("d", [7, 31])
@BOTH
def test_repeated_rows_are_weights_where_nothing_varies(preset, d, x64):
    x, y = rows_in_few_directions(d=d)
    times = 1 + np.arange(15) % 4
    clf = preset(K)
    weighted = gcf.fit(clf, x, y, times.astype(np.float64))
    repeated = gcf.fit(clf, np.repeat(x, times, 0), np.repeat(y, times))
    new = np.random.default_rng(1).standard_normal((43, d))
    for rows in (x, new):
        for score in (gcf.log_joint, gcf.discriminant, gcf.log_posterior):
            a, b = (np.asarray(score(params, rows)) for params in (weighted, repeated))
            np.testing.assert_allclose(a, b, rtol=1e-7)
            assert np.abs(a).max() < 1e14


@pytest.mark.slow("float32-qda", "float64-qda")
@BOTH
def test_a_small_ridge_is_continuous(preset, dtype):
    x, y = rows_in_few_directions(dtype)
    new = rows_in_few_directions(dtype, seed=1)[0]
    least = float(np.finfo(dtype).eps) ** (2 / 3)

    def score(ridge):
        return np.asarray(gcf.log_joint(gcf.fit(preset(K, ridge=ridge), x, y), new), np.float64)

    for ridge in least * 10.0 ** np.arange(-6, 0):
        np.testing.assert_allclose(score(ridge), score(0.0), rtol=1e-3)
    np.testing.assert_allclose(score(1.001 * least), score(0.999 * least), rtol=2e-3)


@BOTH
def test_a_larger_ridge_is_exact(preset, x64):
    x, y = rows_in_few_directions()
    params = gcf.fit(preset(K, ridge=1e-6), x, y).conditional
    centred = x - np.stack([x[y == k].mean(0) for k in range(K)])[y]
    typical = (centred**2).mean(0)
    for k in range(K):
        rows = centred if preset is gcf.lda else centred[y == k]
        expected = rows.T @ rows / len(rows) + 1e-6 * np.diag(typical)
        np.testing.assert_allclose(params.covariances[k], expected, atol=1e-14)


@BOTH
def test_units_do_not_matter_where_nothing_varies(preset, x64):
    x, y = rows_in_few_directions()
    units = 10.0 ** np.random.default_rng(3).uniform(-3, 3, x.shape[1])
    new = rows_in_few_directions(seed=1)[0]
    a = gcf.log_posterior(gcf.fit(preset(K), x, y), new)
    b = gcf.log_posterior(gcf.fit(preset(K), x * units, y), new * units)
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7 * np.abs(a).max())


@pytest.mark.slow
@pytest.mark.parametrize("d", [28, 29])
def test_random_rows_in_random_groups(d, dtype):
    right = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, new = (rng.standard_normal((n, d)).astype(dtype) for n in (30, 300))
        y, of_new = rng.permutation(np.arange(30) % K), rng.integers(0, K, 300)
        params = gcf.fit(gcf.lda(K), x, y)
        assert np.isfinite(gcf.log_joint(params, new)).all()
        assert (np.asarray(gcf.diagnose(gcf.lda(K), x, y).conditional.rank) == 27).all()
        right.append((np.asarray(gcf.predict(params, new)) == of_new).mean())
    assert abs(np.mean(right) - 1 / 3) < 0.03


@BOTH
def test_dependent_features_are_named(preset, dtype):
    x, y = rows_in_few_directions(dtype, n=101, d=5)
    x[:, 4] = x[:, 1] - 2 * x[:, 2]
    found = gcf.diagnose(preset(K), x, y).conditional
    assert (np.asarray(found.rank) == 4).all()
    assert (np.asarray(found.dependent) == [False, True, True, False, True]).all()
    with pytest.raises(ValueError, match=r"features \[1, 2, 4\] are linearly dependent"):
        gcf.validate(preset(K), x, y)
    x[:, 4] += 1e-3 * rows_in_few_directions(dtype, n=101, d=1, seed=1)[0][:, 0]
    found = gcf.diagnose(preset(K), x, y).conditional
    assert (np.asarray(found.rank) == 5).all() and not np.asarray(found.dependent).any()


@BOTH
def test_a_combination_that_never_varies_is_no_evidence(preset, x64):
    x, y = rows_in_few_directions(n=101, d=4)
    twice = np.concatenate([x, x[:, :1] + x[:, 1:2]], 1)
    new = np.random.default_rng(1).standard_normal((43, 4))
    beside = np.concatenate([new, new[:, :1] + new[:, 1:2]], 1)
    a = gcf.log_posterior(gcf.fit(preset(K), x, y), new)
    b = gcf.log_posterior(gcf.fit(preset(K), twice, y), beside)
    np.testing.assert_allclose(a, b, atol=1e-6)
