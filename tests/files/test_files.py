"""Files: what is saved is loaded bit for bit, and whatever else is refused."""

import hashlib
import io
import json
import pickle
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import sklearn
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.fixes import parse_version

import genclf as gcf
from genclf import sklearn as estimators
from genclf.files.container import FileError, from_bytes
from tests.files.forged import refused
from tests.processes import run
from tests.registry import BY_NAME, MODELS

OLD = Path(__file__).parent / "version-1.genclf"  # written by the first version


def example():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 61)
    return rng.normal(size=(61, 4)) + y[:, None], y


def kinds():
    """One object of each kind, made without a fit that compiles much."""
    x, y = example()
    density = gcf.GaussianParams(jnp.asarray(x[:3]), jnp.ones((3, 4)), "diag", shared=False)
    params = gcf.ClassifierParams(jnp.log(jnp.array([0.2, 0.3, 0.5])), density)
    return {
        "params": params,
        "classifier": gcf.multinomial_nb(3, alpha=0.5),
        "statistics": gcf.stats(gcf.gaussian_nb(3), x, y),
        "estimator": estimators.MultinomialNB().fit(np.round(abs(x)), y),
        "many": {
            "model": gcf.lda(3, shrinkage="oas"),
            "names": ["a", "ß"],
            "n": 2**70,
        },
    }


def content(tmp_path, given):
    gcf.save(tmp_path / "a.genclf", given)
    return (tmp_path / "a.genclf").read_bytes()


def assert_equal(found, given):
    assert jax.tree.structure(found) == jax.tree.structure(given)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(given), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_params_models_and_statistics_come_back(model, x64, tmp_path):
    x, y = model.example("float64")
    given = [gcf.fit(model.classifier, x, y), model.classifier]
    if gcf.families.capabilities.is_additive(model.classifier.family):
        given.append(gcf.stats(model.classifier, x, y))
    gcf.save(tmp_path / "a.genclf", given)
    assert_equal(gcf.load(tmp_path / "a.genclf"), given)
    # And whatever else is in a field is refused.
    assert all(refused(one, tmp_path) > 10 for one in given)
    batch = jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * 2), given[0])
    gcf.save(tmp_path / "a.genclf", batch)
    assert_equal(gcf.load(tmp_path / "a.genclf"), batch)
    assert refused(batch, tmp_path) > 10


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_arrays_keep_their_dtype_and_layout(dtype, tmp_path):
    dtype = jax.numpy.dtype(dtype)
    a = np.arange(24).reshape(2, 3, 4).astype(dtype)
    given = {"strided": a[:, ::2, ::-1], "fortran": np.asfortranarray(a[0]), "scalar": a[0, 0, 1]}
    gcf.save(tmp_path / "a.genclf", given)
    assert_equal(gcf.load(tmp_path / "a.genclf"), given)


@pytest.mark.slow("MixtureDiscriminant")
@pytest.mark.parametrize("name", estimators.__all__)
def test_estimators_come_back(name, tmp_path):
    x, y = example()
    labels = np.array(["a", "b", "c"])[y]
    if name == "CrossValidatedScore":
        with pytest.raises(ValueError, match="given is CrossValidatedScore, which cannot be saved"):
            gcf.save(tmp_path / "a.genclf", estimators.CrossValidatedScore(gcf.lda(3)))
        return
    made = getattr(estimators, name)()
    x = np.round(abs(x)) if name in ("MultinomialNB", "CategoricalNB") else x
    x = (x > 1).astype(float) if name == "BernoulliNB" else x
    if name == "MixedNB":
        x = pd.DataFrame(x, columns=list("abcd")).assign(e=labels[::-1], f="some words here")
        x["f"] += [f" {i}{i}" for i in range(len(x))]
    made.fit(x, labels)
    gcf.save(tmp_path / "a.genclf", made)
    found = gcf.load(tmp_path / "a.genclf")
    assert vars(found).keys() == vars(made).keys()
    assert found.get_params() == made.get_params()
    np.testing.assert_array_equal(found.predict_log_proba(x), made.predict_log_proba(x))
    np.testing.assert_array_equal(found.predict(x), made.predict(x))
    if hasattr(made, "partial_fit"):
        parts = [e.partial_fit(x[:7], labels[:7]).predict_proba(x) for e in (found, made)]
        np.testing.assert_array_equal(*parts)


