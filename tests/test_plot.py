"""Figures: each is compared with a picture of it, and says what the numbers say.

`GENCLF_DRAW=1 pytest tests/test_plot.py` draws the pictures anew; look at them before a commit.
"""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.testing.compare import compare_images
from matplotlib.testing.decorators import remove_ticks_and_titles

import genclf as gcf
from genclf import plot, sklearn as estimators
from tests.registry import K, N, labels

PICTURES = Path(__file__).parent / "pictures"
NAMES = ["near", "far", "wide"]
RNG = np.random.default_rng(5)
Y = labels(RNG)
X = np.array([[0, 0], [4, 1], [1, 4]])[Y] + RNG.normal(size=(N, 2)) @ np.array([[1, 0.6], [0, 0.8]])
X = X.astype(np.float32)
BITS = (RNG.random((N, 5)) < np.array([0.2, 0.5, 0.8])[Y][:, None] ** np.arange(1, 6)).astype(int)


@pytest.fixture(scope="module")
def fits():
    return {
        "lda": gcf.fit(gcf.lda(K), X, Y),
        "qda": gcf.fit(gcf.qda(K), X, Y),
        "bernoulli": gcf.fit(gcf.bernoulli_nb(K), BITS, Y),
        "poisson": gcf.fit(gcf.Classifier(gcf.Poisson(), K), BITS.sum(1, keepdims=True), Y),
    }


def log_posterior():
    return np.asarray(gcf.log_posterior(gcf.fit(gcf.qda(K), X, Y), X))


def curve():
    rng = np.random.default_rng(1)
    errors = {n: 0.2 + 1 / np.array([[5.0], [9], [20]]) + 0.05 * rng.random((3, 4)) for n in "ab"}
    return gcf.LearningCurve(jnp.array([5, 9, 20]), jax.tree.map(jnp.asarray, errors))


def tuning():
    table = {
        "ridge": [10.0, 1.0, 0.1, 0.01],
        "score": np.array([0.9, 0.5, 0.45, 0.6]),
        "standard_error": np.array([0.05, 0.06, 0.07, 0.08]),
    }
    return gcf.Tuning(None, None, table, None, None, 2, 1, "log_loss")


def permuted():
    null = np.random.default_rng(2).normal(0.5, 0.05, 199)
    return gcf.PermutationTest(jnp.array(0.61), jnp.array(null), jnp.array(0.02))


def both(fits, ax):
    plot.boundary(fits["qda"], X, Y, class_names=NAMES, ax=ax)
    return plot.ellipses(fits["qda"], class_names=NAMES, level=0.5, ax=ax)


FIGURES = {
    "boundary": lambda fits, ax: plot.boundary(fits["lda"], X, Y, class_names=NAMES, ax=ax),
    "ellipses": both,
    "axes": lambda fits, ax: plot.axes(fits["lda"], X, Y, class_names=NAMES, ax=ax),
    "densities": lambda fits, ax: plot.densities(fits["qda"], 1, x=X, y=Y, ax=ax),
    "densities-discrete": lambda fits, ax: plot.densities(fits["poisson"], 0, ax=ax),
    "log_odds": lambda fits, ax: plot.log_odds(fits["bernoulli"], of=2, top=4, ax=ax),
    "explanation": lambda fits, ax: plot.explanation(
        gcf.explain(fits["bernoulli"], BITS[:3]), 1, top=3, ax=ax
    ),
    "pairs": lambda fits, ax: plot.pairs(fits["qda"], X, Y)[0, 0],
    "reliability": lambda fits, ax: plot.reliability(log_posterior(), Y, ax=ax),
    "learning_curve": lambda fits, ax: plot.learning_curve(curve(), ax=ax),
    "cv_curve": lambda fits, ax: plot.cv_curve(tuning(), ax=ax),
    "null": lambda fits, ax: plot.null(permuted(), ax=ax),
    "confusion": lambda fits, ax: plot.confusion(Y, (Y + (X[:, 0] > 3)) % K, ax=ax),
}


