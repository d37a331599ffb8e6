"""The output of the command line: sections, aligned tables, a progress bar."""

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

_WHOLE = 12  # words of so many letters are never cut


def open_console() -> Console:
    """The console of the report; text from a file is never read as markup."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # escape what the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(markup=False, highlight=False)


def say(console: Console, sentence: str, style: str = "") -> None:
    """Print a paragraph; control characters that come from a file are escaped."""
    console.print(printable(sentence), style=style)


def section(console: Console, title: str, explanation: str) -> None:
    """Print a heading and an explanation of what follows."""
    console.print()
    say(console, title, "bold")
    say(console, explanation)


def show_table(console: Console, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print an aligned table; a header that begins with ">" right-aligns its column."""
    table = Table(
        box=SIMPLE_HEAD, show_edge=False, header_style="", pad_edge=False, collapse_padding=True
    )
    lines = [tuple(printable(cell) for cell in row) for row in rows]
    for header, *cells in zip(headers, *lines, strict=True):
        name, right = header.lstrip(">"), header.startswith(">")
        words = max(len(word) for cell in (name, *cells) for word in cell.split() or [""])
        table.add_column(
            Text(name), justify="right" if right else "left", min_width=min(words, _WHOLE)
        )
    for line in lines:
        table.add_row(*map(Text, line))
    console.print(table)


def progress(console: Console) -> Progress:
    """A progress bar that disappears when done; there is none if the output is not a terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
