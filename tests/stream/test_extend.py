"""A longer schema, and parts made before it, give the sums of one pass with all values known."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import genclf as gcf
from genclf.stream import sum_batches
from tests.stream.batches import MODELS, assert_equal, told

N = 61


def batches():
    """Two months of rows; the second has new categories, words, truth values and classes."""
    rng = np.random.default_rng(8)
    words = np.array(["win", "cash", "see", "you", "soon", "later"])

    def month(colours, known, classes):
        y = rng.integers(0, len(classes), N)
        return {
            "size": rng.normal(size=N),
            "colour": np.array(colours)[rng.integers(0, len(colours), N)],
            "level": rng.integers(0, len(colours), N),
            "note": [f"u{i} " + " ".join(rng.choice(words[:known], 4)) for i in range(N)],
            "w": rng.integers(0, 3, N),
            "y": np.array(classes)[y],
        }

    may = month(["red", "blue"], 3, ["no", "yes"])
    return may, month(["amber", "blue", "red", "teal"], 6, ["maybe", "no", "yes"])


@pytest.mark.parametrize("unseen", [None, "other"])
@pytest.mark.parametrize("missing", ["ignore", "value"])
def test_parts_made_before_are_those_of_one_pass(unseen, missing):
    may, june = batches()
    if missing == "value":
        may["colour"] = [None if i % 7 == 0 else c for i, c in enumerate(may["colour"])]
    how = {"weight": "w", "unseen": unseen, "missing": missing}
    schema = gcf.Schema.of(None, may, "y", **how)
    longer = schema.extend([june])
    assert longer.classes == ("no", "yes", "maybe")
    assert (
        longer.columns[1].values
        == ("blue", "red", "amber", "teal", None)[: 4 + (missing == "value")]
    )
    assert longer.columns[1].kind == "categorical" and longer.columns[2].values == (0, 1, 2, 3)
    before = gcf.partial(schema.model(), schema, may, part_id="may")
    later = gcf.partial(longer.model(), longer, june, part_id="june")
    found = gcf.combine([before.extend(schema, longer), later])
    whole = sum_batches(longer.model(), [may, june], longer)
    assert_equal(found, whole)
    params = gcf.estimate(longer.model(), found.stats)
    expected = gcf.estimate(longer.model(), whole.stats)
    np.testing.assert_allclose(params.log_prior, expected.log_prior, rtol=1e-12)
    assert longer.extend([may, june]) == longer


def test_a_part_that_ignored_values_is_refused():
    """It cannot know how many of them are among the new ones."""
    may, june = batches()
    schema = gcf.Schema.of(
        None, may, "y", kinds={"note": "drop"}, unseen="ignore", unseen_labels="ignore"
    )
    part = gcf.partial(schema.model(), schema, june, part_id="june")
    assert part.unseen > 0
    with pytest.raises(ValueError, match=r"'june' ignored .* sum its rows again"):
        part.extend(schema, schema.extend([june]))


def test_full_covariances_and_classes_that_come_later():
    may, june = batches()
    numbers = lambda batch: {"a": batch["size"], "b": np.square(batch["size"]), "y": batch["y"]}  # noqa: E731
    for make in (gcf.qda, gcf.lda, gcf.gaussian_nb):
        schema = gcf.Schema.of(make(2), numbers(may), "y")
        with pytest.raises(ValueError, match="made with a model: give the longer one, as clf="):
            schema.extend(numbers(june))
        longer = schema.extend(numbers(june), make(3))
        before = gcf.partial(make(2), schema, numbers(may), part_id="may").extend(schema, longer)
        later = gcf.partial(make(3), longer, numbers(june), part_id="june")
        whole = sum_batches(make(3), [numbers(may), numbers(june)], longer)
        assert_equal(gcf.combine([before, later]), whole)


def test_what_cannot_be_extended_is_named():
    may, june = batches()
    schema = gcf.Schema.of(None, may, "y")
    longer = schema.extend(june)
    part = gcf.partial(schema.model(), schema, may, part_id="may")
    with pytest.raises(ValueError, match="part 'may' was computed with the schema"):
        part.extend(longer, longer)
    with pytest.raises(ValueError, match="longer lacks 'maybe' among the classes"):
        part.extend(schema, longer).extend(longer, schema)
    with pytest.raises(ValueError, match="column 'colour': numbers, expected strings"):
        schema.extend({**june, "colour": np.arange(N)})
    with pytest.raises(ValueError, match="column 'y': the column holds numbers here, but strings"):
        schema.extend({**june, "y": np.arange(N)})
    with pytest.raises(ValueError, match="column 'size': strings, expected numbers"):
        schema.extend({**june, "size": june["colour"]})
    for name in ("y", "colour", "size"):
        with pytest.raises(ValueError, match=f"no column '{name}'; the columns are"):
            schema.extend({key: cells for key, cells in june.items() if key != name})
    other = gcf.Schema.of(None, {"size": may["size"], "y": may["y"]}, "y")
    with pytest.raises(ValueError, match="longer has other columns than schema"):
        part.extend(schema, other)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mixed"])
def test_a_part_under_other_labels_is_that_of_relabelled_rows(name):
    clf, schema, table = told(name)
    part = gcf.partial(clf, schema, table, part_id="p")
    for to in [{"u": "w"}, {"u": "v", "v": "u"}, {"u": "x", "v": "x", "w": "x"}, {"v": None}]:
        names = table["y"].to_pylist()
        new = [None if label is None else to.get(label, label) for label in names]
        own = schema.relabel(to)
        relabelled = table.set_column(table.column_names.index("y"), "y", pa.array(new))
        smaller = replace(clf, num_classes=len(own.classes))
        if to == {"v": None} and getattr(clf.family, "shared", False):
            with pytest.raises(ValueError, match="the classes have one pooled scatter"):
                part.relabel(schema, to)
            continue
        found = part.relabel(schema, to)
        expected = gcf.partial(smaller, own, relabelled, part_id="p")
        assert_equal(found, expected)
        assert (found.weight, found.digest) == (expected.weight, expected.digest)
        gcf.combine([found, replace(expected, part_ids=("q",))])


def test_labels_that_cannot_be_are_named():
    clf, schema, table = told("qda")
    for to, message in [
        ({"z": "u"}, "to has the label 'z', expected some of the classes 'u', 'v', 'w'"),
        (dict.fromkeys("uvw"), "leaves out every class"),
        ({"u": 3}, "the new classes"),
    ]:
        with pytest.raises(ValueError, match=message):
            schema.relabel(to)
    part = gcf.partial(clf, schema, table, part_id="p")
    with pytest.raises(ValueError, match="give the schema of the part"):
        part.relabel(schema.relabel({"u": "w"}), {"v": "w"})


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mixed"])
def test_a_part_is_taken_out_again(name):
    clf, schema, table = told(name)
    first, last = (
        gcf.partial(clf, schema, table.slice(*at), part_id=own)
        for own, at in {"a": (0, 43), "b": (43, 58)}.items()
    )
    found = gcf.combine([first, last]).remove(last)
    assert_equal(found, first, 1e-11)
    assert (found.rows, found.part_ids, found.unused) == (first.rows, ("a",), first.unused)
    np.testing.assert_allclose(found.weight, first.weight)
    with pytest.raises(ValueError, match="part 'b' is not among the parts of 'a'"):
        first.remove(last)
    with pytest.raises(ValueError, match="has rows that 'a' has not"):
        first.remove(replace(last, part_ids=("a",)))
