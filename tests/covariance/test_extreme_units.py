"""Units of which squares overflow or vanish in float32: the same posterior, or NaN."""

import numpy as np
import pytest

import genclf as gcf
from tests.registry import K, assert_finite, labels, reals

N = 101
SAME = {
    "kernels": gcf.Classifier(gcf.KernelDensity(), K),
    "kernels-leave-one-out": gcf.Classifier(gcf.KernelDensity(leave_one_out=True), K),
    "independent-kernels": gcf.Classifier(gcf.Independent(gcf.KernelDensity()), K),
    "softmax": gcf.SoftmaxRegression(K),
}
PRIOR = gcf.NormalInverseWishart()
SAME_OR_NAN = {
    "softmax-quadratic": gcf.SoftmaxRegression(K, features="quadratic"),
    "prior": gcf.Classifier(gcf.Gaussian(prior=PRIOR), K),
    "prior-diag": gcf.Classifier(gcf.Gaussian("diag", prior=PRIOR), K),
    "mixture": gcf.Classifier(gcf.Mixture(gcf.Gaussian("diag", prior=PRIOR), 2), K),
}


def example():
    """Classes that overlap."""
    rng = np.random.default_rng(0)
    y = labels(rng, N)
    x = reals(rng, y, "float32")
    y[::11] = (y[::11] + 1) % K
    return x, y


def posterior(clf, x, y):
    params = gcf.fit(clf, x, y)
    return params, np.exp(gcf.log_posterior(params, x[:13]))


@pytest.mark.slow("independent-kernels--100", "softmax--100", "softmax--64", "softmax-64")
@pytest.mark.parametrize("power", [-100, -64, 64, 100])
@pytest.mark.parametrize("name", SAME)
def test_powers_of_two_change_nothing(name, power):
    x, y = example()
    expected_params, expected = posterior(SAME[name], x, y)
    params, found = posterior(SAME[name], x * np.float32(2.0**power), y)
    assert_finite(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    if name == "softmax":
        assert params.converged and not params.separable
        assert params.steps == expected_params.steps


@pytest.mark.slow("0.3-151", "ledoit-wolf-5")
@pytest.mark.parametrize("d", [5, 151])
@pytest.mark.parametrize("shrinkage", [0.3, "ledoit-wolf", "james-stein"])
def test_shrinkage_of_numbers_whose_fourth_powers_leave_the_dtype(shrinkage, d):
    target = "diagonal" if shrinkage == "james-stein" else "identity"
    family = gcf.Gaussian(shared=True, shrinkage=shrinkage, target=target)
    rng = np.random.default_rng(0)
    y = labels(rng, N)
    x = (rng.normal(size=(N, d)) + 0.5 * y[:, None]).astype(np.float32)
    clf = gcf.Classifier(family, K)
    _, expected = posterior(clf, x, y)
    for power in (-44, 44):
        _, found = posterior(clf, x * np.float32(2.0**power), y)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("power", [-100, 100])
def test_separable_rows_are_so_in_every_unit(power):
    x, y = example()
    x[:, 2] += 100 * y
    params = gcf.fit(SAME["softmax"], x * np.float32(2.0**power), y)
    assert params.separable and params.converged
    np.testing.assert_array_equal(gcf.predict(params, x * np.float32(2.0**power)), y)


@pytest.mark.slow(
    "mixture--100", "mixture--64", "mixture-64", "softmax-quadratic--100", "softmax-quadratic-64"
)
@pytest.mark.parametrize("power", [-100, -64, 64, 100])
@pytest.mark.parametrize("name", SAME_OR_NAN)
def test_squares_that_cannot_be_held_are_nan(name, power):
    x, y = example()
    params, found = posterior(SAME_OR_NAN[name], x * np.float32(2.0**power), y)
    assert np.isnan(found).all()
    assert not getattr(params, "converged", False)


@pytest.mark.parametrize("name", ["kernels", "softmax"])
def test_columns_may_be_of_units_far_apart(name):
    x, y = example()
    expected = posterior(SAME[name], x, y)[1]
    unit = 2.0 ** np.array([-100, 100, 0, -64, 64])
    found = posterior(SAME[name], x * unit.astype("float32"), y)[1]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
