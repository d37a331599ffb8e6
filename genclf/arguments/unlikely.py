"""Programs without the branches that data seldom need.

To compile a branch takes as long as the code has operations, whether it runs or not. A program
without the unlikely ones compiles in about half of the time; it also returns whether a condition
was true after all, and then the whole program has to run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import Any


class _Open(threading.local):
    """The program that is traced without unlikely branches; each thread has its own.

    Attributes:
        traces: those to which its operations belong; empty if there is none.
        conditions: the conditions of the branches that were left out.
        is_derived: whether derivatives are taken of the operations.
    """

    def __init__(self) -> None:
        self.traces: tuple[Any, ...] = ()
        self.conditions: list[Any] = []
        self.is_derived = False


_open = _Open()


def trace_state() -> Any:
    """What JAX traces now, to be compared with another one."""
    from jax.extend.core import get_opaque_trace_state

    return get_opaque_trace_state()


def is_open() -> bool:
    """Whether operations, now traced, belong to a program without unlikely branches.

    Those of a function within it do not, except those of `genclf.numerics.loops`: a condition would
    not get out.
    """
    return bool(_open.traces) and trace_state() in _open.traces


def needs_no_derivative() -> bool:
    """Whether operations belong to such a program, and no derivative is taken of them."""
    return is_open() and not _open.is_derived


def note(condition: Any) -> None:
    """Leave out the branch of a condition, a scalar, in the program that is open."""
    _open.conditions.append(condition)


def without_unlikely(
    function: Callable[..., Any], *args: Any, is_derived: bool = False
) -> tuple[Any, Any]:
    """The result without unlikely branches, and whether it is wrong; None if it cannot be."""
    conditions: list[Any] = []
    with _opened((trace_state(),), conditions, is_derived or _open.is_derived):
        result = function(*args)
    return result, reduce(or_, conditions) if conditions else None


def member(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for `jax.vmap`, whose operations belong to the open program, too."""

    def of_member(*args: Any) -> Any:
        with _opened((*_open.traces, trace_state()), _open.conditions, _open.is_derived):
            return function(*args)

    return of_member


@contextmanager
def _opened(traces: tuple[Any, ...], conditions: list[Any], is_derived: bool) -> Iterator[None]:
    before = _open.traces, _open.conditions, _open.is_derived
    _open.traces, _open.conditions, _open.is_derived = traces, conditions, is_derived
    try:
        yield
    finally:
        _open.traces, _open.conditions, _open.is_derived = before
