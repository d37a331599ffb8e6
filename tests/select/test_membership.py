"""p-values of rows, by formulas in NumPy; what they refuse, and where they are NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import genclf as gcf

pytestmark = pytest.mark.usefixtures("x64")

K, D = 3, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(47, D)) @ RNG.normal(size=(D, D)) + np.arange(47)[:, None] % K
Y = np.arange(47) % K
NEW = 2 * RNG.normal(size=(11, D))
FOLDS = np.arange(47) // 3 % 5


def of_f(covariance, shared, x=X, y=Y, new=NEW):
    """p-values by SciPy's F distribution."""
    found = np.zeros((len(new), K))
    centred = np.concatenate([x[y == k] - x[y == k].mean(0) for k in range(K)])
    for k in range(K):
        own, d = x[y == k], x.shape[1]
        n = len(own)
        scatter = centred.T @ centred if shared else n * np.cov(own.T, ddof=0).reshape(d, d)
        dof = len(x) - K if shared else n - 1
        from_mean = new - own.mean(0)
        if covariance == "spherical":
            t = n / (n + 1) * (from_mean**2).sum(1) / (np.trace(scatter) / (dof * d))
            found[:, k] = stats.f.sf(t / d, d, dof * d)
        else:
            solved = np.linalg.solve(scatter / dof, from_mean.T).T
            t = n / (n + 1) * (from_mean * solved).sum(1)
            found[:, k] = stats.f.sf(t * (dof - d + 1) / (dof * d), d, dof - d + 1)
    return found


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("covariance", ["full", "spherical"])
def test_by_f_it_is_the_published_formula(covariance, shared):
    clf = gcf.Classifier(gcf.Gaussian(covariance, shared=shared, ddof=1.0), K)
    found = gcf.typicality(clf, gcf.stats(clf, X, Y), NEW)
    np.testing.assert_allclose(found, of_f(covariance, shared), rtol=1e-7)


def test_of_one_feature_it_is_the_t_test():
    clf = gcf.gaussian_nb(K)
    found = gcf.typicality(clf, gcf.stats(clf, X[:, :1], Y), NEW[:, :1])
    own = [X[Y == k, 0] for k in range(K)]
    t = [(NEW[:, 0] - a.mean()) / (a.std(ddof=1) * (1 + 1 / len(a)) ** 0.5) for a in own]
    expected = [2 * stats.t.sf(np.abs(a), len(b) - 1) for a, b in zip(t, own, strict=True)]
    np.testing.assert_allclose(found, np.stack(expected, 1), rtol=1e-7)


def by_folds(clf, weights=None):
    w = np.ones(47) if weights is None else weights
    total = np.ones((len(NEW), K))
    for fold in range(5):
        train = FOLDS != fold
        params = gcf.fit(clf, X[train], Y[train], w[train])
        of_new, of_held = (np.asarray(params.conditional.log_prob(jnp.asarray(x)))
                           for x in (NEW, X[~train]))  # fmt: skip
        for k in range(K):
            own = Y[~train] == k
            below = of_held[own, k][None] <= of_new[:, k][:, None]
            total[:, k] += (below * w[~train][own]).sum(1)
    return total / (1 + np.bincount(Y, w))


@pytest.mark.slow("True-lda", "True-nb")
@pytest.mark.parametrize("clf", [gcf.lda(K), gcf.gaussian_nb(K)], ids=["lda", "nb"])
@pytest.mark.parametrize("weighted", [True, False])
def test_by_folds_it_is_the_rank_among_held_out_members(clf, weighted):
    weights = RNG.integers(0, 4, 47).astype(float) if weighted else None
    cv = gcf.cross_validate(clf, X, Y, FOLDS, weights, members=True)
    np.testing.assert_allclose(gcf.typicality(clf, cv, NEW), by_folds(clf, weights), rtol=1e-12)


def test_rows_that_are_no_members_do_not_count():
    clf = gcf.lda(K)
    folds = np.where(np.arange(47) % 7 == 0, -1, FOLDS)
    y = np.where(np.arange(47) % 11 == 1, -1, Y)
    cv = gcf.cross_validate(clf, X, y, folds, members=True)
    test = gcf.typicality_test(clf, cv)
    used = (folds >= 0) & (y >= 0)
    np.testing.assert_array_equal(test.count, np.bincount(y[used], minlength=K))
    far = gcf.typicality(clf, cv, 1e6 * NEW)
    np.testing.assert_allclose(far, np.tile(1 / (1 + np.asarray(test.count)), (11, 1)))


