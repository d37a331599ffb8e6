"""Rows in batches: schemas, parts that add up whatever the cut, and streams that survive kills."""

import os
import signal
import subprocess
import sys
import time
from itertools import islice, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import genclf as gcf
from genclf.latent.em import em_step
from genclf.stream import fit_batches, sum_batches
from genclf.text import learn_vocabulary

N, K = 101, 3
RNG = np.random.default_rng(0)
Y = np.array(["u", "v", "w"])[RNG.integers(0, K, N)]
TABLE = {
    "a": RNG.normal(size=N),
    "b": RNG.normal(30, 2, N),
    "holes": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
    "bit": RNG.integers(0, 2, N),
    "bits": np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(0, 2, N)),
    "count": RNG.integers(0, 7, N),
    "counts": np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(0, 7, N)),
    "colour": np.array(["red", "green", "blue", "grey"])[RNG.integers(0, 4, N)],
    "size": np.array(["S", "L", None], object)[RNG.integers(0, 3, N)],
    "sms": np.array([" ".join(np.array(["free", "prize", "you", "are"])[i]) for i in
                     RNG.integers(0, 4, (N, 5))]),
    "y": np.where(RNG.random(N) < 0.1, None, Y),
    "w": RNG.integers(0, 4, N),
}  # fmt: skip
CATEGORIES = gcf.Categorical((4,))
MODELS = {
    "lda": (gcf.lda(K), ["a", "b"]),
    "qda": (gcf.qda(K), ["a", "b"]),
    "naive": (gcf.gaussian_nb(K), ["a", "b"]),
    "spherical": (gcf.Classifier(gcf.Gaussian("spherical", shared=True), K), ["a", "b"]),
    "holes": (gcf.Classifier(gcf.Gaussian("diag", missing="marginalize"), K), ["a", "holes"]),
    "bernoulli": (gcf.bernoulli_nb(K), ["bit"]),
    "threshold": (gcf.Classifier(gcf.Bernoulli(threshold=0.1), K), ["a", "b"]),
    "bits": (gcf.Classifier(gcf.Bernoulli(missing="marginalize"), K), ["bit", "bits"]),
    "multinomial": (gcf.multinomial_nb(K), ["bit", "count"]),
    "presence": (gcf.Classifier(gcf.Multinomial(presence=True), K), ["bit", "count"]),
    "words": (gcf.multinomial_nb(K), ["sms"]),
    "poisson": (gcf.Classifier(gcf.Poisson(), K), ["bit", "count"]),
    "counts": (gcf.Classifier(gcf.Poisson(missing="marginalize"), K), ["count", "counts"]),
    "categorical": (gcf.Classifier(CATEGORIES, K), ["colour"]),
    "mixed": (None, ["a", "holes", "colour", "size", "count"]),
    "product": (
        gcf.Classifier(gcf.Product({"rest": gcf.Gaussian(), "colour": CATEGORIES}), K),
        ["a", "b", "colour"],
    ),
}
JAX_ALONE = {
    "by column": (gcf.Classifier(gcf.Independent(gcf.Gaussian()), K), ["a", "b"]),
    "naive by column": (gcf.Classifier(gcf.Independent(gcf.Categorical(7)), K), ["count"]),
}


def told(name, **options):
    """A model, its schema and the table that it reads."""
    clf, columns = (MODELS | JAX_ALONE)[name]
    table = pa.table({key: pa.array(TABLE[key], from_pandas=True) for key in [*columns, "y", "w"]})
    kinds = {"sms": learn_vocabulary(TABLE["sms"])} if "sms" in columns else None
    schema = gcf.Schema.of(clf, table, label="y", weight="w", kinds=kinds, **options)
    return clf or schema.model(), schema, table


def numbers(part):
    found = {}

    def gather(node, name):
        if isinstance(node, dict):
            for key, item in node.items():
                gather(item, f"{name}/{key}")
        else:
            found.update({f"{name}.{key}": value for key, value in vars(node).items()})

    gather(part.labels, "labels")
    gather(part.conditional, "conditional")
    return found


