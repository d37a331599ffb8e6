"""The waveform data: the moments and the density that define them, and the published errors."""

import jax
import numpy as np
import pytest
from scipy.stats import norm

import genclf as gcf
from genclf.datasets import sample_waveform, waveform_log_joint

J = np.arange(1, 22)
H1 = np.maximum(6.0 - abs(J - 11), 0)
H2 = np.maximum(6.0 - abs(J - 4 - 11), 0)
H3 = np.maximum(6.0 - abs(J + 4 - 11), 0)
PAIRS = [(H1, H2), (H1, H3), (H2, H3)]


@pytest.mark.slow("float64-shape2")
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_shapes_and_dtypes(shape, dtype):
    x, y = sample_waveform(jax.random.key(0), shape)
    assert x.shape == (*shape, 21) and y.shape == shape
    assert x.dtype == dtype and y.dtype == np.int32
    log_joint = waveform_log_joint(x)
    assert log_joint.shape == (*shape, 3) and log_joint.dtype == dtype


@pytest.mark.slow
def test_moments():
    n = 300_000
    x, y = map(np.asarray, sample_waveform(jax.random.key(0), (n,)))
    np.testing.assert_allclose(np.bincount(y) / n, 1 / 3, atol=5 * np.sqrt(2 / 9 / n))
    for k, (a, b) in enumerate(PAIRS):
        rows = x[y == k].astype(float)
        covariance = np.eye(21) + np.outer(a - b, a - b) / 12
        variance = np.diag(covariance)
        error = np.sqrt(variance / len(rows))
        assert (abs(rows.mean(0) - (a + b) / 2) < 5 * error).all()
        error = np.sqrt((np.outer(variance, variance) + covariance**2) / len(rows))
        assert (abs(np.cov(rows.T) - covariance) < 5 * error).all()


@pytest.mark.slow
def test_log_joint_is_the_integral(dtype):
    """Along the segment from b to a the integrand is Gaussian: a difference of two Φ."""
    x, _ = sample_waveform(jax.random.key(0), (1009,))
    row = np.asarray(x, float)
    expected = []
    for a, b in PAIRS:
        length = np.sqrt(((a - b) ** 2).sum())
        along = (row - b) @ (a - b) / length
        across = ((row - b) ** 2).sum(1) - along**2
        # P(0 < N < length), N ~ N(along, 1), from the tail in which it does not cancel.
        side = np.where(along < length / 2, 1, -1)
        low, high = norm.sf(side * -along), norm.sf(side * (length - along))
        inside = np.log(side * (low - high)) - np.log(length)
        expected.append(inside - across / 2 - 10 * np.log(2 * np.pi) - np.log(3))
    tolerance = {"float32": 1e-4, "float64": 1e-9}[dtype.name]
    np.testing.assert_allclose(waveform_log_joint(x), np.stack(expected, 1), atol=tolerance)


@pytest.mark.slow
def test_bayes_error():
    """0.14 is an estimate (Breiman et al. 1984), by UCI's description from 5,000 rows: ±0.005."""
    x, y = sample_waveform(jax.random.key(0), (100_000,))
    error = float((waveform_log_joint(x).argmax(-1) != y).mean())
    assert abs(error - 0.14) < 0.01
    assert abs(error - 0.133) < 0.004


@pytest.mark.slow
def test_errors_of_two_models():
    """Hastie et al. (2009), Table 12.4: 0.191 and 0.205 over ten simulations, each ±0.006."""
    train = sample_waveform(jax.random.key(0), (200, 300))
    x, y = sample_waveform(jax.random.key(1), (200, 500))
    for clf, published, expected in [(gcf.lda(3), 0.191, 0.198), (gcf.qda(3), 0.205, 0.212)]:
        params = jax.vmap(gcf.fit, (None, 0, 0))(clf, *train)
        error = float((jax.vmap(gcf.predict)(params, x) != y).mean())
        assert abs(error - published) < 0.012 and abs(error - expected) < 0.005


def test_the_waveforms_of_whole_numbers_are_those_of_floats():
    x = np.arange(21)
    whole, floats = (waveform_log_joint(a) for a in (x, x.astype(np.float32)))
    np.testing.assert_array_equal(whole, floats)
