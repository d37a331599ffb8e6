"""Kernel densities beside SciPy, scikit-learn and NumPy, and the laws of a fit to examples."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity as Peer

import genclf as gcf
from genclf.classifier import estimation
from genclf.families.kernels.kernel_sums import best_log_multiplier, leave_one_out
from tests.registry import (
    CLASS_SIZES,
    D,
    K,
    N,
    assert_close,
    assert_finite,
    assert_near,
    labels,
    reals,
    take,
)

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
RULES = {
    "scott": lambda n, d: n ** (-1 / (d + 4)),
    "silverman": lambda n, d: (n * (d + 2) / 4) ** (-1 / (d + 4)),
    0.3: lambda n, d: 0.3,
}
FAMILIES = {
    "joint": gcf.KernelDensity(),
    "leave-one-out": gcf.KernelDensity(leave_one_out=True),
    "independent": gcf.Independent(gcf.KernelDensity()),
    "product": gcf.Product({"a": gcf.KernelDensity(0.4), "b": gcf.Gaussian("diag")}),
}


def classifier(family=None, num_classes=K):
    return gcf.Classifier(gcf.KernelDensity() if family is None else family, num_classes)


def example(dtype, n=N, d=D, seed=0):
    """x, y and weights."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    return reals(rng, y, dtype, d), y, rng.exponential(size=n).astype(dtype)


def of_model(family, x):
    return {"a": x[:, :2], "b": x[:, 2:]} if isinstance(family, gcf.Product) else x


def effective(w):
    """Number of equal weights of which an average varies as much."""
    return w.sum() ** 2 / (w**2).sum()


@jax.jit
def _log_prob(params, x):
    return params.conditional.log_prob(x)


def log_prob(params, x):
    return np.asarray(_log_prob(params, x))


def assert_same_scores(found, expected, x, tolerance=1e-12):
    assert_close(found.log_prior, expected.log_prior, tolerance)
    np.testing.assert_allclose(
        log_prob(found, x), log_prob(expected, x), rtol=tolerance, atol=tolerance
    )


