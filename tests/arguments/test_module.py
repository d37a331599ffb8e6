"""The base class of all pytrees: fields are set once, and static ones are part of the structure."""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genclf as gcf
from genclf.arguments.module import Module, field, static


class Base(Module):
    """A class with each kind of field."""

    kind: ClassVar = "base"
    leaf: object
    number: int = static()
    tuned: object = field(default=2, converter=lambda value: 10 * value)


class Longer(Base):
    """A subclass that adds a field."""

    last: object = None


class ByHand(Module):
    """A class with an `__init__` of its own."""

    leaf: object
    half: object

    def __init__(self, leaf):
        self.leaf, self.half = leaf, leaf / 2


class OfByHand(ByHand):
    """A subclass of it."""


def test_fields_are_children_or_structure():
    made = Longer(jnp.ones(3), np.int64(5), last={"a": 1.0})
    assert type(made.number) is int and made.tuned == 20
    leaves, structure = jax.tree_util.tree_flatten_with_path(made)
    assert [jax.tree_util.keystr(path) for path, _ in leaves] == [".leaf", ".tuned", ".last['a']"]
    assert jax.tree.unflatten(structure, [1, 2, 3]) == Longer.of_fields(
        leaf=1, number=5, tuned=2, last={"a": 3}
    )
    other = jax.tree.structure(dataclasses.replace(made, number=6))
    assert structure != other
    assert jax.jit(lambda m: m.leaf.sum() * m.number)(made) == 15


def test_a_field_is_set_once():
    made = Base(1.0, 2)
    for change in (
        lambda: setattr(made, "leaf", 2.0),
        lambda: setattr(made, "other", 2.0),
        lambda: setattr(made, "kind", "other"),
        lambda: delattr(made, "leaf"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot"):
            change()
    assert made == Base(1.0, 2)


def test_an_init_by_hand_is_inherited():
    assert (OfByHand(4.0).leaf, OfByHand(4.0).half) == (4.0, 2.0)
    assert jax.tree.leaves(jax.tree.map(lambda a: a + 1, OfByHand(4.0))) == [5.0, 3.0]


def test_equality_and_hash():
    rows = np.arange(3)
    assert Base(rows, 1) == Base(rows.copy(), 1)
    assert Base(rows, 1) != Base(rows + 1, 1) and Base(rows, 1) != Base(rows, 2)
    assert Base(rows, 1) != Base(rows.astype(float), 1) and Base(rows, 1) != Longer(rows, 1)
    assert hash(Base(1, 2)) == hash(Base(1, 2)) != hash(Base(2, 2))
    assert Base(rows, 1) != Base(0, 1) != Base(rows, 1)


def test_equal_models_have_equal_hashes():
    """A number is what it is worth, whatever holds it."""
    model = gcf.lda(2, ridge=0.5)
    for kind in (float, np.float64, jnp.float32, jnp.array):
        other = gcf.lda(2, ridge=kind(0.5))
        assert model == other == model and hash(model) == hash(other)
        assert model != gcf.lda(2, ridge=kind(0.25))
    of_three, of_all = gcf.Dirichlet(np.ones(3)), gcf.Dirichlet(1.0)
    assert of_three == gcf.Dirichlet(np.ones(3)) and of_three != of_all != of_three
    assert hash(of_three) == hash(gcf.Dirichlet(np.ones(3)))


def test_an_abstract_class_has_no_instances():
    class Abstract(Module):
        @abc.abstractmethod
        def method(self):
            """What is missing."""

    with pytest.raises(TypeError, match="method"):
        Abstract()


def test_the_printed_form_has_what_differs_from_the_defaults():
    assert repr(Base(jnp.ones((2, 3), jnp.float32), 4)) == (
        "Base(leaf=f32[2,3], number=4, tuned=20)"
    )
    assert repr(Longer(np.ones(3), 4)).endswith("tuned=20)")
