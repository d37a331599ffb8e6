"""The error message for a call whose arguments do not fit the signature.

Python's own message names the argument, but says neither what it is nor what to do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import Signature
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# What each argument is: a name has one meaning throughout the library.
_MEANING = {
    "clf": "a model, such as genclf.lda(num_classes=3)",
    "params": "fitted params, as genclf.fit(clf, x, y) returns them",
    "x": "the rows",
    "y": "their labels, whole numbers from 0 on",
    "stats": "statistics, as genclf.stats(clf, x, y) returns them",
    "key": "a key of jax.random, such as jax.random.key(0)",
    "folds": "the fold of each row, as genclf.kfold(key, y) returns them",
    "num_classes": "the number of classes",
    "num_values": "the number of values of each feature",
    "schema": "a genclf.Schema of the columns",
}


def checked_call(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: a call that does not fit its signature raises an error."""
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if problem := misfit(function.__name__, signature, args, kwargs):
            raise TypeError(problem)
        return function(*args, **kwargs)

    return checked


def misfit(
    name: str, signature: Signature, args: tuple[object, ...], kwargs: dict[str, object]
) -> str | None:
    """The error message for a call that does not fit the signature of a function; else None."""
    parameters = signature.parameters
    positional = [n for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
    required = [n for n, p in parameters.items() if p.default is p.empty]
    given = dict(zip(positional, args, strict=False)) | kwargs
    unknown = [n for n in kwargs if n not in parameters]
    extra = len(args) - len(positional)
    rows = "stats" in positional and (extra > 0 or bool({"x", "y", "weights"} & set(unknown)))
    if rows and _is_data(given.get("stats", given.get("x"))):
        return (
            f"{name} takes statistics, not rows: {_call(name, required)}, with "
            "stats = genclf.stats(clf, x, y)"
        )
    if extra > 0:
        by_name = [n for n in parameters if n not in positional and n not in kwargs]
        plural = "" if len(positional) == 1 else "s"
        return (
            f"{name} takes {len(positional)} argument{plural} by position, "
            f"{_call(name, positional)}, but "
            f"{len(args)} were given"
            + (f"; by name it takes {', '.join(by_name)}" if by_name else "")
        )
    if unknown:
        close = get_close_matches(unknown[0], parameters, 1)
        return (
            f"{name} has no argument {unknown[0]}"
            + (f"; did you mean {close[0]}?" if close else "")
            + f" It takes {', '.join(parameters)}"
        )
    if twice := [n for n in positional[: len(args)] if n in kwargs]:
        return f"{name} was given {twice[0]} twice, by position and by name"
    if missing := [n for n in required if n not in given]:
        wanted = [f"{n} ({_MEANING[n]})" if n in _MEANING else n for n in missing]
        by_name = [n for n in missing if n not in positional]
        return f"{name} needs {' and '.join(wanted)}: {_call(name, required, by_name)}"
    return None


def _call(name: str, arguments: list[str], by_name: list[str] | None = None) -> str:
    shown = [f"{n}={n}" if n in (by_name or []) else n for n in arguments]
    return f"{name}({', '.join(shown)})"


def _is_data(value: object) -> bool:
    """Whether a value is an array or another container of rows, and not statistics."""
    return hasattr(value, "shape") or isinstance(value, dict | list | tuple)
