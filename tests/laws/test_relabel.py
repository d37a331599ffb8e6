"""`relabel` gives the statistics of relabelled rows, for every model and every map."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.sums.statistics import is_statistic
from tests.registry import FAMILIES, FITTED, MODELS, K, N, assert_close, assert_same, take

every_model = pytest.mark.parametrize("model", MODELS, ids=str)
each_family = pytest.mark.parametrize("model", FAMILIES, ids=str)
MAPS = [([2, 0, 1], 3), ([0, 0, 1], 2), ([1, 0, 1], 5), ([0, 0, 0], 1), ([4, 1, 2], 7)]


def statistics(model, dtype="float64", rows=slice(None), to=None, num_classes=K):
    x, y = model.example(dtype)
    y = y if to is None else np.asarray(to)[y]
    clf = replace(model.classifier, num_classes=num_classes)
    return gcf.stats(clf, take(x, rows), y[rows])


def is_pooled(stats):
    nodes = jax.tree.leaves(stats, is_leaf=is_statistic)
    return any(isinstance(s, gcf.Moments) and s.is_pooled for s in nodes)


@pytest.mark.slow("categorical-unequal", "gaussian-shared", "product")
@every_model
@pytest.mark.usefixtures("x64")
def test_statistics_are_those_of_relabelled_rows(model):
    stats = statistics(model)
    for to, num in MAPS:
        expected = statistics(model, to=to, num_classes=num)
        assert_close(gcf.relabel(stats, to, num), expected, 1e-12)
    on_host = jax.tree.map(np.asarray, stats)
    found = gcf.relabel(on_host, [0, 0, 1])
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(found))
    assert_close(found, statistics(model, to=[0, 0, 1], num_classes=2), 1e-12)


@pytest.mark.slow("product")
@each_family
def test_float32_keeps_its_digits(model):
    expected = statistics(model, "float32", to=[0, 0, 1], num_classes=2)
    found = gcf.relabel(statistics(model, "float32"), [0, 0, 1])
    assert_close(whole(found), whole(expected), 2e-7)


def whole(stats):
    """The sums with their low parts, in float64."""

    def one(s):
        high = [
            getattr(s, name) for name in vars(s) if name in ("count", "total", "mean", "scatter")
        ]
        return [np.float64(a) + np.float64(b) for a, b in zip(high, s.rounding, strict=True)]

    return jax.tree.map(one, (stats.labels, stats.conditional), is_leaf=is_statistic)


@pytest.mark.slow("product")
@each_family
@pytest.mark.usefixtures("x64")
def test_it_commutes_with_merge_and_is_associative(model):
    parts = [statistics(model, rows=rows) for rows in (slice(0, 37), slice(37, N))]
    relabelled = [gcf.relabel(part, [1, 0, 1]) for part in parts]
    whole = gcf.merge(*parts)
    assert_close(gcf.relabel(whole, [1, 0, 1]), gcf.merge(*relabelled), 1e-12)
    in_steps = gcf.relabel(gcf.relabel(whole, [0, 2, 1], 3), [1, 0, 0])
    assert_close(in_steps, gcf.relabel(whole, [1, 0, 0]), 1e-12)


@each_family
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_inverse_permutation_undoes_to_the_bit(model, dtype, request):
    if dtype == "float64":
        request.getfixturevalue("x64")
    stats = statistics(model, dtype)
    assert_same(gcf.relabel(gcf.relabel(stats, [2, 0, 1]), [1, 2, 0]), stats)


@every_model
@pytest.mark.usefixtures("x64")
def test_a_class_is_left_out(model):
    stats = statistics(model)
    if is_pooled(stats):
        with pytest.raises(ValueError, match=r"to\[1\] is -1, but the classes have one pooled"):
            gcf.relabel(stats, [0, -1, 1])
        return
    found = gcf.relabel(stats, [0, -1, 1])
    assert_close(found, statistics(model, to=[0, -1, 1], num_classes=2), 1e-12)


@pytest.mark.slow("product")
@each_family
@pytest.mark.usefixtures("x64")
def test_a_traced_map_and_batches(model):
    stats, maps = statistics(model), jnp.array([[0, 0, 1], [2, 1, 0], [0, 3, 1]])
    found = jax.jit(jax.vmap(lambda to: gcf.relabel(stats, to, 3)))(maps)
    for i, to in enumerate(maps[:2]):
        expected = gcf.relabel(stats, np.asarray(to), 3)
        assert_close(jax.tree.map(lambda a: a[i], found), expected, 1e-12)  # noqa: B023
    assert all(np.isnan(leaf[2]).all() for leaf in jax.tree.leaves(found))
    batch = jax.tree.map(lambda a: jnp.stack([a, 0 * a]), stats)
    assert_close(
        jax.tree.map(lambda a: a[0], gcf.relabel(batch, [1, 0, 1])),
        gcf.relabel(stats, [1, 0, 1]),
        1e-12,
    )


@pytest.mark.usefixtures("x64")
def test_a_pooled_class_that_is_left_out_under_jit_is_nan():
    (model,) = [m for m in MODELS if m.name == "gaussian-shared"]
    found = jax.jit(lambda s: gcf.relabel(s, [0, -1, 1]))(statistics(model))
    assert np.isnan(found.conditional.scatter).all()


@pytest.mark.slow("independent-kernel", "kernel", "product")
@pytest.mark.parametrize("model", FITTED, ids=str)
@pytest.mark.usefixtures("x64")
def test_params_are_reordered_and_left_out(model):
    x, y = model.example("float64")
    params = gcf.fit(model.classifier, x, y)
    posterior = np.exp(gcf.log_posterior(params, x))
    turned = np.exp(gcf.log_posterior(gcf.relabel(params, [2, 0, 1]), x))
    np.testing.assert_allclose(turned, posterior[:, [1, 2, 0]], atol=1e-9)
    kept = gcf.relabel(params, [1, -1, 0])
    np.testing.assert_allclose(np.exp(kept.log_prior).sum(), 1, atol=1e-12)
    assert kept.batch_shape == () and kept.num_classes == 2
    np.testing.assert_allclose(
        gcf.log_joint(kept, x) - gcf.log_joint(params, x)[:, [2, 0]],
        -np.log(np.exp(params.log_prior[jnp.array([0, 2])]).sum()),
        atol=1e-8,
    )


def test_maps_and_priors_that_cannot_be_are_named():
    (model,) = [m for m in MODELS if m.name == "gaussian-diag"]
    stats, clf = statistics(model, "float32"), model.classifier
    x, y = model.example("float32")
    params = gcf.with_prior(gcf.fit(clf, x, y), jnp.array([0, 0.5, 0.5]))
    of_class = replace(clf, family=gcf.Gaussian(prior=gcf.NormalInverseWishart(np.zeros((K, 5)))))
    never = replace(clf, class_prior=np.array([0.0, 0, 1]))
    for call, message in [
        (lambda: gcf.relabel(stats, [0, 1]), "to is .*, expected 3 whole numbers"),
        (lambda: gcf.relabel(stats, np.array([0.0, 1, 1])), "expected 3 whole numbers"),
        (lambda: gcf.relabel(stats, [0, 5, 1], 3), r"to\[1\] is 5, expected a class in 0..2"),
        (lambda: gcf.relabel(stats, [-1, -1, -1]), "to leaves out every class"),
        (lambda: gcf.relabel(stats, [0, 1, 1], 0), "num_classes is 0"),
        (lambda: gcf.relabel(stats, np.ma.array([0, 1, 1], mask=[0, 0, 1])), "mask"),
        (lambda: jax.jit(lambda t: gcf.relabel(stats, t, -1))(jnp.arange(3)), "num_classes is -1"),
        (lambda: gcf.relabel(params, [0, 0, 1]), "to merges classes"),
        (lambda: gcf.relabel(params, [0, -1, 2]), "gives the new class 1 no old one"),
        (lambda: gcf.relabel(params, [0, -1, -1]), "every class that has a probability above 0"),
        (lambda: gcf.relabel(of_class, [2, 0, 1]), "mean of NormalInverseWishart has numbers for"),
        (lambda: gcf.relabel(never, [0, 1, -1]), "every class that has a probability above 0"),
        (lambda: gcf.relabel(never, [0, 1, 2], 4), "some new class has none"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    assert gcf.relabel(stats, np.array([0, 1, 1], np.uint8)).count.shape == (2,)
    prior = gcf.relabel(replace(clf, class_prior=np.array([0.2, 0.3, 0.5])), [0, -1, 0]).class_prior
    np.testing.assert_allclose(prior, [1.0], rtol=1e-6)
    dirichlet = replace(clf, class_prior=gcf.Dirichlet(np.array([1.0, 2.0, 4.0])))
    found = gcf.relabel(dirichlet, [1, 0, 1]).class_prior.concentration
    np.testing.assert_allclose(found, [2.0, 5.0])


def test_numpy_keeps_the_low_parts_of_float32():
    x = (np.random.default_rng(0).normal(size=(500, 1)) * 0.01 + 1e4).astype(np.float32)
    stats = gcf.stats(gcf.gaussian_nb(2), x, np.arange(500) % 2)
    found = gcf.relabel(jax.tree.map(np.asarray, stats), [0, 0]).conditional
    exact = x.astype(float)
    scatter = found.scatter.astype(float) + found.rounding[2]
    np.testing.assert_allclose(scatter[0, 0], ((exact - exact.mean()) ** 2).sum(), rtol=1e-7)
    mean = found.mean.astype(float) + found.rounding[1]
    np.testing.assert_allclose(mean[0, 0], exact.mean(), rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_calibrated_params_are_reordered_and_left_out():
    (model,) = [m for m in MODELS if m.name == "gaussian-diag"]
    x, y = model.example("float64")
    params = gcf.fit(model.classifier, x, y)
    found = gcf.recalibrate(gcf.log_posterior(params, x), y)
    params = gcf.with_calibration(params, found)
    posterior = np.exp(gcf.log_posterior(params, x))
    turned = np.exp(gcf.log_posterior(gcf.relabel(params, [2, 0, 1]), x))
    np.testing.assert_allclose(turned, posterior[:, [1, 2, 0]], atol=1e-12)
    kept = gcf.relabel(params, [1, -1, 0])
    of_two = posterior[:, [2, 0]] / posterior[:, [2, 0]].sum(1, keepdims=True)
    np.testing.assert_allclose(np.exp(gcf.log_posterior(kept, x)), of_two, atol=1e-12)
    np.testing.assert_allclose(np.exp(kept.log_prior).sum(), 1)
    np.testing.assert_allclose(
        np.exp(gcf.log_posterior(gcf.with_prior(kept, kept.log_prior * 0 + 0.5), x)).sum(1), 1
    )
