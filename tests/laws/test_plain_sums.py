"""Plain sums of several parties are the statistics of all their rows, for every model."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.families.capabilities import is_additive, is_hidden
from genclf.sums.statistics import is_statistic
from tests.registry import MODELS, WITH_HOLES, K, N, assert_close, take

SUMMED = [
    model
    for model in [*MODELS, *WITH_HOLES]
    if is_additive(model.family)
    and not is_hidden(model.family)
    and not getattr(model.family, "needs_fourth", False)
]
every_model = pytest.mark.parametrize("model", SUMMED, ids=str)


def statistics(model, rows=slice(None), dtype="float64"):
    x, y = model.example(dtype)
    return gcf.stats(model.classifier, take(x, rows), y[rows])


def centre_of(node):
    """A point near the means, for each part that has moments."""
    if isinstance(node, dict):
        return {name: centre_of(part) for name, part in node.items()}
    if isinstance(node, gcf.Sums):
        return None
    mean = np.asarray(node.mean, float).mean(-2)
    return np.round(mean if mean.ndim == 1 else mean[:, 0], 1)  # one of each column


def added(*parts):
    """The sums of several parties about one centre."""
    add = lambda *a: sum(np.asarray(own) for own in a)  # noqa: E731
    total = [jax.tree.map(add, *fields) for fields in zip(*parts, strict=True)]
    return gcf.PlainSums(*total)._replace(centre=parts[0].centre)


@every_model
@pytest.mark.usefixtures("x64")
def test_three_parties_are_one(model):
    whole = statistics(model)
    centre = centre_of(whole.conditional)
    parts = [statistics(model, rows) for rows in (slice(0, 29), slice(29, 31), slice(31, N))]
    sums = added(*(gcf.to_sums(part, centre) for part in parts))
    assert_close(gcf.from_sums(model.classifier, *sums), whole, 1e-12)
    compiled = jax.jit(lambda s: gcf.from_sums(model.classifier, *gcf.to_sums(s, centre)))(whole)
    assert_close(compiled, whole, 1e-11)


@every_model
def test_there_and_back_in_float32(model):
    whole = statistics(model, dtype="float32")
    sums = gcf.to_sums(whole, centre_of(whole.conditional))
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(sums))
    found = gcf.from_sums(model.classifier, *sums)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(whole), strict=True)
    assert all(np.abs(a - b).max(initial=0) <= 1e-9 * max(1, np.abs(b).max()) for a, b in pairs)


def rows(d=3):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 53)
    return rng.normal(size=(53, d)) + y[:, None], y


def sums_of(x, y, centre):
    own = [x[y == k] - centre for k in range(K)]
    return (
        np.array([len(z) for z in own]),
        np.stack([z.sum(0) for z in own]),
        np.stack([z.T @ z for z in own]),
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "clf",
    [
        gcf.qda(K),
        gcf.lda(K),
        gcf.gaussian_nb(K),
        gcf.nearest_shrunken_centroids(K, soft_threshold=0.1),
    ],
)
def test_products_of_any_form(clf):
    """Whole matrices serve models of diagonals, and those per class models that share one."""
    x, y = rows()
    count, total, products = sums_of(x, y, 0.5)
    expected = gcf.stats(clf, x, y)
    centre = np.full(3, 0.5)
    assert_close(gcf.from_sums(clf, count, total, products, centre), expected, 1e-12)
    if expected.conditional.is_pooled:
        whole = products.sum(0, keepdims=True)
        assert_close(gcf.from_sums(clf, count, total, whole, centre), expected, 1e-12)
    if not expected.conditional.is_full:
        diagonal = np.diagonal(products, axis1=1, axis2=2)
        assert_close(gcf.from_sums(clf, count, total, diagonal, centre), expected, 1e-12)


def changed(field, value, at=()):
    def change(sums):
        sums = list(sums)
        if at:
            sums[field] = sums[field].astype(float)
            sums[field][at] = value
        else:
            sums[field] = value
        return sums

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(0, [3.0, 4.0]), r"count has shape \(2,\), expected \(3,\)"),
        (changed(1, np.zeros((2, 3))), r"total has shape \(2, 3\), expected \(K, features\)"),
        (changed(2, np.zeros((3, 2, 2))), r"products has shape \(3, 2, 2\), expected \(3, 3, 3\)"),
        (changed(2, 1e3, (1, 0, 2)), r"products\[1\] is not symmetric"),
        (changed(2, -1.0, (2, 1, 1)), r"products\[2, .* which no rows with this count"),
        (changed(1, 1e3, (0, 1)), r"products\[0, .* which no rows with this count"),
        (changed(1, np.nan, (0, 1)), r"total\[0, 1\] is nan, expected a finite sum"),
        (changed(0, -1.0, (0,)), r"count\[0\] is -1, expected a weight >= 0"),
        (changed(2, None), r"products is None, expected .* of shape \(3, 3, 3\)"),
        (changed(0, 0.0, (1,)), r"total\[1, 0\] is .*, expected 0, as there are no rows"),
        (changed(2, np.zeros((3, 3))), r"products has shape \(3, 3\), expected \(3, 3, 3\)"),
        (
            changed(2, 1e4 * np.array([[[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]] * 3)),
            r"products\[0\] minus the products of the means has a negative eigenvalue",
        ),
        (changed(3, np.zeros(2)), r"centre has shape \(2,\), expected \(3,\)"),
    ],
)
def test_sums_of_no_rows_are_named(change, message):
    x, y = rows()
    sums = change([*sums_of(x, y, 0), None])
    with pytest.raises(ValueError, match=message):
        gcf.from_sums(gcf.qda(K), *sums)


@pytest.mark.usefixtures("x64")
def test_under_jit_they_are_nan():
    x, y = rows()
    count, total, products = map(jnp.asarray, sums_of(x, y, 0))
    found = jax.jit(lambda p: gcf.from_sums(gcf.qda(K), count, total, p))(
        products.at[1, 2, 2].set(1e-3)
    )
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(found))
    compiled = jax.jit(lambda n, a: gcf.from_sums(gcf.qda(K), n, a, products))
    assert np.isfinite(compiled(count, total).conditional.scatter).all()
    for n, a in [
        (count.at[0].set(-1), total),
        (count.at[2].set(0), total),
        (count, total.at[1, 1].set(jnp.inf)),
        (count, total.at[1, 1].set(jnp.nan)),
    ]:
        assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(compiled(n, a)))


def test_lost_digits_are_said():
    x, y = rows()
    far = x + 3e7
    with pytest.warns(UserWarning, match="fewer than three digits are left of the variance"):
        gcf.from_sums(gcf.qda(K), *sums_of(far, y, 0))
    near = gcf.from_sums(gcf.qda(K), *sums_of(far, y, 3e7), np.full(3, 3e7))
    whole = gcf.qda(K)
    np.testing.assert_allclose(
        near.conditional.scatter, gcf.stats(whole, x, y).conditional.scatter, rtol=1e-4
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_statistics_by_hand_merge_with_others(dtype):
    x, y = rows()
    first, others = slice(0, 20), slice(20, 53)
    clf = gcf.qda(K)
    made = gcf.stats(clf, x[others].astype(dtype), y[others])
    own = gcf.from_sums(clf, *sums_of(x[first], y[first], 0)).conditional
    count = np.asarray(own.count)
    by_hand = gcf.ClassifierStats(
        gcf.Sums(count, count), gcf.Moments(count, np.asarray(own.mean), np.asarray(own.scatter))
    )
    for found in (gcf.merge(made, by_hand), gcf.merge(by_hand, made)):
        assert found.statistic == made.statistic
        leaves = jax.tree.leaves(found, is_leaf=is_statistic)
        assert all(s.count.dtype == dtype for s in leaves if is_statistic(s))
        expected = gcf.stats(clf, x, y).conditional.scatter
        np.testing.assert_allclose(found.conditional.scatter, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("clf", "sums", "message"),
    [
        (gcf.bernoulli_nb(2), ([3, 2], [[4, 0], [0, 2]]), "at most the weight of the rows"),
        (gcf.bernoulli_nb(2), ([3, 2], [[1, 0], [0, -2]]), r"total\[1, 1\] is -2, expected a sum"),
        (gcf.categorical_nb(2, 2), ([3, 2], [[2, 2], [1, 1]]), "tables that sum to the count"),
        (gcf.categorical_nb(2, 2), ([3, 2], [[2, 0], [1, 1]]), "tables that sum to the count"),
        (gcf.multinomial_nb(2), ([0, 2], [[1, 0], [0, 2]]), "expected 0, as there are no rows"),
        (gcf.bernoulli_nb(2), ([3, 2], [[1], [1]], [[1], [1]]), "Bernoulli sums counts"),
        (gcf.bernoulli_nb(2), ([3, 2], [[1], [1]], None, None, [[1], [1]]), "cells is"),
        (gcf.gaussian_nb(1, missing="marginalize"), ([3], [[1]], [[1]]), "cells is None"),
        (gcf.lda(2), ([9, 9], [[0], [0]], [[[-1]], [[3]]]), r"products\[0, 0, 0\] is -1"),
        (
            gcf.Classifier(gcf.VonMisesFisher(), 1),
            ([3], [[30.0, 0.0]], [[310.0, 1.0]]),
            "sums of unit vectors",
        ),
    ],
)
def test_counts_that_no_rows_have_are_named(clf, sums, message):
    with pytest.raises(ValueError, match=message):
        gcf.from_sums(clf, *(None if a is None else np.array(a, float) for a in sums))


def test_rounding_of_a_float32_scatter_is_no_asymmetry():
    rng = np.random.default_rng(0)
    x, clf = rng.normal(size=(31, 5)).astype("f"), gcf.lda(3)
    s = gcf.stats(clf, x, np.arange(31) % 3)
    noise = np.float32(1) + 1e-7 * rng.normal(size=(1, 5, 5)).astype("f")
    inside = replace(s.conditional, scatter=s.conditional.scatter * noise)
    given = gcf.to_sums(replace(s, conditional=inside), np.zeros(5))
    np.testing.assert_array_equal(given.products, np.swapaxes(given.products, -1, -2))
    back = gcf.from_sums(clf, given.count, given.total, given.products, np.zeros(5))
    np.testing.assert_allclose(back.conditional.scatter, s.conditional.scatter, rtol=1e-5)


def test_a_centre_is_not_lost():
    bits = gcf.stats(gcf.bernoulli_nb(2), np.eye(2, dtype=int), np.array([0, 1]))
    with pytest.raises(ValueError, match="centre is given, but the statistics are sums of counts"):
        gcf.to_sums(bits, np.zeros(2))