@pytest.mark.slow("float32-scott", "float64-scott")
@pytest.mark.parametrize("bandwidth", RULES)
def test_one_feature_is_that_of_scipy(bandwidth, dtype):
    x, y, weights = example(dtype, d=1)
    new = example(dtype, n=37, d=1, seed=1)[0]
    found = log_prob(gcf.fit(classifier(gcf.KernelDensity(bandwidth)), x, y, weights), new)
    for k in range(K):
        own, w = x[y == k, 0].astype(float), weights[y == k].astype(float)
        factor = RULES[bandwidth](effective(w), 1)
        if isinstance(bandwidth, str):
            own_rule = gaussian_kde(own, bandwidth, w)
            np.testing.assert_allclose(factor, own_rule.factor, rtol=1e-6)
        # SciPy's factor is that of the unbiased deviation.
        unbiased = np.sqrt(np.cov(own, aweights=w))
        deviation = np.sqrt(np.average((own - np.average(own, weights=w)) ** 2, weights=w))
        peer = gaussian_kde(own, factor * deviation / unbiased, w)
        tolerance = TOLERANCE[dtype.name]
        expected = peer.logpdf(new[:, 0].astype(float))
        np.testing.assert_allclose(found[:, k], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.slow("float32-True", "float64-True")
@pytest.mark.parametrize("of_rest", [False, True])
def test_missing_cells_are_no_evidence(of_rest, dtype):
    """Columns with missing cells are those of the rows that have them."""
    x, y, weights = example(dtype)
    holes = np.where(np.random.default_rng(7).random(x.shape) < 0.3, np.nan, x).astype(dtype)
    holes[y == 1, 2] = np.nan  # a class without a cell of a feature
    alone = gcf.KernelDensity(0.4, leave_one_out=of_rest)
    family = gcf.Independent(replace(alone, missing="marginalize"))
    new = np.where(np.arange(37 * D).reshape(37, D) % 5 == 0, np.nan, example(dtype, 37, D, 1)[0])
    found = log_prob(gcf.fit(classifier(family), holes, y, weights), new.astype(dtype))
    expected = np.zeros((37, K))
    for j in range(D):
        seen, own = ~np.isnan(holes[:, j]), ~np.isnan(new[:, j])
        one = gcf.fit(classifier(alone), holes[seen, j, None], y[seen], weights[seen])
        expected[own] += log_prob(one, new[own, j, None].astype(dtype))
    tolerance = TOLERANCE[dtype.name]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    with pytest.raises(ValueError, match="is for one feature, got 5: wrap the family in Indep"):
        gcf.fit(classifier(family.family), holes, y, weights)


@pytest.mark.slow("float32-scott")
@pytest.mark.parametrize("bandwidth", RULES)
def test_many_features_are_those_of_scikit_learn(bandwidth, dtype):
    x, y, weights = example(dtype)
    new = example(dtype, n=37, seed=1)[0]
    found = log_prob(gcf.fit(classifier(gcf.KernelDensity(bandwidth)), x, y, weights), new)
    for k in range(K):
        own, w = x[y == k].astype(float), weights[y == k].astype(float)
        mean = np.average(own, axis=0, weights=w)
        width = np.sqrt(np.average((own - mean) ** 2, axis=0, weights=w))
        width = width * RULES[bandwidth](effective(w), D)
        peer = Peer(bandwidth=1.0, rtol=0).fit(own / width, sample_weight=w)
        expected = peer.score_samples(new.astype(float) / width) - np.log(width).sum()
        tolerance = TOLERANCE[dtype.name]
        np.testing.assert_allclose(found[:, k], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_independent_columns_are_a_sum(dtype):
    x, y, _ = example(dtype)
    found = log_prob(gcf.fit(classifier(FAMILIES["independent"]), x, y), x[:11])
    columns = [
        log_prob(gcf.fit(classifier(), x[:, j : j + 1], y), x[:11, j : j + 1]) for j in range(D)
    ]
    tolerance = TOLERANCE[dtype.name]
    np.testing.assert_allclose(found, sum(columns), rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_responsibilities_of_one_class_are_labels():
    x, y, weights = example(float)
    hard = gcf.fit(classifier(), x, y, weights)
    soft = gcf.fit(classifier(), x, np.eye(K)[y], weights)
    assert_same_scores(soft, hard, x[:13])


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_responsibilities_are_weights_of_each_class():
    x, y, _ = example(float)
    shares = np.random.default_rng(3).dirichlet(np.ones(K), N)
    found = log_prob(gcf.fit(classifier(), x, shares), x[:13])
    for k in range(K):
        one = gcf.fit(classifier(num_classes=1), x, 0 * y, shares[:, k])
        assert_near(found[:, k], log_prob(one, x[:13])[:, 0], 1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["joint", "independent", "product"])
def test_weight_k_is_k_repetitions(name):
    """Of a given bandwidth. A rule of thumb counts a row that occurs k times as k examples, and a
    row of weight k as one, since weights are often no counts (of inverse sampling rates, or shares
    that add up to 1): its number of examples is Kish's, as in SciPy."""
    number = gcf.KernelDensity(0.4)
    families = {"joint": number, "independent": gcf.Independent(number)}
    clf = classifier(families.get(name, FAMILIES[name]))
    x, y, _ = example(float)
    times = np.arange(N) % 4
    rows = np.repeat(np.arange(N), times)
    x = of_model(clf.family, x)
    assert_same_scores(
        gcf.fit(clf, x, y, times), gcf.fit(clf, take(x, rows), y[rows]), take(x, slice(13))
    )


@pytest.mark.slow(
    "float32-False-7.0", "float32-True-1e-30", "float64-False-7.0", "float64-True-1e-30"
)
@pytest.mark.parametrize("factor", [1e-30, 7.0, 1e30])
@pytest.mark.parametrize("soft", [False, True])
def test_the_unit_of_weights_does_not_matter(factor, soft, dtype):
    x, y, weights = example(dtype)
    labels = np.eye(K, dtype=dtype)[y] if soft else y
    expected = gcf.fit(classifier(), x, labels, weights).conditional.bandwidth
    found = gcf.fit(classifier(), x, labels, weights * dtype.type(factor)).conditional.bandwidth
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype.name])


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "how"),
    [("joint", "weight 0"), ("independent", "label -1"), ("leave-one-out", "soft label 0")],
)
def test_absent_rows_leave_no_trace(name, how):
    clf = classifier(FAMILIES[name])
    x, y, _ = example(float)
    present = np.arange(N) < 43
    expected = gcf.fit(clf, x[:43], y[:43])
    new = jnp.asarray(x[:13])
    x[43:] = np.nan

    def fitted(weights):
        if how == "weight 0":
            return gcf.fit(clf, x, y, weights)
        if how == "label -1":
            return gcf.fit(clf, x, np.where(present, y, -1).astype(np.int32), weights)
        return gcf.fit(clf, x, np.eye(K)[y] * present[:, None], weights)

    assert_same_scores(fitted(present.astype(float)), expected, new)
    total = lambda w: fitted(w).conditional.log_prob(new).sum()  # noqa: E731
    assert_finite(jax.jit(jax.grad(total))(jnp.asarray(present.astype(float))))