def assert_equal(one, other, rtol=1e-12):
    one, other = numbers(one), numbers(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        scale = np.abs(other[name]).max(initial=0)
        np.testing.assert_allclose(value, other[name], rtol, rtol * scale, err_msg=name)


def same_bits(one, other):
    return one.to_bytes() == other.to_bytes()


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
    with pytest.raises(ValueError, match="part 'p' is there twice"):
        gcf.combine([part, part])
    whole = gcf.combine([part, gcf.partial(clf, schema, table, part_id="q")])
    with pytest.raises(ValueError, match="part 'p' is there twice"):
        gcf.combine([whole, part])
    other = gcf.partial(clf, told("lda", unseen="other")[1], table, part_id="q")
    with pytest.raises(ValueError, match="different schemas"):
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


def wrong(column, cells, row=5):
    """The table of "mixed" with other cells in a column, from a row on."""
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
        ("count", [-1], None),
        ("w", [-1.0], "-1.0, expected a weight >= 0"),
        ("w", [None], "None, expected a weight >= 0"),
    ],
)
def test_a_wrong_cell_is_named(column, cells, expected):
    clf, schema, _ = told("mixed")
    batches = [told("mixed")[2], wrong(column, cells)]
    if expected is None:  # a number like others
        gcf.partial(clf, schema, batches, part_id="f.parquet")
        return
    with pytest.raises(ValueError) as error:
        gcf.partial(clf, schema, batches, part_id="f.parquet")
    assert str(error.value).startswith(f"'f.parquet', row {N + 5}, column '{column}': {expected}")


def test_a_wrong_type_is_named():
    clf, schema, table = told("mixed")
    cases = {
        "a": (pa.array(["x"] * N), "strings, expected numbers"),
        "colour": (pa.array(range(N)), "numbers, and the schema has strings, as 'blue'"),
        "y": (pa.array(range(N)), "numbers, and the schema has strings, as 'u'"),
    }
    for column, (cells, expected) in cases.items():
        batch = table.set_column(table.column_names.index(column), column, cells)
        with pytest.raises(ValueError, match=f"'f', column '{column}': {expected}"):
            gcf.partial(clf, schema, batch, part_id="f")
    with pytest.raises(ValueError, match="'f': no columns 'colour', expected one"):
        gcf.partial(clf, schema, table.drop_columns("colour"), part_id="f")
    with pytest.raises(ValueError, match="'f', row 0, column 'a': None, expected a number"):
        clf, schema, _ = told("lda")
        own = {"a": [np.nan], "b": [1.0], "y": ["u"], "w": [1]}
        gcf.partial(clf, schema, own, part_id="f")


def test_unseen_values_are_others():
    clf, schema, _table = told("mixed", unseen="other")
    rows = wrong("colour", ["pink"] * 3)
    part = gcf.partial(clf, schema, rows, part_id="p")
    assert (
        part.conditional["categorical"].total[:, 4].sum()
        == TABLE["w"][5:8][
            TABLE["y"][5:8] != None  # noqa: E711
        ].sum()
    )
    without = gcf.partial(clf, schema, wrong("y", ["x"]), part_id="p")
    gone = gcf.partial(clf, schema, wrong("y", [None]), part_id="p")
    assert_equal(without, gone)


def test_numbers_of_classes_and_values_are_compared():
    batch = {"colour": ["red", "blue"], "y": ["u", "v"]}
    with pytest.raises(ValueError, match="rows have 2 classes, 'u', 'v', and the model 3"):
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
    b = {"x": np.ma.masked_array([1.0, 2.0, 999.0], [0, 0, 1]), "y": ["a", "b", float("nan")]}
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
    (tmp_path / "a.csv").write_text("x,y\n1,NA\n2,US\n3,null\n,NA\n")
    columns = {"x": [1.0, 2.0, 3.0, None], "y": ["NA", "US", "null", "NA"]}
    schema = gcf.Schema.of(None, columns, "y")
    part = sum_batches(schema.model(), tmp_path / "a.csv", schema)
    assert part.labels.count.tolist() == [2, 1, 1]
    assert_equal(sum_batches(schema.model(), columns, schema), part)
    with pytest.raises(ValueError, match="is there twice"):
        again = os.path.join(tmp_path, ".", "a.csv")
        sum_batches(schema.model(), [tmp_path / "a.csv", again], schema)


@pytest.fixture
def files(tmp_path):
    """Seven files of the rows of "mixed", the last without any."""
    table = told("mixed")[2]
    cuts = [0, 17, 18, 43, 59, 83, N, N]
    paths = []
    for i, (start, end) in enumerate(pairwise(cuts)):
        paths.append(tmp_path / f"{i}.parquet")
        pq.write_table(table.slice(start, end - start), paths[-1])
    return paths