@pytest.fixture
def plain():
    """Settings that do not depend on the user's; no figure is left open."""
    with mpl.style.context("default"):
        yield
    plt.close("all")


@pytest.mark.parametrize("name", FIGURES)
def test_pictures(name, fits, tmp_path, plain):
    """Text is left out: its pixels depend on the version of a font library."""
    ax = FIGURES[name](fits, plt.subplots(figsize=(4, 3))[1] if name != "pairs" else None)
    figure = ax.figure
    remove_ticks_and_titles(figure)
    for text in figure.findobj(mpl.text.Text):
        text.set_text("")
    found, expected = tmp_path / f"{name}.png", PICTURES / f"{name}.png"
    figure.savefig(found, dpi=50)
    if os.environ.get("GENCLF_DRAW"):
        found.replace(expected)
        pytest.skip("drawn")
    assert compare_images(str(expected), str(found), tol=3) is None


def test_every_function_has_a_picture_and_returns_its_axes(fits, plain):
    assert {name.split("-")[0] for name in FIGURES} == {*plot.__all__}
    for name in FIGURES:
        if name != "pairs":
            ax = plt.subplots()[1]
            assert FIGURES[name](fits, ax) is ax
            assert ax.get_xlabel() and (ax.get_ylabel() or "log-odds" in ax.get_xlabel())


def test_ellipses_hold_their_share(fits, plain):
    rows = np.asarray(gcf.sample(jax.random.key(0), fits["qda"], (20_000,))[0])
    label = np.asarray(gcf.sample(jax.random.key(0), fits["qda"], (20_000,))[1])
    ax = plot.ellipses(fits["qda"], level=0.7)
    for k in range(K):
        edge = mpl.path.Path(np.stack(ax.lines[k].get_data(), -1))
        inside = edge.contains_points(rows[label == k]).mean()
        assert abs(inside - 0.7) < 4 * np.sqrt(0.21 / (label == k).sum())
    assert "70 % of the class density" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_densities_are_those_of_the_feature_alone(fits, plain):
    ax = plot.densities(fits["qda"], 1)
    alone = gcf.fit(gcf.qda(K), X[:, 1:], Y)
    assert len(ax.lines) == K
    for k, line in enumerate(ax.lines):
        values, p = line.get_data()
        expected = np.exp(
            alone.conditional.log_prob(jnp.asarray(values[:, None], jnp.float32))[:, k]
        )
        np.testing.assert_allclose(p, expected, rtol=2e-4, atol=1e-7)


def test_the_points_of_a_reliability_curve(plain):
    log_p = np.log([[0.9, 0.1], [0.95, 0.05], [0.3, 0.7], [0.35, 0.65]])
    ax = plot.reliability(log_p, np.array([0, 1, 1, 1]), num_bins=5)
    points = np.asarray(ax.collections[1].get_offsets())
    np.testing.assert_allclose(points, [[0.675, 1.0], [0.925, 0.5]])


def test_bars_are_the_terms(fits, plain):
    found = gcf.explain(fits["bernoulli"], BITS[4])
    ax = plot.explanation(found, top=3, feature_names=list("abcde"), class_names=NAMES)
    width = {
        t.get_text(): p.get_width() for t, p in zip(ax.get_yticklabels(), ax.patches, strict=True)
    }
    order = np.argsort(-np.abs(np.asarray(found.features)))
    assert {*width} == {*(("abcde")[j] for j in order[:3]), "2 others", "class prior", "sum"}
    for j in order[:3]:
        np.testing.assert_allclose(width["abcde"[j]], found.features[j], rtol=1e-6)
    np.testing.assert_allclose(width["sum"], found.log_odds, rtol=1e-5)
    np.testing.assert_allclose(sum(width.values()) - width["sum"], width["sum"], rtol=1e-4)


