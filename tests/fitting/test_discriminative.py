"""Softmax regression: the minimum, its conventions, its flags, and generative models as one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression

import genclf as gcf
from tests.costs import counted
from tests.laws.test_forms import FEATURES, LINEAR, QUADRATIC
from tests.processes import run
from tests.registry import assert_close, assert_finite

N, D, K = 499, 5, 3


def example(dtype="float64", n=N, seed=0):
    """Overlapping classes of unequal size, correlated features, far from zero."""
    rng = np.random.default_rng(seed)
    y = rng.choice(K, n, p=[0.5, 0.3, 0.2]).astype(np.int32)
    mix = np.eye(D) + 0.4 * rng.normal(size=(D, D))
    x = (rng.normal(size=(n, D)) + 0.7 * rng.normal(size=(K, D))[y]) @ mix + 3
    return x.astype(dtype), y


def softmax(features="linear", **kwargs):
    return gcf.SoftmaxRegression(K, features=features, **kwargs)


def objective(coef, intercept, x, w, l2, matrix=None):
    """The formula of the docstring, written out; w of shape (n, K)."""
    score = x @ coef.T + intercept[None]
    squares = (coef**2).sum()
    if matrix is not None:
        score = score + jnp.einsum("ni,kij,nj->nk", x, matrix, x)
        squares = squares + (matrix**2).sum()
    return -(w * jax.nn.log_softmax(score)).sum() / w.sum() + 0.5 * l2 * squares


def one_hot(y, weights=None):
    weights = np.ones(len(y)) if weights is None else weights
    return np.where(y[:, None] == np.arange(K), weights[:, None], 0.0)


# The minimum


@pytest.mark.slow
def test_vowel_errors(x64):
    data = gcf.datasets.load_vowel()
    params = gcf.fit(gcf.SoftmaxRegression(11), data.x_train, data.y_train)
    assert params.converged and not params.separable
    assert int((gcf.predict(params, data.x_train) != data.y_train).sum()) == 118
    assert int((gcf.predict(params, data.x_test) != data.y_test).sum()) == 237


@pytest.mark.slow
def test_vowel_errors_in_float32():
    data = gcf.datasets.load_vowel()
    params = gcf.fit(gcf.SoftmaxRegression(11), data.x_train, data.y_train)
    assert params.converged and not params.separable
    assert int((gcf.predict(params, data.x_train) != data.y_train).sum()) == 118
    assert int((gcf.predict(params, data.x_test) != data.y_test).sum()) == 237


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "quadratic"])
@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("soft", [False, True], ids=["labels", "responsibilities"])
def test_the_gradient_of_the_formula_is_zero(features, l2, soft, x64):
    x, y = example()
    rng = np.random.default_rng(1)
    weights = rng.uniform(0, 2, N)
    given = rng.dirichlet(np.ones(K), N) if soft else y
    w = given * weights[:, None] if soft else one_hot(y, weights)
    params = gcf.fit(softmax(features, l2=l2), x, given, weights)
    matrix, coef, intercept = gcf.quadratic_form(params)
    args = (coef, intercept, matrix) if features == "quadratic" else (coef, intercept)

    def loss(coef, intercept, matrix=None):
        return objective(coef, intercept, x, w, l2, matrix)

    scale = np.array([1.0, 10.0, 100.0][: len(args)])  # of the features, about 3 from zero
    for gradient, size in zip(jax.grad(loss, tuple(range(len(args))))(*args), scale, strict=True):
        assert float(jnp.abs(gradient).max()) < 1e-8 * size
    for leaf in args:
        np.testing.assert_allclose(leaf.sum(0), 0, atol=1e-9)


@pytest.mark.slow("False-0.01")
@pytest.mark.parametrize("l2", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(l2, weighted, x64):
    x, y = example()
    weights = np.random.default_rng(1).uniform(0, 2, N) if weighted else np.ones(N)
    params = gcf.fit(softmax(l2=l2), x, y, weights)
    peer = LogisticRegression(C=1 / (l2 * weights.sum()), solver="newton-cholesky", tol=1e-10)
    peer.fit(x - x.mean(0), y, weights)
    np.testing.assert_allclose(params.coef, peer.coef_, atol=1e-6)
    expected = peer.predict_log_proba(x - x.mean(0))
    np.testing.assert_allclose(gcf.log_posterior(params, x), expected, atol=1e-6)


@pytest.mark.slow
def test_agrees_with_scikit_learn_without_penalty_and_for_two_classes(x64):
    x, y = example()
    peer = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10)
    peer.fit(x - x.mean(0), y)
    params = gcf.fit(softmax(), x, y)
    np.testing.assert_allclose(params.coef, peer.coef_ - peer.coef_.mean(0), atol=1e-6)
    two = (y > 0).astype(np.int32)
    peer = LogisticRegression(C=2 / (0.01 * N), solver="newton-cholesky", tol=1e-10)
    peer.fit(x - x.mean(0), two)
    coef, _ = gcf.logistic_form(gcf.fit(gcf.SoftmaxRegression(2, l2=0.01), x, two))
    np.testing.assert_allclose(coef, peer.coef_[0], atol=1e-6)


@pytest.mark.slow("quadratic")
@pytest.mark.parametrize("features", ["linear", "quadratic"])
def test_units_and_origin_do_not_matter(features, x64):
    x, y = example()
    expected = gcf.log_posterior(gcf.fit(softmax(features), x, y), x)
    for unit, origin in ((1000.0, 1e4), (np.array([1e-6, 1, 1e5, 3, 10]), 7.0)):
        moved = x * unit + origin
        found = gcf.log_posterior(gcf.fit(softmax(features), moved, y), moved)
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "quadratic"])
def test_float32_is_close_to_float64_even_far_from_zero(features):
    x, y = example("float32")
    x = x + np.float32(1000)
    narrow = gcf.fit(softmax(features), x, y)
    assert narrow.converged and narrow.coef.dtype == np.float32
    found = np.exp(gcf.log_posterior(narrow, x))
    with jax.enable_x64(True):
        wide = gcf.fit(softmax(features), x.astype(np.float64), y)
        expected = np.exp(gcf.log_posterior(wide, x.astype(np.float64)))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.slow
def test_constant_and_duplicate_features_share_what_one_would_have(dtype):
    x, y = example(dtype)
    more = np.concatenate([x, x[:, :2], np.full((N, 1), 7, dtype), x[:, 2:3] + x[:, 3:4]], 1)
    params = gcf.fit(softmax(), more, y)
    assert params.converged and not params.separable
    tolerance = 1e-6 if dtype == np.float64 else 1e-3
    expected = gcf.log_posterior(gcf.fit(softmax(), x, y), x)
    np.testing.assert_allclose(gcf.log_posterior(params, more), expected, atol=tolerance)
    assert np.abs(params.coef).max() < 10


@pytest.mark.slow
def test_many_blocks_of_rows(x64):
    x, y = example(n=70_001)
    many = gcf.fit(softmax(), x, y)
    w = one_hot(y)
    coef, intercept = gcf.linear_form(many)
    gradient = jax.grad(objective, (0, 1))(coef, intercept, x, w, 0.0)
    assert max(float(jnp.abs(g).max()) for g in gradient) < 1e-8
    assert many.converged and not many.separable


# Rows


@pytest.mark.slow
def test_weight_is_repetition_and_unlabelled_rows_are_absent(x64):
    x, y = example()
    times = np.random.default_rng(2).integers(0, 4, N)
    expected = gcf.fit(softmax(l2=0.01), np.repeat(x, times, 0), np.repeat(y, times))
    found = gcf.fit(softmax(l2=0.01), x, y, times.astype(float))
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-7)
    broken = np.concatenate([x, np.full((7, D), np.nan)])
    unlabelled = np.concatenate([y, np.full(7, -1)])
    found = gcf.fit(softmax(), broken, unlabelled)
    assert_close(found.coef, gcf.fit(softmax(), x, y).coef, 1e-7)
    found = gcf.fit(softmax(), broken, np.maximum(unlabelled, 0), np.arange(N + 7) < N)
    assert_close(found.coef, gcf.fit(softmax(), x, y).coef, 1e-7)


@pytest.mark.slow
def test_a_class_without_weight_is_never_predicted(x64):
    x, y = example()
    params = gcf.fit(softmax(l2=0.01), x, np.where(y == 1, 0, y))
    assert params.converged and not params.separable
    assert params.intercept[1] == -np.inf
    np.testing.assert_array_equal(params.coef[1], 0)
    assert_finite(params.coef)
    expected = gcf.fit(gcf.SoftmaxRegression(2, l2=0.01), x, (y == 2).astype(np.int32))
    np.testing.assert_allclose(params.coef[jnp.array([0, 2])], expected.coef, atol=1e-7)
    nothing = jax.jit(gcf.fit)(softmax(), x, np.full(N, -1))
    np.testing.assert_allclose(np.exp(gcf.log_posterior(nothing, x)), 1 / K)


@pytest.mark.slow
def test_invalid_data_is_nan_and_validate_names_it(x64):
    x, y = example()
    bad_x, bad_y, bad_w = x.copy(), y.copy(), np.ones(N)
    bad_x[3, 1], bad_y[5], bad_w[7] = np.inf, K, -1
    for args, named in (
        ((bad_x, y), r"x\[3, 1\] is inf"),
        ((x, bad_y), r"y\[5\] is 3"),
        ((x, y, bad_w), r"weights\[7\] is -1"),
    ):
        params = jax.jit(gcf.fit)(softmax(), *args)
        assert np.isnan(params.coef).all() and np.isnan(params.intercept).all()
        assert not params.converged and not params.separable
        assert (gcf.predict(params, x) == -1).all()
        with pytest.raises(ValueError, match=named):
            gcf.validate(softmax(), *args)
    gcf.validate(softmax(), x, y)
    params = gcf.fit(softmax(), x, y)
    assert np.asarray(gcf.predict(params, bad_x))[3] == -1
    with pytest.raises(ValueError, match=r"x\[3, 1\] is inf"):
        gcf.validate(params, bad_x)


@pytest.mark.slow
def test_what_does_not_fit_says_so():
    x, y = example("float32")
    for clf, message in (
        (softmax(l2=-1.0), "l2 is -1.0, expected >= 0"),
        (gcf.SoftmaxRegression(0), "num_classes is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            gcf.fit(clf, x, y)
    with pytest.raises(ValueError, match="init has 3 classes of 2 features, expected 3 of 5"):
        gcf.fit(softmax(), x, y, init=gcf.fit(gcf.lda(K), x[:, :2], y))
    with pytest.raises(ValueError, match="closed form"):
        gcf.fit(gcf.lda(K), x, y, init=gcf.fit(gcf.lda(K), x, y))
    with pytest.raises(ValueError, match="quadratic"):
        gcf.softmax_form(gcf.fit(gcf.qda(K), x, y))
    quadratic = gcf.fit(softmax("quadratic", l2=0.1), x, y)
    with pytest.raises(ValueError, match="not linear; use quadratic_form"):
        gcf.linear_form(quadratic)
    bits, pair = np.eye(2, dtype=np.int32), np.arange(2)
    with pytest.raises(ValueError, match=r"feature 0 in class 0 is infinite.*alpha > 0"):
        gcf.softmax_form(gcf.fit(gcf.bernoulli_nb(2, alpha=0.0), bits, pair))


@pytest.mark.slow
def test_verbs_that_need_a_density_of_x_say_so():
    # Without the checks of types that the tests install: as users meet it.
    program = """
