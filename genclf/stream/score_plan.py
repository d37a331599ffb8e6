"""Scores under fitted params, described for machines without JAX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float
from scipy.special import log_expit

from genclf.classifier.checked_arguments import checked_arguments
from genclf.classifier.classifier import ClassifierParams
from genclf.families.base import Density
from genclf.families.combined.product import ProductParams
from genclf.families.counts.bernoulli_params import BernoulliParams
from genclf.families.counts.categorical_params import CategoricalParams
from genclf.families.counts.multinomial_params import MultinomialParams
from genclf.families.counts.poisson import PoissonParams
from genclf.families.gaussian.params import GaussianParams
from genclf.stream.partial import SCHEMA
from genclf.stream.schema import Schema
from genclf.stream.scoring import (
    BernoulliScores,
    CategoricalScores,
    GaussianScores,
    HostScores,
    LinearScores,
    MultinomialScores,
    PartScores,
    PoissonScores,
)
from genclf.tables.columns import Column


@checked_arguments(schema=SCHEMA)
def host_scores(params: ClassifierParams, schema: Schema) -> HostScores:
    """An object that scores the rows of a schema under these params, on machines without JAX.

    Args:
        params: a fitted classifier of `Gaussian`, `Categorical`, `Bernoulli`, `Multinomial` and
            `Poisson` densities, or of a `Product` of them.
        schema: how it reads the columns.

    Returns:
        A `HostScores`, in float64; it can be pickled.

    Raises:
        ValueError: the params do not fit the schema, or only JAX can score them.
    """
    if params.log_prior.shape != (len(schema.classes),):
        raise ValueError(
            f"params.log_prior has shape {params.log_prior.shape}, but the schema has "
            f"{len(schema.classes)} classes: expected {(len(schema.classes),)}"
        )
    given = _parts(params.conditional)
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
    return HostScores(_float64(params.log_prior), parts)


def _parts(conditional: Density) -> dict[str | None, Density]:
    if isinstance(conditional, ProductParams):
        return {str(name): part for name, part in conditional.parts.items()}
    return {None: conditional}


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
    full, missing = density.structure.is_full, density.may_miss
    if full and missing:
        raise NeedsJax("Gaussians of full covariance with missing cells")
    mean, scale = _float64(density.mean), _float64(density.scale)
    if density.rounding is not None:
        mean = mean + _float64(density.rounding)
    scale = scale if full else np.broadcast_to(scale, (len(scale), mean.shape[1])).copy()
    return GaussianScores(mean, scale, missing)


@part_scores.register
def _(density: CategoricalParams) -> PartScores:
    log_theta, columns = _float64(density.log_theta), density.columns
    beyond = 0.0 if columns.unseen == "ignore" else np.nan
    missing = 0.0 if columns.may_miss else np.nan
    rest = np.broadcast_to(np.array([[beyond], [missing]]), (2, len(log_theta)))
    ends = np.cumsum(columns.num_values)[:-1]
    return CategoricalScores(tuple(np.vstack([t.T, rest]) for t in np.split(log_theta, ends, 1)))


@part_scores.register
def _(density: BernoulliParams) -> PartScores:
    logits, missing = _float64(density.logits), density.may_miss
    never, always = np.isneginf(logits), np.isposinf(logits)
    log_p, log_q = np.where(never, 0, log_expit(logits)), np.where(always, 0, log_expit(-logits))
    veto = never.astype(float) - always
    score = _of_seen(log_p - log_q, log_q, veto, always.astype(float), missing)
    threshold: Any = density.threshold
    return BernoulliScores(score, None if threshold is None else float(threshold), missing)


@part_scores.register
def _(density: MultinomialParams) -> PartScores:
    if density.may_miss:
        raise NeedsJax("Multinomials with missing counts")
    log_theta = _float64(density.log_theta)
    never, zeros = np.isneginf(log_theta), np.zeros(len(log_theta))
    score = LinearScores(np.where(never, 0, log_theta), zeros, never.astype(float), zeros)
    return MultinomialScores(score, density.presence)


@part_scores.register
def _(density: PoissonParams) -> PartScores:
    log_rate, missing = _float64(density.log_rate), density.may_miss
    # Relative to a typical rate m: x log (λ / m) - (λ - m), plus a term that all classes share.
    typical, never = np.exp(log_rate).mean(0), np.isneginf(log_rate)
    coef = np.where(never, 0, log_rate - np.log(np.where(typical > 0, typical, 1)))
    offset = np.where(never, typical, -typical * np.expm1(coef))
    score = _of_seen(coef, offset, never.astype(float), np.zeros_like(coef), missing)
    return PoissonScores(score, typical, missing)


def _of_seen(
    coef: np.ndarray, offset: np.ndarray, veto: np.ndarray, always: np.ndarray, missing: bool
) -> LinearScores:
    """Scores `Σ_j x_j coef_kj + offset_kj`; where cells may be missing, over the observed ones."""
    if not missing:
        return LinearScores(coef, offset.sum(1), veto, always.sum(1))
    zeros = np.zeros(len(coef))
    return LinearScores(np.hstack([coef, offset]), zeros, np.hstack([veto, always]), zeros)


def _float64(array: ArrayLike) -> Float[np.ndarray, "..."]:
    return np.asarray(array, np.float64)
