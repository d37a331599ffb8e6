"""Rows so far that squares of their cells overflow: who wins in exact arithmetic, wins."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import genclf as gcf
from genclf.stream.predict import predict_batches
from tests.registry import K

D = 3
PRIOR = gcf.NormalInverseWishart()
MODELS = {
    "qda": gcf.Gaussian(),
    "naive": gcf.Gaussian("diag"),
    "spherical": gcf.Gaussian("spherical"),
    "rda": gcf.Gaussian(pooling=0.3, shrinkage=0.2),
    "mixture": gcf.Mixture(gcf.Gaussian("diag", prior=PRIOR), 2),
    "kernels": gcf.KernelDensity(),
    "product": gcf.Product({"one": gcf.Gaussian(), "two": gcf.Gaussian("diag")}),
}
NAMES = [f"x{j}" for j in range(D)]
# Of kernels: examples in each of two classes, queries, and how far these are.
N, M = 53, 211
POWERS = {"float32": (2, 7), "float64": (10, 15)}


def rows(dtype):
    """Classes of different spread, and far rows in directions of each sign and size."""
    rng = np.random.default_rng(0)
    y = np.arange(93) % K
    x = (rng.normal(size=(93, D)) * (1 + y[:, None]) * [1, 2, 0.5] + y[:, None]).astype(dtype)
    big = np.sqrt(np.finfo(dtype).max) * 1e3
    far = big * np.array([[1, 0, 0], [0, -1, 0], [1, 1, -1], [0, 3, 1e-3], [1e3, 1, 1]])
    return x, y, far.astype(dtype)


def nearest(params, far):
    """The class of the least `xᵀ Σ⁻¹ x` in exact arithmetic: all else is negligible there."""
    precision = exactly(np.linalg.inv(np.asarray(params.covariances, np.float64)))
    for row in exactly(far):
        lengths = [row @ own @ row for own in precision]
        yield lengths.index(min(lengths))


@pytest.mark.slow(
    "float32-mixture",
    "float32-product",
    "float64-mixture",
    "float64-product",
    "float32-kernels",
    "float32-naive",
    "float32-rda",
    "float64-kernels",
    "float64-naive",
    "float64-rda",
)
@pytest.mark.parametrize("name", MODELS)
def test_far_rows_have_a_class(name, dtype):
    x, y, far = rows(dtype)
    clf = gcf.Classifier(MODELS[name], K)
    shaped = lambda a: {"one": a[:, :1], "two": a[:, 1:]} if name == "product" else a  # noqa: E731
    params = gcf.fit(clf, shaped(x), y)
    posterior = np.exp(gcf.log_posterior(params, shaped(far)))
    found = np.asarray(gcf.predict(params, shaped(far)))
    np.testing.assert_array_equal(posterior, np.eye(K)[found])
    if hasattr(params.conditional, "covariances"):
        np.testing.assert_array_equal(found, list(nearest(params.conditional, far)))
    else:
        assert (found == K - 1).all()  # the widest class in every direction
    assert np.isneginf(gcf.log_joint(params, shaped(far))).all()
    # Beside near ones, and one by one.
    mixed = np.asarray(gcf.predict(params, shaped(np.concatenate([x[:5], far]))))
    np.testing.assert_array_equal(mixed[5:], found)
    np.testing.assert_array_equal(mixed[:5], gcf.predict(params, shaped(x))[:5])
    each = jax.vmap(lambda row: gcf.predict(params, row))(shaped(far))
    np.testing.assert_array_equal(each, found)


def exactly(a):
    return np.vectorize(lambda cell: Fraction(float(cell)), otypes=[object])(a)


@pytest.mark.slow(
    "float32-full-shared", "float64-full-shared", "float32-full-own", "float64-full-own"
)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_far_rows_with_missing_cells_have_a_class(covariance, shared, dtype):
    """It is that of `x_oᵀ Σ_oo⁻¹ x_o`, or with a shared Σ of `x_oᵀ Σ_oo⁻¹ (μ_k)_o`."""
    x, y, far = rows(dtype)
    far = np.concatenate([far, np.full((1, D), np.finfo(dtype).max, dtype)])
    far[[0, 1, 3, 5], [1, 2, 0, 1]] = np.nan
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=shared, missing="marginalize"), K)
    params = gcf.fit(clf, x, y)
    found = np.asarray(gcf.predict(params, far))
    covariances = np.asarray(params.conditional.covariances, np.float64)
    means = np.asarray(params.conditional.mean, np.float64)
    for row, label in zip(far, found, strict=True):
        seen = np.flatnonzero(~np.isnan(row))
        inverse = exactly(np.linalg.inv(covariances[:, seen][:, :, seen]))
        row = exactly(row[seen])
        ends = exactly(means[:, seen]) if shared else [-row] * K
        assert label == np.argmax([row @ own @ end for own, end in zip(inverse, ends, strict=True)])
    np.testing.assert_array_equal(np.exp(gcf.log_posterior(params, far)), np.eye(K)[found])
    assert np.isneginf(gcf.log_joint(params, far)).all()
    mixed = np.asarray(gcf.predict(params, np.concatenate([x[:5], far])))
    np.testing.assert_array_equal(mixed, [*gcf.predict(params, x[:5]), *found])
    far[0, 0] = np.inf
    assert gcf.predict(params, far)[0] == -1


@pytest.mark.slow("float32-full", "float64-full")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_shared_scores_of_rows_with_holes_are_linear_however_far(covariance, dtype):
    """Squared distances would differ by less than their rounding."""
    x, y, _ = rows(dtype)
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=True, missing="marginalize"), K)
    params = gcf.fit(clf, x, y)
    means = np.asarray(params.conditional.mean, float)
    covariances = np.asarray(params.conditional.covariances, float)
    seen = [0, 2]
    precision = exactly(np.linalg.inv(covariances[0][np.ix_(seen, seen)]))
    ends = exactly(means[:, seen])
    for size in 10.0 ** np.arange(1, 19):
        row = np.array([size, np.nan, -2 * size], dtype)
        z = exactly(row[seen])
        score = np.array([z @ precision @ m - m @ precision @ m / 2 for m in ends])
        score = np.array([float(s - score.max()) for s in score])
        score = score + np.log(np.bincount(y) / len(y))
        found = np.asarray(gcf.log_posterior(params, row), float)
        np.testing.assert_allclose(
            found, score - np.logaddexp.reduce(score), rtol=2e3 * np.finfo(dtype).eps, atol=0.02
        )


def test_a_feature_without_a_part_has_none_however_far(dtype):
    x, y, _ = rows(dtype)
    params = gcf.fit(gcf.nearest_shrunken_centroids(K, soft_threshold=2.0), x, y)
    apart = np.ptp(params.conditional.mean, axis=0)
    (none,) = np.flatnonzero(apart == 0)[:1]
    row = x[:5].copy()
    expected = gcf.log_posterior(params, row)
    row[:, none] = np.finfo(dtype).max / 1e3
    np.testing.assert_allclose(gcf.log_posterior(params, row), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow("float32-diag", "float64-diag")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_densities_of_student_t_are_finite_however_far(covariance, dtype):
    """In exact arithmetic `log q` is a logarithm of a fraction."""
    x, y, far = rows(dtype)
    far = np.concatenate([far, np.full((1, D), np.finfo(dtype).max, dtype), x[:2]])
    prior = gcf.NormalInverseWishart(kappa=0.1)
    clf = gcf.Classifier(gcf.Gaussian(covariance, prior=prior), K, inference="predictive")
    params = gcf.fit(clf, x, y)
    t = params.conditional
    found = np.asarray(t.log_prob(jax.numpy.asarray(far)), float)
    matrices = gcf.GaussianParams(t.mean, t.scale, covariance, t.shared).covariances
    means, scales = np.asarray(t.mean, float), np.asarray(matrices, float)
    for i, row in enumerate(far):
        for k in range(K):
            others = float(t.dof[k % len(t.dof)]), float(t.inflation[k]), covariance
            expected = log_student_t(row, means[k], scales[k], *others)
            np.testing.assert_allclose(
                found[i, k], expected, rtol=max(20 * np.finfo(dtype).eps, 1e-12)
            )
    far[0, 1] = np.inf
    assert gcf.predict(params, far)[0] == -1


def log_student_t(row, mean, scale, dof, inflation, covariance):
    """The log-density of a row, with the logarithm of a quadratic form in exact arithmetic."""
    apart, d = exactly(row) - exactly(mean), len(row)
    if covariance == "diag":
        each = (slice(j, j + 1) for j in range(d))
        return sum(
            log_student_t(row[j], mean[j], scale[j, j], dof, inflation, "full") for j in each
        )
    q = 1 + apart @ exactly(np.linalg.inv(scale)) @ apart / Fraction(dof * inflation)
    log_q = math.log(q.numerator) - math.log(q.denominator)
    norm = scipy.special.gammaln((dof + d) / 2) - scipy.special.gammaln(dof / 2)
    norm -= 0.5 * (d * np.log(np.pi * dof * inflation) + np.linalg.slogdet(scale)[1])
    return norm - 0.5 * (dof + d) * log_q


def test_what_is_not_finite_stays_undecided(dtype):
    x, y, far = rows(dtype)
    far[0, 1], far[1, 1] = np.inf, np.nan
    for family in (gcf.Gaussian(), gcf.Gaussian("diag"), gcf.KernelDensity()):
        params = gcf.fit(gcf.Classifier(family, K), x, y)
        lost = np.isnan(gcf.log_posterior(params, far)).any(1)
        np.testing.assert_array_equal(lost, [True, True, False, False, False])
        np.testing.assert_array_equal(gcf.predict(params, far)[:2], -1)
        np.testing.assert_array_equal(np.isnan(gcf.log_joint(params, far)).any(1), lost)


HOLES = {"missing": "marginalize"}


@pytest.mark.slow("qda-holes")
@pytest.mark.parametrize(
    "family",
    [
        gcf.Gaussian(),
        gcf.Gaussian("diag"),
        gcf.Gaussian(shared=True),
        gcf.Gaussian("diag", **HOLES),
        gcf.Gaussian("diag", shared=True, **HOLES),
        gcf.Gaussian(**HOLES),
        gcf.Gaussian("diag", prior=PRIOR),
    ],
    ids=["qda", "naive", "lda", "naive-holes", "shared-holes", "qda-holes", "predictive"],
)
def test_streams_predict_what_the_core_predicts(family, x64):
    x, y, far = rows(np.float64)
    if family.missing == "marginalize":
        far[[0, 1, 3], [1, 2, 0]] = np.nan
    clf = gcf.Classifier(family, K, inference="ml" if family.prior is None else "predictive")
    batch = dict(zip(NAMES, x.T, strict=True)) | {"y": y}
    schema = gcf.Schema.of(clf, batch, label="y")
    params = gcf.fit(clf, x, y)
    (table,) = predict_batches(params, [dict(zip(NAMES, far.T, strict=True))], schema)
    assert table["prediction"].to_pylist() == gcf.predict(params, far).tolist()


def far_from_examples(dtype, d):
    """Examples of two widths, and queries on either side, from near to the farthest."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(N, d)), 1 + 2 * rng.normal(size=(N, d))])
    towards = rng.normal(size=(M, d))
    towards = towards / np.linalg.norm(towards, axis=1, keepdims=True)
    new = np.logspace(*POWERS[dtype.name], M)[:, None] * towards
    return x.astype(dtype), np.repeat([0, 1], N), new.astype(dtype)


