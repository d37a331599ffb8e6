"""Gradient and Hessian of the log-likelihood at given params, block by block.

The coordinates are relative displacements of the params: of a mean in standard deviations, of a
probability in fractions of itself. So the conditions of a maximum are well scaled, whatever the
units of the data.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from genclf.arguments.parameters import LOG_TINY, Parameter
from genclf.classifier.classifier import ClassifierParams
from genclf.numerics import loops
from genclf.roads.problem import (
    PRIOR,
    Problem,
    arrays,
    check_same_model,
    declared,
    leaf_params,
    set_arrays,
    standard_arrays,
    with_arrays,
)

_COLUMNS = 16  # of a Hessian, computed at once
LARGEST_BLOCK = 3000  # parameters that depend on each other: a matrix of 72 MB in float64

Arrays = dict[str, Array]


class Curvature(NamedTuple):
    """The quadratic model of the Lagrangian in the class prior, or in the params of one family.

    Its parameters fall into B blocks of b entries; second derivatives across blocks are 0.

    Attributes:
        layout: index of each entry in the raveled parameters, (B, b).
        slope: gradient of the Lagrangian, (B, b).
        information: minus its Hessian, (B, b, b).
        weight: weight of the class that a block belongs to, or of all classes, (B,).
        unidentified: entries that the rows do not determine (as in a class without weight), (B, b).
    """

    layout: np.ndarray
    slope: Float[Array, "B b"]
    information: Float[Array, "B b b"]
    weight: Float[Array, "B"]
    unidentified: Bool[Array, "B b"]


def scaled(part: Curvature) -> tuple[Array, Array]:
    """The information with 1 (or -1) on its diagonal, and the scales; 1 where unidentified."""
    size = part.layout.shape[1]
    eye = jnp.eye(size, dtype=part.slope.dtype)[None]
    identified = ~part.unidentified
    both = identified[:, :, None] & identified[:, None, :]
    information = jnp.where(both, part.information, jnp.where(identified[:, :, None], 0, eye))
    diagonal = jnp.abs(jnp.diagonal(information, axis1=1, axis2=2))
    scale = jnp.sqrt(jnp.where(diagonal == 0, 1, diagonal))
    return information / (scale[:, :, None] * scale[:, None, :]), scale


class LocalModel:
    """The penalised log-likelihood around given params, and the multipliers there.

    Attributes:
        declared: the parameters, by name.
        at_bound: which entries are on a bound, by name.
        value: the values (such as probabilities), at least 1e-30 away from a bound; by name.
        gradient: gradient of the objective with respect to the displacement, by name.
        multipliers: λ of each sum-to-one constraint, by name.
        table: index of the table (the sum) that each raveled entry belongs to.
        normal: derivative of that sum with respect to the raveled entry; 0 without a sum.
    """

    def __init__(self, problem: Problem, params: ClassifierParams):
        """The model around `params`; raise unless they are those of the problem's model."""
        check_same_model(problem, params)
        self.problem = problem
        self.declared: dict[str, Parameter] = dict(sorted(declared(problem.clf, params).items()))
        stored = arrays(params)
        self.at_bound: Arrays = {
            name: p.at_bound(stored[name]) for name, p in self.declared.items()
        }
        # Infinite logarithms have no derivatives; the clipped ones are finite and change no sum.
        clipped = {
            name: jnp.clip(stored[name], LOG_TINY, -LOG_TINY)
            for name, p in self.declared.items()
            if p.link != "identity"
        }
        self.reference = set_arrays(params, clipped)
        origin = standard_arrays(self.reference)
        self.origin = {name: origin[name] for name in self.declared}
        near = arrays(self.reference)
        self.value: Arrays = {name: p.value(near[name]) for name, p in self.declared.items()}
        self.zero, self.by_name = ravel_pytree(jax.tree.map(jnp.zeros_like, self.origin))
        slope, self._change_of_slope = loops.linearize(loops.grad(self.objective), self.zero)
        self.gradient: Arrays = self.by_name(slope)

        # Least squares in the metric of the information: in the coordinates log θ the condition is
        # gradient_v = λ θ_v, and the information is λ θ_v.
        self.multipliers = {
            name: p.table_sums(self.gradient[name]) / p.table_sums(self.value[name])
            for name, p in self.declared.items()
            if p.constraint == "simplex"
        }
        normals, constraint_gradients, tables, first = {}, {}, {}, 0
        for name, p in self.declared.items():
            value, in_sum = self.value[name], name in self.multipliers
            tables[name], first = _number_tables(p, value.shape, first)
            normals[name] = value if in_sum else jnp.zeros_like(value)
            constraint_gradients[name] = self.multiplier_of_entries(name) * normals[name]
        self.table = np.concatenate([tables[name].ravel() for name in self.declared])
        self.normal = ravel_pytree(normals)[0]
        self._constraint_gradient = ravel_pytree(constraint_gradients)[0]
        self._slope = slope - self._constraint_gradient

    def params_at(self, displacement: Array) -> ClassifierParams:
        """The params moved by raveled relative displacements."""
        moved = jax.tree.map(jnp.add, self.origin, self.by_name(displacement))
        return with_arrays(self.reference, moved)

    def objective(self, displacement: Array) -> Float[Array, ""]:
        """The penalised log-likelihood of the displaced params."""
        return self.problem.objective(self.params_at(displacement))

    def multiplier_of_entries(self, name: str) -> Array:
        """λ of the sum that each entry belongs to; 0 for an entry in no sum."""
        value = self.value[name]
        if name not in self.multipliers:
            return jnp.zeros_like(value)
        return self.multipliers[name][..., self.declared[name].table_of(value.shape[-1])]

    def curvatures(self) -> list[Curvature]:
        """The curvature in the class prior, and in the params of each leaf family."""
        positions, first = {}, 0
        for name, origin in self.origin.items():
            positions[name] = first + np.arange(origin.size).reshape(origin.shape)
            first += origin.size
        blocks = []
        if PRIOR in self.declared:
            prior = positions[PRIOR][:, None]
            blocks.append((prior, np.full(prior.shape, -1), False))
        for prefix, node in leaf_params(self.reference.conditional)[0]:
            names = [prefix + field for field in node.parameters]
            blocks.append(self._blocks(names, positions, node.coupled))
        hessians = self._hessians([layout for layout, *_ in blocks])
        return [
            self._curvature(*own, hessian) for own, hessian in zip(blocks, hessians, strict=True)
        ]

    def _blocks(
        self, names: list[str], positions: dict[str, np.ndarray], coupled: bool
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """The layout, the class of each entry (-1: all), and whether each block has one class."""
        leads = [positions[name].ndim - 1 - self.declared[name].event_ndim for name in names]
        sizes = {positions[name].shape[lead] for name, lead in zip(names, leads, strict=True)}
        separate = len(sizes) == 1  # otherwise classes share a parameter
        at, block, class_of = [], [], []
        for name, lead in zip(names, leads, strict=True):
            shape = positions[name].shape
            leading, event = math.prod(shape[:lead]), math.prod(shape[lead + 1 :])
            of, k, inside = np.indices((leading, shape[lead], event))
            of_class = k if shape[lead] == max(sizes) else k - 1
            k = k if separate else 0 * k
            key = of * max(sizes) + k
            key = key if coupled else key * event + inside
            free = np.ones(shape, bool)
            if self.declared[name].constraint == "lower_cholesky":
                free = np.broadcast_to(np.tril(np.ones(shape[-2:], bool)), shape)
            at.append(positions[name][free])
            block.append(key.ravel()[free.ravel()])
            class_of.append(of_class.ravel()[free.ravel()])
        keys = np.concatenate(block)
        order = np.argsort(keys, kind="stable")
        layout = np.concatenate(at)[order].reshape(len(np.unique(keys)), -1)
        if layout.shape[1] > LARGEST_BLOCK:
            raise ValueError(
                f"{layout.shape[1]} parameters ({', '.join(names)}) depend on each other, more "
                f"than {LARGEST_BLOCK}: the matrix of their curvature would be too large; use "
                'fewer features, or a "diag" or "spherical" covariance'
            )
        return layout, np.concatenate(class_of)[order].reshape(layout.shape), separate

    def _hessians(self, layouts: list[np.ndarray]) -> list[Float[Array, "B b b"]]:
        """The second derivatives within each block of these layouts."""
        position = np.full(len(self.zero), -1)  # of each entry in its block
        for layout in layouts:
            position[layout] = np.arange(layout.shape[1])
        steps = -(-(position.max() + 1) // _COLUMNS)
        together = -(-(position.max() + 1) // steps)

        def columns(found: list[Array], first: Array) -> tuple[list[Array], None]:
            # The i-th entry of every block at once: second derivatives across blocks are 0.
            at = first + jnp.arange(together)
            directions = (position[None] == at[:, None]).astype(self.zero.dtype)
            changes = jax.vmap(self._change_of_slope)(directions)
            pairs = zip(found, layouts, strict=True)
            return [own.at[at].set(changes[:, layout], mode="drop") for own, layout in pairs], None

        start = [jnp.zeros((layout.shape[1], *layout.shape), self.zero.dtype) for layout in layouts]
        found, _ = loops.scan(columns, start, together * jnp.arange(steps))
        return [jnp.moveaxis(own, 0, 2) for own in found]

    def _curvature(
        self, layout: np.ndarray, class_of: np.ndarray, separate: bool, hessian: Array
    ) -> Curvature:
        # In log θ the constraint Σ θ = 1 is curved, which adds λ θ to the diagonal.
        diagonal = self._constraint_gradient[layout]
        curvature = diagonal[:, :, None] * jnp.eye(layout.shape[1], dtype=self.zero.dtype)[None]
        count = self.problem.w.sum(0)
        weight = count[class_of[:, 0]] if separate else jnp.full(len(layout), count.sum())
        slope, information = self._slope[layout], curvature - hessian
        flat = (slope == 0) & (information == 0).all(-1)
        unidentified = flat | ((class_of >= 0) & (count[class_of] == 0))
        return Curvature(layout, slope, information, weight, unidentified)


def _number_tables(p: Parameter, shape: tuple[int, ...], first: int) -> tuple[np.ndarray, int]:
    """The table number of each entry, counted from `first`, and the next free number."""
    of_entry = p.table_of(shape[-1])
    row = np.arange(math.prod(shape[:-1])).reshape(*shape[:-1], 1)
    numbers = first + row * (of_entry[-1] + 1) + of_entry
    return numbers, int(numbers.max(initial=first - 1)) + 1
