"""The notebooks beside the pages are current, and run where only the library is."""

import subprocess
import sys

import nbformat
import pytest

from docs import rendered

PAGES = rendered.pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_is_what_make_docs_would_write(name):
    path = rendered.NOTEBOOKS / f"{name}.ipynb"
    assert path.exists(), "make docs writes it"
    assert rendered.code_of_notebook(path) == rendered.code_of_page(PAGES[name]) != []
    found = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    assert found.metadata.kernelspec.name == "python3"
    code = [cell for cell in found.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code) and any(cell.outputs for cell in code)
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    for cell in code:  # what was printed is there once
        assert sum(output.get("name") == "stdout" for output in cell.outputs) <= 1
    prose = "\n".join(cell.source for cell in found.cells if cell.cell_type == "markdown")
    assert "{doc}" not in prose
    source = rendered.linked(PAGES[name].split("---", 2)[2])
    for line in prose.splitlines()[1:]:
        assert line in source, "make docs writes it anew"


def test_there_are_no_others():
    assert {path.stem for path in rendered.NOTEBOOKS.glob("*.ipynb")} == {*PAGES}


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_notebook_lead_somewhere(name):
    text = rendered.linked(PAGES[name])
    for target in rendered.re.findall(r"\]\(([^)#:]+)\)", text):
        assert (rendered.NOTEBOOKS / target).exists() or (rendered.HERE / target).exists(), target


def test_a_notebook_runs_in_another_folder(tmp_path):
    code = rendered.code_of_notebook(rendered.NOTEBOOKS / "files.ipynb")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
