"""Every model that the laws are tested on. A new family adds one line to `MODELS`.

Sizes are distinct primes, so that no axis can be mistaken for another. Data are drawn from classes
of different sizes, with a structure that the models must learn; what is special stands in them:
features far from zero, correlated features, a document of length zero, garbage behind a mask.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import genclf as gcf
from genclf.families.base import Family
from genclf.families.capabilities import lacking

N, D, K, V = 101, 5, 3, 7
CLASS_SIZES = (23, 31, 47)
LENGTH = 13  # of a document's padded tokens
EQUAL, UNEQUAL = (V,) * D, (2, 3, 7, 5, 2)  # values of each categorical column

# A proper prior for each family, of no special numbers.
PRIORS: dict[type, dict] = {
    gcf.Gaussian: {
        "prior": gcf.NormalInverseWishart(mean=2.5, kappa=0.7, scale=1.3, dof=D + 2.5),
        "ridge": 0.0,
        "ddof": 0.0,
        "pooling": None,
        "shrinkage": None,
        "soft_threshold": None,
        "structure": None,
    },
    gcf.Bernoulli: {"prior": gcf.Beta(1.4, 2.3), "alpha": 1.0},
    gcf.Categorical: {"prior": gcf.Dirichlet(1.6), "alpha": 1.0},
    gcf.Multinomial: {"prior": gcf.Dirichlet(1.6), "alpha": 1.0},
}

# Fields that regularise: at 0 an estimate is plain maximum likelihood.
HYPERPARAMETERS = (
    "alpha",
    "ridge",
    "ddof",
    "pooling",
    "shrinkage",
    "soft_threshold",
    "class_alpha",
)


def labels(rng, n=N):
    """Labels in random order, of classes in proportion to CLASS_SIZES; every class occurs."""
    y = np.repeat(np.arange(K), CLASS_SIZES)
    y = y if n == N else np.concatenate([y[np.linspace(0, N - 1, K).astype(int)], y])
    return rng.permutation(np.resize(y, n)).astype(np.int32)


def reals(rng, y, dtype, d=D):
    mean = rng.normal(size=(K, d)) + 3
    mix = np.eye(d) + 0.3 * rng.normal(size=(K, d, d))
    noise = np.einsum("nij,nj->ni", mix[y], rng.normal(size=(len(y), d)))
    return (mean[y] + noise).astype(dtype)


def real(rng, y, dtype):
    return reals(rng, y, dtype, d=1)


def bits(rng, y, dtype):
    del dtype  # integers
    p = rng.uniform(0.1, 0.9, size=(K, D))
    return (rng.random((len(y), D)) < p[y]).astype(np.int32)


def codes(*num_values):
    def make(rng, y, dtype):
        del dtype
        tables = [np.cumsum(rng.dirichlet(2 * np.ones(v), K)[:, :-1], 1) for v in num_values]
        columns = [(rng.random((len(y), 1)) > table[y]).sum(1) for table in tables]
        return np.stack(columns, 1).astype(np.int32)

    return make


def tokens(rng, y, dtype):
    del dtype
    table = np.cumsum(rng.dirichlet(2 * np.ones(V), K)[:, :-1], 1)
    ids = (rng.random((len(y), LENGTH, 1)) > table[y][:, None, :]).sum(2)
    lengths = np.minimum(rng.poisson(6, len(y)), LENGTH)
    lengths[0], lengths[-1] = 0, LENGTH
    mask = np.arange(LENGTH) < lengths[:, None]
    return _tokens(np.where(mask, ids, 99).astype(np.int32), mask)


def counts(rng, y, dtype):
    words = tokens(rng, y, dtype)
    return ((words.ids[..., None] == np.arange(V)) & words.mask[..., None]).sum(1).astype(np.int32)


def _tokens(ids, mask):
    """Tokens that hold NumPy arrays, as the data of the other models do."""
    like = gcf.Tokens(jnp.zeros((1, 1), jnp.int32), jnp.ones((1, 1), bool), V)
    return jax.tree.unflatten(jax.tree.structure(like), [ids, mask])


def directions(rng, y, dtype):
    x = reals(rng, y, np.float64) - 3
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)


def blocks(**makers):
    def make(rng, y, dtype):
        return {name: maker(rng, y, dtype) for name, maker in makers.items()}

    return make


@dataclass(frozen=True)
class Model:
    """One model under test.

    Attributes:
        name: what the test is called.
        family: the family, with its hyper-parameters.
        data: (rng, y, dtype) -> x.
        decision: "linear" or "quadratic" where `linear_form` or `quadratic_form` exists.
        generative: whether draws follow `log_prob` exactly, so that a fit to them recovers it.
        prior: hyper-parameters of the class prior, for `Classifier`.
        proper: hyper-parameters with which the family has a proper prior, if not in `PRIORS`.
    """

    name: str
    family: gcf.Gaussian | Any
    data: Callable
    decision: str | None = None
    generative: bool = True
    prior: dict = field(default_factory=dict)
    proper: dict = field(default_factory=dict)

    def __str__(self):
        return self.name

    @property
    def classifier(self) -> gcf.Classifier:
        return gcf.Classifier(self.family, num_classes=K, **self.prior)

    @property
    def plain(self) -> gcf.Classifier:
        """The same model by maximum likelihood: nothing smoothed, nothing regularised."""
        clf = with_hyperparameters(self.classifier, lambda leaf: 0.0)
        # A shrinkage that the data tell is not a leaf, and a soft threshold of 0 does something.
        rules = (
            {"shrinkage": None, "soft_threshold": None, "structure": None}
            if hasattr(clf.family, "soft_threshold")
            else {}
        )
        return replace(clf, family=replace(clf.family, **rules))

    @property
    def smooth(self) -> gcf.Classifier:
        """The same model with alpha = 1, so that every parameter is inside its range."""
        return with_hyperparameters(self.classifier, lambda leaf: 1.0, names=("alpha",))

    @property
    def bayesian(self) -> gcf.Classifier:
        """The same model with a proper prior of its own for every parameter."""
        if "prior" in self.proper:
            family = replace(self.family, **self.proper)
            return gcf.Classifier(family, num_classes=K, class_prior=gcf.Dirichlet(1.7))
        is_family = lambda node: isinstance(node, tuple(PRIORS))  # noqa: E731
        given = lambda f: replace(f, **PRIORS[type(f)]) if is_family(f) else f  # noqa: E731
        family = jax.tree.map(given, self.family, is_leaf=is_family)
        return gcf.Classifier(family, num_classes=K, class_prior=gcf.Dirichlet(1.7))

    @property
    def num_features(self) -> Any:
        """d, as `num_parameters` takes it."""
        x = self.example("float32")[0]
        width = lambda x: x.vocab_size if isinstance(x, gcf.Tokens) else x.shape[-1]  # noqa: E731
        return {name: width(a) for name, a in x.items()} if isinstance(x, dict) else width(x)

    def example(self, dtype, n=N, seed=0):
        """x and y: n rows of K classes, NumPy arrays, x of the dtype where it is floating."""
        rng = np.random.default_rng(seed)
        y = labels(rng, n)
        return self.data(rng, y, dtype), y


def is_hyperparameter(path, names=HYPERPARAMETERS):
    return getattr(path[-1], "name", None) in names


def with_hyperparameters(clf, change, names=HYPERPARAMETERS):
    """The classifier with `change` applied to its regularising hyper-parameters.

    Shares stay below 1, and a Gaussian with a shrinkage gets no ridge.
    """
    shrinks = getattr(clf.family, "shrinkage", None) is not None

    def changed(path, leaf):
        name = path[-1].name if is_hyperparameter(path, names) else None
        if name is None or (name == "ridge" and shrinks):
            return leaf
        return change(leaf) % 1 if name in ("pooling", "shrinkage") else change(leaf)

    return jax.tree_util.tree_map_with_path(changed, clf)


def hyperparameters(clf):
    """The floating leaves that regularise."""
    leaves = jax.tree_util.tree_leaves_with_path(clf)
    return [leaf for path, leaf in leaves if is_hyperparameter(path)]


_MIXED = blocks(size=reals, colour=codes(*UNEQUAL), word=bits, text=tokens)
_LINEAR_MIX = gcf.Product({"size": gcf.Gaussian(shared=True), "word": gcf.Bernoulli()})
_MIX = gcf.Product(
    {
        "size": gcf.Gaussian(ridge=0.01),
        "colour": gcf.Categorical(UNEQUAL),
        "word": gcf.Independent(gcf.Bernoulli(alpha=0.5)),
        "text": gcf.Multinomial(),
    }
)

MODELS = [
    Model("gaussian", gcf.Gaussian(), reals, "quadratic"),
    Model("gaussian-shared", gcf.Gaussian(shared=True), reals, "linear"),
    Model("gaussian-diag", gcf.Gaussian("diag"), reals, "quadratic"),
    Model("gaussian-diag-shared", gcf.Gaussian("diag", shared=True), reals, "linear"),
    Model("gaussian-spherical", gcf.Gaussian("spherical"), reals, "quadratic"),
    Model("gaussian-spherical-shared", gcf.Gaussian("spherical", shared=True), reals, "linear"),
    Model("gaussian-ridge", gcf.Gaussian(ridge=0.1, ddof=1.0), reals, "quadratic"),
    Model("gaussian-diag-ridge", gcf.Gaussian("diag", ridge=0.1), reals, "quadratic"),
    Model("gaussian-rda", gcf.Gaussian(pooling=0.3, shrinkage=0.2), reals, "quadratic"),
    Model(
        "gaussian-diag-rda", gcf.Gaussian("diag", pooling=0.3, shrinkage=0.2), reals, "quadratic"
    ),
    Model(
        "gaussian-threshold", gcf.Gaussian("diag", shared=True, soft_threshold=0.7), reals, "linear"
    ),
    Model("gaussian-oas", gcf.Gaussian(shared=True, shrinkage="oas"), reals, "linear"),
    Model(
        "gaussian-james-stein",
        gcf.Gaussian(shrinkage="james-stein", target="diagonal"),
        reals,
        "quadratic",
    ),
    Model(
        "gaussian-ledoit-wolf", gcf.Gaussian(shared=True, shrinkage="ledoit-wolf"), reals, "linear"
    ),
    Model(
        "gaussian-toeplitz",
        gcf.Gaussian(shared=True, structure=gcf.BlockToeplitz(D, 1)),
        reals,
        "linear",
        generative=False,  # of the draws, the lags are scaled down once more
    ),
    Model("gaussian-low-rank", gcf.Gaussian(structure=gcf.LowRank(2)), reals, "quadratic"),
    Model("univariate", gcf.Gaussian(), real, "quadratic", prior={"class_alpha": 2.0}),
    Model("univariate-shared", gcf.Gaussian(shared=True), real, "linear"),
    Model("bernoulli", gcf.Bernoulli(), bits, "linear"),
    Model("bernoulli-0.3", gcf.Bernoulli(alpha=0.3), bits, "linear", prior={"class_alpha": 1.0}),
    Model("bernoulli-threshold", gcf.Bernoulli(threshold=3.0), reals, "linear", False),
    Model("categorical", gcf.Categorical(V), codes(*EQUAL), "linear"),
    Model("categorical-unequal", gcf.Categorical(UNEQUAL, alpha=0.3), codes(*UNEQUAL), "linear"),
    Model("multinomial", gcf.Multinomial(), counts, "linear"),
    Model("multinomial-tokens", gcf.Multinomial(alpha=0.3), tokens, "linear"),
    Model("presence", gcf.Multinomial(presence=True), counts, "linear", False),
    Model("presence-tokens", gcf.Multinomial(presence=True), tokens, "linear", False),
    Model("poisson", gcf.Poisson(), counts, "linear", proper={"prior": gcf.Gamma(1.7, 0.6)}),
    Model("directions", gcf.VonMisesFisher(), directions, "linear"),
    Model("directions-shared", gcf.VonMisesFisher(shared=True, alpha=0.3), directions, "linear"),
    Model("independent", gcf.Independent(gcf.Gaussian(ridge=0.1)), reals),
    Model("independent-bernoulli", gcf.Independent(gcf.Bernoulli()), bits, "linear"),
    Model("independent-categorical", gcf.Independent(gcf.Categorical(V)), codes(*EQUAL), "linear"),
    Model("product", _MIX, _MIXED),
    Model("product-linear", _LINEAR_MIX, blocks(size=reals, word=bits), "linear"),
]
BY_NAME = {model.name: model for model in MODELS}

_SPREAD = np.random.default_rng(7).normal(size=(2, D, D))
# Beside "gaussian-shared" it differs by its prior alone.
TWO_COVARIANCE = Model(
    "two-covariance",
    gcf.Gaussian(shared=True),
    reals,
    "linear",
    proper={"prior": gcf.TwoCovariance(2.5, _SPREAD[0] @ _SPREAD[0].T, _SPREAD[1] @ _SPREAD[1].T)},
)

# Two classes of two rows, where it does not matter which data are given.
FOUR_ROWS = np.array([[0.0], [1.0], [8.0], [9.0]], np.float32), np.array([0, 0, 1, 1])

# One of each kind, for `make test`; `make test-all` takes every model.
ONE_OF_EACH = {
    "gaussian-shared", "gaussian-diag", "bernoulli", "categorical-unequal", "multinomial-tokens",
    "poisson", "product", "gaussian-shared-holes", "mixture",
}  # fmt: skip

# One of each family, for laws that take long and depend little on hyper-parameters.
FAMILIES = [model for model in MODELS if "-" not in model.name]


def having(capability, models):
    """Those of which the family, or the density that it learns, can do that."""

    def can(model):
        if issubclass(capability, Family):
            return lacking(model.family, capability) is None
        x, y = model.example("float32")
        learned = jax.eval_shape(gcf.fit, model.classifier, x, y)
        return lacking(learned.conditional, capability) is None

    return [model for model in models if can(model)]


# With priors of their own these are the same as others.
TWINS = {
    "gaussian-ridge", "gaussian-diag-ridge", "gaussian-rda", "gaussian-diag-rda", "gaussian-oas",
    "gaussian-james-stein", "gaussian-ledoit-wolf", "gaussian-threshold",
    "gaussian-toeplitz", "gaussian-low-rank",
    "univariate-shared", "bernoulli-0.3",
    "presence-tokens", "independent-bernoulli", "independent-categorical", "product-linear",
}  # fmt: skip
DISTINCT = [model for model in MODELS if model.name not in TWINS]


# Models of which parts are not seen: components of a class, and cells of x.


def with_holes(maker, share=0.3):
    """The data with a share of the cells missing: NaN, or -1 among integers."""

    def make(rng, y, dtype):
        return holes(rng, maker(rng, y, dtype), share)

    return make


def holes(rng, x, share=0.3):
    if isinstance(x, dict):
        return {name: holes(rng, block, share) for name, block in x.items()}
    if isinstance(x, gcf.Tokens):
        return x
    code = np.nan if np.issubdtype(x.dtype, np.floating) else -1
    return np.where(rng.random(x.shape) < share, np.asarray(code, x.dtype), x)


def marginalizing(family):
    """The family with missing cells integrated out, inside combinators too."""
    inside = lambda f: hasattr(f, "missing")  # noqa: E731
    seen = lambda f: replace(f, missing="marginalize") if inside(f) else f  # noqa: E731
    return jax.tree.map(seen, family, is_leaf=inside)


_REGULAR = gcf.Gaussian(prior=gcf.NormalInverseWishart())
_REGULAR_MIX = replace(_MIX, parts=_MIX.parts | {"size": _REGULAR})
MIXTURES = [
    Model("mixture", gcf.Mixture(_REGULAR, 2), reals),
    Model("mixture-shared", gcf.Mixture(replace(_REGULAR, shared=True), 2, alpha=0.7), reals),
    Model("mixture-tokens", gcf.Mixture(gcf.Multinomial(), 2), tokens),
    Model("mixture-product", gcf.Mixture(_REGULAR_MIX, 2), _MIXED),
    Model("independent-mixture", gcf.Independent(gcf.Mixture(_REGULAR, 2)), reals),
    Model(
        "product-mixture",
        gcf.Product({"size": gcf.Mixture(_REGULAR, 2), "word": gcf.Bernoulli()}),
        blocks(size=reals, word=bits),
    ),
]
KERNELS = [
    Model("kernel", gcf.KernelDensity(0.5), reals),
    Model("independent-kernel", gcf.Independent(gcf.KernelDensity(0.5)), reals),
]
SEEN_IN_PART = [
    model
    for model in [*DISTINCT, BY_NAME["independent-categorical"]]
    if hasattr(getattr(model.family, "family", model.family), "missing")
    and not model.name.endswith("tokens")
]
WITH_HOLES = [
    *(
        replace(
            model,
            name=f"{model.name}-holes",
            family=marginalizing(model.family),
            data=with_holes(model.data),
        )
        for model in SEEN_IN_PART
    ),
    Model("product-holes", marginalizing(_REGULAR_MIX), with_holes(_MIXED)),
    Model("mixture-holes", marginalizing(gcf.Mixture(_REGULAR, 2)), with_holes(reals)),
]
KERNEL_WITH_HOLES = Model("kernel-holes", marginalizing(KERNELS[1].family), with_holes(reals))
# Those that `fit` takes, with two whose components are not seen; and with cells that are not seen.
FITTED = [
    *MODELS,
    *KERNELS,
    *(model for model in MIXTURES if model.name in ("mixture-shared", "product-mixture")),
]
FITTED_WITH_HOLES = [
    *FITTED,
    *(
        model
        for model in WITH_HOLES
        if model.name in ("gaussian-shared-holes", "gaussian-diag-shared-holes")
    ),
    KERNEL_WITH_HOLES,
]


# What laws are written with: rows of data whatever its structure, and distances of pytrees.


def take(tree, rows):
    """Rows of every array of a tree; on the host, where a slice needs no program of its own."""
    return jax.tree.map(
        lambda a: a[rows] if isinstance(a, jax.core.Tracer) else np.asarray(a)[rows], tree
    )


def concatenate(*trees):
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)


def stack(trees):
    """Trees of one structure as one, with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def is_floating(a):
    return np.issubdtype(a.dtype, np.floating)


