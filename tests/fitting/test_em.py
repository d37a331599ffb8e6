"""EM, one claim at a time: derivatives, restarts, where it begins, numbers from the formulas."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import genclf as gcf
from genclf.fitting.em import em_step
from tests.laws.test_em import KEY, MODELS, hide, run, trace, with_prior
from tests.registry import BY_NAME, K, N, assert_close, assert_near, concatenate, holes, spoil

GRADIENTS = [
    m
    for m in MODELS
    if m.name in ("gaussian-shared", "multinomial", "mixture-shared", "gaussian-shared-holes")
]


@pytest.mark.slow
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
    np.testing.assert_allclose(value, expected, rtol=1e-7)  # as far as gains can be seen
    np.testing.assert_allclose(slope[0], long_way[0], rtol=1e-4)
    np.testing.assert_allclose(slope[1], long_way[1], rtol=1e-3, atol=1e-6)
    step, differ = 1e-3, jax.jit(solved)
    finite = (differ((0.7 + step, weights)) - differ((0.7 - step, weights))) / (2 * step)
    np.testing.assert_allclose(slope[0], finite, rtol=1e-3)


@pytest.mark.slow
def test_the_best_of_restarts_is_kept(x64):
    model = BY_NAME["bernoulli"]
    x, y = model.example("float64")
    keys = jax.random.split(jax.random.key(KEY), 5)
    alone = [gcf.em(model.classifier, x, 0 * y - 1, key=key, init="random") for key in keys]
    values = [float(found.value) for found in alone]
    best = run(model.classifier, x, 0 * y - 1, restarts=5, max_steps=1000)
    assert max(values) - min(values) > 0.1
    np.testing.assert_allclose(best.values, values, rtol=1e-9)
    np.testing.assert_allclose(best.value, max(values), rtol=1e-9)
    np.testing.assert_allclose(trace(best)[-1], best.value)


@pytest.mark.slow
def test_restarts_begin_elsewhere_though_every_class_has_labels(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    clf, y = with_prior(BY_NAME["gaussian"]), hide(y, 0.2)
    one, many = (run(clf, x, y, restarts=count) for count in (1, 5))
    np.testing.assert_allclose(many.values[:1], one.values, rtol=1e-9)
    assert len(np.unique(np.asarray(many.values).round(6))) > 1
    assert many.value >= one.value - 1e-9 * abs(one.value)  # as near as they are above


@pytest.mark.slow
def test_a_prior_does_not_depend_on_the_start(x64):
    """That takes its units from data of which cells are missing."""
    x, y = BY_NAME["gaussian"].example("float64")
    y = hide(y, 0.2)
    strict = gcf.qda(K, prior=gcf.NormalInverseWishart())
    clf = gcf.qda(K, prior=gcf.NormalInverseWishart(), missing="marginalize")
    start = run(strict, x, y, tol=1e-12, max_steps=2000).params
    found = run(clf, x, y, tol=1e-12, max_steps=2000)
    assert_close(jax.tree.leaves(found.params), jax.tree.leaves(start), 1e-5)
    holed = holes(np.random.default_rng(0), x, 0.2)
    first = run(clf, holed, y, tol=1e-12, max_steps=2000)
    again = run(clf, holed, y, init=first.params, tol=1e-12, max_steps=2000)
    assert again.steps < 5
    np.testing.assert_allclose(again.value, first.value, rtol=1e-10)


def test_init_of_another_model_is_named():
    x, y = BY_NAME["gaussian"].example("float32")
    others = gcf.fit(gcf.gaussian_nb(K), x, y), gcf.fit(gcf.lda(K - 1), x, np.minimum(y, K - 2))
    for other in others:
        with pytest.raises(ValueError, match=r"init is GaussianParams of . classes"):
            run(gcf.qda(K), x, y, init=other)
    with pytest.raises((ValueError, TypeError), match="unlabelled_weight"):
        run(gcf.qda(K), x, y, unlabelled_weight=np.ones(N))


@pytest.mark.slow
def test_the_value_has_the_derivative_of_the_objective(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    y = hide(y, 0.3)

    @jax.jit
    def value(share):
        clf = with_prior(BY_NAME["gaussian"])
        return run(clf, x, y, unlabelled_weight=share, tol=0.0, max_steps=2000).value

    differ = (value(0.3001) - value(0.2999)) / 2e-4
    np.testing.assert_allclose(jax.grad(value)(0.3), differ, rtol=1e-5)


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
    assert_near(found.params.log_prior, np.log(pi), 1e-12)
    assert_near(found.params.conditional.log_theta, np.log(theta), 1e-12)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e30, 1e300])
def test_rows_of_weight_0_do_not_say_where_to_begin(garbage, x64):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 8, [[0.0, 0.0]]])
    weights = np.where(np.arange(41) == 40, 0.0, 1.0)
    other = np.where(weights[:, None] == 0, garbage, x)
    for clf in (gcf.qda(2), gcf.Classifier(gcf.Mixture(gcf.Gaussian(), 2), 1)):
        y = np.full(41, -1) if clf.num_classes == 2 else np.zeros(41, int)
        found, again = (
            gcf.em(clf, a, y, key=jax.random.key(0), weights=weights) for a in (x, other)
        )
        np.testing.assert_allclose(again.value, found.value, rtol=1e-6)
        assert found.value > -135


@pytest.mark.slow
def test_class_of_no_weight_stays_empty(x64):
    model = BY_NAME["gaussian"]
    x, y = model.example("float64")
    start = gcf.fit(gcf.qda(K), x, np.where(y == 2, 1, y))
    found = gcf.em(gcf.qda(K), x, 0 * y - 1, key=jax.random.key(0), init=start)
    assert found.converged and found.params.log_prior[2] == -np.inf
    assert np.isfinite(found.params.conditional.mean).all()


@pytest.mark.slow
def test_invalid_numbers_are_not_confident():
    model = BY_NAME["gaussian"]
    x, y = model.example("float32")
    bad_label, bad_weight = np.where(np.arange(N) == 3, K, y), np.where(np.arange(N) == 3, -1.0, 1)
    for given in ({"y": bad_label}, {"weights": bad_weight.astype("float32")}):
        found = jax.jit(lambda given: run(gcf.qda(K), x, **given))({"y": y} | given)
        assert np.isnan(found.params.conditional.mean).all() and not found.converged
        assert np.isnan(found.value) and found.steps == 1
    traced = jax.jit(lambda share: run(gcf.qda(K), x, y, unlabelled_weight=share).params.log_prior)
    assert np.isnan(traced(-1.0)).all()
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
        (gcf.Classifier(gcf.KernelDensity(), K), {}, "em needs a distance"),
        (gcf.qda(K), {"init": "kmeans"}, "init"),
        (gcf.qda(K), {"max_steps": 0}, "max_steps"),
        (gcf.qda(K), {"restarts": 0}, "restarts"),
        (gcf.Classifier(gcf.Mixture(gcf.Gaussian(), 0), K), {}, "num_components"),
        (gcf.Classifier(gcf.Mixture(gcf.KernelDensity(), 2), K), {}, "expected a family that EM"),
    ],
)
def test_clear_errors(clf, more, message):
    x, y = BY_NAME["gaussian"].example("float32")
    with pytest.raises(ValueError, match=message):
        run(clf, x, y, **more)


FEW = np.random.default_rng(0).normal(size=(7, 2)).astype("float32")
PAIRS = gcf.Classifier(gcf.Mixture(gcf.Gaussian(prior=gcf.NormalInverseWishart()), 2), K)


@pytest.mark.parametrize(
    ("clf", "y", "weights", "message"),
    [
        (gcf.qda(11), [-1] * 7, None, "x has 7 rows without label.*at least 11"),
        (gcf.qda(5), [0, 0, 1, 1, -1, -1, 1], None, "x has 2 rows without label.*at least 3"),
        (gcf.qda(5), [-1] * 7, [1, 1, 1, 1, 0, 0, 0], "x has 4 rows without label.*at least 5"),
        (PAIRS, [0, 0, 0, 1, 2, 2, 2], None, "class 1 has 1 rows.*at least 2"),
        (PAIRS, [0, 0, 0, 1, 2, -1, 2], [1, 1, 1, 1, 1, 1, 0], "x has 1 rows.*at least 2"),
    ],
)
def test_fewer_rows_than_clusters(clf, y, weights, message):
    weights = None if weights is None else np.array(weights, "float32")
    with pytest.raises(ValueError, match=message):
        run(clf, FEW, np.array(y), weights=weights)


def test_fewer_rows_than_clusters_of_which_the_shapes_say_so():
    latent = np.full(7, -1)
    for clf in (gcf.qda(11), gcf.Classifier(PAIRS.family, 5)):
        with pytest.raises(ValueError, match="x has 7 rows, and EM needs at least 1"):
            jax.jit(lambda x, y, clf=clf: run(clf, x, y))(FEW, latent)
    many = gcf.Classifier(gcf.Product({"a": replace(PAIRS.family, num_components=11)}), 1)
    with pytest.raises(
        ValueError, match="class 0 has 7 rows of weight > 0, and EM needs at least 11"
    ):
        gcf.fit(many, {"a": FEW}, np.zeros(7, int))


@pytest.mark.slow
def test_validate_names_a_start_without_a_covariance():
    x, y = BY_NAME["gaussian"].example("float64")
    few = np.full(N, -1)
    for k in range(K):
        few[np.flatnonzero(y == k)[:2]] = k
    with pytest.raises(ValueError, match=r"class 0 has rank 1 of 5.*em would start there"):
        gcf.validate(gcf.qda(K), x, few, latent=True)
    gcf.validate(with_prior(BY_NAME["gaussian"]), x, few, latent=True)
    gcf.validate(gcf.qda(K), x, np.full(N, -1), latent=True)


@pytest.mark.slow
def test_the_component_of_a_row(x64):
    x, y = BY_NAME["gaussian"].example("float64")
    found = gcf.fit(gcf.Classifier(gcf.Mixture(gcf.Gaussian(shared=True), 2), K), x, y).conditional
    log_p = np.asarray(found.components.log_prob(jnp.asarray(x))).reshape(N, K, 2)
    joint = np.exp(log_p + np.asarray(found.log_weight))
    expected = joint / joint.sum(-1, keepdims=True)
    np.testing.assert_allclose(found.responsibilities(jnp.asarray(x)), expected, atol=1e-12)


def test_hidden_parts_have_no_statistics():
    x, y = BY_NAME["gaussian"].example("float32")
    for family in (gcf.Mixture(gcf.Gaussian(), 2), gcf.Gaussian(missing="marginalize")):
        with pytest.raises(ValueError, match="parts of x are unobserved"):
            gcf.stats(gcf.Classifier(family, K), x, y)
        gcf.validate(gcf.Classifier(family, K), x, y)
        assert gcf.diagnose(gcf.Classifier(family, K), x, y).conditional is None


def test_the_objective_keeps_its_digits_where_features_are_nearly_dependent():
    """A trace of the inverse covariance and a float32 scatter would lose all, at 1e7."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3001, 5))
    x = z @ np.diag([1, 1, 1, 1, 3e-4]) @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
    y = np.where(np.arange(3001) % 2, rng.integers(0, 3, 3001), -1)
    clf, x = gcf.lda(3), x.astype(np.float32)
    with jax.enable_x64(True):
        wide = x.astype(float)
        params = gcf.fit(clf, wide[y >= 0], y[y >= 0])
        exact = jax.jit(lambda p: em_step(clf, wide, y)(p)[0])(params)
    params = gcf.fit(clf, x[y >= 0], y[y >= 0])
    found = jax.jit(lambda p: em_step(clf, x, y)(p)[0])(params)
    np.testing.assert_allclose(found, exact, rtol=1e-4)
