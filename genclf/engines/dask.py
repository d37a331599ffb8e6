"""Fits and predictions of tables of Dask, whose workers need no JAX; needs `genclf[dask]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genclf.arguments.domains import Domain, shown
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import estimate
from genclf.classifier.model import Fitted
from genclf.engines.arguments import check_names, check_recipes
from genclf.engines.partitions import Predicting, part_of_partition
from genclf.stream.part import Part, merged
from genclf.stream.partial import SCHEMA, check_schema, check_sums
from genclf.stream.predict import NAME, OPTIONAL_NAME
from genclf.stream.predicting import PredictedColumns
from genclf.stream.schema import Schema
from genclf.stream.score_plan import host_scores

if TYPE_CHECKING:  # Dask is imported where it runs
    from dask.dataframe import DataFrame
    from dask.delayed import Delayed
else:
    DataFrame = Delayed = object

_DATAFRAME = Domain("a DataFrame of Dask", lambda df: hasattr(df, "map_partitions"))


@checked_arguments(schema=SCHEMA)
def partial(schema: Schema, df: DataFrame | list[Delayed]) -> Part:
    """The part of a table of Dask: the parts of all partitions, merged pairwise in a binary tree.

    Dask computes it, in threads or on the workers of the connected `Client`. Workers need genclf
    and PyArrow, and do not import JAX. A task whose worker is lost is run again, and its part
    counts once.

    Args:
        schema: how the model reads the columns.
        df: a `dask.dataframe.DataFrame`, or a list of delayed tables.

    Returns:
        A `Part`.

    Raises:
        ValueError: only JAX can sum the statistics of the model; or a cell does not fit the schema:
            the message names partition, row and column.
    """
    import dask

    check_recipes(schema)
    if isinstance(df, list):
        tables = df
    elif hasattr(df, "to_delayed"):
        check_names(schema.names, list(df.columns))
        tables = df[schema.names].to_delayed()
    else:
        raise ValueError(f"df is {shown(df)}, expected a DataFrame of Dask, or delayed tables")
    # With pure=True, Dask would hash the whole schema to name each task.
    shared = dask.delayed(schema, traverse=False, pure=False)
    summed, merge = (dask.delayed(f, pure=False) for f in (part_of_partition, Part.merge))
    if not len(tables):
        raise ValueError("df has no partition")
    parts = (summed(shared, i, table) for i, table in enumerate(tables))
    (whole,) = dask.compute(merged(parts, merge))
    return whole


@checked_arguments(schema=SCHEMA)
def fit(clf: Classifier, df: DataFrame | list[Delayed], schema: Schema) -> ClassifierParams:
    """Fit a model to a table of Dask, of any size; see `partial`.

    Args:
        clf: the model that the schema was made with.
        df: a `dask.dataframe.DataFrame`, or a list of delayed tables.
        schema: how the model reads the columns.

    Returns:
        `ClassifierParams`.

    Raises:
        ValueError: the schema is of another model; or as `partial`.
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
    """The table with a further column, the most probable class of each row.

    Rows and other columns keep their values and order. The workers score in float64. The new
    columns have types of Arrow, which represent missing cells.

    Args:
        params: a fitted classifier that `genclf.stream.Predictor.of` takes.
        df: a `dask.dataframe.DataFrame`; it needs no labels.
        schema: how the model reads the columns.
        prediction: the name of the column of classes; missing for a row that has no posterior.
        posterior: the name of a column of `p(y=k | x)`, a list in the order of the classes; None
            for no such column.

    Returns:
        A `dask.dataframe.DataFrame`, which Dask computes lazily.

    Raises:
        ValueError: the params do not fit the schema, or only JAX can score them; or `df` already
            has a column of one of the names. A cell that does not fit raises when Dask computes.
    """
    scores = host_scores(params, schema).discriminant
    more = [prediction] if posterior is None else [prediction, posterior]
    check_names(schema.sources, list(df.columns), more)
    predicted = Predicting(PredictedColumns(schema, scores, prediction, posterior)).of_frame
    return df.map_partitions(predicted, meta=predicted(df._meta))
