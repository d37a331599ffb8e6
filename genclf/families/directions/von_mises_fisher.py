"""Von Mises-Fisher class densities of unit vectors, such as embeddings."""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.domains import FLAG, NON_NEGATIVE, NON_NEGATIVES, Scalar
from genclf.arguments.module import static
from genclf.families.base import Params
from genclf.families.capabilities import HasLinearForm, HasTerms, Latent
from genclf.families.mode import mode
from genclf.families.support import Support, nan_outside_support
from genclf.numerics import loops
from genclf.numerics.bessel import log_bessel_and_ratios
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.row_blocks import broadcast_rows, over_rows
from genclf.sums.accumulate import moments
from genclf.sums.blocks import ClassWeights, merge_over_blocks
from genclf.sums.statistics import Moments, divide

_OFF = 1e-3  # largest deviation of a squared length from 1
_STEPS = 6  # of Newton's method; each doubles the number of digits


def _unit(x: Array) -> Bool[Array, "..."]:
    length = (x * x).sum(-1, keepdims=True)
    return jnp.broadcast_to(jnp.abs(length - 1) <= _OFF, x.shape)


UNIT = Support(_unit, "a row of length 1 (divide each row of x by its norm)")


def mean_length(dim: int, kappa: Float[Array, "K"]) -> Float[Array, "K"]:
    """`A_d(κ) = I_{d/2}(κ) / I_{d/2-1}(κ)`: the length of the mean of unit vectors."""
    return kappa * log_bessel_and_ratios(dim, kappa)[1]


def log_norm(dim: int, kappa: Float[Array, "K"]) -> Float[Array, "K"]:
    """`log C_d(κ) + κ`: the logarithm of the density at the mean direction."""
    return -log_bessel_and_ratios(dim, kappa)[0] - 0.5 * dim * math.log(2 * math.pi)


def _log_odds(dim: int, log_kappa: Array) -> Array:
    """`log A / (1 - A)`: nearly linear in log κ, with slope 1 at either end."""
    kappa = jnp.exp(log_kappa)
    _, share, rest = log_bessel_and_ratios(dim, kappa)
    return log_kappa + jnp.log(share) - jnp.log(rest)


def concentration_of(
    dim: int, length: Float[Array, "K"], rest: Float[Array, "K"]
) -> Float[Array, "K"]:
    """The κ with `A_d(κ) = length`, by Newton's method; inf at length 1.

    Args:
        dim: d.
        length: the length of the mean.
        rest: 1 - length, given separately, since the subtraction would be inexact.
    """
    inside = (length > 0) & (rest > 0)
    ends = jnp.where(length <= 0, 0, jnp.where(rest <= 0, jnp.inf, jnp.nan))
    length, rest = jnp.where(inside, length, 0.5), jnp.where(inside, rest, 0.5)
    target = jnp.log(length) - jnp.log(rest)

    def newton(log_kappa: Array) -> Array:
        value, slope = jax.jvp(lambda u: _log_odds(dim, u), (log_kappa,), (jnp.ones_like(length),))
        return log_kappa - (value - target) / slope

    # Banerjee et al. (2005), eq. 4.4. Only the last step is differentiated: at a solution it has
    # the derivative of the implicit function.
    start = jnp.log(length * (dim - length**2) / (rest * (1 + length)))
    log_kappa = loops.fori_loop(0, _STEPS, lambda _, u: newton(u), lax.stop_gradient(start))
    kappa = jnp.exp(newton(lax.stop_gradient(log_kappa)))
    return jnp.where(inside, kappa, ends)


