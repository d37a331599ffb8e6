"""Every argument of the public surface, given what it cannot take: a program, run by a test.

It runs by itself, as a user's program does, without the type checks that the tests put on genclf.
Each call has to raise a `ValueError` or `TypeError`, from a line of genclf, that names the
argument. Prints the calls that do not, one a line, and then how many calls there were.
"""

import os
import sys
import tempfile
import traceback
import warnings
from dataclasses import fields
from functools import partial
from inspect import signature
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.naive_bayes import GaussianNB

import genclf as gcf
from tests import registry

HOME = str(Path(gcf.__file__).parent)
N, D, K = 11, 3, 2
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32) + np.arange(N)[:, None] % K
Y = (np.arange(N) % K).astype(np.int32)
COUNTS = np.arange(N * D).reshape(N, D) % 4
KEY = jax.random.key(0)
CLF = gcf.lda(K)
WORDS = gcf.multinomial_nb(K)
PROPER = gcf.lda(K, prior=gcf.NormalInverseWishart())
KNOWN = gcf.lda(K, prior=gcf.TwoCovariance(0.0, between=1.0, within=1.0))
PARAMS = gcf.fit(CLF, X, Y)
CENTROIDS = gcf.nearest_shrunken_centroids(K, soft_threshold=0.5)
FOLDS = np.arange(N) % 3
STATS = gcf.stats(CLF, X, Y)
BATCHED = jax.tree.map(lambda a: jnp.stack([a, a]), STATS)
HELD = np.log(np.linspace(0.1, 0.9, N * K).reshape(N, K))
HELD = (HELD - np.logaddexp.reduce(HELD, 1, keepdims=True)).astype(np.float32)
TOKENS = gcf.Tokens(jnp.zeros((N, 2), jnp.int32), jnp.ones((N, 2), bool), D)

BATCH = {"a": X[:, 0], "b": X[:, 1], "y": Y}
SCHEMA = gcf.Schema.of(CLF, BATCH, label="y")

SAVED = f"{tempfile.mkdtemp()}/saved.genclf"
gcf.save(SAVED, PARAMS)

SCORES = ("predict", "log_joint", "log_posterior", "log_marginal", "discriminant")

# What no argument takes, but None where that is the default.
BAD = {
    "None": None,
    "a string": "no",
    "a list of strings": ["no", "yes"],
    "a complex number": 1 + 2j,
    "an array of rank 4": np.ones((2, 3, 5, 7)),
    "NaN": float("nan"),
    "objects": np.array([{}, print], object),
    "a sparse matrix": scipy.sparse.eye(N, D, format="csr"),
    "a masked array": np.ma.masked_array(np.ones((N, D)), np.eye(N, D) > 0),
    "a table of strings": pd.DataFrame({"a": ["x"] * N, "b": ["y"] * N, "c": ["z"] * N}),
    "a negative number": -1.5,
    "a generator": None,  # made anew for each call
    "a class": dict,
    "another module": sys,
}

