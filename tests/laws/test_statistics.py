"""The algebra of sums and moments, on data that hypothesis makes."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import genclf as gcf
from tests.registry import D, K, assert_close, stack, take

pytestmark = pytest.mark.usefixtures("x64")

ROWS = 7
VALUES = st.floats(-1e6, 1e6, width=32)
WEIGHTS = hnp.arrays(np.float64, (ROWS, K), elements=st.sampled_from([0.0, 0.5, 1.0, 3.0]))
DATA = st.tuples(hnp.arrays(np.float64, (ROWS, D), elements=VALUES), WEIGHTS)

FULL, DIAG, POOLED = gcf.qda(K), gcf.gaussian_nb(K), gcf.lda(K)
DIAG_POOLED = gcf.Classifier(gcf.Gaussian("diag", shared=True), K)
SUMS = gcf.Classifier(gcf.Multinomial(), K)
CLASSIFIERS = pytest.mark.parametrize(
    "clf", [FULL, DIAG, POOLED, SUMS], ids=["full", "diag", "pooled", "sums"]
)


def stats(clf, data):
    x, w = data
    return gcf.stats(clf, np.abs(x) if clf is SUMS else x, w)


def close(found, expected, *data):
    """Within 1e-12 of the numbers that were added up: squares of the data, or the data."""
    size = max(1.0, *(np.abs(x).max() for x, _ in data))
    for name in ("count", "mean", "total", "scatter"):
        a, b = (getattr(s.conditional, name, None) for s in (found, expected))
        if a is not None:
            scale = {"count": 1, "mean": size, "total": size, "scatter": size**2}[name]
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * 3 * ROWS * scale, err_msg=name)


@pytest.mark.slow("full")
@CLASSIFIERS
@given(a=DATA, b=DATA)
def test_merge_commutes(clf, a, b):
    one, other = stats(clf, a), stats(clf, b)
    close(gcf.merge(one, other), gcf.merge(other, one), a, b)


@pytest.mark.slow("full")
@CLASSIFIERS
@given(a=DATA, b=DATA, c=DATA)
def test_merge_associates(clf, a, b, c):
    s, t, u = (stats(clf, data) for data in (a, b, c))
    close(gcf.merge(s, gcf.merge(t, u)), gcf.merge(gcf.merge(s, t), u), a, b, c)


@CLASSIFIERS
@given(a=DATA, b=DATA)
def test_merge_is_the_statistics_of_all_rows(clf, a, b):
    both = tuple(np.concatenate(pair) for pair in zip(a, b, strict=True))
    close(gcf.merge(stats(clf, a), stats(clf, b)), stats(clf, both), a, b)


@pytest.mark.slow("full", "sums")
@CLASSIFIERS
@given(a=DATA, b=DATA)
def test_remove_undoes_merge(clf, a, b):
    kept = stats(clf, a)
    left = gcf.remove(gcf.merge(kept, stats(clf, b)), stats(clf, b))
    # An emptied class has no mean: its own is 0, and what is left of it is rounding.
    present = (np.asarray(kept.count) > 0)[:, None]
    if clf is not SUMS:
        x = left.conditional
        mean = np.where(present, x.mean, 0)
        np.testing.assert_array_equal(np.asarray(x.count) == 0, ~present[:, 0])
        left = gcf.ClassifierStats(left.labels, gcf.Moments(x.count, jnp.asarray(mean), x.scatter))
    close(left, kept, a, b)


@pytest.mark.slow("diag", "full")
@CLASSIFIERS
@given(a=DATA, b=DATA, c=DATA)
def test_pool_is_merge(clf, a, b, c):
    parts = [stats(clf, data) for data in (a, b, c)]
    stacked = stack(parts)
    close(gcf.pool(stacked), gcf.merge(gcf.merge(parts[0], parts[1]), parts[2]), a, b, c)


@pytest.mark.slow("full")
@CLASSIFIERS
@given(a=DATA, c=st.sampled_from([0.25, 2.0, 1024.0]))
def test_statistics_are_linear_in_the_weights(clf, a, c):
    x, w = a
    scaled, plain = stats(clf, (x, c * w)), stats(clf, a)
    np.testing.assert_allclose(scaled.count, c * np.asarray(plain.count), rtol=1e-15)
    close(gcf.remove(scaled, scaled), gcf.remove(plain, plain), (x * np.sqrt(c), w))


@given(a=DATA)
def test_scatter_is_positive_and_symmetric(a):
    s = stats(FULL, a).conditional
    scatter = np.asarray(s.scatter)
    size = max(1.0, np.abs(a[0]).max()) ** 2
    np.testing.assert_allclose(scatter, scatter.swapaxes(1, 2), rtol=0, atol=1e-14 * ROWS * size)
    assert np.linalg.eigvalsh(scatter).min() >= -1e-12 * ROWS * size


@given(a=DATA)
def test_diagonal_scatter_is_the_diagonal(a):
    full, diag = stats(FULL, a), stats(DIAG, a)
    expected = np.diagonal(full.conditional.scatter, axis1=1, axis2=2)
    size = max(1.0, np.abs(a[0]).max()) ** 2
    np.testing.assert_allclose(diag.conditional.scatter, expected, rtol=0, atol=1e-12 * size)
    assert not diag.conditional.is_full and full.conditional.is_full


@given(a=DATA, shift=st.floats(-1e6, 1e6))
def test_scatter_does_not_know_the_origin(a, shift):
    x, w = a
    here, there = stats(FULL, a), stats(FULL, (x + shift, w))
    size = max(1.0, np.abs(x).max() + abs(shift))
    # The shift rounds the data to their new size, once each.
    np.testing.assert_allclose(
        there.conditional.scatter,
        here.conditional.scatter,
        rtol=0,
        atol=1e-15 * 10 * ROWS * 3 * size * max(1.0, np.abs(x).max()) + 1e-24 * size**2,
    )


def test_batch_axes_merge_member_by_member():
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(ROWS, D)), np.ones((ROWS, K))) for _ in range(4)]
    one = stack([stats(FULL, d) for d in data[:2]])
    other = stack([stats(FULL, d) for d in data[2:]])
    expected = gcf.merge(stats(FULL, data[1]), stats(FULL, data[3]))
    assert_close(take(gcf.merge(one, other), 1), expected, 1e-14)


@pytest.mark.parametrize(
    ("shared", "own"), [(POOLED, FULL), (DIAG_POOLED, DIAG)], ids=["full", "diag"]
)
@given(data=DATA)
def test_a_pooled_scatter_is_the_sum_over_the_classes(shared, own, data):
    found, apart = stats(shared, data), stats(own, data)
    pooled = gcf.pool_classes(shared, apart)
    assert found.statistic == pooled.statistic
    assert found.conditional.scatter.shape == (1, *apart.conditional.scatter.shape[1:])
    close(found, pooled, data)
    np.testing.assert_allclose(
        pooled.conditional.scatter[0], np.asarray(apart.conditional.scatter).sum(0), rtol=1e-14
    )