class VonMisesFisherParams(HasLinearForm, HasTerms, Params):
    """Fitted directions, as `VonMisesFisher.estimate` returns them.

    Attributes:
        mean_direction: unit vectors μ_k, shape (K, d).
        concentration: κ_k >= 0, shape (K,), or (1,) if it is shared; 0 is uniform.
    """

    domains: ClassVar = {"concentration": NON_NEGATIVES}
    support: ClassVar = UNIT

    mean_direction: Float[Array, "K d"]
    concentration: Float[Array, "one_or_K"]

    def _problems(self) -> list[str]:
        error = np.abs(np.linalg.norm(np.asarray(self.mean_direction, float), axis=-1) - 1)
        return ["mean_direction is not of length 1"] if (error > 1e-3).any() else []

    def log_prob(self, x: Array) -> Float[Array, "*batch K"]:
        """`log C_d(κ_k) + κ_k μ_k · x`, a density with respect to area on the sphere."""
        return self._score(x, log_norm(self.num_features, self.concentration))

    def discriminant(self, x: Array) -> Float[Array, "*batch K"]:
        """`log_prob`, without the normalising constant if the concentration is shared."""
        if len(self.concentration) == 1:
            return self._score(x, jnp.zeros_like(self.concentration))
        return self.log_prob(x)

    def _score(self, x: Array, at_mean: Array) -> Float[Array, "*batch K"]:
        def rows(x: Array) -> Array:
            # κ (μ · x - 1) rather than κ μ · x, which may be large.
            cosine = matmul(nan_outside_support(x, UNIT), self.mean_direction.T)
            score = broadcast_rows(self.concentration, cosine) * (cosine - 1)
            return score + broadcast_rows(at_mean, cosine)

        return over_rows(rows, x, 1, 2 * sum(self.mean_direction.shape))

    def log_lik(self, stats: Moments) -> Float[Array, ""]:
        """`Σ_k count_k (log C_d(κ_k) + κ_k μ_k · mean_k)`."""
        cosine = (self.mean_direction * stats.mean).sum(-1)
        at_mean = log_norm(self.num_features, self.concentration)
        return (stats.count * (at_mean + self.concentration * (cosine - 1))).sum()

    def sample(self, key: Array, y: Int[Array, "*shape"]) -> Float[Array, "*shape d"]:
        """A cosine to the mean direction by rejection (Wood, 1994), and an orthogonal direction."""
        key_cosine, key_across = jax.random.split(key)
        mean = self.mean_direction[y]
        kappa = jnp.broadcast_to(self.concentration, self.mean_direction.shape[:1])[y]
        below = _one_less_cosine(key_cosine, kappa, self.num_features)
        across = jax.random.normal(key_across, mean.shape, mean.dtype)
        across = across - (across * mean).sum(-1, keepdims=True) * mean
        across = across / jnp.linalg.norm(across, axis=-1, keepdims=True)
        below = below[..., None]
        return (1 - below) * mean + jnp.sqrt(below * (2 - below)) * across

    def terms(
        self, x: Array, y: Int[Array, "*batch"], other: Int[Array, "*batch"]
    ) -> Float[Array, "*batch d"]:
        """`(κ_y μ_yj - κ_other μ_other,j) x_j`."""
        coef, _ = self.linear()
        return (coef[y] - coef[other]) * nan_outside_support(x, UNIT)

    def constant(self, y: Int[Array, "*batch"], other: Int[Array, "*batch"]) -> Array:
        """`log C_d(κ_y) - log C_d(κ_other)`."""
        _, intercept = self.linear()
        return intercept[y] - intercept[other]

    def linear(self) -> tuple[Float[Array, "K d"], Float[Array, "K"]]:
        """`κ_k μ_k` and `log C_d(κ_k)`."""
        own = jnp.broadcast_to(self.concentration, self.mean_direction.shape[:1])
        intercept = log_norm(self.num_features, own) - own
        return own[:, None] * self.mean_direction, intercept


