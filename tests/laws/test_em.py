"""EM: it is `fit` where nothing is hidden, it never loses, and what it finds is a maximum."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.classifier.classifier import log_prior_density
from genclf.families.capabilities import HasRoads, Latent, is_additive
from genclf.fitting.em import em_step
from genclf.roads.problem import arrays, declared, set_arrays
from tests.registry import (
    BY_NAME,
    DISTINCT,
    MIXTURES,
    WITH_HOLES,
    K,
    N,
    assert_close,
    having,
    spoil,
    take,
    with_hyperparameters,
)

KEY = 5
NO_RULES = ("ridge", "ddof")


def regular(model):
    """The model without ridge and ddof, which EM does not take."""
    clf = with_hyperparameters(model.classifier, lambda leaf: 0.0, names=NO_RULES)
    return replace(model, family=clf.family)


MODELS = list(map(regular, having(Latent, (*DISTINCT, *MIXTURES, *WITH_HOLES))))
MODELS = [model for model in MODELS if not model.family.heuristics()]
SOME = [m for m in MODELS if m.name in ("gaussian-shared", "multinomial-tokens", "mixture")]
IN_FLOAT32 = """
    gaussian gaussian-shared bernoulli multinomial product mixture gaussian-shared-holes
    product-holes
""".split()
LABELS = (0.0, 0.2)
STEPS = 500  # at most


def hide(y, share, seed=3):
    """Labels of which this share stays, the others latent."""
    return np.where(np.random.default_rng(seed).random(len(y)) < share, y, -1).astype(y.dtype)


def with_prior(model):
    """A proper prior in every Gaussian, so that no class shrinks onto a row."""
    is_plain = lambda f: isinstance(f, gcf.Gaussian) and f.prior is None  # noqa: E731
    given = lambda f: replace(f, prior=gcf.NormalInverseWishart()) if is_plain(f) else f  # noqa: E731
    family = jax.tree.map(given, model.family, is_leaf=lambda f: isinstance(f, gcf.Gaussian))
    return gcf.Classifier(family, K, class_alpha=0.5)


def run(clf, x, y, key=KEY, **more):
    """One way to call it, so that a model is compiled once for many tests."""
    more = {"max_steps": STEPS, "init": "random", "tol": 1e-6} | more
    return gcf.em(clf, x, y, key=jax.random.key(key), **more)


def trace(found):
    return np.asarray(found.objective)[: int(found.steps)]


def check_fit(model, dtype):
    x, y = model.example(dtype)
    clf = with_prior(model)
    found = run(clf, x, y)
    if is_additive(clf.family):
        tolerance = 1e-12 if dtype == np.float64 else 3e-6
        assert found.converged and found.steps == 2
        assert_close(found.params, gcf.fit(clf, x, y), tolerance)


def check_never_loses(model, dtype):
    """Hard case 18, with the objective made anew at the end."""
    x, y = model.example(dtype)
    clf, lost = with_prior(model), 1e-12 if dtype == np.float64 else 1e-6
    for share in LABELS:
        for key in (0, 1):
            hidden = hide(y, share)
            found = run(clf, x, hidden, key)
            values = trace(found)
            assert np.isfinite(values).all()
            assert (np.diff(values) >= -lost * np.abs(values[1:])).all(), values
            assert values[-1] > values[0]
    params = found.params
    log_joint = np.asarray(gcf.log_joint(params, x), np.float64)
    marginal = np.logaddexp.reduce(log_joint, axis=1)
    expected = np.where(hidden < 0, marginal, log_joint[np.arange(N), y]).sum()
    if is_additive(clf.family):
        expected += log_prior_density(clf, params, gcf.stats(clf, x, y))
        np.testing.assert_allclose(found.value, expected, rtol=1e-11 if lost < 1e-9 else 1e-5)


@pytest.mark.slow(
    but=(
        "bernoulli",
        "poisson",
    )
)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_is_fit_where_nothing_is_hidden_and_never_loses(model, x64):
    check_fit(model, np.dtype("float64"))
    check_never_loses(model, np.dtype("float64"))


@pytest.mark.slow
@pytest.mark.parametrize("model", [m for m in MODELS if m.name in IN_FLOAT32], ids=str)
def test_the_same_in_float32(model):
    check_fit(model, np.dtype("float32"))
    check_never_loses(model, np.dtype("float32"))


@pytest.mark.slow
@pytest.mark.parametrize("model", [m for m in MODELS if not is_additive(m.family)], ids=str)
def test_fit_of_hidden_parts_is_em_of_the_labelled_rows(model, x64):
    x, y = model.example("float64")
    hidden = hide(y, 0.8)
    clf = with_prior(model)
    fitted = gcf.fit(clf, x, hidden)
    left = gcf.em(clf, x, hidden, key=jax.random.key(0), unlabelled_weight=0.0, tol=1e-8)
    assert_close(fitted, left.params, 1e-12)
    assert left.converged


BOUNDED = [m for m in MODELS if m.name in ("gaussian-shared", "categorical", "mixture-tokens")]


@pytest.mark.slow
@pytest.mark.parametrize("model", BOUNDED, ids=str)
def test_likelihood_rises_without_a_prior(model, x64):
    clf = gcf.Classifier(model.family, K, inference="ml")
    x, y = model.example("float64")
    y = hide(y, 0.5)
    found = run(clf, x, y, unlabelled_weight=0.3)
    values = trace(found)
    start = np.flatnonzero(np.isfinite(values))[0]  # a word of no labelled row is impossible there
    assert start <= 1
    values = values[start:]
    assert (np.diff(values) >= -1e-12 * np.abs(values[1:])).all(), values
    log_joint = np.asarray(gcf.log_joint(found.params, x))
    own = log_joint[np.arange(N), y][y >= 0].sum()
    expected = own + 0.3 * np.logaddexp.reduce(log_joint, axis=1)[y < 0].sum()
    np.testing.assert_allclose(found.value, expected, rtol=1e-12)


# 23 rows with holes do not determine a covariance (with more, see the laws of missing cells).
OTHERS = ("gaussian-holes", "product-holes")
STATIONARY = [m for m in having(HasRoads, MODELS) if m.name not in OTHERS]


@pytest.mark.slow
@pytest.mark.parametrize("model", STATIONARY[::2], ids=str)
def test_what_it_finds_is_stationary(model, x64):
    """In the unconstrained coordinates of every parameter, by automatic differentiation."""
    x, y = model.example("float64")
    y = hide(y, 0.6)
    clf = gcf.Classifier(model.family, K, class_alpha=0.5)
    clf = with_hyperparameters(clf, lambda leaf: 0.5, names=("alpha",))
    found = run(clf, x, y, tol=0.0)
    params = found.params
    sets, stored = declared(clf, params), arrays(params)
    free = {name: sets[name].free(stored[name]) for name in sets}

    def objective(free):
        values = {name: sets[name].constrained(free[name], stored[name].shape[-1]) for name in sets}
        return em_step(clf, x, y)(set_arrays(params, values))[0]

    value, slope = jax.jit(jax.value_and_grad(objective))(free)
    np.testing.assert_allclose(value, found.value, rtol=1e-12)
    size = max(np.abs(leaf).max() for leaf in jax.tree.leaves(slope))
    assert size < 2e-5 * N, size


@pytest.mark.slow
@pytest.mark.parametrize("model", SOME, ids=str)
def test_permuted_components_stay_permuted(model, x64):
    x, y = model.example("float64")
    clf = with_prior(model)
    start = run(clf, x, y).params
    order = np.array([2, 0, 1])
    latent = np.full(N, -1)
    found = gcf.em(clf, x, latent, key=jax.random.key(0), init=start, max_steps=20)
    if "mixture" in model.name:
        each = lambda a: a.reshape(K, -1, *a.shape[1:])[order].reshape(a.shape)  # noqa: E731
        parts = jax.tree.map(lambda a: each(a) if len(a) > 1 else a, start.conditional.components)
        weight = start.conditional.log_weight[order]
        permuted = replace(start.conditional, log_weight=weight, components=parts)
        permuted = gcf.ClassifierParams(start.log_prior[order], permuted)
    else:
        permuted = jax.tree.map(lambda a: a if a.ndim == 0 or len(a) == 1 else a[order], start)
    other = gcf.em(clf, x, latent, key=jax.random.key(0), init=permuted, max_steps=20)
    np.testing.assert_allclose(other.value, found.value, rtol=1e-10)
    scores = np.asarray(gcf.log_joint(found.params, x))[:, order]
    np.testing.assert_allclose(gcf.log_joint(other.params, x), scores, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("model", SOME, ids=str)
def test_weights_are_repetitions(model, x64):
    x, y = model.example("float64")
    y = hide(y, 0.4)
    clf = with_prior(model)
    start = gcf.fit(clf, x, model.example("float64")[1])
    rng = np.random.default_rng(2)
    weights = rng.integers(0, 3, N).astype(float)
    rows = np.repeat(np.arange(N), weights.astype(int))
    found = run(clf, spoil(x, weights == 0), y, weights=weights, init=start, max_steps=10)
    repeated = run(clf, take(x, rows), y[rows], init=start, max_steps=10)
    assert_close(found.params, repeated.params, 1e-10)
    scaled = run(clf, x, y, weights=np.where(y < 0, 0.3, 1.0), init=start, max_steps=10)
    shared = run(clf, x, y, unlabelled_weight=0.3, init=start, max_steps=10)
    assert_close(scaled.params, shared.params, 1e-12)


@pytest.mark.slow("gaussian-shared", "mixture")
@pytest.mark.parametrize("model", SOME, ids=str)
def test_unlabelled_rows_of_weight_0_are_absent(model, x64):
    x, y = model.example("float64")
    hidden = hide(y, 0.6)
    x = spoil(x, hidden < 0)
    found = run(model.classifier, x, hidden, unlabelled_weight=0.0, init="k-means++", key=0)
    expected = gcf.fit(model.classifier, x, hidden)
    assert_close(found.params, expected, 1e-12 if is_additive(model.family) else 1e-3)


@pytest.mark.slow("gaussian-shared", "mixture")
@pytest.mark.parametrize("model", SOME, ids=str)
def test_vmapped_members_are_as_alone(model, x64):
    """A member that has converged is frozen while the others go on."""
    clf = with_prior(model)
    data = [model.example("float64", seed=seed) for seed in (0, 1)]
    x = jax.tree.map(lambda *leaves: np.stack(leaves), *(x for x, _ in data))
    y = np.stack([hide(y, 0.3) for _, y in data])
    many = jax.vmap(lambda x, y: run(clf, x, y))(x, y)
    steps = []
    for i in range(2):
        alone = run(clf, take(x, i), y[i])
        steps.append(int(alone.steps))
        one = jax.tree.map(lambda a, i=i: a[i], many)
        assert one.steps == alone.steps
        assert_close(one.params, alone.params, 1e-9)
    assert steps[0] != steps[1]


REAL = BY_NAME["gaussian"].data
# The threshold of a Bernoulli is a number in the units of x.
IN_UNITS = [m for m in MODELS if m.data is REAL and not hasattr(m.family, "threshold")]


@pytest.mark.slow(but=("float64-gaussian-diag",))
@pytest.mark.parametrize("model", IN_UNITS, ids=str)
def test_units_do_not_matter(model, dtype):
    x, y = model.example(dtype)
    clf, y = with_prior(model), hide(y, 0.2)
    tolerance = 1e-7 if dtype == np.float64 else 3e-3
    for scale in (1e-6, 1e6):
        both = x, x * np.asarray(scale, x.dtype)
        found, other = (run(clf, a, y, tol=-1.0, max_steps=40) for a in both)
        posterior = jnp.exp(gcf.log_posterior(found.params, x))
        scaled = jnp.exp(gcf.log_posterior(other.params, both[1]))
        np.testing.assert_allclose(scaled, posterior, rtol=0, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("model", SOME, ids=str)
def test_float32_is_float64(model):
    clf, solutions, start = with_prior(model), [], None
    for dtype in ("float64", "float32"):  # from one start: random numbers differ with the dtype
        with jax.enable_x64(dtype == "float64"):
            x, y = model.example(dtype)
            y = hide(y, 0.3)
            start = run(clf, x, y).params if start is None else start
            start = jax.tree.map(lambda a: np.asarray(a, dtype), start)  # noqa: B023
            found = run(clf, x, y, init=start, max_steps=10, tol=-1.0)
            solutions.append(np.exp(np.asarray(gcf.log_posterior(found.params, x), np.float64)))
    np.testing.assert_allclose(*solutions, rtol=0, atol=2e-3)
