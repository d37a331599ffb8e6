"""The pages as notebooks with their outputs, to be read on a forge and opened anywhere."""

import re
from pathlib import Path

import nbformat

HERE = Path(__file__).parent
NOTEBOOKS = HERE / "notebooks"
ROLE = re.compile(r"\{doc\}`(?:([^`<]+) <)?([^`<>]+?)>?`")
HEAD = (
    "*Written by `make docs` from `docs/{name}.md`. "
    'To run it: `pip install "genclf[docs]"`, or from a checkout `pip install ".[docs]"`.*'
)


def pages() -> dict[str, str]:
    """The source of each page that is executed, by its name."""
    text = {path.stem: path.read_text("utf-8") for path in sorted(HERE.glob("*.md"))}
    return {name: source for name, source in text.items() if "file_format: mystnb" in source}


def code_of_page(source: str) -> list[str]:
    """The code cells of a page."""
    cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```$", source, re.M | re.S)
    return [re.sub(r"\A(:.*\n)+", "", cell).strip() for cell in cells]


def code_of_notebook(path: Path) -> list[str]:
    """The code cells of a notebook."""
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source.strip() for cell in cells if cell.cell_type == "code"]


def linked(text: str) -> str:
    """Markdown whose links to other pages lead to their notebooks, or to the page."""
    executed = pages()

    def link(found: re.Match) -> str:
        target = found[2].strip()
        place = f"{target}.ipynb" if target in executed else f"../{target}.md"
        return f"[{found[1] or target}]({place})"

    return ROLE.sub(link, text)


def write(executed: Path) -> None:
    """Write the notebook of each page that was executed, without what changes at every run."""
    NOTEBOOKS.mkdir(exist_ok=True)
    for name in pages():
        notebook = nbformat.read(executed / f"{name}.ipynb", as_version=4)
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        }
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(HEAD.format(name=name)))
        for number, cell in enumerate(notebook.cells):
            cell.id, cell.metadata = str(number), {}
            if cell.cell_type == "markdown":
                cell.source = linked(cell.source)
            else:
                cell.outputs = _shown(cell.outputs)
        nbformat.write(notebook, NOTEBOOKS / f"{name}.ipynb")


def _shown(outputs: list) -> list:
    """All figures, and what was printed, once: warnings tell of the machine, not of the page."""
    printed = [out for out in outputs if out.get("name") == "stdout"]
    # With `nb_merge_streams` the first one holds the text of all.
    return [out for out in outputs if out.get("name") != "stderr" and out not in printed[1:]]
