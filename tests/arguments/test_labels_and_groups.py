"""Arguments that name or group rows: any values are numbered by the distinct ones, or refused."""

import inspect
import re
import resource
import sys
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

import genclf as gcf
from genclf import plot
from tests.registry import FOUR_ROWS

N, D, K = 36, 2, 2
Y = np.arange(N) % K
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32) + 2 * Y[:, None]
BITS = (X > 1).astype(np.int8)
GROUPS = np.arange(N) // 12  # each has both classes
FOLDS = np.arange(N) % 3
KEY = jax.random.key(0)
LOG_P = np.log(np.full((N, K), 0.5, np.float32))
# Right values of every argument that has no default, by its name.
RIGHT = {
    "x": X, "y": Y, "folds": FOLDS, "groups": GROUPS, "strata": GROUPS, "blocks": GROUPS,
    "by": GROUPS, "key": KEY, "clf": gcf.gaussian_nb(K), "model": gcf.lda(K),
    "models": {"a": gcf.lda(K)}, "sizes": [20], "neighbours": [[0, 1], [1]], "num_folds": 2,
    "num_rows": N, "predicted": Y, "statistic": lambda w: w[:3], "splits": np.arange(N) % 3,
    "log_posterior": LOG_P, "found": LOG_P, "feature": 0, "p": np.exp(LOG_P),
    "clf_of": lambda ridge: gcf.lda(K, ridge=ridge), "grid": {"ridge": [0.1, 1.0]},
}  # fmt: skip
QUICK = {"clf": gcf.bernoulli_nb(K), "x": BITS, "metric": "accuracy", "num": 3}
MORE = {
    "permutation_test": QUICK, "searchlight": QUICK | {"key": KEY},
    "sliding": QUICK | {"key": KEY, "x": BITS[..., None]},
    "generalise": QUICK | {"key": KEY, "x": BITS[..., None]},
    "bootstrap": {"num": 3},
    "stable_features": {"clf": gcf.lda(K), "x": X, "num_selected": 1, "num": 2},
    "adapt_prior": {"method": "confusion", "learned": LOG_P},
    "densities": {"x": X},
    "folds": {"num_rows": N},
    "typical_regions": {"test": gcf.typicality_test(gcf.qda(K), gcf.stats(gcf.qda(K), X, Y))},
}  # fmt: skip
SPELLINGS = {
    "strings": lambda g: np.array(["a", "b", "c"])[g],
    "large": lambda g: 10**9 + 7 * g,
    "negative": lambda g: g - 5,
    "floats": lambda g: g + 0.5,
}
ROWS = re.compile(r"^(their )?labels\b|^the [\w, ]+ of each row|row indices|^predicted classes")


def documented(function):
    """The text of each argument in the docstring."""
    text = inspect.getdoc(function) or ""
    if "\nArgs:\n" not in text:
        return {}
    section = re.split(r"\n(?=\w)", text.split("\nArgs:\n")[1])[0]
    entries = re.split(r"^    (?=\w)", section, flags=re.M)
    pairs = (entry.split(": ", 1) for entry in entries if ": " in entry)
    return {name: " ".join(words.split()) for names, words in pairs for name in names.split(", ")}


CASES = [
    (home, name, argument)
    for home in (gcf, plot)
    for name in home.__all__
    if inspect.isfunction(getattr(home, name))
    for argument, words in documented(getattr(home, name)).items()
    if ROWS.search(words) and name != "diagnose"  # it never raises for values, and counts them
]


def name_of(part):
    return getattr(part, "__name__", part)


def test_the_arguments_are_found():
    found = {f"{name}({argument})" for _, name, argument in CASES}
    assert found >= {"score(by)", "kfold(groups)", "folds(splits)", "fit(y)", "pairs(y)"}
    for function in (getattr(home, name) for home in (gcf, plot) for name in home.__all__):
        if inspect.isfunction(function):
            assert set(documented(function)) == set(inspect.signature(function).parameters)


