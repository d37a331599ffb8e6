"""Covariances of low rank: their arithmetic, their dense twins, and fits class by class."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import genclf as gcf
from genclf.covariance.scales import SCALES
from genclf.families.gaussian import low_rank
from genclf.sums.blocks import Hard

K, D, N = 5, 23, 211


def rows(dtype=np.float64, n=N, d=D):
    rng = np.random.default_rng(1)
    y = np.r_[np.arange(K - 1), rng.integers(0, 3, n - K + 1)].astype(np.int32)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * rng.gamma(2, size=d) + 3 * y[:, None]
    x[y == 1, 4] = 2.0  # a constant feature of one class
    return x.astype(dtype), y, rng.gamma(3, size=n).astype(dtype)


def any_scale(copies, d=7, r=3):
    """Deviations, and loadings that are not orthogonal; one is nearly 0."""
    rng = np.random.default_rng(2)
    scale = np.concatenate([rng.gamma(2, size=(copies, d, 1)), rng.normal(size=(copies, d, r))], -1)
    scale[..., -1] *= 1e-9
    return scale, np.stack([np.diag(a[:, 0] ** 2) + a[:, 1:] @ a[:, 1:].T for a in scale])


@pytest.mark.parametrize("xp", [np, jnp])
def test_the_arithmetic_is_that_of_the_matrices(xp):
    with jax.enable_x64(True):
        of, rng = SCALES["low-rank"], np.random.default_rng(3)
        scale, sigma = any_scale(2)
        d, z, given = 7, rng.normal(size=(11, 7)), xp.asarray(scale)
        inverse = of.inverse(given)
        near = {"rtol": 1e-11, "atol": 1e-12}
        np.testing.assert_allclose(of.matrices(given, d), sigma, **near)
        np.testing.assert_allclose(of.triangular(given, d), np.linalg.cholesky(sigma), **near)
        np.testing.assert_allclose(of.precisions(inverse, d), np.linalg.inv(sigma), **near)
        np.testing.assert_allclose(of.deviations(given)[0] ** 2, np.diag(sigma[0]), **near)
        scatter = sigma[::-1] + np.eye(d)
        want = np.einsum("kij,kji->k", np.linalg.inv(sigma), scatter)
        np.testing.assert_allclose(of.traces(inverse, xp.asarray(scatter)), want, **near)
        own, common = of.log_determinants(given, d)
        half = 0.5 * np.linalg.slogdet(sigma)[1]
        np.testing.assert_allclose(own + common, half, **near)
        own, common = of.log_determinants(given[:1], d)
        np.testing.assert_allclose(common, half[0], **near)
        assert not own.any()
        rows = xp.asarray(z)
        want = np.einsum("ni,ij,nj->n", z, np.linalg.inv(sigma[1]), z)
        np.testing.assert_allclose(of.squared_lengths(inverse[1], rows), want, **near)
        precise = of.weights(inverse[1], of.whiten(inverse[1], rows))
        np.testing.assert_allclose(precise, z @ np.linalg.inv(sigma[1]), **near)
        y = np.arange(11) % 2
        drawn = jnp.asarray(of.noise(jnp.asarray(z), jnp.asarray(scale), jnp.asarray(y)))
        back = np.stack([of.whiten(inverse[k], drawn[i, None])[0] for i, k in enumerate(y)])
        np.testing.assert_allclose(back, z, **near)  # the root of the noise is that of the inverse


@pytest.mark.slow("False")
@pytest.mark.parametrize("shared", [False, True])
def test_every_verb_is_that_of_the_dense_densities(shared):
    with jax.enable_x64(True):
        x, y = rows(d=7)[0], np.arange(N) % K
        family = gcf.Gaussian(shared=shared, structure=gcf.LowRank(2))
        params = gcf.fit(gcf.Classifier(family, K), x, y)
        assert params.conditional.covariance == "low-rank"
        own = np.asarray(params.conditional.covariances)
        dense = gcf.GaussianParams.of(params.conditional.mean, own[0] if shared else own)
        twin = replace(params, conditional=dense)
        holes = jnp.where(jnp.arange(7) % 3 == 1, jnp.nan, jnp.asarray(x[:13]))
        verbs = {
            "log_joint": lambda p: gcf.log_joint(p, x),
            "log_posterior": lambda p: gcf.log_posterior(p, x),
            "quadratic_form": gcf.quadratic_form,
            "condition": lambda p: gcf.condition(p, holes).features,
            "distance": lambda p: gcf.distance(p, x),
            "predict": lambda p: gcf.predict(p, x),
        }
        if shared:
            count = np.bincount(y, minlength=K)
            verbs |= {
                "linear_form": gcf.linear_form,
                "explain": lambda p: gcf.explain(p, x),
                "discriminant_axes": gcf.discriminant_axes,
                "reduced_rank": lambda p: gcf.log_posterior(gcf.reduced_rank(p, 2), x),
                "cat_scores": lambda p: gcf.cat_scores(p, count),
                "patterns": gcf.patterns,
            }
        for name, verb in verbs.items():
            for a, b in zip(*(jax.tree.leaves(verb(p)) for p in (params, twin)), strict=True):
                np.testing.assert_allclose(a, b, 1e-8, 1e-8, err_msg=name)
        drawn = params.conditional.sample(jax.random.key(0), jnp.zeros(20_011, int))
        unit = np.sqrt(np.diag(own[0]))[:, None] * np.sqrt(np.diag(own[0]))
        np.testing.assert_allclose(np.cov(np.asarray(drawn).T) / unit, own[0] / unit, 0, 0.05)


IDENTITY = {"shrinkage": 0.3, "ddof": 1.0}
FITS = {
    "maximum likelihood": ({}, np.float64, N),
    "few rows": ({}, np.float64, 61),
    "identity": (IDENTITY, np.float64, N),
    "single precision": (IDENTITY, np.float32, 61),
    "diagonal": ({"shrinkage": 0.3, "target": "diagonal"}, np.float64, N),
    "ridge": ({"ridge": 0.1}, np.float64, 61),
}


@pytest.mark.slow("few rows", "diagonal", "maximum likelihood", "single precision", "identity")
@pytest.mark.parametrize(("rules", "dtype", "n"), FITS.values(), ids=FITS)
def test_a_fit_class_by_class_is_the_estimate_from_statistics(rules, dtype, n, monkeypatch):
    """Classes have few rows, many, none, and a feature that does not vary."""
    with jax.enable_x64(dtype == np.float64):
        x, y, weight = rows(dtype, n)
        family = gcf.Gaussian(structure=gcf.LowRank(3), **rules)
        w = Hard(jnp.asarray(y), jnp.asarray(weight).at[7].set(0), K)
        fit = lambda x, w: family.fit(x, w)  # noqa: E731
        want = jax.jit(fit)(jnp.asarray(x), w)
        monkeypatch.setattr(low_rank, "_FROM_CELLS", 0)
        assert low_rank.is_by_class(family, x, w)
        found = jax.jit(lambda x, w: family.fit(x, w))(jnp.asarray(x), w)
        assert (found.covariance, found.scale.shape) == ("low-rank", (K, D, 4))
        sd = np.sqrt(np.einsum("kii->ki", want.covariances))
        both = np.asarray(found.covariances - want.covariances) / (sd[:, None] * sd[:, :, None])
        rough = dtype == np.float32
        np.testing.assert_allclose(both, 0, atol=1e-4 if rough else 1e-11)
        np.testing.assert_allclose(found.mean, want.mean, *((1e-5, 1e-5) if rough else (1e-12, 0)))
        of = lambda p: np.asarray(p.log_prob(jnp.asarray(x)))  # noqa: E731
        np.testing.assert_allclose(of(found), of(want), 1e-3 if rough else 1e-10)


def test_its_derivative_is_that_of_the_estimate_from_statistics(monkeypatch):
    with jax.enable_x64(True):
        x, y, weight = rows()
        family = gcf.Gaussian(structure=gcf.LowRank(3), shrinkage=0.1)

        def loss(shrinkage, x, weight):
            w = Hard(jnp.asarray(y), weight, K)
            return replace(family, shrinkage=shrinkage).fit(x, w).log_prob(x[:13]).sum()

        at = 0.1, jnp.asarray(x), jnp.asarray(weight)
        want = jax.jit(jax.grad(loss, (0, 1, 2)))(*at)
        monkeypatch.setattr(low_rank, "_FROM_CELLS", 0)
        found = jax.jit(jax.grad(lambda *at: loss(*at), (0, 1, 2)))(*at)
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, 1e-7, 1e-9)


def test_no_array_of_a_large_fit_has_the_size_of_all_covariances():
    """1,000 classes of 768 features: every array of the program is an eighth of theirs or less."""
    classes, d = 1000, 768
    of = jax.ShapeDtypeStruct
    family = gcf.Gaussian(structure=gcf.LowRank(31), shrinkage=0.1)
    fit = lambda x, y, weight: family.fit(x, Hard(y, weight, classes))  # noqa: E731
    n = 5003
    fitted = jax.make_jaxpr(fit)(
        *map(of, ((n, d), (n,), (n,)), (jnp.float32, jnp.int32, jnp.float32))
    )
    found = max(_sizes(fitted.jaxpr))
    assert classes * d * 31 <= found <= classes * d**2 // 8


def _sizes(jaxpr):
    for eqn in jaxpr.eqns:
        yield from (v.aval.size for v in eqn.outvars)
        for inner in jaxprs_in_params(eqn.params):
            yield from _sizes(inner)


def test_statistics_streams_and_files_have_the_params(tmp_path):
    x, y, _ = rows(np.float32)
    clf = gcf.Classifier(gcf.Gaussian(structure=gcf.LowRank(2), shrinkage=0.1), K - 1)
    params = gcf.fit(clf, x, y)
    gcf.save(tmp_path / "low.safetensors", params)
    again = gcf.load(tmp_path / "low.safetensors")
    assert again.conditional.scale.shape == (K - 1, D, 3)
    np.testing.assert_array_equal(again.conditional.scale, params.conditional.scale)
    broken = replace(params.conditional, scale=-params.conditional.scale)
    with pytest.raises(ValueError, match="scale has a deviation that is not positive"):
        gcf.save(tmp_path / "broken.safetensors", replace(params, conditional=broken))


@pytest.mark.slow("rules0")
@pytest.mark.parametrize("rules", [{}, {"shared": True}, {"ridge": 0.1}])
def test_features_that_do_not_vary_change_no_posterior(rules):
    """They are no directions either, so the variance of the others is the mean without them."""
    with jax.enable_x64(True):
        x, y = rows(d=7)[0], np.arange(N) % K
        x[:, 4] += np.arange(N) % 13
        clf = gcf.Classifier(gcf.Gaussian(structure=gcf.LowRank(2), **rules), K)
        want = gcf.log_posterior(gcf.fit(clf, x, y), x)
        more = np.concatenate([x, np.full((N, 5), 3.0)], 1)
        np.testing.assert_allclose(gcf.log_posterior(gcf.fit(clf, more, y), more), want, 1e-9, 1e-9)
        few = gcf.Classifier(gcf.Gaussian(structure=gcf.LowRank(9), **rules), K)
        assert jnp.isfinite(gcf.log_posterior(gcf.fit(few, more, y), more)).all()
