"""`partial`: batches of rows in, one small part out."""

from __future__ import annotations

import os
import warnings

import jax.numpy as jnp
import numpy as np

from genclf.arguments.domains import FLAG, Domain
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.validate_gaussians import VALUE_ROUNDS
from genclf.families.capabilities import is_hidden
from genclf.stream.batches import Batches
from genclf.stream.on_device import device_part, expected_part
from genclf.stream.part import Part
from genclf.stream.plan import parts_of
from genclf.stream.reading import host_part
from genclf.stream.schema import Schema
from genclf.sums.host import HostMoments, HostStats

SCHEMA = Domain("a genclf.Schema", lambda value: isinstance(value, Schema))
NAME = Domain("a string", lambda value: isinstance(value, str))
PARAMS = Domain(
    "ClassifierParams, or None", lambda value: isinstance(value, ClassifierParams), optional=True
)


@checked_arguments(schema=SCHEMA, part_id=NAME, params=PARAMS, xla=FLAG)
def partial(
    clf: Classifier,
    schema: Schema,
    batches: Batches,
    *,
    part_id: str,
    params: ClassifierParams | None = None,
    xla: bool = False,
) -> Part:
    """The statistics of some of the rows of a data set: a part, which `combine` adds to others.

    Reads the batches once, 65,536 rows at a time, in float64.

    Args:
        clf: the model that the schema was made with.
        schema: how it reads the columns.
        batches: an iterable of record batches of Arrow, tables, or dicts of arrays; one of them;
            or the path of a file.
        part_id: the name of the part, such as the file of its rows; errors quote it.
        params: params for the expectations of unobserved labels, components and cells: the part
            is then that of a step of EM. None for models with statistics.
        xla: whether JAX sums, on its device. Otherwise NumPy sums models that are made of
            `Gaussian`, `Categorical`, `Bernoulli`, `Multinomial` and `Poisson`, and JAX all others.

    Returns:
        A `Part`.

    Raises:
        ValueError: a cell does not fit the schema: the message names part, row and column; the
            schema is of another model; or the statistics of the model depend on params.

    Example:
        >>> import genclf as gcf
        >>> batch = {"x": [1.0, 2.0, 8.0], "y": ["a", "a", "b"]}
        >>> clf = gcf.gaussian_nb(2)
        >>> schema = gcf.Schema.of(clf, batch, label="y")
        >>> part = gcf.partial(clf, schema, [batch, batch], part_id="file-0007")
        >>> part.rows, part.labels.count.tolist()
        (6, [4.0, 2.0])
    """
    check_schema(clf, schema)
    if isinstance(batches, str | os.PathLike):
        batches = schema.reader.tables(os.fspath(batches), batches)
    if params is not None:
        return expected_part(clf, params, schema, batches, part_id)
    check_observed(clf, "give params=, for the expectations of a step of EM")
    if xla or not schema.by_numpy:
        return device_part(clf, schema, batches, part_id)
    return host_part(schema, batches, part_id)


def check_observed(clf: Classifier, hint: str) -> None:
    """Raise if the statistics of the model depend on params."""
    if is_hidden(clf.family):
        raise ValueError(f"statistics of {type(clf.family).__name__} depend on its params: {hint}")


def check_schema(clf: Classifier, schema: Schema) -> None:
    """Raise unless the schema was made with this model, or one with the same statistics."""
    found = parts_of(clf, schema.columns, schema.classes)
    if found != (schema.parts, schema.statistic):
        raise ValueError(
            f"the schema is of another model, with {schema.statistic or schema.parts!r}; this one "
            f"has {found[1] or found[0]!r}: make a schema with it"
        )


def check_sums(part: Part, schema: Schema) -> Part:
    """The part; raise without weight, warn of values that were ignored and columns far from 0."""
    if not part.weight > 0:
        raise ValueError(
            f"no row of {part.rows} has both a label and a weight above 0: there is nothing to fit"
        )
    if part.unseen:
        warnings.warn(
            f"{part.unseen} labels or categories in {part.rows} rows are not in the schema, and "
            "were ignored",
            stacklevel=4,
        )
    warn_of_precision(part.conditional, schema, 5)
    return part


def warn_of_precision(conditional: HostStats, schema: Schema, stacklevel: int = 4) -> None:
    """Warn of columns so far from 0 that params in JAX's dtype are not precise enough."""
    dtype = jnp.result_type(float)
    for own in schema.parts:
        moments = conditional if own.name is None else conditional[own.name]
        if not isinstance(moments, HostMoments):
            continue
        # `Independent` has a leading axis of columns, so ravelling gives one number per column.
        far = moments.offsets().ravel()
        columns = [column for column in schema.columns if column.part == own.name]
        j = int(far.argmax())
        if far[j] * jnp.finfo(dtype).eps > VALUE_ROUNDS:
            name = np.repeat([c.name for c in columns], [c.width for c in columns])[j]
            warnings.warn(
                f"column {str(name)!r} lies {far[j]:.1e} standard deviations from 0, where {dtype} "
                "is not precise enough: subtract an offset from the column, or turn on "
                "jax_enable_x64 for the fit and for predictions",
                stacklevel=stacklevel,
            )