def floating(tree):
    """The arrays of a tree by which there are derivatives."""
    return [a for a in jax.tree.leaves(tree) if is_floating(a)]


def put(tree, leaves):
    """The tree with these in place of its floating arrays."""
    leaves = iter(leaves)
    return jax.tree.map(lambda a: next(leaves) if is_floating(a) else a, tree)


def leaves_of(tree):
    """The arrays of a pytree on the host, each with its path."""
    found = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path), np.asarray(leaf)) for path, leaf in found]


def assert_close(actual, expected, tolerance):
    """Equal structure, shape and dtype; each array within `tolerance` of its largest number.

    Infinities and NaN must stand in the same places. Numbers below 1 are measured against 1.
    """
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for (path, a), (_, b) in zip(leaves_of(actual), leaves_of(expected), strict=True):
        assert a.shape == b.shape, f"{path}: {a.shape} != {b.shape}"
        assert a.dtype == b.dtype, f"{path}: {a.dtype} != {b.dtype}"
        finite = np.isfinite(b)
        np.testing.assert_array_equal(np.isfinite(a), finite, err_msg=path)
        np.testing.assert_array_equal(a[~finite], b[~finite], err_msg=path)
        scale = max(1.0, np.abs(b[finite]).max(initial=0))
        error = np.abs(a[finite] - b[finite]).max(initial=0)
        assert error <= tolerance * scale, f"{path}: off by {error:.3g}, of {scale:.3g}"


