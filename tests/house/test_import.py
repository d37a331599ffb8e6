"""`import genclf` is light: what few users need is imported where it is needed."""

import sys

import pytest

from tests.processes import run


def imported_by(program):
    return set(run(program + "; import sys; print(*sys.modules)", check=True).stdout.split())


def test_a_name_is_imported_when_it_is_used():
    mine = {name.split(".")[0] for name in imported_by("import genclf; dir(genclf)")}
    assert mine - set(sys.stdlib_module_names) - imported_by("pass") == {"genclf", "lazy_loader"}


def test_all_names_leave_the_heavy_packages_alone():
    base = imported_by("import jax, jaxtyping, numpy, scipy.sparse, scipy.special")
    mine = imported_by("import genclf; [getattr(genclf, name) for name in genclf.__all__]")
    assert "genclf.families.gaussian.gaussian" in mine
    heavy = ("numpyro", "sklearn", "matplotlib", "pandas", "optax", "beartype", "rich", "pyarrow")
    assert {name for name in heavy if name in mine} - base == set()
    # Packages that jax and jaxtyping do not bring along: two.
    mine, base = ({name.split(".")[0] for name in names} for names in (mine, base))
    assert mine - base - set(sys.stdlib_module_names) == {"genclf", "lazy_loader", "wadler_lindig"}


def test_every_module_can_be_imported():
    program = (
        "import pkgutil, importlib, genclf;"
        "names = [m.name for m in pkgutil.walk_packages(genclf.__path__, 'genclf.')];"
        "[importlib.import_module(name) for name in names]"
    )
    assert "genclf.engines.spark" in imported_by(program)


def test_rows_are_read_without_jax():
    program = (
        "from genclf.stream.part import combine; from genclf.stream.reading import host_part;"
        "from genclf.stream.files import Reader; import pyarrow, tqdm"
    )
    assert imported_by(program).isdisjoint({"jax", "sklearn", "pandas"})


@pytest.mark.parametrize(
    "use, package, extra",
    [
        ("import genclf.plot", "matplotlib", "plot"),
        ("import genclf; genclf.plot", "matplotlib", "plot"),
        ("import genclf.sklearn", "scikit-learn", "sklearn"),
        ("import genclf.sklearn", "narwhals", "sklearn"),
        ("from genclf.text import learn_vocabulary; learn_vocabulary(['a b'])", "sklearn", "text"),
        ("import genclf; genclf.save('x', genclf.lda(2))", "safetensors", "files"),
        ("from genclf.tables.arrow_cells import arrow; arrow()", "pyarrow", "stream"),
    ],
)
def test_a_package_that_lacks_is_named_with_its_extra(use, package, extra):
    module = {"scikit-learn": "sklearn"}.get(package, package)
    program = f"import sys; sys.modules[{module!r}] = None; {use}"
    done = run(program)
    name = {"sklearn": "scikit-learn"}.get(package, package)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert last.endswith(f'{name}: pip install "genclf[{extra}]"')


@pytest.mark.slow
def test_the_command_line_is_not_imported():
    mine = imported_by("import genclf")
    assert not any(name.startswith(("genclf.__main__", "genclf.cli")) for name in mine)


@pytest.mark.slow
def test_a_fit_imports_nothing_more():
    program = (
        "import genclf as gcf, numpy as np;"
        "p = gcf.fit(gcf.lda(2), np.eye(2, dtype='float32'), np.arange(2));"
        "gcf.predict(p, np.eye(2))"
    )
    mine = imported_by(program)
    assert mine.isdisjoint({"numpyro", "sklearn", "matplotlib", "pandas", "optax"})
