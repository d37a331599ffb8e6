"""The notebooks beside the pages are current, and run where only the library is."""

import nbformat
import pytest

from docs import rendered
from tests.processes import run

PAGES = rendered.pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_is_what_make_docs_would_write(name):
    path = rendered.NOTEBOOKS / f"{name}.ipynb"
    assert path.exists(), "make docs writes it"
    assert rendered.code_of_notebook(path) == rendered.code_of_page(name, PAGES[name]) != []
    found = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    assert found.metadata.kernelspec.name == "python3"
    code = [cell for cell in found.cells if cell.cell_type == "code"]
    if code[0].source == rendered.INSTALL:  # which did not run
        del code[0]
    assert all(cell.execution_count for cell in code) and any(cell.outputs for cell in code)
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    for cell in code:  # what was printed is there once
        assert sum(output.get("name") == "stdout" for output in cell.outputs) <= 1
    prose = "\n".join(cell.source for cell in found.cells if cell.cell_type == "markdown")
    assert "{doc}" not in prose
    source = rendered.linked(PAGES[name].split("---", 2)[2], name)
    for line in prose.splitlines()[1:]:
        assert line in source, "make docs writes it anew"


def test_there_are_no_others():
    found = {path.relative_to(rendered.NOTEBOOKS) for path in rendered.NOTEBOOKS.rglob("*.ipynb")}
    assert {path.with_suffix("").as_posix() for path in found} == {*PAGES}


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_notebook_lead_somewhere(name):
    text = rendered.linked(PAGES[name], name)
    notebook, page = rendered.NOTEBOOKS / name, rendered.HERE / name
    for target in rendered.re.findall(r"\]\(([^)#:]+)\)", text):
        assert (notebook.parent / target).exists() or (page.parent / target).exists(), target


@pytest.mark.slow
def test_a_notebook_runs_in_another_folder(tmp_path):
    code = rendered.code_of_notebook(rendered.NOTEBOOKS / "files.ipynb")
    done = run("\n".join(code), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Pages that link to each other, one of them in the course, and their executed notebooks."""
    texts = {
        "plain": "# Plain\n",
        "top": "# At the top\n\nTo {doc}`course/1-first`, {doc}`the plain one <plain>`.",
        "course/1-first": "# The first\n\nTo {doc}`../top`, {doc}`/plain`, {doc}`2-next`.",
        "course/2-next": "# The next\n\nBack to {doc}`/course/1-first`.",
    }
    tags = ["hide-cell"], ["hide-input", "remove-stderr"], ["remove-stderr"], []
    monkeypatch.setattr(rendered, "HERE", tmp_path)
    monkeypatch.setattr(rendered, "NOTEBOOKS", tmp_path / "notebooks")
    for name, text in texts.items():
        for path in (tmp_path / name, tmp_path / "executed" / name):
            path.parent.mkdir(parents=True, exist_ok=True)
        head = "" if name == "plain" else "---\nfile_format: mystnb\n---\n\n"
        cells = "".join(
            f"\n```{{code-cell}} python\n:tags: [{', '.join(tag)}]\nprint({i})\n```\n"
            for i, tag in enumerate(tags)
        )
        (tmp_path / f"{name}.md").write_text(f"{head}{text}\n{cells}")
        code = [
            nbformat.v4.new_code_cell(f"print({i})", metadata={"tags": tag}, execution_count=i + 1)
            for i, tag in enumerate(tags)
        ]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text), *code])
        nbformat.write(notebook, tmp_path / "executed" / f"{name}.ipynb")
    rendered.write(tmp_path / "executed")
    return {
        name: nbformat.read(rendered.NOTEBOOKS / f"{name}.ipynb", as_version=4)
        for name in rendered.pages()
    }


def test_pages_in_folders_are_found(site):
    assert [*site] == ["course/1-first", "course/2-next", "top"]
    for name, source in rendered.pages().items():
        path = rendered.NOTEBOOKS / f"{name}.ipynb"
        assert rendered.code_of_notebook(path) == rendered.code_of_page(name, source)
        nbformat.validate(site[name])
        assert f"`docs/{name}.md`" in site[name].cells[0].source


def test_links_between_folders(site):
    def links(name):
        markdown = [cell.source for cell in site[name].cells if cell.cell_type == "markdown"]
        return rendered.re.findall(r"\[(.*?)\]\((.*?)\)", markdown[-1])

    assert links("top") == [("The first", "course/1-first.ipynb"), ("the plain one", "../plain.md")]
    assert links("course/1-first") == [
        ("At the top", "../top.ipynb"),
        ("Plain", "../../plain.md"),
        ("The next", "2-next.ipynb"),
    ]
    assert links("course/2-next") == [("The first", "1-first.ipynb")]
    for name in site:
        for _, target in links(name):
            assert (rendered.NOTEBOOKS / name).parent.joinpath(target).exists()


def test_a_page_of_the_course_installs_what_it_needs_and_folds_its_answers(site):
    head, install, text, *code = site["course/1-first"].cells
    assert (head.cell_type, text.cell_type) == ("markdown", "markdown")
    assert install.cell_type == "code" and install.source == rendered.INSTALL
    assert "pip" not in head.source and not install.outputs and install.execution_count is None
    assert [cell.metadata for cell in code] == [
        {
            "tags": ["hide-cell"],
            "jupyter": {"source_hidden": True, "outputs_hidden": True},
            "cellView": "form",
        },
        {
            "tags": ["hide-input", "remove-stderr"],
            "jupyter": {"source_hidden": True},
            "cellView": "form",
        },
        {},
        {},
    ]
    assert all(cell.metadata == {} for cell in site["top"].cells)
    assert "pip install" in site["top"].cells[0].source
    assert [cell.id for cell in site["top"].cells] == ["0", "1", "2", "3", "4", "5"]
