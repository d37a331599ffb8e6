"""Label shift: the class prior of another population, from its unlabelled examples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float, PyTree

from genclf.arguments.domains import NON_NEGATIVE, one_of, whole
from genclf.arguments.sharding import compiled
from genclf.classifier.calibrated import CalibratedParams
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments, optional, optional_key
from genclf.classifier.conversion import one_array
from genclf.classifier.labels import valid_weights
from genclf.classifier.model import Fitted, require_prior
from genclf.classifier.rows import filled
from genclf.classifier.scores import log_joints, log_posteriors
from genclf.families.base import Scalar
from genclf.families.conjugate.class_prior import ClassPrior
from genclf.families.structure import named_arrays
from genclf.fitting.em import EMSolution
from genclf.fitting.em_convergence import FixedPoint
from genclf.numerics.logarithms import safe_log
from genclf.numerics.namespace import Array, matmul
from genclf.numerics.simplex import least_squares
from genclf.select.cross_validation import CrossValidation
from genclf.select.mixing_shares import Rows, likeliest
from genclf.select.score import held_out_rows
from genclf.sums.statistics import divide

_INTERVAL = 0.025, 0.975  # shares of the draws below the ends


class AdaptedPrior(EMSolution):
    """The result of `adapt_prior`; its `params` have the class prior of the new rows.

    Attributes:
        objective: of "likelihood", the log-likelihood at the prior of every step, shape
            (max_steps,), entries after the last step NaN; for calibrated posteriors up to a
            constant. Of "confusion", `-|C π - v|²`, shape (1,).
        converged: of "likelihood", whether the mean log-likelihood is within the tolerance of its
            maximum; True of "confusion".
        interval: the ends of the central 95 % of the class probabilities over bootstrap samples,
            (2, K); None unless a key was given.
    """

    params: Any  # of the type of those given
    interval: Float[Array, "2 K"] | None = None


@checked_arguments(
    any_model=True,
    method=one_of("likelihood", "confusion"),
    learned=None,
    y=optional(one_array),
    max_steps=whole(1),
    tol=NON_NEGATIVE,
    key=optional_key,
    num_draws=whole(2),
)
def adapt_prior(
    params: Fitted,
    x: PyTree,
    *,
    weights: ArrayLike | None = None,
    method: Literal["likelihood", "confusion"] = "likelihood",
    learned: CrossValidation | Float[ArrayLike, "m K"] | None = None,
    y: ArrayLike | None = None,
    max_steps: int = 1000,
    tol: Scalar = 1e-6,
    key: Array | None = None,
    num_draws: int = 200,
) -> AdaptedPrior:
    """Re-estimate the class prior on unlabelled examples of another population.

    The class densities p(x | y) are assumed the same in both populations; p(y) may differ.

    "likelihood" maximises `Σ_n w_n log Σ_k π_k p(x_n | k)`. An EM step sets `π_k = Σ_n w_n p(y=k |
    x_n; π) / Σ_n w_n`; a Newton step replaces it if its log-likelihood is higher. The
    log-likelihood is concave in π, so its maximum does not depend on the start. If the prior has
    not shifted, twice the gain, `2 (value - objective[0])`, has approximately a χ² distribution
    with K - 1 degrees of freedom. It believes the posteriors: calibrate them first
    (`with_calibration`), and p(x | k) is q(k | x) / π_k, π the prior that they are calibrated for.

    "confusion" minimises `|C π - v|²` over the simplex, with `C_jk` the mean posterior of class j
    over the held-out rows of class k that were learned, and v_j its mean over the new rows. The
    posteriors may be wrong, if they are wrong in the same way on both.

    A class of prior 0, or without held-out rows, keeps prior 0.

    Args:
        params: a fitted classifier, with any class densities, perhaps with calibrated posteriors.
        x: rows of the other population.
        weights: weight of each row, (n,).
        method: "likelihood" or "confusion".
        learned: for "confusion", the result of `cross_validate` for the rows that params were
            fitted to, which is calibrated as params are; or posteriors of rows with labels that
            params were not fitted to, as `genclf.log_posterior` returns them for params, (m, K).
        y: labels of these rows, (m,); -1 does not count.
        max_steps: maximum number of steps of "likelihood".
        tol: stop when no prior can raise the mean log-likelihood of a row by more than this, >= 0.
            A value below 100 machine epsilons (1e-5 in float32) is raised to that.
        key: a `jax.random` key, for a bootstrap interval; None for none. A sample draws as many
            new rows, and held-out rows, with replacement.
        num_draws: number of bootstrap samples.

    Returns:
        An `AdaptedPrior`: `params` are the given ones with a new `log_prior`. Derivatives are as in
        `em`.

    Raises:
        ValueError: a shape or dtype does not fit, or `max_steps` or `tol` is invalid; `learned` or
            `y` lacks for "confusion", or is given for "likelihood".

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> x, y = jnp.array([[0.0], [1.0], [8.0], [9.0]]), jnp.array([0, 0, 1, 1])
        >>> params = gcf.fit(gcf.lda(2), x, y)
        >>> found = gcf.adapt_prior(params, jnp.array([[0.5], [8.1], [8.5], [9.3]]))
        >>> print(jnp.exp(found.params.log_prior))
        [0.25 0.75]

    References:
        Saerens, Latinne & Decaestecker (2002), "Adjusting the outputs of a classifier to new a
        priori probabilities", eq. 2.9; Bella, Ferri, Hernández-Orallo & Ramírez-Quintana (2010),
        "Quantification via probability estimators"; Lipton, Wang & Smola (2018), "Detecting and
        correcting for label shift with black box predictors".
    """
    require_prior(params, "adapt_prior")
    if any(block.shape[:1] == (0,) for _, _, _, block in named_arrays(params.support, x)):
        raise ValueError("x has no rows, expected examples of the other population")
    by_likelihood = method == "likelihood"
    for name, value in {"learned": learned, "y": y}.items():
        if (value is None) != by_likelihood:
            raise ValueError(
                f"{name} is {'given' if by_likelihood else 'None'} with method={method!r}: "
                'method="confusion" takes posteriors of held-out rows, `learned`, and their labels'
            )
    if by_likelihood:
        return _by_likelihood(params, x, weights, tol, key, max_steps, num_draws)
    assert learned is not None and y is not None
    log_p, label, weight = held_out_rows(learned, y, None, "learned")
    if log_p.shape[1] != params.num_classes:
        raise ValueError(
            f"learned has posteriors of {log_p.shape[1]} classes, expected {params.num_classes}, "
            "as params"
        )
    if isinstance(learned, CrossValidation) and isinstance(params, CalibratedParams):
        log_p = jax.nn.log_softmax(params.calibrated(log_p), -1)
    return _by_confusion(params, x, weights, (log_p, label, weight), key, num_draws)


@partial(compiled, static_argnums=(5, 6))
def _by_likelihood(
    params: Any,
    x: PyTree,
    weights: Array | None,
    tol: Scalar,
    key: Array | None,
    max_steps: int,
    num_draws: int,
) -> AdaptedPrior:
    score, weight = _scores(params, x, weights, log_joints if params.generative else log_posteriors)
    # A class of prior 0 has score -inf and keeps it: subtracting log 0 would give NaN.
    own_prior = jnp.where(jnp.isneginf(params.log_prior), 0, params.log_prior)
    rows = Rows.of(score - own_prior[None], weight)

    def solved(weight: Array) -> FixedPoint:
        return likeliest(rows._replace(weight=weight), jnp.exp(params.log_prior), tol, max_steps)

    def drawn(key: Array) -> Array:
        count = solved(_drawn(key, weight)).state.count
        return count / count.sum()

    found = solved(weight)
    count, value = found.state.count, found.objective[found.steps - 1]
    return AdaptedPrior(
        params.under(ClassPrior(len(count)).log_probs(count)),
        found.objective,
        found.converged,
        found.steps,
        value[None],
        _interval(drawn, key, num_draws),
    )


@partial(compiled, static_argnums=5)
def _by_confusion(
    params: Any,
    x: PyTree,
    weights: Array | None,
    held: tuple[Array, Array, Array],
    key: Array | None,
    num_draws: int,
) -> AdaptedPrior:
    log_p, weight = _scores(params, x, weights, log_posteriors)
    p, q = jnp.exp(log_p), jnp.exp(held[0].astype(log_p.dtype))
    counts = held[2] != 0
    known = (held[1] >= 0) & (held[1] < q.shape[1])
    label = jnp.where(counts & known, held[1], -1)
    w = jnp.where(jnp.where(counts, known, True).all(), held[2].astype(q.dtype), jnp.nan)
    # The contents of a row of weight 0 must not reach the sums.
    p = jnp.where((weight != 0)[:, None], p, 0)
    q = jnp.where(counts[:, None], q, 0)
    possible = ~jnp.isneginf(params.log_prior)

    def solved(weight: Array, w: Array) -> tuple[Array, Array]:
        own = jax.nn.one_hot(label, q.shape[1], dtype=q.dtype) * w[:, None]
        total = own.sum(0)
        confusion = divide(matmul(q.T, own), jnp.broadcast_to(total[None], (len(total),) * 2))
        mean = matmul(weight, p) / weight.sum()
        prior = least_squares(confusion, mean, possible & (total > 0))
        return prior, -((matmul(confusion, prior) - mean) ** 2).sum()

    def drawn(key: Array) -> Array:
        new, old = jax.random.split(key)
        return solved(_drawn(new, weight), _drawn(old, w))[0]

    prior, value = solved(weight, w)
    return AdaptedPrior(
        params.under(safe_log(prior)),
        value[None],
        jnp.isfinite(value),
        jnp.int32(1),
        value[None],
        _interval(drawn, key, num_draws),
    )


def _scores(
    params: Any, x: PyTree, weights: Array | None, score: Callable[[Any, PyTree], Array]
) -> tuple[Float[Array, "n K"], Float[Array, "n"]]:
    """The scores of the rows, and their weights, NaN if one is invalid."""
    found = jax.eval_shape(score, params, x)
    shape, dtype = found.shape, found.dtype
    if len(shape) != 2:
        raise ValueError(f"x holds examples of batch shape {shape[:-1]}, expected rows (n,)")
    n = shape[0]
    if weights is not None and weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}, expected ({n},): one per row of x")
    weight = jnp.ones(n, dtype) if weights is None else weights.astype(dtype)
    weight = jnp.where(valid_weights(weight) & (weight != 0).any(), weight, jnp.nan)
    return score(params, filled(x, weight != 0)), weight


def _drawn(key: Array, weight: Float[Array, "n"]) -> Float[Array, "n"]:
    """The weights of rows, times how often each is drawn in n draws with replacement."""
    n = len(weight)
    index = jax.random.randint(key, (n,), 0, n)
    return weight * jnp.zeros(n, weight.dtype).at[index].add(1)


def _interval(
    drawn: Callable[[Array], Array], key: Array | None, num_draws: int
) -> Float[Array, "2 K"] | None:
    if key is None:
        return None
    found = lax.map(drawn, jax.random.split(key, num_draws))
    return jnp.quantile(found, jnp.asarray(_INTERVAL, found.dtype), axis=0)
