"""Units do not matter: x in metres and x in miles have the same posteriors.

Where squares overflow or vanish in float32 it is the same posterior, or NaN and said so.
"""

import numpy as np
import pytest

import genclf as gcf
from tests.registry import BY_NAME, FOUR_ROWS, MODELS, D, K, N, assert_finite, labels, reals

GAUSSIANS = [
    m for m in MODELS if m.name.startswith(("gaussian", "univariate")) or m.name == "independent"
]

FOURTH_POWERS = ("gaussian-ledoit-wolf", "gaussian-james-stein")  # float32 ends at 2¹²⁸
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
PRESETS = [gcf.lda(2), gcf.qda(2), gcf.gaussian_nb(2)]


@pytest.mark.parametrize("power", [-30, -10, 10, 30])
@pytest.mark.parametrize("model", GAUSSIANS, ids=str)
def test_powers_of_two_change_nothing(model, power, dtype):
    # Exact arithmetic on the exponents alone, but for the logarithm of the determinant.
    x, y = model.example(dtype)
    if model.name in FOURTH_POWERS and dtype == np.float32:
        power = np.clip(power, -20, 20)
    s = dtype.type(2.0**power)
    expected = gcf.log_posterior(gcf.fit(model.classifier, x, y), x)
    found = gcf.log_posterior(gcf.fit(model.classifier, s * x, y), s * x)
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(np.exp(found), np.exp(expected), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["gaussian", "gaussian-shared", "gaussian-diag", "gaussian-ridge"])
def test_each_feature_may_have_its_own_unit_and_origin(name, x64):
    model = BY_NAME[name]
    x, y = model.example("float64")
    unit, origin = np.array([1e-9, 3.0, 1e6, 0.1, 1e3]), np.array([0.0, 10.0, -1e6, 5.0, 0.0])
    seen = model.example("float64", seed=1)[0]
    expected = gcf.log_posterior(gcf.fit(model.classifier, x, y), seen)
    found = gcf.log_posterior(gcf.fit(model.classifier, x * unit + origin, y), seen * unit + origin)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "gaussian-shared"])
def test_full_covariances_do_not_know_the_axes(name, x64):
    model = BY_NAME[name]
    x, y = model.example("float64")
    mix = np.eye(D) + 0.2 * np.random.default_rng(3).normal(size=(D, D))
    expected = gcf.log_posterior(gcf.fit(model.classifier, x, y), x)
    found = gcf.log_posterior(gcf.fit(model.classifier, x @ mix, y), x @ mix)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["gaussian-spherical", "gaussian-spherical-shared"])
def test_spheres_do_not_know_rotations(name, x64):
    model = BY_NAME[name]
    x, y = model.example("float64")
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(D, D)))
    expected = gcf.log_posterior(gcf.fit(model.classifier, x, y), x)
    found = gcf.log_posterior(gcf.fit(model.classifier, x @ turn, y), x @ turn)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)
    assert expected.shape[1] == K


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


@pytest.mark.slow(
    "independent-kernels--100",
    "softmax--100",
    "softmax--64",
    "softmax-64",
    "independent-kernels--64",
    "kernels--100",
    "softmax-100",
)
@pytest.mark.parametrize("power", [-100, -64, 64, 100])
@pytest.mark.parametrize("name", SAME)
def test_extreme_powers_of_two_change_nothing(name, power):
    x, y = example()
    expected_params, expected = posterior(SAME[name], x, y)
    params, found = posterior(SAME[name], x * np.float32(2.0**power), y)
    assert_finite(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    if name == "softmax":
        assert params.converged and not params.separable
        assert params.steps == expected_params.steps


@pytest.mark.slow("0.3-151", "ledoit-wolf-5", "james-stein-151", "ledoit-wolf-151")
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
    "mixture--100",
    "mixture--64",
    "mixture-64",
    "softmax-quadratic--100",
    "softmax-quadratic-64",
    "mixture-100",
    "prior--100",
    "softmax-quadratic--64",
    "prior--64",
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


@pytest.mark.slow("1e-14-naive")
@pytest.mark.parametrize("clf", PRESETS, ids=["lda", "qda", "naive"])
@pytest.mark.parametrize("unit", [1e-14, 1e-17, 1e-20, 1e-23, 1e-37])
def test_units_whose_squares_float32_cannot_hold(clf, unit):
    x, y = FOUR_ROWS
    x = x * np.float32(unit)
    predicted = gcf.predict(gcf.fit(clf, x, y), x).tolist()
    if unit > 1e-15:
        assert predicted == y.tolist()
        gcf.validate(clf, x, y)
        return
    assert predicted == [-1] * 4
    with pytest.raises(ValueError, match=r"features \[0\] are too small or too large for float32"):
        gcf.validate(clf, x, y)
    assert gcf.diagnose(clf, x, y).conditional.out_of_range.all()


@pytest.mark.parametrize(
    ("origin", "power"), [(0.0, 62), (0.0, 64), (0.0, 122), (1e6, 46), (1e6, 62)]
)
@pytest.mark.parametrize("model", GAUSSIANS, ids=str)
def test_squares_that_overflow_change_nothing_or_are_nan(model, origin, power, dtype):
    """Also where variances can be held, and only the square of a mean, or a sum, cannot."""
    x, y = model.example(dtype)
    x[..., 0] += dtype.type(origin)
    expected = np.exp(gcf.log_posterior(gcf.fit(model.classifier, x, y), x))
    s = dtype.type(2.0 ** (power if dtype == np.float32 else 8 * power))
    found = np.exp(gcf.log_posterior(gcf.fit(model.classifier, s * x, y), s * x))
    if np.isnan(found).all():
        with pytest.raises(ValueError, match="are too small or too large"):
            gcf.validate(model.classifier, s * x, y)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-4, 1e-8, 1e-15])
@pytest.mark.parametrize("weight", [1e-18, 1e-26, 1e-28, 1e-29, 1e-30, 1e-31, 1e-37])
@pytest.mark.parametrize(
    "clf", [gcf.lda(K), gcf.qda(K), gcf.gaussian_nb(K)], ids=["lda", "qda", "nb"]
)
def test_equal_weights_change_nothing_or_it_is_nan(clf, weight, scale):
    """Also where their products with squares underflow."""
    x, y = example()
    x[:, 1] *= np.float32(scale)
    expected = np.exp(gcf.log_posterior(gcf.fit(clf, x, y), x))
    w = np.full(len(y), weight, np.float32)
    found = np.exp(gcf.log_posterior(gcf.fit(clf, x, y, w), x))
    if np.isnan(found).all():
        with pytest.raises(ValueError, match="and weights of about 1"):
            gcf.validate(clf, x, y, w)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
