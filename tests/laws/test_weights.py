"""A weight of k is k repetitions, a weight of 0 or a label of -1 is absence."""

import numpy as np
import pytest

import genclf as gcf
from tests.registry import MODELS, K, N, assert_close, spoil, take

pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.parametrize("model", MODELS, ids=str)]

TOLERANCE = 1e-12
KEPT = 43  # rows; the others are there and do not count


def test_weight_k_is_k_repetitions(model):
    x, y = model.example("float64")
    times = np.arange(N) % 4
    repeated = np.repeat(np.arange(N), times)
    expected = gcf.stats(model.classifier, take(x, repeated), y[repeated])
    assert_close(gcf.stats(model.classifier, x, y, times), expected, TOLERANCE)
    assert_close(gcf.stats(model.classifier, x, y, times.astype(float)), expected, TOLERANCE)


@pytest.mark.parametrize("content", ["anything", "invalid"])
@pytest.mark.parametrize("how", ["weight 0", "label -1", "soft label 0"])
def test_absent_rows_leave_no_trace(model, how, content):
    x, y = model.example("float64")
    expected = gcf.stats(model.classifier, take(x, slice(0, KEPT)), y[:KEPT])
    present = np.arange(N) < KEPT
    if content == "invalid":
        x = spoil(x, slice(KEPT, None))
    if how == "weight 0":
        found = gcf.stats(model.classifier, x, y, present.astype(float))
    elif how == "label -1":
        found = gcf.stats(model.classifier, x, np.where(present, y, -1).astype(np.int32))
    else:
        one_hot = np.eye(K)[y] * present[:, None]
        found = gcf.stats(model.classifier, x, one_hot)
    assert_close(found, expected, TOLERANCE)


def test_counts_sum_to_the_weights(model):
    x, y = model.example("float64")
    weights = np.random.default_rng(7).exponential(size=N)
    s = gcf.stats(model.classifier, x, y, weights)
    rounding = N * np.finfo(float).eps  # of a sum of N positive terms, in any order
    np.testing.assert_allclose(s.count, np.bincount(y, weights, K), rtol=rounding)
    np.testing.assert_allclose(s.count.sum(), weights.sum(), rtol=rounding)


def test_the_unit_of_weight_does_not_matter_to_maximum_likelihood(model):
    x, y = model.example("float64")
    weights = np.random.default_rng(7).exponential(size=N)
    clf = model.plain
    assert_close(gcf.fit(clf, x, y, weights * 0.013), gcf.fit(clf, x, y, weights), TOLERANCE)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_an_invalid_weight_poisons(model, weight):
    x, y = model.example("float64")
    weights = np.ones(N)
    weights[N // 2] = weight
    assert np.isnan(gcf.stats(model.classifier, x, y, weights).count).all()


def test_order_of_rows_does_not_matter(model):
    x, y = model.example("float64")
    weights = np.random.default_rng(7).exponential(size=N)
    order = np.random.default_rng(8).permutation(N)
    found = gcf.stats(model.classifier, take(x, order), y[order], weights[order])
    assert_close(found, gcf.stats(model.classifier, x, y, weights), TOLERANCE)


def test_names_of_classes_do_not_matter(model):
    x, y = model.example("float64")
    new = np.array([2, 0, 1], np.int32)  # class k is called new[k]
    params, renamed = gcf.fit(model.classifier, x, y), gcf.fit(model.classifier, x, new[y])
    assert_close(
        np.asarray(gcf.log_joint(renamed, x))[:, new],
        gcf.log_joint(params, x),
        TOLERANCE,
    )
    np.testing.assert_array_equal(gcf.predict(renamed, x), new[np.asarray(gcf.predict(params, x))])


def test_hard_labels_are_certain_soft_labels(model):
    x, y = model.example("float64")
    weights = np.random.default_rng(7).exponential(size=N)
    one_hot = np.eye(K)[y]
    expected = gcf.stats(model.classifier, x, y, weights)
    assert_close(gcf.stats(model.classifier, x, one_hot, weights), expected, TOLERANCE)
    assert_close(gcf.stats(model.classifier, x, one_hot * weights[:, None]), expected, TOLERANCE)


def test_soft_labels_are_fractions_of_a_row_in_each_class(model):
    x, _ = model.example("float64")
    soft = np.random.default_rng(9).dirichlet(np.ones(K), N)
    rows = np.repeat(np.arange(N), K)
    classes = np.tile(np.arange(K, dtype=np.int32), N)
    expected = gcf.stats(model.classifier, take(x, rows), classes, soft.ravel())
    assert_close(gcf.stats(model.classifier, x, soft), expected, TOLERANCE)


def test_a_fit_is_the_estimate_from_the_statistics(model):
    x, y = model.example("float64")
    s = gcf.stats(model.classifier, x, y)
    assert_close(gcf.estimate(model.classifier, s), gcf.fit(model.classifier, x, y), 1e-13)
