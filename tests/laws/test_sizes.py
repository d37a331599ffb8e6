"""Any number of rows: below a block, above it, spread over devices, and unknown when compiled."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AbstractMesh, PartitionSpec as P

import genclf as gcf
from genclf.sums import blocks
from tests.registry import BY_NAME, MIXTURES, MODELS, WITH_HOLES, K, assert_close, take

BLOCK = 256
SIZES = 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK
MESH, OVER_ROWS = AbstractMesh((4,), ("rows",)), P("rows")
HIDDEN = [*MIXTURES, *WITH_HOLES]
KERNELS = gcf.Classifier(gcf.KernelDensity(), K)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of the least number of rows, so that few rows fill several."""
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 1)


def structs(model, rows):
    """Shapes of rows, labels and weights."""
    x, y = model.example("float32")
    of = lambda a: jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype)  # noqa: E731
    return jax.tree.map(of, x), of(y), jax.ShapeDtypeStruct((rows,), np.float32)


def pooled(clf, x, y, w):
    return gcf.estimate(clf, gcf.pool(gcf.stats(clf, x, y, w), "rows"))


def scored(clf, x, y, w):
    params = gcf.fit(clf, x, y, w)
    return gcf.log_joint(params, x), gcf.log_posterior(params, x), gcf.predict(params, x)


def by_em(clf, x, y, w):
    found = gcf.em(clf, x, y, weights=w, key=jax.random.key(0), max_steps=3)
    return jax.tree.map(lambda a: a[None], found)


def slopes(clf, x, y, w):
    """A derivative through statistics, estimate and likelihood."""
    log_lik = lambda w: gcf.log_lik(gcf.estimate(clf, s := gcf.stats(clf, x, y, w)), s)  # noqa: E731
    return jax.grad(log_lik)(w)


def trace_on_mesh(function, model, rows, out=OVER_ROWS):
    """The types of a program over a mesh, which JAX checks without compiling it."""
    run = jax.shard_map(
        partial(function, model.classifier), mesh=MESH, in_specs=OVER_ROWS, out_specs=out
    )
    return jax.eval_shape(jax.jit(run), *structs(model, 4 * rows))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_each_device_may_have_any_number_of_rows(model, small_blocks):
    for rows in SIZES:
        expected = jax.eval_shape(partial(gcf.fit, model.classifier), *structs(model, rows))
        assert jax.tree.all(
            jax.tree.map(
                lambda a, b: a.shape == b.shape,
                trace_on_mesh(pooled, model, rows, P()),
                expected,
            )
        )
    *_, label = trace_on_mesh(scored, model, BLOCK + 1)
    assert label.shape == (4 * (BLOCK + 1),)
    (slope,) = jax.tree.leaves(trace_on_mesh(slopes, model, BLOCK + 1))
    assert slope.shape == (4 * (BLOCK + 1),)


@pytest.mark.parametrize("model", HIDDEN, ids=str)
def test_em_of_each_device_may_have_any_number_of_rows(model, small_blocks):
    for rows in (BLOCK - 1, BLOCK + 1):
        found = trace_on_mesh(by_em, model, rows)
        assert found.params.log_prior.shape == (4, K)


@pytest.mark.parametrize("model", [m for m in MODELS if "tokens" not in m.name], ids=str)
def test_blocks_are_those_of_their_parts(model, small_blocks):
    """Statistics and scores around the size of a block, plain and under vmap."""
    clf = model.classifier
    x, y = model.example("float32", SIZES[-1])
    params = gcf.estimate(clf, gcf.stats(clf, take(x, slice(101)), y[:101]))
    for n in SIZES[1:]:
        rows, label = take(x, slice(n)), y[:n]
        cut = n // 2 if n <= BLOCK else BLOCK - 1
        whole = gcf.stats(clf, rows, label)
        parts = [
            gcf.stats(clf, take(rows, at), label[at])
            for at in (slice(cut), *(slice(i, i + BLOCK) for i in range(cut, n, BLOCK)))
        ]
        assert_close(whole, gcf.pool(jax.tree.map(lambda *a: jnp.stack(a), *parts)), 2e-5)
        two = jax.tree.map(lambda a: np.stack([a, a]), (rows, label))
        assert_close(
            take(jax.vmap(partial(gcf.stats, clf))(*two), 1), jax.tree.map(np.asarray, whole), 2e-5
        )
        score = gcf.log_posterior(params, rows)
        np.testing.assert_array_equal(score.argmax(1), gcf.predict(params, rows))
        np.testing.assert_allclose(
            score[-1], gcf.log_posterior(params, take(rows, -1)), rtol=1e-4, atol=1e-4
        )


def exported(function, x):
    """A program for any number of rows."""
    (n,) = export.symbolic_shape("n")
    rows = jax.tree.map(lambda a: jax.ShapeDtypeStruct((n, *a.shape[1:]), a.dtype), x)
    return export.export(jax.jit(function))(rows)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_program_serves_any_number_of_rows(model):
    x, y = model.example("float32")
    params = gcf.fit(model.classifier, x, y)
    for verb in (gcf.log_posterior, gcf.log_joint, gcf.log_marginal):
        assert exported(partial(verb, params), x).out_avals[0].dtype == np.float32
    predict = exported(partial(gcf.predict, params), x)
    assert predict.out_avals[0].ndim == 1


@pytest.mark.parametrize(
    "clf",
    [KERNELS, gcf.SoftmaxRegression(K, l2=0.1), gcf.qda(K), gcf.gaussian_nb(K)],
    ids=["kernels", "softmax", "qda", "naive"],
)
def test_a_served_program_answers_as_predict_does(clf):
    x, y = BY_NAME["gaussian"].example("float32", 2 * BLOCK + 1)
    params = gcf.fit(clf, x, y)
    serve = exported(partial(gcf.log_posterior, params), x).call
    for n in (1, BLOCK - 1, BLOCK + 1, len(x)):
        np.testing.assert_allclose(
            serve(jnp.asarray(x[:n])), gcf.log_posterior(params, x[:n]), rtol=1e-4, atol=1e-4
        )