def test_files_are_their_rows(files, tmp_path):
    clf, schema, table = told("mixed")
    whole = sum_batches(clf, files, schema)
    assert_equal(whole, gcf.partial(clf, schema, table, part_id="p"))
    assert whole.part_ids == tuple(map(os.fspath, files))
    assert same_bits(sum_batches(clf, files, schema, processes=2), whole)
    table.to_pandas().to_csv(tmp_path / "all.csv", index=False)
    of_csv = sum_batches(clf, [tmp_path / "all.csv"], schema)
    assert_equal(of_csv, whole)
    params = fit_batches(clf, files, schema)
    np.testing.assert_allclose(
        params.conditional.parts["numeric"].mean, gcf.estimate(clf, whole.stats).conditional
        .parts["numeric"].mean
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"0.parquet' is there twice"):
        sum_batches(clf, [files[0], files[0]], schema)


def test_files_that_differ_are_exact_or_named(files):
    clf, schema, _table = told("mixed")
    whole = sum_batches(clf, files, schema)
    first = pq.read_table(files[0])

    def written(changed):
        pq.write_table(changed, files[0])
        return sum_batches(clf, files, schema)

    other_order = first.select(sorted(first.column_names)[::-1])
    assert same_bits(written(other_order), whole)
    place = first.column_names.index("count")
    with_null = pa.array([None, *map(float, first["count"].to_pylist()[1:])])
    as_float = first.set_column(place, "count", pa.array(map(float, first["count"].to_pylist())))
    assert same_bits(written(as_float), whole)
    assert written(first.set_column(place, "count", with_null)).rows == N
    as_null = first.set_column(0, "a", pa.nulls(len(first)))
    assert written(as_null).rows == N
    with pytest.raises(ValueError, match=r"0.parquet': no column 'holes'; the columns are 'a'"):
        written(first.rename_columns({"holes": "other"}))
    labels = pa.array([0] * len(first))
    with pytest.raises(ValueError, match=r"0.parquet', column 'y': numbers, and the schema"):
        written(first.set_column(first.column_names.index("y"), "y", labels))
    content = files[1].read_bytes()
    pq.write_table(first, files[0])
    for length in (0, 3, len(content) // 2, len(content) - 1):
        files[1].write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"1.parquet' cannot be read"):
            sum_batches(clf, files, schema)


def test_rows_in_another_order_are_the_same_rows(files):
    clf, schema, table = told("mixed")
    shuffled = table.take(np.random.default_rng(1).permutation(N))
    assert_equal(gcf.partial(clf, schema, shuffled, part_id="p"), sum_batches(clf, files, schema))


def test_a_class_in_one_part_alone(files):
    clf, schema, table = told("lda")
    y = np.array(table["y"].to_pylist(), object)
    table = table.set_column(2, "y", pa.array(np.where(np.arange(N) < 90, "u", "w")))
    schema = gcf.Schema.of(clf, table, "y", weight="w", classes=("u", "v", "w"))
    cuts = [gcf.partial(clf, schema, table.slice(i, 43), part_id=str(i)) for i in range(0, N, 43)]
    whole = gcf.partial(clf, schema, table, part_id="p")
    assert_equal(gcf.combine(cuts), whole)
    assert whole.labels.count[1] == 0 and len(y) == N


# Checkpoints.


def test_a_checkpoint_goes_on(files, tmp_path):
    clf, schema, _ = told("mixed")
    whole = sum_batches(clf, files, schema)
    path = tmp_path / "state.genclf"
    with pytest.raises(ValueError, match="cannot be read"):
        content = files[4].read_bytes()
        files[4].write_bytes(b"")
        sum_batches(clf, files, schema, checkpoint=path, every=0)
    files[4].write_bytes(content)
    assert gcf.Part.from_bytes(path.read_bytes()).part_ids == tuple(map(os.fspath, files[:4]))
    for file in files[:4]:  # which are not read again
        file.write_bytes(b"")
    assert same_bits(sum_batches(clf, files, schema, checkpoint=path, processes=2), whole)
    assert same_bits(sum_batches(clf, files, schema, checkpoint=path), whole)
    other, its_schema, _ = told("mixed", unseen="other")
    with pytest.raises(ValueError, match=r"state.genclf' is of another schema"):
        sum_batches(other, files, its_schema, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"state.genclf': its checksum"):
        sum_batches(clf, files, schema, checkpoint=path)


PROGRAM = """
import sys, time
from pathlib import Path
from genclf.stream.checkpoint import PartFile, host_sum
from genclf.stream.schema import Schema
schema, path, *files = sys.argv[1:]
def slowly():
    for file in files:
        time.sleep(0.03)
        yield file
host_sum(Schema.from_json(Path(schema).read_text()), slowly(), store=PartFile(Path(path)), every=0)
assert "jax" not in sys.modules
"""


