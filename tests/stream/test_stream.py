"""Rows in batches: schemas, and parts that add up whatever the cut."""

import os
from itertools import pairwise

import chex
import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import genclf as gcf
from genclf.stream import Predictor, fit_batches, predict_batches, sum_batches
from genclf.text import learn_vocabulary
from tests.stream.batches import (
    JAX_ALONE,
    MODELS,
    TABLE,
    K,
    N,
    Y,
    assert_equal,
    numbers,
    same_bits,
    told,
)


@pytest.mark.parametrize("name", MODELS)
def test_numpy_sums_what_jax_sums(name):
    clf, schema, table = told(name)
    assert schema.by_numpy
    mine = gcf.partial(clf, schema, table, part_id="p")
    theirs = gcf.partial(clf, schema, table, part_id="p", xla=True)
    assert mine.rows == theirs.rows == N and mine.statistic == theirs.statistic
    assert_equal(mine, theirs)
    labelled = TABLE["y"] != None  # noqa: E711  # of each cell
    assert mine.weight == TABLE["w"][labelled].sum()


@pytest.mark.slow("by column", "naive by column")
@pytest.mark.parametrize("name", ["lda", "mixed", "words", *JAX_ALONE])
def test_parts_add_up_whatever_the_cut(name):
    clf, schema, table = told(name)
    whole = gcf.partial(clf, schema, table, part_id="p")
    cuts = [0, 1, 1, 43, 44, N]
    pieces = [table.slice(i, j - i) for i, j in pairwise(cuts)]
    parts = [gcf.partial(clf, schema, piece, part_id=str(i)) for i, piece in enumerate(pieces)]
    combined = gcf.combine(parts)
    assert_equal(combined, whole)
    assert combined.rows == N and combined.part_ids == ("0", "1", "2", "3", "4")
    assert same_bits(gcf.combine(parts[::-1]), combined)
    in_batches = gcf.partial(clf, schema, iter(pieces), part_id="p")
    assert_equal(in_batches, whole)


@pytest.mark.parametrize("name", ["qda", "mixed"])
def test_a_part_of_no_rows_changes_nothing(name):
    clf, schema, table = told(name)
    part = gcf.partial(clf, schema, table, part_id="b")
    for rows in ([], [table.slice(0, 0)]):
        nothing = gcf.partial(clf, schema, rows, part_id="a")
        assert nothing.rows == nothing.weight == 0
        for both in (gcf.combine([nothing, part]), gcf.combine([part, nothing])):
            assert both.part_ids == ("a", "b") and both.digest == part.digest
            for key, value in numbers(both).items():
                assert value.tobytes() == numbers(part)[key].tobytes(), key
    with pytest.raises(ValueError, match="no row of 0 has both a label and a weight above 0"):
        fit_batches(clf, [], schema)


@pytest.mark.slow("float32-by column", "float32-lda", "float64-by column", "float64-lda")
@pytest.mark.parametrize("name", [*MODELS, *JAX_ALONE])
def test_estimates_are_those_of_the_rows(name, dtype):
    clf, schema, table = told(name)
    part = gcf.partial(clf, schema, table, part_id="p")
    params = gcf.estimate(clf, part.stats)
    assert params.log_prior.dtype == dtype
    with jax.enable_x64(True):
        exact = gcf.estimate(clf, part.stats)
    eps = 1e-5 if dtype == np.float32 else 1e-12
    exact = dict(jax.tree_util.tree_leaves_with_path(exact))
    for path, mine in jax.tree_util.tree_leaves_with_path(params):
        if "rounding" not in str(path):  # which float64 has not
            np.testing.assert_allclose(mine, exact[path], eps, eps)


@pytest.mark.parametrize("name", ["lda", "mixed", "counts"])
def test_float32_keeps_the_digits(name):
    clf, schema, table = told(name)
    part = gcf.partial(clf, schema, table, part_id="p")
    for node in jax.tree.leaves(part.stats, is_leaf=lambda n: hasattr(n, "rounding")):
        own = node.total if hasattr(node, "total") else node.scatter
        assert own.dtype == np.float32 and len(node.rounding) >= 2
    high = np.asarray(part.stats.labels.count, float)
    np.testing.assert_array_equal(high, part.labels.count)


