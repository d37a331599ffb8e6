"""Domains of single values: the set that a value must be in, and the error if it is not.

A `Domain` is declared once for an argument or a hyper-parameter. A concrete value outside it raises
an error that names the argument, the value and what was expected; a traced one becomes NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Integer, Real

Scalar = float | int | Real[Array, ""]
"""A number, or an array or tracer of no axes."""
Numbers = Array | np.ndarray | float | int
Mask = Array | np.ndarray | np.bool_ | bool
if TYPE_CHECKING:  # a static field converts it to a Python int
    Whole = int
else:
    Whole = int | np.integer | Integer[Array | np.ndarray, ""]


def shown(value: object) -> str:
    """The text for a value in a message: shape and dtype of an array, else a short repr."""
    if isinstance(value, jax.Array | np.ndarray) and (value.ndim or isinstance(value, Tracer)):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    text = " ".join((str if isinstance(value, jax.Array | np.generic) else repr)(value).split())
    return text if len(text) <= 60 else f"a {type(value).__name__}"


@dataclass(frozen=True)
class Domain:
    """The set that a value must be in.

    Attributes:
        expected: the set in words, to follow "expected" in an error message.
        contains: whether a concrete value is in the set.
        valid: mask of the numbers of a traced array that are in the set; None if the value is
            static.
        optional: whether None stands for a default.
        plural: whether arrays are accepted, or only a single number.
    """

    expected: str
    contains: Callable[[Any], bool]
    valid: Callable[[Array], Mask] | None = None
    optional: bool = False
    plural: bool = False

    def problem(self, value: object, name: str) -> str | None:
        """The error message for a value; None if it is in the set."""
        if value is None and self.optional:
            return None
        if isinstance(value, Tracer) and self.valid is not None:
            good = jnp.issubdtype(value.dtype, jnp.number) and (self.plural or value.ndim == 0)
        else:
            good = not isinstance(value, Tracer) and self.contains(value)
        return None if good else f"{name} is {shown(value)}, expected {self.expected}"

    def checked(self, value: object, name: str) -> Any:
        """Return the value; an invalid one raises if it is concrete, and becomes NaN if traced."""
        if problem := self.problem(value, name):
            raise ValueError(problem)
        return self.nan_where_invalid(value)

    def nan_where_invalid(self, value: object) -> Any:
        """A traced value with NaN where it is outside the set; a concrete value unchanged.

        A concrete number of JAX is converted, since compiled code would trace its comparisons.
        """
        if self.valid is None:
            return value
        if not isinstance(value, Tracer):
            return value.item() if isinstance(value, jax.Array) and not value.ndim else value
        if not jnp.issubdtype(value.dtype, jnp.floating):
            value = value.astype(jnp.result_type(float))
        return jnp.where(self.valid(value), value, jnp.nan)


def _real(value: object) -> np.ndarray | None:
    """A value as an array of real numbers; None if it is not numeric."""
    if value is None or isinstance(value, str | bytes | dict | set | np.ma.MaskedArray):
        return None
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return found if found.dtype.kind in "fiu" else None


def _numbers(
    expected: str, valid: Callable[[Any], Mask], *, optional: bool = False, plural: bool = False
) -> Domain:
    def contains(value: object) -> bool:
        if type(value) in (int, float) and abs(value) < _SMALL:  # type: ignore[arg-type]
            return bool(valid(value))
        found = _real(value)
        if found is None or (found.ndim and not plural):
            return False
        with np.errstate(over="ignore"):  # a number too large for the dtype becomes infinite
            return bool(np.all(valid(found.astype(jnp.result_type(float)))))

    return Domain(expected, contains, valid, optional, plural)


_SMALL = 1e30  # numbers below it fit in any dtype


def _not_negative(a: Numbers) -> Mask:
    return (a >= 0) & (a < math.inf)


def _positive(a: Numbers) -> Mask:
    return (a > 0) & (a < math.inf)


def _finite(a: Any) -> Mask:
    return abs(a) < math.inf


def _inside(a: Numbers) -> Mask:
    return (a > 0) & (a < 1)


def _share(a: Numbers) -> Mask:
    return (a >= 0) & (a <= 1)


PROBABILITY = _numbers("one probability between 0 and 1", _inside)
SHARE = _numbers("one number from 0 to 1", _share)
OPTIONAL_SHARE = _numbers("one number from 0 to 1, or None", _share, optional=True)
NON_NEGATIVE = _numbers(">= 0, a finite number", _not_negative)
POSITIVE = _numbers("> 0, a finite number", _positive)
FINITE_NUMBER = _numbers("one finite number", _finite)
OPTIONAL_FINITE = _numbers("one finite number, or None", _finite, optional=True)
FINITES = _numbers("finite numbers, one or an array", _finite, plural=True)
POSITIVES = _numbers("> 0 and finite, one number or an array", _positive, plural=True)
NON_NEGATIVES = _numbers(">= 0 and finite, one number or an array", _not_negative, plural=True)
SHARES = _numbers("from 0 to 1, one number or an array", _share, plural=True)
LOGARITHMS = _numbers("finite numbers or -inf", lambda a: a < math.inf, plural=True)
FINITE_OR_NAN = _numbers("finite numbers or NaN", lambda a: abs(a) != math.inf, plural=True)
NOT_NEGATIVE_OR_NAN = _numbers(">= 0 or NaN", lambda a: (a >= 0) | (a != a), plural=True)
OPTIONAL_NON_NEGATIVE = _numbers(">= 0, a finite number, or None", _not_negative, optional=True)
FLAG = Domain("True or False", lambda value: isinstance(value, bool | np.bool_))


def one_of(*names: str, optional: bool = False) -> Domain:
    """The domain of these words."""
    *words, last = [*map(repr, names), *["None"] * optional]
    return Domain(
        f"{', '.join(words)} or {last}",
        lambda value: isinstance(value, str) and value in names,
        optional=optional,
    )


def whole(least: int, most: int | None = None, *, optional: bool = False) -> Domain:
    """The domain of Python and NumPy integers >= `least`, and <= `most` if that is given."""

    def contains(value: Any) -> bool:
        if isinstance(value, bool | np.bool_):
            return False
        try:
            found = operator.index(value)
        except TypeError:
            return False
        return found >= least and (most is None or found <= most)

    expected = f">= {least}, a whole number" + ("" if most is None else f" up to {most}")
    return Domain(expected + (", or None" if optional else ""), contains, optional=optional)


def several(expected: str, of: Domain) -> Domain:
    """The domain of tuples of values of a domain, at least one."""
    return Domain(
        expected,
        lambda given: isinstance(given, tuple) and bool(given) and all(map(of.contains, given)),
    )


def whole_number(value: object, name: str, least: int) -> int:
    """Return the whole number; raise if the value is not one, or is below `least`."""
    return operator.index(whole(least).checked(value, name))


def number(value: object, name: str, *, least: float = -math.inf) -> Any:
    """Return a finite number, >= 0 if `least` is 0; raise if a concrete value is not one.

    A traced number outside that set becomes NaN.
    """
    return (NON_NEGATIVE if least == 0 else FINITE_NUMBER).checked(value, name)


def random_key(value: object, name: str) -> Array:
    """Return the key; raise unless the value is a single key of `jax.random`."""
    hint = "a key of jax.random, such as jax.random.key(0)"
    if isinstance(value, jax.Array | np.ndarray):
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            if value.ndim == 0:
                return jnp.asarray(value)
            raise ValueError(f"{name} holds keys of shape {value.shape}, expected one; use vmap")
        if value.dtype == np.uint32 and value.shape in ((2,), (4,)):
            return jnp.asarray(value)  # a raw key
    raise ValueError(f"{name} is {shown(value)}, expected {hint}")


def draw_shape(value: object, name: str) -> tuple[int, ...]:
    """The shape of draws: a tuple of whole numbers >= 0."""
    sizes = value if isinstance(value, tuple | list) else None
    if sizes is None or any(whole(0).problem(size, name) for size in sizes):
        raise ValueError(
            f"{name} is {shown(value)}, expected a tuple of whole numbers >= 0, such as (1000,)"
        )
    return tuple(int(size) for size in sizes)


def plain_sequence(value: Any, name: str, expected: str) -> list:
    """The items of a one-dimensional sequence; raise for a text, a table or a mapping."""
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array, whose mask would be lost, expected {expected}")
    several = getattr(value, "ndim", 1) != 1
    try:
        items = None if several or isinstance(value, str | bytes | dict) else iter(value)
    except TypeError:
        items = None
    if items is None:
        got = "a single str" if isinstance(value, str) else shown(value)
        raise ValueError(f"{name} must be {expected}; got {got}")
    return list(items)
