"""Fits and predictions on Spark, whose workers need no JAX; needs `genclf[spark]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genclf.arguments.domains import Domain
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import estimate
from genclf.classifier.model import Fitted
from genclf.engines.arguments import check_names, check_recipes
from genclf.engines.partitions import (
    Merging,
    Named,
    Predicting,
    Summing,
    keyed,
    part_of_partition,
    parts_in,
)
from genclf.stream.part import Part, merged
from genclf.stream.partial import SCHEMA, check_schema, check_sums
from genclf.stream.predict import NAME, OPTIONAL_NAME
from genclf.stream.predicting import PredictedColumns, type_of_classes
from genclf.stream.schema import Schema
from genclf.stream.score_plan import host_scores

if TYPE_CHECKING:  # Spark is imported where it runs
    from pyspark.sql import DataFrame
else:
    DataFrame = object

_DATAFRAME = Domain("a DataFrame of Spark", lambda df: hasattr(df, "mapInArrow"))
_AT_DRIVER = 256 * 2**20  # bytes of parts above which workers merge some before the driver
# Parts that a worker merges; with a power of 2, this step does not change the bits of the result.
_TOGETHER = 8
_CHUNKS = "part_id string, sequence int, of int, bytes binary"


@checked_arguments(schema=SCHEMA, df=_DATAFRAME)
def partial(schema: Schema, df: DataFrame) -> Part:
    """The statistics of the rows of a DataFrame: each partition is summed by its worker.

    Workers send parts, which have the size of the statistics, and the driver combines them. If the
    parts exceed 256 MiB in total, workers first merge eight at a time. Spark may run a task more
    than once; each row still counts once, and the result has the same bits.

    Args:
        schema: how the model reads the columns.
        df: a DataFrame of Spark, not of Spark Connect.

    Returns:
        A `Part`.

    Raises:
        ValueError: the model has statistics that only JAX can sum; or a part did not arrive
            exactly once. A cell that does not fit the schema raises the PythonException of Spark,
            whose message ends with partition, row and column.
    """
    check_recipes(schema)
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise ValueError("df is a DataFrame of Spark Connect, expected one of a session with RDDs")
    check_names(schema.names, df.columns)
    chunks: Any = _chunks(schema, df).rdd
    count = chunks.getNumPartitions()
    empty = part_of_partition(schema, 0, [])
    size = len(empty.to_bytes())
    while count > 1 and count * size > _AT_DRIVER:
        merging, groups = Merging(_TOGETHER, count), -(-count // _TOGETHER)
        by_group = chunks.map(keyed).repartitionAndSortWithinPartitions(groups, merging.group_of)
        chunks, count = by_group.mapPartitionsWithIndex(merging), groups
    return _at_driver(chunks.collect(), count) if count else empty


def _chunks(schema: Schema, df: DataFrame) -> DataFrame:
    """A DataFrame of the chunks of the parts of all partitions."""
    at = [df.columns.index(name) for name in schema.names]
    summing = Named(schema.names, Summing(schema))
    return _numbered(df).select(*map(str, at)).mapInArrow(summing, _CHUNKS)


def _numbered(df: DataFrame) -> DataFrame:
    """The columns, named by their numbers: `mapInArrow` reads a dot in a name as a struct field."""
    return df.toDF(*map(str, range(len(df.columns))))


def _at_driver(rows: list[Any], count: int) -> Part:
    """The sum of the parts whose chunks are in these rows."""
    chunks = sorted(map(keyed, rows), key=lambda one: one[0])
    return merged(parts_in((chunk for _, chunk in chunks), range(count)))


@checked_arguments(schema=SCHEMA, df=_DATAFRAME)
def fit(clf: Classifier, df: DataFrame, schema: Schema) -> ClassifierParams:
    """Fit a model to the rows of a DataFrame: `genclf.estimate` of their statistics.

    Args:
        clf: the model that the schema was made with.
        df: a DataFrame of Spark, not of Spark Connect.
        schema: how the model reads the columns.

    Returns:
        Params as `genclf.fit` returns them.

    Raises:
        ValueError: as for `partial`, or the schema is of another model.
    """
    check_schema(clf, schema)
    return estimate(clf, check_sums(partial(schema, df), schema).stats)


@checked_arguments(
    any_model=True, schema=SCHEMA, df=_DATAFRAME, prediction=NAME, posterior=OPTIONAL_NAME
)
def predict(
    params: Fitted,
    df: DataFrame,
    schema: Schema,
    *,
    prediction: str = "prediction",
    posterior: str | None = None,
) -> DataFrame:
    """The DataFrame with a further column, the most probable class of each row.

    Rows and other columns keep their values and order. The workers score in float64.

    Args:
        params: a fitted classifier that `genclf.stream.Predictor.of` takes.
        df: a DataFrame of Spark; it needs no labels.
        schema: how the model reads the columns.
        prediction: the name of the column of classes; null for a row that has no posterior.
        posterior: the name of a column of `p(y=k | x)`, an array in the order of the classes; None
            for no such column.

    Returns:
        A DataFrame, which Spark computes when it is used.

    Raises:
        ValueError: the params do not fit the schema, or only JAX can score them; or `df` already
            has a column of one of the names. A cell that does not fit raises when Spark computes.
    """
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import ArrayType, DoubleType, StructType

    scores = host_scores(params, schema).discriminant
    more = [prediction] if posterior is None else [prediction, posterior]
    check_names(schema.sources, df.columns, more)
    of_classes = from_arrow_type(type_of_classes(schema), prefer_timestamp_ntz=True)
    form = StructType(list(df.schema.fields)).add(prediction, of_classes)
    form = form if posterior is None else form.add(posterior, ArrayType(DoubleType()))
    predicting = Named(
        df.columns, Predicting(PredictedColumns(schema, scores, prediction, posterior))
    )
    return _numbered(df).mapInArrow(predicting, form)
