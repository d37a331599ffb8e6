"""The contract: names, argument names, defaults, and the structure of what they return."""

import inspect
import re
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import genclf as gcf

REQUIRED = inspect.Parameter.empty

# Argument names and defaults; after "*" they are keyword-only.
SIGNATURES = {
    "fit": {
        "clf": REQUIRED, "x": REQUIRED, "y": REQUIRED, "weights": None, "*": None, "init": None
    },
    "stats": {"clf": REQUIRED, "x": REQUIRED, "y": REQUIRED, "weights": None},
    "estimate": {"clf": REQUIRED, "stats": REQUIRED},
    "merge": {"a": REQUIRED, "b": REQUIRED},
    "remove": {"a": REQUIRED, "b": REQUIRED},
    "scale": {"stats": REQUIRED, "weight": REQUIRED},
    "empty": {"clf": REQUIRED, "x": REQUIRED},
    "pool": {"stats": REQUIRED, "axis": 0},
    "predict": {"params": REQUIRED, "x": REQUIRED},
    "log_joint": {"params": REQUIRED, "x": REQUIRED},
    "log_posterior": {"params": REQUIRED, "x": REQUIRED, "log_prior": None},
    "log_marginal": {"params": REQUIRED, "x": REQUIRED},
    "discriminant": {"params": REQUIRED, "x": REQUIRED},
    "log_lik": {"params": REQUIRED, "stats": REQUIRED},
    "em": {
        "clf": REQUIRED, "x": REQUIRED, "y": REQUIRED, "*": None, "key": None,
        "weights": None, "unlabelled_weight": 1.0, "max_steps": 1000, "tol": 1e-6,
        "init": "k-means++", "restarts": 1,
    },
    "adapt_prior": {
        "params": REQUIRED, "x": REQUIRED, "*": None, "weights": None, "method": "likelihood",
        "learned": None, "y": None, "max_steps": 1000, "tol": 1e-6, "key": None, "num_draws": 200,
    },
    "recalibrate": {
        "log_posterior": REQUIRED, "y": REQUIRED, "*": None, "bias": True, "weights": None,
        "folds": None,
    },
    "with_calibration": {"params": REQUIRED, "recalibration": REQUIRED},
    "distance": {"params": REQUIRED, "x": REQUIRED},
    "typicality": {
        "clf": REQUIRED, "learned": REQUIRED, "x": REQUIRED, "*": None, "method": None
    },
    "typicality_test": {"clf": REQUIRED, "learned": REQUIRED, "*": None, "method": None},
    "coverage": {
        "p": REQUIRED, "y": REQUIRED, "*": None, "alpha": 0.05, "weights": None
    },
    "novelty": {"p": REQUIRED, "*": None, "alpha": 0.05},
    "condition": {"params": REQUIRED, "x": REQUIRED, "y": None},
    "sample": {"key": REQUIRED, "params": REQUIRED, "shape": ()},
    "with_prior": {"params": REQUIRED, "class_prior": REQUIRED},
    "linear_form": {"params": REQUIRED},
    "quadratic_form": {"params": REQUIRED},
    "logistic_form": {"params": REQUIRED},
    "num_parameters": {"clf": REQUIRED, "d": REQUIRED},
    "num_boundary_parameters": {
        "num_classes": REQUIRED, "d": REQUIRED, "*": None, "quadratic": False
    },
    "validate": {
        "model": REQUIRED, "x": REQUIRED, "y": None, "weights": None, "*": None, "latent": False
    },
    "diagnose": {"clf": REQUIRED, "x": REQUIRED, "y": REQUIRED, "weights": None},
    "lda": {
        "num_classes": REQUIRED, "*": None, "ridge": 0.0, "shrinkage": None, "class_alpha": 0.0,
        "prior": None, "inference": "map", "missing": "error",
    },
    "qda": {
        "num_classes": REQUIRED, "*": None, "ridge": 0.0, "shrinkage": None, "class_alpha": 0.0,
        "prior": None, "inference": "map", "missing": "error",
    },
    "rda": {
        "num_classes": REQUIRED, "*": None, "pooling": REQUIRED, "shrinkage": REQUIRED,
        "class_alpha": 0.0, "missing": "error",
    },
    "gaussian_nb": {
        "num_classes": REQUIRED, "*": None, "ridge": 0.0, "class_alpha": 0.0,
        "prior": None, "inference": "map", "missing": "error",
    },
    "bernoulli_nb": {
        "num_classes": REQUIRED, "*": None, "alpha": 1.0, "class_alpha": 0.0,
        "prior": None, "inference": "map", "missing": "error",
    },
    "multinomial_nb": {
        "num_classes": REQUIRED, "*": None, "alpha": 1.0, "class_alpha": 0.0,
        "prior": None, "inference": "map", "missing": "error",
    },
    "categorical_nb": {
        "num_classes": REQUIRED, "num_values": REQUIRED, "*": None,
        "alpha": 1.0, "class_alpha": 0.0, "prior": None, "inference": "map", "missing": "error",
    },
    "Classifier": {
        "family": REQUIRED, "num_classes": REQUIRED, "class_alpha": 0.0, "class_prior": None,
        "inference": "map",
    },
    "posterior": {"clf": REQUIRED, "stats": REQUIRED},
    "predictive": {"clf": REQUIRED, "stats": REQUIRED},
    "log_evidence": {"clf": REQUIRED, "stats": REQUIRED},
    "fit_prior": {"clf": REQUIRED, "stats": REQUIRED},
    "Dirichlet": {"concentration": REQUIRED},
    "Beta": {"a": REQUIRED, "b": REQUIRED},
    "NormalInverseWishart": {"mean": None, "kappa": 0.01, "scale": None, "dof": None},
    "TwoCovariance": {"mean": None, "between": None, "within": None},
    "SoftmaxRegression": {"num_classes": REQUIRED, "l2": 0.0, "features": "linear"},
    "softmax_form": {"params": REQUIRED, "*": None, "features": "linear"},
    "learning_curve": {
        "models": REQUIRED, "x": REQUIRED, "y": REQUIRED, "sizes": REQUIRED, "*": None,
        "key": REQUIRED, "num_splits": 200, "test": None, "batch_size": None,
    },
    "calibration": {
        "log_posterior": REQUIRED, "y": REQUIRED, "*": None, "num_bins": 10, "weights": None
    },
    "Gaussian": {
        "covariance": "full", "shared": False, "ridge": 0.0, "ddof": 0.0, "prior": None,
        "missing": "error", "pooling": None, "shrinkage": None, "target": "identity",
        "soft_threshold": None, "structure": None,
    },
    "BlockToeplitz": {"times": REQUIRED, "channels": REQUIRED, "taper": True},
    "Blocks": {"sizes": REQUIRED},
    "LowRank": {"r": REQUIRED},
    "eraser": {"stats": REQUIRED},
    "patterns": {"source": REQUIRED, "stats": None},
    "crossnobis": {"stats_by_run": REQUIRED, "*": None, "shrinkage": None},
    "Bernoulli": {
        "alpha": 1.0, "threshold": None, "prior": None, "missing": "error", "missing_code": -1
    },
    "Categorical": {
        "num_values": REQUIRED, "alpha": 1.0, "unseen": "error", "prior": None,
        "missing": "error", "missing_code": -1,
    },
    "Multinomial": {
        "alpha": 1.0, "presence": False, "prior": None, "missing": "error", "missing_code": -1
    },
    "Mixture": {"family": REQUIRED, "num_components": REQUIRED, "alpha": 0.0},
    "KernelDensity": {"bandwidth": "scott", "leave_one_out": False, "missing": "error"},
    "Independent": {"family": REQUIRED},
    "Product": {"parts": REQUIRED},
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_argument_names_and_defaults(name):
    found = {}
    for parameter in inspect.signature(getattr(gcf, name)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            found.setdefault("*", None)
        found[parameter.name] = parameter.default
    assert list(found.items()) == list(SIGNATURES[name].items())


def test_every_exported_name_exists_once():
    assert len(set(gcf.__all__)) == len(gcf.__all__)
    assert [name for name in gcf.__all__ if not hasattr(gcf, name)] == []


def test_every_public_name_is_exported():
    # What is importable from the front but not exported are modules of the package alone.
    others = {n for n in vars(gcf) if not n.startswith("_")} - set(gcf.__all__)
    assert {n for n in others if not inspect.ismodule(getattr(gcf, n))} == set()


@pytest.mark.parametrize("name", gcf.__all__)
def test_every_exported_name_is_documented(name):
    thing = getattr(gcf, name)
    if inspect.ismodule(thing):
        assert thing.__doc__
        return
    assert thing.__doc__.rstrip(), name
    first = thing.__doc__.strip().split("\n")[0]
    assert first.endswith((".", ":", ";")) or "\n\n" in thing.__doc__, first


def test_every_exported_name_is_on_the_api_page():
    """`make docs` asks the same of the names of all modules."""
    page = (Path(__file__).parents[2] / "docs/api.md").read_text()
    named = set(re.findall(r"^(?:\.\. auto\w+:: |    )(?:genclf\.)?(\w+)", page, re.M))
    names = {name for name in gcf.__all__ if not inspect.ismodule(getattr(gcf, name))}
    assert names - named - {"__version__"} == set()


def test_presets_are_compositions():
    for found, expected in {
        gcf.lda: gcf.Gaussian(shared=True),
        gcf.qda: gcf.Gaussian(),
        gcf.gaussian_nb: gcf.Gaussian("diag"),
        gcf.bernoulli_nb: gcf.Bernoulli(),
        gcf.multinomial_nb: gcf.Multinomial(),
    }.items():
        assert eqx.tree_equal(found(3), gcf.Classifier(expected, 3))
    assert eqx.tree_equal(gcf.categorical_nb(3, (2, 7)), gcf.Classifier(gcf.Categorical((2, 7)), 3))


def test_presets_of_one_class():
    for preset in (gcf.lda, gcf.qda, gcf.gaussian_nb, gcf.bernoulli_nb, gcf.multinomial_nb):
        assert preset(1).num_classes == 1
    assert gcf.rda(1, pooling=0.5, shrinkage=0.5).num_classes == 1
    assert gcf.categorical_nb(1, 7).num_classes == 1
    x = np.arange(14.0).reshape(7, 2) ** 2
    params = gcf.fit(gcf.nearest_shrunken_centroids(1, soft_threshold=2.0), x, np.zeros(7, int))
    deviation = x.std(0, ddof=1)
    np.testing.assert_allclose(
        params.conditional.scale.squeeze(), deviation + np.median(deviation), rtol=1e-5
    )


@pytest.mark.parametrize(
    "model",
    [
        gcf.Gaussian("diag", shared=True, ridge=0.1),
        gcf.Bernoulli(alpha=0.5, threshold=1.0),
        gcf.Categorical((2, 3), alpha=0.5, unseen="ignore"),
        gcf.Multinomial(alpha=0.5, presence=True),
        gcf.KernelDensity(bandwidth=0.5),
        gcf.Independent(gcf.Gaussian(ridge=0.1)),
        gcf.Product({"a": gcf.Gaussian(ridge=0.1), "b": gcf.Bernoulli(alpha=0.5)}),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_are_frozen_pytrees_whose_floats_are_leaves(model):
    clf = gcf.Classifier(model, 3, class_alpha=0.25)
    leaves, structure = jax.tree.flatten(clf)
    assert leaves and all(isinstance(leaf, float) for leaf in leaves)
    assert hash(structure) == hash(jax.tree.structure(jax.tree.unflatten(structure, leaves)))
    with pytest.raises(AttributeError):
        clf.num_classes = 4
    # Anything may stand in the place of a leaf: transformations put their own objects there.
    jax.tree.unflatten(structure, [object()] * len(leaves))


@pytest.mark.slow
def test_results_are_pytrees_of_arrays():
    x, y = np.eye(3, dtype=np.float32), np.arange(3)
    s = gcf.stats(gcf.qda(3), x, y)
    for tree in (s, gcf.estimate(gcf.qda(3), s), gcf.diagnose(gcf.qda(3), x, y)):
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(tree))
    assert s.count.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gcf.Classifier(gcf.Product({"a": gcf.Gaussian(), "b": gcf.Bernoulli()}), 3),
        lambda: gcf.Classifier(gcf.Gaussian(), 3, class_prior=(0.2, 0.3, 0.5)),
        lambda: gcf.lda(3, prior=gcf.NormalInverseWishart(mean=np.zeros(2))),
        lambda: gcf.categorical_nb(3, (2, 3)),
    ],
)
def test_models_are_hashable(make):
    assert hash(make()) == hash(make())
    assert {make(): 1}[make()] == 1
    assert hash(make()) != hash(gcf.qda(3))
