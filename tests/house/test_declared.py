"""What is imported is declared: in the dependencies, or in the extra that the message names."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
MODULES = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "genclf").rglob("*.py")}
# The extra of a module or a room; what is not here has the dependencies alone.
NEEDS = {
    "genclf/bayes/program/numpyro_model.py": "bayes",
    "genclf/cli/": "cli",
    "genclf/engines/dask.py": "dask",
    "genclf/engines/partitions.py": "spark",  # Dask asks it for none of Spark's packages
    "genclf/engines/spark.py": "spark",
    "genclf/files/container.py": "files",
    "genclf/files/from_sklearn.py": "sklearn",
    "genclf/multivariate/ranking.py": "ranking",
    "genclf/plot/": "plot",
    "genclf/sklearn/": "sklearn",
    "genclf/stream/": "stream",
    "genclf/tables/arrow_cells.py": "stream",
    "genclf/tables/": "sklearn",
    "genclf/text.py": "text",
}
# Files of rarer kinds are read by what is there; messages name the package, which is in no extra.
NAMED_ALONE = {"genclf/cli/files.py": {"polars", "pyarrow", "zstandard"}}


def packages(requirements):
    """Their packages, with those of the extras among them, by the names that pip compares."""
    for requirement in requirements:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", requirement).groups()
        if name == PROJECT["name"]:
            for extra in extras.split(","):
                yield from packages(EXTRAS[extra])
        else:
            yield re.sub(r"[-_.]+", "-", name).lower()


DEPENDENCIES = {*packages(PROJECT["dependencies"])}


def package_of(module):
    top = module.partition(".")[0]
    return {"sklearn": "scikit-learn"}.get(top, top.replace("_", "-"))


def imports(tree):
    """Packages of others that are imported anywhere, also by `import_module` and `imported`."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "import_module",
            "imported",
        ):
            names = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
        for name in names:
            top = name.partition(".")[0]
            if top != "genclf" and top not in sys.stdlib_module_names:
                yield package_of(name)


USED = {name: {*imports(ast.parse(path.read_text()))} for name, path in MODULES.items()}


def test_what_a_module_imports_is_declared():
    for name, used in USED.items():
        extras = [extra for place, extra in NEEDS.items() if name.startswith(place)]
        declared = DEPENDENCIES.union(*(packages(EXTRAS[extra]) for extra in extras))
        assert used - declared - NAMED_ALONE.get(name, set()) == set(), name


def test_messages_name_an_extra_that_has_the_package():
    found = 0
    for name, path in MODULES.items():
        text = path.read_text()
        asked = re.findall(r'imported\("([\w.]+)", "(\w+)"', text)
        asked += re.findall(r'(\w+): pip install "genclf\[(\w+)\]"', text)
        for module, extra in asked:
            assert package_of(module) in {*packages(EXTRAS[extra])}, (name, module, extra)
            found += 1
    assert found >= 8


def test_what_is_declared_is_imported():
    of_users = EXTRAS.keys() - {"bench", "docs", "scale", "test"}
    declared = DEPENDENCIES.union(*(packages(EXTRAS[extra]) for extra in of_users))
    # jaxlib is JAX's own part; the client of Dask is the user's.
    assert declared - set().union(*USED.values()) == {"jaxlib", "distributed"}