def test_a_table_of_any_library_gives_the_same():
    clf, schema, table = told("mixed")
    given = [table, table.to_batches()[0], table.to_pandas(), pl.from_arrow(table)]
    given.append({name: table[name] for name in table.column_names})
    given.append(table.to_reader())  # a stream of batches, as DuckDB gives
    given.append(table.select(sorted(table.column_names)))
    encoded = table.set_column(2, "colour", table["colour"].dictionary_encode())
    given.append(pa.concat_tables([encoded.slice(43), encoded.slice(0, 43)]).slice(0))
    first = gcf.partial(clf, schema, given[0], part_id="p")
    for batch in given[1:-1]:
        assert same_bits(gcf.partial(clf, schema, batch, part_id="p"), first)
    assert_equal(gcf.partial(clf, schema, given[-1], part_id="p"), first)


def test_dictionaries_of_other_orders_are_one_column():
    clf, schema, table = told("categorical")
    values = table["colour"].to_pylist()
    other = pa.DictionaryArray.from_arrays(
        [["grey", "unused", "blue", "red", "green"].index(v) for v in values],
        ["grey", "unused", "blue", "red", "green"],
    )
    batch = table.set_column(0, "colour", other)
    first = gcf.partial(clf, schema, table, part_id="p")
    assert same_bits(gcf.partial(clf, schema, batch, part_id="p"), first)


def test_lists_of_numbers_are_one_column():
    x = np.stack([TABLE["a"], TABLE["b"]], 1)
    clf, schema, table = told("lda")
    batch = {"x": x, "y": TABLE["y"], "w": TABLE["w"]}
    own = gcf.Schema.of(clf, batch, label="y", weight="w")
    assert own.columns[0].width == 2
    one = gcf.partial(clf, own, [batch], part_id="p")
    assert_equal(one, gcf.partial(clf, schema, table, part_id="p"))


def test_bytes_of_a_part_are_that_part():
    clf, schema, table = told("mixed")
    part = gcf.partial(clf, schema, table, part_id="p")
    content = part.to_bytes()
    found = gcf.Part.from_bytes(content)
    assert found.to_bytes() == content and found.statistic == part.statistic
    for i in range(0, len(content), 7):
        wrong = bytearray(content)
        wrong[i] ^= 1
        with pytest.raises(ValueError):
            gcf.Part.from_bytes(bytes(wrong))
        with pytest.raises(ValueError):
            gcf.Part.from_bytes(content[:i])


def test_a_part_twice_or_of_another_schema_is_refused():
    clf, schema, table = told("lda")
    part = gcf.partial(clf, schema, table, part_id="p")
    with pytest.raises(ValueError, match="part 'p' occurs twice"):
        gcf.combine([part, part])
    whole = gcf.combine([part, gcf.partial(clf, schema, table, part_id="q")])
    with pytest.raises(ValueError, match="part 'p' occurs twice"):
        gcf.combine([whole, part])
    other = gcf.partial(clf, told("lda", unseen_labels="ignore")[1], table, part_id="q")
    with pytest.raises(ValueError, match="expected the same schema"):
        gcf.combine([part, other])
    with pytest.raises(ValueError, match="schema is of another model"):
        gcf.partial(gcf.qda(K), schema, table, part_id="p")


def test_schemas_are_told_apart():
    _clf, schema, table = told("mixed")
    assert gcf.Schema.from_json(schema.to_json()) == schema
    schemas = [schema, told("mixed", unseen="other")[1], told("lda")[1], told("qda")[1]]
    schemas.append(gcf.Schema.of(None, table, "y", classes=["w", "v", "u"]))
    schemas.append(gcf.Schema.of(None, table, "y", kinds={"size": ["L", "S", "XL"]}))
    assert len({schema.digest for schema in schemas}) == len(schemas)
    pieces = [table.slice(i, 1) for i in range(N)]
    assert gcf.Schema.scan(None, pieces, "y", weight="w") == schema


