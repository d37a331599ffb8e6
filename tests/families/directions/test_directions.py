"""Unit vectors: densities and concentrations of von Mises and Fisher, for all sizes and dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import genclf as gcf
from genclf.families.directions.von_mises_fisher import concentration_of, log_norm, mean_length
from tests.registry import K

DIMENSIONS = (2, 3, 17, 101, 2048)
CONCENTRATIONS = (1e-8, 1e-3, 0.7, 5.0, 31.0, 1e3, 1e6)


def ratio(d, kappa):
    """I_{d/2}(κ) / I_{d/2-1}(κ): by its continued fraction from below, or where κ is large."""
    if kappa > 50 * d:
        return scipy.special.ive(d / 2, kappa) / scipy.special.ive(d / 2 - 1, kappa)
    found = 0.0
    for order in d / 2 + np.arange(3000 + int(2 * kappa), -1, -1):
        found = 1 / (2 * order / kappa + found)
    return found


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("d", DIMENSIONS)
def test_mean_length_is_the_ratio_of_bessel_functions(d):
    found = jax.jit(mean_length, static_argnums=0)(d, jnp.array(CONCENTRATIONS))
    np.testing.assert_allclose(found, [ratio(d, k) for k in CONCENTRATIONS], rtol=1e-12)
    assert mean_length(d, jnp.zeros(1)) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("d", DIMENSIONS)
def test_concentration_solves_its_equation(d):
    kappa = np.array(CONCENTRATIONS)
    length = np.array([ratio(d, k) for k in kappa])
    found = concentration_of(d, jnp.asarray(length), 1 - jnp.asarray(length))
    np.testing.assert_allclose(mean_length(d, found), length, rtol=1e-10)
    # What rounding of the length, and of 1 less it, leaves of κ.
    left = 1e-10 + 1e-14 / (1 - length)
    assert (np.abs(found - kappa) <= left * kappa).all()
    ends = jnp.array([0.0, 1.0, np.nan, -0.1])
    ends = concentration_of(d, ends, 1 - ends)
    np.testing.assert_array_equal(ends, [0, np.inf, np.nan, 0])


@pytest.mark.slow
def test_concentration_in_float32():
    length = np.linspace(0.01, 0.99, 23, dtype=np.float32)
    for d in DIMENSIONS:
        found = concentration_of(d, jnp.asarray(length), 1 - jnp.asarray(length))
        assert found.dtype == np.float32
        with jax.enable_x64(True):
            wide = jnp.asarray(length, np.float64)
            exact = concentration_of(d, wide, 1 - wide)
        np.testing.assert_allclose(found, exact, rtol=3e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_norm_is_the_area_of_the_sphere_and_its_slope_the_mean():
    for d in DIMENSIONS:
        area = np.log(2) + 0.5 * d * np.log(np.pi) - scipy.special.gammaln(d / 2)
        np.testing.assert_allclose(log_norm(d, jnp.zeros(1))[0], -area, rtol=1e-13)
        # log C(κ) + κ grows by 1 - A(κ).
        kappa = jnp.array([0.7, 31.0, 1e3])
        slope = jax.vmap(jax.grad(lambda k, d=d: log_norm(d, k[None])[0]))(kappa)
        np.testing.assert_allclose(slope, 1 - mean_length(d, kappa), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("d", "kappa"), [(2, 0.3), (3, 7.0), (17, 40.0), (17, 2000.0), (101, 90.0)]
)
def test_density_is_scipys(d, kappa):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(3, d))
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    kappas = np.array([kappa, 2 * kappa, 0.5 * kappa])
    params = gcf.VonMisesFisherParams(jnp.asarray(mean), jnp.asarray(kappas))
    known = [scipy.stats.vonmises_fisher(m, k) for m, k in zip(mean, kappas, strict=True)]
    x = np.stack([one.rvs(1, random_state=1)[0] for one in known for _ in range(5)])
    expected = np.stack([one.logpdf(x) for one in known], 1)
    np.testing.assert_allclose(params.log_prob(jnp.asarray(x)), expected, rtol=1e-9, atol=1e-8)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_fit_is_scipys():
    rng = np.random.default_rng(0)
    mean = np.eye(5)[:3]
    x = np.concatenate(
        [scipy.stats.vonmises_fisher(m, 11.0).rvs(53, random_state=rng) for m in mean]
    )
    y = np.repeat(np.arange(3), 53)
    params = gcf.fit(gcf.Classifier(gcf.VonMisesFisher(), 3), x, y)
    for k in range(3):
        direction, kappa = scipy.stats.vonmises_fisher.fit(x[y == k])
        np.testing.assert_allclose(params.conditional.mean_direction[k], direction, atol=1e-12)
        np.testing.assert_allclose(params.conditional.concentration[k], kappa, rtol=1e-7)
    shared = gcf.fit(gcf.Classifier(gcf.VonMisesFisher(shared=True), 3), x, y)
    lengths = np.linalg.norm([x[y == k].sum(0) for k in range(3)], axis=1)
    kappa = shared.conditional.concentration
    np.testing.assert_allclose(mean_length(5, kappa)[0], lengths.sum() / len(x), rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_fit_of_few_rows_is_scipys():
    rng = np.random.default_rng(0)
    known = [scipy.stats.vonmises_fisher(m, 11.0) for m in np.eye(3)[:2]]
    x, y = np.concatenate([one.rvs(11, random_state=rng) for one in known]), np.repeat([0, 1], 11)
    params = gcf.fit(gcf.Classifier(gcf.VonMisesFisher(), 2), x, y).conditional
    fits = [scipy.stats.vonmises_fisher.fit(x[y == k]) for k in range(2)]
    for k, (direction, kappa) in enumerate(fits):
        np.testing.assert_allclose(params.mean_direction[k], direction, atol=1e-12)
        np.testing.assert_allclose(params.concentration[k], kappa, rtol=1e-7)
    expected = np.stack([scipy.stats.vonmises_fisher(*fit).logpdf(x) for fit in fits], 1)
    np.testing.assert_allclose(params.log_prob(jnp.asarray(x)), expected, rtol=1e-6)


@pytest.mark.slow
def test_rows_that_are_nearly_one_keep_their_concentration(dtype):
    rng = np.random.default_rng(0)
    x = np.concatenate([np.ones((997, 1)), 1e-3 * rng.normal(size=(997, 2))], 1)
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)
    wide = x.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    mean = wide.mean(0)
    rest = ((wide - mean) ** 2).sum(1).mean() / (1 + np.linalg.norm(mean))
    params = gcf.fit(gcf.Classifier(gcf.VonMisesFisher(), 1), x, np.zeros(997, int))
    # A_3(κ) = coth κ - 1/κ, so 1 - A = 1/κ for large κ.
    tolerance = {"float32": 1e-4, "float64": 1e-10}[dtype.name]
    np.testing.assert_allclose(params.conditional.concentration, 1 / rest, rtol=tolerance)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("d", "kappa"), [(2, 0.0), (2, 3.0), (3, 50.0), (101, 11.0), (2048, 1e4)])
def test_draws_have_the_density_of_their_cosine(d, kappa):
    mean = np.zeros((1, d))
    mean[0, 0] = 1
    params = gcf.VonMisesFisherParams(jnp.asarray(mean), jnp.array([kappa]))
    draw = jax.jit(lambda key: params.sample(key, jnp.zeros(4001, int)))
    x = np.asarray(draw(jax.random.key(0)))
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-12)
    # The cosine has the density (1 - w²)^((d-3)/2) exp(κ w), the other coordinates no direction.
    w = np.cos(np.linspace(np.pi, 0, 200_001))
    log_p = 0.5 * (d - 2) * np.log(np.maximum(1 - w**2, 1e-300)) + kappa * (w - 1)
    with np.errstate(divide="ignore"):
        mass = np.exp(log_p - log_p[np.isfinite(log_p)].max())
    below = np.cumsum(mass) / mass.sum()
    cosine = x[:, 0]
    assert scipy.stats.kstest(cosine, lambda at: np.interp(at, w, below)).pvalue > 1e-3
    across = x[:, 1:] / np.linalg.norm(x[:, 1:], axis=1, keepdims=True)
    assert np.abs(across.mean(0)).max() < 5 / np.sqrt(4001)


@pytest.mark.slow
def test_rows_of_another_length_are_invalid(dtype):
    x = np.eye(5, dtype=dtype)[[0, 1, 2, 0, 1, 2]]
    y = np.array([0, 1, 2, 0, 1, 2])
    clf = gcf.Classifier(gcf.VonMisesFisher(alpha=1.0), 3)
    params = gcf.fit(clf, x, y)
    bad = x.copy()
    bad[1] *= 1.01
    np.testing.assert_array_equal(gcf.predict(params, bad), [0, -1, 2, 0, 1, 2])
    assert np.isnan(gcf.fit(clf, bad, y).conditional.mean_direction[1]).all()
    with pytest.raises(ValueError, match="a row of length 1"):
        gcf.validate(clf, bad, y)
    with pytest.raises(ValueError, match="at least 2"):
        gcf.fit(clf, x[:, :1], y)


N = 31


def test_the_prior_of_directions_is_rows_without_a_direction(x64):
    """`α` of them in each class add `α log C(κ)`; one share of α each if classes share κ."""
    rng, d = np.random.default_rng(0), 3
    x = rng.normal(size=(N, d)) + 2 * np.eye(d)[np.arange(N) % K]
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    for shared in (False, True):
        clf = gcf.Classifier(gcf.VonMisesFisher(shared, alpha=2.0), K)
        params, stats = (of(clf, x, np.arange(N) % K).conditional for of in (gcf.fit, gcf.stats))
        kappa = np.broadcast_to(params.concentration, (K,))
        log_norm = np.log(kappa / (2 * np.pi * (np.exp(kappa) - np.exp(-kappa))))
        expected = 2.0 * (log_norm.sum() / K if shared else log_norm.sum())
        np.testing.assert_allclose(clf.family.log_prior_density(params, stats), expected, rtol=1e-9)
        assert clf.family.heuristics() == [] and clf.family.plain().alpha == 0


def test_norms_of_directions_by_scipy(x64):
    """The area of a sphere in d dimensions and the Bessel function: `log C(κ)` for any d."""
    for d in (2, 5, 17):
        params = gcf.VonMisesFisherParams(jnp.eye(d)[:1], jnp.array([3.0]))
        v = d / 2 - 1
        log_norm = v * np.log(3.0) - d / 2 * np.log(2 * np.pi) - np.log(scipy.special.iv(v, 3.0))
        np.testing.assert_allclose(params.log_prob(jnp.eye(d)[:1])[0, 0], log_norm + 3.0, rtol=1e-9)
