"""Fits of one model to many data sets beside fits to each of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from tests.costs import counted
from tests.registry import BY_NAME, K, assert_close

MODELS = ["gaussian", "gaussian-shared", "gaussian-diag", "bernoulli", "multinomial"]
ROWS = [7, 31, 13, 41, 29, 17, 11, 37]


def some_datasets(model, dtype):
    """Data sets of different sizes, one without a class, one with weights, one with labels -1."""
    datasets = []
    for number, rows in enumerate(ROWS):
        x, y = model.example(dtype, n=rows)
        x, y = x.copy(), y.copy()
        if number == 2:
            y[y == 1] = 0
        if number == 4:
            y[:5] = -1
        weights = np.random.default_rng(0).uniform(0.5, 2, rows).astype(dtype)
        datasets.append((x, y, weights) if number == 3 else (x, y))
    return datasets


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_as_fits_to_each(name, dtype):
    model = BY_NAME[name]
    datasets = some_datasets(model, dtype)
    found = gcf.fit_many(model.classifier, datasets)
    labels = gcf.predict_many(found, [x for x, *_ in datasets])
    rtol = 1e-9 if dtype == "float64" else 1e-4
    for number, (x, *rest) in enumerate(datasets):
        params = jax.tree.map(lambda leaf, number=number: leaf[number], found)
        expected = gcf.fit(model.classifier, x, *rest)
        score = jnp.exp(gcf.log_posterior(expected, x))
        np.testing.assert_allclose(jnp.exp(gcf.log_posterior(params, x)), score, atol=rtol, rtol=0)
        clear = np.sort(np.asarray(score), 1)[:, -1] - np.sort(np.asarray(score), 1)[:, -2] > rtol
        assert (labels[number] == np.asarray(gcf.predict(expected, x)))[clear].all()


@pytest.mark.slow
def test_models_without_statistics_too(x64):
    x, y = BY_NAME["gaussian"].example("float64", n=31)
    clf = gcf.SoftmaxRegression(K, l2=0.1)
    found = gcf.fit_many(clf, [(x, y), (x[:23], y[:23])])
    for number, n in enumerate((31, 23)):
        one = jax.tree.map(lambda leaf, number=number: leaf[number], found)
        assert_close(
            gcf.log_posterior(one, x), gcf.log_posterior(gcf.fit(clf, x[:n], y[:n]), x), 1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "clf",
    [gcf.lda(K, shrinkage=0.3), gcf.qda(K, shrinkage=0.3), gcf.Classifier(gcf.KernelDensity(), K)],
    ids=["one covariance", "own covariances", "kernel density"],
)
@pytest.mark.parametrize("features", [3, 17, 43])
def test_params_that_depend_on_the_number_of_rows(features, clf, x64):
    rng, datasets = np.random.default_rng(0), []
    for rows in (13, 41, 29):
        y = np.arange(rows) % K
        datasets.append((rng.normal(size=(rows, features)) + y[:, None], y))
    found = gcf.fit_many(clf, datasets)
    for number, (x, y) in enumerate(datasets):
        one = jax.tree.map(lambda leaf, number=number: leaf[number], found)
        expected = gcf.log_posterior(gcf.fit(clf, x, y), x)
        np.testing.assert_allclose(gcf.log_posterior(one, x), expected, rtol=1e-9, atol=1e-9)


def stack(count, rows=19, d=3):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(rows) % K, (count, 1))
    return rng.normal(size=(count, rows, d)).astype(np.float32) + y[..., None], y


def test_chunks_are_put_together_and_one_bad_member_changes_no_other():
    x, y = stack(101)
    clf = gcf.lda(K)
    done = []
    found = gcf.fit_many(clf, (x, y), batch_size=2, progress=lambda *both: done.append(both))
    assert done[-1] == (101, 101) and done == sorted(done) and len(done) > 3
    each = jax.vmap(lambda x, y: gcf.fit(clf, x, y))(jnp.asarray(x), jnp.asarray(y))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, each)

    spoiled = x.copy()
    spoiled[37, 5, 1] = np.nan
    spoiled[64] *= 1e30
    again = gcf.fit_many(clf, (spoiled, y), batch_size=2)
    others = ~np.isin(np.arange(101), (37, 64))
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(found), strict=True):
        assert (np.asarray(a)[others] == np.asarray(b)[others]).all()
    assert np.isnan(again.conditional.scale[37]).any()
    assert (gcf.predict_many(again, x)[37] == -1).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x[:, :, :2], r"x has shape \(5, 19, 2\), expected \(..., 3\)"),
        (lambda x: x[:, 0], r"x has shape \(5, 3\), expected \(5, n, d\)"),
        (lambda x: x[0, 0, 0], r"x has shape \(\), expected \(5, n, d\)"),
        (lambda x: x[:4], r"x has shape \(4, 19, 3\), expected \(5, n, d\)"),
        (lambda x: [*x[:4], x[4][:, :2]], r"x\[4\] has shape \(19, 2\), expected \(..., 3\)"),
        (lambda x: list(x[:, 0]), r"x\[0\] has shape \(3,\), expected \(n, d\)"),
    ],
)
@pytest.mark.parametrize("preset", [gcf.lda, gcf.bernoulli_nb])
def test_rows_of_another_shape_are_refused(preset, wrong, message):
    x, y = stack(5)
    bits = (x > 0).astype(int)
    params = gcf.fit_many(preset(K), (bits, y))
    with pytest.raises(ValueError, match=message):
        gcf.predict_many(params, wrong(bits))


def test_settings_of_the_caller_hold_in_all_chunks(x64):
    x, y = stack(67)
    found = gcf.fit_many(gcf.gaussian_nb(K), (x.astype(float), y), batch_size=2)
    assert found.conditional.mean.dtype == np.float64
    expected = np.stack([x[y == k].reshape(67, -1, 3).mean(1, dtype=float) for k in range(K)], 1)
    np.testing.assert_allclose(found.conditional.mean, expected, rtol=1e-14)


def test_a_diagnosis_of_each():
    x, y = stack(5)
    x[3, :, 2] = x[3, :, 1]
    y[1][y[1] == 2] = 0
    found = gcf.diagnose_many(gcf.lda(K), (x, y))
    assert (found.conditional.rank[:, 0] == np.array([3, 3, 3, 2, 3])).all()
    assert found.empty[1, 2] and found.empty.sum() == 1
    x[4, 0, 0] = np.nan
    degenerate = gcf.diagnose_many(gcf.lda(K), (x, y)).degenerate
    assert degenerate.tolist() == [False, True, False, True, True]
    assert not gcf.diagnose(gcf.lda(K), x[0], y[0]).degenerate


def test_traced_stacks_have_gradients():
    x, y = map(jnp.asarray, stack(3))

    def loss(ridge):
        clf = gcf.Classifier(gcf.Gaussian(shared=True, ridge=ridge), K)
        return gcf.fit_many(clf, (x, y)).conditional.scale.sum()

    step = 1e-2
    slope = (loss(1.0 + step) - loss(1.0 - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(loss)(1.0), slope, rtol=1e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: [*d[:2], (d[2][0], d[2][1] + 2)], r"datasets\[2\]: y\[1\] is 3 \(row 1\)"),
        (lambda d: [*d[:2], (d[2][0][:, :2], d[2][1])], r"datasets\[2\] has rows of x and y"),
        (lambda d: [*d[:2], (d[2][0][:4], d[2][1])], r"datasets\[2\]: y has shape \(19,\)"),
        (lambda d: [*d[:2], d[2][0]], r"datasets\[2\] is .*expected a tuple \(x, y\)"),
        (lambda d: [*d[:2], (d[2][0], d[2][1] * 0 - 1)], r"datasets\[2\]: none of the 19 rows"),
        (lambda d: (*stack(3), np.eye(3)[:, :1] * np.ones(19)), "datasets, number 1: none of the"),
        (lambda d: 5, "datasets is 5, expected a sequence of tuples"),
        (lambda d: (d[0][0][None], d[0][1][None] + 1), r"datasets, number 0: y\[2\] is 3"),
        (lambda d: (d[0][0][None], np.stack([d[0][1]] * 2)), "datasets holds arrays with leading"),
    ],
    ids=["label", "features", "rows", "form", "none", "weights", "type", "stacked", "counts"],
)
def test_errors_name_the_data_set(change, message):
    x, y = stack(3)
    datasets = list(zip(x, y, strict=True))
    with pytest.raises(ValueError, match=message):
        gcf.fit_many(gcf.lda(K), change(datasets))


@pytest.mark.slow(but=("qda",))
@pytest.mark.parametrize(
    "clf",
    [
        gcf.qda(3),
        gcf.qda(3, shrinkage="ledoit-wolf"),
        gcf.rda(3, pooling=0.3, shrinkage=0.1),
        gcf.Classifier(gcf.Gaussian(structure=gcf.LowRank(2)), 3),
    ],
    ids=["qda", "ledoit-wolf", "rda", "low-rank"],
)
def test_more_matrices_than_lapack_gets_at_once(clf):
    """In float32, whose factors are partly of float64: seven matrices of 31 features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 101, 31)).astype(np.float32)
    y = rng.integers(0, 3, (3, 101)).astype(np.int32)
    x[..., 1] = x[..., 0] + 1e-3 * x[..., 1]
    many = gcf.fit_many(clf, (x, y), batch_size=3)
    for i in range(3):
        one = gcf.fit(clf, x[i], y[i])
        assert_close(jax.tree.map(lambda a, i=i: a[i], many), one, 1e-4)


def test_other_numbers_of_data_sets_and_rows_share_programs():
    model = BY_NAME["gaussian-diag"]
    sizes = [9, 10, 12, 11, 10], [11, 12, 9, 9, 10, 10], [12] * 3 + [11] * 3
    for call, rows in enumerate(sizes):
        datasets = [model.example("float32", n=n, seed=call) for n in rows]
        with counted() as work:
            found = gcf.fit_many(model.classifier, datasets)
        assert work["compilations"] == 0 or call == 0
        for number, (x, y) in enumerate(datasets):
            expected = gcf.fit(model.classifier, x, y).conditional
            assert_close(found.conditional.mean[number], expected.mean, 1e-5)