def test_scanned_texts_have_the_words_of_all():
    pieces = [{"sms": TABLE["sms"][i : i + 43], "y": Y[i : i + 43]} for i in range(0, N, 43)]
    options = {"label": "y", "kinds": {"sms": "text"}}
    schema = gcf.Schema.scan(None, pieces, **options)
    assert schema.columns[0].values == learn_vocabulary(TABLE["sms"]).words
    assert [part.name for part in schema.parts] == ["text sms"]


def wrong(column, cells, row=6):
    """The table of "mixed" with other cells in a column, from a row on that counts."""
    table = told("mixed")[2]
    first = table[column].slice(0, row).to_pylist()
    rest = table[column].slice(row + len(cells)).to_pylist()
    return table.set_column(
        table.column_names.index(column), column, pa.array(first + cells + rest)
    )


@pytest.mark.parametrize(
    "column, cells, expected",
    [
        ("colour", ["pink"], "'pink', expected one of 'blue', 'green', 'grey', 'red'"),
        ("y", ["x"], "'x', expected one of 'u', 'v', 'w'"),
        ("a", [float("inf")], "inf, expected finite numbers"),
        ("count", [-1], "-1, expected one of 0, 1, 2"),
        ("w", [-1.0], "-1.0, expected a weight >= 0"),
        ("w", [None], "None, expected a weight >= 0"),
    ],
)
def test_a_wrong_cell_is_named(column, cells, expected):
    clf, schema, _ = told("mixed")
    batches = [told("mixed")[2], wrong(column, cells)]
    with pytest.raises(ValueError) as error:
        gcf.partial(clf, schema, batches, part_id="f.parquet")
    assert str(error.value).startswith(f"'f.parquet', row {N + 6}, column '{column}': {expected}")


def test_a_wrong_type_is_named():
    clf, schema, table = told("mixed")
    cases = {
        "a": (pa.array(["x"] * N), "strings, expected numbers"),
        "colour": (pa.array(range(N)), "numbers, expected strings, as 'blue'"),
        "y": (pa.array(range(N)), "numbers, expected strings, as 'u'"),
    }
    for column, (cells, expected) in cases.items():
        batch = table.set_column(table.column_names.index(column), column, cells)
        with pytest.raises(ValueError, match=f"'f', column '{column}': {expected}"):
            gcf.partial(clf, schema, batch, part_id="f")
    with pytest.raises(ValueError, match="'f': no column 'colour', expected one"):
        gcf.partial(clf, schema, table.drop_columns("colour"), part_id="f")
    with pytest.raises(ValueError, match="'f', row 0, column 'a': None, expected a number"):
        clf, schema, _ = told("lda")
        own = {"a": [np.nan], "b": [1.0], "y": ["u"], "w": [1]}
        gcf.partial(clf, schema, own, part_id="f")


@pytest.mark.parametrize("name", [*MODELS, *JAX_ALONE])
def test_rows_that_do_not_count_may_hold_anything(name):
    """Rows of weight 0, or without a label, as `genclf.fit` takes them."""
    clf, schema, table = told(name)
    expected = gcf.partial(clf, schema, table, part_id="p")
    cells = dict(zip(table.column_names, table.columns, strict=True))
    idle = np.array([v is None for v in TABLE["y"]]) | (TABLE["w"] == 0)
    assert idle.any() and not idle.all()
    strange = {"numeric": [np.nan, np.inf], "count": [-1.5, np.nan], "strings": ["?", None]}
    strange |= {"truth values": [None], "numbers": [-7.0]}
    of_arrow = {"strings": pa.string(), "truth values": pa.bool_()}
    for column in schema.columns:
        if column.kind != "text":
            own = strange[column.type if column.is_coded else column.kind]
            given = cells[column.name].to_pylist()
            cells[column.name] = pa.array(
                [own[i % len(own)] if idle[i] else v for i, v in enumerate(given)],
                of_arrow.get(column.type, pa.float64()),
            )
    table = pa.table(cells)
    found = gcf.partial(clf, schema, table, part_id="p")
    assert_equal(found, expected)
    assert found.rows == N
    assert_equal(gcf.partial(clf, schema, table, part_id="p", xla=True), expected)


