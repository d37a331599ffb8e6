"""Discriminant axes, tests of means and covariances: beside scikit-learn and statsmodels."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from statsmodels.multivariate.manova import MANOVA
from statsmodels.stats.multivariate import (
    test_cov_oneway as equal_covariances,
    test_mvmean_2indep as equal_means,
)

import genclf as gcf
from genclf.families.gaussian.row_space import RowSpaceParams
from tests.registry import BY_NAME, D, K, assert_close


@pytest.fixture
def data(x64):
    return BY_NAME["gaussian"].example("float64")


def test_axes_as_scikit_learn(data):
    x, y = data
    axes = gcf.discriminant_axes(gcf.fit(gcf.lda(K), x, y))
    peer = LinearDiscriminantAnalysis().fit(x, y)
    seen = BY_NAME["gaussian"].example("float64", seed=1)[0]
    expected, found = peer.transform(seen), np.asarray(gcf.transform(axes, seen))
    # The sign of an axis is what LAPACK makes it there.
    sign = np.sign((expected * found).sum(0))
    np.testing.assert_allclose(found, sign * expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(axes.explained, peer.explained_variance_ratio_, atol=1e-10)
    assert_close(gcf.transform(axes, seen[3], num_axes=1), jnp.asarray(found[3, :1]), 1e-14)


def test_what_axes_are(data):
    x, y = data
    params = gcf.fit(gcf.lda(K, shrinkage=0.1), x, y)
    axes = gcf.discriminant_axes(params)
    covariance = np.asarray(params.conditional.covariances[0])
    a, share = np.asarray(axes.coefficient), np.exp(params.log_prior)
    np.testing.assert_allclose(a.T @ covariance @ a, np.eye(K - 1), atol=1e-12)
    apart = np.asarray(params.conditional.mean) - np.asarray(axes.centre)
    np.testing.assert_allclose(share @ apart, 0, atol=1e-12)
    between = np.einsum("k,ki,kj->ij", share, apart, apart)
    np.testing.assert_allclose(a.T @ between @ a, np.diag(axes.ratio), atol=1e-12)
    np.testing.assert_allclose(axes.mean, apart @ a, atol=1e-12)
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(axes.standardised, a * deviation[:, None], atol=1e-12)
    largest = np.abs(axes.standardised).argmax(0)
    assert (np.asarray(axes.standardised)[largest, np.arange(K - 1)] > 0).all()


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_units_and_offsets_do_not_matter(covariance, data):
    x, y = data
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=True), K)
    unit = 4.0 if covariance == "spherical" else 10.0 ** np.arange(-2, D - 2)
    axes = gcf.discriminant_axes(gcf.fit(clf, x, y))
    other = gcf.discriminant_axes(gcf.fit(clf, x * unit + 1e3, y))
    for name in ("standardised", "mean", "ratio"):
        assert_close(getattr(axes, name), getattr(other, name), 1e-8)


@pytest.mark.slow
def test_from_statistics_of_any_making(data):
    x, y = data
    expected = gcf.discriminant_axes(gcf.fit(gcf.lda(K), x, y))
    for clf in (gcf.lda(K), gcf.qda(K)):
        merged = gcf.merge(gcf.stats(clf, x[:40], y[:40]), gcf.stats(clf, x[40:], y[40:]))
        assert_close(gcf.discriminant_axes(merged), expected, 1e-10)
    soft = gcf.stats(gcf.lda(K), x, np.eye(K)[y])
    assert_close(gcf.discriminant_axes(soft), expected, 1e-10)


@pytest.mark.slow
def test_more_features_than_rows(x64):
    rng = np.random.default_rng(0)
    y = np.arange(43) % K
    x = rng.normal(size=(43, 101)) + rng.normal(size=(K, 101))[y]
    clf = gcf.lda(K, shrinkage=0.3)
    params, whole = gcf.fit(clf, x, y), gcf.estimate(clf, gcf.stats(clf, x, y))
    assert isinstance(params.conditional, RowSpaceParams)
    assert_close(gcf.discriminant_axes(params), gcf.discriminant_axes(whole), 1e-11)
    found, expected = (gcf.log_joint(gcf.reduced_rank(p, 1), x) for p in (params, whole))
    assert_close(found, expected, 1e-11)


@pytest.mark.slow
def test_reduced_rank_on_vowel():
    vowel = gcf.datasets.load_vowel()
    params = gcf.fit(gcf.lda(11), vowel.x_train, vowel.y_train)
    axes = gcf.discriminant_axes(params)
    published = [0.699, 0.491, 0.496, 0.511, 0.515, 0.554, 0.554, 0.556, 0.552, 0.556]
    for m, expected in enumerate(published, 1):
        found = gcf.predict(gcf.reduced_rank(params, m), vowel.x_test)
        assert (np.asarray(found) != vowel.y_test).mean() == pytest.approx(expected, abs=5e-4)
        seen = gcf.transform(axes, vowel.x_test, num_axes=m)
        apart = np.asarray(seen)[:, None] - np.asarray(axes.mean)[None, :, :m]
        assert ((apart**2).sum(-1).argmin(1) == np.asarray(found)).mean() > 0.995
    all_axes = gcf.log_posterior(gcf.reduced_rank(params, 10), vowel.x_test)
    assert_close(all_axes, gcf.log_posterior(params, vowel.x_test), 1e-4)


def test_axes_under_vmap_and_grad(data):
    x, y = data
    weights = np.random.default_rng(0).uniform(0.5, 2, (3, len(y)))
    of = lambda w: gcf.discriminant_axes(gcf.fit(gcf.lda(K), x, y, w))  # noqa: E731
    batch = jax.vmap(of)(jnp.asarray(weights))
    for i in range(3):
        assert_close(jax.tree.map(lambda a, i=i: a[i], batch), of(weights[i]), 1e-10)
    slope = jax.grad(lambda w: of(w).ratio.sum())(jnp.asarray(weights[0]))
    step = 1e-6 * np.random.default_rng(1).normal(size=len(y))
    change = of(weights[0] + step).ratio.sum() - of(weights[0] - step).ratio.sum()
    np.testing.assert_allclose(2 * slope @ step, change, rtol=1e-5)


def test_what_has_no_axes(data):
    x, y = data
    params = gcf.fit(gcf.lda(K), x, y)
    with pytest.raises(ValueError, match="expected one covariance that all classes share"):
        gcf.discriminant_axes(gcf.fit(gcf.qda(K), x, y))
    with pytest.raises(ValueError, match="the statistics have no scatter matrix"):
        gcf.discriminant_axes(gcf.stats(gcf.gaussian_nb(K), x, y))
    with pytest.raises(ValueError, match="expected params of Gaussian classes with one covariance"):
        gcf.discriminant_axes(x)
    with pytest.raises(ValueError, match="num_axes is 3, expected at most 2"):
        gcf.reduced_rank(params, 3)
    with pytest.raises(ValueError, match="num_axes is 3, expected at most 2"):
        gcf.transform(gcf.discriminant_axes(params), x, num_axes=3)
    with pytest.raises(ValueError, match=r"x has shape \(101, 4\), expected \(..., 5\)"):
        gcf.transform(gcf.discriminant_axes(params), x[:, :4])


SHAPES = {"many": (101, 5, 3), "two": (31, 3, 2), "wide": (41, 2, 5), "few": (17, 7, 3)}


def groups(name):
    n, d, k = SHAPES[name]
    rng = np.random.default_rng(len(name))
    y = np.arange(n) % k
    return rng.normal(size=(n, d)) + 0.4 * rng.normal(size=(k, d))[y], y, k


@pytest.mark.slow("wide")
@pytest.mark.parametrize("name", SHAPES)
def test_manova_as_statsmodels(name, x64):
    x, y, k = groups(name)
    names = [f"x{i}" for i in range(x.shape[1])]
    table = pd.DataFrame(x, columns=names).assign(y=y)
    peer = MANOVA.from_formula(f"{'+'.join(names)} ~ C(y)", table).mv_test()
    rows = peer.results["C(y)"]["stat"].astype(float).to_numpy()
    for clf in (gcf.lda(k), gcf.qda(k)):
        found = gcf.manova(gcf.stats(clf, x, y))
        tests = (found.wilks, found.pillai, found.hotelling_lawley, found.roy)
        for row, t in zip(rows, tests, strict=True):
            ours = [t.statistic, t.numerator, t.denominator, t.value, t.p_value]
            np.testing.assert_allclose(ours, row, rtol=1e-9)


@pytest.mark.parametrize("name", ["many", "two", "wide"])
def test_box_m_and_hotelling_as_statsmodels(name, x64):
    x, y, k = groups(name)
    found = gcf.manova(gcf.stats(gcf.qda(k), x, y))
    own = [np.cov(x[y == j].T) for j in range(k)]
    peer = equal_covariances(own, np.bincount(y))
    np.testing.assert_allclose(found.box_m.value, peer.statistic_chi2, rtol=1e-9)
    np.testing.assert_allclose(found.box_m.p_value, peer.pvalue_chi2, rtol=1e-7)
    n = np.bincount(y)
    pooled = np.einsum("k,kij->ij", n - 1, own) / (len(y) - k)
    apart = np.stack([x[y == j].mean(0) for j in range(k)])
    apart = apart[:, None] - apart[None]
    squared = np.einsum("kli,ij,klj->kl", apart, np.linalg.inv(pooled), apart)
    np.testing.assert_allclose(found.squared_distance, squared, atol=1e-10)
    if k == 2:
        peer = equal_means(x[y == 0], x[y == 1])
        np.testing.assert_allclose(found.hotelling.statistic[0, 1], peer.t2)
        np.testing.assert_allclose(found.hotelling.p_value[0, 1], peer.pvalue)


def test_manova_of_merged_and_weighted_statistics(x64):
    x, y, k = groups("many")
    clf, times = gcf.qda(k), 1 + np.arange(len(y)) % 3
    whole = gcf.manova(gcf.stats(clf, np.repeat(x, times, 0), np.repeat(y, times)))
    merged = gcf.merge(*(gcf.stats(clf, x[i::2], y[i::2], times[i::2] * 1.0) for i in (0, 1)))
    assert_close(gcf.manova(merged), whole, 1e-10)


def test_manova_where_rows_are_too_few():
    x, y, k = groups("few")
    found = gcf.manova(gcf.stats(gcf.qda(k), x.astype(np.float32), y))
    assert np.isfinite(found.wilks.p_value) and np.isnan(found.box_m.p_value)
    found = gcf.manova(gcf.stats(gcf.qda(k), x[:9].astype(np.float32), y[:9]))
    assert np.isnan(found.wilks.p_value) and np.isnan(found.hotelling.p_value).all()
    assert gcf.manova(gcf.stats(gcf.lda(k), x, y)).box_m is None
    with pytest.raises(ValueError, match="the statistics have no scatter matrix"):
        gcf.manova(gcf.stats(gcf.gaussian_nb(k), x, y))


@pytest.mark.slow("float64")
def test_manova_where_a_covariance_is_singular(dtype):
    x, y, k = groups("many")
    of_class = np.where(y == 0, 1.0, x[:, 3])
    last = {"dependent": x[:, 0] + x[:, 3], "twice": 2 * x[:, 0], "constant": np.ones(len(y))}
    for column in last.values():
        found = gcf.manova(gcf.stats(gcf.qda(k), np.c_[x, column].astype(dtype), y))
        assert np.isnan(found.wilks.p_value) and np.isnan(found.box_m.p_value)
        assert np.isnan(found.box_m.statistic) and np.isnan(found.squared_distance).all()
    found = gcf.manova(gcf.stats(gcf.qda(k), np.c_[x[:, :3], of_class].astype(dtype), y))
    assert np.isfinite(found.wilks.p_value) and np.isnan(found.box_m.p_value)


def test_manova_in_float32_at_an_offset():
    x, y, k = groups("many")
    near = gcf.manova(gcf.stats(gcf.qda(k), x.astype(np.float32), y))
    far = (x + 1e3).astype(np.float32)
    found = gcf.manova(gcf.stats(gcf.qda(k), far, y))
    for name in ("wilks", "pillai", "hotelling_lawley", "roy", "box_m"):
        pair = (getattr(m, name).statistic for m in (found, near))
        np.testing.assert_allclose(*pair, rtol=2e-3)


def test_an_absent_class_is_not_there(x64):
    x, y, k = groups("many")
    found = gcf.manova(gcf.stats(gcf.qda(k + 1), x, y))
    expected = gcf.manova(gcf.stats(gcf.qda(k), x, y))
    for name in ("wilks", "pillai", "hotelling_lawley", "roy", "box_m"):
        assert_close(getattr(found, name), getattr(expected, name), 1e-12)
    np.testing.assert_allclose(found.squared_distance[:k, :k], expected.squared_distance)
    assert np.isnan(found.squared_distance[k]).all()
