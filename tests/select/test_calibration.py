"""Scores of probabilities: beside scikit-learn, beside a loop, and where they must be NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

import genclf as gcf
from tests.registry import assert_near

N, K = 211, 3
FIELDS = ("log_loss", "brier", "expected_error", "error")


def example(dtype=np.float32, seed=0, num_classes=K):
    """Probabilities and labels drawn from sharper ones: overconfident in part."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(num_classes, 0.7), N)
    y = np.array([rng.choice(num_classes, p=0.8 * row + 0.2 / num_classes) for row in p], np.int32)
    return np.log(p).astype(dtype), y, rng.integers(0, 4, N).astype(dtype)


def reference(log_p, y, num_bins, weights):
    """The definitions, one row and one bin at a time, in float64."""
    log_p, w = np.asarray(log_p, np.float64), np.asarray(weights, np.float64)
    rows = [(np.exp(a), int(k), v) for a, k, v in zip(log_p, y, w, strict=True) if v > 0]
    total = sum(v for _, _, v in rows)
    brier = sum(v * sum((p[j] - (j == k)) ** 2 for j in range(len(p))) for p, k, v in rows)
    gap = 0.0
    for b in range(num_bins):
        inside = [r for r in rows if b / num_bins < r[0].max() <= (b + 1) / num_bins]
        hits = sum(v * (p.argmax() == k) for p, k, v in inside)
        gap += abs(hits - sum(v * p.max() for p, _, v in inside))
    return {
        "log_loss": -sum(v * np.log(p[k]) for p, k, v in rows) / total,
        "brier": brier / total,
        "expected_error": gap / total,
        "error": sum(v * (p.argmax() != k) for p, k, v in rows) / total,
    }


@pytest.mark.parametrize("num_bins", [1, 7, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_the_definitions(dtype, num_bins, weighted):
    log_p, y, w = example(dtype)
    weights = w if weighted else None
    found = gcf.calibration(log_p, y, num_bins=num_bins, weights=weights)
    expected = reference(log_p, y, num_bins, w if weighted else np.ones(N))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for name in FIELDS:
        value = getattr(found, name)
        assert value.dtype == dtype and value.shape == ()
        assert_near(value, expected[name], tolerance)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_against_scikit_learn(x64, num_classes):
    log_p, y, w = example(np.float64, 1, num_classes)
    p, found = np.exp(log_p), gcf.calibration(log_p, y, weights=w)
    p = p / p.sum(1, keepdims=True)
    np.testing.assert_allclose(found.log_loss, log_loss(y, p, sample_weight=w), rtol=1e-10)
    expected = brier_score_loss(
        y, p, sample_weight=w, scale_by_half=False, labels=np.arange(num_classes)
    )
    np.testing.assert_allclose(found.brier, expected, rtol=1e-10)


def test_an_example_by_hand():
    p = jnp.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.0, 0.75], [1.0, 0.0, 0.0]])
    found = gcf.calibration(jnp.log(p), jnp.array([0, 1, 0, 0]), num_bins=2)
    # Half is in the lower bin, as its upper end: |1 - 0.5|, and |2 - 0.75 - 0.75 - 1| above it.
    np.testing.assert_allclose(found.expected_error, (0.5 + 0.5) / 4, rtol=1e-6)
    np.testing.assert_allclose(found.log_loss, -np.log(0.5 * 0.75 * 0.25) / 4, rtol=1e-6)
    squares = 0.25 + 2 / 16 + 1 / 16 + 2 / 64 + 2 * 9 / 16
    np.testing.assert_allclose(found.brier, squares / 4, rtol=1e-6)
    assert found.error == 0.25


def test_the_best_and_the_worst():
    sure = jnp.log(jnp.array([[1.0, 0.0], [0.0, 1.0]]))
    best = gcf.calibration(sure, jnp.array([0, 1]))
    assert [float(getattr(best, name)) for name in FIELDS] == [0, 0, 0, 0]
    worst = gcf.calibration(sure, jnp.array([1, 0]))
    assert [float(getattr(worst, name)) for name in FIELDS] == [np.inf, 2, 1, 1]
    # Of equals the lowest is predicted, as by `predict`.
    assert gcf.calibration(jnp.log(jnp.full((1, 2), 0.5)), jnp.array([0])).error == 0