def test_labels_and_weights_of_rows_that_do_not_count():
    """The label of a row of weight 0 and the weight of a row without a label are not read."""
    table = {"x": [1.0, 2.0, 3.0, 4.0], "w": [1.0, 1.0, 0.0, None], "y": ["u", "v", "new", None]}
    schema = gcf.Schema.scan(None, [table], "y", weight="w")
    assert schema.classes == ("u", "v")
    part = gcf.partial(schema.model(), schema, table, part_id="p")
    assert part.labels.count.tolist() == [1, 1] and part.rows == 4
    assert_equal(part, gcf.partial(schema.model(), schema, table, part_id="p", xla=True))
    table["w"] = [1.0, 1.0, 1.0, None]
    with pytest.raises(ValueError, match="row 2, column 'y': 'new', expected one of 'u', 'v'"):
        gcf.partial(schema.model(), schema, table, part_id="p")
    table["w"], table["y"] = [1.0, -1.0, 0.0, None], ["u", "v", None, "u"]
    with pytest.raises(ValueError, match=r"row 1, column 'w': -1.0, expected a weight >= 0"):
        gcf.partial(schema.model(), schema, table, part_id="p")


@pytest.mark.slow(
    "family0-0.5-0.5, expected a",
    "family1--7.5--7.5, expected a",
    "family2-nan-None, expected a number",
    "family3-3.0-3.0, expected a",
)
@pytest.mark.parametrize(
    "family, cell, expected",
    [
        (gcf.Mixture(gcf.Poisson(), 2), 0.5, "0.5, expected a"),
        (gcf.Mixture(gcf.Multinomial(), 2), -7.5, "-7.5, expected a"),
        (gcf.Mixture(gcf.Gaussian(), 2), np.nan, "None, expected a number"),
        (gcf.VonMisesFisher(), 3.0, "3.0, expected a"),
        (gcf.Independent(gcf.Poisson()), -1.0, "-1.0, expected a"),
    ],
)
def test_a_cell_outside_the_support_is_named_where_jax_alone_sums(family, cell, expected):
    clf, rows = (
        gcf.Classifier(family, 2),
        {"a": [1.0, 0.0] * 3, "b": [0.0, 1.0] * 3, "y": list("uv") * 3},
    )
    schema, wrong = gcf.Schema.of(clf, rows, "y"), {**rows, "a": [1.0, 0.0, 1.0, 0.0, cell, 0.0]}
    with pytest.raises(ValueError, match=f"'batch-000000001', row 4, column 'a': {expected}"):
        fit_batches(clf, [rows, wrong], schema)
    mesh = jax.make_mesh((1,), ("rows",), devices=jax.devices()[:1])
    if not isinstance(family, gcf.Mixture):
        with pytest.raises(ValueError, match=f"row 4, column 'a': {expected}"):
            gcf.distributed.fit(clf, [rows, wrong], mesh, schema=schema)
    wrong["y"] = ["u", "v", "u", "v", None, "u"]
    if not isinstance(family, gcf.Mixture):  # EM reads rows without a label too
        fit_batches(clf, [rows, wrong], schema)


def test_roles_of_columns_are_told_apart():
    b = {"a": [1.0, 2.0, 4.0], "b": [3.0, 1.0, 2.0], "y": ["u", "v", "u"]}
    clf = gcf.Classifier(gcf.Product({"one": gcf.Gaussian("diag"), "two": gcf.Gaussian("diag")}), 2)
    of = lambda **options: gcf.Schema.of(clf, b, "y", **options)  # noqa: E731
    for parts, expected in (
        ({"one": ["a", "b"], "two": ["b"]}, "parts has column 'b' twice"),
        ({"one": ["a"], "two": "b"}, r"parts\['two'\] is 'b', expected a list of column names"),
        ({"one": ["a"], "two": ["b", "y"]}, "column 'y' has labels or weights, so it cannot"),
        ({"three": ["a"]}, r"parts names 'three', but the parts of the model are \['one', 'two'\]"),
    ):
        with pytest.raises(ValueError, match=expected):
            of(parts=parts)
    parts = {"one": ["a"], "two": ["b"]}
    for options, expected in (
        ({"weight": "y"}, "column 'y' has labels or weights"),
        ({"kinds": {"y": "drop"}}, "column 'y' has labels or weights"),
        ({"classes": "uv"}, "classes is 'uv', expected a list of values"),
        ({"classes": ["u", 1]}, "classes holds 'u' and 1, expected values of one type"),
        ({"kinds": {"a": []}}, r"kinds\['a'\] is empty, expected the values"),
    ):
        with pytest.raises(ValueError, match=expected):
            of(parts=parts, **options)
    for text in ("{}", "nope", "[]"):
        with pytest.raises(ValueError, match=r"expected what Schema.to_json wrote"):
            gcf.Schema.from_json(text)