def test_a_member_ties_with_itself_and_the_mode_is_typical():
    clf = gcf.bernoulli_nb(K)
    bits = (X > 0).astype(int)
    cv = gcf.cross_validate(clf, bits, Y, FOLDS, members=True)
    p = np.asarray(gcf.typicality(clf, cv, bits))
    assert (p >= 2 / (1 + np.bincount(Y)).max()).all(0).any()
    assert (p[np.arange(47), Y] >= 2 / (1 + np.bincount(Y)[Y]) - 1e-12).mean() > 0.9


def test_both_maps_and_traced_code():
    clf = gcf.lda(K)
    each = np.stack([X, X + RNG.normal(size=X.shape)])
    for learned in (gcf.stats, lambda *a: gcf.cross_validate(*a, FOLDS, members=True)):
        one = lambda x, learned=learned: gcf.typicality(clf, learned(clf, x, Y), NEW)  # noqa: E731
        found = jax.jit(jax.vmap(one))(each)
        np.testing.assert_allclose(found, [one(x) for x in each], rtol=1e-9)
    p = gcf.typicality(clf, gcf.stats(clf, X, Y), NEW.reshape(11, 1, D))
    np.testing.assert_array_equal(p[:, 0], gcf.typicality(clf, gcf.stats(clf, X, Y), NEW))