def test_another_process_predicts_the_same_bits_without_scikit_learn(tmp_path):
    x, y = example()
    params = gcf.fit(gcf.qda(3), x, y)
    gcf.save(tmp_path / "a.genclf", {"params": params, "x": x})
    np.save(tmp_path / "expected.npy", gcf.log_posterior(params, x))
    program = (
        "import sys; sys.modules.update(sklearn=None, narwhals=None)\n"
        "import numpy as np, genclf as gcf\n"
        f"found = gcf.load({str(tmp_path / 'a.genclf')!r})\n"
        "scores = np.asarray(gcf.log_posterior(found['params'], found['x']))\n"
        f"assert scores.tobytes() == np.load({str(tmp_path / 'expected.npy')!r}).tobytes()\n"
    )
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_bits_that_flip_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    for given in kinds().values():
        whole = content(tmp_path, given)
        for _ in range(400):
            flipped = bytearray(whole)
            flipped[rng.integers(len(whole))] ^= 1 << rng.integers(8)
            with pytest.raises(FileError):
                from_bytes(bytes(flipped))


def test_truncated_files_are_refused(tmp_path):
    for given in kinds().values():
        whole = content(tmp_path, given)
        for size in range(len(whole)):
            with pytest.raises(FileError):
                from_bytes(whole[:size])
        with pytest.raises(FileError):
            from_bytes(whole + b"\0")


def sealed(body):
    """A file of this body, with the right checksum: what an attacker can make."""
    return b"genclf file 1 sha256:%s\n%s" % (hashlib.sha256(body).hexdigest().encode(), body)


def packed(structure, **arrays):
    text = structure if isinstance(structure, str) else json.dumps(structure)
    return sealed(safetensors.numpy.save(arrays, metadata={"structure": text}))


def header(text, size=None):
    text = text.encode()
    return sealed(struct.pack("<Q", len(text) if size is None else size) + text)


def gaussian(**changes):
    """The structure and the arrays of Gaussian params, some of them changed."""
    arrays = {
        "mean": np.zeros((3, 2)),
        "scale": np.ones((3, 2)),
        "log_prior": np.log([0.2, 0.3, 0.5]),
    } | {name: value for name, value in changes.items() if isinstance(value, np.ndarray)}
    fields = {
        "mean": {"array": "mean"},
        "scale": {"array": "scale"},
        "covariance": "diag",
        "shared": False,
        "missing": "error",
        "rounding": None,
    } | {name: value for name, value in changes.items() if not isinstance(value, np.ndarray)}
    inner = {"kind": "GaussianParams", "fields": fields}
    fields = {"log_prior": {"array": "log_prior"}, "conditional": inner}
    return packed({"kind": "ClassifierParams", "fields": fields}, **arrays)


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", "b")
    return out.getvalue()