def test_types_are_those_of_the_schema():
    rows = {"x": [1.5, 2.0, 8.0, 7.0], "s": list("abab"), "y": list("uuvv")}
    for make in (gcf.Schema.of, lambda clf, rows, label: gcf.Schema.scan(clf, [rows], label=label)):
        with pytest.raises(ValueError, match="column 's' holds strings, but the model reads it as"):
            make(gcf.lda(2), rows, label="y")
    for later, expected in (
        ({**rows, "x": ["k"] * 4}, "'batch-000000001', column 'x': strings, expected numbers"),
        ({**rows, "x": [True] * 4}, "1', column 'x': truth values, expected numbers"),
        ({**rows, "x": np.ones((4, 2))}, "1', column 'x': lists of 2 numbers, expected numbers"),
        ({"s": rows["s"], "y": rows["y"]}, "'batch-000000001': no column 'x'"),
    ):
        with pytest.raises(ValueError, match=expected):
            gcf.Schema.scan(None, [rows, later], label="y")
        with pytest.raises(ValueError, match=expected):
            sum_batches(gcf.Schema.of(None, rows, "y").model(), [rows, later],
                        gcf.Schema.of(None, rows, "y"))  # fmt: skip
    bits = {"x": [True, False, True], "y": ["u", "u", "v"]}
    schema = gcf.Schema.of(gcf.bernoulli_nb(2), bits, "y")
    assert schema.columns[0].type == "truth values"
    part = sum_batches(gcf.bernoulli_nb(2), [bits, {"x": [None], "y": [None]}], schema)
    assert part.conditional.total.tolist() == [[1], [1]]
    with pytest.raises(ValueError, match="column 'x': numbers, expected truth values"):
        sum_batches(gcf.bernoulli_nb(2), [{**bits, "x": [1, 0, 1]}], schema)


def test_a_column_that_is_null_at_first_gets_its_kind_later():
    rows = {"x": [1.5, 2.0, 4.5, 3.0], "s": list("abab"), "y": list("uvvu")}
    whole = gcf.Schema.of(None, rows, "y")
    for name, empty in (("x", [np.nan, None] * 2), ("s", [None] * 4)):
        nulls = {**rows, name: pa.nulls(4)}
        assert gcf.Schema.scan(None, [nulls, nulls, rows], "y") == whole
        if name == "s":
            assert gcf.Schema.scan(None, [{**rows, name: empty}, rows], "y") == whole
        with pytest.warns(UserWarning, match=rf"not read: '{name}' \(no value\)"):
            assert name not in gcf.Schema.scan(None, [nulls], "y").names
        with pytest.raises(ValueError, match=f"column '{name}' has no value: drop it"):
            gcf.Schema.scan(whole.model(), [nulls], "y")
        kinds = {"x": "numeric"} if name == "x" else {"s": ["a", "b"]}
        assert gcf.Schema.of(None, nulls, "y", kinds=kinds) == whole
    lists = {"x": np.ones((2, 3)), "y": ["u", "v"]}
    found = gcf.Schema.scan(gcf.lda(2), [{"x": pa.nulls(2), "y": ["u", "v"]}, lists], "y")
    assert found.columns[0].width == 3
    cells = pa.FixedSizeListArray.from_arrays([1.0, 2, 3, np.nan, np.nan, np.nan], 3)
    cells = pa.array([[1.0, 2, 3], None], cells.type)
    with pytest.raises(ValueError, match="row 1, column 'x': None, expected a number"):
        gcf.partial(gcf.lda(2), found, {"x": cells, "y": ["u", "v"]}, part_id="p")
    one = gcf.partial(gcf.lda(2), found, {"x": cells, "y": ["u", None]}, part_id="p")
    assert one.conditional.mean.tolist() == [[1, 2, 3], [0, 0, 0]]


