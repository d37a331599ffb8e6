"""float32 is float64 with fewer digits: a fit loses no more of them than its scores do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import genclf as gcf
from tests.registry import FAMILIES, MODELS, K, floating, leaves_of, stack

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
    pooled = gcf.pool(stack(parts))
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


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_equal_rows_far_away_hide_no_other_class(covariance, shared, dtype):
    rng, far = np.random.default_rng(4), 10 / float(np.finfo(dtype).eps)
    y = np.arange(307) % K
    x = (0.7 * rng.standard_normal((K, 5))[y] + rng.standard_normal((307, 5))).astype(dtype)
    x[y == K - 1] = far
    near, rows = y < K - 1, x[y < K - 1].astype(np.float64)
    params = gcf.fit(gcf.Classifier(gcf.Gaussian(covariance, shared=shared), K), x, y)
    centred = [rows[y[near] == k] - rows[y[near] == k].mean(0) for k in range(K - 1)]
    within = np.stack([(a.T @ a) / len(a) for a in centred])
    if shared:
        within[:] = sum(a.T @ a for a in centred) / len(y)
    if covariance != "full":
        within = within * np.eye(5)
    if covariance == "spherical":
        within[:] = np.trace(within, axis1=1, axis2=2)[:, None, None] / 5 * np.eye(5)
    right = [
        np.log(len(a)) + stats.multivariate_normal(rows[y[near] == k].mean(0), s).logpdf(rows)
        for k, (a, s) in enumerate(zip(centred, within, strict=True))
    ]
    for found in (gcf.log_joint(params, x), gcf.log_posterior(params, x)):
        odds = np.asarray(found[near, 1] - found[near, 0])
        np.testing.assert_allclose(odds, right[1] - right[0], atol=50 * np.finfo(dtype).eps)
    assert (np.asarray(gcf.predict(params, x))[~near] == K - 1).all()


def test_numbers_of_few_digits_are_summed_without_bias():
    # Multiples of 1/16: the rounding errors of a long float32 sum of these have one sign.
    rng = np.random.default_rng(2)
    x = np.round(16 * rng.standard_normal((30011, 3))).astype(np.float32) / 16
    for clf in (gcf.lda(1), gcf.gaussian_nb(1)):
        s = gcf.stats(clf, x, np.zeros(len(x), np.int32)).conditional
        mean = np.asarray(s.mean, np.float64) + np.asarray(s.rounding[1], np.float64)
        np.testing.assert_allclose(mean[0], x.astype(np.float64).mean(0), atol=3e-7)


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


def results(model, dtype):
    x, y = model.example(dtype)
    params = gcf.fit(model.classifier, x, y)
    seen = model.example(dtype, seed=1)[0]
    s = gcf.stats(model.classifier, x, y)
    found = (params, gcf.log_joint(params, seen), gcf.log_posterior(params, seen))
    leaves = leaves_of((*found, gcf.log_lik(params, s)))
    return [(path, a) for path, a in leaves if not path.endswith("rounding")]  # of float32 alone


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_float32_agrees_with_float64(model):
    with jax.enable_x64(True):
        double = results(model, "float64")
    with jax.enable_x64(False):
        single = results(model, "float32")
    for (path, a), (_, b) in zip(single, double, strict=True):
        if np.issubdtype(b.dtype, np.floating):
            assert (a.dtype, b.dtype) == (np.float32, np.float64), path
        # Some ten roundings of the largest number; data themselves are rounded once.
        scale = max(1.0, np.abs(b).max(initial=0))
        assert np.abs(a - b).max(initial=0) < 2e-5 * scale, path


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", FAMILIES, ids=str)
def test_with_x64_float32_data_stay_float32(model):
    with jax.enable_x64(True):
        x, y = model.example("float32")
        params = gcf.fit(model.classifier, x, y)
        expected = {np.dtype("float32" if floating(x) else "float64")}
        learned = [leaf for path, leaf in leaves_of(params) if not path.endswith("threshold")]
        assert {leaf.dtype for leaf in learned} == expected
        assert gcf.log_posterior(params, x).dtype in expected


def has_float16():
    """Whether XLA compiles float16 here: not for processors without F16C, such as those of SSE4."""
    try:
        jax.jit(lambda a: a.astype(np.float32))(np.ones(2, np.float16))
    except jax.errors.JaxRuntimeError:
        return False
    return True


@pytest.mark.slow(but=("bool",))
@pytest.mark.parametrize("kind", ["bfloat16", "float16", "int8", "uint8", "bool", "int64"])
def test_narrow_data_are_summed_in_float32(kind):
    if kind == "float16" and not has_float16():
        pytest.skip("XLA has no float16 on this processor")
    # 517 ones overflow what int8 can count and lose units in bfloat16.
    x = np.ones((517, 2), jax.numpy.dtype(kind))
    y = (np.arange(517) % K).astype(np.int8)
    for clf in (gcf.gaussian_nb(K), gcf.bernoulli_nb(K), gcf.multinomial_nb(K)):
        params = gcf.fit(clf, x, y)
        assert {leaf.dtype for _, leaf in leaves_of(params)} == {np.dtype("float32")}
        s = gcf.stats(clf, x, y)
        np.testing.assert_array_equal(s.count, [173, 172, 172])
        total = getattr(s.conditional, "total", None)
        if total is not None:
            np.testing.assert_array_equal(total, [[173] * 2, [172] * 2, [172] * 2])
        np.testing.assert_array_equal(gcf.predict(params, x), np.zeros(517))


def test_scatters_of_fewer_rows_than_features_in_float32():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(211, 223)) + 100).astype(np.float32)
    y = np.arange(211) % 2
    scatter = np.asarray(gcf.stats(gcf.lda(2), x, y).conditional.scatter, float)
    z = x.astype(float) - np.stack([x[y == k].astype(float).mean(0) for k in range(2)])[y]
    np.testing.assert_allclose(scatter[0], z.T @ z, atol=2e-4 * 211)