# A call that is right, for each function; classes are used by a fit or a prediction.
RIGHT = {
    "fit": {"clf": CLF, "x": X, "y": Y, "weights": np.ones(N, np.float32), "init": None},
    "stats": {"clf": CLF, "x": X, "y": Y, "weights": np.ones(N, np.float32)},
    "empty": {"clf": CLF, "x": X},
    "estimate": {"clf": CLF, "stats": STATS},
    "pool_classes": {"clf": CLF, "stats": gcf.stats(gcf.qda(K), X, Y)},
    "merge": {"a": STATS, "b": STATS},
    "remove": {"a": STATS, "b": STATS},
    "scale": {"stats": STATS, "weight": 0.5},
    "relabel": {"stats": STATS, "to": [0] * K, "num_classes": 2},
    "to_sums": {"stats": STATS, "centre": np.zeros(D)},
    "from_sums": {
        "clf": CLF, **gcf.to_sums(STATS)._asdict(), "centre": np.zeros(D), "cells": None,
    },
    "pool": {"stats": BATCHED, "axis": 0},
    **{name: {"params": PARAMS, "x": X} for name in SCORES},
    "log_posterior": {"params": PARAMS, "x": X, "log_prior": np.zeros((N, K), np.float32)},
    "explain": {"params": PARAMS, "x": X, "of": np.zeros(N, int), "against": 1},
    "condition": {"params": PARAMS, "x": X, "y": Y},
    "log_lik": {"params": PARAMS, "stats": STATS},
    "sample": {"key": KEY, "params": PARAMS, "shape": (2,)},
    "with_prior": {"params": PARAMS, "class_prior": np.full(K, 0.5, np.float32)},
    "em": {
        "clf": PROPER, "x": X, "y": Y, "key": KEY, "weights": np.ones(N, np.float32),
        "unlabelled_weight": 1.0, "max_steps": 3, "tol": 1e-3, "init": "random", "restarts": 1,
    },
    "adapt_prior": {
        "params": PARAMS, "x": X, "weights": np.ones(N, np.float32), "method": "confusion",
        "learned": HELD, "y": Y, "max_steps": 3, "tol": 1e-3, "key": KEY, "num_draws": 2,
    },
    "recalibrate": {
        "log_posterior": HELD, "y": Y, "bias": True, "weights": np.ones(N, np.float32),
        "folds": FOLDS,
    },
    "with_calibration": {"params": PARAMS, "recalibration": gcf.recalibrate(HELD, Y)},
    "distance": {"params": PARAMS, "x": X},
    "typicality": {"clf": CLF, "learned": STATS, "x": X, "method": "f"},
    "typicality_test": {"clf": CLF, "learned": STATS, "method": "f"},
    "coverage": {
        "p": np.full((N, K), 0.5, np.float32), "y": Y, "alpha": 0.1,
        "weights": np.ones(N, np.float32),
    },
    "novelty": {"p": np.full((N, K), 0.5, np.float32), "alpha": 0.1},
    "validate": {"model": CLF, "x": X, "y": Y, "weights": np.ones(N), "latent": False},
    "diagnose": {"clf": CLF, "x": X, "y": Y, "weights": np.ones(N, np.float32)},
    "posterior": {"clf": PROPER, "stats": STATS},
    "predictive": {"clf": PROPER, "stats": STATS},
    "log_evidence": {"clf": PROPER, "stats": STATS},
    "fit_prior": {"clf": PROPER, "stats": STATS},
    "prior": {"clf": PROPER, "stats": STATS},
    "same_class": {"clf": KNOWN, "first": STATS, "second": STATS},
    "story": {"model": PROPER, "stats": STATS, "density": None},
    "linear_form": {"params": PARAMS},
    "logistic_form": {"params": PARAMS},
    "quadratic_form": {"params": PARAMS},
    "softmax_form": {"params": PARAMS, "features": "linear"},
    "num_parameters": {"clf": CLF, "d": D},
    "num_boundary_parameters": {"num_classes": K, "d": D, "quadratic": False},
    "indicators": {"x": COUNTS, "num_values": 4},
    "row_space": {"x": X},
    "discriminant_axes": {"source": PARAMS},
    "transform": {"axes": gcf.discriminant_axes(PARAMS), "x": X, "num_axes": 1},
    "reduced_rank": {"params": PARAMS, "num_axes": 1},
    "manova": {"stats": STATS},
    "eraser": {"stats": STATS},
    "patterns": {"source": PARAMS, "stats": STATS},
    "crossnobis": {"stats_by_run": [STATS, STATS], "shrinkage": 0.1},
    "cat_scores": {"source": PARAMS, "count": np.full(K, 5, np.float32)},
    "rank_features": {"scores": gcf.cat_scores(PARAMS, np.full(K, 5, np.float32))},
    "threshold_path": {"clf": CENTROIDS, "stats": gcf.stats(CENTROIDS, X, Y), "num_thresholds": 3},
    "kfold": {"key": KEY, "y": Y, "num_folds": 2, "groups": None},
    "folds": {"splits": [(np.arange(3), np.arange(3, N))], "num_rows": None},
    "cross_validate": {
        "clf": CLF, "x": X, "y": Y, "folds": FOLDS, "weights": np.ones(N, np.float32),
        "test_on": None, "diagnosed": False, "members": False,
    },
    "leave_one_out": {
        "clf": CLF, "x": X, "y": Y, "weights": np.ones(N, np.float32), "batch_size": None
    },
    "score": {
        "found": np.log(np.full((N, K), 0.5, np.float32)), "y": Y, "metric": "accuracy",
        "weights": np.ones(N, np.float32), "by": None,
    },
    "permutation_test": {
        "key": KEY, "clf": CLF, "x": X, "y": Y, "folds": FOLDS, "metric": "accuracy", "num": 2,
        "test_on": None, "blocks": None, "whole_blocks": False, "by": None,
        "weights": np.ones(N, np.float32), "batch_size": None,
    },
    "fit_many": {"clf": CLF, "datasets": [(X, Y)], "batch_size": None, "progress": None},
    "diagnose_many": {"clf": CLF, "datasets": [(X, Y)], "batch_size": None, "progress": None},
    "predict_many": {"params": gcf.fit_many(CLF, [(X, Y)]), "x": [X], "batch_size": None},
    "searchlight": {
        "clf": CLF, "x": X, "y": Y, "neighbours": [[0, 1], [2]], "folds": FOLDS,
        "metric": "accuracy", "num": 2, "key": KEY, "blocks": None, "whole_blocks": False,
        "test_on": None, "weights": np.ones(N, np.float32), "batch_size": None, "progress": None,
    },
    **{
        name: {
            "clf": CLF, "x": X[..., None], "y": Y, "folds": FOLDS, "metric": "accuracy", "num": 2,
            "key": KEY, "blocks": None, "whole_blocks": False, "weights": np.ones(N, np.float32),
            "test_on": None, "batch_size": None, "progress": None,
        } for name in ("sliding", "generalise")
    },
    "group_test": {
        "key": KEY, "metric": "accuracy", "num": 2,
        "subjects": [gcf.PermutationTest(*map(jnp.asarray, (0.5, np.ones(3), 0.5)))] * 2,
    },
    "stable_features": {
        "key": KEY, "clf": CLF, "x": X, "y": Y, "num_selected": 1, "num": 2,
        "batch_size": None, "progress": None,
    },
    "tune": {
        "clf_of": lambda ridge: gcf.lda(K, ridge=ridge), "grid": {"ridge": [0.1, 1.0]}, "x": X,
        "y": Y, "folds": FOLDS, "metric": "accuracy", "nested": False,
        "weights": np.ones(N, np.float32), "batch_size": None, "progress": None,
    },
    "bootstrap": {
        "key": KEY, "statistic": lambda w: w.sum(), "num_rows": N, "num": 2, "level": 0.9,
        "groups": None, "strata": None, "batch_size": None, "progress": None,
    },
    "compare": {
        "table": pd.DataFrame({"a": X[:, 0], "y": Y}), "label": "y", "num_folds": 2, "seed": 0,
        "progress": None, "drop": [], "kinds": None, "weights": None, "missing": "ignore",
        "conformal": False,
    },
    "save": {"path": f"{tempfile.mkdtemp()}/a.genclf", "given": PARAMS},
    "load": {"path": SAVED},
    "partial": {
        "clf": CLF, "schema": SCHEMA, "batches": [BATCH], "part_id": "one", "params": None,
        "xla": False,
    },
    "combine": {"parts": [gcf.partial(CLF, SCHEMA, [BATCH], part_id="one")]},
    "from_sklearn": {"estimator": GaussianNB().fit(X, Y)},
    "certify": {
        "clf": CLF, "params": PARAMS, "x": X, "y": Y, "weights": np.ones(N, np.float32), "tol": 1e-3
    },
    "standard_errors": {
        "clf": CLF, "params": PARAMS, "x": X, "y": Y, "weights": np.ones(N, np.float32)
    },
    "fit_gradient": {
        "clf": CLF, "x": X, "y": Y, "weights": np.ones(N, np.float32), "optimizer": None,
        "max_steps": 3, "tol": 1e-3, "key": KEY, "batch_size": 5, "callback": None,
    },
    "fit_lagrange": {"clf": WORDS, "stats": gcf.stats(WORDS, COUNTS, Y)},
    "solve_constrained": {
        "objective": lambda p: -(p**2).sum(), "constraints": lambda p: p.sum() - 1,
        "init": jnp.ones(2), "lower": jnp.zeros(2), "upper": jnp.full(2, 3.0), "max_steps": 5,
        "block_size": None, "tol": 1e-3,
    },
    "calibration": {
        "log_posterior": np.log(np.full((N, K), 0.5, np.float32)), "y": Y, "num_bins": 3,
        "weights": np.ones(N, np.float32),
    },
    "learning_curve": {
        "models": {"a": CLF}, "x": X, "y": Y, "sizes": [7], "key": KEY, "num_splits": 2,
        "test": None, "batch_size": None,
    },
    "from_lengths": {
        "ids": np.zeros((N, 2), np.int32), "lengths": np.ones(N, np.int32), "vocab_size": D
    },
}  # fmt: skip
SHAPED = {
    "Gaussian": (X, {"covariance": "full", "shared": False, "ridge": 0.0, "ddof": 0.0,
                     "prior": None, "missing": "error", "pooling": 0.1, "shrinkage": 0.1,
                     "target": "identity", "structure": gcf.Blocks((1, D - 1))}),
    "Bernoulli": (COUNTS % 2, {"alpha": 1.0, "threshold": None, "prior": None, "missing": "error",
                               "missing_code": -1}),
    "Categorical": (COUNTS, {"num_values": 4, "alpha": 1.0, "unseen": "error", "prior": None,
                             "missing": "error", "missing_code": -1}),
    "Multinomial": (COUNTS, {"alpha": 1.0, "presence": False, "prior": None, "missing": "error",
                             "missing_code": -1}),
    "Mixture": (X, {"family": gcf.Gaussian("diag"), "num_components": 2, "alpha": 1.0}),
    "KernelDensity": (X, {"bandwidth": "scott", "leave_one_out": False}),
    "Independent": (X, {"family": gcf.Gaussian(ridge=0.1)}),
    "Product": ({"a": X}, {"parts": {"a": gcf.Gaussian(ridge=0.1)}}),
}  # fmt: skip
PRIORS = {
    "Dirichlet": (COUNTS, gcf.Multinomial, {"concentration": 2.0}),
    "Beta": (COUNTS % 2, gcf.Bernoulli, {"a": 2.0, "b": 2.0}),
    "NormalInverseWishart": (
        X, gcf.Gaussian, {"mean": None, "kappa": 0.1, "scale": None, "dof": None}
    ),
    "TwoCovariance": (
        X, partial(gcf.Gaussian, shared=True), {"mean": 0.0, "between": 1.0, "within": 1.0}
    ),
}  # fmt: skip
STRUCTURES = {
    "BlockToeplitz": {"times": D, "channels": 1, "taper": True},
    "Blocks": {"sizes": (1, D - 1)},
    "LowRank": {"r": 1},
}
PRESETS = {
    "lda": (X, {"ridge": 0.0}), "qda": (X, {"ridge": 0.1}), "gaussian_nb": (X, {"ridge": 0.1}),
    "rda": (X, {"pooling": 0.1, "shrinkage": 0.2}),
    "nearest_shrunken_centroids": (X, {"soft_threshold": 0.5}),
    "bernoulli_nb": (COUNTS % 2, {"alpha": 1.0}), "multinomial_nb": (COUNTS, {"alpha": 1.0}),
    "categorical_nb": (COUNTS, {"num_values": 4, "alpha": 1.0}),
}  # fmt: skip


