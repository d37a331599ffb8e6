"""Rows so far that squares of their cells overflow: who wins in exact arithmetic, wins."""

from fractions import Fraction

import jax
import numpy as np
import pytest

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
    exact = np.vectorize(lambda a: Fraction(float(a)), otypes=[object])
    precision = exact(np.linalg.inv(np.asarray(params.covariances, np.float64)))
    for row in exact(far):
        lengths = [row @ own @ row for own in precision]
        yield lengths.index(min(lengths))


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


def test_what_is_not_finite_stays_undecided(dtype):
    x, y, far = rows(dtype)
    far[0, 1], far[1, 1] = np.inf, np.nan
    for family in (gcf.Gaussian(), gcf.Gaussian("diag"), gcf.KernelDensity()):
        params = gcf.fit(gcf.Classifier(family, K), x, y)
        lost = np.isnan(gcf.log_posterior(params, far)).any(1)
        np.testing.assert_array_equal(lost, [True, True, False, False, False])
        np.testing.assert_array_equal(gcf.predict(params, far)[:2], -1)
        np.testing.assert_array_equal(np.isnan(gcf.log_joint(params, far)).any(1), lost)


@pytest.mark.parametrize(
    "family",
    [gcf.Gaussian(), gcf.Gaussian("diag"), gcf.Gaussian(shared=True)],
    ids=["qda", "naive", "lda"],
)
def test_streams_predict_what_the_core_predicts(family, x64):
    x, y, far = rows(np.float64)
    clf = gcf.Classifier(family, K)
    batch = dict(zip(NAMES, x.T, strict=True)) | {"y": y}
    schema = gcf.Schema.of(clf, batch, label="y")
    params = gcf.fit(clf, x, y)
    (table,) = predict_batches(params, [dict(zip(NAMES, far.T, strict=True))], schema)
    assert table["prediction"].to_pylist() == gcf.predict(params, far).tolist()