BAD = {
    "nothing": (b"", "genclf did not write it"),
    "a pickle": (pickle.dumps({"a": 1}), "genclf did not write it"),
    "a zip": (zipped(), "genclf did not write it"),
    "a later version": (b"genclf file 2 sha256:%s\n" % (b"0" * 64), "version 2: a later genclf"),
    "a header bomb": (header("{}", 2**60), "header claims to have"),
    "a short header": (sealed(b"123"), "header claims to have"),
    "no structure": (header('{"__metadata__":{}}'), "no structure"),
    "names twice": (header('{"a":1,"a":2}'), "a name occurs twice"),
    "a name twice inside": (packed('{"float":"0x1p0","float":"0x1p0"}'), "a name occurs twice"),
    "NaN as JSON": (packed("NaN"), "it holds NaN"),
    "too deep": (packed("[" * 100_000), "structure cannot be read"),
    "deep objects": (packed('{"list":[' * 900 + "]}" * 900), "structure"),
    "another kind": (packed({"kind": "os.system", "fields": {}}), "kind 'os.system'"),
    "a function": (packed({"kind": "fit", "fields": {}}), "kind 'fit'"),
    "an estimator of others": (packed({"kind": "sklearn.Pipeline", "fields": {}}), "sklearn.Pipe"),
    "a list": (packed([1]), "structure holds list"),
    "another entry": (packed({"eval": "1"}), "the unknown entry"),
    "an array that is not there": (packed({"array": "a"}), "the unknown entry"),
    "an array too many": (packed(None, a=np.ones(2)), "it has 1 arrays that no object uses"),
    "an array twice": (
        packed({"list": [{"array": "a"}, {"array": "a"}]}, a=np.ones(2)),
        "the unknown entry",
    ),
    "no fields": (packed({"kind": "Dirichlet", "fields": {}}), "its Dirichlet has the fields"),
    "a method as state": (
        packed(
            {
                "kind": "sklearn.GaussianNB",
                "fields": {"parameters": {"dict": []}, "state": {"dict": [["fit", 1]]}},
            }
        ),
        "unknown attribute 'fit'",
    ),
    "an array that is NaN": (gaussian(mean=np.full((3, 2), np.nan)), "mean is outside its set"),
    "a negative scale": (gaussian(scale=-np.ones((3, 2))), "scale is outside its set, positive"),
    "a scale of no shape": (
        gaussian(scale=np.ones((3, 5))),
        r"scale has .* expected \(K, d\), where K = 3, d = 2",
    ),
    "a prior of another K": (gaussian(log_prior=np.log([0.5, 0.5])), "where K = 2"),
    "a prior without sum 1": (gaussian(log_prior=np.zeros(3)), "total probability 3"),
    "a prior of nearly 1": (
        gaussian(log_prior=np.log([0.2, 0.3, 0.502])),
        "total probability 1.002",
    ),
    "sums alone": (
        packed(
            {
                "kind": "Sums",
                "fields": {"count": {"array": "n"}, "total": {"array": "t"}, "rounding": None},
            },
            n=-np.ones(2),
            t=np.ones((2, 1)),
        ),
        "count is negative",
    ),
    "a number among strings": (
        packed({"strings": ["a", 1], "shape": [2], "object": False}),
        "invalid array of strings",
    ),
    "a word for an array": (gaussian(mean="none"), "mean is 'none', expected Float"),
    "a model that cannot be": (
        packed(
            {
                "kind": "Classifier",
                "fields": {
                    "family": {
                        "kind": "Poisson",
                        "fields": {
                            "alpha": {"float": "-0x1p0"},
                            "prior": None,
                            "missing": "error",
                            "missing_code": -1,
                        },
                    },
                    "num_classes": 2,
                    "class_alpha": {"float": "0x0p0"},
                    "class_prior": None,
                    "inference": "ml",
                },
            }
        ),
        "alpha is -1",
    ),
    "a preset that is none": (packed({"preset": "fit"}), "the unknown entry"),
    "numbers for strings": (
        packed({"strings": [1], "shape": [1], "object": False}),
        "invalid array of strings",
    ),
}
for entry in (
    {"float": "0x1p0"},
    {"array": "a"},
    {"jax": "a"},
    {"strings": [], "shape": [0], "object": False},
    {"dict": []},
    {"set": []},
    {"tuple": []},
    {"list": []},
    {"preset": "lda"},
):
    BAD[f"more beside {next(iter(entry))}"] = (
        packed(entry | {"more": 1}, a=np.ones(2)),
        "the unknown entry|invalid array of strings",
    )


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_not_what_it_says_is_refused(name, tmp_path):
    bad, message = BAD[name]
    path = tmp_path / "bad.genclf"
    path.write_bytes(bad)
    with pytest.raises(FileError, match=message) as error:
        gcf.load(path)
    assert str(path) in str(error.value)


def test_the_gaussian_that_the_bad_ones_are_made_of_is_right(tmp_path):
    (tmp_path / "a.genclf").write_bytes(gaussian())
    assert gcf.predict(gcf.load(tmp_path / "a.genclf"), np.zeros((1, 2))).tolist() == [2]