def test_arrays_of_any_order_of_bytes(tmp_path):
    clf, schema, table = told("lda")
    cells = {name: table[name].to_numpy() for name in ("a", "b", "w")} | {"y": table["y"]}
    swapped = {**cells, "a": cells["a"].astype(">f8")}
    part = gcf.partial(clf, schema, table, part_id="p")
    assert same_bits(gcf.partial(clf, schema, swapped, part_id="p"), part)
    for wrong, expected in (
        ({**cells, "a": cells["a"] + 0j}, "column 'a': .*; expected cells of one type"),
        (pd.DataFrame({"a": [1, "x"]}), "a table cannot be read: .*; expected cells of one type"),
    ):
        with pytest.raises(ValueError, match=expected):
            gcf.partial(clf, schema, wrong, part_id="p")
    with pytest.raises(FileNotFoundError, match=r"there is no file '.*none.csv'"):
        gcf.partial(clf, schema, tmp_path / "none.csv", part_id="p")


def test_batches_of_no_use_are_named():
    clf, schema, table = told("lda")
    ragged = {"a": [1.0], "b": [1.0, 2.0], "y": ["u"], "w": [1]}
    with pytest.raises(ValueError, match=r"columns of a batch differ in length: \{'a': 1, 'b': 2"):
        gcf.partial(clf, schema, ragged, part_id="p")
    lazy = pl.LazyFrame({"a": [1.0]})
    with pytest.raises(ValueError, match=r"hold a LazyFrame, expected .* in memory"):
        gcf.partial(clf, schema, lazy, part_id="p")
    with pytest.raises(ValueError, match=r"hold the path 'a.csv', .*sum_batches takes several"):
        gcf.partial(clf, schema, ["a.csv"], part_id="p")
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([N], pa.int32()), pa.array([2.5]))
    constant = table.set_column(0, "a", runs)
    found = gcf.partial(clf, schema, constant, part_id="p").conditional.mean[:, 0]
    np.testing.assert_allclose(found, 2.5)
    mixture = gcf.Classifier(gcf.Mixture(gcf.Gaussian(), 2), K)
    own = gcf.Schema.of(mixture, table, label="y", weight="w")
    with pytest.raises(
        ValueError, match="statistics of Mixture depend on its params: fit it by fit_"
    ):
        sum_batches(mixture, [table], own)
    with pytest.raises(
        ValueError, match="statistics of Mixture depend on its params: give params="
    ):
        gcf.partial(mixture, own, [table], part_id="p")


def test_unseen_values_are_others():
    clf, schema, _table = told("mixed", unseen="other", unseen_labels="ignore")
    rows = wrong("colour", ["pink"] * 3)
    part = gcf.partial(clf, schema, rows, part_id="p")
    assert (
        part.conditional["categorical"].total[:, 4].sum()
        == TABLE["w"][6:9][
            TABLE["y"][6:9] != None  # noqa: E711
        ].sum()
    )
    without = gcf.partial(clf, schema, wrong("y", ["x"]), part_id="p")
    gone = gcf.partial(clf, schema, wrong("y", [None]), part_id="p")
    assert_equal(without, gone)
    assert without.unused == gone.unused and (without.unseen, gone.unseen) == (1, 0)
    labels = wrong("y", [None])["y"].to_pylist()
    assert gone.unused == sum(y is None or w == 0 for y, w in zip(labels, TABLE["w"], strict=True))


