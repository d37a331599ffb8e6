"""Class densities as numpyro distributions."""

from __future__ import annotations

from functools import singledispatch

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jaxtyping import Array, PyTree
from numpyro.distributions import constraints

from genclf.families.base import Density
from genclf.families.combined.independent import IndependentParams
from genclf.families.combined.product import ProductParams
from genclf.families.counts.bernoulli_params import BernoulliParams
from genclf.families.counts.categorical_params import CategoricalParams
from genclf.families.counts.dirichlet_multinomial import DirichletMultinomialParams
from genclf.families.counts.multinomial_params import MultinomialParams
from genclf.families.gaussian.gaussian import GaussianParams
from genclf.families.gaussian.student_t import StudentTParams
from genclf.families.tokens import Tokens, counts_of


@singledispatch
def sample_examples(params: Density, name: str, y: Array, x: PyTree) -> None:
    """Sample examples of classes y at the site `name`, or observe x there; in a plate of rows.

    A family that is not registered below uses its own `log_prob` and `sample`.
    """
    numpyro.sample(name, _own_density(params, y), obs=x)


@sample_examples.register
def _(params: ProductParams, name: str, y: Array, x: PyTree) -> None:
    for block, part in sorted(params.parts.items()):
        sample_examples(part, f"{name}.{block}", y, None if x is None else x[block])


@sample_examples.register
def _(params: IndependentParams, name: str, y: Array, x: PyTree) -> None:
    for j in range(params.num_features):
        column = jax.tree.map(lambda a: a[j], params.columns)  # noqa: B023
        sample_examples(column, f"{name}.{j}", y, None if x is None else x[:, j : j + 1])


@sample_examples.register
def _(params: GaussianParams, name: str, y: Array, x: PyTree) -> None:
    loc, scale = params.mean[y], _of_class(params.scale, y)
    if params.arithmetic.is_full:
        root = params.arithmetic.triangular(scale, loc.shape[-1])
        density = dist.MultivariateNormal(loc, scale_tril=root)
    else:
        density = dist.Normal(loc, jnp.broadcast_to(scale, loc.shape)).to_event(1)
    numpyro.sample(name, density, obs=x)


@sample_examples.register
def _(params: StudentTParams, name: str, y: Array, x: PyTree) -> None:
    loc, scale, dof = params.mean[y], _of_class(params.scale, y), _of_class(params.dof, y)
    inflation = jnp.sqrt(params.inflation)[y][..., None]
    if params.arithmetic.is_product:
        scale = jnp.broadcast_to(scale * inflation, loc.shape)
        density = dist.StudentT(dof[..., None], loc, scale).to_event(1)
    else:
        scale = params.arithmetic.triangular(scale, loc.shape[-1])
        density = dist.MultivariateStudentT(dof, loc, scale * inflation[..., None])
    numpyro.sample(name, density, obs=x)


@sample_examples.register
def _(params: BernoulliParams, name: str, y: Array, x: PyTree) -> None:
    if x is not None and params.threshold is not None:
        x = (x > params.threshold).astype(jnp.int32)
    density = dist.BernoulliLogits(params.logits[y], validate_args=False)
    numpyro.sample(name, density.to_event(1), obs=x)


@sample_examples.register
def _(params: CategoricalParams, name: str, y: Array, x: PyTree) -> None:
    # Without validation, since numpyro rejects the logit of a probability 0.
    # Columns with fewer values are padded with impossible values, so that all are drawn together.
    sizes = params.columns.num_values
    tables = [
        jnp.pad(params.table(j), ((0, 0), (0, max(sizes) - v)), constant_values=-jnp.inf)
        for j, v in enumerate(sizes)
    ]
    density = dist.Categorical(logits=jnp.stack(tables, 1)[y], validate_args=False)
    x = None if x is None else x.astype(jnp.int32)
    if x is not None and params.columns.unseen == "ignore":
        known = x < jnp.asarray(sizes, x.dtype)
        x, density = jnp.where(known, x, 0), density.mask(known)
    numpyro.sample(name, density.to_event(1), obs=x)


@sample_examples.register
def _(params: MultinomialParams, name: str, y: Array, x: PyTree) -> None:
    _sample_words(jnp.exp(params.log_theta)[y], params, name, x)


@sample_examples.register
def _(params: DirichletMultinomialParams, name: str, y: Array, x: PyTree) -> None:
    theta = numpyro.sample(f"{name}.theta", dist.Dirichlet(params.concentration[y]))
    _sample_words(theta, params, name, x)


def _sample_words(
    theta: Array, params: MultinomialParams | DirichletMultinomialParams, name: str, x: PyTree
) -> None:
    x = None if x is None else counts_of(x, params.presence)
    if isinstance(x, Tokens):
        word = dist.Categorical(probs=theta[..., None, :], validate_args=False).mask(x.mask)
        numpyro.sample(name, word.to_event(1), obs=jnp.where(x.mask, x.ids, 0))
        return
    counts = dist.Poisson(params.mean_length * theta).to_event(1)
    numpyro.sample(name, counts, obs=x)
    if x is not None:
        # This leaves Σ x log θ, as in `log_prob`; the removed terms do not depend on parameters.
        per_word = x * jnp.log(params.mean_length) - gammaln(x + 1)
        numpyro.factor(f"{name}.given_length", params.mean_length - per_word.sum(-1))


def _of_class(a: Array, y: Array) -> Array:
    """The entries for the classes y; the array has one entry per class, or one for all classes."""
    return a[y] if len(a) > 1 else a[jnp.zeros_like(y)]


def _own_density(params: Density, y: Array) -> dist.Distribution:
    class OwnDensity(dist.Distribution):
        support = constraints.real_vector

        def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> PyTree:
            return params.sample(key, jnp.broadcast_to(y, (*sample_shape, *self.batch_shape)))

        def log_prob(self, value: PyTree) -> Array:
            score = params.log_prob(value)
            shape = jnp.broadcast_shapes(jnp.shape(y), score.shape[:-1])
            score = jnp.broadcast_to(score, (*shape, score.shape[-1]))
            of_class = jnp.broadcast_to(y, shape)[..., None]
            return jnp.take_along_axis(score, of_class, axis=-1)[..., 0]

    width = params.num_features
    return OwnDensity(batch_shape=jnp.shape(y), event_shape=(width,), validate_args=False)
