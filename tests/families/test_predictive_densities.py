"""Student-t and Dirichlet-multinomial densities beside SciPy and NumPy, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import genclf as gcf
from tests.registry import assert_near

K, V, D = 3, 211, 5
TOLERANCE = {"float32": 2e-6, "float64": 1e-12}  # the differences in NumPy lose digits


def concentration(rng, size=V):
    """Numbers of many magnitudes."""
    return np.exp(rng.uniform(-5, 6, (K, size)))


def words(a, presence=False):
    return gcf.DirichletMultinomialParams(jnp.asarray(a), jnp.ones((), a.dtype), presence)


@jax.jit
def score(params, x):
    return params.log_prob(x)


@jax.jit
def slope(params, x):
    return jax.grad(lambda p: p.log_prob(x).sum())(params).concentration


def by_numpy(a, x):
    """Log-density of each row, and the sum of the sizes of its terms."""
    a, x = np.asarray(a, np.float64), np.asarray(x, np.float64)
    cells = gammaln(a + x[:, None]) - gammaln(a)
    total = gammaln(a.sum(-1) + x.sum(-1)[:, None]) - gammaln(a.sum(-1))
    return cells.sum(-1) - total, np.abs(cells).sum(-1) + np.abs(total) + 1


def rows_of(kind, rng, n=300, v=V):
    rare = rng.poisson(2 / np.arange(1, v + 1), (n, v))
    return {
        "rare": rare,
        "none": 0 * rare,
        "repeated": rng.poisson(3.0, (n, v)),
        "large": rng.poisson(np.where(np.arange(v) % 7 == 0, 1e4, 1.0), (n, v)),
        "all large": rng.integers(1, 10**6, (n, v)),
        "fractional": rng.uniform(0, 3, (n, v)) * (rare > 0),
        "one row": rare[:1],
        "few words": rng.poisson(4.0, (n, 5)),
        "many words": np.tile(rare, (1, 12)) + rng.integers(0, 2, (n, 12 * v)),
    }[kind]


KINDS = ["rare", "none", "repeated", "large", "all large", "fractional", "one row", "few words"]


@pytest.mark.slow("float32-many words", "float64-many words")
@pytest.mark.parametrize("kind", [*KINDS, "many words"])
def test_dirichlet_multinomial_is_that_of_numpy(kind, dtype):
    rng = np.random.default_rng(0)
    x = rows_of(kind, rng)
    a = concentration(rng, x.shape[1]).astype(dtype)
    x = x.astype(dtype)
    expected, size = by_numpy(a, x)
    found = np.asarray(score(words(a), jnp.asarray(x)))
    assert found.dtype == dtype
    np.testing.assert_array_less(np.abs(found - expected) / size, TOLERANCE[dtype.name])


def test_presence_counts_a_word_once():
    rng = np.random.default_rng(1)
    a, x = concentration(rng), rows_of("repeated", rng)
    expected = by_numpy(a, x > 0)[0]
    found = score(words(a.astype("f"), True), jnp.asarray(x))
    assert_near(found, expected, 1e-5)


@pytest.mark.slow(
    but=(
        "float32-150-False",
        "float32-150-True",
        "float32-17-False",
        "float32-17-True",
        "float64-150-False",
        "float64-150-True",
    )
)
@pytest.mark.parametrize("presence", [False, True])
@pytest.mark.parametrize("length", [0, 1, 17, 150])  # short documents and long ones
def test_tokens_score_as_their_counts(length, presence, dtype):
    rng = np.random.default_rng(2)
    params = words(concentration(rng).astype(dtype), presence)
    ids = rng.integers(0, V, (41, length)) // rng.integers(1, 60, (41, length))
    mask = rng.random((41, length)) < 0.8
    ids = np.where(mask, ids, rng.integers(-9, 2 * V, (41, length)))
    if length:
        mask[3] = False
    tokens = gcf.Tokens(jnp.asarray(ids, jnp.int32), jnp.asarray(mask), V)
    counts = tokens.counts()
    tolerance = 20 * TOLERANCE[dtype.name]
    found, expected = score(params, tokens), score(params, counts)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(slope(params, tokens), slope(params, counts), rtol=2e-3, atol=1e-3)


def test_cells_that_are_no_counts_spoil_their_rows_alone():
    x = rows_of("rare", np.random.default_rng(3)).astype("f")
    x[0, 3], x[1, 0], x[2, V - 1] = np.nan, -1, np.inf
    found = np.asarray(score(words(np.ones((K, V), "f")), jnp.asarray(x)))
    assert np.isnan(found[:3]).all() and np.isfinite(found[3:]).all()
    ids = jnp.asarray([[0, V], [0, -1], [0, 0]], jnp.int32)
    tokens = gcf.Tokens(ids, jnp.ones((3, 2), bool), V)
    found = np.asarray(score(words(np.ones((K, V), "f")), tokens))
    assert np.isnan(found[:2]).all() and np.isfinite(found[2]).all()


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", ["rare", "large", "fractional", "one row"])
def test_derivatives_are_finite_differences(kind):
    rng = np.random.default_rng(4)
    x = jnp.asarray(rows_of(kind, rng, n=70, v=29).astype(float))
    a = np.exp(rng.uniform(-1, 3, (K, x.shape[1])))
    weight = rng.normal(size=(len(x), K))
    da, h = a * rng.normal(size=a.shape), 1e-5

    @jax.jit
    def derivatives(a):
        """The sum of scores, its slope, the slope forward, and the second derivative."""
        total = lambda a: (words(a).log_prob(x) * weight).sum()  # noqa: E731
        value, forward = jax.jvp(total, (a,), (da,))
        return value, forward, *jax.jvp(jax.grad(total), (a,), (da,))

    (ahead, _, slope_ahead, _), (behind, _, slope_behind, _) = (
        derivatives(a + s * h * da) for s in (1, -1)
    )
    _, forward, reverse, curved = derivatives(a)
    expected = (ahead - behind) / (2 * h)
    np.testing.assert_allclose(forward, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose((reverse * da).sum(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(curved, (slope_ahead - slope_behind) / (2 * h), rtol=1e-5, atol=1e-4)


@pytest.mark.usefixtures("x64")
def test_derivative_by_counts():
    # A count may be looked up in a table; the slope is that of the gamma function all the same.
    rng = np.random.default_rng(5)
    a, h = np.exp(rng.uniform(-1, 3, (K, 7))), 1e-5
    x = rng.integers(1, 6, (90, 7)).astype(float)
    dx = rng.normal(size=x.shape)
    total = lambda x: words(a).log_prob(x).sum()  # noqa: E731
    expected = (by_numpy(a, x + h * dx)[0].sum() - by_numpy(a, x - h * dx)[0].sum()) / (2 * h)
    found = jax.jit(jax.grad(total))(jnp.asarray(x))
    np.testing.assert_allclose((found * dx).sum(), expected, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rare", "repeated"])
def test_two_models_at_once(kind):
    rng = np.random.default_rng(6)
    x = jnp.asarray(rows_of(kind, rng).astype("f"))
    a = np.stack([concentration(rng), concentration(rng)]).astype("f")
    each = np.stack([score(words(one), x) for one in a])
    of = lambda a, x: score(words(a), x)  # noqa: E731
    assert_near(jax.jit(jax.vmap(of, (0, None)))(a, x), each, 1e-5)
    both = jax.jit(jax.vmap(of))(a, jnp.stack([x, x[::-1]]))
    assert_near(both, np.stack([each[0], each[1, ::-1]]), 1e-5)


def student(rng, covariance, shared, dtype, dof=4.5):
    copies = 1 if shared else K
    scale = {
        "full": np.tril(rng.normal(size=(copies, D, D)), -1) + 2 * np.eye(D),
        "diag": rng.uniform(0.5, 2, (copies, D)),
        "spherical": rng.uniform(0.5, 2, (copies, 1)),
    }[covariance]
    parts = (rng.normal(size=(K, D)), scale, np.full(copies, dof), rng.uniform(1, 2, K))
    arrays = (jnp.asarray(part.astype(dtype)) for part in parts)
    return gcf.StudentTParams(*arrays, covariance, shared)


def student_by_scipy(params, x):
    mean, scale, dof, inflation = (
        np.asarray(a, np.float64) for a in (params.mean, params.scale, params.dof, params.inflation)
    )
    columns = []
    for k in range(K):
        copy = 0 if params.shared else k
        if params.covariance == "diag":
            sd = scale[copy] * np.sqrt(inflation[k])
            columns.append(stats.t.logpdf(x, dof[copy], mean[k], sd).sum(-1))
            continue
        matrix = scale[copy] @ scale[copy].T if scale.ndim == 3 else scale[copy, 0] ** 2 * np.eye(D)
        columns.append(stats.multivariate_t.logpdf(x, mean[k], inflation[k] * matrix, dof[copy]))
    return np.stack(columns, -1)


@pytest.mark.slow("float32-0.5-full-True")
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
@pytest.mark.parametrize("dof", [0.5, 4.5, 1e5])
def test_student_t_is_that_of_scipy(covariance, shared, dof, dtype):
    rng = np.random.default_rng(7)
    params = student(rng, covariance, shared, dtype, dof)
    x = (3 * rng.normal(size=(37, D)) * rng.choice([1, 100], (37, 1))).astype(dtype)
    expected = student_by_scipy(params, np.asarray(x, np.float64))
    tolerance = {"float32": 1e-5, "float64": 1e-10}[dtype.name]
    found = score(params, jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    own = params.discriminant(jnp.asarray(x))
    rounding = 2 * tolerance * np.abs(expected).max()
    np.testing.assert_allclose(own - own[:, :1], found - found[:, :1], rtol=0, atol=rounding)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_derivatives_of_student_t(covariance):
    rng = np.random.default_rng(8)
    params = student(rng, covariance, False, "float64")
    x = jnp.asarray(rng.normal(size=(11, D)))
    total = jax.jit(lambda p: p.log_prob(x).sum())
    change = jax.tree.map(lambda a: a * rng.normal(size=a.shape), params)
    moved = lambda h: total(jax.tree.map(lambda a, da: a + h * da, params, change))  # noqa: E731
    expected = (moved(1e-6) - moved(-1e-6)) / 2e-6
    found = jax.jvp(total, (params,), (change,))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    slopes = jax.tree.map(lambda g, da: (g * da).sum(), jax.grad(total)(params), change)
    np.testing.assert_allclose(sum(jax.tree.leaves(slopes)), expected, rtol=1e-6)
