"""`docs/notes-to-code.md` names functions, tests and pages: they exist."""

import ast
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest

from docs import rendered

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "notes-to-code.md").read_text("utf-8")


def sections() -> dict[str, str]:
    """The text of each formula, by its heading."""
    parts = re.split(r"^### (.*)$", PAGE, flags=re.M)[1:]
    return {
        name: text.partition("\n## ")[0] for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def named(kind: str, text: str) -> list[str]:
    """What stands in backticks on the line `- kind: ...`."""
    return re.findall(r"`([^`]+)`", "".join(re.findall(rf"^- {kind}: (.*)$", text, re.M)))


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_page_has_formulas():
    assert len(sections()) >= 25


def exists(test):
    path, _, function = test.partition("::")
    assert (ROOT / path).is_file(), path
    assert function in functions_of(path), test


@pytest.mark.parametrize("name", sections())
def test_formula_has_its_function_its_test_and_its_page(name):
    text = sections()[name]
    assert "$$" in text or "|" in text, "no formula"
    code, tests = named("Code", text), named("Test", text)
    assert code and tests
    for full in code:
        pkgutil.resolve_name(full)
    for test in tests:
        exists(test)
    (page,) = re.findall(r"\{doc\}`([^`]+)`", "".join(re.findall(r"^- Page: (.*)$", text, re.M)))
    assert page in set(rendered.sources()), page


@pytest.mark.parametrize("file", ["test_formulas", "test_course"])
def test_every_test_of_a_formula_is_on_the_page(file):
    here = {name for name in functions_of(f"tests/course/{file}.py") if name.startswith("test_")}
    assert here == {*re.findall(rf"tests/course/{file}\.py::(\w+)", PAGE)}


def test_what_texts_print_differently_is_shown():
    items = PAGE.partition("## What texts print differently")[2].partition("\n## ")[0]
    rows = [line for line in items.splitlines() if line.startswith("- ")]
    assert len(rows) >= 7
    for row in rows:
        (test,) = re.findall(r"`(tests/[^`]+)`", row)
        exists(test)