@contextmanager
def little_memory():
    """Memory that is small beside what the largest value would take."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform == "linux":  # JAX's own memory, which tracemalloc does not see
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**32, before[1]))
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    params = gcf.fit(gcf.lda(K), X, Y)
    return {"params": params, "source": gcf.discriminant_axes(params)}


def call_of(home, name, argument, fitted):
    """A function of one argument, and a right value of it."""
    function, right = getattr(home, name), RIGHT | fitted | MORE.get(name, {})
    needed = {
        a: right[a]
        for a, p in inspect.signature(function).parameters.items()
        if p.default is p.empty or a in MORE.get(name, {}) or a == "x"
    }

    def call(given):
        value = [(given, given[:12])] if argument == "splits" else given
        found = function(**(needed | {argument: value}))
        return [a for a in jax.tree.leaves(found) if isinstance(a, jax.Array | np.ndarray)]

    return call, right[argument]


@pytest.mark.slow(
    "genclf-bootstrap-groups",
    "genclf-permutation_test-blocks",
    "genclf-permutation_test-by",
    "genclf-searchlight-blocks",
    "genclf-sliding-blocks",
    "genclf-generalise-blocks",
)
@pytest.mark.parametrize(("home", "name", "argument"), CASES, ids=name_of)
def test_values_are_numbered_or_refused(home, name, argument, fitted):
    call, numbers = call_of(home, name, argument, fitted)
    expected = None
    for spelling, spell in SPELLINGS.items():
        with little_memory():
            try:
                found = call(spell(numbers))
            except ValueError as error:
                assert re.search(rf"\b{argument}\b", str(error)), (spelling, error)
                continue
        expected = call(numbers) if expected is None else expected
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=spelling)


NOT_VALUES = {
    "missing": np.array(["a", None] * (N // 2), object),
    "NaN": np.where(np.arange(N) == 5, np.nan, 1.0),
    "no date": np.array(["NaT"] * N, "datetime64[D]"),
    "kinds": np.array(["a", 1] * (N // 2), object),
    "table": np.ones((N, 2), int),
    "masked": np.ma.array(GROUPS, mask=GROUPS == 1),
}


GROUPING = [case for case in CASES if case[2] not in ("y", "splits")]


@pytest.mark.parametrize(("home", "name", "argument"), GROUPING, ids=name_of)
def test_what_groups_no_row_is_refused(home, name, argument, fitted):
    call, _ = call_of(home, name, argument, fitted)
    for given in NOT_VALUES.values():
        with pytest.raises(ValueError, match=rf"\b{argument}\b"):
            call(given)


def test_numbers_and_text_are_not_one_kind():
    with pytest.raises(ValueError, match=r"by is .*'<' not supported between .*one value of each"):
        gcf.score(LOG_P[:3], Y[:3], by=["1", 1, 2])
    with pytest.raises(ValueError, match=r"y and predicted is .*'<' not supported"):
        plot.confusion(np.array(["1", "2"]), np.array([1, 2]))


def test_rows_of_no_group_do_not_count():
    log_p, y = np.log([[0.9, 0.1]] * 5), np.array([0, 1, 0, 1, 0])
    by = np.array([10**9, -1, 7, 7, -2])
    np.testing.assert_array_equal(gcf.score(log_p, y, by=by), [0.5, 1])
    with pytest.raises(ValueError, match=r"by\[4\] is -4, expected integers >= 0"):
        gcf.score(log_p, y, by=by - 2)


def test_a_label_above_any_class_is_an_error():
    with pytest.raises(ValueError, match=r"y\[2\] is 2 .*num_classes=3, if it is a class"):
        gcf.score(LOG_P[:3], np.array([0, 1, 2]))
    for label in (2, -2):
        labels = np.array([0, 1, label])
        assert np.isnan(jax.jit(lambda y: gcf.score(LOG_P[:3], y))(labels))


def test_splits_of_other_rows():
    with pytest.raises(ValueError, match="hold row 9, but only 3 different rows: give num_rows"):
        gcf.folds([([0, 9], [2])])
    with pytest.raises(ValueError, match="integers >= 0"):
        gcf.folds([([0, -1], [1])])
    with pytest.raises(ValueError, match="splits hold no rows"):
        gcf.folds([([], [])])


def test_confusion_of_any_labels():
    y, predicted = np.array([10**9, 2, -1, 2]), np.array([2, 2, 2, 10**9])
    ax = plot.confusion(y, predicted)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["2", str(10**9)]
    assert sorted(text.get_text() for text in ax.texts) == ["1", "1", "1"]
    ax = plot.confusion(np.array(["no", "yes"]), np.array(["yes", "yes"]))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["no", "yes"]
    with pytest.raises(ValueError, match="y holds -5"):
        plot.confusion(np.array([-5, 1]), np.array([1, 1]))


# Statistics may be of a batch without some class, and what is latent needs no row of it; figures
# show what is there.
UNLABELLED = {"stats", "em", "condition"} | set(plot.__all__)
BOTH = "is -1, which stands for an unlabelled row, .* label 0 .*, so -1 may be meant as a class"
EVERY = {"calibration", "learning_curve"}  # rows need labels


@pytest.mark.parametrize(
    ("name", "call"),
    [
        (name, (home, name, argument))
        for home, name, argument in CASES
        if argument == "y" and name not in UNLABELLED
    ],
    ids=name_of,
)
def test_labels_of_minus_one_and_one_are_an_error(name, call, fitted):
    labels = np.where(Y == 0, -1, 1)
    with pytest.raises(ValueError, match=rf"\by\b.*{'-1' if name in EVERY else BOTH}"):
        call_of(*call, fitted)[0](labels)


def test_where_unlabelled_rows_are_meant():
    labels = np.where(Y == 0, -1, 1)
    gcf.validate(gcf.gaussian_nb(K), X, labels, latent=True)
    assert gcf.stats(gcf.gaussian_nb(K), X, labels).count.tolist() == [0, 18]
    gcf.fit(gcf.gaussian_nb(K), X, labels, (labels >= 0).astype(np.float32))
    gcf.fit(gcf.gaussian_nb(K), X, np.where(np.arange(N) < 3, -1, Y))
    jax.eval_shape(gcf.fit, gcf.gaussian_nb(K), X, labels)
    gcf.kfold(KEY, np.full(N, -1), 2)
    with pytest.raises(ValueError, match=r"datasets\[1\]: y\[0\] is -1, which stands for"):
        gcf.fit_many(gcf.gaussian_nb(K), [(X, Y), (X, labels)])
    with pytest.raises(ValueError, match=r"y\[0\] is -1, .* the label 2 \(num_classes = 3\)"):
        gcf.fit(gcf.SoftmaxRegression(3), X, np.arange(N) % 3 - 1)


def test_labels_that_are_no_classes_are_named():
    x, y = np.arange(4.0)[:, None], np.array([1, 2, 3, 1])
    with pytest.raises(ValueError, match=r"y\[2\] is 3 .*expected a label in 0..2.*subtract 1"):
        gcf.fit(gcf.lda(3), x, y)
    with pytest.raises(ValueError, match="num_classes=4"):
        gcf.fit(gcf.lda(3), x, np.array([0, 1, 2, 3]))
    with pytest.raises(ValueError, match="none of the 4 rows has both a label"):
        gcf.fit(gcf.lda(3), x, np.full(4, -1))
    with pytest.raises(ValueError, match=r"np\.unique"):
        gcf.fit(gcf.lda(3), x, ["a", "b", "c", "a"])
    with pytest.raises(ValueError, match=r"y\[:, 0\]"):
        gcf.fit(gcf.lda(1), x, np.zeros((4, 1), int))
    assert np.isnan(jax.jit(gcf.fit)(gcf.lda(3), x, y).log_prior).all()


def test_labels_of_any_integer_dtype():
    x, y = FOUR_ROWS
    expected = gcf.fit(gcf.lda(2), x, y)
    for kind in (np.uint8, np.int16, np.uint32, np.uint64, np.int64):
        found = gcf.fit(gcf.lda(2), x, y.astype(kind))
        np.testing.assert_array_equal(found.conditional.mean, expected.conditional.mean)
    with pytest.raises(ValueError, match="y holds 1099511627776"):
        gcf.fit(gcf.lda(2), x, np.full(4, 2**40))
    with pytest.raises(ValueError, match="num_classes=256"):
        gcf.fit(gcf.lda(2), x, np.full(4, 255, np.uint8))
    with pytest.raises(ValueError, match=r"y\.filled\(-1\)"):
        gcf.fit(gcf.lda(2), x, np.ma.array(y, mask=[1, 0, 0, 0]))
