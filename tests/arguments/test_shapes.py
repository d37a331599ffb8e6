"""Mistakes of shape, rank and type are found before any value is, and said in a sentence."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf

N, D, K, V = 11, 5, 3, 7
X = np.ones((N, D), np.float32)
Y = np.arange(N) % K
MIXED = gcf.Classifier(gcf.Product({"a": gcf.Gaussian(), "b": gcf.Categorical(V)}), K)
MIXED_X = {"a": X, "b": np.zeros((N, 2), np.int32)}
TOKENS = gcf.Tokens(jnp.zeros((N, 13), jnp.int32), jnp.ones((N, 13), bool), V)
# Put together past the constructor, whose annotations the tests check.
LOPSIDED = jax.tree.unflatten(jax.tree.structure(TOKENS), [TOKENS.ids, TOKENS.mask[:, :7]])


def message(*parts):
    """A pattern: all of these, in order, anywhere in the message."""
    return ".*".join(part.replace("(", r"\(").replace(")", r"\)") for part in parts)


FITS = {
    "one feature as a vector": (
        gcf.lda(K), X[:, 0], Y, None,
        message("x has shape (11,)", "expected (n, d)", r"x\[:, None\]"),
    ),
    "a scalar": (gcf.lda(K), X[0, 0], Y, None, message("x has shape ()", "expected (n, d)")),
    "three axes": (
        gcf.lda(K), X[None], Y, None, message("x has shape (1, 11, 5)", "expected (n, d)")
    ),
    "too few labels": (
        gcf.lda(K), X, Y[:-1], None, message("y has shape (10,)", "expected (11,)", "11 rows of x")
    ),
    "a label": (gcf.lda(K), X, Y[0], None, message("y has shape ()", "expected (11,)")),
    "float labels": (
        gcf.lda(K), X, Y.astype(np.float32), None,
        message("y has dtype float32", "integer labels 0..2", "responsibilities"),
    ),
    "soft labels of too many classes": (
        gcf.lda(K), X, np.ones((N, 4), np.float32), None,
        message("y has shape (11, 4)", "expected (11, 3)", "num_classes = 3"),
    ),
    "a column of labels": (
        gcf.lda(K), X, Y[:, None], None, message("y has shape (11, 1)", "expected (11, 3)")
    ),
    "too many weights": (
        gcf.lda(K), X, Y, np.ones(12, np.float32),
        message("weights has shape (12,)", "expected (11,)"),
    ),
    "weights per class": (
        gcf.lda(K), X, Y, np.ones((N, K), np.float32),
        message("weights has shape (11, 3)", "expected (11,)"),
    ),
    "values for other columns": (
        gcf.categorical_nb(K, (2, 3)), np.zeros((N, D), np.int32), Y, None,
        message("x has 5 columns", "num_values for 2", "(2, 3)"),
    ),
    "an array for a product": (
        MIXED, X, Y, None, message("x is a", "Product", "expected a dict with the keys", "a", "b")
    ),
    "a block too few": (
        MIXED, {"a": X}, Y, None, message("x is", "'a'", "expected a dict with the keys", "'b'")
    ),
    "a block too many": (
        MIXED, MIXED_X | {"c": X}, Y, None, message("'c'", "expected a dict with the keys")
    ),
    "blocks of different length": (
        MIXED, {"a": X, "b": MIXED_X["b"][:7]}, Y, None,
        message(r"x\['b'\] has 7 rows", "11"),
    ),
    "a flat block": (
        MIXED, {"a": X[:, 0], "b": MIXED_X["b"]}, Y, None,
        message(r"x\['a'\] has shape (11,)", "expected (n, d)"),
    ),
    "a dict for a plain family": (
        gcf.lda(K), {"a": X}, Y, None, message("x is a dict", "expected an array")
    ),
    "a mask of another shape": (
        gcf.multinomial_nb(K), LOPSIDED, Y, None,
        message("x.mask has shape (11, 7)", "expected (11, 13)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("function", [gcf.fit, gcf.stats, gcf.diagnose], ids=lambda f: f.__name__)
@pytest.mark.parametrize("case", FITS)
def test_fits(case, function):
    clf, x, y, weights, expected = FITS[case]
    with pytest.raises(ValueError, match=expected):
        function(clf, x, y, weights)


@pytest.mark.parametrize("case", FITS)
def test_fits_inside_jit_and_vmap(case):
    clf, x, y, weights, expected = FITS[case]
    with pytest.raises(ValueError, match=expected):
        jax.jit(gcf.fit)(clf, x, y, weights)
    with pytest.raises(ValueError, match=expected):
        jax.eval_shape(gcf.fit, clf, x, y, weights)
    many = jax.tree.map(lambda a: np.asarray(a)[None], (x, y, weights))
    with pytest.raises(ValueError, match=expected):
        jax.vmap(gcf.fit, (None, 0, 0, 0))(clf, *many)


PREDICTIONS = {
    "too few features": (
        gcf.lda(K), X, X[:, :4],
        message("x has shape (11, 4)", "expected (..., 5)", "fitted to 5"),
    ),
    "a transposed matrix": (
        gcf.lda(K), X, X.T, message("x has shape (5, 11)", "expected (..., 5)")
    ),
    "a scalar": (gcf.lda(K), X, X[0, 0], message("x has shape ()", "expected (..., 5)")),
    "another vocabulary": (
        gcf.multinomial_nb(K), TOKENS, gcf.Tokens(TOKENS.ids, TOKENS.mask, V + 1),
        message("expected (..., 7)", "fitted to 7"),
    ),
    "counts of another vocabulary": (
        gcf.multinomial_nb(K), TOKENS, np.zeros((2, 8), np.int32),
        message("x has shape (2, 8)", "expected (..., 7)"),
    ),
    "a product's block": (
        MIXED, MIXED_X, {"a": X, "b": X},
        message(r"x\['b'\] has shape (11, 5)", "expected (..., 2)"),
    ),
    "an array for a product": (MIXED, MIXED_X, X, message("Product", "expected a dict")),
}  # fmt: skip


@pytest.mark.parametrize("case", PREDICTIONS)
def test_predictions(case):
    clf, x, seen, expected = PREDICTIONS[case]
    params = gcf.fit(clf, x, Y)
    verbs = (gcf.predict, gcf.log_joint, gcf.log_posterior, gcf.log_marginal, gcf.discriminant)
    for function in verbs:
        with pytest.raises(ValueError, match=expected):
            function(params, seen)
        with pytest.raises(ValueError, match=expected):
            jax.eval_shape(function, params, seen)


@pytest.mark.parametrize(
    "text",
    [
        np.array([["a", "b"]] * N),
        np.array([["a", 1.0]] * N, object),
        np.array([["2020-01-01"]] * N, "datetime64[D]"),
        np.ones((N, 2), complex),
    ],
    ids=["text", "objects", "dates", "complex"],
)
def test_what_is_no_number(text):
    expected = message("x has dtype", "numbers")
    with pytest.raises(ValueError, match=expected):
        gcf.fit(gcf.lda(K), text, Y)
    with pytest.raises(ValueError, match=expected):
        gcf.predict(gcf.fit(gcf.lda(K), X[:, :2], Y), text)
    with pytest.raises(ValueError, match=message("y has dtype", "numbers")):
        gcf.fit(gcf.lda(K), X, np.array(["spam"] * N))
    with pytest.raises(ValueError, match=r"x\['a'\]|x has dtype"):
        gcf.fit(MIXED, MIXED_X | {"a": text}, Y)


def test_text_names_the_way_out():
    with pytest.raises(ValueError, match=r"genclf\.text.*np\.unique"):
        gcf.fit(gcf.multinomial_nb(K), np.array([["free prize"]] * N), Y)


def test_a_start_is_for_models_that_need_one():
    y = np.arange(N) % K
    for clf in (gcf.lda(K), gcf.multinomial_nb(K)):
        with pytest.raises(ValueError, match="the estimate of this model is in closed form"):
            gcf.fit(clf, X, y, init=gcf.fit(clf, X, y))


@pytest.mark.slow
def test_numbers_of_any_type_are_taken():
    for kind in (np.int8, np.uint16, np.int64, bool):
        params = gcf.fit(gcf.lda(2), X, (Y > 0).astype(kind))
        assert gcf.predict(params, X).shape == (N,)
    params = gcf.fit(gcf.lda(K), X, Y, np.ones(N, np.int64))
    assert params.log_prior.shape == (K,)


@pytest.mark.slow
def test_containers_of_other_kinds():
    x, y = np.arange(8.0).reshape(4, 2) ** 2, np.array([0, 0, 1, 1])
    expected = gcf.fit(gcf.gaussian_nb(2), x, y)
    for same in (x.astype(">f8"), x.astype(np.longdouble), x.tolist(), np.asfortranarray(x)):
        assert eqx.tree_equal(gcf.fit(gcf.gaussian_nb(2), same, y), expected)
    codes = np.array([[0, 1], [1, 2**32 - 1]], np.uint32)  # not the missing code -1
    clf = gcf.categorical_nb(2, 2, missing="marginalize")
    params = gcf.fit(clf, np.array([[0, 1], [1, 0]]), [0, 1])
    assert gcf.predict(params, codes).tolist() == [0, -1]


@pytest.mark.parametrize("name", ["y", "weights"])
@pytest.mark.parametrize("verb", [gcf.fit, gcf.stats, gcf.diagnose, gcf.em])
def test_labels_and_weights_are_one_array(name, verb):
    given = {"x": np.ones((4, 2)), "y": np.array([0, 1, 0, 1]), "weights": np.ones(4)}
    given[name] = {"a": given[name]}
    with pytest.raises(ValueError, match=f"{name} is a dict, expected an array of numbers"):
        verb(gcf.gaussian_nb(2), **given)
