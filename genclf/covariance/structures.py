"""Structures of covariances: functions of a covariance matrix that keep it symmetric."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float

from genclf.arguments.domains import FLAG, Domain, several, shown, whole
from genclf.arguments.hyperparameters import Declared
from genclf.arguments.module import Module, field, static
from genclf.covariance.estimate import CovarianceEstimate
from genclf.covariance.leading import leading, low_rank_root
from genclf.covariance.magnitudes import rounding_of
from genclf.covariance.scales import SCALES, Form
from genclf.numerics.namespace import Array, matmul, namespace, on_host
from genclf.sums.factors import Covariances, by_classes


class Structure(Declared):
    """A function of a covariance matrix, (d, d), to a symmetric one of the same shape."""

    takes_numpy: ClassVar[bool] = True
    form: ClassVar[Form] = "full"

    @abc.abstractmethod
    def __call__(self, covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
        """The covariance with the structure."""

    def root(self, found: CovarianceEstimate) -> Float[Array, "..."]:
        """Square roots of the covariances with the structure, as `SCALES[self.form]` has them."""
        return with_structure(found, self).square_root()

    @abc.abstractmethod
    def problems(self, d: int | None = None) -> list[str]:
        """Error messages, if covariances of d features, when known, cannot have the structure."""

    @abc.abstractmethod
    def num_parameters(self, d: int) -> int:
        """Free numbers of one covariance of d features."""


class BlockToeplitz(Structure):
    """The covariance of stationary noise: of signals at two times, it depends on their lag alone.

    Features are signals, such as the channels of EEG, at equally spaced times: feature
    `t · channels + c` is channel c at time t. Let `Σ_st` be the block of the times s and t,
    (channels, channels). It becomes `(1 - |t-s| / times) · mean_r Σ_{r, r+t-s}`, the mean over all
    pairs of times with that lag. The factor, the taper, keeps the matrix positive semidefinite;
    without it, eigenvalues may be negative, and are treated as directions without variance.

    Args:
        times: number of times.
        channels: number of signals; `times · channels` is the number of features.
        taper: whether long lags, of which the mean is over few pairs, are scaled down.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> noise = gcf.Gaussian(shared=True, structure=gcf.BlockToeplitz(times=2, channels=1))
        >>> x = jnp.array([[0.0, 1.0], [2.0, 4.0], [1.0, 0.0], [3.0, 5.0]])
        >>> params = gcf.fit(gcf.Classifier(noise, 1), x, jnp.zeros(4, int))
        >>> print(params.conditional.covariances[0].round(3))  # the variances are 1.25 and 4.25
        [[2.75 1.  ]
         [1.   2.75]]

    References:
        Sosulski & Tangermann (2022), "Introducing block-Toeplitz covariance matrices to remaster
        linear discriminant analysis for event-related potential brain-computer interfaces".
    """

    domains: ClassVar = {"times": whole(1), "channels": whole(1), "taper": FLAG}

    times: int = static()
    channels: int = static()
    taper: bool = static(default=True)

    def __call__(self, covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
        xp = namespace(covariance)
        t, c = self.times, self.channels
        block = covariance.reshape(t, c, t, c).transpose(0, 2, 1, 3)
        # In rows that are one longer than there are lags, each lag is in a column of its own.
        padded = xp.concatenate([block[::-1], xp.zeros_like(block)], axis=1)
        of_lag = padded.reshape(2 * t * t, c, c)[: t * (2 * t - 1)].reshape(t, 2 * t - 1, c, c)
        lag = np.arange(t)[None] - np.arange(t)[:, None]
        pairs = t if self.taper else t - abs(np.arange(1 - t, t))
        divisor = xp.asarray(np.broadcast_to(pairs, 2 * t - 1), covariance.dtype)
        mean = of_lag.sum(0) / divisor[:, None, None]
        return mean[lag + t - 1].transpose(0, 2, 1, 3).reshape(covariance.shape)

    def problems(self, d: int | None = None) -> list[str]:
        if d is None or self.times * self.channels == d:
            return []
        return [
            f"BlockToeplitz has {self.times} times of {self.channels} channels, and x has {d} "
            "features: expected one for each channel at each time"
        ]

    def num_parameters(self, d: int) -> int:
        return self.channels * (self.channels + 1) // 2 + (self.times - 1) * self.channels**2


class Blocks(Structure):
    """Groups of features that are independent within a class: covariances between groups are 0.

    Args:
        sizes: the number of features of each group, in the order of the features.

    Example:
        >>> import jax.numpy as jnp, numpy as np, genclf as gcf
        >>> family = gcf.Gaussian(structure=gcf.Blocks((1, 2)))
        >>> x = jnp.array([[0.0, 1.0, 3.0], [2.0, 4.0, 1.0], [1.0, 0.0, 1.0], [3.0, 5.0, 4.0]])
        >>> params = gcf.fit(gcf.Classifier(family, 1), x, jnp.zeros(4, int))
        >>> print(np.asarray(params.conditional.covariances[0]).round(4))
        [[1.25   0.     0.    ]
         [0.     4.25   1.125 ]
         [0.     1.125  1.6875]]
    """

    domains: ClassVar = {"sizes": several("some whole numbers, each at least 1", whole(1))}

    sizes: tuple[int, ...] = static()

    def __call__(self, covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
        xp = namespace(covariance)
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return xp.where(xp.asarray(group[:, None] == group[None]), covariance, 0)

    def problems(self, d: int | None = None) -> list[str]:
        if d is None or sum(self.sizes) == d:
            return []
        return [
            f"Blocks has {sum(self.sizes)} features in groups of {self.sizes}, and x has {d}: "
            "expected a group for each feature"
        ]

    def num_parameters(self, d: int) -> int:
        return sum(size * (size + 1) // 2 for size in self.sizes)


class LowRank(Structure):
    """A few directions with variances of their own, and one variance in all others.

    `Σ' = Σ_{j<=r} λ_j u_j u_jᵀ + σ² (I - Σ_{j<=r} u_j u_jᵀ)`, where λ_j and u_j are the r largest
    eigenvalues of Σ and their vectors, and σ² is the mean of the other d - r eigenvalues. These are
    the maximum-likelihood estimates of that form. They depend on the units of the features. A
    feature that is constant in a class does not count among the d, and keeps its substitute. If σ²
    is only rounding, it is ε^(2/3) of the mean variance instead, ε the dtype's epsilon.

    Params hold `[s | G]`, `Σ' = diag(s²) + G Gᵀ`, d (1 + r) numbers for each covariance, and the
    scores of n rows cost 4 n d r flops for each class. A fit of many large covariances never holds
    all of them, unless the shrinkage is estimated, or covariances are pooled.

    Args:
        r: number of directions, at least 1 and below the number of features.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> family = gcf.Gaussian(structure=gcf.LowRank(1))
        >>> x = jnp.array([[0.0, 3.0, 1.0], [0.0, -3.0, 0.0], [1.0, 3.0, 0.0], [1.0, -3.0, 1.0]])
        >>> params = gcf.fit(gcf.Classifier(family, 1), x, jnp.zeros(4, int))
        >>> print(params.conditional.covariances[0].round(3))
        [[0.25 0.   0.  ]
         [0.   9.   0.  ]
         [0.   0.   0.25]]

    References:
        Tipping & Bishop (1999), "Probabilistic principal component analysis", eq. 8; Bouveyron,
        Girard & Schmid (2007), "High-dimensional data analysis": there, the directions of a class
        have variances a_kj and all others b_k.
    """

    domains: ClassVar = {"r": whole(1)}
    form: ClassVar = "low-rank"

    r: int = static()

    def __call__(self, covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
        xp = namespace(covariance)
        d, dtype = len(covariance), covariance.dtype
        loadings, rest = leading(covariance, self.r, xp.asarray(0, dtype), xp.asarray(d, dtype))
        eye = xp.eye(d, dtype=dtype)
        return matmul(loadings, loadings.T) + rest * eye

    def root(self, found: CovarianceEstimate) -> Float[Array, "one_or_K d _"]:
        return low_rank_root(found, self.r)

    def problems(self, d: int | None = None) -> list[str]:
        if d is None or self.r < d:
            return []
        return [f"LowRank has r={self.r} directions, expected fewer than the {d} features of x"]

    def num_parameters(self, d: int) -> int:
        return self.r * d - self.r * (self.r - 1) // 2 + 1


class OwnStructure(Structure):
    """A user's function of a covariance matrix, in `jax.numpy`.

    Args:
        function: the function; arguments that `jax.tree_util.Partial` holds are traced.
    """

    domains: ClassVar = {}
    takes_numpy: ClassVar = False

    function: Callable[..., Any] = field(
        # `Partial` of a `Partial` would hide the arguments of the first from transformations.
        converter=lambda f: f if isinstance(f, Module | Partial) else Partial(f)
    )

    def __call__(self, covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
        """The function's result; NaN if it is not symmetric."""
        try:
            found: Any = self.function(covariance)
        except jax.errors.TracerArrayConversionError as error:
            raise ValueError(
                "structure calls NumPy on the covariance, which is traced: write it in jax.numpy"
            ) from error
        if jnp.shape(found) != covariance.shape:
            raise ValueError(
                f"structure makes {shown(found)} of a covariance of shape {covariance.shape}, "
                "expected the same shape"
            )
        found = jnp.asarray(found, covariance.dtype)
        deviation = jnp.sqrt(jnp.abs(jnp.diagonal(found)))
        least = jnp.sqrt(jnp.finfo(found.dtype).eps) * deviation[:, None] * deviation[None]
        symmetric = (jnp.abs(found - found.T) <= least).all()
        return jnp.where(symmetric, found, jnp.nan)

    def problems(self, d: int | None = None) -> list[str]:
        return []

    def num_parameters(self, d: int) -> int:
        raise ValueError("the number of parameters of a structure of your own is not known")


