"""Scores under fitted params, described for machines without JAX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import jax
import numpy as np

from genclf.classifier.calibrated import CalibratedParams
from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.model import Fitted
from genclf.families.base import Density
from genclf.families.counts.bernoulli_params import BernoulliParams
from genclf.families.counts.categorical_params import CategoricalParams
from genclf.families.counts.multinomial_params import MultinomialParams
from genclf.families.counts.poisson import PoissonParams
from genclf.families.gaussian.params import GaussianParams
from genclf.stream.partial import SCHEMA
from genclf.stream.plan import named_parts
from genclf.stream.schema import Schema
from genclf.stream.scoring import (
    BernoulliScores,
    CategoricalScores,
    HostScores,
    MultinomialScores,
    PartScores,
    PoissonScores,
)
from genclf.tables.columns import Column


@checked_arguments(any_model=True, schema=SCHEMA)
def host_scores(params: Fitted, schema: Schema) -> HostScores:
    """The scores of `Predictor.of`, in float64; the arguments and errors are the same."""
    if isinstance(params, CalibratedParams):
        own = jax.tree.map(lambda a: np.asarray(a, np.float64), (params.slope, params.bias))
        return replace(host_scores(params.params, schema), calibration=own)
    if not isinstance(params, ClassifierParams):
        raise NeedsJax(f"params of {type(params).__name__}")
    if params.log_prior.shape != (len(schema.classes),):
        raise ValueError(
            f"params.log_prior has shape {params.log_prior.shape}, but the schema has "
            f"{len(schema.classes)} classes: expected {(len(schema.classes),)}"
        )
    params = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    given = named_parts(params.conditional)
    wanted = {part.name for part in schema.parts}
    if given.keys() != wanted:
        raise ValueError(
            f"params have the parts {_named(given)}, but the schema {_named(wanted)}: expected "
            "params of the model that the schema was made with"
        )
    parts = {}
    for name, density in given.items():
        parts[name] = part_scores(density)
        _check_columns(density, [c for c in schema.columns if c.part == name])
    log_prior: Any = params.log_prior
    return HostScores(log_prior, parts)


def _named(parts: Iterable[str | None]) -> str:
    return ", ".join(sorted("(one without a name)" if p is None else repr(p) for p in parts))


def _check_columns(density: Any, columns: Sequence[Column]) -> None:
    """Raise unless the columns of a part are those of its density."""
    expected: Any
    found: Any
    by_values = isinstance(density, CategoricalParams)
    if columns[0].is_coded != by_values:
        what, found, expected = "the kind", columns[0].kind, f"are {type(density).__name__}"
    elif by_values:
        what, expected = "numbers of values", density.columns.num_values
        found = tuple(column.size for column in columns)
    else:
        what, expected = "a width of", density.num_features
        found = sum(column.size for column in columns)
    if found != expected:
        raise ValueError(
            f"the columns {', '.join(repr(c.name) for c in columns):.100} have {what} {found}, but "
            f"params {expected}: expected params of the model that the schema was made with"
        )


@singledispatch
def part_scores(density: Density) -> PartScores:
    """The scores of a part of x under this density; raise if only JAX can compute them."""
    raise NeedsJax(f"params of {type(density).__name__}")


class NeedsJax(ValueError):
    """The error for params that only JAX can score."""

    def __str__(self) -> str:
        return f"only JAX can score {self.args[0]}: use genclf.predict or predict_batches"


@part_scores.register
def _(density: GaussianParams) -> PartScores:
    if density.arithmetic.is_full and density.may_miss:
        raise NeedsJax("Gaussians of full covariance with missing cells")
    return replace(density.scores, known_inverse=density.scores.inverse)


@part_scores.register
def _(density: CategoricalParams) -> PartScores:
    log_theta, columns = density.log_theta, density.columns
    beyond = 0.0 if columns.unseen == "ignore" else np.nan
    missing = 0.0 if columns.may_miss else np.nan
    rest = np.broadcast_to(np.array([[beyond], [missing]]), (2, len(log_theta)))
    ends = np.cumsum(columns.num_values)[:-1]
    return CategoricalScores(tuple(np.vstack([t.T, rest]) for t in np.split(log_theta, ends, 1)))


@part_scores.register
def _(density: BernoulliParams) -> PartScores:
    given: Any = density.threshold
    threshold = None if given is None else float(given)
    return BernoulliScores(density.linear_score(), threshold, density.may_miss)


@part_scores.register
def _(density: MultinomialParams) -> PartScores:
    if density.may_miss:
        raise NeedsJax("Multinomials with missing counts")
    return MultinomialScores(density.linear_score(), density.presence)


@part_scores.register
def _(density: PoissonParams) -> PartScores:
    return PoissonScores(density.linear_score(), density.typical, density.may_miss)
