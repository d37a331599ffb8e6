"""`docs/notes-to-code.md` names functions and tests: they exist."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
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


@pytest.mark.parametrize("name", sections())
def test_formula_has_its_function_and_its_test(name):
    text = sections()[name]
    assert "$$" in text or "|" in text, "no formula"
    code, tests = named("Code", text), named("Test", text)
    assert code and tests
    for full in code:
        module, *path = full.split(".")
        found = importlib.import_module(module)
        for part in path:
            assert hasattr(found, part), full
            found = getattr(found, part)
    for test in tests:
        path, _, function = test.partition("::")
        assert (ROOT / path).is_file(), path
        assert function in functions_of(path), test


def test_every_formula_test_is_on_the_page():
    here = {name for name in functions_of("tests/test_formulas.py") if name.startswith("test_")}
    on_page = re.findall(r"tests/test_formulas\.py::(\w+)", PAGE)
    assert here == {*on_page} - {"test_name"}
