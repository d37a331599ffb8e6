"""Products, columns and mixtures do with each part what the part does alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.registry import K, assert_close

N = 31
HOLES = {"missing": "marginalize"}
PARTS = {
    "flag": gcf.Bernoulli(alpha=0.5, **HOLES),
    "kind": gcf.Categorical([3, 2], alpha=1.5, **HOLES),
    "size": gcf.Gaussian("diag", prior=gcf.NormalInverseWishart(), **HOLES),
}
PRODUCT = gcf.Classifier(gcf.Product(PARTS), K)


def rows():
    """Examples of each part, with missing cells, and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(N, dtype=np.int32) % K
    flag, kind = rng.integers(0, 2, (N, 3)), rng.integers(0, 3, (N, 2)) % [3, 2]
    size = rng.normal(size=(N, 2)) + y[:, None]
    flag[rng.random((N, 3)) < 0.2], kind[rng.random((N, 2)) < 0.2] = -1, -1
    size[rng.random((N, 2)) < 0.2] = np.nan
    return {name: jnp.asarray(a) for name, a in (("flag", flag), ("kind", kind), ("size", size))}, y


def alone(name, x, y):
    return gcf.fit(gcf.Classifier(PARTS[name], K), x[name], y).conditional


def test_a_product_is_its_parts(x64):
    x, y = rows()
    y = jnp.asarray(y)
    found, r = gcf.fit(PRODUCT, x, y).conditional, jax.nn.one_hot(y, K)
    keys = found.split_key(jax.random.key(1), found.inside)
    expected, drawn = found.condition(x, r), found.sample_missing(jax.random.key(1), x, y)
    missing = {"size": jnp.isnan(x["size"])} | {name: x[name] == -1 for name in ("flag", "kind")}
    for name in PARTS:
        part = alone(name, x, y)
        assert_close(found.inside[name], part, 1e-12)
        assert_close(expected[name], part.condition(x[name], r), 1e-12)
        np.testing.assert_array_equal(drawn[name], part.sample_missing(keys[name], x[name], y))
        hole = missing[name]
        np.testing.assert_array_equal(jnp.where(hole, 0, drawn[name]), jnp.where(hole, 0, x[name]))
        assert np.asarray(part.support.valid(drawn[name])).all() and hole.any()
    assert (drawn["kind"] >= 0).all() and (np.asarray(drawn["kind"]) < [3, 2]).all()


def test_what_a_product_asks_of_its_parts(x64):
    x, y = rows()
    family, stats = PRODUCT.family, gcf.stats(PRODUCT, x, y).conditional
    start, pseudo = family.start(stats), family.prior_stats(stats)
    told = gcf.diagnose(PRODUCT, x, y).conditional
    params = gcf.fit(PRODUCT, x, y).conditional
    density = 0.0
    for name, part in PARTS.items():
        clf = gcf.Classifier(part, K)
        assert_close(start.inside[name], part.start(stats[name]), 1e-12)
        assert_close(pseudo[name], part.prior_stats(stats[name]), 1e-12)
        leaves = zip(
            jax.tree.leaves(told[name]),
            jax.tree.leaves(gcf.diagnose(clf, x[name], y).conditional),
            strict=True,
        )
        for a, b in leaves:
            np.testing.assert_allclose(a, b)
        density += part.log_prior_density(params.inside[name], stats[name])
    np.testing.assert_allclose(family.log_prior_density(params, stats), density)
    assert family.heuristics() == [] and family.plain().parts["flag"].alpha == 0


@pytest.mark.slow("False")
@pytest.mark.parametrize("shared", [False, True])
def test_independent_columns_are_univariate_models(shared, x64):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, 3)) * [1, 2, 3], np.arange(N) % K
    family = gcf.Gaussian(shared=shared)
    clf = gcf.Classifier(gcf.Independent(family), K)
    found, stats = gcf.fit(clf, x, y).conditional, gcf.stats(clf, x, y).conditional
    start = clf.family.start(stats)
    assert clf.family.heuristics() == family.heuristics()
    assert clf.family.plain() == gcf.Independent(family.plain())
    coef = found.linear() if shared else None
    for j in range(3):
        own = gcf.fit(gcf.Classifier(family, K), x[:, [j]], y).conditional
        column = jax.tree.map(lambda a, j=j: a[j], found.inside)
        assert_close(column, own, 1e-12)
        first = jax.tree.map(lambda a, j=j: a[j], start.inside)
        own_stats = gcf.stats(gcf.Classifier(family, K), x[:, [j]], y).conditional
        assert_close(first, family.start(own_stats), 1e-12)
        if shared:
            np.testing.assert_allclose(coef[0][:, j], own.linear()[0][:, 0], rtol=1e-9)
    if shared:
        every = [gcf.fit(gcf.Classifier(family, K), x[:, [j]], y).conditional for j in range(3)]
        np.testing.assert_allclose(coef[1], sum(own.linear()[1] for own in every), rtol=1e-9)


def test_a_mixture_asks_its_components():
    family = gcf.Mixture(gcf.Categorical([3, 2], alpha=1.5), 2, alpha=2.0)
    assert family.plain().alpha == 0 and family.plain().family.alpha == 0
    assert family.heuristics() == []
    ridge = gcf.Gaussian(ridge=0.5)
    assert gcf.Mixture(ridge, 2).heuristics() == ridge.heuristics() != []
    weights = jnp.log(jnp.array([[0.3, 0.7], [0.5, 0.5]]))
    inner = gcf.GaussianParams(jnp.ones((4, 2)), jnp.ones((4, 2)), "diag", shared=False)
    open_ = gcf.MixtureParams(weights, inner).marginalized()
    assert open_.components.missing == "marginalize" and inner.missing == "error"
    one = open_.log_prob(jnp.array([[jnp.nan, 1.0]]))
    np.testing.assert_allclose(one, np.full((1, 2), -0.5 * np.log(2 * np.pi)), rtol=1e-6)