def _of_registry():
    """Families and priors that are not above: rows of their model, and their own defaults."""
    for model in registry.MODELS:
        name, x = type(model.family).__name__, model.example("float32", n=N)[0]
        defaults = {f.name: getattr(model.family, f.name) for f in fields(model.family)}
        if name not in SHAPED:
            SHAPED[name] = x, defaults
        prior = model.proper.get("prior")
        if prior is not None:
            right = {f.name: getattr(prior, f.name) for f in fields(prior)}
            PRIORS[type(prior).__name__] = x, type(model.family), right


_of_registry()


def calls():
    """(name, function, right arguments) of all that is public."""
    for name, right in RIGHT.items():
        yield name, public(name), right
    for name, (x, right) in SHAPED.items():
        yield name, _fit_of(lambda name=name, **kw: getattr(gcf, name)(**kw), x), right
    for name, (x, family, right) in PRIORS.items():
        make = lambda name=name, family=family, **kw: family(prior=getattr(gcf, name)(**kw))  # noqa: E731
        yield name, _fit_of(make, x), right
    for name, right in STRUCTURES.items():
        make = lambda name=name, **kw: gcf.Gaussian(structure=getattr(gcf, name)(**kw))  # noqa: E731
        yield name, _fit_of(make, X), right
    common = {"num_classes": K, "class_alpha": 0.0, "prior": None, "inference": "map",
              "missing": "error"}  # fmt: skip
    for name, (x, right) in PRESETS.items():
        yield (
            name,
            lambda x=x, name=name, **kw: gcf.fit(getattr(gcf, name)(**kw), x, Y),
            {a: v for a, v in common.items() if a in signature(getattr(gcf, name)).parameters}
            | right,
        )
    yield (
        "Classifier",
        lambda **kw: gcf.fit(gcf.Classifier(**kw), X, Y),
        {"family": gcf.Gaussian(), "num_classes": K, "class_alpha": 0.0, "class_prior": None,
         "inference": "map"},
    )  # fmt: skip
    yield (
        "SoftmaxRegression",
        lambda **kw: gcf.fit(gcf.SoftmaxRegression(**kw), X, Y),
        {"num_classes": K, "l2": 0.1, "features": "linear"},
    )
    yield (
        "ClassifierParams",
        lambda **kw: gcf.predict(gcf.ClassifierParams(**kw), X),
        {"log_prior": PARAMS.log_prior, "conditional": PARAMS.conditional},
    )
    yield (
        "Tokens",
        lambda **kw: gcf.fit(WORDS, gcf.Tokens(**kw), Y),
        {"ids": TOKENS.ids, "mask": TOKENS.mask, "vocab_size": D},
    )


