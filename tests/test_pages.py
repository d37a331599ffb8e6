"""The pages are laid out for reading: lines of code that a screen holds."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
WIDTH = 78


def code(text: str) -> list[str]:
    """The lines of blocks of code. Directives are not shown, but for cells."""
    blocks = re.findall(r"^(`{3,})([^`\n]*)\n(.*?)^\1$", text, re.M | re.S)
    shown = [body for _, kind, body in blocks if not re.match(r"\{(?!code-cell)", kind)]
    return [line for body in shown for line in body.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_line_of_code_is_cut_off(page):
    assert [line for line in code(page.read_text("utf-8")) if len(line) > WIDTH] == []


def test_lines_of_code_are_found():
    text = "```{code-cell} python\n:tags: []\na\n```\n```{toctree}\nb\n```\n```\nc\n```\n"
    assert code(text) == [":tags: []", "a", "c"]
    assert sum(len(code(page.read_text("utf-8"))) for page in PAGES) > 1000
