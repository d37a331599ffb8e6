"""Upper tails of beta prime distributions, beside SciPy's incomplete beta functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from genclf.numerics.beta_prime import upper_tail

PAIRS = [(4700, 256), (46, 4), (0.5, 0.5), (0.5, 256), (4700, 0.5), (1, 1), (3, 0.5), (1e5, 4),
         (5e5, 500), (20, 20), (1e7, 0.5)]  # fmt: skip


def expected(a, b, r):
    """By the form that does not cancel for such r."""
    return np.where(r > 1, special.betainc(a, b, 1 / (1 + r)), special.betaincc(b, a, r / (1 + r)))


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 5e-8), ("float32", 5e-5)])
def test_tails_of_all_sizes(dtype, rtol, request):
    if dtype == "float64":
        request.getfixturevalue("x64")
    a, b = np.array(PAIRS, dtype).T
    p = np.concatenate([np.logspace(-12, -0.3, 101), 1 - np.logspace(-0.3, -9, 41)])
    share = special.betaincinv(*np.array(PAIRS).T, p[:, None])
    with np.errstate(divide="ignore"):
        r = ((1 - share) / share).astype(dtype)
    used = (r > 1e-30) & (r < 1e30)
    found = np.asarray(jax.jit(lambda a, b, r: upper_tail(a, b)(r))(a, b, r))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        np.where(used, found, 1), np.where(used, expected(a, b, r.astype(float)), 1), rtol=rtol
    )


@pytest.mark.usefixtures("x64")
def test_ends_and_invalid_numbers():
    tail = upper_tail(jnp.array([3.0, 0.5, -1.0]), jnp.array([0.5, 40.0, 2.0]))
    r = jnp.array([[0.0] * 3, [jnp.inf] * 3, [jnp.nan] * 3, [1e300] * 3, [1e-300] * 3])
    found = np.asarray(tail(r))
    np.testing.assert_array_equal(found[:3, :2], [[1, 1], [0, 0], [np.nan, np.nan]])
    np.testing.assert_allclose(found[3:, :2], expected([3, 0.5], [0.5, 40], np.asarray(r)[3:, :2]))
    assert np.isnan(found[1:, 2]).all()


@pytest.mark.usefixtures("x64")
def test_derivatives():
    a, b, r = jnp.array([7.5, 0.5]), jnp.array([2.0, 0.5]), jnp.array([[0.3, 0.0], [2.0, 5.0]])
    total = lambda a, b, r: upper_tail(a, b)(r).sum()  # noqa: E731
    found = jax.grad(total, (0, 1, 2))(a, b, r)
    assert found[2][0, 1] == 0
    reference = lambda a, b, r: expected(a, b, np.maximum(r, 1e-300)).sum()  # noqa: E731
    for i, given in enumerate((a, b, r)):
        for at in np.ndindex(given.shape):
            if given[at] == 0:
                continue
            step = np.zeros(given.shape)
            step[at] = 1e-5
            moved = [[np.asarray(g) + (s * step if i == j else 0) for j, g in enumerate((a, b, r))]
                     for s in (1, -1)]  # fmt: skip
            change = (reference(*moved[0]) - reference(*moved[1])) / 2e-5
            np.testing.assert_allclose(found[i][at], change, rtol=1e-5)
