"""The pages as notebooks with their outputs, to be read on a forge and opened anywhere."""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

HERE = Path(__file__).parent
NOTEBOOKS = HERE / "notebooks"
COURSE = "course/"  # the folder of pages to work through, each by itself
ROLE = re.compile(r"\{doc\}`(?:([^`<]+) <)?([^`<>]+?)>?`")
WRITTEN = "*Written by `make docs` from `docs/{name}.md`. "
TO_RUN = 'To run it: `pip install "genclf[docs]"`, or from a checkout `pip install ".[docs]"`.*'
INSTALLS = "Its first cell installs what it needs.*"
INSTALL = '%pip install --quiet "genclf[plot,text]"'
# What folds a cell in JupyterLab, by its tag; in Colab a cell without source is a form.
FOLDED = {
    "hide-cell": {"source_hidden": True, "outputs_hidden": True},
    "hide-input": {"source_hidden": True},
}


def sources() -> dict[str, str]:
    """The source of each page, by its name: its path without the suffix."""
    names = {path.relative_to(HERE).with_suffix("").as_posix(): path for path in HERE.rglob("*.md")}
    return {
        name: names[name].read_text("utf-8")
        for name in sorted(names)
        if not name.startswith(("_build/", "notebooks/"))
    }


def pages() -> dict[str, str]:
    """The source of each page that is executed, by its name."""
    return {name: source for name, source in sources().items() if "file_format: mystnb" in source}


def code_of_page(name: str, source: str) -> list[str]:
    """The code cells of the notebook of a page: those of the page, in the course after another."""
    cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```$", source, re.M | re.S)
    code = [re.sub(r"\A(:.*\n)+", "", cell).strip() for cell in cells]
    return [INSTALL, *code] if name.startswith(COURSE) else code


def code_of_notebook(path: Path) -> list[str]:
    """The code cells of a notebook."""
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source.strip() for cell in cells if cell.cell_type == "code"]


def linked(text: str, name: str) -> str:
    """Markdown of a page, with links to other pages as of its notebook.

    They lead to the other's notebook, or else to the page, and show what Sphinx would.
    """
    found = sources()
    executed = pages()
    folder = posixpath.dirname(name)

    def link(role: re.Match) -> str:
        # As in Sphinx: from the folder of the page, or with a slash from that of the documentation.
        target = posixpath.normpath(posixpath.join("/", folder, role[2].strip())).lstrip("/")
        place = f"notebooks/{target}.ipynb" if target in executed else f"{target}.md"
        heading = re.search(r"^# (.*)$", found.get(target, ""), re.M)
        shown = role[1] or (heading[1].strip() if heading else target)
        return f"[{shown}]({posixpath.relpath(place, posixpath.join('notebooks', folder))})"

    return ROLE.sub(link, text)


def write(executed: Path, with_outputs: Callable[[Any], Any] = lambda notebook: notebook) -> None:
    """Write the notebook of each page that was executed, without what changes at every run.

    Args:
        executed: the folder of the notebooks as they were executed.
        with_outputs: gives the outputs to a notebook that has none, such as from a cache.
    """
    for name in pages():
        notebook = with_outputs(nbformat.read(executed / f"{name}.ipynb", as_version=4))
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        }
        in_course = name.startswith(COURSE)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = linked(cell.source, name)
            else:
                cell.outputs = _shown(cell.outputs)
            cell.metadata = _folds(cell.metadata.get("tags", [])) if in_course else {}
        head = WRITTEN.format(name=name) + (INSTALLS if in_course else TO_RUN)
        first = [nbformat.v4.new_markdown_cell(head)]
        if in_course:
            first.append(nbformat.v4.new_code_cell(INSTALL))
        notebook.cells[:0] = first
        for number, cell in enumerate(notebook.cells):
            cell.id = str(number)
        path = NOTEBOOKS / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)


def _shown(outputs: list) -> list:
    """All figures, and what was printed, once: warnings tell of the machine, not of the page."""
    printed = [out for out in outputs if out.get("name") == "stdout"]
    if printed:
        printed[0].text = "".join(out.text for out in printed)
    return [out for out in outputs if out.get("name") != "stderr" and out not in printed[1:]]


def _folds(tags: list[str]) -> dict:
    """The metadata with which a cell is shown folded, if a tag says so."""
    tag = next((tag for tag in FOLDED if tag in tags), None)
    return {"tags": list(tags), "jupyter": FOLDED[tag], "cellView": "form"} if tag else {}
