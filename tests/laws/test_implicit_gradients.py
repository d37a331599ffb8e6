"""Derivatives through an iteration are those of finite differences, in both modes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.families.capabilities import is_additive
from tests.laws.test_em import MODELS, hide
from tests.registry import D, K, N, assert_finite, floating, put, spoil, with_hyperparameters

pytestmark = pytest.mark.usefixtures("x64")

STEP = 1e-3
# Of EM: many after gains are too small to be seen, for which params still move.
STEPS, STEPS_OF_HIDDEN = 60, 150
ROWS = 29
ONE_OF_EACH = ("gaussian-shared", "multinomial-tokens", "gaussian-holes", "mixture")
SOME = [m for m in MODELS if m.name in ONE_OF_EACH]
HIDDEN = [m for m in SOME if not is_additive(m.family)]


def score(at, clf, x, y, seen, start):
    """A scalar of a converged solution and of its objective."""
    clf = jax.tree.unflatten(jax.tree.structure(clf), at["hyper-parameters"])
    y = at.get("responsibilities", y)
    found = gcf.em(
        clf, put(x, at["rows"]), y, key=jax.random.key(0), weights=at["weights"], init=start,
        unlabelled_weight=at["share"], tol=-1.0,
        max_steps=STEPS if is_additive(clf.family) else STEPS_OF_HIDDEN,
    )  # fmt: skip
    return gcf.log_marginal(found.params, seen).mean() + found.value / N


value_and_slope = jax.jit(jax.value_and_grad(score))


def problem(model, known=False):
    """Where to differentiate, and the rest; cells and labels that are not seen among them.

    Priors are strong and most labels are seen, so that EM is quick. With `known` responsibilities
    all classes are, and only what else a model hides is not.
    """
    rng = np.random.default_rng(7)
    (x, y), (seen, _) = model.example("float64", n=ROWS), model.example("float64", seed=1)
    strong = gcf.NormalInverseWishart(kappa=3.0, dof=D + 20.0)
    clf = jax.tree.map(
        lambda f: replace(f, prior=strong) if isinstance(f, gcf.Gaussian) else f,
        gcf.Classifier(model.family, K, class_alpha=0.5),
        is_leaf=lambda f: isinstance(f, gcf.Gaussian),
    )
    clf = with_hyperparameters(clf, lambda leaf: 2.0, names=("alpha",))
    at = {
        "hyper-parameters": [np.float64(leaf) for leaf in jax.tree.leaves(clf)],
        "rows": floating(x),
        "weights": rng.uniform(0.5, 2, ROWS),
        "share": np.float64(0.7),
    }
    if known:
        soft = 0.7 * np.eye(K)[y] + 0.1 * rng.uniform(0.5, 1.5, (ROWS, K))
        at["responsibilities"] = soft
    y = hide(y, 0.8)
    # All from one start, so that every solution is of the same maximum.
    start = gcf.em(clf, x, y, key=jax.random.key(0), weights=at["weights"]).params
    return at, (clf, x, y, seen, start)


def directions(at, rng):
    """Of every number but missing cells, and the ridge and ddof of 0, which EM does not take."""

    def move(a):
        return np.where(np.isnan(a) | (np.ndim(a) == 0) & (a == 0), 0, rng.normal(size=np.shape(a)))

    way = jax.tree.map(move, at)
    # Directions stay on the sphere.
    on_sphere = lambda a: a.ndim == 2 and np.allclose((a**2).sum(1), 1)  # noqa: E731
    across = lambda a, u: u - a * (a * u).sum(1, keepdims=True) if on_sphere(a) else u  # noqa: E731
    return way | {"rows": [across(a, u) for a, u in zip(at["rows"], way["rows"], strict=True)]}


def inner(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return sum(float(np.vdot(x, y)) for x, y in pairs)


def check(at, rest):
    """Along one direction, of everything at once."""
    _, slope = value_and_slope(at, *rest)
    assert_finite(slope)
    way = directions(at, np.random.default_rng(3))

    def differ(step):
        ends = (jax.tree.map(lambda a, u, by=by: a + by * u, at, way) for by in (step, -step))
        high, low = (float(value_and_slope(end, *rest)[0]) for end in ends)
        return (high - low) / (2 * step)

    # Richardson: without the third derivative, which is large by all rows at once.
    expected = (4 * differ(STEP) - differ(2 * STEP)) / 3
    assert inner(slope, way) == pytest.approx(expected, rel=3e-4, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_by_all_that_is_continuous(model):
    check(*problem(model, known=not is_additive(model.family)))


@pytest.mark.slow
@pytest.mark.parametrize("model", HIDDEN, ids=str)
def test_where_labels_are_hidden_too(model):
    check(*problem(model))


@pytest.mark.slow
@pytest.mark.parametrize("model", SOME, ids=str)
def test_forward_mode_and_vmap_agree_with_reverse_mode(model):
    at, rest = problem(model, known=not is_additive(model.family))
    way = directions(at, np.random.default_rng(3))
    _, slope = value_and_slope(at, *rest)
    of = lambda at: score(at, *rest)  # noqa: E731
    forward = jax.jit(lambda at, way: jax.jvp(of, (at,), (way,))[1])(at, way)
    np.testing.assert_allclose(forward, inner(slope, way), rtol=1e-7)
    twice = jax.tree.map(lambda a: np.stack([a, a]), at)
    many = jax.jit(jax.vmap(jax.grad(of)))(twice)
    for leaf, one in zip(jax.tree.leaves(many), jax.tree.leaves(slope), strict=True):
        np.testing.assert_allclose(leaf[1], one, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("model", HIDDEN, ids=str)
def test_through_fit(model):
    """`fit` begun at the solution of `em` has its derivatives."""
    at, (clf, x, _, seen, start) = problem(model, known=True)
    y, weights = at["responsibilities"], at["weights"]
    found = gcf.em(
        clf, x, y, key=jax.random.key(0), weights=weights, init=start, tol=0.0, max_steps=5000
    ).params

    @jax.jit
    @jax.grad
    def by_fit(rows, y, weights):
        return gcf.log_marginal(gcf.fit(clf, put(x, rows), y, weights, init=found), seen).mean()

    @jax.jit
    @jax.grad
    def by_em(rows, y, weights):
        again = gcf.em(
            clf, put(x, rows), y, key=jax.random.key(0), weights=weights, init=found, tol=0.0
        )
        return gcf.log_marginal(again.params, seen).mean()

    slope = by_fit(at["rows"], y, weights)
    assert_finite(slope)
    for a, b in zip(slope, by_em(at["rows"], y, weights), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-8)


@pytest.mark.slow("gaussian-shared", "mixture")
@pytest.mark.parametrize("model", SOME, ids=str)
def test_rows_without_weight_may_hold_anything(model):
    at, (clf, x, y, seen, start) = problem(model)
    absent = np.arange(ROWS) % 7 == 3
    at["weights"] = np.where(absent, 0, at["weights"])
    x = spoil(x, absent)
    at["rows"] = floating(x)
    value, slope = value_and_slope(at, clf, x, y, seen, start)
    assert np.isfinite(value)
    assert_finite(slope)
    for leaf in slope["rows"]:
        np.testing.assert_array_equal(leaf[absent], 0)
    assert jnp.abs(slope["weights"][~absent]).min() > 0
