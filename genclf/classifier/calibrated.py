"""Fitted params whose posteriors are calibrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import jax
from jaxtyping import Float, PyTree

from genclf.arguments.domains import LOGARITHMS
from genclf.classifier.model import Fitted
from genclf.families.support import Support
from genclf.numerics.namespace import Array, namespace
from genclf.numerics.scores.posterior import with_slope_and_bias


class CalibratedParams(Fitted):
    """A fitted model with calibrated posteriors, as `with_calibration` returns it.

    `q(y=k | x) ∝ exp(slope · log p(y=k | x) + bias_k)`, p the posterior under `params`. `predict`,
    `log_posterior`, `discriminant`, `explain` and the forms take it. Such a q is not the posterior
    of a density of x: `log_joint`, `log_marginal` and `sample` take `params`.

    Attributes:
        params: the fitted model.
        slope: β, 1 over the temperature.
        bias: b, (K,); -inf for a class without rows in the calibration.
        log_prior: logarithms of the class probabilities under which q is calibrated, (K,): the
            shares of the classes among the rows of the calibration, or those that `with_prior` or
            `adapt_prior` gave.
    """

    generative: ClassVar[bool] = False
    domains: ClassVar = {"bias": LOGARITHMS, "log_prior": LOGARITHMS}

    params: Any
    slope: Float[Array, ""]
    bias: Float[Array, "K"]
    log_prior: Float[Array, "K"]

    def _problems(self) -> list[str]:
        own = self.params.num_classes
        sizes = {"bias": self.bias.shape[-1], "log_prior": self.log_prior.shape[-1]}
        return [f"{name} has {k} classes, not {own}" for name, k in sizes.items() if k != own]

    @property
    def num_classes(self) -> int:
        return self.bias.shape[-1]

    @property
    def support(self) -> PyTree[Support]:
        return self.params.support

    @property
    def num_features(self) -> PyTree[int]:
        return self.params.num_features

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.bias.shape[:-1]

    @property
    def conditional(self) -> Any:
        """The class densities of `params`."""
        return self.params.conditional

    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        return self.calibrated(self.params.discriminant(x))

    def reduced(self, x: PyTree, reduce: Callable[[Array], Array]) -> Array:
        return self.params.reduced(x, lambda score: reduce(self.calibrated(score)))

    def calibrated(self, score: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """`slope · score + bias`, of scores or log-posteriors under `params`."""
        return with_slope_and_bias(score, self.slope, self.bias)

    def _scaled(self, tree: PyTree) -> PyTree:
        return jax.tree.map(lambda a: self.slope * a, tree)

    def linear(self) -> tuple[PyTree, Float[Array, "K"]]:
        coef, intercept = self.params.linear()
        return self._scaled(coef), self.calibrated(intercept)

    def quadratic(self) -> tuple[Array, Array, Array]:
        matrix, coef, intercept = self.params.quadratic()
        return self.slope * matrix, self.slope * coef, self.calibrated(intercept)

    def terms(self, x: PyTree, y: Array, other: Array) -> tuple[PyTree, Array]:
        terms, constant = self.params.terms(x, y, other)
        own = self.slope * constant + self.bias[y] - self.bias[other]
        return self._scaled(terms), own

    def under(self, log_prior: Float[Array, "K"]) -> CalibratedParams:
        xp = namespace(self.log_prior, log_prior)
        never = xp.isneginf(self.log_prior) | xp.isneginf(log_prior)
        ratio = xp.where(never, 0, log_prior) - xp.where(never, 0, self.log_prior)
        bias = xp.where(never, -xp.inf, self.bias + ratio)
        return replace(self, bias=bias, log_prior=xp.where(never, -xp.inf, log_prior))


def uncalibrated(params: Any) -> Any:
    """The params without the calibration of their posteriors, if they have one."""
    return params.params if isinstance(params, CalibratedParams) else params
