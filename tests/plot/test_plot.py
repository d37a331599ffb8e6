"""Figures: each is compared with a picture of it, and says what the numbers say.

`GENCLF_DRAW=1 pytest tests/plot` draws the pictures anew; look at them before a commit.
"""

import inspect
import os
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
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
        "one": gcf.fit(gcf.qda(K), X[:, :1], Y),
        "softmax": gcf.fit(gcf.SoftmaxRegression(K, l2=1e-3), X, Y),
        "bernoulli": gcf.fit(gcf.bernoulli_nb(K), BITS, Y),
        "poisson": gcf.fit(gcf.Classifier(gcf.Poisson(), K), BITS.sum(1, keepdims=True), Y),
    }


def log_posterior():
    return np.asarray(gcf.log_posterior(gcf.fit(gcf.qda(K), X, Y), X))


def p_values():
    clf = gcf.qda(K)
    return gcf.typicality(clf, gcf.stats(clf, X, Y), X)


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


def of(fits, *names):
    return {name: fits[name] for name in names}


FIGURES = {
    "boundary": lambda fits, ax: plot.boundary(fits["lda"], X, Y, class_names=NAMES, ax=ax),
    "boundary-qda": lambda fits, ax: plot.boundary(fits["qda"], filled=False, name="q", ax=ax),
    "boundaries": lambda fits, ax: plot.boundaries(
        of(fits, "lda", "softmax"), X, Y, level=[0.5, 0.9], class_names=NAMES, ax=ax
    ),
    "regions": lambda fits, ax: plot.regions(of(fits, "lda", "qda"), X, Y, level=0.9)[1],
    "class_posterior": lambda fits, ax: plot.class_posterior(fits["one"], x=X[:, :1], y=Y)[0],
    "class_posterior-discrete": lambda fits, ax: plot.class_posterior(fits["poisson"])[1],
    "simplex": lambda fits, ax: plot.simplex([0, 2, 6], alpha=[0, 1, 5], ax=ax),
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
    "reliability-calibrated": lambda fits, ax: plot.reliability(
        log_posterior(),
        Y,
        calibrated=gcf.recalibrate(log_posterior(), Y, bias=False)(log_posterior()),
        ax=ax,
    ),
    "typicality": lambda fits, ax: plot.typicality(p_values(), Y, class_names=NAMES, ax=ax),
    "typical_regions": lambda fits, ax: plot.typical_regions(
        gcf.typicality_test(gcf.qda(K), gcf.stats(gcf.qda(K), X, Y)), X, Y, alpha=0.1, ax=ax
    ),
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


def owns_figure(name):
    """Whether the function draws several axes, in a figure of its own."""
    return "ax" not in inspect.signature(getattr(plot, name.split("-")[0])).parameters


@pytest.mark.slow("boundary", "boundary-qda")
@pytest.mark.parametrize("name", FIGURES)
def test_pictures(name, fits, tmp_path, plain):
    """Text is left out: its pixels depend on the version of a font library."""
    given = None if owns_figure(name) else plt.subplots(figsize=(4, 3))[1]
    ax = FIGURES[name](fits, given)
    if given is not None:
        assert ax is given
        if name != "simplex":
            assert ax.get_xlabel() and (ax.get_ylabel() or "log-odds" in ax.get_xlabel())
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


def test_every_function_has_a_picture():
    assert {name.split("-")[0] for name in FIGURES} == {*plot.__all__}


def edges(ax):
    """The vertices of all contour lines."""
    found = [c for c in ax.collections if isinstance(c, mpl.contour.QuadContourSet)]
    lines = [c for c in found if not c.filled]
    return np.concatenate([path.vertices for c in lines for path in c.get_paths()])


@pytest.mark.parametrize("name, tol", [("lda", 1e-4), ("softmax", 1e-4), ("qda", 2e-3)])
def test_a_boundary_is_where_two_classes_are_equally_probable(name, tol, fits, plain):
    ax = plot.boundary(fits[name], X, Y, filled=False)
    at = edges(ax).astype(np.float32)
    assert len(at) > 300
    best = np.sort(np.asarray(gcf.log_posterior(fits[name], at)), -1)
    gap = best[:, -1] - best[:, -2]
    # Where three regions meet, an edge ends within one cell of the grid.
    assert np.quantile(gap, 0.98) < tol and gap.max() < 0.2


def test_models_in_the_same_axes_have_one_legend_and_their_own_dashes(fits, plain):
    ax = plot.boundaries(of(fits, "lda", "softmax"), X, Y, level=[0.5, 0.9], class_names=NAMES)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [*NAMES, "lda", "softmax", "50 % and 90 % of the class density"]
    dashes = {line.get_linestyle() for line in ax.lines if line.get_label() in ("lda", "softmax")}
    assert len(dashes) == 2
    layers = plot.boundary(fits["lda"], X, Y, class_names=NAMES)
    plot.boundary(fits["softmax"], filled=False, name="softmax", ax=layers)
    plot.ellipses(fits["lda"], class_names=NAMES, ax=layers)
    texts = [text.get_text() for text in layers.get_legend().get_texts()]
    assert texts == [*NAMES, "softmax", "90 % of the class density"]


def test_the_axes_show_rows_and_ellipses(fits, plain):
    ax = plot.ellipses(fits["qda"], level=0.999, ax=plot.boundary(fits["qda"], X, Y))
    for line in ax.lines:
        low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
        points = np.stack(line.get_data(), -1)
        assert (points >= low).all() and (points <= high).all()
    filled = max(c.get_paths()[0].vertices[:, 0].max() for c in ax.collections)
    assert filled >= ax.get_xlim()[1]  # the tints too


def test_rows_that_cannot_be_shown_are_counted(fits, plain):
    x = X.copy()
    x[3, 0], x[5, 1] = np.nan, np.inf
    ax = plot.boundary(fits["lda"], x, Y)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "2 rows not shown: a cell is not finite" in texts


def test_bayes_rule_along_a_feature(fits, plain):
    above, below = plot.class_posterior(fits["one"], x=X[:, :1], y=Y, class_names=NAMES)
    for score, ax in ((gcf.log_joint, above), (gcf.log_posterior, below)):
        curves = [line for line in ax.lines if len(line.get_xdata()) > 2]
        values = curves[0].get_xdata()[:, None]
        expected = np.exp(np.asarray(score(fits["one"], values)))
        np.testing.assert_allclose([c.get_ydata() for c in curves], expected.T, rtol=1e-5)
    heights = [patch.get_height() * patch.get_width() for patch in above.patches]
    np.testing.assert_allclose(sum(heights), 1, rtol=1e-5)
    marks = {line.get_xdata()[0] for line in below.lines if len(line.get_xdata()) == 2}
    for at in marks:
        best = np.sort(np.asarray(gcf.log_posterior(fits["one"], np.array([[at]]))))[0]
        assert abs(best[-1] - best[-2]) < 0.05
    assert len(marks) >= 2


def test_points_of_the_simplex_are_smoothed_shares(plain):
    ax = plot.simplex([0, 2, 6], alpha=[1, 0])
    corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    found = {line.get_label(): line.get_data() for line in ax.lines}
    for label, share in (
        ("maximum likelihood", np.array([0, 2, 6]) / 8),
        ("α = 1", np.array([1, 3, 7]) / 11),
        ("uniform", np.full(3, 1 / 3)),
    ):
        np.testing.assert_allclose(np.ravel(found[label]), share @ corners, atol=1e-6)


MONEY = ["$5 and $10", "a_b^{c", "$\\frac"]


def test_names_are_text(fits, plain):
    """A figure shows them letter by letter: none is read as mathematics."""
    pair = {"class_names": MONEY, "feature_names": ["$a$", "$b"]}
    two = of(fits, "lda", "softmax")
    figures = [
        plot.boundary(fits["lda"], X, Y, **pair),
        plot.boundaries({"$x$": fits["lda"]}, X, Y, **pair),
        plot.regions({f"${n}$": p for n, p in two.items()}, X, Y, **pair)[0],
        plot.ellipses(fits["qda"], **pair),
        plot.axes(fits["lda"], X, Y, class_names=MONEY),
        plot.pairs(fits["qda"], X, Y, **pair)[0, 0],
        plot.densities(fits["qda"], 1, class_names=MONEY, feature_name="$b$"),
        plot.class_posterior(fits["one"], class_names=MONEY, feature_name="$b$")[1],
        plot.log_odds(fits["lda"], of=2, **pair),
        plot.explanation(gcf.explain(fits["lda"], X[:2]), **pair),
        plot.confusion(Y, Y, class_names=MONEY),
        plot.simplex([1, 2, 3], value_names=MONEY),
        plot.null(permuted(), metric="$m$"),
        plot.learning_curve(replace(curve(), errors={"$a$": curve().errors["a"]})),
    ]
    for ax in figures:
        ax.figure.draw_without_rendering()
        texts = [text.get_text() for text in ax.figure.findobj(mpl.text.Text)]
        assert any("$" in text for text in texts)
        for text in texts:
            assert mpl.text.Text(0, 0, text)._preprocess_math(text)[1] is False, text


def test_names_of_classes_do_not_lie_on_each_other(plain):
    means = np.array([[0.0, 0.0], [0.1, 0.05], [0.05, -0.05], [3.0, 3.0]])
    params = gcf.ClassifierParams.of([0.25] * 4, gcf.GaussianParams.of(means, np.eye(2)))
    names = [f"class of number {k}" for k in range(4)]
    ax = plot.axes(params, X, np.full(N, -1), class_names=names)
    ax.figure.draw_without_rendering()
    boxes = [mpl.text.Text.get_window_extent(text) for text in ax.texts]
    assert all(ax.get_window_extent().overlaps(box) for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_an_explanation_of_an_estimator_has_names(plain):
    table = pd.DataFrame(X, columns=["weight", "height"])
    model = estimators.LinearDiscriminant().fit(table, np.array(NAMES)[Y])
    found = model.explain(table[:2])
    ax = plot.explanation(found, 1)
    assert {text.get_text() for text in ax.get_yticklabels()} >= {"weight", "height"}
    assert ax.get_xlabel().removeprefix("log-odds of ").split(" against ")[0] in NAMES


def test_numbers_of_rows_have_room(plain):
    sizes = jnp.array([30, 31, 40, 50, 60, 70, 80, 100, 101, 400])
    errors = {"a": jnp.ones((10, 2))}
    ax = plot.learning_curve(gcf.LearningCurve(sizes, errors))
    ticks = ax.get_xticks()
    gaps = np.diff(np.log(ticks)) / np.log(400 / 30)
    assert ticks[0] == 30 and (gaps >= 0.08).all() and set(ticks) <= set(np.asarray(sizes))


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


def bits_of_two():
    return gcf.fit(gcf.bernoulli_nb(K), BITS[:, :2], Y)


def two_classes():
    return gcf.fit(gcf.lda(2), X, Y % 2)


def fitted(_):
    return estimators.GaussianNB().fit(X, Y)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f: plot.boundary(f["bernoulli"], X, Y), "params has 5 features, but a plane has 2"),
        (lambda f: plot.boundary(f["lda"], X[:, :1], Y), r"x has shape \(101, 1\), expected"),
        (lambda f: plot.boundary(f["lda"], X, Y + 1), r"y\[\d+\] is 3 .*, expected a label in"),
        (lambda f: plot.boundary(f["lda"], X, Y, class_names=["a"]), "class_names has 1 names"),
        (lambda f: plot.boundary(f["lda"], X, Y, ax=3), "ax is 3, expected axes of matplotlib"),
        (lambda f: plot.boundary(3, X, Y), "params is 3"),
        (lambda f: plot.boundary(f["lda"], X * np.nan, Y), "none of two finite numbers"),
        (lambda f: plot.boundary(f["lda"], y=Y), "y is given without x"),
        (lambda f: plot.boundary(f["lda"], X.astype(str), Y), "x has dtype <U"),
        (lambda f: plot.boundary(f["softmax"]), r"a model of p\(y \| x\) cannot draw rows"),
        (lambda f: plot.boundary(bits_of_two(), BITS[:, :2], Y), "features are not real numbers"),
        (lambda f: plot.boundaries([f["lda"]], X, Y), "expected fitted params by name, as a dict"),
        (lambda f: plot.boundaries({}, X, Y), "expected fitted params by name"),
        (lambda f: plot.boundaries({"a": 3}, X, Y), r"models\['a'\] is 3"),
        (lambda f: plot.regions(of(f, "one"), X, Y), r"models\['one'\] has 1 features"),
        (lambda f: plot.regions({"a": f["lda"], "b": two_classes()}, X, Y), "number of classes"),
        (lambda f: plot.boundaries(of(f, "softmax"), X, Y, level=0.5), "no model has Gaussian"),
        (lambda f: plot.ellipses(f["lda"], level=[0.5, 2]), r"level is \[0.5, 2\], expected"),
        (lambda f: plot.ellipses(f["lda"], features=(0, 0)), r"two different numbers in 0\.\.1"),
        (lambda f: plot.class_posterior(f["one"], 1), r"feature is 1, expected a number in 0"),
        (lambda f: plot.class_posterior(f["one"], x=X[:, :1]), "only one of x and y is given"),
        (lambda f: plot.simplex([1, 2]), r"counts is \[1, 2\], expected 3 counts"),
        (lambda f: plot.simplex([1, 2, -1]), "expected 3 counts >= 0"),
        (lambda f: plot.simplex([1, 2, 3], alpha=-1), "alpha is -1, expected numbers >= 0"),
        (lambda f: plot.log_odds(f["lda"], of=1, against=1), "of and against are both 1"),
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
        (lambda f: plot.densities(f["lda"], 0, x=X), "only one of x and y is given"),
        (lambda f: plot.log_odds(f["qda"]), "linear_form|quadratic"),
        (lambda f: plot.log_odds(f["lda"], of=3), r"of is 3, expected 0\.\.2"),
        (lambda f: plot.explanation(f["lda"]), "expected an Explanation"),
        (lambda f: plot.explanation(gcf.explain(f["lda"], X), 101), "row is 101"),
        (lambda f: plot.reliability(log_posterior(), Y[1:]), "y has shape"),
        (lambda f: plot.cv_curve(tuning(), over="b"), "over is 'b', expected one of"),
        (lambda f: plot.null(tuning()), "expected a PermutationTest"),
        (lambda f: plot.confusion(Y, Y[1:]), "predicted has shape"),
        (lambda f: plot.confusion(Y, Y, class_names=["a"]), r"expected a label in 0\.\.0"),
        (lambda f: plot.confusion(0 * Y, Y, class_names=["a", "b"]), r"classes 0\.\.2, .* 0\.\.1"),
        (lambda f: plot.confusion(Y, Y - 1), r"classes -1\.\.1, .* 0\.\.2"),
    ],
)  # fmt: skip
def test_errors(call, message, fits, plain):
    with pytest.raises(ValueError, match=message):
        call(fits)
