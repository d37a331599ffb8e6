"""EM: it is `fit` where nothing is hidden, it never loses, and what it finds is a maximum."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import genclf as gcf
from genclf.classifier import log_prior_density
from genclf.expectation import em_step
from genclf.routes.problem import arrays, declared, set_arrays
from tests.registry import (
    BY_NAME,
    DISTINCT,
    FAMILIES,
    MIXTURES,
    WITH_HOLES,
    K,
    N,
    assert_close,
    concatenate,
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


HOLES = ("gaussian", "gaussian-shared", "gaussian-diag", "multinomial", "product", "mixture")
MODELS = [
    regular(model)
    for model in (*DISTINCT, *MIXTURES, *WITH_HOLES)
    if not model.name.endswith("-holes") or model.name.removesuffix("-holes") in HOLES
]
SOME = [
    model
    for model in MODELS
    if model.name
    in ("gaussian-shared", "categorical", "multinomial-tokens", "mixture", "product-holes")
]
LABELS = (0.0, 0.2)
STEPS = 40


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
    if clf.family.additive:
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
    if clf.family.additive:
        expected += log_prior_density(clf, params, gcf.stats(clf, x, y))
        np.testing.assert_allclose(found.value, expected, rtol=1e-11 if lost < 1e-9 else 1e-5)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_is_fit_where_nothing_is_hidden_and_never_loses(model, x64):
    check_fit(model, np.dtype("float64"))
    check_never_loses(model, np.dtype("float64"))


@pytest.mark.parametrize("model", [m for m in MODELS if m in FAMILIES or "mix" in m.name], ids=str)
def test_the_same_in_float32(model):
    check_fit(model, np.dtype("float32"))
    check_never_loses(model, np.dtype("float32"))


@pytest.mark.parametrize("model", [m for m in MODELS if not m.family.additive], ids=str)
def test_fit_of_hidden_parts_is_em_of_the_labelled_rows(model, x64):
    x, y = model.example("float64")
    hidden = hide(y, 0.8)
    clf = with_prior(model)
    fitted = gcf.fit(clf, x, hidden)
    left = gcf.em(clf, x, hidden, key=jax.random.key(0), unlabelled_weight=0.0, tol=1e-8)
    assert_close(fitted, left.params, 1e-12)
    assert left.converged


BOUNDED = [m for m in MODELS if m.name in ("gaussian-shared", "categorical", "mixture-tokens")]


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


STATIONARY = [m for m in MODELS if "mixture" not in m.name and "threshold" not in m.name]


@pytest.mark.parametrize("model", STATIONARY[::2], ids=str)
def test_what_it_finds_is_stationary(model, x64):
    """In the unconstrained coordinates of every parameter, by automatic differentiation."""
    x, y = model.example("float64")
    y = hide(y, 0.6)
    clf = gcf.Classifier(model.family, K, class_alpha=0.5)
    clf = with_hyperparameters(clf, lambda leaf: 0.5, names=("alpha",))
    found = run(clf, x, y, tol=0.0, max_steps=2000)
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


@pytest.mark.parametrize("model", SOME, ids=str)
def test_unlabelled_rows_of_weight_0_are_absent(model, x64):
    x, y = model.example("float64")
    hidden = hide(y, 0.6)
    x = spoil(x, hidden < 0)
    found = run(model.classifier, x, hidden, unlabelled_weight=0.0, init="k-means++", key=0)
    expected = gcf.fit(model.classifier, x, hidden)
    assert_close(found.params, expected, 1e-12 if model.family.additive else 1e-3)


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
IN_UNITS = [m for m in MODELS if m.data is REAL and not isinstance(m.family, gcf.Bernoulli)]


@pytest.mark.parametrize("model", IN_UNITS, ids=str)
def test_units_do_not_matter(model, dtype):
    x, y = model.example(dtype)
    clf, y = with_prior(model), hide(y, 0.2)
    tolerance = 1e-7 if dtype == np.float64 else 3e-3
    for scale in (1e-6, 1e6):
        found, other = (run(clf, a, y, tol=-1.0) for a in (x, x * np.asarray(scale, x.dtype)))
        posterior = jnp.exp(gcf.log_posterior(found.params, x))
        scaled = jnp.exp(gcf.log_posterior(other.params, x * np.asarray(scale, x.dtype)))
        np.testing.assert_allclose(scaled, posterior, rtol=0, atol=tolerance)


@pytest.mark.parametrize("model", SOME, ids=str)
def test_float32_is_float64(model):
    solutions = []
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            x, y = model.example(dtype)
            found = run(with_prior(model), x, hide(y, 0.3), max_steps=20, tol=-1.0)
            solutions.append(np.exp(np.asarray(gcf.log_posterior(found.params, x), np.float64)))
    np.testing.assert_allclose(*solutions, rtol=0, atol=2e-3)


GRADIENTS = [
    m
    for m in MODELS
    if m.name in ("gaussian-shared", "multinomial", "mixture-shared", "gaussian-shared-holes")
]


@pytest.mark.parametrize("model", GRADIENTS, ids=str)
def test_implicit_derivatives(model, x64):
    """Of a held-out score: as unrolled, and as finite differences."""
    (x, y), (seen, _) = model.example("float64", n=53), model.example("float64", seed=1)
    y, weights = hide(y, 0.5), np.ones(len(y))
    clf = with_prior(model)
    start = run(clf, x, y).params

    def score(params):
        return gcf.log_marginal(params, seen).mean()

    def solved(at):
        share, weights = at
        found = run(clf, x, y, unlabelled_weight=share, weights=weights, init=start, tol=0.0,
                    max_steps=5000)  # fmt: skip
        return score(found.params)

    def unrolled(at):
        step = em_step(clf, x, y, weights=at[1], unlabelled_weight=at[0])

        def again(stats, _):
            return step(gcf.estimate(step.clf, stats))[1], None

        stats = step(start)[1]
        return score(gcf.estimate(step.clf, lax.scan(again, stats, length=2000)[0]))

    at = (0.7, weights)
    value, slope = jax.jit(jax.value_and_grad(solved))(at)
    expected, long_way = jax.jit(jax.value_and_grad(unrolled))(at)
    np.testing.assert_allclose(value, expected, rtol=1e-8)
    np.testing.assert_allclose(slope[0], long_way[0], rtol=1e-4)
    np.testing.assert_allclose(slope[1], long_way[1], rtol=1e-3, atol=1e-6)
    step, differ = 1e-3, jax.jit(solved)
    finite = (differ((0.7 + step, weights)) - differ((0.7 - step, weights))) / (2 * step)
    np.testing.assert_allclose(slope[0], finite, rtol=1e-3)


def test_the_best_of_restarts_is_kept(x64):
    model = BY_NAME["bernoulli"]
    x, y = model.example("float64")
    keys = jax.random.split(jax.random.key(KEY), 5)
    alone = [gcf.em(model.classifier, x, 0 * y - 1, key=key, init="random") for key in keys]
    values = [float(found.value) for found in alone]
    best = run(model.classifier, x, 0 * y - 1, restarts=5, max_steps=1000)
    assert max(values) - min(values) > 0.1
    np.testing.assert_allclose(best.value, max(values), rtol=1e-9)
    np.testing.assert_allclose(trace(best)[-1], best.value)


def test_bernoulli_mixture_step_by_step(x64):
    """Latent class analysis in NumPy, from the formulas."""
    model = BY_NAME["bernoulli"]
    x, y = model.example("float64")
    clf = gcf.Classifier(gcf.Bernoulli(alpha=0.0), K)
    start = gcf.fit(clf, x[:20], y[:20] * 0 + np.arange(20) % K)
    found = run(clf, x, 0 * y - 1, init=start, max_steps=4, tol=-1.0)
    pi, p = np.exp(np.asarray(start.log_prior)), np.asarray(start.conditional.probs)
    values = []
    for step in range(5):
        joint = pi * np.prod(np.where(x[:, None] == 1, p, 1 - p), -1)
        if step:
            values.append(np.log(joint.sum(1)).sum())
        r = joint / joint.sum(1, keepdims=True)
        if step < 4:
            pi, p = r.mean(0), r.T @ x / r.sum(0)[:, None]
    np.testing.assert_allclose(trace(found), values, rtol=1e-12)
    np.testing.assert_allclose(found.params.conditional.probs, p, atol=1e-12)


def test_semi_supervised_text_step_by_step(x64):
    """Nigam et al. (2000), eqs. 3-8 with λ, in NumPy."""
    model = BY_NAME["multinomial"]
    x, y = model.example("float64")
    hidden, share, alpha = hide(y, 0.4), 0.25, 1.0
    clf = gcf.multinomial_nb(K, alpha=alpha, class_alpha=1.0)
    found = run(clf, x, hidden, unlabelled_weight=share, max_steps=4, tol=-1.0)
    w = np.where(hidden[:, None] == np.arange(K), 1.0, 0.0)
    for _ in range(4):
        pi = (w.sum(0) + 1) / (w.sum() + K)
        theta = w.T @ x + alpha
        theta = theta / theta.sum(1, keepdims=True)
        score = np.log(pi) + x @ np.log(theta).T
        r = np.exp(score - np.logaddexp.reduce(score, 1)[:, None])
        w = np.where(hidden[:, None] < 0, share * r, hidden[:, None] == np.arange(K))
    np.testing.assert_allclose(found.params.log_prior, np.log(pi), rtol=1e-12)
    np.testing.assert_allclose(found.params.conditional.log_theta, np.log(theta), rtol=1e-12)


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_clusters_far_apart_are_found(init, dtype):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(7), 13)
    centres = 100 * rng.normal(size=(7, 2))
    x = (centres[y] + rng.normal(size=(91, 2))).astype(dtype)
    clf = gcf.Classifier(gcf.Gaussian("spherical", prior=gcf.NormalInverseWishart()), 7)
    found = run(clf, x, 0 * y - 1, init=init, restarts=20)
    label = np.asarray(gcf.predict(found.params, x))
    assert len({(a, b) for a, b in zip(y, label, strict=True)}) == 7


def test_classes_without_labels_begin_apart_from_those_with(x64):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(3), 31)
    x = 20.0 * y[:, None] + rng.normal(size=(93, 2))
    hidden = np.where((y == 1) & (np.arange(93) % 2 == 0), 1, -1)
    found = run(gcf.lda(3), x, hidden, restarts=5, init="k-means++")
    label = np.asarray(gcf.predict(found.params, x))
    assert (label[y == 1] == 1).all()
    assert len({(a, b) for a, b in zip(y, label, strict=True)}) == 3


def test_known_responsibilities_stay(x64):
    model = BY_NAME["gaussian"]
    x = model.example("float64")[0]
    soft = np.random.default_rng(0).dirichlet(np.ones(K), N)
    found = run(model.classifier, x, soft)
    assert_close(found.params, gcf.fit(model.classifier, x, soft), 1e-12)


def test_more_rows_than_a_block(x64):
    model = BY_NAME["gaussian-diag"]
    parts = [model.example("float64", n=8009, seed=seed) for seed in range(5)]
    x, y = concatenate(*(x for x, _ in parts)), concatenate(*(y for _, y in parts))
    y = hide(y, 0.01)
    found = run(model.classifier, x, y, max_steps=3, tol=-1.0)
    w = np.where(y[:, None] == np.arange(K), 1.0, 0.0)
    for _ in range(3):
        params = gcf.fit(model.classifier, x, w)
        r = np.exp(np.asarray(gcf.log_posterior(params, x)))
        w = np.where(y[:, None] < 0, r, y[:, None] == np.arange(K))
    assert_close(found.params, params, 1e-9)


def test_one_trace_for_all_weights():
    model = BY_NAME["bernoulli"]
    x, y = model.example("float32")
    traces = []

    @jax.jit
    def solve(clf, share, tol):
        traces.append(1)
        return run(clf, x, hide(y, 0.4), unlabelled_weight=share, tol=tol).value

    values = [solve(gcf.bernoulli_nb(K, alpha=a), a, 1e-4) for a in (0.5, 0.7, 1.0)]
    assert len(traces) == 1
    assert len({float(v) for v in values}) == 3


def test_class_of_no_weight_stays_empty(x64):
    model = BY_NAME["gaussian"]
    x, y = model.example("float64")
    start = gcf.fit(gcf.qda(K), x, np.where(y == 2, 1, y))
    found = gcf.em(gcf.qda(K), x, 0 * y - 1, key=jax.random.key(0), init=start)
    assert found.converged and found.params.log_prior[2] == -np.inf
    assert np.isfinite(found.params.conditional.mean).all()


def test_invalid_numbers_are_not_confident():
    model = BY_NAME["gaussian"]
    x, y = model.example("float32")
    bad_label, bad_weight = np.where(np.arange(N) == 3, K, y), np.where(np.arange(N) == 3, -1.0, 1)
    for given in ({"y": bad_label}, {"weights": bad_weight.astype("float32")}):
        found = run(gcf.qda(K), x, **({"y": y} | given))
        assert np.isnan(found.params.conditional.mean).all() and not found.converged
    assert np.isnan(run(gcf.qda(K), x, y, unlabelled_weight=-1.0).params.log_prior).all()
    hidden = np.where(np.arange(N) == 3, -1, y)
    broken = spoil(x, [3])
    assert np.isnan(run(gcf.qda(K), broken, hidden).params.conditional.mean).any()
    gcf.validate(gcf.qda(K), broken, hidden)
    with pytest.raises(ValueError, match=r"x\[3, 0\] is nan"):
        gcf.validate(gcf.qda(K), broken, hidden, latent=True)


@pytest.mark.parametrize(
    ("clf", "more", "message"),
    [
        (gcf.qda(K, ridge=0.1), {}, "ridge.*NormalInverseWishart"),
        (gcf.Classifier(gcf.Gaussian(ddof=1.0), K), {}, "ddof"),
        (gcf.qda(K, inference="predictive"), {}, "predictive"),
        (gcf.Classifier(gcf.KernelDensity(), K), {}, "keeps the examples"),
        (gcf.qda(K), {"init": "kmeans"}, "init"),
        (gcf.qda(K), {"max_steps": 0}, "max_steps"),
        (gcf.qda(K), {"restarts": 0}, "restarts"),
        (gcf.Classifier(gcf.Mixture(gcf.Gaussian(), 0), K), {}, "num_components"),
    ],
)
def test_clear_errors(clf, more, message):
    x, y = BY_NAME["gaussian"].example("float32")
    with pytest.raises(ValueError, match=message):
        run(clf, x, y, **more)


def test_hidden_parts_have_no_statistics():
    x, y = BY_NAME["gaussian"].example("float32")
    for family in (gcf.Mixture(gcf.Gaussian(), 2), gcf.Gaussian(missing="marginalize")):
        with pytest.raises(ValueError, match="no sufficient statistics"):
            gcf.stats(gcf.Classifier(family, K), x, y)
        gcf.validate(gcf.Classifier(family, K), x, y)
        assert gcf.diagnose(gcf.Classifier(family, K), x, y).conditional is None
