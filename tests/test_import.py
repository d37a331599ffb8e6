"""`import genclf` is light: what few users need is imported where it is needed."""

import subprocess
import sys


def imported_by(program):
    done = subprocess.run(
        [sys.executable, "-c", program + "; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_name_is_imported_when_it_is_used():
    mine = {name.split(".")[0] for name in imported_by("import genclf; dir(genclf)")}
    assert mine - set(sys.stdlib_module_names) - imported_by("pass") == {"genclf", "lazy_loader"}


def test_all_names_leave_the_heavy_packages_alone():
    base = imported_by("import jax, equinox, jaxtyping, numpy, scipy.sparse, scipy.special")
    mine = imported_by("import genclf; [getattr(genclf, name) for name in genclf.__all__]")
    assert "genclf.families.gaussian.gaussian" in mine
    heavy = ("numpyro", "sklearn", "matplotlib", "pandas", "optax", "beartype", "rich", "pyarrow")
    assert {name for name in heavy if name in mine} - base == set()
    # Packages that jax and equinox do not bring along: one.
    mine, base = ({name.split(".")[0] for name in names} for names in (mine, base))
    assert mine - base - set(sys.stdlib_module_names) == {"genclf", "lazy_loader"}


def test_rows_are_read_without_jax():
    program = (
        "from genclf.stream.part import combine; from genclf.stream.reading import host_part;"
        "from genclf.stream.units import Reader; import pyarrow, tqdm"
    )
    assert imported_by(program).isdisjoint({"jax", "equinox", "sklearn", "pandas"})


def test_the_command_line_is_not_imported():
    mine = imported_by("import genclf")
    assert not any(name.startswith(("genclf.__main__", "genclf.cli")) for name in mine)


def test_a_fit_imports_nothing_more():
    program = (
        "import genclf as gcf, numpy as np;"
        "p = gcf.fit(gcf.lda(2), np.eye(2, dtype='float32'), np.arange(2));"
        "gcf.predict(p, np.eye(2))"
    )
    mine = imported_by(program)
    assert mine.isdisjoint({"numpyro", "sklearn", "matplotlib", "pandas", "optax"})
