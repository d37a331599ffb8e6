"""`python -m genclf compare`: print the result of `genclf.compare` for a user's file."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from genclf.cli.files import InputError, table_of
from genclf.cli.report import open_console, progress, say, section, show_table
from genclf.files.save import save
from genclf.tables.candidates import PRIOR
from genclf.tables.cells import some
from genclf.tables.comparison import Comparison, compare
from genclf.tables.rules import RULES
from genclf.tables.trials import ModelScore

HEADERS = "model", "looks at", "log-loss", "±", "Brier", "accuracy", "±", "bal. acc."
GAINS = "model", "log-loss", "calibrated", "gain", "±", "temperature"
CALIBRATED = (
    "The log-loss after a temperature and a bias for each class, fitted to the held-out rows of "
    "the other folds (genclf.recalibrate). A gain below two of its standard errors over the folds "
    "may as well be a loss for other rows. Above 1, the temperature says that posteriors were too "
    "near 0 and 1. It has no maximum where no row is on the wrong side."
)
RARE = 0.1  # share of a class below which average precision tells more than the area,
RARELY = 0.5  # if it is below this part of an equal share


def print_comparison(options: Namespace) -> None:
    """Print the cross-validated comparison; `InputError` if the file cannot be used.

    Args:
        options: those of the command line, by their names.
    """
    path, label, seed = options.file, options.label, options.seed
    table = table_of(options, label)
    console = open_console()
    with progress(console) as bar:
        task = bar.add_task("fitting", total=None)
        advance = lambda done, total: bar.update(task, completed=done, total=total)  # noqa: E731
        try:
            found = compare(
                table.columns,
                label,
                drop=options.drop,
                kinds=dict(options.kind),
                weights=options.weights,
                missing=options.missing,
                num_folds=options.folds,
                conformal=options.save is not None,
                seed=seed,
                progress=advance,
            )
        except ValueError as error:
            raise InputError(f"{error}{_hint(table.columns, label)}") from None

    shares = [f"{name} {share:.1%}" for name, share in found.shares.items()]
    section(console, path, f"{found.num_rows} rows; label {label}: {some(shares, 6)}")
    section(
        console,
        "Columns",
        'These rules decide how a column is read. Strings "repeat" if each distinct string occurs '
        "twice or more on average. A missing cell is integrated out: no row is dropped because of "
        "it. A missing text is empty.",
    )
    show_table(console, ("read as", "when"), RULES)
    console.print()
    show_table(
        console,
        ("column", "read as", "what it holds", ">missing"),
        ((str(c.name), c.kind, c.detail, str(c.num_missing or "")) for c in found.columns),
    )
    for remark in table.remarks:
        console.print()
        say(console, remark)
    section(
        console,
        f"Models, {found.num_folds}-fold cross-validation",
        f"Stratified folds (seed {seed}), the same for all models; best log-loss first. Log-loss "
        "is the mean of -log p(class | row) in nats over rows that the model was not fitted to, "
        "Brier that of the sum of (p(k | row) - [class = k])^2 over classes; ± is the standard "
        "error over folds. Smoothing is alpha = 1. The values of a column, "
        "edges of bins and scales of softmax regression are those of the whole file; everything "
        "else is learned from the training rows.",
    )
    rank, lines = lines_of(found)
    show_table(console, (*HEADERS[:2], *(f">{name}" for name in (*HEADERS[2:], rank))), lines)
    section(console, "Calibrated posteriors", CALIBRATED)
    gains = gains_of(found)
    show_table(console, (*GAINS[:1], *(f">{name}" for name in GAINS[1:])), gains)
    for note in found.notes:
        console.print()
        say(console, note)
    if options.html is not None:
        from genclf.cli.page import write_page

        names = {"title": Path(path).name, "label": label, "seed": seed}
        calibrated = GAINS, gains, CALIBRATED
        write_page(options.html, found, table, (*HEADERS, rank), lines, calibrated, **names)
        console.print()
        say(console, f"The report is in {options.html}.")
    if options.save is not None:
        try:
            save(options.save, found.best)
        except OSError as error:
            raise InputError(f"{options.save}: {error.strerror}") from None
        console.print()
        say(
            console,
            f"{found.best.name}, fitted to all rows, is in {options.save}: python -m genclf "
            f"predict {options.save} FILE.",
        )


def _hint(columns: Any, label: str) -> str:
    """What to try if the columns of a file are not those that its label suggests."""
    if isinstance(columns, dict) and len(columns) == 1:
        return "; is the separator another one (--sep)?"
    if isinstance(columns, dict) and label.isdecimal() and label not in columns:
        return f"; if the first line is a row, --no-header makes {label} the number of a column"
    return ""


def lines_of(found: Comparison) -> tuple[str, list[tuple[str, ...]]]:
    """The header of the score of ranks, average precision if a class is rare; and all lines."""
    shares = found.shares
    rarest = min(shares, key=lambda name: shares[name])
    if shares[rarest] < min(RARE, RARELY / len(shares)):
        return f"avg. precision of {rarest}", [_line(m, m.average_precision) for m in found.models]
    return "AUC", [_line(model, model.auc) for model in found.models]


def gains_of(found: Comparison) -> list[tuple[str, ...]]:
    """The rows of the table of calibrated posteriors: of the models that can be calibrated."""
    return [
        (score.model, f"{score.log_loss:.3f}", *_gain(score))
        for score in found.models
        if score.model != PRIOR and np.isfinite(score.log_loss_calibrated)
    ]


def _gain(score: ModelScore) -> tuple[str, str, str, str]:
    if np.isnan(score.temperature):
        return "", "", "", "no maximum"
    return (
        f"{score.log_loss_calibrated:.3f}",
        f"{score.log_loss - score.log_loss_calibrated:+.3f}",
        f"{score.gain_error:.3f}",
        f"{score.temperature:.2f}",
    )


def _line(score: ModelScore, of_ranks: float) -> tuple[str, ...]:
    if score.problem:
        return score.model, score.features, score.problem, *[""] * 6
    return (
        score.model,
        score.features,
        f"{score.log_loss:.3f}",
        f"{score.log_loss_error:.3f}" if np.isfinite(score.log_loss) else "",
        f"{score.brier:.3f}",
        f"{score.accuracy:.1%}",
        f"{score.accuracy_error:.1%}",
        f"{score.balanced_accuracy:.1%}",
        f"{of_ranks:.3f}",
    )