def test_kills_lose_and_double_nothing(files, tmp_path):
    clf, schema, _ = told("mixed")
    whole = sum_batches(clf, files, schema)
    path, told_path = tmp_path / "state.genclf", tmp_path / "schema.json"
    told_path.write_text(schema.to_json())
    command = [sys.executable, "-c", PROGRAM, told_path, path, *files]
    rng, killed = np.random.default_rng(0), 0
    while True:
        running = subprocess.Popen(command)
        while killed < 5 and not path.exists() and running.poll() is None:
            time.sleep(0.005)
        if killed < 5:
            time.sleep(rng.uniform(0, 0.1))
            running.send_signal(signal.SIGKILL)
        if running.wait(60) == 0:
            break
        killed += 1
    assert killed >= 3
    assert same_bits(gcf.Part.from_bytes(path.read_bytes()), whole)


# EM in passes.


MIXTURE = gcf.Classifier(gcf.Mixture(gcf.Gaussian("diag"), 2), K)


@pytest.fixture(scope="module")
def mixture():
    table = pa.table({key: pa.array(TABLE[key], from_pandas=True) for key in ("a", "b", "y", "w")})
    schema = gcf.Schema.of(MIXTURE, table, "y", weight="w")
    batches = [table.slice(i, 43) for i in range(0, N, 43)]
    x = np.stack([TABLE["a"], TABLE["b"]], 1)
    y = np.array([-1 if v is None else "uvw".index(v) for v in TABLE["y"]])
    return schema, batches, (x, y, TABLE["w"].astype(float))


def test_a_pass_is_a_step_of_em(mixture, x64):
    schema, batches, (x, y, w) = mixture
    start = gcf.em(MIXTURE, x, y, weights=w, key=jax.random.key(0), max_steps=2).params
    found = fit_batches(MIXTURE, batches, schema, passes=3, init=start)
    params = start
    for _ in range(3):
        params = gcf.estimate(MIXTURE, em_step(MIXTURE, x, y, w)(params)[1])
    for mine, theirs in zip(*map(jax.tree.leaves, (found, params)), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-11)
    part = gcf.partial(MIXTURE, schema, batches, part_id="p", params=start)
    again = gcf.Part.from_bytes(part.to_bytes())
    one = fit_batches(MIXTURE, batches, schema, passes=1, init=start)
    for mine, theirs in zip(
        *map(jax.tree.leaves, (gcf.estimate(MIXTURE, again.stats), one)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, 1e-11)


def test_passes_go_on_from_a_checkpoint(mixture, tmp_path):
    schema, batches, _ = mixture
    whole = fit_batches(MIXTURE, batches, schema, passes=3)
    path = tmp_path / "em.genclf"

    class Broken(list):
        def __iter__(self):
            self.passes = getattr(self, "passes", 0) + 1
            stop = 2 if self.passes == 3 else None  # the first one reads the start
            yield from islice(super().__iter__(), stop)
            if stop:
                raise OSError("the disk is gone")

    with pytest.raises(OSError):
        fit_batches(MIXTURE, Broken(batches), schema, passes=3, checkpoint=path, every=0)
    state = gcf.load(path)
    assert state["step"] == 1
    assert gcf.Part.from_bytes(state["sums"].tobytes()).rows == 86
    found = fit_batches(MIXTURE, batches, schema, passes=3, checkpoint=path)
    for mine, theirs in zip(*map(jax.tree.leaves, (found, whole)), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ValueError, match="an iterator, which is read once"):
        fit_batches(MIXTURE, iter(batches), schema, passes=2)


def test_progress_is_a_line_with_rows(files, capsys):
    clf, schema, _ = told("mixed")
    sum_batches(clf, files, schema, progress=True)
    assert "101 rows [" in capsys.readouterr().err.replace("101/? rows", "101 rows")


def test_forgetting_scales_the_sums():
    clf, schema, table = told("lda")
    stats = gcf.partial(clf, schema, table, part_id="p").stats
    recent = gcf.merge(gcf.scale(stats, 0.5), stats)
    np.testing.assert_allclose(recent.count, 1.5 * stats.count)
    np.testing.assert_allclose(
        gcf.estimate(clf, recent).conditional.mean, gcf.estimate(clf, stats).conditional.mean, 1e-5
    )
    assert jnp.isfinite(recent.conditional.scatter).all()
