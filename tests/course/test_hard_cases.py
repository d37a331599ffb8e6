"""Known answers that broke respected libraries, numbered as in the list they were gathered in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.classifier import conversion as entry
from tests.costs import counted
from tests.registry import assert_close, assert_same, take

POSTERIOR = {"float32": 1e-6, "float64": 1e-12}
GAUSSIANS = [
    gcf.Gaussian(covariance=covariance, shared=shared)
    for covariance in ("full", "diag", "spherical")
    for shared in (False, True)
]


def posterior(params, x):
    return np.exp(np.asarray(gcf.log_posterior(params, x), np.float64))


def rows(dtype, n=101, d=5, num_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % num_classes).astype(np.int32)
    mean = rng.normal(size=(num_classes, d))
    return (mean[y] + rng.normal(size=(n, d))).astype(dtype), y


def test_01_large_offset_in_float32():
    x = np.array([[2.0**20 - 1], [2.0**20], [2.0**20 + 1]], np.float32)
    params = gcf.fit(gcf.gaussian_nb(1), x, np.zeros(3, int))
    assert params.conditional.mean[0, 0] == 2.0**20
    np.testing.assert_allclose(params.conditional.covariances.ravel(), 2 / 3, rtol=1e-6)


@pytest.mark.parametrize("preset", [gcf.gaussian_nb, gcf.qda])
def test_02_a_far_class_does_not_touch_a_variance(preset, x64):
    x = np.array([[1e8], [1e8 + 1], [1e8 + 2], [0.0], [1.0], [2.0]])
    params = gcf.fit(preset(2), x, np.array([0, 0, 0, 1, 1, 1]))
    np.testing.assert_allclose(params.conditional.covariances.ravel(), 2 / 3, rtol=1e-12)


@pytest.mark.slow(
    "float32-1000000.0-Gaussian()",
    "float32-1000000.0-Gaussian(covariance='diag', shared=True)",
    "float64-1000000.0-Gaussian()",
    "float64-1000000.0-Gaussian(covariance='diag', shared=True)",
)
@pytest.mark.parametrize("family", GAUSSIANS[:4], ids=str)
@pytest.mark.parametrize("value", [1e6, 0.1])
def test_02_a_constant_feature_changes_no_posterior(family, value, dtype):
    x, y = rows(dtype)
    more = np.concatenate([x, np.full((len(x), 1), value, dtype)], axis=1)
    clf = gcf.Classifier(family, 3)
    without = posterior(gcf.fit(clf, x, y), x)
    params = gcf.fit(clf, more, y)
    np.testing.assert_allclose(posterior(params, more), without, atol=1e-6, rtol=0)
    more[:, -1] *= 1.01  # rows that differ in it
    np.testing.assert_allclose(posterior(params, more), without, atol=1e-5, rtol=0)


@pytest.mark.slow(
    "float32-Gaussian(shared=True)",
    "float64-Gaussian()",
    "float32-Gaussian()",
    "float32-Gaussian(covariance='diag')",
    "float32-Gaussian(covariance='spherical', shared=True)",
    "float64-Gaussian(covariance='diag')",
    "float64-Gaussian(covariance='spherical', shared=True)",
    "float64-Gaussian(shared=True)",
)
@pytest.mark.parametrize("family", GAUSSIANS, ids=str)
def test_03_nothing_but_constants(family, dtype):
    x, y = np.ones((4, 2), dtype), np.array([0, 0, 1, 1])
    clf = gcf.Classifier(family, 2)
    np.testing.assert_allclose(posterior(gcf.fit(clf, x, y), x), 0.5, rtol=1e-6)
    with pytest.raises(ValueError, match=r"rank 0 of 2; features \[0, 1\] are constant"):
        gcf.validate(clf, x, y)


@pytest.mark.parametrize("family", GAUSSIANS, ids=str)
def test_04_units_do_not_matter(family, dtype):
    x, y = rows(dtype)
    clf = gcf.Classifier(family, 3)
    expected = posterior(gcf.fit(clf, x, y), x)
    for exponent in (-30, -7, 7, 30):
        scaled = x * np.asarray(2.0**exponent, dtype)
        found = posterior(gcf.fit(clf, scaled, y), scaled)
        np.testing.assert_allclose(found, expected, atol=POSTERIOR[dtype.name], rtol=0)


@pytest.mark.slow("float64")
def test_05_a_class_on_a_line(dtype):
    rng = np.random.default_rng(5)
    t = rng.normal(size=31)
    line = np.stack([t, 2 * t], axis=1)
    cloud = rng.normal(size=(37, 2)) @ np.array([[1.0, 0.3], [0.0, 0.5]]) + [7.0, -7.0]
    x, y = np.concatenate([line, cloud]).astype(dtype), np.repeat([0, 1], [31, 37])
    found = gcf.diagnose(gcf.qda(2), x, y).conditional
    assert found.rank.tolist() == [1, 2]
    assert np.isinf(found.condition[0])
    with pytest.raises(ValueError, match="class 0 has rank 1 of 2"):
        gcf.validate(gcf.qda(2), x, y)
    ridged = gcf.qda(2, ridge=1e-3)
    gcf.validate(ridged, x, y)
    np.testing.assert_array_equal(gcf.predict(gcf.fit(ridged, x, y), x), y)


@pytest.mark.parametrize("family", GAUSSIANS, ids=str)
def test_06_no_variance_within_classes(family, dtype):
    x, y = np.array([[0.0], [1.0], [1.0]], dtype), np.array([0, 1, 1])
    params = gcf.fit(gcf.Classifier(family, 2), x, y)
    np.testing.assert_array_equal(gcf.predict(params, x), y)


@pytest.mark.slow("float64")
def test_07_a_duplicated_column(dtype):
    x, y = rows(dtype)
    twice = np.concatenate([x, x[:, 2:3]], axis=1)
    expected = posterior(gcf.fit(gcf.lda(3), x, y), x)
    tolerance = {"float32": 1e-4, "float64": 1e-6}[dtype.name]
    found = posterior(gcf.fit(gcf.lda(3), twice, y), twice)
    np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)
    with pytest.raises(ValueError, match="shared covariance has rank 5 of 6"):
        gcf.validate(gcf.lda(3), twice, y)


def test_08_one_row_in_a_class(dtype):
    x, y = rows(dtype)
    y = np.where(y == 2, 0, y)
    y[7] = 2
    found = gcf.diagnose(gcf.qda(3), x, y).conditional
    assert found.too_few.tolist() == [False, False, True]
    assert found.rank.tolist() == [5, 5, 0]
    with pytest.raises(ValueError, match="class 2 has rank 0 of 5"):
        gcf.validate(gcf.qda(3), x, y)
    assert np.isfinite(posterior(gcf.fit(gcf.qda(3, ridge=0.1), x, y), x)).all()


@pytest.mark.parametrize("family", [*GAUSSIANS, gcf.Multinomial(), gcf.Bernoulli(threshold=0.0)])
def test_08_a_single_class(family, dtype):
    x, _ = rows(dtype)
    params = gcf.fit(gcf.Classifier(family, 1), np.abs(x), np.zeros(len(x), int))
    np.testing.assert_array_equal(posterior(params, np.abs(x)), 1.0)
    np.testing.assert_array_equal(gcf.predict(params, np.abs(x)), 0)


@pytest.mark.slow("float32")
def test_09_class_priors(dtype):
    x, _ = rows(dtype)
    prior = np.array([0.08, 0.14, 0.03, 0.16, 0.11, 0.16, 0.07, 0.14, 0.11, 0.0])
    y = np.arange(len(x)) % 10
    params = gcf.fit(gcf.Classifier(gcf.Gaussian("diag"), 10, class_prior=prior), x, y)
    np.testing.assert_allclose(np.exp(params.log_prior), prior, rtol=1e-6)
    assert not np.any(gcf.predict(params, x) == 9)
    two = gcf.fit(gcf.gaussian_nb(2), x, y % 2)
    for wrong, what in (([-1, 2], r"\[0\] is -1"), ([1, 1], "sums to 2"), ([1], "shape")):
        with pytest.raises(ValueError, match=what):
            gcf.with_prior(two, np.array(wrong, float))
        with pytest.raises(ValueError, match=what):
            gcf.fit(gcf.Classifier(gcf.Gaussian(), 2, class_prior=np.array(wrong, float)), x, y % 2)
        if len(wrong) == 2:
            inside = jax.jit(gcf.with_prior)(two, jnp.array(wrong, dtype))
            assert np.isnan(inside.log_prior).all()


def test_12_impossible_words_do_not_spoil(dtype):
    params = gcf.fit(gcf.multinomial_nb(2, alpha=0.0), np.array([[1, 0], [1, 1]]), np.array([0, 1]))
    x = np.array([[1, 0], [1, 1]])
    np.testing.assert_allclose(posterior(params, x), [[2 / 3, 1 / 3], [0, 1]], rtol=1e-6)


@pytest.mark.slow
def test_13_a_value_never_seen():
    x, y, new = np.array([[0], [1]]), np.array([0, 1]), np.array([[2]])

    def fitted(num_values, unseen):
        return gcf.fit(gcf.Classifier(gcf.Categorical(num_values, unseen=unseen), 2), x, y)

    strict = fitted(2, "error")
    assert np.isnan(gcf.log_posterior(strict, new)).all()
    assert gcf.predict(strict, new).tolist() == [-1]
    with pytest.raises(ValueError, match=r"x\[0, 0\] is 2 .*0..num_values-1, num_values = \(2,\)"):
        gcf.validate(strict, new)
    np.testing.assert_allclose(posterior(fitted(2, "ignore"), new), [[0.5, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(posterior(fitted(3, "error"), new), [[0.5, 0.5]], rtol=1e-6)


@pytest.mark.parametrize(
    ("family", "good", "bad"),
    [
        (gcf.Categorical(2), 1.0, 0.7),
        (gcf.Categorical(2), 1.0, -1.0),
        (gcf.Multinomial(), 1.0, -1.0),
        (gcf.Bernoulli(), 1.0, 0.5),
        (gcf.Gaussian("diag"), 1.0, np.nan),
        (gcf.Gaussian("diag"), 1.0, np.inf),
    ],
)
def test_14_cells_outside_the_support(family, good, bad):
    x = np.array([[0.0, 1.0], [good, 0.0], [1.0, 1.0], [0.0, 0.0]], np.float32)
    y, wrong = np.array([0, 1, 1, 0]), x.copy()
    wrong[2, 1] = bad
    clf = gcf.Classifier(family, 2)
    params = gcf.fit(clf, x, y)
    expected = rf"x\[2, 1\] is {bad:g} \(row 2, column 1\), expected"
    with pytest.raises(ValueError, match=expected):
        gcf.validate(clf, wrong, y)
    with pytest.raises(ValueError, match=expected):
        gcf.validate(params, wrong)
    spoiled = gcf.fit(clf, wrong, y)
    assert any(np.isnan(leaf).any() for leaf in jax.tree.leaves(spoiled.conditional))
    assert gcf.predict(params, wrong)[2] == -1
    np.testing.assert_array_equal(gcf.predict(params, wrong)[:2], gcf.predict(params, x)[:2])


def test_14_negative_weights():
    x, y = rows("float32")
    weights = np.ones(len(x), np.float32)
    weights[3] = -2
    with pytest.raises(ValueError, match=r"weights\[3\] is -2 \(row 3\), expected a finite"):
        gcf.validate(gcf.lda(3), x, y, weights)
    assert np.isnan(gcf.stats(gcf.lda(3), x, y, weights).count).all()


def test_15_a_batch_that_lacks_a_class():
    clf = gcf.multinomial_nb(3)
    first = gcf.stats(clf, np.array([[1, 0], [0, 1], [1, 1]]), np.array([0, 1, 2]))
    both = gcf.merge(first, gcf.stats(clf, np.array([[5, 0], [0, 7]]), np.array([2, 1])))
    assert both.count.tolist() == [1, 2, 2]
    assert both.conditional.total.tolist() == [[1, 0], [0, 8], [6, 1]]


def test_16_quantile_bins_keep_ties_together():
    x = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 3.0])
    edges = gcf.discretize.quantile_edges(x, 3)
    assert np.bincount(gcf.discretize.codes(x, edges)).tolist() == [5, 3, 2]


def test_17_predict_is_the_argmax_and_ties_go_to_the_lowest():
    x, y = rows("float32")
    params = gcf.fit(gcf.qda(3), x, y)
    np.testing.assert_array_equal(gcf.predict(params, x), gcf.log_posterior(params, x).argmax(1))
    tied = gcf.fit(gcf.bernoulli_nb(3), np.ones((6, 2)), np.array([0, 0, 1, 1, 2, 2]))
    assert gcf.predict(tied, np.array([[0, 1], [1, 1]])).tolist() == [0, 0]


def test_23_labels_that_are_no_class():
    x = np.arange(5.0)[:, None]
    known = gcf.stats(gcf.lda(3), x[:4], np.array([0, 1, 2, -1]))
    assert known.count.tolist() == [1, 1, 1]
    y = np.array([0, 1, 2, 5, -1])
    poisoned = jax.jit(gcf.fit)(gcf.lda(3), x, y)
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(poisoned))
    assert gcf.predict(poisoned, x).tolist() == [-1] * 5
    for verb in (gcf.validate, gcf.fit, gcf.stats):
        with pytest.raises(ValueError, match=r"y\[3\] is 5 \(row 3\), expected a label in 0..2"):
            verb(gcf.lda(3), x, y)


@pytest.mark.slow
def test_24_counts_past_two_to_the_24():
    n = 2**25
    y = jnp.arange(n, dtype=jnp.int32) % 5 // 4  # class 0 has four rows in five
    x = jnp.ones((n, 1), jnp.int8)
    s = gcf.stats(gcf.bernoulli_nb(2), x, y)
    for k, count in enumerate(np.bincount(np.arange(5) // 4) * (n // 5) + [n % 5, 0]):
        assert abs(float(s.count[k]) - count) <= np.spacing(np.float32(count))


@pytest.mark.slow
@pytest.mark.parametrize("family", GAUSSIANS[:4], ids=str)
def test_25_gradients_are_finite_where_data_are_degenerate(family, x64):
    x, y = rows("float64", n=29)
    constant, duplicate = np.ones((29, 1)), x[:, :1]
    for degenerate in (np.concatenate([x, constant], 1), np.concatenate([x, duplicate], 1), x * 0):

        def score(x, weights, ridge):
            clf = gcf.Classifier(gcf.Gaussian(family.covariance, family.shared, ridge), 3)
            params = gcf.fit(clf, x, np.where(y == 2, 1, y), weights)  # class 2 is empty
            return gcf.log_posterior(params, x)[:, :2].sum()

        for ridge in (0.0, 1e-3):
            slopes = jax.grad(score, (0, 1, 2))(jnp.asarray(degenerate), jnp.ones(29), ridge)
            assert all(np.isfinite(slope).all() for slope in slopes)


@pytest.mark.slow("1.0-multinomial_nb")
@pytest.mark.parametrize("preset", [gcf.multinomial_nb, gcf.bernoulli_nb])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_25_gradients_are_finite_at_zero_counts(preset, alpha, x64):
    x, y = jnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]), np.array([0, 1, 1])

    def score(weights, alpha):
        params = gcf.fit(preset(3, alpha=alpha), x, y, weights)
        return gcf.log_posterior(params, x)[1, 1]

    slopes = jax.grad(score, (0, 1))(jnp.ones(3), alpha)
    assert all(np.isfinite(slope).all() for slope in slopes)


@pytest.mark.slow
def test_25_gradient_at_identity_covariance(x64):
    x = jnp.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    fitted = lambda x: gcf.fit(gcf.qda(1), x, np.zeros(4, int))  # noqa: E731
    np.testing.assert_allclose(fitted(x).conditional.covariances[0], np.eye(2), atol=1e-15)
    assert np.isfinite(jax.grad(lambda x: gcf.log_joint(fitted(x), x).sum())(x)).all()


@pytest.mark.parametrize("preset", [gcf.lda, gcf.qda, gcf.gaussian_nb])
def test_26_a_degenerate_member_of_a_batch_harms_no_other(preset, dtype):
    members = [rows(dtype, seed=seed) for seed in range(3)]
    x, y = (np.stack(parts) for parts in zip(*members, strict=True))
    x[1, :, 2] = x[1, :, 0]
    # One program for both, and the same place in the batch: else the last bit may be another.
    fit = jax.jit(jax.vmap(gcf.fit, (None, 0, 0)))
    together = fit(preset(3), jnp.asarray(x), jnp.asarray(y))
    for i in (0, 2):
        alone = fit(preset(3), jnp.stack([x[i]] * 3), jnp.stack([y[i]] * 3))
        assert_same(take(together, i), take(alone, i))


def test_27_float64_needs_x64():
    x, y = rows("float64")
    assert gcf.fit(gcf.lda(3), x, y).conditional.mean.dtype == jnp.float32
    with jax.enable_x64(True):
        assert gcf.fit(gcf.lda(3), x, y).conditional.mean.dtype == jnp.float64


@pytest.mark.slow
def test_28_a_buffer_that_is_refilled():
    clf = gcf.gaussian_nb(2)
    x, y = rows("float32", n=4096, num_classes=2)
    buffer = np.empty((64, x.shape[1]), np.float32)
    total = None
    for start in range(0, len(x), 64):
        buffer[:] = x[start : start + 64]
        batch = gcf.stats(clf, buffer, y[start : start + 64])
        total = batch if total is None else gcf.merge(total, batch)
    expected = gcf.stats(clf, x, y)
    assert_close(total.conditional.mean, expected.conditional.mean, 1e-5)


def compilations(call):
    """How many programs a call compiles."""
    with counted() as work:
        jax.block_until_ready(call())
    return work["compilations"]


@pytest.mark.parametrize("starts", [True, False], ids=["by threads", "when no thread starts"])
def test_28_a_large_array_is_copied(starts, monkeypatch):
    def refuse(*args):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    if not starts:
        monkeypatch.setattr(entry, "ThreadPoolExecutor", refuse)
    x = np.arange(2**22 + 24, dtype=np.float32).reshape(-1, 8)
    found, expected = entry.as_arrays(x, "x"), x.copy()
    x[:] = 0
    np.testing.assert_array_equal(found, expected)


def test_29_no_recompilation():
    x, y = rows("float32", n=73)
    x, y = jnp.asarray(x), jnp.asarray(y)

    def all_verbs(ridge):
        params = gcf.fit(gcf.qda(3, ridge=ridge), x, y)
        return gcf.predict(params, x), gcf.log_joint(params, x), gcf.log_posterior(params, x)

    assert compilations(lambda: all_verbs(0.1)) > 0
    assert compilations(lambda: all_verbs(0.1)) == 0
    assert compilations(lambda: all_verbs(0.25)) == 0


@pytest.mark.slow
def test_29_a_hundred_batches_with_one_odd_tail():
    x, y = rows("float32", n=100 * 61 - 8)
    x, y = jnp.asarray(x), jnp.asarray(y)
    batches = [(x[i : i + 61], y[i : i + 61]) for i in range(0, len(x), 61)]
    assert len(batches) == 100
    clf = gcf.qda(3, ridge=0.3)
    gcf.merge(gcf.stats(clf, x[:7], y[:7]), gcf.stats(clf, x[:7], y[:7]))  # merge, once

    def run():
        total = gcf.stats(clf, *batches[0])
        for batch in batches[1:]:
            total = gcf.merge(total, gcf.stats(clf, *batch))
        return total

    assert compilations(run) <= 2


# Mixtures. 18, 19 and 21 are laws of tests/laws/test_em.py, 22 of tests/laws/test_missing.py.


@pytest.mark.slow
def test_20_two_rows_two_spheres(dtype):
    """Both variances are what the prior gives for one row of zero scatter."""
    x = np.array([[9999.0], [0.0]], dtype)
    kappa, dof, scale = 0.01, 3.0, 2.0
    prior = gcf.NormalInverseWishart(mean=4999.5, kappa=kappa, scale=scale, dof=dof)
    clf = gcf.Classifier(gcf.Gaussian("spherical", prior=prior), 2)
    start = gcf.fit(clf, x, np.array([0, 1]))
    found = gcf.em(clf, x, np.array([-1, -1]), key=jax.random.key(0), init=start)
    variances = np.asarray(found.params.conditional.covariances).ravel()
    shrunk = kappa / (1 + kappa) * 4999.5**2
    expected = (scale + shrunk) / (1 + dof + 1 + 2)
    np.testing.assert_allclose(variances, expected, rtol=1e-6)
    assert variances[0] == variances[1]
