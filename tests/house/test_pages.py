"""The pages are laid out for reading: lines of code that a screen holds."""

import re
from pathlib import Path

import pytest

from docs import rendered

ROOT = Path(__file__).parents[2]
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


def test_every_page_is_in_one_group_and_the_first_page_says_what_for():
    index = (DOCS / "index.md").read_text("utf-8")
    directive = r"^```\{(table|toctree)\}\n((?::[^\n]*\n)*)\n(.*?)^```$"
    blocks = re.findall(directive, index, re.M | re.S)
    wanted = {
        re.search(r"\| (.*?) \|", text)[1]: re.findall(r"\{doc\}`(.*?)`", text)
        for kind, _, text in blocks
        if kind == "table"
    }
    sidebar = {
        re.search(r":caption: (.*)", options)[1]: text.split()
        for kind, options, text in blocks
        if kind == "toctree"
    }
    assert [*wanted.items()] == [*sidebar.items()]
    pages = [page for group in sidebar.values() for page in group]
    notes = (DOCS / "design/index.md").read_text("utf-8").partition(":maxdepth: 2\n")[2]
    pages += [f"design/{page}" for page in notes.partition("```")[0].split()]
    assert sorted(pages) == sorted({*rendered.sources()} - {"index"})


def test_titles_fit_into_the_sidebar():
    for name, source in rendered.sources().items():
        assert len(re.search(r"^# (.*)$", source, re.M)[1]) <= 31, name
