"""Structures of covariances, beside loops in NumPy over what they say."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

import genclf as gcf
from genclf.sklearn import LinearDiscriminant, QuadraticDiscriminant

N, K, T, C = 101, 3, 3, 2
D = T * C


def rows(dtype=np.float64, n=N, d=D):
    rng = np.random.default_rng(0)
    y = (np.arange(n) % K).astype(np.int32)
    mix = np.eye(d) + 0.4 * rng.normal(size=(d, d))
    return (rng.normal(size=(K, d))[y] + rng.normal(size=(n, d)) @ mix).astype(dtype), y


def toeplitz(cov, times, channels, taper):
    """The mean over all pairs of times with a lag, pair by pair."""
    found = np.zeros_like(cov)
    of = lambda t: slice(t * channels, (t + 1) * channels)  # noqa: E731
    for s in range(times):
        for t in range(times):
            pairs = [(r, r + t - s) for r in range(times) if 0 <= r + t - s < times]
            mean = np.mean([cov[of(a), of(b)] for a, b in pairs], 0)
            found[of(s), of(t)] = mean * (1 - abs(t - s) / times if taper else 1)
    return found


def low_rank(cov, r):
    value, vector = np.linalg.eigh(cov)
    top = vector[:, -r:]
    noise = value[:-r].mean()
    return top @ np.diag(value[-r:]) @ top.T + noise * (np.eye(len(cov)) - top @ top.T)


def blocks(cov, sizes):
    ends = np.cumsum(sizes)
    return block_diag(*(cov[e - s : e, e - s : e] for s, e in zip(sizes, ends, strict=True)))


def to_half(cov):
    return 0.5 * (cov + jnp.diag(jnp.diag(cov)))


STRUCTURES = {
    "toeplitz": (gcf.BlockToeplitz(T, C), lambda s: toeplitz(s, T, C, True)),
    "one channel": (gcf.BlockToeplitz(D, 1), lambda s: toeplitz(s, D, 1, True)),
    "one time": (gcf.BlockToeplitz(1, D), lambda s: s),
    "no taper": (gcf.BlockToeplitz(T, C, taper=False), lambda s: toeplitz(s, T, C, False)),
    "low rank": (gcf.LowRank(2), lambda s: low_rank(s, 2)),
    "lowest rank": (gcf.LowRank(1), lambda s: low_rank(s, 1)),
    "highest rank": (gcf.LowRank(D - 1), lambda s: low_rank(s, D - 1)),
    "blocks": (gcf.Blocks((1, 3, 2)), lambda s: blocks(s, (1, 3, 2))),
    "own": (to_half, lambda s: 0.5 * (s + np.diag(np.diag(s)))),
}


@pytest.fixture(params=STRUCTURES)
def given(request):
    return STRUCTURES[request.param]


def covariances(x, y, shared, shrinkage):
    each = [(np.cov(x[y == k].T, bias=True), (y == k).sum()) for k in range(K)]
    if shared:
        each = [(sum(c * n for c, n in each) / len(y), len(y))]
    target = lambda s: np.trace(s) / D * np.eye(D)  # noqa: E731
    return [(1 - shrinkage) * s + shrinkage * target(s) for s, _ in each]


@pytest.mark.parametrize(("shared", "shrinkage"), [(True, 0.0), (False, 0.3)])
def test_the_covariance_is_that_of_numpy(given, shared, shrinkage):
    structure, expected = given
    with jax.enable_x64(True):
        x, y = rows()
        family = gcf.Gaussian(shared=shared, shrinkage=shrinkage, structure=structure)
        params = gcf.fit(gcf.Classifier(family, K), x, y)
        want = np.stack([expected(s) for s in covariances(x, y, shared, shrinkage)])
        found = np.asarray(params.conditional.covariances)
        np.testing.assert_allclose(found, np.broadcast_to(want, found.shape), 1e-12, 1e-12)
        mean = [x[y == k].mean(0) for k in range(K)]
        score = [multivariate_normal(mean[k], want[k % len(want)]).logpdf(x) for k in range(K)]
        np.testing.assert_allclose(
            gcf.log_joint(params, x), np.stack(score, 1) + np.log(np.bincount(y) / N), 1e-11
        )


UNITS = {"toeplitz": np.tile([3.0, 0.01], T), "blocks": 10.0 ** np.arange(D), "low rank": 1e3}


@pytest.mark.parametrize("name", UNITS)
def test_units_change_no_posterior(name, x64):
    """Of channels, the same at all times; of every feature of a block; of all features together."""
    x, y = rows()
    structure, _ = STRUCTURES[name]
    clf = gcf.Classifier(gcf.Gaussian(structure=structure), K)
    want = gcf.log_posterior(gcf.fit(clf, x, y), x)
    scaled = x * UNITS[name] + 7
    found = gcf.log_posterior(gcf.fit(clf, scaled, y), scaled)
    np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-9)


def test_fewer_rows_than_features_need_no_other_rule():
    """Lags have more pairs than there are rows: the structure makes the covariance regular."""
    with jax.enable_x64(True):
        x, y = rows(n=13, d=31)
        family = gcf.Gaussian(shared=True, structure=gcf.BlockToeplitz(31, 1))
        clf = gcf.Classifier(family, K)
        within = x - np.stack([x[y == k].mean(0) for k in range(K)])[y]
        want = toeplitz(within.T @ within / 13, 31, 1, True)
        found = gcf.fit(clf, x, y).conditional.covariances[0]
        np.testing.assert_allclose(found, want, 1e-12, 1e-12)
        found = gcf.diagnose(clf, x, y).conditional
        assert (found.rank == 31).all()
        deviation = np.sqrt(np.diag(want))
        condition = np.linalg.cond(want / deviation / deviation[:, None])
        np.testing.assert_allclose(found.condition, condition, 1e-9)


@pytest.mark.slow
def test_stationary_noise_is_learned_from_few_rows():
    """Eight channels of smooth noise at 20 times: two patterns apart, 100 rows."""
    times, channels, n = 20, 8, 100
    rng = np.random.default_rng(1)

    def draw(n):
        y = (np.arange(n) % 2).astype(np.int32)
        noise = rng.normal(size=(n, times + 4, channels))
        smooth = sum(w * noise[:, i : i + times] for i, w in enumerate((0.2, 0.6, 1, 0.6, 0.2)))
        mixed = smooth @ mix
        peak = np.exp(-0.5 * ((np.arange(times) - 11) / 2.0) ** 2)[:, None] * pattern
        return (mixed + 0.35 * (2 * y - 1)[:, None, None] * peak).reshape(n, -1), y

    mix, pattern = rng.normal(size=(channels, channels)), rng.normal(size=channels)
    auc = {}
    train, test = draw(n), draw(2003)
    for name, structure in (("plain", None), ("toeplitz", gcf.BlockToeplitz(times, channels))):
        family = gcf.Gaussian(shared=True, shrinkage="oas", structure=structure)
        params = gcf.fit(gcf.Classifier(family, 2), *train)
        score = np.asarray(gcf.log_posterior(params, test[0]))[:, 1]
        order = np.argsort(np.argsort(score))
        ones = test[1] == 1
        auc[name] = (order[ones].mean() - (ones.sum() - 1) / 2) / (~ones).sum()
    assert auc["toeplitz"] > auc["plain"] + 0.02


@pytest.mark.slow(
    "one channel", "one time", "no taper", "lowest rank", "highest rank", "toeplitz", "low rank"
)
def test_resampling_is_refitting(given):
    structure, _ = given
    with jax.enable_x64(True):
        x, y = rows()
        clf = gcf.Classifier(gcf.Gaussian(shared=True, shrinkage=0.1, structure=structure), K)
        folds = jnp.asarray(np.arange(N) % 5, jnp.int32)
        found = gcf.cross_validate(clf, x, y, folds).log_posterior
        for fold in range(5):
            train = np.arange(N) % 5 != fold
            params = gcf.fit(clf, x[train], y[train])
            want = gcf.log_posterior(params, x[~train])
            np.testing.assert_allclose(found[~train], want, 1e-9, 1e-9)


@pytest.mark.slow("29")
@pytest.mark.parametrize("n", [17, 29])
def test_left_out_rows_and_permuted_labels(n):
    with jax.enable_x64(True):
        x, y = rows(n=n, d=23)
        clf = gcf.Classifier(
            gcf.Gaussian(shared=True, shrinkage=0.2, structure=gcf.Blocks((11, 12))), K
        )
        found = gcf.leave_one_out(clf, x, y).log_posterior
        for i in range(0, n, 7):
            others = np.arange(n) != i
            want = gcf.log_posterior(gcf.fit(clf, x[others], y[others]), x[i])
            np.testing.assert_allclose(found[i], want, 1e-9, 1e-9)
        folds = jnp.asarray(np.arange(n) % 3, jnp.int32)
        test = gcf.permutation_test(jax.random.key(0), clf, x, y, folds, "accuracy", num=5)
        log_posterior = gcf.cross_validate(clf, x, y, folds).log_posterior
        assert test.observed == pytest.approx((np.argmax(np.asarray(log_posterior), 1) == y).mean())


@pytest.mark.slow
def test_a_searchlight_has_the_structure():
    x, y = rows(np.float32)
    folds = jnp.asarray(np.arange(N) % 3, jnp.int32)
    clf = gcf.Classifier(gcf.Gaussian(shared=True, structure=gcf.LowRank(1)), K)
    neighbours = np.array([[0, 1, 2], [3, 4, 5], [0, 2, 4]])
    found = gcf.searchlight(clf, x, y, neighbours, folds).score
    for one, columns in zip(found, neighbours, strict=True):
        log_posterior = gcf.cross_validate(clf, x[:, columns], y, folds).log_posterior
        assert one == pytest.approx((np.argmax(np.asarray(log_posterior), 1) == y).mean())


@pytest.mark.slow(
    "one channel",
    "one time",
    "no taper",
    "lowest rank",
    "highest rank",
    "low rank",
    "own",
    "toeplitz",
)
def test_derivatives_are_those_of_differences(given):
    structure, _ = given
    with jax.enable_x64(True):
        x, y = rows(n=31)

        def loss(shrinkage):
            family = gcf.Gaussian(shrinkage=shrinkage, structure=structure)
            return gcf.log_posterior(gcf.fit(gcf.Classifier(family, K), x, y), x)[0, 0]

        step = 1e-5
        want = (loss(0.3 + step) - loss(0.3 - step)) / (2 * step)
        np.testing.assert_allclose(jax.grad(loss)(0.3), want, 1e-6, 1e-8)


def test_a_derivative_is_finite_where_eigenvalues_are_equal():
    with jax.enable_x64(True):
        of = lambda cov: (gcf.LowRank(2)(cov) * jnp.arange(25.0).reshape(5, 5)).sum()  # noqa: E731
        cov = jnp.diag(jnp.array([3.0, 3.0, 1.0, 1.0, 1.0]))
        slope = jax.grad(of)(cov)
        assert jnp.isfinite(slope).all()
        step = jnp.zeros((5, 5)).at[0, 3].set(1e-6).at[3, 0].set(1e-6)
        want = (of(cov + step) - of(cov - step)) / 2e-6
        np.testing.assert_allclose(slope[0, 3] + slope[3, 0], want, 1e-8)


@pytest.mark.slow
def test_arguments_of_a_function_are_traced():
    x, y = rows(np.float32)

    def towards(share, cov):
        return (1 - share) * cov + share * jnp.diag(jnp.diag(cov))

    @jax.jit
    def loss(share):
        structure = jax.tree_util.Partial(towards, share)
        clf = gcf.Classifier(gcf.Gaussian(structure=structure), K)
        return gcf.log_posterior(gcf.fit(clf, x, y), x)[:, 0].sum()

    def by_closure(share):
        structure = lambda cov: towards(share, cov)  # noqa: E731
        clf = gcf.Classifier(gcf.Gaussian(structure=structure), K)
        return gcf.log_posterior(gcf.fit(clf, x, y), x)[:, 0].sum()

    slope = jax.grad(loss)(0.3)
    assert np.isfinite(slope) and slope != 0
    np.testing.assert_allclose(jax.jit(jax.grad(by_closure))(0.3), slope, 1e-4)
    many = jax.vmap(loss)(jnp.array([0.0, 0.5]))
    np.testing.assert_allclose(many, [loss(0.0), loss(0.5)], 1e-5)


@pytest.mark.slow(but=("toeplitz-LinearDiscriminant", "low rank-QuadraticDiscriminant"))
@pytest.mark.parametrize("estimator", [LinearDiscriminant, QuadraticDiscriminant])
@pytest.mark.parametrize("name", ["toeplitz", "low rank", "own"])
def test_many_data_sets_and_estimators_have_the_structure(name, estimator):
    x, y = rows(np.float32)
    structure, _ = STRUCTURES[name]
    family = gcf.Gaussian(shared=estimator is LinearDiscriminant, structure=structure)
    clf = gcf.Classifier(family, K)
    want = gcf.log_posterior(gcf.fit(clf, x, y), x)
    found = estimator(structure=structure).fit(x, y)
    np.testing.assert_allclose(found.predict_log_proba(x), want, 1e-3, 1e-4)
    both = np.stack([x, 2 * x]), np.stack([y, y])
    params = jax.vmap(gcf.fit, (None, 0, 0))(clf, *both)
    again = jax.vmap(gcf.log_posterior)(params, both[0])
    np.testing.assert_allclose(again[0], want, 1e-3, 1e-4)
    params = gcf.fit_many(clf, [(x, y), (2 * x[:50], y[:50])])
    first = jax.tree.map(lambda a: a[0], params)
    np.testing.assert_allclose(gcf.log_posterior(first, x), want, 1e-3, 1e-4)


def test_more_features_than_rows_keep_the_structure_also_with_a_shrinkage():
    """Without a structure such a fit is in the space of the rows."""
    with jax.enable_x64(True):
        x, y = rows(n=13, d=31)
        family = gcf.Gaussian(shared=True, shrinkage=0.5, structure=gcf.Blocks((11, 20)))
        found = gcf.fit(gcf.Classifier(family, K), x, y).conditional.covariances[0]
        plain = replace(family, structure=None)
        want = gcf.fit(gcf.Classifier(plain, K), x, y).conditional.covariances[0]
        np.testing.assert_allclose(found, blocks(np.asarray(want), (11, 20)), 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: {"structure": gcf.BlockToeplitz(2, 2)}, "BlockToeplitz has 2 times of 2 channels, and x has 6 features"),  # noqa: E501
        (lambda: {"structure": gcf.Blocks((2, 2))}, "Blocks has 4 features in groups of (2, 2), and x has 6"),  # noqa: E501
        (lambda: {"structure": gcf.LowRank(6)}, "LowRank has r=6 directions, expected fewer than the 6"),  # noqa: E501
        (lambda: {"structure": gcf.LowRank(0)}, "r of structure is 0"),
        (lambda: {"structure": gcf.Blocks((3, 0, 3))}, "sizes of structure is (3, 0, 3)"),
        (lambda: {"structure": "toeplitz"}, "structure is 'toeplitz', expected BlockToeplitz"),
        (lambda: {"structure": gcf.LowRank}, "structure is the class LowRank, expected"),
        (lambda: {"structure": lambda s: s[:2]}, "structure makes an array of shape (2, 6)"),
        (lambda: {"structure": lambda s: np.diag(np.diag(s))}, "structure calls NumPy on the covariance"),  # noqa: E501
        (lambda: {"structure": gcf.LowRank(1), "covariance": "diag"}, "a structure needs a full"),
        (lambda: {"structure": gcf.LowRank(1), "missing": "marginalize"}, "a structure needs a full"),  # noqa: E501
        (lambda: {"structure": gcf.LowRank(1), "prior": gcf.NormalInverseWishart()}, "structure and a prior are given"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make, message):
    x, y = rows(np.float32)
    with pytest.raises(ValueError) as error:
        gcf.fit(gcf.Classifier(gcf.Gaussian(**make()), K), x, y)
    assert message in str(error.value)


def test_a_structure_has_to_fit_the_features_of_each_place():
    x, y = rows(np.float32)
    folds, clf = (
        np.arange(N) % 3,
        gcf.Classifier(gcf.Gaussian(structure=gcf.BlockToeplitz(2, 1)), K),
    )
    at = lambda *neighbours: gcf.searchlight(clf, x, y, neighbours, folds).score  # noqa: E731
    pairs = at([0, 1], [4, 5])
    assert pairs.shape == (2,) and jnp.isfinite(pairs).all()
    with pytest.raises(ValueError, match=r"neighbours\[1\] has 3 features: BlockToeplitz has 2"):
        at([0, 1], [1, 2, 3])
    for verb in (gcf.sliding, gcf.generalise):
        with pytest.raises(ValueError, match="each time has 3 features: BlockToeplitz has 2"):
            verb(clf, x.reshape(N, 3, 2), y, folds)


@pytest.mark.parametrize("own", [jnp.triu, lambda s: s / 0])
def test_validate_names_a_function_whose_matrix_is_no_covariance(own):
    x, y = rows(np.float32)
    with pytest.raises(ValueError, match="structure makes a covariance that is not symmetric"):
        gcf.validate(gcf.Classifier(gcf.Gaussian(structure=own), K), x, y)


def test_what_has_no_maximum_likelihood_says_so():
    x, y = rows(np.float32)
    clf = gcf.Classifier(gcf.Gaussian(structure=gcf.LowRank(1)), K)
    params, stats = gcf.fit(clf, x, y), gcf.stats(clf, x, y)
    for call in (
        lambda: gcf.certify(clf, params, x, y),
        lambda: gcf.fit_lagrange(clf, stats),
        lambda: gcf.fit_gradient(clf, x, y),
    ):
        with pytest.raises(ValueError, match="a structure is given, and such an estimate does not"):
            call()
    with pytest.raises(ValueError, match="no conjugate prior that stands for structure"):
        gcf.posterior(clf, stats)
    with pytest.raises(ValueError, match="with structure the distances have no F distribution"):
        gcf.typicality_test(clf, stats)
    with pytest.raises(ValueError, match="EM cannot use structure"):
        gcf.em(clf, x, np.where(np.arange(N) % 2, y, -1))


@pytest.mark.parametrize("name", ["toeplitz", "low rank", "blocks"])
def test_files_hold_structures_but_no_functions(name, tmp_path):
    clf = gcf.Classifier(gcf.Gaussian(structure=STRUCTURES[name][0]), K)
    gcf.save(tmp_path / "clf.genclf", clf)
    assert gcf.load(tmp_path / "clf.genclf") == clf
    with pytest.raises(ValueError, match="cannot be saved: it is a function; save the"):
        gcf.save(tmp_path / "own.genclf", gcf.Classifier(gcf.Gaussian(structure=to_half), K))


def test_a_matrix_that_is_not_symmetric_is_nan():
    x, y = rows(np.float32)
    clf = gcf.Classifier(gcf.Gaussian(structure=lambda s: s.at[0, 1].add(1.0)), K)
    assert np.isnan(gcf.log_joint(gcf.fit(clf, x, y), x)).all()


@pytest.mark.parametrize(
    ("structure", "number"),
    [(gcf.LowRank(2), 2 * D), (gcf.Blocks((1, 5)), 1 + 15), (gcf.BlockToeplitz(T, C), 3 + 8)],
)
def test_free_numbers(structure, number):
    clf = gcf.Classifier(gcf.Gaussian(structure=structure), K)
    assert gcf.num_parameters(clf, D) == K - 1 + K * D + K * number


@pytest.mark.slow("structure1")
@pytest.mark.parametrize("structure", [gcf.BlockToeplitz(T, C), gcf.LowRank(2)])
def test_streams_and_tuning_have_the_structure(structure):
    x, y = rows(np.float32)
    family = gcf.Gaussian(structure=structure)
    of = lambda shrinkage: gcf.Classifier(replace(family, shrinkage=shrinkage), K)  # noqa: E731
    batches = [{"x": x[at], "y": y[at]} for at in (slice(50), slice(50, None))]
    clf = of(0.1)
    schema = gcf.Schema.scan(clf, batches, label="y")
    found = gcf.stream.fit_batches(clf, batches, schema).conditional.covariances
    want = gcf.fit(clf, x, y).conditional.covariances
    np.testing.assert_allclose(found, want, 1e-4, 1e-4)
    folds, grid = np.arange(N) % 3, [0.1, 0.5]
    scores = gcf.tune(of, {"shrinkage": grid}, x, y, folds).table["score"]
    each = [gcf.score(gcf.cross_validate(of(s), x, y, folds), y, "log_loss") for s in grid]
    np.testing.assert_allclose(scores, each, 1e-5)
