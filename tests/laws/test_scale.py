"""Units do not matter: x in metres and x in miles have the same posteriors."""

import numpy as np
import pytest

import genclf as gcf
from tests.registry import BY_NAME, MODELS, D, K

GAUSSIANS = [
    m for m in MODELS if m.name.startswith(("gaussian", "univariate")) or m.name == "independent"
]

FOURTH_POWERS = ("gaussian-ledoit-wolf", "gaussian-james-stein")  # float32 ends at 2¹²⁸


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