def _fit_of(make, x):
    return lambda **kw: gcf.fit(gcf.Classifier(make(**kw), K), x, Y)


# (function, argument, bad value) that are right after all, or fail within what was given.
ACCEPTED = {
    ("fit_gradient", "optimizer", "None"),
    ("fit_gradient", "callback", "a class"),
    ("num_parameters", "d", "None"),
    ("em", "tol", "a negative number"),
    ("story", "density", "a class"),
    ("solve_constrained", "constraints", "None"),
    ("solve_constrained", "objective", "a class"),
    ("solve_constrained", "constraints", "a class"),
    ("Bernoulli", "threshold", "a negative number"),
    ("NormalInverseWishart", "mean", "a negative number"),
    ("TwoCovariance", "mean", "a negative number"),
    *(("TwoCovariance", name, "None") for name in ("mean", "between", "within")),
    ("indicators", "x", "an array of rank 4"),
    ("score", "metric", "a class"),
    ("permutation_test", "metric", "a class"),
    ("searchlight", "metric", "a class"),
    *((name, "metric", "a class") for name in ("sliding", "generalise", "group_test")),
    *((name, "progress", "a class") for name in ("fit_many", "diagnose_many")),
    *(
        (name, "progress", "a class")
        for name in ("searchlight", "sliding", "generalise", "tune", "bootstrap", "stable_features")
    ),
    ("compare", "progress", "a class"),
    ("tune", "metric", "a class"),
    ("bootstrap", "statistic", "a class"),
    *(("save", "given", kind) for kind in ("None", "a string", "a list of strings", "NaN")),
    *(("save", "given", kind) for kind in ("an array of rank 4", "a negative number")),
    ("save", "path", "a string"),
    ("load", "path", "a string"),
    # A path: the error names the file.
    ("partial", "batches", "a string"),
    # Batches without the columns: the error names these.
    *(("partial", "batches", kind) for kind in ("objects", "a table of strings")),
    ("partial", "part_id", "a string"),
    ("rda", "pooling", "None"),
    ("rda", "shrinkage", "None"),
    ("nearest_shrunken_centroids", "soft_threshold", "None"),
}


