"""Programs without the branches that data seldom need: same results, at every kind of call."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.arguments.sharding import compiled
from genclf.classifier import estimation
from genclf.numerics import loops
from genclf.numerics.double import in_double


def program(where):
    """A compiled function with an unlikely branch, for negative numbers, in some place."""

    def one(a):
        below = a < 0
        return loops.unlikely(below.any(), lambda: jnp.where(below, -2 * a, a), lambda: a)

    wide = in_double(lambda a: one(a.astype(jnp.float64)).astype(jnp.float32))
    of = {
        "at the top": one,
        "in a scan": lambda a: loops.scan(lambda c, b: (c, one(b)), 0.0, a)[1],
        "in a loop in a scan": lambda a: loops.scan(
            lambda c, b: (loops.scan(lambda c, e: (c + one(e), None), c, b)[0], c), 0.0, a
        )[0],
        "in members": lambda a: loops.vmap(one)(a),
        "in members of members": lambda a: loops.vmap(loops.vmap(one))(a[None])[0],
        "in float64, in members": lambda a: loops.vmap(wide)(a),
        "in batches": lambda a: loops.mapped(one, a.T, batch_size=2).T,
        "in a while loop": lambda a: loops.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + one(c[1] - a)), (0, 2 * a)
        )[1],
        "in a gradient": loops.grad(lambda a: (one(a) ** 2).sum()),
        "in a linear function": lambda a: loops.linearize(one, a)[1](a),
        "in a gradient of a gradient": loops.grad(
            lambda a: loops.grad(lambda a: (one(a) ** 3).sum())(a).sum()
        ),
        "in a branch": lambda a: loops.cond(a.sum() > 10, lambda: one(a), lambda: one(3 * a)),
        "in float64": wide,
        "in another program": compiled(one),
        "nowhere": lambda a: 2 * a,
    }[where]
    return compiled(lambda a: of(a) + 1)


PLACES = (
    "at the top",
    "in a scan",
    "in a loop in a scan",
    "in members",
    "in members of members",
    "in float64, in members",
    "in batches",
    "in a while loop",
    "in a gradient",
    "in a linear function",
    "in a gradient of a gradient",
    "in a branch",
    "in float64",
    "in another program",
    "nowhere",
)


@pytest.mark.parametrize("where", PLACES)
def test_a_branch_is_compiled_when_data_need_it(where):
    f = program(where)
    usual = jnp.arange(1.0, 7).reshape(2, 3)
    unusual = usual.at[1, 2].set(-5.0)
    for x in (usual, usual / 2):
        np.testing.assert_allclose(f(x), jax.jit(f)(x))
    assert f._cache_size() == 1
    np.testing.assert_allclose(f(unusual), jax.jit(f)(unusual))
    np.testing.assert_allclose(f(usual), jax.jit(f)(usual))
    assert f._cache_size() == (1 if where == "nowhere" else 2)


def test_calls_like_one_that_needed_a_branch_run_the_whole_program_alone():
    runs = []

    def one(a):
        jax.debug.callback(lambda: runs.append("any"))
        return loops.unlikely(a.sum() < 0, lambda: -a, lambda: a)

    f, x = compiled(one), jnp.arange(1.0, 7)
    for rows, expected in ((x, 1), (-x, 2), (-x, 1), (x, 1), (x[:5], 1), (-x[:5], 2), (x[:5], 1)):
        runs.clear()
        np.testing.assert_allclose(f(rows), jnp.abs(rows))
        jax.effects_barrier()
        assert len(runs) == expected


@pytest.mark.parametrize("where", PLACES)
def test_traced_calls_have_all_branches(where):
    f = program(where)
    x = jnp.arange(1.0, 7).reshape(2, 3)
    both = jnp.stack([x, x.at[1, 2].set(-5.0)])
    each = jnp.stack([f(a) for a in both])
    np.testing.assert_allclose(jax.vmap(f)(both), each)
    np.testing.assert_allclose(jax.lax.map(f, both), each)
    closed = jax.jit(lambda: f(both[1]))  # all arguments are known, and still in traced code
    np.testing.assert_allclose(closed(), each[1])
    if "float64" not in where:  # functions that are computed there have rules for derivatives
        assert np.isfinite(jax.jacfwd(f)(both[1])).all()


def test_threads_do_not_share_what_is_left_out():
    f, g = program("at the top"), program("in a scan")
    x = -jnp.arange(1.0, 7).reshape(2, 3)
    found = {}
    run = lambda name, h: found.update({name: h(x)})  # noqa: E731
    threads = [threading.Thread(target=run, args=of) for of in (("f", f), ("g", g)) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(found["f"], jax.jit(f)(x))
    np.testing.assert_allclose(found["g"], jax.jit(g)(x))


@pytest.mark.slow("lda", "qda")
@pytest.mark.parametrize("preset", [gcf.lda, gcf.qda, gcf.gaussian_nb])
def test_a_fit_to_usual_rows_is_one_program(preset):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(61, 5)).astype(np.float32)
    y = np.arange(61) % 3
    before = estimation._fit_closed._cache_size()
    whole = jax.jit(lambda x, y: gcf.fit(preset(3), x, y))
    params = gcf.fit(preset(3), x, y)
    assert estimation._fit_closed._cache_size() == before + 1
    of_one = np.repeat(x[:, :1], 5, 1)
    for rows in (x, of_one, np.where(np.arange(5) == 2, np.float32(1e30), x), x * np.nan):
        params, expected = gcf.fit(preset(3), rows, y), whole(rows, y)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), params, expected)
        found, again = gcf.predict(params, rows), jax.jit(gcf.predict)(expected, rows)
        np.testing.assert_array_equal(found, again)
