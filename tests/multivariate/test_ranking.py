"""Cat scores, false discovery rates and shrunken centroids, beside formulas and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power
from scipy.stats import f_oneway, false_discovery_control
from sklearn.neighbors import NearestCentroid

import genclf as gcf
from tests.registry import BY_NAME, D, K, assert_close

JAMES_STEIN = {"shrinkage": "james-stein", "target": "diagonal"}


@pytest.fixture
def data(x64):
    return BY_NAME["gaussian"].example("float64")


def wide(n=31, d=53):
    rng = np.random.default_rng(1)
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.2 * rng.normal(size=(d, d))) + 7
    x[:, :5] += y[:, None]
    return x, y


def shared(**rules):
    return gcf.Classifier(gcf.Gaussian(shared=True, ddof=float(K), **rules), K)


def by_formula(x, y, shrinkage):
    n, count = len(y), np.bincount(y, minlength=K)
    mean = np.stack([x[y == k].mean(0) for k in range(K)])
    z = x - mean[y]
    variance = (z**2).sum(0) / (n - K)
    unit = z / np.sqrt((z**2).mean(0))
    correlation = unit.T @ unit / n
    if shrinkage is None:
        squares, uncertain = np.einsum("ni,nj->ij", unit**2, unit**2) / n, 0.0
        uncertain = (squares - correlation**2) / (n - 1)
        off = ~np.eye(len(variance), dtype=bool)
        shrinkage = min(1, uncertain[off].sum() / (correlation[off] ** 2).sum())
    correlation = (1 - shrinkage) * correlation + shrinkage * np.eye(len(variance))
    root = fractional_matrix_power(correlation, -0.5)
    size = np.sqrt(1 / count - 1 / n)
    return ((mean - x.mean(0)) / np.sqrt(variance)) @ root / size[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("shrinkage", [0.0, None], ids=["none", "james-stein"])
def test_cat_scores_as_by_formula(shrinkage, data):
    x, y = data
    clf = shared(**JAMES_STEIN) if shrinkage is None else gcf.lda(K)
    first, second = (gcf.stats(clf, x[part], y[part]) for part in (slice(41), slice(41, None)))
    merged = gcf.merge(first, second)
    expected = by_formula(x, y, shrinkage)
    np.testing.assert_allclose(gcf.cat_scores(merged).score, expected, rtol=1e-10)
    found = gcf.cat_scores(
        gcf.fit(shared(**(JAMES_STEIN if shrinkage is None else {})), x, y), merged.count
    )
    np.testing.assert_allclose(found.score, expected, rtol=1e-10)


def test_cat_scores_of_more_features_than_rows(x64):
    x, y = wide()
    params = gcf.fit(shared(**JAMES_STEIN), x, y)
    assert params.conditional.mean.shape == (K, x.shape[1])
    found = gcf.cat_scores(params, np.bincount(y))
    np.testing.assert_allclose(found.score, by_formula(x, y, None), rtol=1e-9, atol=1e-12)
    moved = gcf.cat_scores(gcf.fit(shared(**JAMES_STEIN), 3 * x - 100, y), np.bincount(y))
    np.testing.assert_allclose(moved.score, found.score, rtol=1e-8, atol=1e-11)


def test_without_correlations_an_analysis_of_variance(data):
    x, y = data
    params = gcf.fit(gcf.Classifier(gcf.Gaussian("diag", shared=True, ddof=float(K)), K), x, y)
    found = gcf.cat_scores(params, np.bincount(y))
    expected = f_oneway(*(x[y == k] for k in range(K)))
    np.testing.assert_allclose(found.overall / (K - 1), expected.statistic, rtol=1e-11)
    np.testing.assert_allclose(found.p_value, expected.pvalue, rtol=1e-8)


@pytest.mark.slow
def test_all_features_together_have_the_trace_of_hotelling_and_lawley(data):
    stats = gcf.stats(gcf.lda(K), *data)
    expected = gcf.manova(stats).hotelling_lawley.statistic * (len(data[1]) - K)
    assert_close(gcf.cat_scores(stats).overall.sum(), expected, 1e-11)


def test_a_class_without_examples_has_no_scores(data):
    x, y = data
    other = gcf.cat_scores(gcf.stats(gcf.lda(K + 1), x, np.where(y == 2, 3, y)))
    found = gcf.cat_scores(gcf.stats(gcf.lda(K), x, y))
    assert np.isnan(other.score[2]).all()
    assert_close(
        jax.tree.map(jnp.asarray, (other.score[np.array([0, 1, 3])], other.p_value)),
        (found.score, found.p_value),
        1e-11,
    )


@pytest.mark.parametrize(
    ("source", "count", "message"),
    [
        ("stats", np.ones(3), "count is given together with statistics"),
        ("params", None, "count is not given, expected the weights of 3 classes"),
        ("params", np.ones(2), "expected the weights of 3 classes"),
        ("params", np.array([0.2, 0.3, 0.5]), "expected the weight of the examples of each class"),
        ("own", np.ones(3), "fit Gaussian"),
        ("diagonal", None, "no scatter matrix"),
        ("ledoit-wolf", None, 'expected "james-stein" or none'),
    ],
)
def test_invalid_arguments_of_cat_scores(source, count, message, data):
    clf = {
        "own": gcf.qda(K),
        "diagonal": gcf.gaussian_nb(K),
        "ledoit-wolf": gcf.lda(K, shrinkage="ledoit-wolf"),
    }.get(source, gcf.lda(K))
    make = gcf.fit if source in ("params", "own") else gcf.stats
    with pytest.raises(ValueError, match=message):
        gcf.cat_scores(make(clf, *data), count)


def test_rows_shrunk_towards_the_identity_have_no_correlations(x64):
    params = gcf.fit(gcf.lda(K, shrinkage=0.1), *wide())
    with pytest.raises(ValueError, match='fit with target="diagonal"'):
        gcf.cat_scores(params, np.ones(3))
    stats = gcf.stats(shared(shrinkage=0.1, target="diagonal"), *wide())
    with pytest.raises(ValueError, match="too few for unshrunk correlations"):
        gcf.cat_scores(stats)


@pytest.mark.slow
def test_ranking_finds_what_tells_something(x64):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 59)
    x = rng.normal(size=(59, 499))
    x[:, 7:20] += 1.5 * y[:, None]
    scores = gcf.cat_scores(gcf.fit(shared(**JAMES_STEIN), x, y), np.bincount(y))
    found = gcf.rank_features(scores)
    assert set(found.order[:13]) == set(range(7, 20))
    np.testing.assert_array_equal(np.sort(found.order), np.arange(499))
    np.testing.assert_allclose(found.tail_rate, false_discovery_control(scores.p_value))
    assert (found.local_rate[7:20] < 0.05).all() and (found.local_rate[20:] > 0.2).mean() > 0.97
    with pytest.raises(ValueError, match="feature 3 is NaN"):
        gcf.rank_features(
            gcf.CatScores(scores.score, scores.overall, scores.p_value.at[3].set(jnp.nan))
        )


THRESHOLDS = (0.0, 0.7, 2.9)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_centroids_as_scikit_learn(threshold, data):
    x, y = data
    params = gcf.fit(gcf.nearest_shrunken_centroids(K, soft_threshold=threshold), x, y)
    peer = NearestCentroid(shrink_threshold=threshold or None, priors="empirical").fit(x, y)
    np.testing.assert_allclose(params.conditional.mean, peer.centroids_, rtol=1e-12)
    deviation = peer.within_class_std_dev_
    np.testing.assert_allclose(
        params.conditional.scale[0], deviation + np.median(deviation), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", ["float32"], indirect=True)
def test_an_offset_costs_no_digits(dtype):
    x, y = BY_NAME["gaussian"].example("float32")
    x = np.round(16 * x) / 16
    clf = gcf.nearest_shrunken_centroids(K, soft_threshold=0.7)
    near, far = gcf.fit(clf, x, y), gcf.fit(clf, x + np.float32(2**14), y)
    assert_close(gcf.log_posterior(far, x + np.float32(2**14)), gcf.log_posterior(near, x), 2e-5)


def test_path_is_that_of_fits(data):
    x, y = data
    clf = gcf.nearest_shrunken_centroids(K, soft_threshold=0.0)
    path = gcf.threshold_path(clf, gcf.stats(clf, x, y), num_thresholds=7)
    differ = np.ptp(np.asarray(path.params.conditional.mean), axis=1) > 1e-12
    np.testing.assert_array_equal(path.num_features, differ.sum(1))
    assert path.num_features[0] == D and path.num_features[-1] == 0
    for i, threshold in enumerate(path.threshold):
        one = gcf.fit(gcf.nearest_shrunken_centroids(K, soft_threshold=float(threshold)), x, y)
        assert_close(jax.tree.map(lambda a, i=i: a[i], path.params), one, 1e-12)
    posterior = gcf.log_posterior(one, x)
    assert_close(posterior, jnp.broadcast_to(one.log_prior, posterior.shape), 1e-12)
    np.testing.assert_array_equal(
        differ, np.asarray(path.largest)[None] > np.asarray(path.threshold)[:, None]
    )


def test_gradient_by_the_threshold(data):
    def loss(threshold):
        clf = gcf.nearest_shrunken_centroids(K, soft_threshold=threshold)
        return gcf.log_posterior(gcf.fit(clf, *data), data[0])[:, 0].sum()

    step = 1e-5
    numeric = (loss(0.7 + step) - loss(0.7 - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(loss)(0.7), numeric, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x, y: gcf.fit(gcf.Classifier(gcf.Gaussian(soft_threshold=1.0), K), x, y),
            "shared=True",
        ),
        (
            lambda x, y: gcf.fit(gcf.nearest_shrunken_centroids(K, soft_threshold=-1.0), x, y),
            "soft_threshold is -1.0, expected >= 0",
        ),
        (
            lambda x, y: gcf.fit_gradient(
                gcf.nearest_shrunken_centroids(K, soft_threshold=1.0), x, y
            ),
            "a soft_threshold is given, and such an estimate does not maximise a penalised",
        ),
        (
            lambda x, y: gcf.em(
                gcf.nearest_shrunken_centroids(K, soft_threshold=0.0),
                x,
                np.where(y == 0, -1, y),
                key=jax.random.key(0),
            ),
            "EM cannot use ddof and soft_threshold",
        ),
        (
            lambda x, y: gcf.threshold_path(gcf.lda(K), gcf.stats(gcf.lda(K), x, y)),
            "expected a model with a soft_threshold",
        ),
    ],
)
def test_where_there_is_no_threshold(call, message, data):
    with pytest.raises(ValueError, match=message):
        call(*data)