@pytest.mark.slow("leave-one-out", "product")
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", FAMILIES)
def test_the_order_of_rows_does_not_matter(name):
    clf = classifier(FAMILIES[name])
    x, y, weights = example(float)
    order = np.random.default_rng(3).permutation(N)
    x = of_model(clf.family, x)
    shuffled = gcf.fit(clf, take(x, order), y[order], weights[order])
    assert_same_scores(shuffled, gcf.fit(clf, x, y, weights), take(x, slice(13)))


@pytest.mark.slow(
    "float32-independent-1073741824.0",
    "float32-joint-9.313225746154785e-10",
    "float64-independent-9.313225746154785e-10",
    "float64-joint-1073741824.0",
    "float64-leave-one-out-9.313225746154785e-10",
    "float32-joint-1073741824.0",
    "float32-leave-one-out-1073741824.0",
    "float64-joint-9.313225746154785e-10",
    "float64-leave-one-out-1073741824.0",
)
@pytest.mark.parametrize("scale", [2.0**-30, 2.0**30])
@pytest.mark.parametrize("name", ["joint", "leave-one-out", "independent"])
def test_no_unit_matters(name, scale, dtype):
    clf = classifier(FAMILIES[name])
    x, y, _ = example(dtype)
    x[y == 1, 2] = 3.0  # constant in one class
    x[:, 3] = 0.7  # in all
    scaled = x * dtype.type(scale)
    found = gcf.log_posterior(gcf.fit(clf, scaled, y), scaled[:13])
    expected = gcf.log_posterior(gcf.fit(clf, x, y), x[:13])
    assert_finite(expected)
    assert_near(found, expected, TOLERANCE[dtype.name])


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", FAMILIES)
def test_jit_of_vmap_is_eager(name):
    clf = classifier(FAMILIES[name])
    sets = [example(float, n=41, seed=seed) for seed in range(2)]
    xs, ys, ws = (np.stack(arrays) for arrays in zip(*sets, strict=True))
    new = of_model(clf.family, xs[0][:7])
    score = lambda x, y, w: gcf.log_joint(gcf.fit(clf, of_model(clf.family, x), y, w), new)  # noqa: E731
    found = jax.jit(jax.vmap(score))(xs, ys, ws)
    for i in range(2):
        np.testing.assert_allclose(found[i], score(xs[i], ys[i], ws[i]), rtol=1e-10, atol=1e-10)


