"""How the command line looks: sections, aligned tables, a progress bar."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from genclf.cli.files import printable


def open_console() -> Console:
    """The console of the report; what comes from a file is never read as markup."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # what the terminal cannot show is escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(markup=False, highlight=False)


def say(console: Console, sentence: str, style: str = "") -> None:
    """A paragraph, in which nothing from a file moves the cursor."""
    console.print(printable(sentence), style=style)


def section(console: Console, title: str, explanation: str) -> None:
    """A heading and a sentence on what follows."""
    console.print()
    say(console, title, "bold")
    say(console, explanation)


def show_table(console: Console, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """An aligned table; a header that begins with ">" is of a right-aligned column."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, header_style="", pad_edge=False)
    for header in headers:
        right = header.startswith(">")
        table.add_column(Text(header.lstrip(">")), justify="right" if right else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


def progress(console: Console) -> Progress:
    """A bar that disappears when done, and is not there at all where nobody watches."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