def public(name):
    """The function or class of that name."""
    homes = (gcf, gcf.Tokens, gcf.bayes)
    return next(getattr(home, name) for home in homes if hasattr(home, name))


def complaint(function, right, argument, bad):
    """What is wrong with the answer to a bad argument; None if nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**(right | {argument: bad}))
    except (ValueError, TypeError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        if not frames[-1].filename.startswith(HOME):
            last = frames[-1]
            return f"raised in {Path(last.filename).name}:{last.lineno}: {error}"
        if argument not in str(error):
            return f"the message does not name it: {error}"
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


# Results, which nobody makes by hand, and what takes no argument.
NOT_CALLED = {
    "Calibration", "Certificate", "Conditional", "Diagnosis", 
    "GaussianDiagnosis", "GaussianFeatures", 
    "LearningCurve", "Posterior", "DiscriminantAxes", "Eraser", "Manova",
    "Moments", "RowSpace", "Sums", "CatScores", "FeatureRanking", "ThresholdPath",
    "CrossValidation", "PermutationTest", "Searchlight", "Tuning", "Bootstrap",
    "GroupTest", "StableFeatures",
    "ClassifierStats", "Comparison", "Explanation", "ModelScore", "TableModel",
    "Part", "PlainSums", "Schema", "AdaptedPrior", "Recalibration", "Coverage", "Share",
    "FTest", "FoldsTest", "Members",
}  # fmt: skip
NOT_CALLED |= {name for name in gcf.__all__ if name.endswith(("Params", "Solution"))}


PROGRAMS = []  # the names of those that were compiled
MOST_PROGRAMS = 12
SEVERAL = {
    "searchlight": 31, "sliding": 25, "generalise": 21, "stable_features": 27, "validate": 26,
    "diagnose_many": 19, "from_lengths": 15, "fit_many": 14, "permutation_test": 14,
}  # fmt: skip
OF_USERS = {"bootstrap"}  # compiles a user's function each time


def count_program(event, _, **of):
    """A listener of JAX."""
    if event == "/jax/core/compile/backend_compile_duration":
        PROGRAMS.append(of.get("fun_name"))


def not_attacked():
    """Public names, and arguments of public functions, that no call here gives a bad value."""
    called = {name for name, *_ in calls()}
    names = {name for name in gcf.__all__ if callable(getattr(gcf, name))}
    found = sorted(names - called - NOT_CALLED)
    for name, right in RIGHT.items():
        missing = set(signature(public(name)).parameters) - set(right)
        found += [f"{name}({argument})" for argument in sorted(missing)]
    return found


def main():
    """Print the complaints, and the number of calls.

    Also the functions that compile many programs in their first call, which takes as long, and
    those that compile anew in a second call with the same arguments.
    """
    jax.monitoring.register_event_duration_secs_listener(count_program)
    os.chdir(tempfile.mkdtemp())  # a string is a path to `save`
    number = 0
    only = sys.argv[1:]
    for name, function, right in calls():
        if only and name not in only:
            continue
        before = len(PROGRAMS)
        function(**right)  # the others are wrong for one reason alone
        if (first := len(PROGRAMS) - before) > SEVERAL.get(name, MOST_PROGRAMS):
            print(f"{name} compiles {first} programs: {PROGRAMS[before:]}", flush=True)
        before = len(PROGRAMS)
        function(**right)
        if (again := len(PROGRAMS) - before) and name not in OF_USERS:
            print(f"{name} compiles {again} programs when called again", flush=True)
        for argument in right:
            for kind, bad in BAD.items():
                number += 1
                if kind == "a generator":
                    bad = (i for i in range(3))
                found = complaint(function, right, argument, bad)
                default = signature(public(name)).parameters[argument].default
                right_after_all = kind == "None" and default is None
                if (name, argument, kind) in ACCEPTED or (found == "accepted" and right_after_all):
                    continue
                if found:
                    print(f"{name}({argument}={kind}): {' '.join(found.split())[:160]}", flush=True)
    print(f"{number} calls")


if __name__ == "__main__":
    main()
