"""Priors in numpyro's distributions: sites whose values make a classifier's params."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from genclf.classifier import Classifier, ClassifierParams, ClassifierStats
from genclf.conjugate.base import Conjugate
from genclf.conjugate.beta import Betas
from genclf.conjugate.dirichlet import Dirichlets
from genclf.conjugate.gaussian import NormalInverseWisharts
from genclf.families.priors import check_proper, is_conjugate, named, params_of, priors


def _is_distribution(node: Any) -> bool:
    from numpyro.distributions import Distribution

    return isinstance(node, Distribution)


def draw_hyperparameters(clf: Classifier) -> Classifier:
    """The classifier with a draw of each hyper-parameter that is a distribution."""
    import numpyro

    def draw(path: tuple, leaf: Any) -> Any:
        if not _is_distribution(leaf):
            return leaf
        keys = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
        of_class = ["class"] if getattr(path[0], "name", "") == "class_prior" else []
        return numpyro.sample(".".join([*keys, *of_class, path[-1].name]), leaf)

    return jax.tree_util.tree_map_with_path(draw, clf, is_leaf=_is_distribution)


def draw_parameters(clf: Classifier, stats: ClassifierStats) -> ClassifierParams:
    """Params drawn from the priors, as sites."""
    labels = clf.label_prior.conjugate(stats.labels)
    nodes = priors(clf.family, stats.conditional)
    check_proper(nodes, stats, "prior", "the story")
    log_prior = clf.label_prior.log_probs(stats.count)
    if labels is not None:
        log_prior = draw(labels, "")["log_prior"]
    drawn = [draw(node, prefix) for prefix, node in named(nodes)]
    structure = jax.tree.structure(nodes, is_leaf=is_conjugate)
    arrays = jax.tree.unflatten(structure, drawn)
    return ClassifierParams(log_prior, params_of(clf.family, stats.conditional, arrays))


@singledispatch
def draw(node: Conjugate, prefix: str) -> dict[str, Array]:
    """Sites of the values, and what the params class holds of them as deterministic ones."""
    raise ValueError(f"{type(node).__name__} has no story in numpyro")


@draw.register
def _(node: Dirichlets, prefix: str) -> dict[str, Array]:
    import numpyro
    import numpyro.distributions as dist

    a = node.concentration
    equal = node.simplex.equal_tables(a.shape[-1])
    log_theta = jnp.zeros_like(a)
    for at in equal:
        name = prefix + node.value + (f"_{at.shape[1]}" if len(equal) > 1 else "")
        tables = a if len(node.sizes) < 2 else a[..., at]
        density = dist.Dirichlet(tables).to_event(tables.ndim - 1)
        theta = numpyro.sample(name, density)
        log_theta = log_theta.at[..., at].set(jnp.log(theta).reshape(a[..., at].shape))
    return _kept(prefix, {node.field: log_theta})


@draw.register
def _(node: Betas, prefix: str) -> dict[str, Array]:
    import numpyro
    import numpyro.distributions as dist

    probs = numpyro.sample(prefix + "probs", dist.Beta(node.a, node.b).to_event(node.a.ndim))
    return _kept(prefix, {"logits": jnp.log(probs) - jnp.log1p(-probs)})


@draw.register
def _(node: NormalInverseWisharts, prefix: str) -> dict[str, Array]:
    import numpyro
    import numpyro.distributions as dist

    axes = node.kappa.ndim
    root_kappa = jnp.sqrt(node.kappa)[..., None]
    if node.covariance == "full":
        density = dist.InverseWishart(node.dof, scale_matrix=node.scale).to_event(axes)
        scale = jnp.linalg.cholesky(numpyro.sample(prefix + "covariance", density))
        of_mean = dist.MultivariateNormal(node.mean, scale_tril=scale / root_kappa[..., None])
        mean = numpyro.sample(prefix + "mean", of_mean.to_event(axes))
    else:
        density = dist.InverseGamma(0.5 * node.dof[..., None], 0.5 * node.scale).to_event(axes + 1)
        scale = jnp.sqrt(numpyro.sample(prefix + "variance", density))
        spread = jnp.broadcast_to(scale / root_kappa, node.mean.shape)
        mean = numpyro.sample(prefix + "mean", dist.Normal(node.mean, spread).to_event(axes + 1))
    return {"mean": mean, **_kept(prefix, {"scale": scale})}


def _kept(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    import numpyro

    for name, array in arrays.items():
        numpyro.deterministic(prefix + name, array)
    return arrays
