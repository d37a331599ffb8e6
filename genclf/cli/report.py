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

_WHOLE = 12  # words of so many letters are not cut if there is room for them,
_PART = 6  # and never to fewer letters


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
    of_columns = list(zip((header.lstrip(">") for header in headers), *lines, strict=True))
    least = [max(len(word) for cell in own for word in cell.split() or [""]) for own in of_columns]
    least = [min(width, _WHOLE) for width in least]
    too_wide = sum(least) + 2 * (len(least) - 1) - console.width
    for header, (name, *_), width in zip(headers, of_columns, least, strict=True):
        if header.startswith(">"):  # numbers are never cut
            table.add_column(Text(name), justify="right", width=width)
            continue
        less = min(max(too_wide, 0), max(width - _PART, 0))
        too_wide -= less
        most = width - less if less else None
        table.add_column(Text(name), min_width=width - less, max_width=most, overflow="fold")
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
