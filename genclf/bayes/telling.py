"""The generative story as a numpyro model: the prior, the labels, the examples, in plates.

Written in numpyro's own distributions, so that their densities and draws check ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, PyTree

from genclf.arguments.domains import shown
from genclf.bayes.densities import require_funsor, require_numpyro, tell_examples
from genclf.bayes.priors import draw_hyperparameters, draw_parameters
from genclf.classifier import Classifier, ClassifierParams, ClassifierStats
from genclf.discriminative.softmax import SoftmaxParams, SoftmaxRegression
from genclf.entry.rows import as_arrays, blocks, cells, check_examples
from genclf.entry.verb import statistics
from genclf.estimation import stats as make_stats
from genclf.families.base import Density
from genclf.model import (
    Fitted,
    Model,
    check_hyperparameters,
    check_params,
    has_distributions,
)

Story = Callable[..., None]


def story(
    model: Model | Fitted,
    stats: ClassifierStats | None = None,
    *,
    density: Callable[[Density], Density] | None = None,
) -> Story:
    """The model as a numpyro program, for `Predictive`, SVI, MCMC and `log_density`.

    `y ~ Categorical(π)`, `x | y ~ density`, in a plate "rows". For params, that is all. For a
    `Classifier`, the parameters come first, from the priors that its hyper-parameters are:

    ::

        site         distribution               deterministic, as in the params
        class_prior  Dirichlet                  log_prior
        theta        Dirichlet                  log_theta
        probs        Beta                       logits
        covariance   InverseWishart             scale
        variance     InverseGamma               scale    ("diag", "spherical")
        mean         Normal given covariance
        coef         Normal(0, 1 / √(n l2))               (SoftmaxRegression; intercept: flat)

    each after its block and a dot in a `Product`; theta is one site "theta_3" per number of values
    where those of the columns differ; a covariance that classes share is one of shape (1, d, d).
    The mode of the sites (SVI with AutoDelta) is `fit`'s. Any number in a prior may be a numpyro
    distribution instead, and is then a site of its own name: that is hierarchical smoothing.

    The program is `tell(x=None, y=None, *, num_rows=1)`. The priors are told whatever `inference`
    says. Without x, rows are simulated (of the given labels, if any). Rows with label -1, or all
    without y, are told in a plate of their own, "unlabelled_rows", and their labels marginalised
    by parallel enumeration. Word counts are independent Poisson counts of mean `mean_length · θ`,
    as `sample` draws them; observed ones have a factor that leaves the probability of their
    sequence given its length, as in `log_joint`. A cell that the density cannot take makes the
    density NaN. Labels must be concrete, not traced. Most of numpyro's first minute is compilation
    piece by piece: an inference compiled whole, under `jax.jit`, starts sooner.

    Args:
        model: a `Classifier`, or fitted `ClassifierParams`; also `SoftmaxRegression` and its
            params, which tell y alone and need x.
        stats: statistics that give the priors shapes and units, needed to simulate without x; by
            default those of the rows told.
        density: turns the params of the class densities into others before rows are told, inside
            the program: it may have sites of its own. So a Gaussian becomes heavy-tailed, see
            below.

    Returns:
        The program.

    Raises:
        ImportError: numpyro is not installed; or funsor, and there are unlabelled rows.
        ValueError: a prior is invalid or improper, or the rows do not fit the model.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, genclf as gcf
        >>> from numpyro.infer.util import log_density
        >>> params = gcf.fit(gcf.lda(2), jnp.array([[0.0], [2.0], [5.0]]), jnp.array([0, 0, 1]))
        >>> x, y = jnp.array([[4.0]]), jnp.array([1])
        >>> told = log_density(gcf.bayes.story(params), (x, y), {}, {})[0]
        >>> print(told.round(3), gcf.log_joint(params, x)[0, 1].round(3))
        -2.565 -2.565

        A density with heavy tails, its degrees of freedom to be inferred:

        >>> import numpyro.distributions as dist
        >>> def heavy(normal):
        ...     dof = numpyro.sample("dof", dist.Gamma(2.0, 0.1))
        ...     return gcf.StudentTParams(
        ...         normal.mean, normal.scale, dof[None], jnp.ones(len(normal.mean)),
        ...         normal.covariance, normal.shared,
        ...     )
        >>> prior = gcf.NormalInverseWishart(mean=0.0, kappa=1.0, scale=1.0, dof=3.0)
        >>> program = gcf.bayes.story(gcf.qda(2, prior=prior), density=heavy)
    """
    require_numpyro()
    if stats is not None:
        statistics(stats, "stats")  # rows are given to the program, story(model)(x, y)
    if density is not None and not callable(density):
        raise ValueError(f"density is {shown(density)}, expected a function of params, or None")
    if isinstance(model, Fitted):
        check_params(model, "model", "bayes.story")
    elif not isinstance(model, Model) or not has_distributions(model):
        check_hyperparameters(model, name="model")

    def tell(x: PyTree = None, y: ArrayLike | None = None, *, num_rows: int = 1) -> None:
        x = None if x is None else as_arrays(x, "x")
        labels = _concrete(y)
        if isinstance(model, SoftmaxRegression | SoftmaxParams):
            _tell_labels(model, x, labels)
            return
        params = model
        if isinstance(model, Classifier):
            clf = draw_hyperparameters(model)
            units = _units(clf, x) if stats is None else stats
            params = draw_parameters(clf, units)
        assert isinstance(params, ClassifierParams)
        if x is not None:
            check_examples(params, x)
            _mark_invalid(params, x)
        conditional = params.conditional if density is None else density(params.conditional)
        _tell_rows(params.log_prior, conditional, x, labels, num_rows)

    return tell


def _mark_invalid(params: ClassifierParams, x: PyTree) -> None:
    """As in `log_joint`, a cell that the density cannot take makes the whole NaN."""
    import numpyro

    valid = [rule.valid(block).all() for _, _, rule, block in blocks(params.support, x)]
    numpyro.factor("valid", jnp.where(jnp.stack(valid).all(), 0.0, jnp.nan))


def _concrete(y: ArrayLike | None) -> np.ndarray | None:
    if isinstance(y, Tracer):
        raise ValueError(
            "y is traced, but which rows are unlabelled decides the sites of the story: close over "
            "y, as in `lambda x: program(x, y)`"
        )
    labels = None if y is None else np.asarray(y)
    if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "iu"):
        raise ValueError(
            f"y has shape {labels.shape} and dtype {labels.dtype}, expected (n,) integer labels"
        )
    return labels


def _units(clf: Classifier, x: PyTree) -> ClassifierStats:
    """Statistics of the rows, labelled anyhow: units are those of all rows together."""
    if x is None:
        raise ValueError(
            "there are no rows to take the shapes of the parameters from: give x, or statistics, "
            "as in story(clf, genclf.stats(clf, x, y))"
        )
    return make_stats(clf, x, jnp.zeros(_num_rows(clf, x), jnp.int32))


def _num_rows(told: Any, x: PyTree) -> int:
    _, _, _, block = next(blocks(told.support, x))
    return len(cells(block))


def _tell_rows(
    log_prior: Array, conditional: Density, x: PyTree, y: np.ndarray | None, num_rows: int
) -> None:
    import numpyro
    import numpyro.distributions as dist

    if y is None:
        y = np.full(num_rows if x is None else _num_rows(conditional, x), -1)
    elif x is not None and len(y) != _num_rows(conditional, x):
        raise ValueError(f"y has {len(y)} labels, for {_num_rows(conditional, x)} rows of x")
    if ((y < -1) | (y >= len(log_prior))).any():
        raise ValueError(f"y holds a label outside -1..{len(log_prior) - 1}")
    classes = dist.Categorical(logits=log_prior, validate_args=False)
    # Labels are marginalised where there are examples to infer them from.
    latent = (y < 0) if x is not None else np.zeros(len(y), bool)
    if latent.any():
        require_funsor()
    for suffix, plate, rows in (("", "rows", ~latent), ("_unlabelled", "unlabelled_rows", latent)):
        if not rows.any():
            continue
        here = None if x is None else jax.tree.map(lambda a: a[rows], x)  # noqa: B023
        with numpyro.plate(plate, rows.sum()):
            given = None if (y[rows] < 0).any() else jnp.asarray(y[rows])
            infer = {"enumerate": "parallel"} if suffix else {}
            label = numpyro.sample("y" + suffix, classes, obs=given, infer=infer)
            tell_examples(conditional, "x" + suffix, label, here)


def _tell_labels(model: SoftmaxRegression | SoftmaxParams, x: Any, y: np.ndarray | None) -> None:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.distributions import constraints

    if x is None:
        raise ValueError("a model of p(y | x) tells nothing of x: give x")
    if isinstance(model, SoftmaxParams):
        logits = model.discriminant(x)
    else:
        if model.features != "linear":
            raise ValueError('features is "quadratic": give the products as columns of x instead')
        num_rows, d = x.shape
        sd = 1 / jnp.sqrt(jnp.asarray(model.l2 * num_rows, x.dtype))
        shape = (model.num_classes, d)
        coef = numpyro.sample("coef", dist.Normal(jnp.zeros(shape, x.dtype), sd).to_event(2))
        flat = dist.ImproperUniform(constraints.zero_sum(1), (), shape[:1])
        intercept = numpyro.sample("intercept", flat)
        logits = jnp.matmul(x, coef.T, precision="highest") + intercept
    with numpyro.plate("rows", len(x)):
        given = None if y is None else jnp.asarray(y)
        numpyro.sample("y", dist.Categorical(logits=logits), obs=given)
