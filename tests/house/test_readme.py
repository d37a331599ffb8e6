"""The README and the first page run as written: every Python block of each, in order."""

import json
import re
from pathlib import Path

import pytest
from matplotlib.testing.compare import compare_images

from tests.processes import run

README = Path(__file__).parents[2] / "README.md"
PAGES = {"README": README, "index": README.parent / "docs" / "index.md"}

# A process of its own: a reader has JAX's defaults, the tests have stricter ones.
SESSION = """
import contextlib, io, json, sys
import matplotlib
matplotlib.use("agg")
printed = {}
for page, blocks in json.load(sys.stdin).items():
    printed[page], names = [], {"__name__": "__main__"}
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block, page, "exec"), names)
        printed[page].append(out.getvalue())
    if page == "README":
        names["ax"].figure.savefig("readme.png", dpi=80)
json.dump(printed, sys.stdout)
"""


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGES[page].read_text("utf-8"), re.M | re.S)


def promised(block: str) -> list[str]:
    return [line.removeprefix("# -> ") for line in block.splitlines() if line.startswith("# -> ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def outputs(folder) -> dict[str, list[list[str]]]:
    done = run(SESSION, input=json.dumps({page: blocks(page) for page in PAGES}), cwd=folder)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    return {page: [text.splitlines() for text in printed[page]] for page in PAGES}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_quickstart_prints_what_it_says(outputs, page):
    """Character for character.

    Every number is shown to so few digits that rounding on another processor prints the same ones.
    """
    assert len(outputs[page]) == len(blocks(page)) > 0
    for block, lines in zip(blocks(page), outputs[page], strict=True):
        assert lines == promised(block) != []


def test_the_figure_is_the_one_that_is_shown(outputs, folder):
    """Up to the fonts: a class in another place differs by far more."""
    assert (
        compare_images(str(README.parent / "docs/readme.png"), str(folder / "readme.png"), 8)
        is None
    )


def test_links_resolve():
    targets = re.findall(r"\]\(([^)#:]+)\)", README.read_text("utf-8"))
    assert len(targets) > 5
    for target in targets:
        assert (README.parent / target).exists(), target


def test_every_model_is_in_the_table():
    import genclf.classifier.presets
    from genclf.families.base import Family

    table = (README.parent / "docs/models.md").read_text("utf-8").partition("## Conventions")[0]
    presets = [
        n for n in vars(genclf.classifier.presets) if n == "lda" or n == "qda" or n.endswith("_nb")
    ]
    families = [
        name
        for name in genclf.__all__
        if isinstance(getattr(genclf, name), type) and issubclass(getattr(genclf, name), Family)
    ]
    assert len(presets) == 6 and len(families) >= 6
    for name in presets:
        assert f"`{name}`" in table, name
    for name in families:
        assert f"`{name}(" in table, name
