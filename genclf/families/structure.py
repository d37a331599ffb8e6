"""The arrays of x: one, or one for each part of a `Product`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import jax
from jaxtyping import PyTree

from genclf.families.support import Support
from genclf.families.tokens import Tokens
from genclf.sums.sparse import Sparse

T = TypeVar("T")


def named_arrays(
    support: PyTree[Support], x: PyTree, name: str = "x", path: tuple = ()
) -> Iterator[tuple[str, tuple, Support, PyTree]]:
    """The arrays of x: for each, its name in messages, its path of keys, its support and itself."""
    if isinstance(support, Support):
        if isinstance(x, dict):
            raise ValueError(f"{name} is a dict, but the model is not a Product: expected an array")
        if isinstance(x, Tokens) and not support.tokens:
            raise ValueError(f"{name} is Tokens, which only Multinomial takes; use x.counts()")
        if isinstance(x, Sparse) and not support.sparse:
            raise ValueError(
                f"{name} is sparse, which only Multinomial and Bernoulli without missing cells "
                f"take: use {name}.toarray()"
            )
        yield name, path, support, x
        return
    check_names(x, support, name)
    for part in sorted(support):
        yield from named_arrays(support[part], x[part], f"{name}[{part!r}]", (*path, part))


def widths(x: PyTree) -> PyTree[int | None]:
    """Length of the last axis of each array of x; None for a scalar."""
    width = lambda a: (a.shape or (None,))[-1]  # noqa: E731
    return jax.tree.map(width, x, is_leaf=lambda a: hasattr(a, "shape"))


def nodes_of(tree: PyTree, kind: type[T]) -> list[T]:
    """The nodes of a class in a pytree, without those inside them."""
    is_kind = lambda node: isinstance(node, kind)  # noqa: E731
    return list(filter(is_kind, jax.tree.leaves(tree, is_leaf=is_kind)))


def check_names(x: object, parts: dict, argument: str = "x") -> None:
    """Raise unless x is a dict with the keys of the parts."""
    if not isinstance(x, dict) or x.keys() != parts.keys():
        given = sorted(x) if isinstance(x, dict) else f"a {type(x).__name__}"
        raise ValueError(
            f"{argument} is {given}, but the model is a Product: expected a dict with the keys "
            f"{sorted(parts)}"
        )
