"""The order in which CONTRIBUTING says to read the modules is that in which they import."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in (ROOT / "genclf").rglob("*.py")}
# A folder's own module holds its title, and what of it is public.
FOLDERS = {name for name, path in MODULES.items() if path.name == "__init__.py"}


def reading_order():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = re.search("## Where things are.*?```text\n(.*?)```", text, re.DOTALL)[1]
    for line in block.splitlines():
        folder, *names = line.split()
        room = "" if folder == "./" else folder.replace("/", ".")
        yield from (f"genclf.{room}{name}" for name in names)


def imports(tree):
    """Modules of genclf that are imported anywhere in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("genclf"):
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else node.module for name in inner)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)


def test_every_module_has_its_place():
    order = list(reading_order())
    assert len(set(order)) == len(order)
    assert set(order) == MODULES.keys() - FOLDERS


def test_modules_import_from_those_above_alone():
    place = {name: i for i, name in enumerate(reading_order())}
    for name in place:
        used = set(imports(ast.parse(MODULES[name].read_text()))) - FOLDERS
        assert [other for other in used if place[other] >= place[name]] == [], name


# They import a room of heavy packages where it is asked for; JAX is one where rows are only read.
DOORS = {
    "genclf.__main__",
    "genclf.bayes.generative_story",
    "genclf.cli.compare",
    "genclf.families.capabilities",
    "genclf.files.kinds",
    "genclf.stream.part",
    "genclf.stream.schema",
}


def test_functions_import_nothing_of_the_library():
    for name in MODULES.keys() - DOORS:
        tree = ast.parse(MODULES[name].read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert [used for node in functions for used in imports(node)] == [], name


def test_the_first_floor_is_small():
    assert len(list((ROOT / "genclf").glob("*.py"))) <= 20
