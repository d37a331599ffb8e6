"""Files: a value that is not in the set that its class declares is refused, by its name."""

import bz2
import dataclasses
import gzip
import importlib
import lzma
import os
import tracemalloc
import zipfile
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import polars
import pytest

import genclf as gcf
from genclf import sklearn as estimators
from genclf.arguments.module import REGISTERED
from genclf.arguments.parameters import Parameter
from genclf.cli.files import InputError, read_table
from genclf.families.gaussian.row_space import RowSpaceParams
from genclf.files.container import FileError, to_bytes
from tests.files.forged import refused


def test_forged_statistics_and_params_in_float32_are_refused_by_name(tmp_path):
    x, y = np.arange(22, dtype=np.float32).reshape(11, 2) ** 2 + 1, np.arange(11) % 2
    stats = gcf.stats(gcf.qda(2), x, y)
    squares = gcf.Classifier(gcf.Gaussian(shrinkage="ledoit-wolf", target="diagonal"), 2)
    assert stats.conditional.rounding is not None
    assert refused(stats, tmp_path) > 20
    assert refused(gcf.stats(squares, x, y), tmp_path) > 25
    density = gcf.GaussianParams(jnp.asarray(x[:2]), jnp.ones((2, 2)), "diag", shared=False)
    assert refused(gcf.ClassifierParams(jnp.log(jnp.array([0.5, 0.5])), density), tmp_path) > 20
    low = dataclasses.replace(density, rounding=jnp.full((2, 2), -5.0))
    with pytest.raises(ValueError, match="rounding is larger than any rounding of mean"):
        gcf.save(tmp_path / "a.genclf", low)


def test_forged_fields_of_other_kinds_are_refused_by_name(x64, tmp_path):
    rng = np.random.default_rng(0)
    mean, prior = jnp.asarray(rng.normal(size=(3, 5))), jnp.log(jnp.array([0.2, 0.3, 0.5]))
    ones, full = jnp.ones((3, 5)), jnp.tile(jnp.eye(5), (3, 1, 1))
    inner = gcf.GaussianParams(jnp.ones((6, 5)), jnp.ones((1, 5)), "diag", shared=True)
    directions = mean / jnp.linalg.norm(mean, axis=1, keepdims=True)
    tiles = jnp.asarray(rng.normal(size=(3, 2, 5))), jnp.full((3, 2), 0.5), jnp.arange(3)
    densities = [
        gcf.StudentTParams(mean, full, 7 * jnp.ones(3), jnp.ones(3), "full", False),
        gcf.DirichletMultinomialParams(ones, jnp.array(7.0), False),
        gcf.NegativeBinomialParams(ones, 2 * ones),
        gcf.VonMisesFisherParams(directions, jnp.ones(3)),
        gcf.KernelDensityParams(*tiles, ones),
        gcf.MixtureParams(jnp.log(jnp.full((3, 2), 0.5)), inner),
    ]
    for shared in (True, False):
        clf = gcf.Classifier(gcf.Gaussian(shared=shared, shrinkage=0.3), 2)
        wide = gcf.fit(clf, rng.normal(size=(7, 11)), np.arange(7) % 2)
        assert isinstance(wide.conditional, RowSpaceParams)
        assert refused(wide, tmp_path) > 100
    for density in densities:
        assert refused(gcf.ClassifierParams(prior, density), tmp_path) > 15
    softmax = gcf.softmax_form(
        gcf.ClassifierParams(prior, gcf.GaussianParams(mean, jnp.ones((1, 5)), "diag", shared=True))
    )
    others = [softmax, gcf.NormalInverseWishart(mean=2.5, kappa=0.7, scale=1.3, dof=7.5)]
    others += [gcf.Dirichlet(1.5), gcf.Gamma(1.7, 0.6), gcf.Beta(1.0, 2.0)]
    for given in others:
        assert refused(given, tmp_path) >= 3
    x, y = np.round(3 * abs(rng.normal(size=(61, 4)))), np.repeat(["a", "b", "c"], [20, 20, 21])
    assert refused(estimators.MultinomialNB().fit(x, y), tmp_path) > 15


@pytest.mark.parametrize("changes", [{"count": -1.0}, {"mean": np.nan}, {"scatter": 1.0}])
def test_forged_parts_are_refused_by_name(changes):
    rng = np.random.default_rng(0)
    batch = {"a": rng.normal(size=11), "b": rng.normal(size=11), "y": np.arange(11) % 2}
    clf = gcf.qda(2)
    part = gcf.partial(clf, gcf.Schema.of(clf, batch, label="y"), [batch], part_id="one")
    ((name, value),) = changes.items()
    array = getattr(part.conditional, name)
    array.flat[1] = value  # of a scatter: no longer symmetric
    with pytest.raises(FileError, match=name):
        gcf.Part.from_bytes(part.to_bytes())
    array.flat[1] = 0.0
    forged = dataclasses.replace(part, rows=-3)
    with pytest.raises(FileError, match="rows is -3"):
        gcf.Part.from_bytes(forged.to_bytes())