def as_structure(value: Any) -> Any:
    """A structure; a function becomes one, other values are left to the domain."""
    is_own = callable(value) and not isinstance(value, Structure | type)
    return OwnStructure(value) if is_own else value


STRUCTURE = Domain(
    "BlockToeplitz(times, channels), LowRank(r), Blocks(sizes), a function of a covariance matrix, "
    "or None",
    lambda value: isinstance(as_structure(value), Structure),
    optional=True,
)


def with_structure(found: CovarianceEstimate, structure: Structure) -> CovarianceEstimate:
    """The covariances with a structure; a feature that has no variance then keeps its substitute.

    The structure is applied to the covariances as they are, before a singular one is made regular.
    """
    exact = found.exact
    if exact is None:
        raise ValueError("diagonal covariances have no structure")
    xp = namespace(found.variance)
    each: Any
    if structure.form != "full":
        each = SCALES[structure.form].matrices(structure.root(found), found.variance.shape[-1])
    elif on_host(found.variance):
        each = np.stack([structure(one) for one in exact.matrices()])
    else:
        each = by_classes(lambda of: jax.vmap(structure)(of.matrices()), exact)
    variance = xp.diagonal(each, axis1=-2, axis2=-1)
    singular = variance <= rounding_of(found.square)
    keep = singular | xp.isnan(found.variance)
    variance = xp.where(keep, found.variance, variance)
    one, zero = xp.ones(len(variance), variance.dtype), xp.zeros_like(variance)
    return found._replace(
        exact=Covariances(each, xp.zeros_like(each), one, one, zero, xp.sqrt(variance), singular),
        from_double=xp.zeros(len(variance), bool),
        added=zero,
        scale=xp.broadcast_to(found.scale, variance.shape),
        variance=variance,
        constant=xp.broadcast_to(singular, found.constant.shape),
        is_singular=singular,
    )
