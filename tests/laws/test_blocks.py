"""However many rows there are, and whatever road they take, the sums are the same.

Sizes are chosen to pass every threshold of the library: more rows than one block of any width,
more rows than the road for few rows takes, a last block that is not full.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.covariance.scales import SCALES
from genclf.numerics.scores.distances import distances
from genclf.numerics.scores.means import Means
from genclf.sums.blocks import Hard
from genclf.sums.tiles import class_tiles
from tests.registry import BY_NAME, FAMILIES, K, assert_close, assert_near, assert_same, spoil, take

MANY = 4099  # rows: beyond 2048, not a multiple of any block
MOST = 70001  # rows: three blocks of the narrowest data
WIDE = 1031  # columns: blocks of a few hundred rows


def numpy_moments(x, y, weights):
    """Counts, means and scatters by the definition, in float64."""
    x = np.asarray(x, np.float64)
    count, mean, scatter = [], [], []
    for k in range(K):
        w, own = weights[y == k], x[y == k]
        count.append(w.sum())
        mean.append(w @ own / w.sum())
        z = own - mean[-1]
        scatter.append((w[:, None] * z).T @ z)
    return map(np.array, (count, mean, scatter))


@pytest.mark.parametrize("n", [MANY, MOST])
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_moments_are_those_of_numpy(n, covariance, shared, dtype):
    x, y = BY_NAME["gaussian"].example(dtype, n=n)
    weights = np.random.default_rng(7).exponential(size=n)
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=shared), K)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    expected = list(numpy_moments(x, y, weights))
    if covariance == "diag":
        expected[2] = np.diagonal(expected[2], axis1=1, axis2=2)
    if shared:
        expected[2] = expected[2].sum(0, keepdims=True)
    soft = np.eye(K)[y].astype(dtype)
    for labels in (y, soft):
        s = gcf.stats(clf, x, labels, weights).conditional
        for found, right in zip((s.count, s.mean, s.scatter), expected, strict=True):
            error = np.abs(np.asarray(found, np.float64) - right).max()
            assert error <= tolerance * np.abs(right).max()


@pytest.mark.slow("float32-diag", "float64-diag")
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_a_rare_class_whose_first_row_is_far_off(covariance, dtype):
    x, y = BY_NAME["gaussian"].example(dtype, n=MANY)
    rare = slice(1, 20)
    y = np.where(y == 0, 1, y)
    y[rare] = 0
    x[1], weights = 1e6, np.ones(MANY)
    weights[1] = 1e-9
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=True), K)
    s = gcf.stats(clf, x, y, weights).conditional
    _, mean, scatter = numpy_moments(x, y, weights)
    if covariance == "diag":
        scatter = np.diagonal(scatter, axis1=1, axis2=2)
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(s.mean, mean, rtol, atol=rtol * np.abs(mean).max())
    np.testing.assert_allclose(s.scatter[0], scatter.sum(0), rtol, atol=rtol * scatter.max())


@pytest.mark.slow("product")
@pytest.mark.parametrize("name", [m.name for m in FAMILIES])
def test_many_rows_are_their_blocks_merged(name, x64):
    model = BY_NAME[name]
    x, y = model.example("float64", n=MOST - 1)
    whole = gcf.stats(model.classifier, x, y)
    parts = [slice(0, MOST // 2), slice(MOST // 2, None)]
    a, b = (gcf.stats(model.classifier, take(x, part), y[part]) for part in parts)
    assert_close(gcf.merge(a, b), whole, 1e-12)
    np.testing.assert_array_equal(whole.count, np.bincount(y))


@pytest.mark.slow("family0")
@pytest.mark.parametrize("family", [gcf.Gaussian("diag"), gcf.Bernoulli(), gcf.Multinomial()])
def test_wide_rows(family, x64):
    n = 1009
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    x = rng.integers(0, 2, (n, WIDE))
    clf = gcf.Classifier(family, K)
    s = gcf.stats(clf, x, y)
    expected = np.stack([x[y == k].sum(0) for k in range(K)])
    if isinstance(family, gcf.Gaussian):
        mean = expected / np.bincount(y)[:, None]
        np.testing.assert_allclose(s.conditional.mean, mean, rtol=1e-13)
        right = np.stack([x[y == k].var(0) * (y == k).sum() for k in range(K)])
        np.testing.assert_allclose(s.conditional.scatter, right, rtol=1e-11)
    else:
        np.testing.assert_array_equal(s.conditional.total, expected)
    joint = gcf.log_joint(gcf.estimate(clf, s), x)
    alone = gcf.log_joint(gcf.estimate(clf, s), x[500:511])
    assert_near(joint[500:511], alone, 1e-12, terms=WIDE)


@pytest.mark.slow("poisson", "product")
@pytest.mark.parametrize("name", [m.name for m in FAMILIES])
def test_many_rows_are_scored_as_few(name, x64):
    model = BY_NAME[name]
    params = gcf.fit(model.smooth, *model.example("float64"))
    x, _ = model.example("float64", n=MOST)
    rows = np.r_[0:5, 32760:32775, MOST - 5 : MOST]
    for function in (gcf.log_joint, gcf.predict):
        found = np.asarray(function(params, x))[rows]
        assert_close(found, np.asarray(function(params, take(x, rows))), 1e-13)


@pytest.mark.slow("diag-0", "spherical-0", "diag-3")
@pytest.mark.parametrize("far", [0, 3, 1e4])
@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_products_are_used_where_they_are_precise(covariance, far):
    # float32: class 0 has spreads of a thousandth, so many of them away from the other classes.
    x, y = BY_NAME["gaussian"].example("float64", n=MANY)
    x = np.where((y == 0)[:, None], 1e-3 * (x - 3) + far, x).astype(np.float32)
    params = gcf.fit(gcf.Classifier(gcf.Gaussian(covariance), K), x, y)
    few = np.arange(0, MANY, 41)
    found = np.asarray(gcf.log_joint(params, x))[few]
    fitted = params.conditional
    mean, rounding, scale = (
        np.asarray(a, np.float64) for a in (fitted.mean, fitted.rounding, fitted.scale)
    )
    mean = mean + rounding
    z = (x[few, None].astype(np.float64) - mean) / scale
    scale = np.broadcast_to(scale, mean.shape)
    exact = -0.5 * (z**2).sum(-1) - np.log(scale * np.sqrt(2 * np.pi)).sum(-1)
    exact = exact + np.asarray(params.log_prior, np.float64)
    nearest = exact.argmax(1)
    at_nearest = found[np.arange(len(few)), nearest], exact[np.arange(len(few)), nearest]
    np.testing.assert_allclose(*at_nearest, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [2039, MANY])
@pytest.mark.parametrize("name", ["gaussian", "gaussian-diag"])
def test_rows_that_do_not_count_do_not_count(name, n, x64):
    model = BY_NAME[name]
    x, y = model.example("float64", n=n)
    absent = np.arange(n) % 5 == 2
    expected = gcf.stats(model.classifier, x, np.where(absent, -1, y))
    spoiled = spoil(x, absent)
    found = gcf.stats(model.classifier, spoiled, np.where(absent, -1, y))
    assert_same(found, expected)
    weighted = gcf.stats(model.classifier, spoiled, y, np.where(absent, 0.0, 1.0))
    assert_close(weighted, expected, 1e-12)


@pytest.mark.parametrize("n", [101, MANY])
@pytest.mark.parametrize("name", ["gaussian", "gaussian-diag"])
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_an_invalid_cell_never_gives_a_wrong_number(name, n, soft, x64):
    model = BY_NAME[name]
    x, y = model.example("float64", n=n)
    labels = np.eye(K)[y] if soft else y
    right = gcf.stats(model.classifier, x, labels).conditional
    found = gcf.stats(model.classifier, spoil(x, np.flatnonzero(y == 1)[:1]), labels).conditional
    assert np.isnan(np.asarray(found.mean)[1]).any()
    for a, b in ((found.mean, right.mean), (found.scatter, right.scatter)):
        a, b = np.asarray(a), np.asarray(b)
        np.testing.assert_allclose(a[~np.isnan(a)], b[~np.isnan(a)], rtol=1e-11, atol=1e-10)


def test_a_class_without_rows_among_many(x64):
    x, y = BY_NAME["gaussian"].example("float64", n=MANY)
    y = np.where(y == 1, 0, y)
    s = gcf.stats(gcf.qda(K), x, y)
    np.testing.assert_array_equal(s.count, np.bincount(y, minlength=K))
    assert (np.asarray(s.conditional.mean)[1] == 0).all()
    assert (np.asarray(s.conditional.scatter)[1] == 0).all()
    assert not np.isin(gcf.predict(gcf.estimate(gcf.qda(K), s), x), 1).any()


def test_many_classes(x64):
    # More classes than rows in a block of the road for many rows.
    classes = 331
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(MANY, 5)), rng.integers(0, classes, MANY)
    s = gcf.stats(gcf.qda(classes), x, y).conditional
    k = 17
    own = x[y == k]
    assert_near(s.mean[k], own.mean(0), 1e-12)
    expected = np.cov(own.T, bias=True) * len(own)
    np.testing.assert_allclose(s.scatter[k], expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(s.count, np.bincount(y, minlength=classes))


@pytest.mark.slow
def test_gradients_go_through_every_road(x64):
    x, y = BY_NAME["gaussian"].example("float64", n=MANY)

    def loss(x, labels):
        s = gcf.stats(gcf.qda(K), x, labels).conditional
        return (s.scatter[1, 0] * jnp.arange(5.0)).sum() + s.mean.sum()

    hard = jax.grad(loss)(jnp.asarray(x), y)
    soft = jax.grad(loss)(jnp.asarray(x), np.eye(K)[y])
    assert np.abs(np.asarray(hard)).max() > 1
    np.testing.assert_allclose(hard, soft, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("n", [101, MANY])
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("labels", ["hard", "soft", "nearly hard"])
def test_a_far_class_does_not_touch_a_variance(labels, covariance, n):
    # float32: spreads of 1e-3 about 0, beside a class at 1e4, whose row comes first.
    x, y = BY_NAME["gaussian"].example("float64", n=n)
    y[0] = 2
    x = (1e-3 * (x - 3)).astype(np.float32)
    x[y == 2] = 1e4
    w = np.eye(K, dtype=np.float32)[y]
    if labels == "nearly hard":
        w = np.maximum(w, np.float32(1e-30))
    s = gcf.stats(gcf.Classifier(gcf.Gaussian(covariance), K), x, y if labels == "hard" else w)
    for k in (0, 1):
        own = x[y == k].astype(np.float64)
        found = np.asarray(s.conditional.diagonal)[k] / (y == k).sum()
        np.testing.assert_allclose(found, own.var(0), rtol=1e-4)
        np.testing.assert_allclose(s.conditional.mean[k], own.mean(0), rtol=1e-4, atol=1e-7)
    rounding = (y == 2).sum() * (np.finfo(np.float32).eps * 1e4) ** 2
    np.testing.assert_allclose(s.conditional.diagonal[2], np.zeros(5), atol=rounding)
    shared = gcf.Classifier(gcf.Gaussian(covariance, shared=True), K)
    pooled = gcf.stats(shared, x, y if labels == "hard" else w).conditional
    within = sum((y == k).sum() * x[y == k].astype(np.float64).var(0) for k in (0, 1))
    np.testing.assert_allclose(pooled.diagonal[0], within, rtol=1e-4, atol=rounding)
    np.testing.assert_allclose(pooled.mean, s.conditional.mean, rtol=1e-4, atol=1e-7)


@pytest.mark.slow("own", "read twice")
@pytest.mark.parametrize("road", ["shared", "own", "soft", "read twice"])
def test_products_of_many_features_are_those_of_float64(road):
    n, d = 1543, 521
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    x = (rng.normal(size=(n, d)) + 3 * y[:, None]).astype(np.float32)
    if road == "read twice":
        x[:, 1] = x[:, 0] + 1e-3 * x[:, 1]
    r = np.eye(K)[y] if road != "soft" else rng.dirichlet(np.ones(K), n)
    clf = gcf.Classifier(gcf.Gaussian(shared=road != "own"), K)
    found = gcf.stats(clf, x, r.astype(np.float32) if road == "soft" else y).conditional
    wide, r = x.astype(np.float64), r.astype(np.float32).astype(np.float64)
    mean = (r.T @ wide) / r.sum(0)[:, None]
    scatter = np.stack(
        [(own[:, None] * (wide - m)).T @ (wide - m) for own, m in zip(r.T, mean, strict=True)]
    )
    scatter = scatter if road == "own" else scatter.sum(0, keepdims=True)
    given = np.asarray(found.scatter)
    sd = np.sqrt(np.diagonal(scatter, axis1=1, axis2=2))
    assert (np.abs(given - scatter) <= 2e-6 * sd[:, :, None] * sd[:, None, :]).all()


@pytest.mark.parametrize("times", [0.99, 1.01, 1e3])
@pytest.mark.parametrize("road", ["shared", "own"])
def test_distances_are_precise_whether_their_terms_may_cancel_or_not(road, times):
    # The bounds from which on the terms of a row may cancel: 8 d, or 16 / 3 d.
    d, far = 7, times * np.sqrt({"shared": 8, "own": 16 / 3}[road] * 7)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=d)
    mean = np.outer([-1, 0, 1], far * direction / np.linalg.norm(direction)).astype(np.float32)
    y = rng.integers(0, K, 5003)
    x = (mean[y] + 0.1 * rng.normal(size=(len(y), d))).astype(np.float32)
    scale, covariance = (np.eye(d)[None], "full") if road == "shared" else (np.ones((K, d)), "diag")
    means, scale = Means(jnp.asarray(mean)), jnp.asarray(scale, x.dtype)
    found = distances(jnp.asarray(x), means, scale, scale, SCALES[covariance])  # of ones
    exact = ((x[:, None].astype(np.float64) - mean) ** 2).sum(-1)
    error = np.abs(found - exact)
    assert (error <= 3e-6 * (exact + d)).all()


@pytest.mark.parametrize("num_classes", [1, 17, 331])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_squares_of_numbers_of_few_digits_add_up(shared, num_classes):
    # The rounding errors of a long sum of them have the same sign.
    n = 150_001
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (n, 7)), rng.integers(0, num_classes, n)
    if unbalanced := num_classes == 331:  # nearly all rows are of one class
        y = np.where(rng.random(n) < 0.03, y, 0)
    clf = gcf.Classifier(gcf.Gaussian("diag", shared=shared), num_classes)
    found = np.asarray(gcf.stats(clf, x.astype(np.float32), y).conditional.scatter)
    expected = np.stack([x[y == k].var(0) * (y == k).sum() for k in range(num_classes)])
    expected = expected.sum(0, keepdims=True) if shared else expected
    np.testing.assert_allclose(found, expected, rtol=2e-6 if unbalanced else 1e-6)


@pytest.mark.slow("1")
@pytest.mark.parametrize("num_classes", [1, 31, 32, 33, 1025])
def test_tiles_hold_the_rows_in_the_order_of_their_classes(num_classes):
    # Labels are sorted by digits to base 32; a row without a label has one more.
    label = np.random.default_rng(0).integers(-1, num_classes, 2039)
    w = Hard(jnp.asarray(label), jnp.asarray(label >= 0, jnp.float32), num_classes)
    number, tile_of = class_tiles(w, 16)
    k, rows, weight = jax.vmap(tile_of)(jnp.arange(number))
    held = np.asarray(weight) > 0
    expected = np.argsort(label, kind="stable")[(label < 0).sum() :]
    np.testing.assert_array_equal(np.asarray(rows)[held], expected)
    np.testing.assert_array_equal(np.repeat(k, 16).reshape(held.shape)[held], label[expected])


def test_squares_add_up_where_all_rows_of_a_small_class_are_side_by_side():
    n, own = 140_009, 7_001
    rng = np.random.default_rng(0)
    x = (rng.random((n, 7)) < 0.1).astype(np.float32)
    y = np.where(np.arange(n) < own, 2, rng.integers(0, 2, n))
    found = np.asarray(gcf.stats(gcf.gaussian_nb(3), x, y).conditional.scatter)
    expected = [x[y == k].var(0, dtype=np.float64) * (y == k).sum() for k in range(3)]
    np.testing.assert_allclose(found, np.stack(expected), rtol=6e-6)


def test_a_wide_class_does_not_hide_that_narrow_ones_cancel():
    # Every row is nearest to the wide class, and likeliest in a narrow one.
    n, d = 30_000, 20
    rng = np.random.default_rng(0)
    sd, mean = np.array([1e-3, 1e-3, 10.0]), np.array([0, 4e-4, 1.0])
    y = np.arange(n) % 3
    x = (mean[y, None] + sd[y, None] * rng.normal(size=(n, d))).astype(np.float32)
    params = gcf.fit(gcf.gaussian_nb(3), x, y)
    fitted = params.conditional
    mean, rounding, scale = (
        np.asarray(a, np.float64) for a in (fitted.mean, fitted.rounding, fitted.scale)
    )
    few = np.arange(0, n, 41)
    z = (x[few, None].astype(np.float64) - (mean + rounding)) / scale
    exact = -0.5 * (z**2).sum(-1) - np.log(scale * np.sqrt(2 * np.pi)).sum(-1) - np.log(3)
    likeliest = exact.max(1)
    found = np.asarray(gcf.log_joint(params, x))[few, exact.argmax(1)]
    np.testing.assert_allclose(found, likeliest, rtol=1e-5, atol=1e-3)
