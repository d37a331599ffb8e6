"""The generative story as a numpyro model, for sampling, MAP, posterior and predictive."""

from __future__ import annotations

from collections.abc import Callable

from genclf.arguments.domains import shown
from genclf.classifier import ClassifierStats
from genclf.entry.verb import statistics
from genclf.families.base import Density
from genclf.model import Fitted, Model, check_hyperparameters, check_params, has_distributions

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
    if stats is not None:
        statistics(stats, "stats")  # rows are given to the program, story(model)(x, y)
    if density is not None and not callable(density):
        raise ValueError(f"density is {shown(density)}, expected a function of params, or None")
    if isinstance(model, Fitted):
        check_params(model, "model", "bayes.story")
    elif not isinstance(model, Model) or not has_distributions(model):
        check_hyperparameters(model, name="model")
    try:
        import numpyro  # noqa: F401
    except ImportError as error:
        raise ImportError("genclf.bayes.story needs numpyro: pip install numpyro") from error
    from genclf.bayes.program.rows import program  # the one room that imports numpyro

    return program(model, stats, density)