def test_memory_of_loading_is_bounded_by_the_size_of_the_file(tmp_path):
    path = tmp_path / "bomb.genclf"
    strings = ["x" * 20_000, *["y"] * 5_000]  # 400 MB as an array of one width
    node = {"strings": strings, "shape": [5_001], "object": False}
    path.write_bytes(to_bytes({"dict": [["a", node]]}, {}))
    gcf.load(path)  # and import what it needs
    tracemalloc.start()
    found = gcf.load(path)["a"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.dtype == object and found.tolist() == strings
    assert peak < 64 * path.stat().st_size


PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zip": None, "parquet": None}


@pytest.mark.parametrize("ending", PACK)
def test_tables_that_unpack_to_very_much_are_refused(ending, tmp_path, monkeypatch):
    path = tmp_path / f"a.csv.{ending}"
    content = b"a,y\n" + b"1,0\n" * 3_000
    if ending == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", content)
    elif ending == "parquet":
        polars.DataFrame({"a": [1.0] * 3_000, "y": [0] * 3_000}).write_parquet(path)
    else:
        path.write_bytes(PACK[ending](content))
    assert len(read_table(str(path), "y").columns["a"]) == 3_000
    monkeypatch.setenv("GENCLF_MOST_BYTES", "10000")
    with pytest.raises(InputError, match=r"more than 10,000 bytes.* variable GENCLF_MOST_BYTES"):
        read_table(str(path), "y")


@pytest.mark.parametrize("given", [gcf.Gaussian(), gcf.SoftmaxRegression(2), gcf.lda, "lda"])
def test_schemas_of_what_is_not_a_classifier_are_refused(given):
    with pytest.raises(ValueError, match="Classifier"):
        gcf.Schema.of(given, {"a": [1.0, 2.0], "y": [0, 1]}, label="y")


def test_strings_of_like_lengths_keep_their_dtype(tmp_path):
    given = {"a": np.array(["a", "a long name"] * 7), "b": np.array(["a", None or "b"], object)}
    gcf.save(tmp_path / "a.genclf", given)
    found = gcf.load(tmp_path / "a.genclf")
    assert [a.dtype for a in found.values()] == [a.dtype for a in given.values()]


def looped():
    given = []
    given.append(given)
    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (jax.random.key(0), "given is a random key"),
        ("\ud800", "is not Unicode"),
        (looped(), "given holds itself"),
        (np.ones(2, np.longdouble), "given has the dtype float128"),
        (gcf.Gamma(-1.0, 2.0), "shape is -1.0"),
    ],
    ids=["key", "surrogate", "loop", "longdouble", "prior"],
)
def test_what_cannot_be_saved_is_an_error_in_words(given, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        gcf.save(tmp_path / "a.genclf", given)
    assert not list(tmp_path.iterdir())


def test_save_writes_through_a_link_and_under_long_names(tmp_path):
    (tmp_path / "inside").mkdir()
    target, link = tmp_path / "inside" / "target.genclf", tmp_path / "link.genclf"
    gcf.save(target, 1)
    link.symlink_to(target)
    gcf.save(link, 2)
    assert link.is_symlink() and gcf.load(target) == 2
    assert [p.name for p in target.parent.iterdir()] == ["target.genclf"]
    gcf.save(tmp_path / ("n" * 250), 3)
    assert gcf.load(tmp_path / ("n" * 250)) == 3


@pytest.mark.parametrize("path", [None, 3, ["a.genclf"], gcf.lda(2)])
def test_what_is_no_path(path):
    for verb in (gcf.load, lambda path: gcf.save(path, 1)):
        with pytest.raises(ValueError, match=r"(?s)^path is .*, expected the path of a file"):
            verb(path)


def test_rounding_is_far_below_the_largest_number(tmp_path):
    """Of one feature the mean may be rounded by more than the mean of another one."""
    x = np.array([[1e8, 1e-3], [1e8 + 8, 1e-3], [1e8 + 8, 1e-3]] * 7, np.float32)
    given = gcf.stats(gcf.gaussian_nb(2), x, np.arange(21) // 11)
    assert np.abs(given.conditional.rounding[1]).max() > 1e-3
    gcf.save(tmp_path / "a.genclf", given)
    jax.tree.map(np.testing.assert_array_equal, gcf.load(tmp_path / "a.genclf"), given)
    sums = given.conditional
    for i, name in enumerate(("count", "mean", "scatter")):
        low = list(sums.rounding)
        low[i] = low[i].at[1].set(0.002 * np.abs(getattr(sums, name)).max())
        forged = dataclasses.replace(sums, rounding=tuple(low))
        with pytest.raises(ValueError, match=rf"rounding\[{i}\] is larger than rounding of"):
            gcf.save(tmp_path / "a.genclf", dataclasses.replace(given, conditional=forged))


def test_arrays_of_strings_hold_strings_alone(tmp_path):
    for mixed in (["a", 1], [None, "a"]):
        with pytest.raises(ValueError, match="holds objects that are not strings"):
            gcf.save(tmp_path / "a.genclf", np.array(mixed, object))


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
def test_symmetry_is_told_in_units_of_the_features(unit, tmp_path):
    x = unit * np.random.default_rng(0).normal(size=(23, 3)).astype(np.float32)
    given = gcf.stats(gcf.lda(2), x, np.arange(23) % 2)
    sums = given.conditional
    size = np.asarray(sums.scatter[0, 0, 0])
    for share, error in (
        (1e-5, nullcontext()),
        (0.1, pytest.raises(ValueError, match="symmetric")),
    ):
        forged = dataclasses.replace(sums, scatter=sums.scatter.at[0, 0, 1].add(share * size))
        with error:
            gcf.save(tmp_path / "a.genclf", dataclasses.replace(given, conditional=forged))


def test_fourth_moments_may_be_rounded(tmp_path):
    x = np.random.default_rng(0).normal(size=(23, 3)).astype(np.float32)
    clf = gcf.Classifier(gcf.Gaussian(shrinkage="ledoit-wolf", target="diagonal"), 2)
    given = gcf.stats(clf, x, np.arange(23) % 2)
    fourth = given.conditional.fourth.at[0, 0, 1].multiply(1 + 1e-5)
    rounded = dataclasses.replace(given.conditional, fourth=fourth)
    gcf.save(tmp_path / "a.genclf", dataclasses.replace(given, conditional=rounded))


def test_what_is_checked_is_the_number_with_its_rounding(tmp_path):
    x = np.full((21, 1), 3.0, np.float32)
    given = gcf.stats(gcf.Classifier(gcf.Poisson(), 2), x, np.zeros(21, int))
    sums = given.conditional
    for low in (0.05, -0.05):
        rounding = sums.rounding[0], sums.rounding[1].at[1].set(low)
        forged = dataclasses.replace(sums, rounding=rounding)
        wrong = pytest.raises(ValueError, match="total is negative") if low < 0 else nullcontext()
        with wrong:
            gcf.save(tmp_path / "a.genclf", dataclasses.replace(given, conditional=forged))


def test_load_waits_for_no_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="a pipe or a device: expected a file"):
        gcf.load(tmp_path / "pipe")
    for verb in (gcf.load, lambda path: gcf.save(path, 1)):
        with pytest.raises(ValueError, match="a folder: expected a file"):
            verb(tmp_path)


def test_a_log_parameter_may_be_0_and_nan_is_never_in_a_set():
    parameter = Parameter("positive", "log")
    assert parameter.infeasibility(jnp.array([[-jnp.inf, 0.0]])) == 0
    simplex = Parameter("simplex", "log")
    assert simplex.infeasibility(jnp.log(jnp.array([[0.5, 0.5], [jnp.nan, 0.5]]))) == jnp.inf


ELSEWHERE = """
import equinox as eqx, jax.numpy as jnp
import genclf as gcf
from genclf.families.counts.poisson import PoissonParams

class Counts(PoissonParams):
    file_version = {version}

class Other(gcf.Poisson):
    offset: float = 1.0
"""


def test_params_of_another_package_are_saved_by_name_and_version(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "elsewhere_counts.py").write_text(ELSEWHERE.format(version=3))
    elsewhere = importlib.import_module("elsewhere_counts")
    density = elsewhere.Counts(jnp.zeros((2, 5)))
    params = gcf.ClassifierParams(jnp.log(jnp.array([0.5, 0.5])), density)
    path = tmp_path / "a.genclf"
    gcf.save(path, [params, elsewhere.Other(offset=2.5)])
    found, family = gcf.load(path)
    assert type(found.conditional) is elsewhere.Counts and family == elsewhere.Other(offset=2.5)
    monkeypatch.setattr(elsewhere.Counts, "file_version", 4)
    with pytest.raises(FileError, match="of version 3, but the imported class has version 4"):
        gcf.load(path)
    monkeypatch.delitem(REGISTERED, "elsewhere_counts.Counts")
    with pytest.raises(FileError, match="'Counts', which genclf does not define: import elsewhere"):
        gcf.load(path)