def _one_less_cosine(key: Array, kappa: Float[Array, "*shape"], dim: int) -> Array:
    """`1 - μ · x` of draws x, in full precision where it is small."""
    half = 0.5 * (dim - 1)
    b = (dim - 1) / (2 * kappa + jnp.hypot(2 * kappa, dim - 1.0))
    # With u = 1 - w and x₀ = (1 - b) / (1 + b): 1 - x₀ w = (2 b + (1 - b) u) / (1 + b).
    log_least = jnp.log(4 * b / (1 + b) ** 2)

    def draw(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        key, found, done = state
        key, key_beta, key_uniform = jax.random.split(key, 3)
        z = jax.random.beta(key_beta, half, half, kappa.shape, kappa.dtype)
        u = 2 * b * z / (1 - (1 - b) * z)
        log_ratio = jnp.log((2 * b + (1 - b) * u) / (1 + b)) - log_least
        score = kappa * (2 * b / (1 + b) - u) + (dim - 1) * log_ratio
        accepted = score >= jnp.log(jax.random.uniform(key_uniform, kappa.shape, kappa.dtype))
        accepted = accepted | jnp.isnan(score)
        return key, jnp.where(done, found, u), done | accepted

    start = key, jnp.zeros_like(kappa), jnp.zeros(kappa.shape, bool)
    return loops.while_loop(lambda state: ~state[2].all(), draw, start)[1]


def _of_equal_rows(
    left: Float[Array, "K"], count: Float[Array, "K"], total: Float[Array, "K d"]
) -> Float[Array, "K"]:
    """`n_k (1 - R_k)`; where that is rounding error, `n_k / (n_k + 1)` times a typical `1 - R`."""
    eps = jnp.finfo(left.dtype).eps
    within = divide(left.sum(), count.sum())
    together = 1 - divide(jnp.sqrt(jnp.maximum((total.sum(0) ** 2).sum(), eps)), count.sum())
    typical = jnp.where(within > eps**2, within, jnp.where(together > eps, together, 1))
    constant = (count > 0) & (divide(left, count) <= eps**2)
    return jnp.where(constant, divide(count * typical, count + 1), left)


class VonMisesFisher(Latent):
    """Unit vectors about a direction: `p(x | y=k) = C_d(κ_k) exp(κ_k μ_k · x)`.

    μ_k is the direction of the sum of the rows of a class, and κ_k solves `A_d(κ_k) = |Σ w_n x_n| /
    (n_k + α)`, n_k the weight of the class and A_d the ratio of the Bessel functions of orders d/2
    and d/2 - 1; with `shared`, `A_d(κ) = Σ_k |Σ w_n x_n| / (n + α)`. α is a number of pseudo-rows
    without a direction; it keeps κ finite if all rows of a class are equal.

    If all rows of a class are equal, its likelihood has no maximum; `1 - A_d(κ_k)` is then
    `r / (n_k + 1)`, with r the mean of `1 - A_d` within all classes, as if the class had one more,
    typical row.

    Args:
        shared: one concentration for all classes: then the boundaries are linear.
        alpha: pseudo-count of rows without a direction, >= 0.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x = jnp.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
        >>> clf = gcf.Classifier(gcf.VonMisesFisher(), num_classes=2)
        >>> params = gcf.fit(clf, x, jnp.array([0, 0, 1, 1]))
        >>> print(params.conditional.mean_direction.round(2), gcf.predict(params, x))
        [[ 0.95  0.32]
         [-0.32  0.95]] [0 0 1 1]

    References:
        Banerjee, Dhillon, Ghosh & Sra (2005), "Clustering on the unit hypersphere using von
        Mises-Fisher distributions"; Wood (1994), "Simulation of the von Mises Fisher distribution".
    """

    domains: ClassVar = {"shared": FLAG, "alpha": NON_NEGATIVE}
    support: ClassVar = UNIT

    shared: bool = static(default=False)
    alpha: Scalar = 0.0

    @property
    def determined_by_prior(self) -> bool | Bool[Array, ""]:
        return False if self.shared else self.alpha > 0

    def stats(self, x: Array, w: ClassWeights) -> Moments:
        """Diagonal `Moments` of the rows; the scatter gives `1 - R²`, R the length of the mean."""
        if x.shape[-1] < 2:
            raise ValueError("x has 1 column, expected at least 2: directions in the plane")

        def block(x: Array, w: ClassWeights) -> Moments:
            return moments(nan_outside_support(x, UNIT), w, full=False)

        return merge_over_blocks(block, x, w, 2 * x.shape[-1])

    def check_stats(self, stats: PyTree) -> None:
        if not isinstance(stats, Moments) or stats.is_full or stats.of_cells:
            raise ValueError(
                "VonMisesFisher estimates from Moments with diagonal scatters, and stats are "
                f"{type(stats).__name__}: make them with this model"
            )

    def estimate(self, stats: Moments) -> VonMisesFisherParams:
        count, total = stats.count, stats.count[:, None] * stats.mean
        # A class without a direction takes that of all rows together, or else the first axis.
        some, overall = (total != 0).any(-1), total.sum(0)
        first = jnp.zeros_like(overall).at[0].set(1)
        overall = jnp.where((overall == 0).all(), first, overall)
        direction = jnp.where(some[:, None], total, overall[None])
        norm = jnp.linalg.norm(direction, axis=-1)
        direction = direction / norm[:, None]
        norm = jnp.where(some, norm, 0)
        # |x|² = 1, so the scatter is n (1 - R²), where R is the length of the mean. Division by
        # 1 + R then gives n (1 - R) in full precision.
        left = stats.scatter.sum(-1) / (1 + divide(norm, count))
        left = _of_equal_rows(left, count, total) + self.alpha
        if self.shared:
            norm, count = norm.sum(keepdims=True), count.sum(keepdims=True)
            left = left.sum(keepdims=True) - (len(stats.count) - 1) * self.alpha
        whole = count + self.alpha
        kappa = concentration_of(total.shape[-1], divide(norm, whole), divide(left, whole))
        return VonMisesFisherParams(direction, kappa)

    def num_parameters(self, num_classes: int, d: int) -> int:
        """Directions, d - 1 numbers each, and concentrations."""
        return num_classes * (d - 1) + (1 if self.shared else num_classes)

    def plain(self) -> VonMisesFisher:
        return VonMisesFisher(self.shared)

    def log_prior_density(self, params: VonMisesFisherParams, stats: Moments) -> Float[Array, ""]:
        """`params.log_lik` of α rows without a direction: in each class, or in all if shared."""
        count = jnp.full_like(stats.count, self.alpha)
        count = count / len(count) if self.shared else count
        none = jnp.zeros_like(stats.mean)
        return params.log_lik(Moments(count, none, none))

    def distance(self, x: Array, seed: Array) -> Float[Array, "n"]:
        """1 minus the cosine."""
        return 1 - matmul(x, seed)


@mode.register
def _(density: VonMisesFisherParams) -> Array:
    return density.mean_direction
