"""The generative story as a numpyro model, for sampling, MAP, posterior and predictive."""

from __future__ import annotations

from collections.abc import Callable

from genclf.arguments.calls import checked_call
from genclf.arguments.domains import shown
from genclf.classifier.checked_arguments import statistics
from genclf.classifier.classifier import ClassifierStats
from genclf.classifier.model import (
    Fitted,
    Model,
    check_hyperparameters,
    check_params,
    has_distributions,
)
from genclf.families.base import Density

Story = Callable[..., None]


@checked_call
def story(
    model: Model | Fitted,
    stats: ClassifierStats | None = None,
    *,
    density: Callable[[Density], Density] | None = None,
) -> Story:
    """The model as a numpyro program, for `Predictive`, SVI, MCMC and `log_density`.

    It samples `y ~ Categorical(π)`, `x | y ~ density` in a plate "rows". For fitted params, that is
    all. For a `Classifier`, it first samples the parameters from the model's priors:

    ::

        site         distribution               deterministic, as in the params
        class_prior  Dirichlet                  log_prior
        theta        Dirichlet                  log_theta
        probs        Beta                       logits
        rate         Gamma                      log_rate
        covariance   InverseWishart             scale
        variance     InverseGamma               scale    ("diag", "spherical")
        mean         Normal given covariance
        mean_noise   Normal(0, 1)               mean, scale    (`TwoCovariance`)
        coef         Normal(0, 1 / √(n l2))               (SoftmaxRegression; intercept: flat)

    In a `Product` each name is prefixed by the block and a dot. If columns differ in number of
    values, theta is one site for each such number, as "theta_3". A covariance that the classes
    share has shape (1, d, d). The mode of the sites (SVI with AutoDelta) is the estimate of `fit`.
    Any number in a prior may be a numpyro distribution instead, and is then a site with the name of
    that argument: hierarchical smoothing.

    The program is a function `(x=None, y=None, *, num_rows=1)`. It samples the parameters whatever
    `inference` is. Without x it simulates rows, with the given labels if there are any. With x,
    rows of label -1 (all rows, if y is None) are in a plate "unlabelled_rows", and their labels are
    marginalised by parallel enumeration. Word counts are independent Poisson counts of mean
    `mean_length · θ`, as in `sample`; for observed counts a factor turns their probability into
    that of a sequence of given length, as in `log_joint`. A cell outside the support makes the
    log-density NaN. Labels must be concrete, not traced. numpyro spends most of its first
    minute compiling small functions: an inference compiled as a whole by `jax.jit` starts sooner.

    Args:
        model: a `Classifier`, or fitted `ClassifierParams`; also `SoftmaxRegression` and its
            params, which model y alone and need x.
        stats: statistics that give the priors their shapes and units, needed to simulate without
            x; by default those of x.
        density: a function that replaces the params of the class densities before rows are
            sampled. It runs inside the program, so it may have sites of its own: see the
            heavy-tailed density below.

    Returns:
        The program.

    Raises:
        ImportError: funsor is not installed, and there are unlabelled rows.
        ValueError: a prior is invalid or improper, or the rows do not fit the model.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, genclf as gcf
        >>> from numpyro.infer.util import log_density
        >>> params = gcf.fit(gcf.lda(2), jnp.array([[0.0], [2.0], [5.0]]), jnp.array([0, 0, 1]))
        >>> x, y = jnp.array([[4.0]]), jnp.array([1])
        >>> joint = log_density(gcf.bayes.story(params), (x, y), {}, {})[0]
        >>> print(joint.round(3), gcf.log_joint(params, x)[0, 1].round(3))
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
    if stats is not None:
        statistics(stats, "stats")  # rows are given to the program, story(model)(x, y)
    if density is not None and not callable(density):
        raise ValueError(f"density is {shown(density)}, expected a function of params, or None")
    if isinstance(model, Fitted):
        check_params(model, "model", "bayes.story")
    elif not isinstance(model, Model) or not has_distributions(model):
        check_hyperparameters(model, name="model")
    from genclf.bayes.program.numpyro_model import program  # this module imports numpyro

    return program(model, stats, density)