def test_derivatives_are_finite_at_the_mean_too():
    clf = gcf.lda(K)
    total = lambda x, new: gcf.typicality(clf, gcf.stats(clf, x, Y), new).sum()  # noqa: E731
    centre = np.stack([X[Y == k].mean(0) for k in range(K)])
    for new in (NEW, centre, 1e8 * NEW):
        assert all(np.isfinite(g).all() for g in jax.grad(total, (0, 1))(jnp.asarray(X), new))
    cell = lambda t: total(X + t * np.eye(47, D), NEW)  # noqa: E731
    change = (cell(1e-6) - cell(-1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(cell)(0.0), change, rtol=1e-5)


@pytest.mark.parametrize(
    ("clf", "message"),
    [
        (gcf.gaussian_nb(K), 'covariance="diag"'),
        (gcf.lda(K, shrinkage=0.1), "with shrinkage"),
        (gcf.qda(K, ridge=0.1), "with ridge"),
        (gcf.rda(K, pooling=0.5, shrinkage=0.0), "with pooling"),
        (gcf.lda(K, prior=gcf.NormalInverseWishart()), "with prior"),
        (gcf.bernoulli_nb(K), "needs a Gaussian family"),
        (gcf.Classifier(gcf.Gaussian("spherical", missing="marginalize"), K), "with missing cells"),
    ],
    ids=str,
)
def test_where_f_does_not_hold_it_says_so(clf, message):
    x = (X > 0).astype(int) if isinstance(clf.family, gcf.Bernoulli) else X
    with pytest.raises(ValueError, match=f'{message}.*use method="folds"'):
        gcf.typicality(clf, gcf.stats(clf, x, Y), x)


def test_rows_that_do_not_determine_a_covariance():
    few = np.r_[np.arange(12), 12, 15]  # class 0 has 6 rows, the others 4
    for clf, x, y, message in (
        (gcf.qda(K), X[few], Y[few], "the rows of class 1 do not determine a covariance of 4"),
        (gcf.lda(K), np.c_[X, X[:, 0]], Y, "the rows of the classes together do not"),
        (gcf.lda(K), np.c_[X, np.ones(47)], Y, "the rows of the classes together do not"),
        (gcf.lda(K), X[:6], Y[:6], "at least 7 is needed"),
    ):
        stats_ = gcf.stats(clf, x, y)
        with pytest.raises(ValueError, match=message):
            gcf.typicality(clf, stats_, x)
        p = np.asarray(jax.jit(lambda s, x, clf=clf: gcf.typicality(clf, s, x))(stats_, x))
        assert np.isnan(p).any()
        assert not np.isfinite(p[:, 1:]).any()


def test_a_class_without_rows_has_no_p_value():
    clf = gcf.lda(K)
    y = np.where(Y == 2, 0, Y)
    for learned in (gcf.stats(clf, X, y), gcf.cross_validate(clf, X, y, FOLDS, members=True)):
        p = np.asarray(gcf.typicality(clf, learned, NEW))
        assert np.isnan(p[:, 2]).all()
        assert np.isfinite(p[:, :2]).all()


def test_rows_outside_the_support_are_nan():
    clf = gcf.lda(K)
    bad = np.where(np.arange(11)[:, None] == 3, np.nan, NEW)
    cv = gcf.cross_validate(clf, X, Y, FOLDS, members=True)
    for learned in (gcf.stats(clf, X, Y), cv):
        p = np.asarray(gcf.typicality(clf, learned, bad))
        assert np.isnan(p[3]).all()
        assert np.isfinite(np.delete(p, 3, 0)).all()


def test_learned_must_fit_the_method():
    clf = gcf.lda(K)
    cv = gcf.cross_validate(clf, X, Y, FOLDS)
    with pytest.raises(ValueError, match="learned has no members"):
        gcf.typicality(clf, cv, NEW)
    with pytest.raises(ValueError, match="method is 'f', and learned is CrossValidation"):
        gcf.typicality(clf, cv, NEW, method="f")
    with pytest.raises(ValueError, match="method is 'folds', and learned is ClassifierStats"):
        gcf.typicality(clf, gcf.stats(clf, X, Y), NEW, method="folds")
    with pytest.raises(ValueError, match="learned is of 3 classes, but clf has 5"):
        gcf.typicality(gcf.lda(5), cv, NEW)
    with pytest.raises(ValueError, match="expected one label for each row"):
        gcf.cross_validate(clf, X, np.eye(K)[Y], FOLDS, members=True)


def test_tests_are_saved(tmp_path):
    clf = gcf.qda(K)
    for learned in (gcf.stats(clf, X, Y), gcf.cross_validate(clf, X, Y, FOLDS, members=True)):
        test = gcf.typicality_test(clf, learned)
        gcf.save(tmp_path / "test.genclf", test)
        np.testing.assert_array_equal(gcf.load(tmp_path / "test.genclf")(NEW), test(NEW))


def test_more_features_than_rows():
    wide = RNG.normal(size=(47, 101))
    clf = gcf.lda(K, shrinkage=0.5)
    cv = gcf.cross_validate(clf, wide, Y, FOLDS, members=True)
    p = np.asarray(gcf.typicality(clf, cv, wide[:7] + 10))
    np.testing.assert_allclose(p, np.tile(1 / (1 + np.bincount(Y)), (7, 1)))


def test_coverage_and_novelty_are_shares_with_wilson_intervals():
    p = RNG.uniform(size=(53, K)) ** 3
    y = np.where(np.arange(53) % 9 == 0, -1, np.arange(53) % K)
    found = gcf.coverage(p, y, alpha=0.1)
    own = np.array([p[i, k] > 0.1 for i, k in enumerate(y)])
    for k in range(K):
        np.testing.assert_allclose(found.of_class.value[k], own[y == k].mean())
        interval = stats.binomtest(int(own[y == k].sum()), int((y == k).sum())).proportion_ci(
            method="wilson"
        )
        np.testing.assert_allclose(
            [found.of_class.lower[k], found.of_class.upper[k]], interval, rtol=1e-9
        )
    np.testing.assert_allclose(found.size, (p > 0.1).sum(1).mean())
    novel = gcf.novelty(p, alpha=0.1)
    np.testing.assert_allclose(novel.value, (p.max(1) <= 0.1).mean())
    np.testing.assert_allclose(found.empty.value, novel.value)
    assert np.isnan(gcf.novelty(p[:0]).value)
    assert gcf.novelty(np.full((7, K), np.nan)).value == 1
    with pytest.raises(ValueError, match=r"p\[2, 1\] is 1.5"):
        gcf.novelty(np.where(np.arange(53 * K).reshape(53, K) == 7, 1.5, p))
