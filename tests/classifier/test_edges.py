"""What is at the edge: no rows, no weight, numbers that the dtype cannot hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

import genclf as gcf

X, Y = np.array([[0.0], [1.0], [8.0], [9.0]], np.float32), np.array([0, 0, 1, 1])
GAUSSIANS = [gcf.lda(2), gcf.qda(2), gcf.gaussian_nb(2)]
KEY = jax.random.key(0)


@pytest.mark.parametrize("clf", GAUSSIANS, ids=["lda", "qda", "naive"])
@pytest.mark.parametrize("unit", [1e-14, 1e-17, 1e-20, 1e-23, 1e-37])
def test_units_whose_squares_float32_cannot_hold(clf, unit):
    x = X * np.float32(unit)
    predicted = gcf.predict(gcf.fit(clf, x, Y), x).tolist()
    if unit > 1e-15:
        assert predicted == Y.tolist()
        gcf.validate(clf, x, Y)
        return
    assert predicted == [-1] * 4
    with pytest.raises(ValueError, match=r"squares of features \[0\] are too small for float32"):
        gcf.validate(clf, x, Y)
    assert gcf.diagnose(clf, x, Y).conditional.vanishing.all()


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


@pytest.mark.parametrize("weights", [np.zeros(4), np.full(4, 1e-38), np.full(4, 1e-42)])
def test_no_weight_at_all(weights):
    weights = weights.astype(np.float32)
    clf, params = gcf.gaussian_nb(2), gcf.fit(gcf.gaussian_nb(2), X, Y)
    for call in (
        lambda: gcf.fit(clf, X, Y, weights),
        lambda: gcf.certify(clf, params, X, Y, weights),
        lambda: gcf.standard_errors(clf, params, X, Y, weights),
        lambda: gcf.fit_gradient(clf, X, Y, weights),
    ):
        with pytest.raises(ValueError, match="none of the 4 rows has both a label and a weight"):
            call()


def test_em_of_no_weight():
    for y, given in ((Y, {"weights": np.zeros(4)}), (np.full(4, -1), {"unlabelled_weight": 0.0})):
        with pytest.raises(ValueError, match="none of the 4 rows of x has a weight above 0"):
            gcf.em(gcf.gaussian_nb(2), X, y, key=KEY, **given)


def test_adapt_prior_of_no_rows():
    with pytest.raises(ValueError, match="x has no rows"):
        gcf.adapt_prior(gcf.fit(gcf.lda(2), X, Y), X[:0])


@pytest.mark.parametrize("inference", ["map", "predictive"])
def test_empty_batches_have_empty_answers(inference):
    params = gcf.fit(gcf.multinomial_nb(2, inference=inference), np.array([[1, 2], [2, 1]]), [0, 1])
    for empty in (np.zeros((0, 2), np.int32), jnp.zeros((0, 2))):
        assert gcf.predict(params, empty).shape == (0,)
        assert gcf.log_joint(params, empty).shape == (0, 2)


@pytest.mark.slow("clf2-l2")
@pytest.mark.parametrize(
    ("clf", "name"),
    [
        (gcf.lda(2, ridge=1e39), "ridge"),
        (gcf.lda(2, class_alpha=1e39), "class_alpha"),
        (gcf.SoftmaxRegression(2, l2=1e39), "l2"),
        (gcf.qda(2, prior=gcf.NormalInverseWishart(kappa=1e39)), "kappa"),
    ],
)
def test_hyper_parameters_beyond_the_dtype(clf, name):
    with pytest.raises(ValueError, match=rf"{name}.* is 1e\+39, expected"):
        gcf.fit(clf, X, Y)
    with jax.enable_x64(True):
        gcf.fit(clf, X.astype(np.float64), Y)


@pytest.mark.parametrize("length", [1e2, 1e4, 1e6])
def test_predictive_of_long_documents(length):
    counts = np.array([[300, 100, 200], [150, 400, 5], [2000, 200, 500]])
    params = gcf.fit(gcf.multinomial_nb(3, inference="predictive"), counts, np.arange(3))
    a = np.asarray(params.conditional.concentration, np.float64)
    x = length * np.array([[1, 0, 0], [1, 1, 1], [1, 2, 0.01]]).round(2)
    rising = (gammaln(a + x[:, None]) - gammaln(a)).sum(-1)
    whole = a.sum(-1)
    expected = rising - gammaln(whole + x.sum(-1)[:, None]) + gammaln(whole)
    expected = expected - expected.max(-1, keepdims=True)
    found = np.asarray(gcf.discriminant(params, x.astype(np.float32)))
    found = found - found.max(-1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-3)


def test_labels_of_any_integer_dtype():
    expected = gcf.fit(gcf.lda(2), X, Y)
    for kind in (np.uint8, np.int16, np.uint32, np.uint64, np.int64):
        found = gcf.fit(gcf.lda(2), X, Y.astype(kind))
        np.testing.assert_array_equal(found.conditional.mean, expected.conditional.mean)
    with pytest.raises(ValueError, match="y holds 1099511627776"):
        gcf.fit(gcf.lda(2), X, np.full(4, 2**40))
    with pytest.raises(ValueError, match="num_classes=256"):
        gcf.fit(gcf.lda(2), X, np.full(4, 255, np.uint8))
    with pytest.raises(ValueError, match=r"y\.filled\(-1\)"):
        gcf.fit(gcf.lda(2), X, np.ma.array(Y, mask=[1, 0, 0, 0]))
