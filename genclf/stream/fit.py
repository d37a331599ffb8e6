"""Fits to streams of batches, of any number of rows, in bounded memory."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import jax

from genclf.arguments.domains import FLAG, NON_NEGATIVE, Domain, whole
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import estimate
from genclf.families.capabilities import is_additive
from genclf.stream.batches import Batches
from genclf.stream.checkpoint import PartFile, host_sum, of_unit, sum_units
from genclf.stream.on_device import device_part
from genclf.stream.part import Part
from genclf.stream.partial import PARAMS, SCHEMA, check_observed, check_schema, check_sums
from genclf.stream.passes import fit_passes
from genclf.stream.schema import Schema

_OPTIONS: dict[str, Any] = {
    "schema": SCHEMA,
    "checkpoint": Domain(
        "the path of a file, or None",
        lambda value: isinstance(value, str | os.PathLike),
        optional=True,
    ),
    "every": NON_NEGATIVE,
    "progress": FLAG,
    "processes": whole(1),
}


@checked_arguments(**_OPTIONS, xla=FLAG)
def sum_batches(
    clf: Classifier,
    batches: Batches,
    schema: Schema,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float | int = 60,
    progress: bool = False,
    processes: int = 1,
    xla: bool = False,
) -> Part:
    """The statistics of a stream, in one pass: the part that `fit_batches` estimates from.

    The arguments are those of `fit_batches`; `xla` is that of `genclf.partial`.

    Returns:
        A `Part`, with an id for each file or batch.

    Raises:
        ValueError: as `fit_batches`; or the statistics of the model depend on params.
    """
    check_observed(clf, "fit it by fit_batches, with passes=")
    check_schema(clf, schema)
    store = None if checkpoint is None else PartFile(Path(checkpoint))
    options: Any = {"store": store, "every": every, "progress": progress}
    if schema.by_numpy and not xla:
        return host_sum(schema, batches, processes=processes, **options)
    if processes > 1:
        raise ValueError(
            f"processes is {processes}, but this model's statistics need JAX, which runs in one "
            "process: expected 1"
        )
    summed = partial(of_unit, partial(device_part, clf), schema)
    return sum_units(batches, empty=summed("nothing", []), summed=summed, **options)


@checked_arguments(**_OPTIONS, passes=whole(1), init=PARAMS)
def fit_batches(
    clf: Classifier,
    batches: Batches,
    schema: Schema,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float | int = 60,
    progress: bool = False,
    passes: int = 1,
    init: ClassifierParams | None = None,
    processes: int = 1,
) -> ClassifierParams:
    """Fit a model to a stream of batches of any length, in memory that does not grow with it.

    Reads 65,536 rows at a time. Besides these, memory holds the statistics three times: K d numbers
    for naive Bayes, d² for a shared covariance, K d² for covariances of the classes.

    With a checkpoint, a killed run can be resumed, and its result has the same bits as that of an
    uninterrupted run: units are summed in their order, each once. A unit is a file, or a batch
    if no files are given.

    Models with unobserved components or cells, and rows without a label, take several passes: each
    is a step of EM.

    Args:
        clf: the model that the schema was made with.
        batches: paths of files of Parquet, Arrow, ORC or CSV; or record batches of Arrow, tables or
            dicts of arrays. Several passes need an iterable that can be read again, as a list. In
            CSV, which has commas and is in UTF-8, an empty cell is missing, and NA is a string.
        schema: how the model reads the columns.
        checkpoint: the path of a file for the sums and the names of the units summed; None for no
            checkpoint. If the file exists, the run resumes from it: a unit that it names is counted
            and not read again, even if its content has changed or the file is gone. Files may be
            added in the first pass, but not in a later one; none may be left out. Batches that are
            not files are named by their number, so a resumed run has to be given the same ones.
        every: seconds between checkpoints; each is written at the end of a unit.
        progress: whether to show a line with the number of rows, and of rows per second.
        passes: number of passes: 1 for models with statistics, else the number of steps of EM.
        init: params to start EM from. None takes those of `em` on the first rows, 65,536 at most,
            which should resemble the others: if files are sorted by class, give params.
        processes: number of processes that read files; the result has the same bits for any
            number. EM takes 1.

    Returns:
        `ClassifierParams`.

    Raises:
        ValueError: a file cannot be read, or a cell does not fit the schema: the message names
            file, row and column; no row has both a label and a weight above 0; or the checkpoint is
            of another schema, includes a file that is not given, or is damaged.

    Example:
        >>> import genclf as gcf
        >>> from genclf.stream import fit_batches
        >>> batches = [{"x": [1.0, 2.0], "y": [0, 0]}, {"x": [8.0, 9.0], "y": [1, 1]}]
        >>> clf = gcf.lda(2)
        >>> schema = gcf.Schema.scan(clf, batches, label="y")
        >>> print(fit_batches(clf, batches, schema).conditional.mean.ravel())
        [1.5 8.5]
    """
    options: Any = {"checkpoint": checkpoint, "every": every, "progress": progress}
    if is_additive(clf.family) and passes == 1 and init is None:
        part = sum_batches(clf, batches, schema, processes=processes, **options)
        return jax.jit(estimate)(clf, check_sums(part, schema).stats)
    check_schema(clf, schema)
    if processes != 1:
        raise ValueError(
            f"processes is {processes}, but steps of EM need JAX, which runs in one process: "
            "expected 1"
        )
    return fit_passes(clf, batches, schema, passes=passes, init=init, **options)
