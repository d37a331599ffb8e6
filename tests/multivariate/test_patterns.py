"""`patterns` and `crossnobis` beside their formulas in NumPy."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import labels, reals

N, D, K = 101, 5, 3


def rows(dtype=np.float64):
    rng = np.random.default_rng(0)
    y = labels(rng)
    return reals(rng, y, dtype), y


def haufe(weights, total):
    """A of weights in rows, (m, d)."""
    scores = weights @ total @ weights.T
    return np.linalg.pinv(scores, 1e-9, hermitian=True) @ weights @ total


def test_patterns_of_params_of_statistics_and_of_both():
    with jax.enable_x64(True):
        x, y = rows()
        clf = gcf.lda(K, shrinkage=0.3)
        params, stats = gcf.fit(clf, x, y), gcf.stats(clf, x, y)
        coef = np.asarray(gcf.linear_form(params)[0])
        weights = coef - coef.mean(0)
        np.testing.assert_allclose(
            gcf.patterns(params, stats), haufe(weights, np.cov(x.T)), 1e-9, 1e-10
        )
        share = np.bincount(y) / N
        mean = np.asarray(params.conditional.mean)
        between = (mean - x.mean(0)).T * share @ (mean - x.mean(0))
        total = params.conditional.covariances[0] + between
        np.testing.assert_allclose(gcf.patterns(params), haufe(weights, total), 1e-9, 1e-10)
        plain = gcf.fit(gcf.lda(K), x, y)
        np.testing.assert_allclose(gcf.patterns(stats), gcf.patterns(plain, stats), 1e-8, 1e-10)


def test_of_two_classes_it_is_the_covariance_with_the_log_odds():
    with jax.enable_x64(True):
        x, y = rows()
        y = (y > 0).astype(np.int32)
        params = gcf.fit(gcf.lda(2, shrinkage=0.2), x, y)
        w, _ = gcf.logistic_form(params)
        total = np.cov(x.T)
        found = gcf.patterns(params, gcf.stats(gcf.lda(2), x, y))
        want = total @ w / (w @ total @ w)
        np.testing.assert_allclose(found, np.stack([-want, want]), 1e-9, 1e-10)
        # Without shrinkage it is along the difference of the means, whatever the noise.
        found = np.asarray(gcf.patterns(gcf.stats(gcf.lda(2), x, y))[1])
        difference = x[y == 1].mean(0) - x[y == 0].mean(0)
        np.testing.assert_allclose(found / found[0], difference / difference[0], 1e-9)


def test_weights_of_other_models_and_of_a_row_space():
    with jax.enable_x64(True):
        x, y = rows()
        stats = gcf.stats(gcf.lda(K), x, y)
        for clf in (gcf.SoftmaxRegression(K, l2=0.1), gcf.gaussian_nb(K)):
            params = gcf.fit(clf, x, y)
            if isinstance(clf, gcf.Classifier):
                with pytest.raises(ValueError, match=r"not linear|linear_form"):
                    gcf.patterns(params, stats)
                continue
            coef = np.asarray(gcf.linear_form(params)[0])
            want = haufe(coef - coef.mean(0), np.cov(x.T))
            np.testing.assert_allclose(gcf.patterns(params, stats), want, 1e-8, 1e-9)
            with pytest.raises(ValueError, match="has no covariance of x"):
                gcf.patterns(params)
        rng = np.random.default_rng(1)
        wide = rng.normal(size=(17, 37)) + (np.arange(17) % 2)[:, None]
        label = np.arange(17) % 2
        params = gcf.fit(gcf.lda(2, shrinkage=0.4), wide, label)
        same = gcf.stats(gcf.lda(2), wide, label)
        family = gcf.Gaussian(shared=True, shrinkage=0.4)
        dense = gcf.estimate(gcf.Classifier(family, 2), same)
        np.testing.assert_allclose(gcf.patterns(params), gcf.patterns(dense), 1e-7, 1e-9)


def test_intervals_of_patterns_are_a_bootstrap():
    x, y = rows(np.float32)
    of = lambda w: gcf.patterns(gcf.stats(gcf.lda(K), x, y, weights=w))  # noqa: E731
    found = gcf.bootstrap(jax.random.key(0), of, N, num=7)
    assert found.standard_error.shape == (K, D)
    assert np.isfinite(found.standard_error).all()


RUNS = 4


def runs(rng, n=29, mean=None):
    y = np.stack([rng.permutation(np.arange(n) % K) for _ in range(RUNS)]).astype(np.int32)
    mix = np.eye(D) + 0.3 * rng.normal(size=(D, D))
    mean = rng.normal(size=(K, D)) if mean is None else mean
    offset = rng.normal(size=(RUNS, 1, D))
    return mean[y] + offset + rng.normal(size=(RUNS, n, D)) @ mix, y


def by_pairs(x, y, shrinkage=0.0):
    """The mean over all ordered pairs of runs, one by one; NaN where no pair has both classes."""
    num_runs = len(x)
    scatter = np.zeros((x.shape[2],) * 2)
    mean = np.full((num_runs, K, x.shape[2]), np.nan)
    for a in range(num_runs):
        for k in np.unique(y[a]):
            own = x[a][y[a] == k]
            mean[a, k] = own.mean(0)
            scatter += (own - mean[a, k]).T @ (own - mean[a, k])
    cov = scatter / y.size
    cov = (1 - shrinkage) * cov + shrinkage * np.trace(cov) / len(cov) * np.eye(len(cov))
    found = np.full((K, K), np.nan)
    for i in range(K):
        for j in range(K):
            each = [
                (mean[a, i] - mean[a, j]) @ np.linalg.solve(cov, mean[b, i] - mean[b, j])
                for a, b in permutations(range(num_runs), 2)
            ]
            if np.isfinite(each).any():
                found[i, j] = np.nanmean(each)
    return found


@pytest.mark.parametrize("model", [gcf.lda, gcf.qda])
@pytest.mark.parametrize("shrinkage", [None, 0.3])
def test_crossnobis_is_the_mean_over_pairs_of_runs(model, shrinkage):
    with jax.enable_x64(True):
        x, y = runs(np.random.default_rng(0))
        each = [gcf.stats(model(K), *one) for one in zip(x, y, strict=True)]
        batch = jax.vmap(gcf.stats, (None, 0, 0))(model(K), x, y)
        want = by_pairs(x, y, shrinkage or 0.0)
        for stats in (each, batch):
            found = gcf.crossnobis(stats, shrinkage=shrinkage)
            np.testing.assert_allclose(found, want, 1e-10, 1e-10)
            np.testing.assert_array_equal(np.diagonal(found), 0)


def test_estimated_shrinkages_are_those_of_residuals():
    with jax.enable_x64(True):
        x, y = runs(np.random.default_rng(0))
        mean = np.stack([[x[a][y[a] == k].mean(0) for k in range(K)] for a in range(RUNS)])
        residual = np.concatenate([x[a] - mean[a][y[a]] for a in range(RUNS)])
        for method in ("oas", "ledoit-wolf"):
            clf = gcf.lda(K, shrinkage=method)
            stats = jax.vmap(gcf.stats, (None, 0, 0))(clf, x, y)
            one = gcf.lda(1, shrinkage=method)
            zeros = np.zeros(len(residual), np.int32)
            intensity = gcf.diagnose(one, residual, zeros).conditional.shrinkage[0]
            want = by_pairs(x, y, float(intensity))
            found = gcf.crossnobis(stats, shrinkage=method)
            np.testing.assert_allclose(found, want, 1e-8, 1e-9)


def test_a_class_that_a_run_lacks_has_the_pairs_of_the_others():
    with jax.enable_x64(True):
        x, y = runs(np.random.default_rng(0))
        y[1][y[1] == 2] = 0
        stats = jax.vmap(gcf.stats, (None, 0, 0))(gcf.lda(K), x, y)
        np.testing.assert_allclose(gcf.crossnobis(stats), by_pairs(x, y), 1e-10, 1e-10)
        y[2:][y[2:] == 2] = 1
        stats = jax.vmap(gcf.stats, (None, 0, 0))(gcf.lda(K), x, y)
        found = np.asarray(gcf.crossnobis(stats))
        np.testing.assert_allclose(found, by_pairs(x, y), 1e-10, 1e-10)
        assert np.isnan(found[2, :2]).all() and np.isfinite(found[:2, :2]).all()


def test_equal_means_have_distance_0_on_average():
    """Negative as often as not: a distance within the same rows would be above 0."""
    draw = lambda seed: runs(np.random.default_rng(seed), mean=np.zeros((K, D)))  # noqa: E731
    x, y = (np.stack(a) for a in zip(*map(draw, range(499)), strict=True))
    stats = jax.vmap(jax.vmap(gcf.stats, (None, 0, 0)), (None, 0, 0))(
        gcf.lda(K), x.astype(np.float32), y
    )
    found = np.asarray(jax.vmap(gcf.crossnobis)(stats))[:, 0, 1]
    assert abs(found.mean()) < 4 * found.std() / np.sqrt(len(found))
    assert 0.3 < (found < 0).mean() < 0.7


def test_units_and_order_change_nothing():
    with jax.enable_x64(True):
        x, y = runs(np.random.default_rng(0))
        of = lambda x, y: gcf.crossnobis(jax.vmap(gcf.stats, (None, 0, 0))(gcf.lda(K), x, y))  # noqa: E731
        want = np.asarray(of(x, y))
        np.testing.assert_allclose(of(1e3 * x + 7, y), want, 1e-8)
        np.testing.assert_allclose(of(x[::-1], y[::-1]), want, 1e-10)
        np.testing.assert_allclose(of(x, (y + 1) % K), np.roll(want, 1, (0, 1)), 1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s, "expected the statistics of several runs"),
        (lambda s: [s], "has one run, expected at least 2"),
        (lambda s: [], "expected the statistics of several runs"),
        (lambda s: [s, 1], "expected the statistics of several runs"),
        (lambda s: [s, gcf.stats(gcf.lda(2), jnp.eye(4), jnp.array([0, 1, 0, 1]))], "of different models or shapes"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_are_not_runs_is_refused(make, message):
    x, y = rows(np.float32)
    with pytest.raises(ValueError, match=message):
        gcf.crossnobis(make(gcf.stats(gcf.lda(K), x, y)))


def test_other_models_and_shrinkages_are_refused():
    x, y = rows(np.float32)
    with pytest.raises(ValueError, match="no scatter matrix"):
        gcf.crossnobis([gcf.stats(gcf.gaussian_nb(K), x, y)] * 2)
    with pytest.raises(ValueError, match="needs fourth moments"):
        gcf.crossnobis([gcf.stats(gcf.lda(K), x, y)] * 2, shrinkage="ledoit-wolf")
    with pytest.raises(ValueError, match="stats is 1, expected the statistics of the rows"):
        gcf.patterns(gcf.fit(gcf.lda(K), x, y), 1)
    other = gcf.stats(gcf.lda(K), x[:, :2], y)
    with pytest.raises(ValueError, match="source has 5 features, and stats have 2"):
        gcf.patterns(gcf.fit(gcf.lda(K), x, y), other)