def test_true_probabilities_score_best():
    log_p, _, _ = example(seed=2)
    # Every row with every label, weighted by the true probability: the expected score.
    of_all, y = np.repeat(log_p, K, 0), np.tile(np.arange(K), N)
    weights = np.exp(log_p).ravel()
    truth = gcf.calibration(of_all, y, weights=weights)
    for power in (0.5, 2.0):
        other = np.asarray(jax.nn.log_softmax(power * of_all, axis=1))
        other = gcf.calibration(other, y, weights=weights)
        assert other.log_loss > truth.log_loss and other.brier > truth.brier


def test_vmap_is_a_loop_and_jit_changes_nothing():
    many = [example(seed=seed) for seed in range(3)]
    log_p, y, w = (np.stack(parts) for parts in zip(*many, strict=True))

    def scores(log_p, y, w):
        return gcf.calibration(log_p, y, weights=w)

    at_once = jax.jit(jax.vmap(scores))(log_p, y, w)
    for i in range(3):
        alone, traced = scores(log_p[i], y[i], w[i]), jax.jit(scores)(log_p[i], y[i], w[i])
        for name in FIELDS:
            expected = getattr(alone, name)
            assert_near(getattr(at_once, name)[i], expected, 1e-5)
            assert_near(getattr(traced, name), expected, 1e-5)


@pytest.mark.slow
def test_a_row_of_weight_0_is_absent():
    log_p, y, _ = example()
    kept = gcf.calibration(log_p[1:], y[1:])
    weights = np.r_[0, np.ones(N - 1)].astype(np.float32)
    for cell, label in ((np.nan, 0), (-np.inf, 1), (5.0, -1)):
        log_p[0], y[0] = cell, label
        found = gcf.calibration(log_p, y, weights=weights)
        slope = jax.grad(lambda a, y=y: gcf.calibration(a, y, weights=weights).log_loss)(log_p)
        assert np.isfinite(slope).all()
        for name in FIELDS:
            assert_near(getattr(found, name), getattr(kept, name), 1e-5)


@pytest.mark.parametrize(
    "where, bad",
    [
        ("log_p", np.nan),
        ("log_p", 0.0),
        ("log_p", np.log([0.5, 0.5, 0.0011])),
        ("y", -1),
        ("y", K),
        ("w", -1.0),
        ("w", np.inf),
    ],
)
def test_a_row_that_cannot_be_scored_is_nan(where, bad):
    arrays = dict(zip(("log_p", "y", "w"), example(), strict=True))
    arrays["w"] = arrays["w"] + np.float32(1)
    arrays[where][5] = bad
    scores = jax.jit(lambda log_p, y, w: gcf.calibration(log_p, y, weights=w))
    found = scores(**arrays)
    assert all(np.isnan(getattr(found, name)) for name in FIELDS)


def test_a_nan_posterior_outside_traced_code_is_nan_too():
    log_p, y, _ = example()
    log_p[3, 1] = np.nan
    assert all(np.isnan(getattr(gcf.calibration(log_p, y), name)) for name in FIELDS)
    assert np.isnan(gcf.calibration(log_p, y, weights=np.zeros(N)).log_loss)


def test_what_does_not_fit_says_so():
    log_p, y, w = example()
    with pytest.raises(ValueError, match=r"log_posterior has shape \(211,\)"):
        gcf.calibration(log_p[:, 0], y)
    with pytest.raises(ValueError, match=r"y has shape \(210,\) and dtype int32, expected"):
        gcf.calibration(log_p, y[1:])
    with pytest.raises(ValueError, match="dtype float32, expected"):
        gcf.calibration(log_p, y.astype(np.float32))
    with pytest.raises(ValueError, match=r"weights has shape \(3,\), expected \(211,\)"):
        gcf.calibration(log_p, y, weights=w[:3])
    with pytest.raises(ValueError, match="num_bins is 0"):
        gcf.calibration(log_p, y, num_bins=0)
    with pytest.raises(ValueError, match=r"y\[4\] is 3 \(row 4\), expected a label in 0\.\.2"):
        gcf.calibration(log_p, np.where(np.arange(N) == 4, K, y))
    with pytest.raises(ValueError, match=r"log_posterior\[0\] has probabilities that sum to"):
        gcf.calibration(np.exp(log_p), y)
    log_p[7] = np.log([0.5, 0.4, 0.0989])
    with pytest.raises(ValueError, match=r"log_posterior\[7\] has .* that sum to 0\.998"):
        gcf.calibration(log_p, y)
    log_p[7] = np.log([0.5, 0.4, 0.0991])
    assert np.isfinite(gcf.calibration(log_p, y).log_loss)
