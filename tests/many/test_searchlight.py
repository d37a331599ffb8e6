"""Searchlights beside a cross-validation of each neighbourhood, one after the other."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from nibabel import Nifti1Image
from nilearn.decoding import SearchLight
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

import genclf as gcf
from genclf.families.gaussian.padded import can_pad
from genclf.sklearn import CrossValidatedScore
from tests.costs import counted
from tests.registry import K

N, D = 43, 11
RUNS = np.arange(N) * 5 // N
NEIGHBOURS = [np.arange(max(0, i - 2), min(D, i + 3))[: 1 + i % 5] for i in range(D)]
MODELS = {
    "lda": gcf.lda(K),
    "lda-shrunk": gcf.lda(K, shrinkage=0.3),
    "correlations": gcf.Classifier(
        gcf.Gaussian(shared=True, shrinkage="james-stein", target="diagonal"), K
    ),
    "qda": gcf.qda(K, shrinkage="oas"),
    "spheres": gcf.Classifier(gcf.Gaussian("spherical"), K),
    "nb": gcf.gaussian_nb(K),
    "bernoulli": gcf.bernoulli_nb(K),
    "multinomial": gcf.multinomial_nb(K),
}


def data(dtype="float32", counts=False):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(N) % K)
    if counts:
        return rng.poisson(1.0 + y[:, None], size=(N, D)), y
    return (rng.normal(size=(N, D)) + 0.7 * y[:, None]).astype(dtype), y


def rows_of(name, dtype):
    x, y = data(dtype, name in ("bernoulli", "multinomial"))
    return (np.minimum(x, 1) if name == "bernoulli" else x), y


def one_by_one(clf, x, y, metric, weights=None):
    folds = [gcf.cross_validate(clf, x[:, near], y, RUNS, weights) for near in NEIGHBOURS]
    return np.array([gcf.score(cv, y, metric, weights=weights) for cv in folds])


def test_other_numbers_of_places_share_a_program():
    """A trial on some of the places compiles what all of them need."""
    x, y = data()
    scores = lambda places: gcf.searchlight(MODELS["lda-shrunk"], x, y, places, RUNS).score  # noqa: E731
    every = scores(NEIGHBOURS)
    for places in (slice(0, 10), slice(1, 10), slice(2, 11)):
        with counted() as work:
            some = scores(NEIGHBOURS[places])
        assert work["compilations"] == 0
        np.testing.assert_array_equal(some, every[places])


@pytest.mark.slow(
    but=(
        "float32-spheres",
        "float64-spheres",
    )
)
@pytest.mark.parametrize("name", MODELS)
def test_as_cross_validations(name, dtype):
    x, y = rows_of(name, dtype)
    weights = np.random.default_rng(1).uniform(0.5, 2, N).astype(dtype)
    found = gcf.searchlight(MODELS[name], x, y, NEIGHBOURS, RUNS, "log_loss", weights=weights)
    expected = one_by_one(MODELS[name], x, y, "log_loss", weights)
    np.testing.assert_allclose(found.score, expected, rtol=1e-9 if dtype == "float64" else 1e-4)
    assert found.p_value is None and found.null is None


PEERS = {"lda": LinearDiscriminantAnalysis("lsqr"), "nb": GaussianNB(var_smoothing=0)}


@pytest.mark.slow("nb")
@pytest.mark.parametrize("name", PEERS)
def test_three_places_as_scikit_learn(name):
    """With two permutations, of which each place sees the same."""
    rng = np.random.default_rng(0)
    x, y, runs = rng.normal(size=(23, 3)), np.arange(23) % 2, np.arange(23) % 3
    x[:, 1] += 2 * y
    places, one = [[0, 1], [2], [1, 0]], getattr(gcf, "gaussian_nb" if name == "nb" else name)(2)
    given = {"num": 2, "key": jax.random.key(1), "progress": None}
    found = gcf.searchlight(one, x, y, places, runs, "log_loss", **given)
    found = jax.tree.map(np.asarray, found)
    for near, score in zip(places, found.score, strict=True):
        log_p = np.concatenate([
            PEERS[name].fit(x[runs != fold][:, near], y[runs != fold]).predict_log_proba(
                x[runs == fold][:, near])[np.arange((runs == fold).sum()), y[runs == fold]]
            for fold in range(3)
        ])  # fmt: skip
        np.testing.assert_allclose(score, -log_p.mean(), rtol=1e-4)
    np.testing.assert_allclose(found.null[:, 0], found.null[:, 2], rtol=1e-5)
    for place in range(3):
        no_worse = (found.null[:, place] <= found.score[place]).sum()
        assert found.p_value[place] == pytest.approx((1 + no_worse) / 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lda", "lda-shrunk", "correlations", "nb"])
def test_permutations_are_the_same_at_all_places(name, x64):
    x, y = rows_of(name, "float64")
    key = jax.random.key(3)
    args = {"num": 23, "blocks": RUNS}
    found = gcf.searchlight(MODELS[name], x, y, NEIGHBOURS, RUNS, "log_loss", key=key, **args)
    for place in (0, 7):
        near = x[:, NEIGHBOURS[place]]
        one = gcf.permutation_test(key, MODELS[name], near, y, RUNS, "log_loss", **args)
        np.testing.assert_allclose(found.null[:, place], one.null, rtol=1e-9)
        assert found.p_value[place] == one.p_value
    best = np.asarray(found.null).min(1)
    worse = (best[:, None] <= np.asarray(found.score)).sum(0)
    np.testing.assert_allclose(found.p_corrected, (worse + 1) / 24)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lda-shrunk", "nb"])
def test_a_voxel_of_nan_is_nan_and_changes_no_other(name):
    x, y = rows_of(name, "float32")
    key = jax.random.key(0)
    run = lambda x: gcf.searchlight(MODELS[name], x, y, NEIGHBOURS, RUNS, num=7, key=key)  # noqa: E731
    whole = run(x)
    x[3, 4] = np.nan
    found = run(x)
    has = np.array([4 in near for near in NEIGHBOURS])
    assert np.isnan(found.score[has]).all() and np.isnan(found.p_value[has]).all()
    assert (np.asarray(found.score)[~has] == np.asarray(whole.score)[~has]).all()
    assert (np.asarray(found.null)[:, ~has] == np.asarray(whole.null)[:, ~has]).all()
    assert np.isfinite(found.p_corrected[~has]).all()


def test_which_densities_may_have_features_without_effect():
    """A sphere has one variance for all features; other families have no covariance to pad."""
    assert can_pad(gcf.Gaussian()) and can_pad(gcf.Gaussian("diag", shrinkage="oas"))
    for family in (
        gcf.Gaussian("spherical"), gcf.VonMisesFisher(), gcf.Mixture(gcf.Gaussian(), 2),
        gcf.Gaussian(prior=gcf.NormalInverseWishart()), gcf.Gaussian(missing="marginalize"),
        gcf.Gaussian(shared=True, soft_threshold=0.1),
    ):  # fmt: skip
        assert not can_pad(family)


@pytest.mark.slow
def test_neighbours_as_a_matrix():
    x, y = data()
    near = np.zeros((D, D), bool)
    for place, columns in enumerate(NEIGHBOURS):
        near[place, columns] = True
    lists = gcf.searchlight(MODELS["nb"], x, y, NEIGHBOURS, RUNS).score
    for matrix in (near, scipy.sparse.csr_array(near), scipy.sparse.coo_matrix(near * 0.5)):
        assert (gcf.searchlight(MODELS["nb"], x, y, matrix, RUNS).score == lists).all()


@pytest.mark.slow
def test_sliding(x64):
    rng = np.random.default_rng(0)
    x, y = data("float64")
    x = np.stack([x, rng.normal(size=(N, D)), x + rng.normal(size=(N, D))], -1)
    key = jax.random.key(0)
    found = gcf.sliding(MODELS["lda"], x, y, RUNS, "accuracy", num=19, key=key)
    for time in range(3):
        one = gcf.permutation_test(key, MODELS["lda"], x[..., time], y, RUNS, "accuracy", num=19)
        assert found.score[time] == one.observed and found.p_value[time] == one.p_value


@pytest.mark.slow
def test_in_the_searchlight_of_nilearn():
    rng = np.random.default_rng(0)
    volume, y = rng.normal(size=(3, 4, 3, N)), np.array(["cat", "face", "house"])[np.arange(N) % K]
    volume[1, 1, 1] += 3 * (y == "face")
    mask = Nifti1Image(np.ones((3, 4, 3), np.uint8), np.eye(4))
    estimator = CrossValidatedScore(MODELS["lda-shrunk"], "balanced_accuracy")
    light = SearchLight(mask, radius=1.1, estimator=estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it makes no folds
        light.fit(Nifti1Image(volume, np.eye(4)), y, groups=RUNS)
    places = np.argwhere(np.ones((3, 4, 3)))
    near = np.linalg.norm(places[:, None] - places[None], axis=-1) <= 1.1
    labels = np.unique(y, return_inverse=True)[1]
    found = gcf.searchlight(estimator.model, volume.reshape(-1, N).T, labels, near, RUNS)
    np.testing.assert_allclose(light.scores_.ravel(), found.score, rtol=1e-5)
    assert found.score.argmax() in np.flatnonzero(near[places.tolist().index([1, 1, 1])])


@pytest.mark.parametrize(
    ("neighbours", "message"),
    [
        ([[0, 1], []], r"neighbours\[1\] is .*at least one column"),
        ([[0, D]], rf"neighbours\[0\] holds {D}, expected different columns of x, 0..10"),
        ([[2, 2]], "holds a column twice"),
        (np.ones((2, 3), bool), "neighbours has 3 columns, expected 11"),
        (7, "neighbours is 7"),
    ],
    ids=["empty", "beyond", "twice", "matrix", "type"],
)
def test_neighbours_that_cannot_be(neighbours, message):
    x, y = data()
    with pytest.raises(ValueError, match=message):
        gcf.searchlight(MODELS["lda"], x, y, neighbours, RUNS)


@pytest.mark.parametrize("metric", ["confusion", lambda *_: np.zeros(2)])
def test_a_score_for_nilearn_is_one_number(metric):
    with pytest.raises(ValueError, match=r"metric is .* whose score has shape .* one number"):
        CrossValidatedScore(gcf.lda(K), metric=metric).fit(*data(), groups=RUNS)


def test_permutations_need_a_key():
    x, y = data()
    with pytest.raises(ValueError, match="num is 5, but key is None"):
        gcf.searchlight(MODELS["lda"], x, y, NEIGHBOURS, RUNS, num=5)
    with pytest.raises(ValueError, match="without permutations: give num"):
        gcf.searchlight(MODELS["lda"], x, y, NEIGHBOURS, RUNS, key=jax.random.key(0))
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda x: gcf.sliding(MODELS["lda"], x, y, RUNS).score)(jnp.ones((N, 2, 3)))
