"""Fitted Bernoulli class densities, and rows as zeros and ones."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike

from genclf.arguments.domains import FINITES
from genclf.arguments.module import static
from genclf.arguments.parameters import Parameter
from genclf.families.base import Scalar
from genclf.families.conjugate.beta import zeros_of
from genclf.families.counts.smoothed import CountParams
from genclf.families.given import probabilities
from genclf.families.missing import Missing, is_missing
from genclf.families.mode import mode
from genclf.families.support import FINITE, Support, nan_outside_support
from genclf.numerics.logarithms import log_sigmoid, safe_log, times_log
from genclf.numerics.namespace import Array, matmul, namespace
from genclf.numerics.row_blocks import over_rows
from genclf.numerics.scores.linear import LinearScore
from genclf.sums.sparse import HostRows, Sparse
from genclf.sums.statistics import Sums

BINARY = Support(
    lambda x: (x == 0) | (x == 1), "0 or 1 (or set Bernoulli(threshold=...))", sparse=True
)
ABOVE = Support(FINITE.valid, "a finite number", sparse=True)


def bits_support(threshold: float | Array | None) -> Support:
    """The support of a cell: 0 or 1, or any number if it is compared with a threshold."""
    return BINARY if threshold is None else ABOVE


def binary(x: Array, threshold: float | Array | None) -> Float[Array, "*batch d"]:
    """The cells as 0 and 1, NaN where invalid."""
    xp = namespace(x)
    x = nan_outside_support(x, bits_support(threshold))
    if threshold is None:
        return x
    above = xp.where(xp.isnan(threshold), xp.nan, (x > threshold).astype(x.dtype))
    return xp.where(xp.isnan(x), x, above)


def sparse_binary(x: Sparse, threshold: Scalar | None) -> tuple[Sparse, Float[Array, ""]]:
    """`f(x) - f(0)`, which keeps cells of 0 at 0, and `f(0)`; f makes a cell 0 or 1."""
    xp = np if isinstance(x, HostRows) else jnp
    base = xp.zeros(()) if threshold is None else binary(xp.zeros(1), threshold)[0]

    def of_values(values: Any) -> Any:
        if threshold is None and xp is np:
            valid = values * values == values
            return values if valid.all() else np.where(valid, values, np.nan)
        return xp.asarray(binary(xp.asarray(values), threshold) - base)

    return x.with_values(of_values), base


def seen_bits(
    x: Array, threshold: float | Array | None, code: int
) -> Float[Array, "*batch twice_d"]:
    """The observed ones and, in further columns, 0/1 indicators of the observed cells."""
    xp = namespace(x)
    seen = ~is_missing(x, code)
    ones = xp.where(seen, binary(xp.where(seen, x, 0), threshold), 0)
    return xp.concatenate([ones, seen.astype(ones.dtype)], axis=-1)


def describe_bits(d: int, threshold: Scalar | None, by_cell: bool) -> str:
    """A description of what the `Sums` of d features hold."""
    what = "0/1 features" if threshold is None else "features above a threshold"
    return f"ones of {d} {what}" + (", by cell" if by_cell else "")


class BernoulliParams(CountParams):
    """Fitted Bernoulli densities, as `Bernoulli.estimate` returns them.

    Attributes:
        logits: `log p_kj / (1 - p_kj)` of p_kj = p(x_j = 1 | y = k), shape (K, d); ±inf where
            p_kj is 1 or 0. Both log p and log (1-p) have full precision in this coordinate.
        threshold: x counts as 1 above it; None if x must be 0 or 1.
        missing: "marginalize" if missing cells are integrated out, else "error".
        missing_code: the integer that marks a missing cell if x is integer.
    """

    domains: ClassVar = {"threshold": FINITES}
    parameters: ClassVar = {"logits": Parameter("unit_interval", "logit")}

    logits: Float[Array, "K d"]
    threshold: Scalar | None
    missing: Missing = static(default="error")
    missing_code: int = static(default=-1)

    @classmethod
    def of(cls, probs: ArrayLike) -> BernoulliParams:
        """The densities of given probabilities, of features that are 0 or 1.

        Args:
            probs: p(x_j = 1 | y = k), shape (K, d).

        Raises:
            ValueError: probs has another shape, or a number is not from 0 to 1.

        Example:
            >>> import jax.numpy as jnp, genclf as gcf
            >>> density = gcf.BernoulliParams.of([[0.1, 0.5], [0.8, 0.5]])
            >>> print(jnp.exp(density.log_prob(jnp.array([1, 0]))).round(3))
            [0.05 0.4 ]
        """
        p = probabilities(probs, "probs", tables=False)
        return cls(safe_log(p) - safe_log(1 - p), None)

    @property
    def support(self) -> Support:
        return self.allowing(bits_support(self.threshold))

    @property
    def probs(self) -> Float[Array, "*batch K d"]:
        """p(x_j = 1 | y = k), shape (K, d)."""
        return jax.nn.sigmoid(self.logits)

    def _logs(self) -> tuple[Array, Array]:
        """`log p` and `log (1 - p)`."""
        return log_sigmoid(self.logits), log_sigmoid(-self.logits)

    def linear_score(self) -> LinearScore:
        """The score of the ones; where cells may be missing, beside that of the observed cells."""
        # log p(x) = Σ_j x_j log p_j + (1-x_j) log (1-p_j); a veto marks values of probability 0.
        xp = namespace(self.logits)
        log_p, log_q = self._logs()
        never, always = xp.isneginf(self.logits), xp.isposinf(self.logits)
        log_p, log_q = xp.where(never, 0, log_p), xp.where(always, 0, log_q)
        never, always = never.astype(log_p.dtype), always.astype(log_p.dtype)
        coef, veto = log_p - log_q, never - always
        if not self.may_miss:
            return LinearScore(coef, log_q.sum(-1), veto, always.sum(-1))
        return LinearScore.of_cells(coef, log_q, veto, always)

    def _scored(self, score: LinearScore, x: Array | Sparse) -> Any:
        if isinstance(x, Sparse):
            ones, base = sparse_binary(x, self.threshold)
            return score.shifted(base.astype(score.coef.dtype))(ones)

        def rows(x: Array) -> Array:
            if not self.may_miss:
                return score(binary(x, self.threshold))
            return score(seen_bits(x, self.threshold, self.missing_code))

        return over_rows(rows, x, 1, score.coef.shape[-1])

    def log_prob(self, x: Shaped[Array, "*batch d"] | Sparse) -> Any:
        """`Σ_j x_j log p_kj + (1 - x_j) log (1 - p_kj)`."""
        return self._scored(self.linear_score(), x)

    def discriminant(self, x: Shaped[Array, "*batch d"] | Sparse) -> Any:
        """`log_prob` minus its mean over the classes."""
        return self._scored(self.linear_score().centred(), x)

    def terms(
        self, x: Shaped[Array, "*batch d"], y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """`log p_y - log p_other` where x is 1, `log (1-p_y) - log (1-p_other)` where it is 0."""
        xp = namespace(x, self.logits)
        seen = self.seen(x)
        log_p, log_q = (a[y] - a[other] for a in self._logs())
        ones = binary(xp.where(seen, x, 0), self.threshold)
        found = xp.where(ones > 0, log_p, xp.where(ones == 0, log_q, xp.nan))
        return xp.where(seen, found, 0)

    def condition(
        self, x: Shaped[Array, "*batch d"], r: Float[Array, "*batch K"]
    ) -> Float[Array, "*batch d"]:
        """p(x_j = 1 | observed cells); for an observed cell its value, 0 or 1."""
        seen = ~is_missing(x, self.missing_code)
        return jnp.where(seen, binary(x, self.threshold), matmul(r, self.probs))

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """`log p/(1-p)` and `Σ_j log (1-p_kj)`; infinite where p is 0 or 1."""
        return self.logits, self._logs()[1].sum(-1)

    @property
    def statistic(self) -> str:
        return describe_bits(self.num_features, self.threshold, self.may_miss)

    def log_lik(self, stats: Sums) -> Float[Array, ""]:
        """`Σ_kj total_kj log p_kj + (count_k - total_kj) log (1 - p_kj)`."""
        log_p, log_q = self._logs()
        absent = zeros_of(stats)
        return (times_log(stats.total, log_p) + times_log(absent, log_q)).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Int[Array, "*shape d"]:
        """Independent 0/1 draws with probabilities p_yj."""
        return jax.random.bernoulli(key, self.probs[y]).astype(jnp.int32)


@mode.register
def _(density: BernoulliParams) -> Array:
    one = (density.logits > 0).astype(density.logits.dtype)
    if density.threshold is None:
        return one
    # One unit above or below the threshold, or more where rounding would hide a unit.
    threshold = jnp.asarray(density.threshold, one.dtype)
    unit = jnp.maximum(1, 4 * jnp.finfo(one.dtype).eps * jnp.abs(threshold))
    return threshold + (2 * one - 1) * unit
