"""`python -m genclf compare`: print the result of `genclf.compare` for a user's file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genclf.cli.files import InputError, read_table
from genclf.cli.report import open_console, progress, say, section, show_table
from genclf.tables.columns import RULES
from genclf.tables.comparison import compare
from genclf.tables.features import MAX_WORDS
from genclf.tables.labels import TableError
from genclf.tables.trials import ModelScore


def print_comparison(
    path: str, label: str, num_folds: int, seed: int, separator: str | None, html: str | None
) -> None:
    """Print the cross-validated comparison; `InputError` if the file cannot be used.

    Args:
        path: the file.
        label: the column to predict.
        num_folds: number of folds.
        seed: seed of the shuffle of the folds.
        separator: the separator of columns; None for the one that the file name extension implies.
        html: the path of an HTML page to write too; None for no page.
    """
    table = read_table(path, separator, label)
    console = open_console()
    with progress(console) as bar:
        task = bar.add_task("fitting", total=None)
        advance = lambda done, total: bar.update(task, completed=done, total=total)  # noqa: E731
        try:
            found = compare(table, label, num_folds=num_folds, seed=seed, progress=advance)
        except TableError as error:
            one = len(table.columns) == 1 and label not in table.columns
            hint = "; is the separator another one (--sep)?" if one else ""
            raise InputError(f"{error}{hint}") from None

    shares = [f"{name} {share:.1%}" for name, share in found.shares.items()]
    more = f" and {len(shares) - 6} more" if len(shares) > 6 else ""
    section(console, path, f"{found.num_rows} rows; label {label}: {', '.join(shares[:6])}{more}")
    section(
        console,
        "Columns",
        'These rules decide how a column is read. Strings "repeat" if each distinct string occurs '
        "twice or more on average. A missing string or category is a value of its own, a missing "
        f"text is empty; the first {MAX_WORDS} words of a text are read. A missing number is "
        "integrated out: no row is dropped because of it.",
    )
    show_table(console, ("read as", "when"), RULES)
    console.print()
    show_table(
        console,
        ("column", "read as", "what it holds", ">missing"),
        ((c.name, c.kind, c.detail, str(c.num_missing or "")) for c in found.columns),
    )
    section(
        console,
        f"Models, {found.num_folds}-fold cross-validation",
        f"Stratified folds (seed {seed}), the same for all models; best log-loss first. Log-loss "
        "is the mean of -log p(class | row) in nats over rows that the model was not fitted to; "
        "± is the standard error over folds. Smoothing is alpha = 1. The values of a column are "
        "declared from the whole file; everything else is learned from the training rows.",
    )
    headers = ("model", "looks at", ">log-loss", ">±", ">accuracy", ">±")
    show_table(console, headers, map(_line, found.models))
    for note in found.notes:
        console.print()
        say(console, note)
    if html is not None:
        from genclf.cli.page import write_page

        lines = map(_line, found.models)
        write_page(html, found, table, lines, title=Path(path).name, label=label, seed=seed)
        console.print()
        say(console, f"The report is in {html}.")


def _line(score: ModelScore) -> tuple[str, ...]:
    if score.problem:
        return score.model, score.features, score.problem, "", "", ""
    return (
        score.model,
        score.features,
        f"{score.log_loss:.3f}",
        f"{score.log_loss_error:.3f}" if np.isfinite(score.log_loss) else "",
        f"{score.accuracy:.1%}",
        f"{score.accuracy_error:.1%}",
    )