def test_what_is_ignored_is_counted_and_said():
    clf, schema, table = told("mixed", unseen="ignore")
    rows = wrong("colour", ["pink"] * 3)
    for xla in (False, True):
        part = gcf.partial(clf, schema, rows, part_id="p", xla=xla)
        assert part.unseen == 3 and gcf.Part.from_bytes(part.to_bytes()).unseen == 3
        assert gcf.combine([part, gcf.partial(clf, schema, table, part_id="q")]).unseen == 3
    none = gcf.partial(clf, schema, wrong("colour", [None] * 3), part_id="p")
    assert_equal(part, none)
    with pytest.warns(UserWarning, match=f"3 labels or categories in {N} rows are not in the sch"):
        fit_batches(clf, [rows], schema)


def test_numbers_of_classes_and_values_are_compared():
    batch = {"colour": ["red", "blue"], "y": ["u", "v"]}
    with pytest.raises(ValueError, match="rows have 2 classes, 'u', 'v', but the model 3"):
        gcf.Schema.of(gcf.Classifier(gcf.Categorical(2), 3), batch, label="y")
    with pytest.raises(ValueError, match=r"column 'colour' has 2 values, \('blue', 'red'\)"):
        gcf.Schema.of(gcf.Classifier(gcf.Categorical(3), 2), batch, label="y")
    with pytest.raises(ValueError, match="no column 'z'"):
        gcf.Schema.of(None, batch, label="z")


def test_large_whole_numbers_are_different_values():
    b = {"c": [2**53, 2**53 + 1] * 2, "y": [2**62, 2**62 + 1, 2**62, 2**62 + 1]}
    schema = gcf.Schema.of(None, b, "y", kinds={"c": "categorical"})
    assert schema.columns[0].values == (2**53, 2**53 + 1)
    part = gcf.partial(schema.model(), schema, b, part_id="p")
    np.testing.assert_array_equal(part.conditional["categorical"].total, 2 * np.eye(2))
    as_floats = {"c": [2.0**53, None], "y": [2**62, 2**62 + 1]}
    with pytest.raises(ValueError, match=r"column 'c': 9007199254740992.0 is a float, and floats"):
        gcf.partial(schema.model(), schema, as_floats, part_id="p")
    with pytest.raises(ValueError, match=r"classes holds 9007199254740992.0 is a float"):
        gcf.Schema.of(None, b, "y", kinds={"c": "categorical"}, classes=[2.0**53, 0.0])


def test_given_values_are_those_of_python_and_differ():
    b = {"c": [1, 2, 1], "y": [0, 1, 1]}
    kinds = {"c": np.array([1, 2])}
    schema = gcf.Schema.of(None, b, "y", kinds=kinds, classes=np.array([0.0, 1.0]))
    own = gcf.Schema.of(None, b, "y", kinds={"c": [1, 2]}, classes=[0, 1])
    assert schema.digest == own.digest
    with pytest.raises(ValueError, match="classes holds 1 twice"):
        gcf.Schema.of(None, b, "y", classes=[0, 1, 1])
    with pytest.raises(ValueError, match=r"kinds\['c'\] holds None, expected values"):
        gcf.Schema.of(None, b, "y", kinds={"c": [1, 2, None]})


def test_holes_of_a_dict_are_holes():
    b = {"x": np.ma.masked_array([1.5, 2.0, 999.0], [0, 0, 1]), "y": ["a", "b", float("nan")]}
    schema = gcf.Schema.of(None, b, "y")
    assert schema.classes == ("a", "b")
    part = gcf.partial(schema.model(), schema, b, part_id="p")
    assert part.conditional["numeric"].count.tolist() == [[1.0], [1.0]]
    with pytest.raises(ValueError, match=r"column 'c': .*expected cells of one type"):
        gcf.Schema.of(None, {"c": ["a", 1], "y": [0, 1]}, "y")


def test_texts_do_not_share_a_part():
    b = {"t": ["aa", "aa aa", "aa"], "u": ["bb cc", "cc", "dd cc"], "y": [0, 1, 1]}
    kinds = {"t": "text", "u": "text"}
    with pytest.raises(ValueError, match="column 't' is text and shares its part"):
        gcf.Schema.of(gcf.multinomial_nb(2), b, "y", kinds=kinds)
    unknown = learn_vocabulary(b["t"], unknown=True)
    with pytest.raises(ValueError, match="expected one without unknown=True"):
        gcf.Schema.of(None, b, "y", kinds=kinds | {"t": unknown})