def test_names_of_the_parts_of_a_table(plain):
    family = gcf.Product({"size": gcf.Gaussian(), "word": gcf.Bernoulli()})
    x = {"size": X, "word": BITS}
    found = gcf.explain(gcf.fit(gcf.Classifier(family, K), x, Y), jax.tree.map(lambda a: a[:2], x))
    ticks = lambda ax: {t.get_text() for t in ax.get_yticklabels()} - {"class prior", "sum"}  # noqa: E731
    assert ticks(plot.explanation(found)) == {"size", *(f"word: feature {j}" for j in range(5))}
    named = {"size": ["a", "b"], "word": list("cdefg")}
    assert ticks(plot.explanation(found, feature_names=named)) == {"a, b", *"cdefg"}


def fitted(_):
    return estimators.GaussianNB().fit(X, Y)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f: plot.boundary(f["bernoulli"], X, Y), "params has 5 features, and a plane has 2"),
        (lambda f: plot.boundary(f["lda"], X[:, :1], Y), r"x has shape \(101, 1\), expected"),
        (lambda f: plot.boundary(f["lda"], X, Y + 1), r"y\[\d+\] is 3, expected 0\.\.2"),
        (lambda f: plot.boundary(f["lda"], X, Y, class_names=["a"]), "class_names has 1 names"),
        (lambda f: plot.boundary(f["lda"], X, Y, ax=3), "ax is 3, expected axes of matplotlib"),
        (lambda f: plot.boundary(3, X, Y), "params is 3"),
        (lambda f: plot.boundary(fitted(f), X, Y), "params is .*; of an estimator, give its par"),
        (lambda f: plot.ellipses(fitted(f)), "params is .*; of an estimator, give its par"),
        (lambda f: plot.boundary(f["lda"], X, Y.astype(str)), r"y has .*; numpy\.unique\(y, ret"),
        (lambda f: plot.ellipses(f["bernoulli"]), "params has class densities BernoulliParams"),
        (lambda f: plot.ellipses(f["lda"], level=90), "level is 90, expected a share"),
        (lambda f: plot.ellipses(f["lda"], features=(0, 2)), r"features is \(0, 2\), expected two"),
        (lambda f: plot.axes(f["lda"], X, Y, pair=(0, 7)), r"pair is \(0, 7\), expected two"),
        (lambda f: plot.axes(f["qda"], X, Y), "covariance"),
        (lambda f: plot.pairs(f["lda"], X, Y, features=[0, 3]), r"features is \[0, 3\], expected"),
        (lambda f: plot.densities(f["lda"], 2), r"feature is 2, expected a number in 0\.\.1"),
        (lambda f: plot.densities(f["lda"], 0, x=X), "x and y are given together"),
        (lambda f: plot.log_odds(f["qda"]), "linear_form|quadratic"),
        (lambda f: plot.log_odds(f["lda"], of=3), r"of is 3, expected 0\.\.2"),
        (lambda f: plot.explanation(f["lda"]), "expected an Explanation"),
        (lambda f: plot.explanation(gcf.explain(f["lda"], X), 101), "row is 101"),
        (lambda f: plot.reliability(log_posterior(), Y[1:]), "y has shape"),
        (lambda f: plot.cv_curve(tuning(), over="b"), "over is 'b', expected one of"),
        (lambda f: plot.null(tuning()), "expected a PermutationTest"),
        (lambda f: plot.confusion(Y, Y[1:]), "predicted has shape"),
        (lambda f: plot.confusion(Y, Y, class_names=["a"]), r"expected 0\.\.0"),
        (lambda f: plot.confusion(0 * Y, Y, class_names=["a", "b"]), r"classes 0\.\.2, .* 0\.\.1"),
        (lambda f: plot.confusion(Y, Y - 1), r"classes -1\.\.1, .* 0\.\.2"),
    ],
)  # fmt: skip
def test_errors(call, message, fits, plain):
    with pytest.raises(ValueError, match=message):
        call(fits)
