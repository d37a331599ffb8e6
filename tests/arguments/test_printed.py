"""What results print: a dozen lines of 100 columns at most, with all fields and a few numbers."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.arguments.reprs import ShowsNumbers
from tests.registry import BY_NAME, MIXTURES, MODELS, WITH_HOLES, K

LINES, WIDTH = 12, 100
PARTS = {"size": gcf.Gaussian(ridge=0.1), "word": gcf.Bernoulli()}
KEY = jax.random.key(0)


def check(given):
    """The text of a result, which fits and names every field."""
    text = repr(given)
    lines = text.split("\n")
    assert len(lines) <= LINES, text
    assert max(map(len, lines)) <= WIDTH, text
    assert lines[0].split()[0] == type(given).__name__
    for name in names(given):
        assert any(f"{name}: " in line or line.endswith(f"{name}:") for line in lines[1:]), name
    return text


def names(given):
    if dataclasses.is_dataclass(given):
        return [field.name for field in dataclasses.fields(given)]
    return given._fields


def filled(shapes):
    """The shapes that `jax.eval_shape` finds, as arrays of some numbers."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda s: jnp.asarray(3 * rng.normal(size=s.shape)).astype(s.dtype), shapes)


def made(function, *args, **options):
    """What a function returns, in structure and shapes, without its compilation."""
    return filled(jax.eval_shape(lambda given: function(*given, **options), args))


def example(name="gaussian-shared"):
    model = BY_NAME[name]
    x, y = model.example("float32")
    return model.classifier, jax.tree.map(jnp.asarray, x), jnp.asarray(y)


def results():
    """The results of every kind, of one model."""
    clf, x, y = example()
    params, stats, folds = gcf.fit(clf, x, y), gcf.stats(clf, x, y), gcf.kfold(KEY, y, 5)
    proper = gcf.lda(K, prior=gcf.NormalInverseWishart())
    centroids = gcf.nearest_shrunken_centroids(K, soft_threshold=0.5)
    scores = made(gcf.cat_scores, stats)
    several = jax.tree.map(lambda a: jnp.stack([a] * 5), params)
    diagnosis = made(lambda x, y: gcf.diagnose(clf, x, y), x, y)
    held_out = gcf.log_posterior(params, x)
    table = {"ridge": (0.1, 1.0), "score": np.array([0.3, 0.4])}
    half = jnp.full((), 0.5)
    members = gcf.Members(jnp.zeros(len(y)), y, jnp.ones(len(y)))
    smoothed = gcf.multinomial_nb(2, prior=gcf.Dirichlet(1.0))
    of_words = gcf.stats(gcf.multinomial_nb(2), jnp.array([[3, 1], [0, 2]]), jnp.array([0, 1]))

    def objective(p):
        return -(p**2).sum()

    found = [
        stats, stats.conditional, stats.labels, params, params.conditional,
        diagnosis, diagnosis.conditional,
        made(lambda x, y: gcf.fit(gcf.SoftmaxRegression(K), x, y), x, y),
        made(lambda p, x: gcf.condition(p, x), params, x),
        made(lambda p, x, y: gcf.certify(clf, p, x, y), params, x, y),
        made(lambda s: gcf.fit_lagrange(clf, s), stats),
        made(lambda x, y: gcf.fit_gradient(clf, x, y), x, y),
        made(lambda x, y: gcf.em(clf, x, y, init=params), x, y),
        made(lambda p: gcf.solve_constrained(objective, lambda p: p.sum() - 1, p), jnp.ones(2)),
        made(lambda s: gcf.posterior(proper, s), stats),
        made(lambda s: gcf.predictive(proper, s).conditional, stats),
        made(lambda s: gcf.fit_prior(smoothed, s), of_words),
        gcf.CrossValidation(held_out, folds, several, diagnosis),
        gcf.Tuning(clf, clf, table, None, None, 0, 1, "log_loss"),
        gcf.PermutationTest(half, jnp.arange(3.0), half),
        gcf.Searchlight(jnp.arange(20.0), None, None, None),
        gcf.GroupTest(jnp.arange(20.0), jnp.ones(20), jnp.ones(20)),
        gcf.StableFeatures(jnp.ones(5), jnp.ones(5), jnp.arange(5)),
        gcf.LearningCurve(jnp.array([20, 40]), {"lda": jnp.ones((2, 3))}),
        made(gcf.calibration, held_out, y), made(gcf.recalibrate, held_out, y),
        made(gcf.adapt_prior, params, x), made(gcf.novelty, jnp.exp(held_out)),
        made(gcf.coverage, jnp.exp(held_out), y), gcf.typicality_test(clf, stats), members,
        gcf.typicality_test(clf, gcf.CrossValidation(held_out, folds, several, None, members)),
        gcf.bootstrap(KEY, lambda w: w.sum(), 11, num=3),
        gcf.explain(params, x), made(gcf.discriminant_axes, params), made(gcf.manova, stats),
        made(gcf.eraser, stats),
        scores, gcf.FeatureRanking(np.arange(5), np.ones(5), np.ones(5)), made(gcf.row_space, x),
        made(lambda s: gcf.threshold_path(centroids, s), gcf.stats(centroids, x, y)),
    ]  # fmt: skip
    return {type(result).__name__: result for result in found}


@pytest.fixture(scope="module")
def all_results():
    return results()