def test_lists_of_one_number_and_dictionaries_with_null():
    b = {"x": np.array([[1.0], [2.0], [4.0]]), "y": [0, 1, 1]}
    clf = gcf.gaussian_nb(2)
    part = gcf.partial(clf, gcf.Schema.of(clf, b, "y"), b, part_id="p")
    assert part.conditional.mean.tolist() == [[1.0], [3.0]]
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["b", None]))
    cells = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), with_null])
    b = pa.table({"c": cells, "y": [0, 1, 1, 0]})
    schema = gcf.Schema.of(None, b, "y")
    part = gcf.partial(schema.model(), schema, b, part_id="p")
    assert part.conditional["categorical"].total.tolist() == [[1, 0], [0, 2]]


def test_parts_of_any_name_are_told_apart():
    family = gcf.Product({"a": gcf.Gaussian("diag"), "a/mean": gcf.Gaussian("diag")})
    b = {"a": [1.0, 2.0], "a/mean": [3.0, 4.0], "y": [0, 1]}
    clf = gcf.Classifier(family, 2)
    part = gcf.partial(clf, gcf.Schema.of(clf, b, "y"), b, part_id="p")
    found = gcf.Part.from_bytes(part.to_bytes())
    assert found.conditional["a/mean"].mean.tolist() == [[3.0], [4.0]]


# Files.


def test_words_of_a_csv_are_no_holes(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1.5,NA\n2,US\n3,null\n,NA\n")
    columns = {"x": [1.5, 2.0, 3.0, None], "y": ["NA", "US", "null", "NA"]}
    schema = gcf.Schema.of(None, columns, "y")
    part = sum_batches(schema.model(), tmp_path / "a.csv", schema)
    assert part.labels.count.tolist() == [2, 1, 1]
    assert_equal(sum_batches(schema.model(), columns, schema), part)
    with pytest.raises(ValueError, match="occurs twice"):
        again = os.path.join(tmp_path, ".", "a.csv")
        sum_batches(schema.model(), [tmp_path / "a.csv", again], schema)


@pytest.mark.parametrize("unseen", [None, "ignore"])
def test_a_model_that_ignores_unseen_values_ignores_them_at_every_door(unseen):
    """Rows with a value that the schema lacks, as those of a code that the core does not know."""
    clf = gcf.Classifier(gcf.Categorical(2, unseen="ignore"), 2)
    first = {"c": [*"uvuvuuv"], "y": [0, 1, 0, 0, 1, 1, 0]}
    more = {"c": [*"uwvwu"], "y": [1, 0, 1, 1, 0]}
    schema = gcf.Schema.of(clf, first, "y", unseen=unseen)
    with pytest.warns(UserWarning, match="2 labels or categories in 12 rows are not in the schema"):
        params = fit_batches(clf, [first, more], schema)
    codes = np.array([*map("uvw".index, [*first["c"], *more["c"]])])[:, None]
    y = np.array([*first["y"], *more["y"]])
    chex.assert_trees_all_close(params, gcf.fit(clf, codes, y), rtol=1e-6)

    expected = np.exp(gcf.log_posterior(params, np.array([[0], [1], [2]])))
    rows = {"c": [*"uvw"]}
    np.testing.assert_allclose(Predictor.of(params, schema).predict_proba(rows), expected, 1e-6)
    (found,) = predict_batches(params, [rows], schema)
    assert found["prediction"].to_pylist() == expected.argmax(1).tolist()


def test_values_can_be_ignored_only_by_a_model_that_can():
    table = {"c": [*"uvuv"], "y": [0, 1, 0, 1]}
    with pytest.raises(ValueError, match=r'unseen is "ignore", but Categorical.*column \'c\''):
        gcf.Schema.of(gcf.categorical_nb(2, 2), table, "y", unseen="ignore")
