"""Checks of the arguments that all engines take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from genclf.stream.schema import Schema


def check_recipes(schema: Schema) -> None:
    """Raise unless NumPy can sum the statistics of the model."""
    if by_jax := [part for part in schema.parts if part.recipe is None]:
        what = "the model" if by_jax[0].name is None else f"part {by_jax[0].name!r} of the model"
        raise ValueError(
            f"schema: only JAX can compute the statistics of {what}, and workers do not import "
            "it: expected Gaussian, Categorical, Bernoulli, Multinomial or Poisson; for others use "
            "genclf.stream.fit_batches"
        )


def check_names(wanted: Iterable[str], names: Sequence[str], more: Sequence[str] = ()) -> None:
    """Raise unless the table has each of `wanted` exactly once, and no column named in `more`."""
    known = f"the columns are {', '.join(map(repr, names)):.200}"
    if lacking := [name for name in wanted if name not in names]:
        raise ValueError(f"df has no column {lacking[0]!r}; {known}")
    if twice := [name for name in wanted if list(names).count(name) > 1]:
        raise ValueError(f"df has several columns {twice[0]!r}, expected one; {known}")
    if taken := [name for i, name in enumerate(more) if name in (*names, *more[:i])]:
        raise ValueError(f"df has a column {taken[0]!r}, expected a new name; {known}")
