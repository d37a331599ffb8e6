"""`solve_constrained` on problems whose solutions are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.slow
def test_entropy_under_a_mean_is_exponential():
    # Jaynes' die: faces 1..6 with mean 4.5 have p ∝ exp(λ face).
    face = jnp.arange(1.0, 7.0)
    found = gcf.solve_constrained(
        lambda p: -(p * jnp.log(p)).sum(),
        lambda p: {"sum": p.sum() - 1, "mean": (p * face).sum() - 4.5},
        jnp.ones(6) / 6,
        lower=jnp.zeros(6),
    )
    assert found.converged
    slope = np.diff(np.log(found.params))
    np.testing.assert_allclose(slope, -found.multipliers["mean"], rtol=1e-9)
    np.testing.assert_allclose(found.params @ face, 4.5)
    np.testing.assert_allclose(np.exp(slope), 1.449254, rtol=1e-6)  # Jaynes (1978)


def test_projection_on_a_simplex():
    v = jnp.array([0.9, 0.6, -0.4, 0.1, 0.55])
    found = gcf.solve_constrained(
        lambda p: -0.5 * ((p - v) ** 2).sum(),
        lambda p: p.sum() - 1,
        jnp.ones(5) / 5,
        lower=jnp.zeros(5),
        block_size=1,
    )
    assert found.converged
    shift = (0.9 + 0.6 + 0.55 - 1) / 3  # Held, Wolfe & Crowder: subtract, and cut at 0
    np.testing.assert_allclose(found.params, np.maximum(v - shift, 0), atol=1e-9)
    np.testing.assert_allclose(found.multipliers, shift, rtol=1e-9)
    np.testing.assert_allclose(found.lower_multipliers, np.maximum(shift - v, 0), atol=1e-9)


def test_a_box_with_both_kinds_of_bounds():
    target = jnp.array([-3.0, 0.25, 7.0])
    found = gcf.solve_constrained(
        lambda t: -((t - target) ** 2).sum(),
        None,
        jnp.array([0.5, 0.5, 0.5]),
        lower=jnp.zeros(3),
        upper=jnp.ones(3),
    )
    assert found.converged
    np.testing.assert_allclose(found.params, [0, 0.25, 1], atol=1e-12)
    np.testing.assert_allclose(found.lower_multipliers, [6, 0, 0], atol=1e-9)
    np.testing.assert_allclose(found.upper_multipliers, [0, 0, 12], atol=1e-9)
    assert found.multipliers is None


def test_a_nonlinear_constraint_and_a_pytree():
    found = gcf.solve_constrained(
        lambda t: t["a"] + 2 * t["b"],
        lambda t: t["a"] ** 2 + t["b"] ** 2 - 1,
        {"a": jnp.array(0.6), "b": jnp.array(0.8)},
    )
    assert found.converged
    np.testing.assert_allclose([found.params["a"], found.params["b"]], np.array([1, 2]) / 5**0.5)
    np.testing.assert_allclose(found.multipliers, 5**0.5 / 2)


@pytest.mark.slow
def test_what_has_no_solution_does_not_converge():
    infeasible = gcf.solve_constrained(
        lambda t: -(t**2).sum(), lambda t: jnp.stack([t[0] - 1, t[0] - 2]), jnp.zeros(2)
    )
    assert not infeasible.converged
    unbounded = gcf.solve_constrained(lambda t: t.sum(), None, jnp.zeros(2))
    assert not unbounded.converged
    at_infinity = gcf.solve_constrained(lambda t: jnp.log(t).sum(), None, jnp.ones(2))
    assert not at_infinity.converged
    start = jnp.array([0.3, 0.4])
    saddle = gcf.solve_constrained(lambda t: t[0] ** 2 - t[1] ** 2, None, start)
    assert not saddle.converged
    least = gcf.solve_constrained(lambda t: (t**2).sum(), lambda t: t.sum() - 1, start)
    assert not least.converged
    undefined = gcf.solve_constrained(lambda t: jnp.log(-t).sum(), None, start)
    assert not undefined.converged


@pytest.mark.slow
def test_many_problems_at_once():
    counts = jax.random.poisson(jax.random.key(0), 2.0, (41, 7)).astype(float)

    @jax.jit
    @jax.vmap
    def solve(c):
        def log_lik(p):
            return jnp.where(c == 0, 0, c * jnp.log(jnp.where(c == 0, 1, p))).sum()

        start, none = jnp.ones(7) / 7, jnp.zeros(7)
        return gcf.solve_constrained(
            log_lik, lambda p: p.sum() - 1, start, lower=none, block_size=1
        )

    found = solve(counts)
    assert found.converged.all()
    total = counts.sum(1, keepdims=True)
    np.testing.assert_allclose(found.params, counts / total, atol=1e-12)
    np.testing.assert_allclose(found.multipliers, total[:, 0], rtol=1e-10)


def test_errors():
    with pytest.raises(ValueError, match="block_size is 3"):
        gcf.solve_constrained(lambda t: -(t**2).sum(), None, jnp.zeros(7), block_size=3)
    with pytest.raises(ValueError, match="block_size"):
        gcf.solve_constrained(lambda t: -(t**2).sum(), None, jnp.zeros(5000))
    with pytest.raises(ValueError, match="lower bounds"):
        gcf.solve_constrained(lambda t: -(t**2).sum(), None, jnp.zeros(3), lower=jnp.zeros(3))
    with pytest.raises(ValueError, match="int64"):
        gcf.solve_constrained(lambda t: -(t**2).sum(), None, jnp.arange(3))


@pytest.mark.slow(
    "prior-diag-4",
    "prior-full-4",
    "likelihood-diag-4",
    "likelihood-full-4",
    "prior-diag-61",
    "prior-full-61",
)
@pytest.mark.parametrize("n", [4, 61])
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
@pytest.mark.parametrize("name", ["likelihood", "ridge", "prior"])
def test_a_class_without_rows_has_the_covariance_of_the_others(name, covariance, n):
    how = {"ridge": {"ridge": 0.3}, "prior": {"prior": gcf.NormalInverseWishart()}}.get(name, {})
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, 2)), np.arange(n) % 2
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=True, **how), 3)
    found, expected = gcf.fit_lagrange(clf, x, y), gcf.fit(clf, x, y)
    assert found.converged
    one, two = found.params.conditional, expected.conditional
    np.testing.assert_allclose(one.covariances[0], two.covariances[0], 1e-9, 1e-9)
    np.testing.assert_allclose(one.mean[:2], two.mean[:2], 1e-9, 1e-9)
    if not how:
        np.testing.assert_allclose(found.multipliers["scale"][-1], 0, atol=1e-6 * n)
