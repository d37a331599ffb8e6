"""A module imports from its own package, and from those that CONTRIBUTING lists above it."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in (ROOT / "genclf").rglob("*.py")}
# A folder's own module holds its title, and what of it is public.
FOLDERS = {name for name, path in MODULES.items() if path.name == "__init__.py"}
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PACKAGES = re.findall(r"^\| `([\w.]+)` \|", CONTRIBUTING.partition("## Where things are")[2], re.M)
CORE = PACKAGES[: PACKAGES.index("fitting") + 1]
# These import something below them, or JAX where rows are only read, inside functions.
EXCEPTIONS = {
    "genclf.bayes.generative_story",
    "genclf.cli.compare",
    "genclf.cli.main",
    "genclf.covariance.scale",
    "genclf.families.capabilities",
    "genclf.files.kinds",
    "genclf.stream.part",
    "genclf.stream.predictor",
    "genclf.stream.schema",
    "genclf.tables.kinds",
}


def package_of(module):
    """The folder of a module; of one at the top level its own name."""
    folder, _, name = module.removeprefix("genclf.").rpartition(".")
    return folder or name


def imports(tree):
    """Modules of genclf that are imported anywhere in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("genclf"):
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else node.module for name in inner)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)


IMPORTS = {
    name: set(imports(ast.parse(path.read_text()))) - FOLDERS
    for name, path in MODULES.items()
    if name not in FOLDERS
}


def test_every_module_has_its_package():
    assert len(set(PACKAGES)) == len(PACKAGES)
    assert {package_of(name) for name in IMPORTS} == set(PACKAGES)


def test_modules_import_from_their_package_and_those_above():
    place = {package: i for i, package in enumerate(PACKAGES)}
    for name, used in IMPORTS.items():
        below = [other for other in used if place[package_of(other)] > place[package_of(name)]]
        assert below == [] or name in EXCEPTIONS, (name, below)


def test_the_core_imports_no_application():
    for name, used in IMPORTS.items():
        if package_of(name) in CORE:
            assert [other for other in used if package_of(other) not in CORE] == [], name


def test_no_module_imports_itself_through_others():
    above = {name: set(used) for name, used in IMPORTS.items() if name not in EXCEPTIONS}
    while free := [name for name, used in above.items() if not used & above.keys()]:
        for name in free:
            del above[name]
    assert above == {}


def test_functions_import_nothing_of_the_library():
    for name in MODULES.keys() - EXCEPTIONS:
        tree = ast.parse(MODULES[name].read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert [used for node in functions for used in imports(node)] == [], name


def test_the_first_floor_is_small():
    floor = [path.name for path in (ROOT / "genclf").iterdir() if path.name != "__pycache__"]
    assert len([name for name in floor if "." in name]) <= 8
    assert len([name for name in floor if "." not in name]) <= 20


def test_tests_are_in_the_package_that_they_test():
    tests = {path.parent.relative_to(ROOT / "tests") for path in ROOT.glob("tests/*/**/test_*.py")}
    beside = {"laws", "references", "course", "house"}
    assert {".".join(folder.parts) for folder in tests} - beside <= set(PACKAGES)
    assert [path.name for path in ROOT.glob("tests/test_*.py")] == []


def test_the_files_of_subjects_exist():
    files = re.findall(r"`(tests/.+?)` \|$", CONTRIBUTING.partition("## Where tests are")[2], re.M)
    assert len(files) > 10
    assert [name for name in files if not (ROOT / name).exists()] == []
