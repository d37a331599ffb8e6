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
