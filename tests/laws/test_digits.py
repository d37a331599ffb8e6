"""In float32 a fit loses no more digits than its scores do; directions without spread are ruled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import K

PRESETS = [gcf.lda, gcf.qda]
BOTH = pytest.mark.parametrize("preset", PRESETS)
# Products in float64 in one reading, and float32 products of whitened rows in a second one.
SIZES = {"small": (2003, 7), "large": (20011, 31)}


def ill_conditioned(n, d, condition, seed=0, offset=0.0):
    """Classes with rotated covariances of that condition number, near each other; float32."""
    rng = np.random.default_rng(seed)
    root = np.linalg.qr(rng.standard_normal((K, d, d)))[0] * np.geomspace(1, condition**-0.5, d)
    root = root @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    root[1:] = root[:1] * np.linspace(1, 1.3, K)[1:, None, None]
    y = rng.integers(0, K, n).astype(np.int32)
    mean = 0.7 * rng.standard_normal((K, d)) @ root[0]
    x = mean[y] + np.einsum("nj,njk->nk", rng.standard_normal((n, d)), root[y])
    return (x + offset).astype(np.float32), y


def posterior(params, x):
    return np.asarray(jnp.exp(gcf.log_posterior(params, x)), np.float64)


def double(clf, x, y, weights=None):
    """Params of a fit in float64, and their posterior."""
    with jax.enable_x64(True):
        params = gcf.fit(clf, x.astype(np.float64), y, weights)
        return params, posterior(params, x.astype(np.float64))


def errors(clf, found, x, y):
    """Largest errors of the posterior: of these params, and of rounded params of float64."""
    exact, right = double(clf, x, y)
    rounded = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float32)), exact)
    return tuple(np.abs(posterior(p, x) - right).max() for p in (found, rounded))


@pytest.mark.slow(
    but=(
        "lda-small-10000.0",
        "lda-small-1000000.0",
        "qda-small-100.0",
        "qda-small-10000.0",
        "qda-small-1000000.0",
    )
)
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("size", SIZES)
@BOTH
def test_a_fit_loses_no_more_than_scoring(preset, size, condition):
    clf, found = preset(K), []
    for seed in range(3):
        x, y = ill_conditioned(*SIZES[size], condition, seed)
        found.append(errors(clf, gcf.fit(clf, x, y), x, y))
    ours, alone = np.max(found, 0)
    assert ours <= max(3 * alone, 1e-6)


@pytest.mark.slow
@BOTH
def test_merged_and_removed_statistics_keep_the_digits(preset):
    x, y = ill_conditioned(*SIZES["small"], 1e6)
    clf = preset(K)
    parts = [
        gcf.stats(clf, a, b)
        for a, b in zip(np.split(x[:2000], 8), np.split(y[:2000], 8), strict=True)
    ]
    merged = parts[0]
    for s in parts[1:]:
        merged = gcf.merge(merged, s)
    pooled = gcf.pool(jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts))
    removed = gcf.remove(gcf.stats(clf, x, y), gcf.stats(clf, x[2000:], y[2000:]))
    for s in (merged, pooled, removed):
        ours, alone = errors(clf, gcf.estimate(clf, s), x[:2000], y[:2000])
        assert ours <= 5 * alone


@pytest.mark.slow("lda")
@BOTH
def test_scaled_statistics_and_single_rows_keep_the_digits(preset):
    x, y = ill_conditioned(307, 4, 1e6)
    clf = preset(K)
    faded = gcf.scale(gcf.stats(clf, x, y), 0.99)
    rows = gcf.stats(clf, x[:1], y[:1])
    merge = jax.jit(lambda s, x, y: gcf.merge(s, gcf.stats(clf, x, y)))
    for i in range(1, len(y)):
        rows = merge(rows, x[i : i + 1], y[i : i + 1])
    for s in (faded, rows):
        ours, alone = errors(clf, gcf.estimate(clf, s), x, y)
        assert ours <= 5 * alone


@pytest.mark.slow("lda")
@BOTH
def test_a_far_column_hides_no_thin_direction(preset):
    rng = np.random.default_rng(0)
    near, noise = rng.standard_normal((2, 1009))
    y = rng.integers(0, 2, 1009)
    x = np.stack([1e6 + rng.standard_normal(1009), near, near + 0.03 * (noise + y)], 1)
    x, clf = x.astype(np.float32), preset(2)
    assert (np.asarray(gcf.diagnose(clf, x, y).conditional.rank) == 3).all()
    _, right = double(clf, x, y)
    assert np.abs(posterior(gcf.fit(clf, x, y), x) - right).max() < 3e-5


@pytest.mark.slow
def test_barely_more_rows_than_features():
    # More products than float64 is used for, and fewer than two rows for each feature.
    x, y = ill_conditioned(431, 223, 1e5)
    ours, alone = errors(gcf.lda(K), gcf.fit(gcf.lda(K), x, y), x, y)
    assert ours <= 3 * alone


@pytest.mark.slow("lda")
@BOTH
def test_weights_and_vmap_keep_the_digits(preset):
    x, y = ill_conditioned(*SIZES["small"], 1e6)
    clf, weights = preset(K), (np.arange(len(y)) % 3).astype(np.float32)
    _, right = double(clf, x, y, weights.astype(np.float64))
    _, plain = double(clf, x, y)
    both = jax.vmap(gcf.fit, (None, None, None, 0))(
        clf, x, y, jnp.stack([jnp.asarray(weights), jnp.ones(len(y))])
    )
    for i, exact in enumerate((right, plain)):
        params = jax.tree.map(lambda a, i=i: a[i], both)
        assert np.abs(posterior(params, x) - exact).max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@BOTH
def test_gradients_are_those_of_float64(preset, size):
    x, y = ill_conditioned(*SIZES[size], 1e3)
    clf = preset(K)

    def loss(x, ridge):
        params = gcf.fit(preset(K, ridge=ridge), x, y)
        return gcf.log_posterior(params, x[:101])[jnp.arange(101), y[:101]].mean()

    single = jax.grad(loss, (0, 1))(jnp.asarray(x), 0.01)
    with jax.enable_x64(True):
        exact = jax.grad(loss, (0, 1))(jnp.asarray(x, jnp.float64), 0.01)
    assert clf.num_classes == K
    for a, b in zip(single, exact, strict=True):
        assert np.abs(np.asarray(a) - np.asarray(b)).max() < 1e-3 * np.abs(np.asarray(b)).max()


@pytest.mark.slow
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("preset", [*PRESETS, gcf.gaussian_nb])
def test_an_offset_costs_no_digits(preset, offset):
    rng = np.random.default_rng(1)
    y = rng.integers(0, K, 4001).astype(np.int32)
    x = offset + 0.7 * rng.standard_normal((K, 5))[y] + rng.standard_normal((4001, 5))
    x, clf = x.astype(np.float32), preset(K)
    params, (_, right) = gcf.fit(clf, x, y), double(clf, x, y)
    assert np.abs(posterior(params, x) - right).max() < 5e-6
    s = gcf.merge(gcf.stats(clf, x[:2000], y[:2000]), gcf.stats(clf, x[2000:], y[2000:]))
    assert np.abs(posterior(gcf.estimate(clf, s), x) - right).max() < 5e-6


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_a_class_far_from_the_others_costs_few_digits(covariance, dtype):
    eps = float(np.finfo(dtype).eps)
    rng, far = np.random.default_rng(4), 0.5 * eps**-0.5
    y = rng.integers(0, K, 2003)
    mean = 0.7 * rng.standard_normal((K, 5))
    mean[-1] += far * rng.standard_normal(5)
    x = (mean[y] + rng.standard_normal((2003, 5))).astype(dtype)
    params = gcf.fit(gcf.Classifier(gcf.Gaussian(covariance, shared=True), K), x, y)
    rows = x.astype(np.float64)
    means = np.stack([rows[y == k].mean(0) for k in range(K)])
    centred = rows - means[y]
    within = centred.T @ centred / len(y)
    within = within if covariance == "full" else np.diag(np.diag(within))
    apart = rows[:, None] - means[None]
    half = 0.5 * np.einsum("nki,ij,nkj->nk", apart, np.linalg.inv(within), apart)
    right = np.exp(half.min(1, keepdims=True) - half) * np.bincount(y)
    right = right / right.sum(1, keepdims=True)
    for score in (gcf.log_posterior, gcf.log_joint):
        found = np.exp(jax.nn.log_softmax(score(params, x)))
        assert np.abs(found - right).max() < 2 * eps * far


def test_numbers_of_few_digits_are_summed_without_bias():
    # Multiples of 1/16: the rounding errors of a long float32 sum of these have one sign.
    rng = np.random.default_rng(2)
    x = np.round(16 * rng.standard_normal((30011, 3))).astype(np.float32) / 16
    for clf in (gcf.lda(1), gcf.gaussian_nb(1)):
        s = gcf.stats(clf, x, np.zeros(len(x), np.int32)).conditional
        mean = np.asarray(s.mean, np.float64) + np.asarray(s.rounding[1], np.float64)
        np.testing.assert_allclose(mean[0], x.astype(np.float64).mean(0), atol=3e-7)


# Directions in which nothing varies.


def few_rows(dtype=np.float64, n=15, d=31, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)).astype(dtype), np.arange(n) % K


@pytest.mark.slow("lda-31", "qda-31")
@pytest.mark.parametrize("d", [7, 31])
@BOTH
def test_repeated_rows_are_weights_where_nothing_varies(preset, d, x64):
    x, y = few_rows(d=d)
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


@BOTH
def test_a_small_ridge_is_continuous(preset, dtype):
    x, y = few_rows(dtype)
    new = few_rows(dtype, seed=1)[0]
    least = float(np.finfo(dtype).eps) ** (2 / 3)

    def score(ridge):
        return np.asarray(gcf.log_joint(gcf.fit(preset(K, ridge=ridge), x, y), new), np.float64)

    for ridge in least * 10.0 ** np.arange(-6, 0):
        np.testing.assert_allclose(score(ridge), score(0.0), rtol=1e-3)
    np.testing.assert_allclose(score(1.001 * least), score(0.999 * least), rtol=2e-3)


@BOTH
def test_a_larger_ridge_is_exact(preset, x64):
    x, y = few_rows()
    params = gcf.fit(preset(K, ridge=1e-6), x, y).conditional
    centred = x - np.stack([x[y == k].mean(0) for k in range(K)])[y]
    typical = (centred**2).mean(0)
    for k in range(K):
        rows = centred if preset is gcf.lda else centred[y == k]
        expected = rows.T @ rows / len(rows) + 1e-6 * np.diag(typical)
        np.testing.assert_allclose(params.covariances[k], expected, atol=1e-14)


@BOTH
def test_units_do_not_matter_where_nothing_varies(preset, x64):
    x, y = few_rows()
    units = 10.0 ** np.random.default_rng(3).uniform(-3, 3, x.shape[1])
    new = few_rows(seed=1)[0]
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
    x, y = few_rows(dtype, n=101, d=5)
    x[:, 4] = x[:, 1] - 2 * x[:, 2]
    found = gcf.diagnose(preset(K), x, y).conditional
    assert (np.asarray(found.rank) == 4).all()
    assert (np.asarray(found.dependent) == [False, True, True, False, True]).all()
    with pytest.raises(ValueError, match=r"features \[1, 2, 4\] are linearly dependent"):
        gcf.validate(preset(K), x, y)
    x[:, 4] += 1e-3 * few_rows(dtype, n=101, d=1, seed=1)[0][:, 0]
    found = gcf.diagnose(preset(K), x, y).conditional
    assert (np.asarray(found.rank) == 5).all() and not np.asarray(found.dependent).any()


@BOTH
def test_a_combination_that_never_varies_is_no_evidence(preset, x64):
    x, y = few_rows(n=101, d=4)
    twice = np.concatenate([x, x[:, :1] + x[:, 1:2]], 1)
    new = np.random.default_rng(1).standard_normal((43, 4))
    beside = np.concatenate([new, new[:, :1] + new[:, 1:2]], 1)
    a = gcf.log_posterior(gcf.fit(preset(K), x, y), new)
    b = gcf.log_posterior(gcf.fit(preset(K), twice, y), beside)
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("clf", [gcf.lda(K), gcf.qda(K)], ids=["lda", "qda"])
def test_weights_and_an_outlier_are_summed_without_rounding(clf):
    rng, rows = np.random.default_rng(0), 43
    y, w = np.arange(rows) % K, rng.uniform(0.5, 3, rows).astype(np.float32)
    x = (rng.normal(size=(rows, 5)) * 10.0 ** np.arange(-2, 3)).astype(np.float32)
    x[7] += 4  # 400 standard deviations of the first feature
    found = gcf.stats(clf, x, y, w).conditional
    scatter = np.asarray(found.scatter, float) + np.asarray(found.rounding[2], float)
    with jax.enable_x64(True):
        exact = gcf.stats(clf, x.astype(float), y, w.astype(float)).conditional
        expected = np.asarray(exact.scatter)
    unit = np.sqrt(np.diagonal(expected, axis1=1, axis2=2))
    apart = (scatter - expected) / (unit[:, :, None] * unit[:, None])
    assert np.abs(apart).max() < 1e-11


@pytest.fixture
def optimized():
    """Programs compiled as users compile them: what is fused may be rounded differently."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [1e4, 1e6])
@pytest.mark.parametrize(
    "family", [gcf.Gaussian("diag"), gcf.Gaussian("diag", shared=True)], ids=["own", "shared"]
)
def test_a_row_has_the_same_posterior_alone_and_in_a_batch(family, offset, optimized):
    rng = np.random.default_rng(0)
    d = 1511 if family.shared else 199
    y, rows = np.arange(83) % K, np.arange(211) % K
    mean = offset + 0.05 * rng.standard_normal((K, d))
    x = (mean[y] + rng.standard_normal((83, d))).astype(np.float32)
    new = (mean[rows] + rng.standard_normal((211, d))).astype(np.float32)
    params = gcf.fit(gcf.Classifier(family, K), x, y)
    batch = np.exp(gcf.log_posterior(params, new))
    alone = np.exp([gcf.log_posterior(params, row) for row in new[:5]])
    np.testing.assert_allclose(batch[:5], alone, atol=2e-4)
    with jax.enable_x64(True):
        wide = gcf.fit(gcf.Classifier(family, K), x.astype(float), y)
        expected = np.exp(gcf.log_posterior(wide, new.astype(float)))
    np.testing.assert_allclose(batch, expected, atol=2e-4)
