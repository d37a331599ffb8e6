"""Rows that no density can take have no class; no row, or none with a weight, is an error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import FITTED_WITH_HOLES, FOUR_ROWS

X, Y = FOUR_ROWS
KEY = jax.random.key(0)
BAYESIAN = {
    "multinomial": gcf.multinomial_nb(2),
    "bernoulli": gcf.bernoulli_nb(2),
    "categorical": gcf.categorical_nb(2, 5),
    "poisson": gcf.Classifier(gcf.Poisson(prior=gcf.Gamma(1.5, 0.5)), 2),
    "gaussian": gcf.gaussian_nb(2, prior=gcf.NormalInverseWishart()),
}


def with_cell(x, rows, cells, value):
    """x with a value in some rows: in the first cell or in all; as far as the dtype can hold it."""
    if isinstance(x, dict):
        return {name: with_cell(part, rows, cells, value) for name, part in x.items()}
    if isinstance(x, gcf.Tokens):
        return x
    x = x.astype(np.asarray(value).dtype) if x.dtype.kind == "i" else x.copy()
    x[rows, cells] = value
    return x


@pytest.mark.slow(
    "float32-gaussian-shared-holes",
    "float32-independent-kernel",
    "float32-kernel",
    "float64-gaussian-shared-holes",
    "float64-independent-kernel",
    "float64-kernel",
    "float64-product",
    "float32-kernel-holes",
    "float32-product",
    "float64-kernel-holes",
)
@pytest.mark.parametrize("model", FITTED_WITH_HOLES, ids=str)
def test_no_class_is_named_exactly_where_the_posterior_is_nan(model, dtype):
    x, y = model.example(dtype)
    params = gcf.fit(model.classifier, x, y)
    largest = np.finfo(dtype).max
    values = [dtype.type(v) for v in (np.inf, -np.inf, np.nan, largest, -largest, largest / 4)]
    for i, value in enumerate(values):
        cell = slice(0, 1) if i % 2 else slice(None)
        x = with_cell(x, slice(2 * i, 2 * i + 1), slice(0, 1), value)
        x = with_cell(x, slice(2 * i + 1, 2 * i + 2), cell, value)
    undecided = np.isnan(np.asarray(gcf.log_posterior(params, x)))
    np.testing.assert_array_equal(undecided.all(-1), undecided.any(-1))
    np.testing.assert_array_equal(np.asarray(gcf.predict(params, x)) == -1, undecided.any(-1))
    # What is no number is scored by no model; NaN may be a missing cell.
    outside = slice(0, 4) if "holes" in model.name else slice(0, 6)
    if not isinstance(x, gcf.Tokens):
        assert undecided[outside].all()
        assert np.isnan(np.asarray(gcf.log_joint(params, x))[outside]).all()
    assert not undecided[2 * len(values) :].any()


@pytest.mark.parametrize("name", BAYESIAN)
def test_the_evidence_of_invalid_rows_is_nan(name):
    x, y = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]]), np.array([0, 1, 0, 1])
    evidence = jax.jit(gcf.log_evidence)
    assert np.isfinite(evidence(BAYESIAN[name], x, y, np.ones(4)))
    for labels, weights in ((y, np.array([1.0, -1, 1, 1])), (y + 1, np.ones(4))):
        assert np.isnan(evidence(BAYESIAN[name], x, labels, weights))


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
