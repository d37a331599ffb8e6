"""Priors as numpyro sites, whose values make up the params of a classifier."""

from __future__ import annotations

import math
from functools import singledispatch

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, PyTree
from numpyro.distributions import constraints

from genclf.arguments.parameters import Parameter
from genclf.classifier.classifier import Classifier, ClassifierParams, ClassifierStats
from genclf.families.combined.combinator import leaf_families
from genclf.families.combined.priors import (
    check_proper,
    is_conjugate,
    named,
    over_columns,
    params_of,
    priors,
)
from genclf.families.conjugate.base import Conjugate
from genclf.families.conjugate.beta import BetaDistribution
from genclf.families.conjugate.dirichlet import DirichletDistribution
from genclf.families.conjugate.gaussian import NormalInverseWishartDistribution
from genclf.families.conjugate.normal import NormalDistribution
from genclf.roads.problem import CLASS_PRIOR, PRIOR


def _is_distribution(node: object) -> bool:
    return isinstance(node, dist.Distribution)


def sample_hyperparameters(clf: Classifier) -> Classifier:
    """The classifier, with each hyper-parameter that is a distribution replaced by a draw of it."""

    def draw(path: tuple, leaf: PyTree) -> PyTree:
        if not _is_distribution(leaf):
            return leaf
        keys = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
        of_class = ["class"] if getattr(path[0], "name", "") == "class_prior" else []
        return numpyro.sample(".".join([*keys, *of_class, path[-1].name]), leaf)

    return jax.tree_util.tree_map_with_path(draw, clf, is_leaf=_is_distribution)


def sample_parameters(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    """Params drawn from the priors, as sites."""
    labels = clf.label_prior.conjugate(stats.labels)
    nodes = priors(clf.family, stats.conditional)
    check_proper(nodes, stats, "prior", "the story")
    log_prior = clf.label_prior.log_probs(stats.count)
    if labels is not None:
        log_prior = draw(labels, "", {PRIOR: CLASS_PRIOR})[PRIOR]
    families = leaf_families(clf.family, stats.conditional)
    drawn = [
        draw(node, prefix, part.start(of_part).parameters)
        for (prefix, node), (part, of_part) in zip(named(nodes), families, strict=True)
    ]
    structure = jax.tree.structure(nodes, is_leaf=is_conjugate)
    arrays = jax.tree.unflatten(structure, drawn)
    return ClassifierParams(log_prior, params_of(clf.family, stats.conditional, arrays))


@singledispatch
def draw(node: Conjugate, prefix: str, parameters: dict[str, Parameter]) -> dict[str, Array]:
    """Sample sites for the values, and deterministic sites for the arrays of the params class.

    A distribution of one array that is not registered below uses its own `log_prob` and
    `sample`.
    """
    (field, parameter), *others = parameters.items()
    if others:
        raise ValueError(f"{type(node).__name__} has several arrays, expected one per numpyro site")
    value = numpyro.sample(prefix + field.removeprefix("log_"), _own_prior(node, field, parameter))
    return _deterministic(prefix, {field: parameter.stored(value)})


def _own_prior(node: Conjugate, field: str, parameter: Parameter) -> dist.Distribution:
    """The numpyro distribution of the values of `field`."""

    def draw_value(key: Array) -> Array:
        keys = jax.random.split(key, node.batch_shape)
        stored = over_columns(lambda node, key: node.sample(key)[field], node, keys)
        return parameter.value(stored)

    shape = jax.eval_shape(draw_value, jax.random.key(0)).shape

    class OwnPrior(dist.Distribution):
        support = constraints.independent(parameter.membership(), len(shape))

        def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
            draws = jax.vmap(draw_value)(jax.random.split(key, math.prod(sample_shape)))
            return draws.reshape(*sample_shape, *shape)

        def log_prob(self, value: Array) -> Array:
            stored = {field: parameter.stored(value)}
            return over_columns(lambda node, own: node.log_prob(own), node, stored).sum()

    return OwnPrior(event_shape=shape, validate_args=False)


@draw.register
def _(node: DirichletDistribution, prefix: str, _: object) -> dict[str, Array]:
    a = node.concentration
    equal = node.simplex.equal_tables(a.shape[-1])
    log_theta = jnp.zeros_like(a)
    for at in equal:
        name = prefix + node.value + (f"_{at.shape[1]}" if len(equal) > 1 else "")
        tables = a if len(node.sizes) < 2 else a[..., at]
        density = dist.Dirichlet(tables).to_event(tables.ndim - 1)
        theta = numpyro.sample(name, density)
        log_theta = log_theta.at[..., at].set(jnp.log(theta).reshape(a[..., at].shape))
    return _deterministic(prefix, {node.field: log_theta})


@draw.register
def _(node: BetaDistribution, prefix: str, _: object) -> dict[str, Array]:
    probs = numpyro.sample(prefix + "probs", dist.Beta(node.a, node.b).to_event(node.a.ndim))
    return _deterministic(prefix, {"logits": jnp.log(probs) - jnp.log1p(-probs)})


@draw.register
def _(node: NormalInverseWishartDistribution, prefix: str, _: object) -> dict[str, Array]:
    axes = node.kappa.ndim
    root_kappa = jnp.sqrt(node.kappa)[..., None]
    if node.arithmetic.is_full:
        density = dist.InverseWishart(node.dof, scale_matrix=node.scale).to_event(axes)
        scale = jnp.linalg.cholesky(numpyro.sample(prefix + "covariance", density))
        of_mean = dist.MultivariateNormal(node.mean, scale_tril=scale / root_kappa[..., None])
        mean = numpyro.sample(prefix + "mean", of_mean.to_event(axes))
    else:
        density = dist.InverseGamma(0.5 * node.dof[..., None], 0.5 * node.scale).to_event(axes + 1)
        scale = jnp.sqrt(numpyro.sample(prefix + "variance", density))
        spread = jnp.broadcast_to(scale / root_kappa, node.mean.shape)
        mean = numpyro.sample(prefix + "mean", dist.Normal(node.mean, spread).to_event(axes + 1))
    return {"mean": mean, **_deterministic(prefix, {"scale": scale})}


@draw.register
def _(node: NormalDistribution, prefix: str, _: object) -> dict[str, Array]:
    standard = dist.Normal(jnp.zeros_like(node.mean), 1.0).to_event(node.mean.ndim)
    noise = numpyro.sample(prefix + "mean_noise", standard)
    return _deterministic(prefix, over_columns(lambda node, e: node.at_noise(e), node, noise))


def _deterministic(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    for name, array in arrays.items():
        numpyro.deterministic(prefix + name, array)
    return arrays
