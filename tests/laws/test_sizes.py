"""Any number of rows: below a block, above it, spread over devices, and unknown when compiled."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P

import genclf as gcf
from genclf.numerics import row_blocks
from tests.registry import (
    BY_NAME,
    MIXTURES,
    MODELS,
    WITH_HOLES,
    K,
    N,
    assert_close,
    fit_and_score,
    take,
)

BLOCK = 256
SIZES = 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK
MESH = AbstractMesh((4,), ("rows",), axis_types=(AxisType.Auto,))
OVER_ROWS = P("rows")
HIDDEN = [*MIXTURES, *WITH_HOLES]
KERNELS = gcf.Classifier(gcf.KernelDensity(), K)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of the least number of rows, so that few rows fill several."""
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES", 1)


def structs(model, rows):
    """Shapes of rows, labels and weights."""
    x, y = model.example("float32")
    of = lambda a: jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype)  # noqa: E731
    return jax.tree.map(of, x), of(y), jax.ShapeDtypeStruct((rows,), np.float32)


def pooled(clf, x, y, w):
    return gcf.estimate(clf, gcf.pool(gcf.stats(clf, x, y, w), "rows"))


def scored(*args):
    return fit_and_score(*args)[1]


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


@pytest.mark.slow("categorical-unequal", "gaussian-diag", "gaussian-shared", "product")
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


@pytest.mark.slow("gaussian-shared-holes")
@pytest.mark.parametrize("model", HIDDEN, ids=str)
def test_em_of_each_device_may_have_any_number_of_rows(model, small_blocks):
    for rows in (BLOCK - 1, BLOCK + 1):
        found = trace_on_mesh(by_em, model, rows)
        assert found.params.log_prior.shape == (4, K)


@pytest.mark.slow("categorical-unequal", "gaussian-diag", "gaussian-shared", "product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_blocks_are_those_of_their_parts(model, small_blocks, x64):
    """Sums and scores of several blocks are those of parts below a block, under vmap."""
    clf = model.classifier
    x, y = model.example("float64", SIZES[-1])
    params = gcf.fit(clf, take(x, slice(N)), y[:N])
    for n in SIZES[1:]:
        rows, label = take(x, slice(n)), y[:n]
        places = np.arange(-(-n // N) * N).reshape(-1, N)  # the last part is padded
        parts = take((rows, label), np.minimum(places, n - 1))
        weight = (places < n).astype(float)
        each = jax.vmap(partial(gcf.stats, clf))(*parts, weight)
        assert_close(gcf.stats(clf, rows, label), gcf.pool(each), 1e-11)
    score = gcf.log_posterior(params, rows)
    each = jax.vmap(partial(gcf.log_posterior, params))(parts[0])
    np.testing.assert_allclose(score, np.concatenate(each)[:n], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(score.argmax(1), gcf.predict(params, rows))


def exported(function, *args):
    """A program for any number of rows."""
    (n,) = export.symbolic_shape("n")
    rows = jax.tree.map(lambda a: jax.ShapeDtypeStruct((n, *a.shape[1:]), a.dtype), args)
    return export.export(jax.jit(function))(*rows)


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_program_serves_any_number_of_rows(model):
    x, y = model.example("float32")
    params = gcf.fit(model.classifier, x, y)
    for verb in (gcf.log_posterior, gcf.log_joint, gcf.log_marginal):
        assert exported(partial(verb, params), x).out_avals[0].dtype == np.float32
    predict = exported(partial(gcf.predict, params), x)
    assert predict.out_avals[0].ndim == 1


@pytest.mark.slow("kernels", "qda", "softmax")
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


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", [*MODELS, *HIDDEN], ids=str)
def test_a_program_learns_from_any_number_of_rows(model):
    x, y = model.example("float32")
    learn = partial(gcf.fit, model.classifier)
    expected = jax.tree.leaves(jax.eval_shape(learn, x, y))
    found = exported(learn, x, y).out_avals
    assert [(a.shape, a.dtype) for a in found] == [(a.shape, a.dtype) for a in expected]


def learned_and_scored(clf, x, y, query):
    return gcf.log_posterior(gcf.fit(clf, x, y), query)


@pytest.mark.slow("softmax", "kernels", "lda", "qda")
@pytest.mark.parametrize(
    "clf",
    [KERNELS, gcf.SoftmaxRegression(K, l2=0.1), gcf.qda(K), gcf.lda(K), gcf.gaussian_nb(K)],
    ids=["kernels", "softmax", "qda", "lda", "naive"],
)
def test_a_program_that_learns_finds_what_fit_does(clf, x64):
    """Kernels keep the rows, so that their number is seen in the parameters too."""
    x, y = BY_NAME["gaussian"].example("float64", 9 * BLOCK + 1)
    query = jnp.asarray(x[:7])
    learn = exported(lambda x, y: learned_and_scored(clf, x, y, query), x, y).call
    for n in (N, len(x)):
        expected = learned_and_scored(clf, x[:n], y[:n], query)
        found = learn(jnp.asarray(x[:n]), jnp.asarray(y[:n]))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
