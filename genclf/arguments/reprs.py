"""The printed form of results: the name of the class, its sizes in words, and its fields.

At most a dozen lines of 100 columns. A few numbers are shown one by one, many as a range, tracers
and `jax.ShapeDtypeStruct` as dtype and shape.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.core import Tracer

from genclf.arguments.module import Module, pformat

T = TypeVar("T")
_LINES, _WIDTH, _FEW = 12, 100, 10
_MANY = 40  # items of a container
# What the axes of arrays count, by their names in annotations: singular and plural.
_COUNTED = {
    "batch": ("fit", "fits"),
    "K": ("class", "classes"),
    "d": ("feature", "features"),
    "n": ("row", "rows"),
    "C": ("place", "places"),
    "F": ("fold", "folds"),
    "S": ("size", "sizes"),
    "T": ("threshold", "thresholds"),
    "num": ("permutation", "permutations"),
    "parts": ("part", "parts"),
}


class ShowsNumbers(Module):
    """A result whose `repr` is a summary: its sizes, and the numbers or the range of each field."""

    def __repr__(self) -> str:
        return summary(self)


class ShowsScalars(Module):
    """A module whose `repr` shows an array without axes as its number, not as its shape."""

    def __repr__(self) -> str:
        return pformat(jax.tree.map(_plain, self))


class _Node(NamedTuple):
    """A result or a container: its name, the brackets around its items, and the items."""

    title: str
    ends: tuple[str, str]
    items: list[tuple[str, str | _Node]]

    @property
    def line(self) -> str:
        """All on one line."""
        inside = ", ".join(_named(name, item) for name, item in self.items)
        return self.title + self.ends[0] + inside + self.ends[1]


def summary(given: object) -> str:
    """The lines of a result, in the roomiest layout that is short enough."""
    sizes = [f"{n:,} {_COUNTED[axis][n != 1]}" for axis, n in _sizes(given).items()]
    items = [(name, _node(value)) for name, _, value in _fields(given)]
    node = _Node(type(given).__name__, ("", ""), items)
    nodes = _inside(node)
    head = node.title + (f" of {', '.join(sizes)}" if sizes else "")
    lines = [head, *_lines(node, nodes, flowing=False)]
    if len(lines) > _LINES:
        opened: list[_Node] = []
        lines = [head, *_lines(node, opened, flowing=True)]
        for inner in nodes:  # open each node that leaves the summary short enough
            longer = [head, *_lines(node, [*opened, inner], flowing=True)]
            if len(longer) <= _LINES:
                opened, lines = [*opened, inner], longer
    return "\n".join(_wrapped(lines))


def _inside(node: _Node) -> list[_Node]:
    """The nodes in a node at any depth, those of lesser depth first."""
    level, found = [node], []
    while level:
        level = [item for inner in level for _, item in inner.items if isinstance(item, _Node)]
        found += level
    return found


def _lines(node: _Node, opened: list[_Node], flowing: bool, indent: int = 1) -> Iterator[str]:
    """The items of a node, each on its own lines or, `flowing`, short ones side by side."""
    margin, row = "  " * indent, ""
    for name, item in node.items:
        line = margin + _named(name, item)
        fits = len(line) <= _WIDTH and (flowing or isinstance(item, str) or not item.title)
        if isinstance(item, str) or fits or not any(item is inner for inner in opened):
            together = f"{row}; {line.lstrip()}"
            if flowing and row and len(together) <= _WIDTH:
                row = together
                continue
            if row:
                yield row
            row = line
            continue
        if row:
            yield row
        row = ""
        yield margin + (f"{name}: {item.title}" if name else item.title).rstrip()
        yield from _lines(item, opened, flowing, indent + 1)
    if row:
        yield row


def _named(name: str, item: str | _Node) -> str:
    text = item if isinstance(item, str) else item.line
    return f"{name}: {text}" if name else text


def _wrapped(lines: list[str]) -> Iterator[str]:
    """The lines; long ones are wrapped while there is room, and then cut."""
    room = _LINES - len(lines)
    for line in lines:
        margin = line[: len(line) - len(line.lstrip())]
        whole = line if len(line) <= _WIDTH * (room + 1) else line[: _WIDTH * (room + 1)]
        parts = textwrap.wrap(
            whole, _WIDTH, subsequent_indent=margin + "  ", break_on_hyphens=False
        )
        if len(parts) > room + 1 or whole is not line:
            parts = [*parts[:room], parts[room][: _WIDTH - 1] + "…"]
        room -= len(parts) - 1
        yield from parts


def _node(given: object) -> str | _Node:
    """A result or a container as a node, anything else as text."""
    if _is_result(given):
        items = [(name, _node(value)) for name, _, value in _fields(given)]
        return _Node(type(given).__name__, ("(", ")"), items)
    if isinstance(given, dict):
        return _Node("", ("{", "}"), _some([(repr(key), given[key]) for key in given]))
    if isinstance(given, tuple | list):
        ends = ("[", "]") if isinstance(given, list) else ("(", ",)" if len(given) == 1 else ")")
        return _Node("", ends, _some([("", value) for value in given]))
    return _text(given)


def _some(items: list[tuple[str, object]]) -> list[tuple[str, str | _Node]]:
    """The items of a container as nodes; only the first `_MANY`."""
    shown = [(name, _node(value)) for name, value in items[:_MANY]]
    return shown + ([("", f"… {len(items):,} in all")] if len(items) > _MANY else [])


def _is_result(given: object) -> bool:
    """Whether a value has fields to be shown: a result, or a named tuple."""
    named = isinstance(given, tuple) and hasattr(given, "_fields")
    return named or isinstance(given, ShowsNumbers)


def _fields(given: Any) -> Iterator[tuple[str, Any, Any]]:
    """The name, annotation and value of each field."""
    if isinstance(given, tuple):
        kinds = type(given).__annotations__
        yield from ((name, kinds.get(name), getattr(given, name)) for name in given._fields)  # type: ignore[attr-defined]
    else:
        for field in dataclasses.fields(given):
            yield field.name, field.type, getattr(given, field.name, None)


def _text(given: object) -> str:
    if isinstance(given, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct | Tracer):
        return _array(given)
    if isinstance(given, float):
        return _number(given)
    is_plain = type(given).__repr__ in (Module.__repr__, ShowsScalars.__repr__)
    if isinstance(given, Module) and is_plain:
        return pformat(jax.tree.map(_plain, given), width=10**6)  # on one line
    if callable(given) and hasattr(given, "__name__"):
        return given.__name__
    if type(given) is object:  # a placeholder for a leaf
        return "object()"
    return " ".join(repr(given).split())


def _plain(leaf: object) -> object:
    """An array without axes as a Python number, to four digits."""
    if not isinstance(leaf, jax.Array | np.ndarray) or leaf.ndim or _numbers(leaf) is None:
        return leaf
    value = leaf.item()
    return float(_number(value)) if isinstance(value, float) else value


def _array(given: jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct) -> str:
    """The dtype and shape of an array, and its numbers or their range."""
    dtype, shape = given.dtype, given.shape
    letter = {"f": "f", "i": "i", "u": "u", "c": "c"}.get(getattr(dtype, "kind", ""))
    short = f"{letter}{8 * dtype.itemsize}" if letter else str(dtype)
    form = f"{short}[{','.join(map(str, shape))}]"
    numbers = _numbers(given)
    if numbers is None or not numbers.size:
        return form
    if not numbers.ndim:
        return _number(numbers.item())
    if numbers.size <= _FEW:
        text = np.array2string(numbers, formatter={"all": _number}, max_line_width=10**6)
        text = " ".join(text.split())
        return f"{form} {text[1:-1] if numbers.ndim == 1 else text}"
    if numbers.dtype.kind == "b":
        return f"{form} {_share(int(numbers.sum()), numbers.size, 'True', 'False')}"
    if numbers.dtype.kind not in "fiu":
        return form
    nan = np.isnan(numbers)
    if nan.all():
        return f"{form} all NaN"
    seen = numbers[~nan]
    least, most = _number(seen.min().item()), _number(seen.max().item())
    extent = f"all {least}" if least == most else f"from {least} to {most}"
    return f"{form} {extent}" + (f", {nan.sum():,} NaN" if nan.any() else "")


def _numbers(given: object) -> np.ndarray | None:
    """The values of an array; None if they cannot be read."""
    if isinstance(given, Tracer | jax.ShapeDtypeStruct):
        return None
    if isinstance(given, jax.Array):
        if jax.dtypes.issubdtype(given.dtype, jax.dtypes.extended) or given.is_deleted():
            return None
        if not given.is_fully_addressable:
            return None
    found = np.asarray(given)
    narrow = found.dtype.kind == "V" or found.dtype == np.float16
    return found.astype(np.float32) if narrow else found


def _share(count: int, of: int, every: str, none: str) -> str:
    return f"all {every if count else none}" if count in (0, of) else f"{count:,} of {of:,} {every}"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _sizes(given: Any) -> dict[str, int]:
    """The sizes of a result, by the name of the axis."""
    found: dict[str, int] = {}
    features = _or_none(lambda: given.num_features)
    if isinstance(features, dict):
        found = {"d": sum(jax.tree.leaves(features)), "parts": len(features)}
    elif isinstance(features, int):
        found = {"d": features}
    if isinstance(classes := _or_none(lambda: given.num_classes), int):
        found["K"] = classes
    if isinstance(batch := _or_none(lambda: given.batch_shape), tuple) and batch:
        found["batch"] = int(np.prod(batch))
    inside: dict[str, int] = {}
    for _, annotation, value in _fields(given):
        if _is_result(value):
            inside = _sizes(value) | inside
        shape = getattr(value, "shape", None)
        for axis, index in _axes(annotation):
            if isinstance(shape, tuple) and -len(shape) <= index < len(shape):
                found.setdefault(axis, shape[index])
    for axis in ("K", "d", "batch"):
        if axis in inside:
            found.setdefault(axis, inside[axis])
    return {axis: found[axis] for axis in _COUNTED if axis in found}


def _or_none(of: Callable[[], T]) -> T | None:
    try:
        return of()
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # the result has no such size, or its fields are not arrays


def dims_of(annotation: object) -> list[str]:
    """The axes that the annotation of an array names."""
    text = re.search("[Aa]rray, ['\"](.*?)['\"]", str(annotation).replace("\\", ""))
    found: str = getattr(annotation, "dim_str", text[1] if text else "")
    return found.split()


def _axes(annotation: object) -> Iterator[tuple[str, int]]:
    """The name and index of each annotated axis; the index counts from the end if possible."""
    axes = dims_of(annotation)
    if len(axes) == 1 and axes[0].startswith("*batch_"):  # such as "*batch_K_d"
        axes = axes[0].split("_")
        axes = ["...", *axes[1:]] if all(axis in _COUNTED for axis in axes[1:]) else []
    open_ended = [i for i, axis in enumerate(axes) if axis == "..." or axis.startswith("*")]
    for i, axis in enumerate(axes):
        if axis in _COUNTED:
            yield axis, i if open_ended and i < open_ended[0] else i - len(axes)
