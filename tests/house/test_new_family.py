"""A family comes in by the lines that CONTRIBUTING lists, and by no others.

In a copy of the library, the family to copy comes in once more under another name: its file, and of
each file that the table names, the lines that name the family. Laws and files have to take it, and
the rules of the house to find it everywhere.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
LISTED = CONTRIBUTING.partition("These lines elsewhere")[2].split("\n\n")[1]
LINES = re.findall(r"^\| `([\w./]+)` \| (.+) \|$", LISTED, re.M)
(MODULE,) = re.findall(r"`(genclf/families/[\w/]+\.py)` is one to copy", CONTRIBUTING)
OLD, NEW = Path(MODULE).stem, "arrivals"
NAME = re.compile(rf"\b{OLD.title()}(?=(Params)?\b)")
# The rules of the house, one law, and files.
QUICK = (
    *(
        f"tests/house/test_surface.py::test_every_{rule}"
        for rule in (
            "exported_name_exists_once",
            "public_name_is_exported",
            "exported_name_is_documented",
            "exported_name_is_on_the_api_page",
        )
    ),
    "tests/house/test_layers.py",
    "tests/house/test_contract.py",
    "tests/house/test_readme.py::test_every_model_is_in_the_table",
    f"tests/laws/test_log_lik.py::test_without_smoothing[{NEW}]",
    f"tests/files/test_files.py::test_params_models_and_statistics_come_back[{NEW}]",
)


def renamed(text):
    text = NAME.sub(NEW.title(), text).replace(f".{OLD} ", f".{NEW} ")
    return text.replace(f'"{OLD}"', f'"{NEW}"')


def library_with_it(folder, files):
    """A copy of the library in which these files name the new family beside the old one."""
    for name in ("genclf", "tests", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "notebooks", "_build", "pictures")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    module = folder / MODULE
    module.with_stem(NEW).write_text(renamed(module.read_text()))
    for name in files:
        file = folder / name
        lines = file.read_text().splitlines(keepends=True)
        assert any(map(NAME.search, lines)), name
        file.write_text("".join(a + renamed(a) if NAME.search(a) else a for a in lines))
    return folder


def cases(folder, *arguments):
    """How many cases passed in the copy, and what the run said."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    passed = re.search(r"^(\d+) passed", done.stdout, re.M)
    said = (done.stdout + done.stderr)[-3000:]
    return int(passed[1]) if passed and done.returncode == 0 else 0, said


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return library_with_it(tmp_path_factory.mktemp("library"), dict(LINES))


def test_each_line_of_the_table_is_in_its_file():
    assert len(LINES) >= 5
    for name, words in LINES:
        text = (ROOT / name).read_text()
        for line in re.findall(r"`(.+?)`", words):
            assert line in text, (name, line)


@pytest.mark.slow
def test_it_is_part_of_the_library(library):
    passed, said = cases(library, *QUICK)
    assert passed > 150, said


@pytest.mark.slow
def test_it_obeys_the_laws(library):
    of_it = f"(test_surface or {NEW}) and not {NEW}-"
    passed, said = cases(library, "tests/laws", "tests/house/test_surface.py", "-k", of_it)
    assert passed > 300, said


@pytest.mark.slow
@pytest.mark.parametrize("left_out", dict(LINES))
def test_no_line_can_be_left_out(left_out, tmp_path):
    folder = library_with_it(tmp_path, dict(LINES).keys() - {left_out})
    assert cases(folder, *QUICK)[0] == 0