def test_every_result_is_short_and_names_its_fields(all_results):
    for result in all_results.values():
        check(result)


def test_no_public_result_is_left_out(all_results):
    public = {name: getattr(gcf, name) for name in gcf.__all__}
    shown = {n for n, c in public.items() if isinstance(c, type) and issubclass(c, ShowsNumbers)}
    assert {
        name for name in shown - {"Solution"} if not name.endswith("Params")
    } <= all_results.keys()


def test_results_of_any_leaves_are_printed(all_results):
    for result in all_results.values():
        for leaf in (object(), None, "text", 1.5, np.float32(2), jax.ShapeDtypeStruct((3,), int)):
            repr(jax.tree.map(lambda _, leaf=leaf: leaf, result))
        arrays, rest = eqx.partition(result, eqx.is_array)

        def inside(given, rest=rest):
            assert "Traced" not in check(eqx.combine(given, rest))
            return 0

        jax.eval_shape(inside, arrays)
        jax.vmap(inside)(jax.tree.map(lambda a: jnp.asarray(a)[None], arrays))


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", [*MODELS, *MIXTURES, *WITH_HOLES], ids=str)
def test_params_statistics_and_diagnoses_of_every_model(model):
    x, y = model.example("float32")
    shapes = jax.eval_shape(gcf.fit, model.classifier, x, y)
    params = filled(shapes)
    text = check(params)
    assert f"ClassifierParams of {K} classes, " in text and "feature" in text.split("\n")[0]
    for number in np.asarray(params.log_prior):
        assert f"{number:.4g}" in text
    check(params.conditional)
    check(shapes)
    check(jax.tree.map(lambda a: jnp.stack([a, a]), params))
    check(jax.eval_shape(gcf.diagnose, model.classifier, x, y))


def test_models_are_short():
    for model in [*MODELS, *MIXTURES]:
        lines = repr(model.classifier).split("\n")
        assert len(lines) <= LINES + 2 and max(map(len, lines)) <= WIDTH


def test_a_product_of_many_parts_is_cut():
    parts = {f"part {i}": gcf.Gaussian() for i in range(20)}
    x = {name: jax.ShapeDtypeStruct((11, 2), jnp.float32) for name in parts}
    y = jax.ShapeDtypeStruct((11,), jnp.int32)
    text = check(jax.eval_shape(gcf.fit, gcf.Classifier(gcf.Product(parts), 2), x, y))
    assert text.startswith("ClassifierParams of 2 classes, 40 features, 20 parts\n")


def test_texts():
    x, y = jnp.array([[0.0], [2.0], [4.0], [7.0]]), jnp.array([0, 0, 1, 1])
    params = gcf.fit(gcf.lda(2), x, y)
    assert repr(params).split("\n")[:4] == [
        "ClassifierParams of 2 classes, 1 feature",
        "  log_prior: f32[2] -0.6931 -0.6931",
        "  conditional: GaussianParams",
        "    mean: f32[2,1] [[1] [5.5]]",
    ]

    def seen(x):
        shown = repr(gcf.fit(gcf.lda(2), x, y))
        assert "    mean: f32[2,1]\n" in shown
        return x

    jax.jit(seen)(x)
    jax.vmap(seen)(x[None])
    many = jax.tree.map(lambda a: jnp.zeros((7, *a.shape), a.dtype), params)
    assert repr(many).split("\n")[:2] == [
        "ClassifierParams of 7 fits, 2 classes, 1 feature",
        "  log_prior: f32[7,2] all 0",
    ]


class Made(ShowsNumbers):
    """A result of any fields."""

    sizes: Any
    values: Any


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.arange(11), "i64[11] from 0 to 10"),
        (jnp.array([jnp.nan] * 3 + [1.5, 2.0] * 5), "f32[13] from 1.5 to 2, 3 NaN"),
        (jnp.full(11, jnp.nan), "f32[11] all NaN"),
        (jnp.arange(11) < 3, "bool[11] 3 of 11 True"),
        (jnp.zeros((0, 3)), "f32[0,3]"),
        (jnp.zeros(3, jnp.bfloat16), "bfloat16[3] 0 0 0"),
        (jnp.array([1.23456, -jnp.inf, jnp.nan]), "f32[3] 1.235 -inf nan"),
        (np.array(["a", "b"]), "<U1[2] a b"),
        (jnp.float32(1e-7), "1e-07"),
        (KEY, "key<fry>[]"),
        (0.123456, "0.1235"),
        ({"a": (1, None), "b": (3,)}, "{'a': (1, None), 'b': (3,)}"),
        ([0.5, ()], "[0.5, ()]"),
        (gcf.Gaussian(ridge=jnp.float32(0.1)), "Gaussian(ridge=0.1)"),
        (len, "len"),
    ],
)
def test_values(value, text):
    lines = repr(Made(value, 0)).split("\n")
    assert lines == ["Made", f"  sizes: {text}", "  values: 0"]


def test_long_containers_are_cut():
    text = check(Made(tuple(range(5000)), ["word" * 1000]))
    assert "38; 39; … 5,000 in all\n" in text and text.endswith("…")


def test_an_array_that_was_given_away_is_printed():
    lost = jnp.arange(11)
    lost.delete()
    assert repr(Made(lost, 0)) == "Made\n  sizes: i32[11]\n  values: 0"