import numpy as np, jax, genclf as gcf
x, y, clf = np.eye(3), np.arange(3), gcf.SoftmaxRegression(3, l2=0.1)
params, s = gcf.fit(clf, x, y), gcf.stats(gcf.lda(3), x, y)
for call in (
    lambda: gcf.stats(clf, x, y), lambda: gcf.estimate(clf, s), lambda: gcf.diagnose(clf, x, y),
    lambda: gcf.log_joint(params, x), lambda: gcf.log_marginal(params, x),
    lambda: gcf.log_lik(params, s), lambda: gcf.sample(jax.random.key(0), params),
    lambda: gcf.with_prior(params, np.ones(3) / 3),
):
    try:
        call()
    except ValueError as error:
        print(error)
"""
    done = run(program)
    said = done.stdout.splitlines()
    assert len(said) == 8, done.stderr
    assert all("needs p(x, y), and Softmax" in line for line in said)


# Transformations


@pytest.mark.slow
def test_jit_and_vmap_are_the_same_fit(x64):
    sets = [example(seed=seed) for seed in range(3)]
    clf = softmax(l2=0.01)
    xs, ys = (np.stack(parts) for parts in zip(*sets, strict=True))
    many = jax.vmap(gcf.fit, (None, 0, 0))(clf, xs, ys)
    for i, (x, y) in enumerate(sets):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], many)
        for found in (gcf.fit(clf, x, y), jax.jit(gcf.fit)(clf, x, y)):
            np.testing.assert_allclose(found.coef, one.coef, atol=1e-7)
            np.testing.assert_allclose(
                gcf.log_posterior(found, x), gcf.log_posterior(one, x), atol=1e-7
            )
    path = jax.vmap(lambda l2: gcf.fit(softmax(l2=l2), *sets[0]))(np.array([0.1, 1.0]))
    expected = gcf.fit(softmax(l2=1.0), *sets[0])
    np.testing.assert_allclose(path.coef[1], expected.coef, atol=1e-7)


def test_no_compilation_on_the_second_call_nor_for_another_l2(x64):
    x, y = example()
    gcf.predict(gcf.fit(softmax(l2=0.1), x, y), x)
    with counted() as work:
        gcf.predict(gcf.fit(softmax(l2=0.2), x + 1, y), x)
    assert work.total() == 0


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "quadratic"])
def test_gradients_through_a_fit_are_those_of_finite_differences(features, x64):
    x, y = example()
    new_x, new_y = example(n=53, seed=0)
    rng = np.random.default_rng(3)
    row, cell = rng.normal(size=N), rng.normal(size=(N, D))

    def held_out(t):
        clf = softmax(features, l2=0.02 * jnp.exp(t[0]))
        params = gcf.fit(clf, x + t[2] * cell, y, jnp.exp(t[1] * row))
        return gcf.log_posterior(params, new_x)[jnp.arange(53), new_y].mean()

    score = jax.jit(held_out)
    found = jax.jit(jax.grad(held_out))(jnp.zeros(3))
    for i, step in enumerate(1e-3 * np.eye(3)):
        expected = (score(step) - score(-step)) / 2e-3
        assert abs(expected) > 1e-4
        np.testing.assert_allclose(found[i], expected, rtol=1e-4)


# Separable data


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["iris", "wine", "breast cancer", "dummy", "overlapping", "one wrong", "far apart"]
)
def test_separable_data_has_a_finite_answer_and_a_flag(name, dtype):
    rng = np.random.default_rng(5)
    if name == "iris":  # the first class alone is apart from the others
        x, y = load_iris(return_X_y=True)
    elif name == "wine":
        x, y = load_wine(return_X_y=True)
    elif name == "breast cancer":
        x, y = load_breast_cancer(return_X_y=True)
    elif name == "dummy":  # a feature that is 1 in one row alone
        x, y = example()
        x = np.concatenate([x, np.arange(N)[:, None] == 3], 1)
    elif name == "overlapping":
        x, y = example()
    else:
        y = np.arange(101) % 2
        x = rng.normal(size=(101, 2)) + 20 * y[:, None]
        if name == "one wrong":
            x[0] += 40
    clf = gcf.SoftmaxRegression(3)
    params = gcf.fit(clf, x.astype(dtype), y)
    assert params.converged
    # The slope that a single row has left in float32 is below the rounding of the others'.
    if not (name == "dummy" and dtype == np.float32):
        assert bool(params.separable) is (name not in ("overlapping", "one wrong"))
    assert_finite((params.coef, params.gradient_norm))
    again = gcf.fit(clf, x.astype(dtype), y, init=params)
    assert bool(again.separable) is bool(params.separable)
    penalised = gcf.fit(gcf.SoftmaxRegression(3, l2=1e-3), x.astype(dtype), y)
    assert penalised.converged and not penalised.separable


@pytest.mark.slow
def test_rows_of_weight_zero_do_not_make_data_inseparable(x64):
    rng = np.random.default_rng(5)
    y = np.arange(101) % 2
    x = rng.normal(size=(101, 2)) + 20 * y[:, None]
    x[0] += 40
    assert gcf.fit(gcf.SoftmaxRegression(2), x, y, np.arange(101) > 0).separable


# Generative models as a softmax


@pytest.mark.parametrize("model", LINEAR, ids=str)
def test_linear_generative_models_are_a_softmax(model, x64):
    params = gcf.fit(model.smooth, *model.example("float64"))
    x = model.example("float64", seed=1)[0]
    columns = jax.tree.leaves(FEATURES.get(model.name, lambda x: x)(x))
    columns = np.concatenate([np.asarray(column, np.float64) for column in columns], 1)
    found = gcf.log_posterior(gcf.softmax_form(params), columns)
    np.testing.assert_allclose(found, gcf.log_posterior(params, x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("model", QUADRATIC + LINEAR[:3], ids=str)
def test_quadratic_generative_models_are_a_softmax(model, x64):
    params = gcf.fit(model.classifier, *model.example("float64"))
    x = model.example("float64", seed=1)[0]
    found = gcf.log_posterior(gcf.softmax_form(params, features="quadratic"), x)
    np.testing.assert_allclose(found, gcf.log_posterior(params, x), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "quadratic"])
def test_a_fit_from_a_generative_one_ends_at_the_same_minimum(features, x64):
    x, y = example()
    clf = softmax(features)
    cold = gcf.fit(clf, x, y)
    first = gcf.fit(gcf.lda(K) if features == "linear" else gcf.qda(K), x, y)
    for init in (first, gcf.softmax_form(first, features=features)):
        warm = gcf.fit(clf, x, y, init=init)
        assert warm.converged and warm.steps <= cold.steps
        np.testing.assert_allclose(
            gcf.log_posterior(warm, x), gcf.log_posterior(cold, x), atol=1e-6
        )
    assert gcf.fit(clf, x, y, init=cold).steps == 1
    # The start is the generative posterior itself: no step is made where none is needed.
    posterior = np.exp(gcf.log_posterior(first, x))
    assert gcf.fit(clf, x, posterior, init=first).steps == 1


@pytest.mark.slow
def test_a_start_with_infinite_coefficients_is_only_a_start(x64):
    bits = np.array([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1], [0, 1], [1, 0], [0, 0]])
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    init = gcf.fit(gcf.bernoulli_nb(2, alpha=0.0), bits[:2], y[:2])
    clf = gcf.SoftmaxRegression(2, l2=0.1)
    found = jax.jit(lambda init: gcf.fit(clf, bits, y, init=init))(init)
    np.testing.assert_allclose(found.coef, gcf.fit(clf, bits, y).coef, atol=1e-7)


def steep(n):
    """2 n rows in order of their class, but for one pair side by side."""
    x = np.concatenate([np.linspace(0, 1, n), np.linspace(1 + 1 / n, 2, n)])[:, None]
    x[[n - 1, n]] = x[[n, n - 1]]
    return x, np.repeat([0, 1], n)


@pytest.mark.slow
@pytest.mark.parametrize("n", [61, 199])
def test_a_steep_minimum_is_not_separation(n, dtype):
    x, y = steep(n)
    params = gcf.fit(gcf.SoftmaxRegression(2), x.astype(dtype), y)
    assert params.converged and not params.separable


@pytest.mark.slow
def test_no_rows_are_not_separable(dtype):
    x, y = steep(7)
    nothing = np.zeros(14, dtype)
    fit = jax.jit(gcf.fit)  # which looks at no weight
    assert not fit(gcf.SoftmaxRegression(2), x.astype(dtype), y, nothing).separable