def test_files_of_version_1_are_read():
    found = gcf.load(OLD)
    assert gcf.predict(found["params"], found["x"]).tolist() == found["predicted"].tolist()
    assert found["classifier"] == gcf.lda(3, shrinkage="oas")
    assert found["estimator"].predict(found["x"]).tolist() == found["labels"].tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            print,
            "given is builtin_function_or_method, which cannot be saved: give a model, s",
        ),
        (
            make_pipeline(GaussianNB()),
            "given is Pipeline, which cannot be saved: save what is in its named_steps",
        ),
        ({"a": object()}, r"given\['a'\] is object, which cannot be saved"),
        (np.array([1 + 2j]), "given has the dtype complex128"),
        (np.array([{}]), "given holds objects that are not strings"),
        (np.array([np.nan]), "given holds NaN: not saved"),
        (np.ma.masked_array([1.0], [True]), "given is a masked array, which cannot be saved"),
    ],
    ids=["function", "pipeline", "object", "complex", "dicts", "NaN", "masked"],
)
def test_what_cannot_be_saved_is_named(given, message, tmp_path):
    path = tmp_path / "a.genclf"
    gcf.save(path, "before")
    with pytest.raises(ValueError, match=message):
        gcf.save(path, given)
    assert gcf.load(path) == "before" and [p.name for p in tmp_path.iterdir()] == ["a.genclf"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.genclf"
    gcf.save(path, 1)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        gcf.save(path, 2)
    assert gcf.load(path) == 1 and [p.name for p in tmp_path.iterdir()] == ["a.genclf"]


def test_nothing_is_there():
    with pytest.raises(FileNotFoundError):
        gcf.load("nowhere/none.genclf")
    with pytest.raises(
        FileNotFoundError, match=r"path is 'nowhere/none\.genclf', but there is no f"
    ):
        gcf.save("nowhere/none.genclf", 1)


X, Y = example()
THEIRS = {
    "LDA lsqr": (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), X),
    "LDA svd": (LinearDiscriminantAnalysis(store_covariance=True), X),
    "LDA without covariance": (LinearDiscriminantAnalysis(), X),
    "QDA": (QuadraticDiscriminantAnalysis(reg_param=0.01), X),
    "GaussianNB": (GaussianNB(), X),
    "BernoulliNB": (BernoulliNB(binarize=0.5, alpha=0.3), X),
    "MultinomialNB": (MultinomialNB(fit_prior=False), np.round(abs(X))),
    "CategoricalNB": (CategoricalNB(), np.round(abs(X)).clip(0, 2)),
}


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("num_classes", [2, 3])
def test_estimators_of_scikit_learn_have_the_same_posteriors(name, num_classes, x64):
    estimator, x = THEIRS[name]
    rows = num_classes > Y
    x, fitted = x[rows], estimator.fit(x[rows], Y[rows])
    params = gcf.from_sklearn(fitted)
    found = np.exp(gcf.log_posterior(params, x.astype(int) if name == "CategoricalNB" else x))
    np.testing.assert_allclose(found, fitted.predict_proba(x), rtol=1e-12, atol=1e-12)
    # Before 1.9.1 the covariance that "svd" stores is not that of its scores.
    old = parse_version(sklearn.__version__) < parse_version("1.9.1")
    assert params.generative == (name not in ("LDA without covariance", "LDA svd")[: 1 + old])
    if not params.generative:
        assert params.steps == 0 and params.converged and np.isnan(params.gradient_norm)


@pytest.mark.filterwarnings("ignore:.*collinear", "ignore:.*not full rank", "ignore:divide by zero")
def test_a_singular_covariance_of_theirs_is_named():
    for constant in (X[0, 0], 0.0):
        x = np.where((Y == 1)[:, None] & (np.arange(X.shape[1]) == 0), constant, X)
        fitted = QuadraticDiscriminantAnalysis(reg_param=0.0, tol=0.0)
        try:
            fitted.fit(x, Y)
        except np.linalg.LinAlgError:
            fitted = QuadraticDiscriminantAnalysis().fit(X, Y)
            fitted.scalings_[1][-1] = constant * 0
        with pytest.raises(ValueError, match="estimator has a singular covariance of class 1"):
            gcf.from_sklearn(fitted)


def test_what_is_no_estimator_of_theirs_is_named():
    with pytest.raises(ValueError, match=r"expected one of LinearDiscriminantAnalysis"):
        gcf.from_sklearn(replace(BY_NAME["gaussian"].classifier, num_classes=2))
    with pytest.raises(ValueError, match="estimator is not fitted"):
        gcf.from_sklearn(GaussianNB())