def test_another_number_compiles_nothing():
    x, y, _ = example("float32")
    params = gcf.fit(classifier(gcf.KernelDensity(0.3)), x, y)
    before = estimation._fit_closed._cache_size()
    other = gcf.fit(classifier(gcf.KernelDensity(0.7)), x, y)
    assert estimation._fit_closed._cache_size() == before
    ratio = other.conditional.bandwidth / params.conditional.bandwidth
    np.testing.assert_allclose(ratio, 7 / 3, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("soft", [False, True])
def test_more_than_a_block_and_a_tile_is_the_same_density(soft):
    n, m = 20_011, 1_511  # of examples, many tiles; of rows, more than a block
    x, y, weights = example(float, n, d=2)
    new = example(float, m, d=2, seed=1)[0]
    params = gcf.fit(classifier(), x, np.eye(K)[y] if soft else y, weights)
    assert len(params.conditional.label) > 20 and params.conditional.weight.shape[1] == 512
    found, some = log_prob(params, new), np.r_[0:7, m - 7 : m]
    for k in range(K):
        z = (new[some][:, None] - x[y == k]) / np.asarray(params.conditional.bandwidth[k])
        terms = -0.5 * (z**2).sum(-1) + np.log(weights[y == k] / weights[y == k].sum())
        norm = np.log(2 * np.pi) + np.log(params.conditional.bandwidth[k]).sum()
        assert_near(found[some, k], logsumexp(terms, 1) - norm, 1e-11)


@pytest.mark.usefixtures("x64")
def test_the_density_integrates_to_one():
    x, y, weights = example(float, d=1)
    at = np.linspace(x.min() - 10, x.max() + 10, 20_001)
    density = np.exp(log_prob(gcf.fit(classifier(), x, y, weights), at[:, None]))
    np.testing.assert_allclose(np.trapezoid(density, at, axis=0), 1, rtol=1e-10)


@pytest.mark.slow("independent")
@pytest.mark.parametrize("name", ["joint", "independent"])
def test_draws_have_the_moments_of_the_density(name):
    x, y, weights = example("float32")
    params = gcf.fit(classifier(FAMILIES[name]), x, y, weights)
    draws = 100_003
    y_new = jnp.arange(draws) % K
    found = np.asarray(params.conditional.sample(jax.random.key(0), y_new))
    assert found.shape == (draws, D)
    for k in range(K):
        own, w = x[y == k], weights[y == k]
        mean = np.average(own, axis=0, weights=w)
        spread = np.average((own - mean) ** 2, axis=0, weights=w)
        factor = effective(w) ** (-1 / 5 if name == "independent" else -1 / (D + 4))
        drawn = found[np.asarray(y_new) == k]
        sd = np.sqrt(spread * (1 + factor**2))
        np.testing.assert_allclose((drawn.mean(0) - mean) / sd, 0, atol=0.03)
        np.testing.assert_allclose(drawn.std(0) / sd, 1, atol=0.03)


def test_draws_come_from_examples_with_weight():
    x, y, weights = example("float32", d=1)
    weights[::2] = 0
    x[::2] = 1e6
    params = gcf.fit(classifier(gcf.KernelDensity(1e-6)), x, y, weights)
    y_new = jnp.arange(10_007) % K
    found = np.asarray(params.conditional.sample(jax.random.key(1), y_new))[:, 0]
    for k in range(K):
        drawn = found[np.asarray(y_new) == k]
        distance = np.abs(drawn[:, None] - x[(y == k) & (weights > 0), 0])
        assert distance.min(1).max() < 1e-3
        shares = np.bincount(distance.argmin(1)) / len(drawn)
        w = weights[(y == k) & (weights > 0)]
        np.testing.assert_allclose(shares, w / w.sum(), atol=0.02)


def left_out(x, weight, width):
    """`Σ_n w_n log p_{-n}(x_n)` of one class."""
    half = 0.5 * (((x[:, None] - x) / width) ** 2).sum(-1)
    np.fill_diagonal(half, np.inf)
    density = logsumexp(np.log(weight) - half, axis=1) - np.log(weight.sum() - weight)
    return (weight * (density - np.log(width).sum())).sum()


@pytest.mark.slow("scott", "0.1")
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("bandwidth", ["scott", 0.1, 3.0])
def test_leave_one_out_is_that_of_numpy(bandwidth):
    x, y, weights = example(float, d=2)
    params = gcf.fit(classifier(gcf.KernelDensity(bandwidth)), x, y, weights).conditional
    clf = classifier(gcf.KernelDensity(bandwidth, leave_one_out=True))
    chosen = gcf.fit(clf, x, y, weights).conditional.bandwidth
    tried = np.linspace(-2, 2, 7)
    spread = jnp.asarray(np.stack([tried] * K, 1))
    found = leave_one_out(*jax.tree.leaves(params), spread)
    for k in range(K):
        own, w = x[y == k], weights[y == k] / weights[y == k].sum()
        score = lambda width: left_out(own, w, width)  # noqa: B023, E731
        width = np.asarray(params.bandwidth[k])
        expected = np.array([score(np.exp(u) * width) for u in tried])
        np.testing.assert_allclose(found[:, k] - found[0, k], expected - expected[0], atol=1e-10)
        best = np.asarray(chosen[k])
        assert score(best) >= max(score(best * f) for f in (0.5, 0.97, 1.03, 2.0))
        np.testing.assert_allclose(best / best[0], width / width[0])
        on_grid = 81 * np.log2(best[0] / width[0])  # the finest of the grids
        np.testing.assert_allclose(on_grid, np.round(on_grid), atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_leave_one_out_of_few_rows_is_that_of_numpy():
    rng = np.random.default_rng(0)
    examples, weight = rng.normal(size=(3, 5, 1)), rng.uniform(0.5, 2, (3, 5))
    weight[1, 4], label = 0, np.array([0, 0, 1])  # the last row of a class is none
    bandwidth, tried = np.array([[0.3], [0.7]]), np.array([-1.0, 0, 0.5])
    given = [jnp.asarray(a) for a in (examples, weight, label, bandwidth)]
    found = leave_one_out(*given, jnp.asarray(np.stack([tried, tried], 1)))
    best = np.asarray(best_log_multiplier(*given))
    for k in range(2):
        x, w = (a[label == k].reshape(-1) for a in (examples, weight))
        score = lambda u: left_out(x[w > 0, None], w[w > 0], np.exp(u) * bandwidth[k])  # noqa: B023, E731
        expected = np.array([score(u) for u in tried])
        np.testing.assert_allclose(found[:, k] - found[0, k], expected - expected[0], atol=1e-12)
        assert score(best[k]) > max(score(best[k] - 0.05), score(best[k] + 0.05))


@pytest.mark.slow("float32")
def test_leave_one_out_of_many_tiles(dtype):
    x, y, _ = example(dtype, n=2003, d=1)
    params = gcf.fit(classifier(), x, y).conditional
    assert len(params.label) > 2 * K
    found = leave_one_out(*jax.tree.leaves(params), jnp.array([[-1.0], [1.0]]).repeat(K, 1))
    for k in range(K):
        own, w = x[y == k].astype(float), np.full((y == k).sum(), 1 / (y == k).sum())
        low, high = (left_out(own, w, f * np.asarray(params.bandwidth[k])) for f in np.exp([-1, 1]))
        np.testing.assert_allclose(found[1, k] - found[0, k], high - low, atol=1e-5)


@pytest.mark.slow
def test_repeated_rows_take_the_multiplier_to_its_end():
    x, y, _ = example("float32")
    twice = np.r_[0:N, 0:N]
    params = gcf.fit(classifier(), x[twice], y[twice]).conditional
    clf = classifier(FAMILIES["leave-one-out"])
    ratio = gcf.fit(clf, x[twice], y[twice]).conditional.bandwidth / params.bandwidth
    np.testing.assert_allclose(ratio, 1 / 22, rtol=0.03)
    weighed = gcf.fit(clf, x, y, np.full(N, 2.0)).conditional.bandwidth
    assert (weighed > 5 * ratio * params.bandwidth).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["joint", "leave-one-out", "independent"])
def test_empty_single_and_constant_classes_are_finite(name):
    clf, dtype = classifier(FAMILIES[name], num_classes=5), np.dtype("float32")
    x, y, _ = example(dtype)
    y[y == 2] = 3  # no row of class 2; one of class 4; class 1 is constant
    y[0], x[y == 1] = 4, 2.5
    new = example(dtype, n=7, seed=1)[0]

    def score(x, w, new):
        return gcf.fit(clf, x, y, w).conditional.log_prob(new).sum()

    params = gcf.fit(clf, x, y)
    assert_finite(log_prob(params, new))
    assert_finite(
        jax.jit(jax.grad(score, (0, 1, 2)))(jnp.asarray(x), jnp.ones(N, dtype), jnp.asarray(new))
    )
    assert np.isneginf(params.log_prior[2])
    assert not (gcf.predict(params, new) == 2).any()
    # One example, or examples that are all alike, are one bump, as wide as the classes together.
    single = params.conditional
    if name == "joint":
        typical = np.sqrt(sum(x[y == k].var(0) * (y == k).sum() for k in (0, 1, 3, 4)) / N)
        np.testing.assert_allclose(single.bandwidth[4], typical, rtol=1e-4)
        factor = (y == 1).sum() ** (-1 / (D + 4))
        np.testing.assert_allclose(single.bandwidth[1], factor * typical, rtol=1e-4)


def test_no_labelled_row_at_all_is_finite():
    x, y, _ = example("float32")
    params = jax.jit(gcf.fit)(classifier(), x, np.full_like(y, -1))
    assert_finite(log_prob(params, x[:3]))


@pytest.mark.slow
def test_far_rows_are_finite_and_the_farthest_impossible():
    x, y, _ = example("float32")
    params = gcf.fit(classifier(), x, y)
    far = np.stack([x[0] + 1e4, x[0] + 1e30])
    found = log_prob(params, far)
    assert np.isfinite(found[0]).all() and np.isneginf(found[1]).all()
    assert_finite(jax.grad(lambda x: params.conditional.log_prob(x)[0].sum())(jnp.asarray(far)))


def test_what_is_invalid_is_nan():
    x, y, weights = example("float32")
    params = gcf.fit(classifier(), x, y)
    found = log_prob(params, np.stack([x[0], x[0] * np.nan, x[0] * np.inf]))
    assert np.isfinite(found[0]).all() and np.isnan(found[1:]).all()
    for bad in (
        jax.jit(gcf.fit)(classifier(), x, np.where(y == 0, K, y)),
        gcf.fit(classifier(), x, y, -weights),
    ):
        assert np.isnan(log_prob(bad, x[:3])).all()


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("wrap", "soft"), [(lambda family: family, False), (gcf.Independent, True)]
)
def test_derivatives_are_finite_differences(wrap, soft):
    x, y, weights = (jnp.asarray(a) for a in example(float, n=41, d=2))
    weights = weights.at[:3].set(0)  # the derivative by the weight of an absent row too
    labels = jnp.asarray(np.random.default_rng(3).dirichlet(np.ones(K), 41)) if soft else y
    new = jnp.asarray(example(float, n=5, d=2, seed=1)[0])

    @jax.jit
    def score(x, weights, bandwidth, new):
        clf = classifier(wrap(gcf.KernelDensity(bandwidth)))
        return (gcf.fit(clf, x, labels, weights).conditional.log_prob(new) ** 2).sum()

    at = (x, weights, jnp.asarray(0.4), new)
    change = jax.tree.map(lambda a: jnp.asarray(np.random.default_rng(5).normal(size=a.shape)), at)
    change = (change[0], jnp.abs(change[1]), *change[2:])
    found = jax.jit(jax.grad(score, (0, 1, 2, 3)))(*at)
    for i in range(4):
        alone = [jnp.zeros_like(a) if j != i else a for j, a in enumerate(change)]
        moved = lambda h: score(*(a + h * da for a, da in zip(at, alone, strict=True)))  # noqa: B023, E731
        # One-sided, of second order, since a weight below 0 is invalid.
        h = 1e-6
        expected = (4 * moved(h) - moved(2 * h) - 3 * moved(0)) / (2 * h)
        np.testing.assert_allclose((found[i] * change[i]).sum(), expected, rtol=2e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_derivatives_take_the_multiplier_for_a_constant():
    x, y, _ = example(float, n=41, d=2)
    clf = classifier(FAMILIES["leave-one-out"])
    ratio = (
        gcf.fit(clf, x, y).conditional.bandwidth / gcf.fit(classifier(), x, y).conditional.bandwidth
    )

    def plain(x):
        return (ratio * gcf.fit(classifier(), x, y).conditional.bandwidth).sum()

    found = jax.grad(lambda x: gcf.fit(clf, x, y).conditional.bandwidth.sum())(jnp.asarray(x))
    expected = jax.grad(plain)(jnp.asarray(x))
    assert_near(found, expected, 1e-9, terms=expected)


@pytest.mark.parametrize("bandwidth", ["scots", 0.0, -1.0, np.inf, np.nan])
def test_an_invalid_bandwidth_is_named(bandwidth):
    x, y, _ = example("float32")
    with pytest.raises(ValueError, match=r"bandwidth is .*, expected scott, silverman or a"):
        gcf.fit(classifier(gcf.Independent(gcf.KernelDensity(bandwidth))), x, y)


def test_there_are_no_statistics():
    x, y, _ = example("float32")
    clf = classifier()
    params = gcf.fit(clf, x, y)
    s = gcf.stats(gcf.gaussian_nb(K), x, y)
    calls = [
        lambda: gcf.stats(clf, x, y),
        lambda: gcf.estimate(clf, s),
        lambda: gcf.log_lik(params, s),
        lambda: gcf.num_parameters(clf, D),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="needs sufficient statistics, and KernelDensity"):
            call()
    assert gcf.diagnose(clf, x, y).conditional is None


def test_validate_reads_the_cells():
    x, y, _ = example("float32")
    gcf.validate(classifier(), x, y)
    x[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"x\[7, 2\] is nan"):
        gcf.validate(classifier(), x, y)


def test_integers_and_one_example_at_a_time():
    x, y, _ = example("float32")
    whole = np.round(10 * x)
    params = gcf.fit(classifier(), whole.astype(np.int32), y)
    assert params.num_features == params.conditional.num_features == D
    assert len(params.conditional.bandwidth) == len(CLASS_SIZES)
    found = gcf.log_joint(params, whole[:6].astype(np.int32).reshape(2, 3, D))
    one = gcf.log_joint(gcf.fit(classifier(), whole, y), whole[5])
    assert_near(found[1, 2], one, 1e-5)