def kernels_by_numpy(x, y, new, bandwidth):
    """The log-densities and their derivatives by the queries, in extended precision."""
    x, new, bandwidth = (np.asarray(a).astype(np.longdouble) for a in (x, new, bandwidth))
    scores, slopes = [], []
    for k, width in enumerate(bandwidth):
        z = (new[:, None] - x[y == k][None]) / width
        half = 0.5 * (z**2).sum(-1)
        odds = np.exp(half.min(1, keepdims=True) - half)
        norm = np.log(N) + (np.log(width) + 0.5 * np.log(2 * np.pi)).sum()
        scores.append(np.log(odds.sum(1)) - half.min(1) - norm)
        share = odds / odds.sum(1, keepdims=True)
        slopes.append(-(share[..., None] * z / width).sum(1))
    return np.stack(scores, 1), np.stack(slopes, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("d", [1, 11])
def test_far_rows_are_those_of_extended_precision(d, dtype):
    x, y, new = far_from_examples(dtype, d)
    params = gcf.fit(gcf.Classifier(gcf.KernelDensity(), 2), x, y)
    expected, slope = kernels_by_numpy(x, y, new, params.conditional.bandwidth)
    tolerance = 20 * np.finfo(dtype).eps
    for size in (1, 7, M):
        at = [new[i : i + size] for i in range(0, M, size)]
        found = np.concatenate([gcf.log_joint(params, rows) for rows in at])
        np.testing.assert_allclose(found, expected + np.log(0.5), rtol=tolerance)
        label = np.concatenate([gcf.predict(params, rows) for rows in at])
        np.testing.assert_array_equal(label, expected.argmax(1))
    of_one = jax.jit(jax.vmap(jax.jacrev(params.conditional.log_prob)))
    of_all = jax.jit(
        jax.grad(lambda x, k: params.conditional.log_prob(x)[:, k].sum()), static_argnums=1
    )
    # A component of the derivative may be nearly 0; it is measured against the whole. Of several
    # features, squares of two examples may round alike: then either may be the nearest.
    size = np.linalg.norm(slope, axis=-1, keepdims=True)
    apart = np.linalg.norm(np.ptp(x, axis=0)) if d > 1 else 0
    allowed = tolerance + apart / np.linalg.norm(new, axis=1)[:, None, None]
    for found in (of_one(new), jnp.stack([of_all(jnp.asarray(new), k) for k in range(2)], 1)):
        assert (np.abs(np.asarray(found) - slope) <= allowed * size).all()


@pytest.mark.slow
@pytest.mark.usefixtures("optimized")
def test_far_rows_of_independent_columns_are_a_sum(dtype):
    x, y, new = far_from_examples(dtype, 3)
    params = gcf.fit(gcf.Classifier(gcf.Independent(gcf.KernelDensity()), 2), x, y)
    widths = np.asarray(params.conditional.columns.bandwidth)
    columns = [slice(j, j + 1) for j in range(3)]
    of_columns = zip(columns, widths, strict=True)
    expected = sum(kernels_by_numpy(x[:, j], y, new[:, j], width)[0] for j, width in of_columns)
    for size in (1, M):
        at = [new[i : i + size] for i in range(0, M, size)]
        found = np.concatenate([gcf.log_joint(params, rows) for rows in at])
        tolerance = 20 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, expected + np.log(0.5), rtol=tolerance)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_a_far_coordinate_that_tells_nothing(covariance):
    """Of one covariance the squares of distances cancel, and float32 has not to hold them."""
    mean, scale = np.array([[-1, 0], [1, 0]], np.float32), np.ones((1, 2), np.float32)
    scale = scale if covariance == "diag" else np.eye(2, dtype=np.float32)[None]
    params = gcf.ClassifierParams(
        jnp.log(jnp.array([0.5, 0.5])),
        gcf.GaussianParams(jnp.asarray(mean), jnp.asarray(scale), covariance, True),
    )
    x = np.array([[0.5, 1e4], [-0.25, 1e5]], np.float32)
    found = gcf.log_posterior(params, x)
    np.testing.assert_allclose(found[:, 1] - found[:, 0], [1.0, -0.5], rtol=1e-5)
