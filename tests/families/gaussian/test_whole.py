"""The E step of classes that share a covariance, from class sums: it is that from the rows."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

import genclf as gcf
from genclf.classifier.rows import Rows
from genclf.families.gaussian.whole import whole_of_rows
from genclf.fitting import em
from genclf.fitting.e_step import expectation

N, D, K = 1031, 5, 3
RTOL = {"float64": 1e-10, "float32": 2e-5}
PLAIN = gcf.Gaussian(shared=True)
RNG = np.random.default_rng(0)
LABEL = np.arange(N) % K
HALF = np.where(RNG.random(N) < 0.5, LABEL, -1)


def rows(dtype, apart=2.0, offset=0.0):
    """Rows of unit variance in correlated features, whose means differ by about `apart`."""
    rng = np.random.default_rng(1)
    mean = apart * rng.normal(size=(K, D))
    x = rng.normal(size=(N, D)) @ np.linalg.cholesky(np.full((D, D), 0.3) + 0.7 * np.eye(D)).T
    return jnp.asarray((x + mean[LABEL] + offset).astype(dtype))


def steps(x, family=PLAIN, y=HALF, weights=None, unlabelled=1.0):
    """The E step by class sums, if they are precise enough, and by rows."""
    weights = None if weights is None else jnp.asarray(weights)
    by_rows = expectation(
        gcf.Classifier(family, K), Rows.of(x, jnp.asarray(y), weights, K, unlabelled)
    )
    whole = whole_of_rows(family, by_rows.x, by_rows.weight)
    return replace(by_rows, whole=whole), by_rows


def assert_same(found, expected, rtol):
    """The objectives and the statistics; means in units of the standard deviation, 1."""
    (value, stats), (wanted, other) = found, expected
    np.testing.assert_allclose(value, wanted, rtol)
    one, other = stats.conditional, other.conditional
    np.testing.assert_allclose(one.count, other.count, rtol)
    low = lambda s: np.asarray(s.rounding[1], float) if s.rounding else 0  # noqa: E731
    exact = lambda s: np.asarray(s.mean, float) + low(s)  # noqa: E731
    np.testing.assert_allclose(exact(one), exact(other), 0, rtol)
    np.testing.assert_allclose(one.scatter, other.scatter, 0, 10 * rtol * N)


@pytest.fixture(params=RTOL)
def precision(request):
    with jax.enable_x64(request.param == "float64"):
        yield request.param


@pytest.mark.slow(
    "float32-None-0.0",
    "float32-None-10000.0",
    "float32-None-4.0",
    "float32-prior4-2.0",
    "float64-None-0.0",
    "float64-None-10000.0",
    "float64-None-4.0",
    "float64-prior4-2.0",
)
@pytest.mark.parametrize(
    ("prior", "apart"),
    [*((None, apart) for apart in (0.0, 2.0, 4.0, 1e4)), (gcf.NormalInverseWishart(), 2.0)],
)
def test_near_and_far_classes(prior, apart, precision):
    family, x = gcf.Gaussian(shared=True, prior=prior), rows(precision, apart)
    params = gcf.fit(gcf.Classifier(family, K), x, LABEL)
    by_sums, by_rows = steps(x, family)
    assert bool(by_sums.whole.is_precise(params.conditional)) == (apart < 1e3)
    run = jax.jit(lambda step: step.of_rows(params))
    assert_same(run(by_sums), run(by_rows), RTOL[precision])


def given(precision):
    """Other labels, weights and factors; rows without weight hold anything."""
    weights = RNG.integers(0, 3, N).astype(precision)
    soft = RNG.dirichlet(np.ones(K), N).astype(precision)
    return {
        "no labels": {"y": np.full(N, -1)},
        "all labels": {"y": LABEL},
        "weights": {"weights": weights},
        "unlabelled rows weigh less": {"unlabelled": 0.25, "weights": weights},
        "responsibilities": {"y": soft, "weights": weights},
    }


@pytest.mark.slow("float32-no labels", "float64-no labels")
@pytest.mark.parametrize("name", given("float32"))
def test_every_kind_of_label(name, precision):
    x, how = rows(precision), given(precision)[name]
    params = gcf.fit(gcf.lda(K), x, LABEL)
    by_sums, by_rows = steps(x, **how)
    run = jax.jit(lambda step: step.of_rows(params))
    expected = run(by_rows)
    assert_same(run(by_sums), expected, RTOL[precision])
    if "weights" in how:
        bad = jnp.where((how["weights"] == 0)[:, None], jnp.nan, x)
        assert_same(run(steps(bad, **how)[0]), expected, RTOL[precision])


@pytest.mark.slow("float64")
def test_a_common_offset_costs_no_precision(precision):
    x = rows(precision, offset=1e5)
    exact = jnp.asarray(np.asarray(x, float) - 1e5, x.dtype)
    of = {}
    for name, own in (("far", x), ("near", exact)):
        params = gcf.fit(gcf.lda(K), own, LABEL)
        of[name] = jax.jit(lambda step, params=params: step.of_rows(params))(steps(own)[0])
    np.testing.assert_allclose(
        of["far"][1].conditional.scatter, of["near"][1].conditional.scatter, 0, 2e-4 * N
    )


@pytest.mark.slow("float64")
def test_derivatives(precision):
    x, direction = rows(precision), jnp.asarray(RNG.normal(size=(N, D)).astype(precision))
    params = gcf.fit(gcf.lda(K), x, LABEL)

    def change(which):
        of = lambda x: steps(x)[which].of_rows(params)  # noqa: E731
        return jax.jit(lambda: jax.jvp(of, (x,), (direction,))[1])()

    assert_same(change(0), change(1), 20 * RTOL[precision])


@pytest.mark.slow("float64")
def test_members_of_a_batch_of_which_one_is_far(precision):
    x = jnp.stack([rows(precision, apart) for apart in (1.0, 3.0, 1e4)])
    params = jax.vmap(lambda x: gcf.fit(gcf.lda(K), x, LABEL))(x)
    for both in (jnp.arange(3), jnp.arange(2)):
        found, expected = (
            jax.jit(jax.vmap(lambda x, p, which=which: steps(x)[which].of_rows(p)))(
                x[both], jax.tree.map(lambda a, both=both: a[both], params)
            )
            for which in (0, 1)
        )
        for i in range(len(both)):
            one = lambda tree, i=i: jax.tree.map(lambda a: a[i], tree)  # noqa: E731
            assert_same(one(found), one(expected), RTOL[precision])


def test_rows_that_are_not_finite_or_too_large():
    x = rows("float32")
    params = gcf.fit(gcf.lda(K), x, LABEL)
    for bad in (np.nan, np.inf, 1e30):
        by_sums, by_rows = steps(x.at[7, 2].set(bad))
        assert not by_sums.whole.is_precise(params.conditional)
        run = jax.jit(lambda step: step.of_rows(params))
        jax.tree.map(np.testing.assert_array_equal, run(by_sums), run(by_rows))


@pytest.mark.slow("float64")
def test_em_is_that_by_rows(precision, monkeypatch):
    x = rows(precision)
    fitted = gcf.em(gcf.lda(K), x, HALF, key=jax.random.key(0), tol=1e-9)
    monkeypatch.setattr(em, "whole_of_rows", lambda family, x, weight: None)
    other = gcf.em(gcf.lda(K), jnp.array(x), HALF, key=jax.random.key(0), tol=1e-9, max_steps=999)
    tol = RTOL[precision]
    np.testing.assert_allclose(fitted.value, other.value, tol)
    np.testing.assert_allclose(fitted.params.log_prior, other.params.log_prior, 10 * tol)
    one, two = (f.params.conditional for f in (fitted, other))
    np.testing.assert_allclose(one.mean, two.mean, 0, 10 * tol)
    np.testing.assert_allclose(one.scale, two.scale, 0, 10 * tol)


@pytest.mark.slow("2.0")
@pytest.mark.parametrize("apart", [2.0, 4.0])
def test_features_that_are_nearly_equal_stay_so(apart):
    """The covariance of a difference of 1e-4 of the features, from float32 rows."""
    x = np.array(rows("float32", apart))
    x[:, 1] = x[:, 0] + 1e-4 * np.float32(RNG.normal(size=N))
    params = gcf.fit(gcf.lda(K), x, LABEL)
    by_sums, by_rows = steps(jnp.asarray(x))
    r = softmax(np.asarray(gcf.log_joint(params, x), float), 1)
    r = np.where(HALF[:, None] >= 0, np.eye(K)[HALF], r)
    mean = r.T @ x / r.sum(0)[:, None]
    z = x[:, None].astype(float) - mean
    turn = np.eye(D)
    turn[:2, :2] = [[1, -1], [1, 1]]
    want = turn @ np.einsum("nk,nki,nkj->ij", r, z, z) @ turn.T
    sd = np.sqrt(np.diag(want))
    for step in (by_rows, by_sums):
        found = jax.jit(lambda step: step.of_rows(params)[1].conditional)(step)
        scatter = sum(np.asarray(a[0], float) for a in (found.scatter, found.rounding[2]))
        correlation = turn @ scatter @ turn.T / np.outer(sd, sd)
        np.testing.assert_allclose(correlation, want / np.outer(sd, sd), 0, 1e-4)


def test_a_step_after_which_classes_are_far_apart(precision):
    """Params of one wide class score the rows; the next ones are those of two clusters."""
    far = 1e5 if precision == "float32" else 1e8
    x = np.array(rows("float64", 0.0))
    x[:, 0] += far * (LABEL > 0)
    x, y = jnp.asarray(x.astype(precision)), np.full(N, -1)
    params = gcf.fit(gcf.lda(K), x, RNG.integers(0, K, N))
    mean = params.conditional.mean.at[:, 0].set(jnp.asarray([0.2, 0.8, 0.8]) * far)
    params = replace(params, conditional=replace(params.conditional, mean=mean))
    by_sums, by_rows = steps(x, y=y)
    assert by_sums.whole.is_precise(params.conditional)
    run = jax.jit(lambda step: step.of_rows(params))
    (value, stats), (wanted, other) = run(by_sums), run(by_rows)
    np.testing.assert_allclose(value, wanted, 1e-6)
    scatter = (np.diagonal(s.conditional.scatter[0]) for s in (stats, other))
    np.testing.assert_allclose(*scatter, RTOL[precision])


@pytest.mark.slow("0.5")
@pytest.mark.parametrize("apart", [0.5, 2.0])
def test_the_objective_of_correlated_features_in_float32(apart):
    """Of powers of one number: in float32 and in float64, by the same steps."""
    time = RNG.uniform(0, 10, N) + apart * LABEL
    x = np.stack([time**i for i in (1, 2, 3)], 1) + 0.1 * RNG.normal(size=(N, 3))
    x = x.astype(np.float32)
    found = {}
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            init = gcf.fit(gcf.lda(K), jnp.asarray(x.astype(dtype)), LABEL)
            run = gcf.em(gcf.lda(K), x.astype(dtype), HALF, init=init, tol=-1.0, max_steps=7)
            found[dtype] = np.asarray(run.objective, np.float64) / N
    np.testing.assert_allclose(found["float32"], found["float64"], 0, 2e-5)