def assert_near(actual, expected, tolerance, terms=1.0):
    """Each number within `tolerance` of its own size and of the largest of `terms`.

    A sum keeps the rounding of the terms that were added up. Where they cancel, no share of what is
    left bounds it, and none at all where 0 is left. The terms of a log-probability are at least of
    order 1: an error of ε in log p is a relative one of ε in p.
    """
    size = np.abs(terms).max()
    assert np.isfinite(size)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * size)


def assert_same(actual, expected):
    """Equal bit for bit, NaN equal to NaN."""
    for (path, a), (_, b) in zip(leaves_of(actual), leaves_of(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, err_msg=path)


def assert_finite(tree):
    for path, leaf in leaves_of(tree):
        assert np.isfinite(leaf).all(), f"{path}: {leaf}"


def fit_and_score(clf, x, y, weights):
    """What has no axis of rows, and what has one."""
    params = gcf.fit(clf, x, y, weights)
    return params, (gcf.log_joint(params, x), gcf.log_posterior(params, x), gcf.predict(params, x))


def spoil(x, rows):
    """x with cells that no density can take in some rows: NaN, or -5 where x is integer."""
    if isinstance(x, dict):
        return {name: spoil(block, rows) for name, block in x.items()}
    if isinstance(x, gcf.Tokens):
        ids, mask = x.ids.copy(), x.mask.copy()
        ids[rows], mask[rows] = -5, True
        return _tokens(ids, mask)
    x = x.copy()
    x[rows] = np.nan if np.issubdtype(x.dtype, np.floating) else -5
    return x
