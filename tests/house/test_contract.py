"""The contract of a family is what CONTRIBUTING says; pages list those who have a capability."""

import inspect
import re
from pathlib import Path

import pytest

import genclf as gcf
from genclf import families
from genclf.families.capabilities import HasConjugatePrior, HasLinearForm, having
from tests import registry

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
CONTRACT = TEXT.partition("## A family to copy")[2].partition("The library does the following")[0]
IN_MESSAGES = {"needs", "instead", "by_part"}  # what a capability says of itself


def tables():
    """The abstract members of each class, from two tables, and the others, from a third."""
    blocks = [block for block in CONTRACT.split("\n\n") if block.startswith("|")]
    rows = [[line.split("|")[1:4] for line in block.splitlines()[2:]] for block in blocks]
    names = lambda cell: re.findall(r"`(\w+)`", cell)  # noqa: E731
    abstract = {names(kind)[0]: names(last) for kind, _, last in rows[0] + rows[1]}
    others, kind = {kind: [] for kind in abstract}, ""
    for first, members, _ in rows[2]:
        kind = names(first)[0] if names(first) else kind
        others[kind] += names(members)
    return abstract, others


def introduced(kind):
    """The names that a class introduces, and whether each is abstract."""
    known = {name for base in kind.__mro__[1:] for name in vars(base)} | IN_MESSAGES
    return {
        name: getattr(value, "__isabstractmethod__", False)
        for name, value in vars(kind).items()
        if not name.startswith("_") and name not in known
    }


def test_each_member_is_in_a_table_with_what_needs_it():
    abstract, others = tables()
    for name, expected in abstract.items():
        own = introduced(getattr(families, name))
        assert sorted(expected) == sorted(member for member in own if own[member]), name
        assert sorted(others[name]) == sorted(member for member in own if not own[member]), name


def test_the_tables_name_every_class_of_the_contract():
    bases = families.Density, families.Family
    found = {
        name
        for name in families.__all__
        if inspect.isclass(kind := getattr(families, name)) and issubclass(kind, bases)
    }
    assert found == {*tables()[0]}
    members = [introduced(getattr(families, name)) for name in found]
    assert sum(map(len, members)) <= 49 and sum(sum(own.values()) for own in members) <= 17


def test_messages_and_pages_list_the_densities_that_have_a_linear_form():
    listed = having(HasLinearForm)
    assert "GaussianParams with shared=True" in listed and listed.endswith(" have it")
    assert "RowSpaceParams" not in listed and "ProductParams" not in listed
    page = re.sub("[^a-z]", "", gcf.linear_form.__doc__.lower())
    missing = [name for name in re.findall(r"(\w+)Params", listed) if name.lower() not in page]
    assert missing == []


@pytest.mark.slow("product")
@pytest.mark.parametrize("model", registry.having(HasConjugatePrior, registry.FAMILIES), ids=str)
def test_pages_name_the_parameters_of_every_conjugate_prior(model):
    found = gcf.posterior(model.bayesian, gcf.stats(model.bayesian, *model.example("float32")))
    for name in found.interval():
        parameter = name.rpartition(".")[2]
        assert f'"{parameter}"' in type(found).interval.__doc__
        assert re.search(rf"^ +{parameter} ", gcf.bayes.story.__doc__, re.M)
