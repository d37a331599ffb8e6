"""Permutations of labels: of all rows, within blocks, or of whole blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from genclf.numerics import loops
from genclf.select.groups import check_one_per_row, first_of_groups

AS_GIVEN = -1  # the number of the labels as given, not permuted


class Exchangeable(NamedTuple):
    """Labels, and how they are permuted.

    Attributes:
        label: the label of each row, in `order` if given; with whole blocks, that of each block.
        order: the rows, one block after the other; None without blocks, and with whole blocks.
        block: the block of each row, in `order` if given; None without blocks.
    """

    label: Int[Array, "_"]
    order: Int[Array, "n"] | None
    block: Int[Array, "n"] | None


def exchangeable(labels: np.ndarray, block: np.ndarray | None, whole_blocks: bool) -> Exchangeable:
    """The labels to permute; raise unless the blocks are valid for `permutation_test`."""
    y = jnp.asarray(labels)
    if block is None:
        if whole_blocks:
            raise ValueError("whole_blocks is True without blocks: give the block of each row")
        return Exchangeable(y, None, None)
    check_one_per_row(labels.shape, blocks=block)
    of_block, mixed = first_of_groups(labels, block)
    if not whole_blocks:
        if not len(mixed):
            raise ValueError(
                "blocks has no block with two labels, so permutations in blocks change nothing: "
                "whole_blocks=True permutes the labels of whole blocks"
            )
        order = np.argsort(block, kind="stable")
        return Exchangeable(*map(jnp.asarray, (labels[order], order, block[order])))
    if len(mixed):
        row = mixed[0]
        raise ValueError(
            f"blocks[{row}] has the labels {of_block[block[row]]} and {labels[row]}, expected one "
            "label in each block for whole_blocks=True"
        )
    return Exchangeable(jnp.asarray(of_block), None, jnp.asarray(block))


def labelling(key: Array, number: Int[Array, ""], labels: Exchangeable) -> Int[Array, "n"]:
    """The labels of all rows in the permutation of that number, or as given for `AS_GIVEN`."""
    label, order, block = labels
    key = jax.random.fold_in(key, number)
    if block is None or order is None:
        drawn = jax.random.permutation(key, len(label))
    else:
        drawn = jnp.lexsort((jax.random.bits(key, label.shape), block))
    label = jnp.where(number == AS_GIVEN, label, label[drawn])
    if order is not None:
        return jnp.zeros_like(label).at[order].set(label)
    return label if block is None else label[block]


class Permutations(NamedTuple):
    """Permutations of labels.

    Attributes:
        key: the random key of all of them.
        numbers: their numbers, and `AS_GIVEN` for the labels as given.
        labels: the labels to permute.
    """

    key: Array
    numbers: Int[Array, "num"]
    labels: Exchangeable


def permutations_of(
    y: Array,
    key: Array | None,
    num: int,
    blocks: np.ndarray | None,
    whole: bool,
    test_on: np.ndarray | None = None,
) -> Permutations | None:
    """`num` permutations of the labels, in blocks and apart for tested rows; None if that is 0."""
    if num and key is None:
        raise ValueError(f"num is {num}, but key is None: give a jax.random key for permutations")
    if not num and (key is not None or blocks is not None or whole):
        raise ValueError("key, blocks or whole_blocks is given without permutations: give num")
    if key is None:
        return None
    if test_on is not None and not whole:
        blocks = test_on.astype(int) if blocks is None else 2 * blocks + test_on
    labels = exchangeable(np.asarray(y), blocks, whole)
    return Permutations(key, jnp.arange(AS_GIVEN, num), labels)


def over_labellings(
    score: Callable[[Array], Array], permuted: Permutations, batch_size: int | None = None
) -> Array:
    """`score(y)` of the labels y of each permutation, `batch_size` of them at once."""
    of = lambda number: score(labelling(permuted.key, number, permuted.labels))  # noqa: E731
    return loops.mapped(of, permuted.numbers, batch_size=batch_size)
