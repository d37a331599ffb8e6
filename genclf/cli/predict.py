"""`python -m genclf predict`: the classes of the rows of a file, by a saved model."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from genclf.cli.files import InputError, table_of
from genclf.files.save import load
from genclf.select.membership.coverage import novelty

_DIGITS = "%.10g"
_BETWEEN = "|"  # between the classes of a set


def write_predictions(options: Namespace) -> None:
    """Write the rows with further columns as CSV; `InputError` if a file cannot be used.

    Args:
        options: those of the command line, by their names.
    """
    model = _model(options.model)
    table = table_of(options)
    given = table.columns
    frame = pd.DataFrame(given) if isinstance(given, dict) else nw.from_native(given).to_pandas()
    rows = _features(frame, model, options.file)
    try:
        p = model.predict_proba(rows)
    except ValueError as error:
        raise InputError(f"{options.file}: {error}") from None
    names = [str(label) for label in model.classes_]
    new = {"prediction": model.classes_[p.argmax(1)]}
    new |= {f"p({name})": p[:, k] for k, name in enumerate(names)}
    remarks = list(table.remarks)
    try:
        typical = model.typicality(rows)
    except (AttributeError, ValueError) as error:
        remarks.append(f"No p-values of membership: {error}.")
    else:
        inside = typical > options.alpha
        new["set"] = [_BETWEEN.join(np.array(names)[row]) for row in inside]
        new |= {f"typicality({name})": typical[:, k] for k, name in enumerate(names)}
        remarks.append(_novelty(typical, options.alpha))
    if twice := [name for name in new if name in frame]:
        raise InputError(f"{options.file}: it has a column {twice[0]!r} already; rename it")
    found = frame.assign(**new)
    try:
        found.to_csv(options.output or sys.stdout, index=False, float_format=_DIGITS)
        sys.stdout.flush()
    except BrokenPipeError:  # as by `head`, which has what it wants
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise InputError(f"{options.output}: {error.strerror}") from None
    print(*remarks, sep="\n", file=sys.stderr)


def _model(path: str) -> Any:
    """The model in a file; raise for what does not predict rows of tables."""
    try:
        found = load(path)
    except (OSError, ValueError) as error:
        raise InputError(str(error) if path in str(error) else f"{path}: {error}") from None
    if not hasattr(found, "predict_proba"):
        raise InputError(
            f"{path}: holds {type(found).__name__}, expected the best model of compare (python -m "
            "genclf compare FILE --label COLUMN --save MODEL), or an estimator of genclf.sklearn"
        )
    return found


def _features(frame: pd.DataFrame, model: Any, path: str) -> pd.DataFrame:
    """The columns that the model was fitted to; raise if one is missing."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return frame
    if lacking := [name for name in names if name not in frame]:
        raise InputError(
            f"{path}: has no column {lacking[0]!r}, which the model reads; the columns are "
            f"{', '.join(map(repr, frame.columns))}"
        )
    return frame[list(names)]


def _novelty(typical: np.ndarray, alpha: float) -> str:
    """How many rows are typical of no class, as a sentence."""
    found = novelty(typical, alpha=alpha)
    count = round(float(found.value * found.count))
    return (
        f"{count} of {len(typical)} rows are typical of no class (p <= {alpha:g} for all): "
        f"{found.value:.1%}, 95 % interval {found.lower:.1%} to {found.upper:.1%}; of rows like "
        f"the training rows at most about {alpha:.1%} are."
    )
