"""`python -m genclf compare`: every model that applies to a user's file, on the same folds."""

from __future__ import annotations

import jax
import numpy as np
from rich.console import Console

import genclf as gcf
from genclf.cli.candidates import RIDGE, Candidate, candidates
from genclf.cli.columns import MAX_WORDS, RULES, Column, classes, codes, decide, pop_label
from genclf.cli.crossval import EM_STEPS, Scores, cross_validate, stratified_folds
from genclf.cli.files import InputError, read_table
from genclf.cli.report import open_console, progress, say, section, show_table


def compare(path: str, label: str, num_folds: int, seed: int, separator: str) -> None:
    """Print the cross-validated comparison; `InputError` if the file does not allow it."""
    whole = read_table(path, separator)
    frame, labels = pop_label(whole, label)
    y, class_names = classes(labels)
    num_rows = np.bincount(y)
    alone = _classes_of_one_row(num_rows, class_names, label)
    kept = (num_rows > 1)[y]
    frame, labels = frame[kept], labels[kept]
    y, class_names = classes(labels)
    columns = decide(frame, labels)
    if all(column.kind == "dropped" for column in columns):
        reasons = "; ".join(f"{column.name}: {column.detail}" for column in columns[:5])
        raise InputError(f"no column can be used as a feature ({reasons or 'there is no other'})")

    console = open_console()
    shares = [f"{name} {(y == k).mean():.1%}" for k, name in enumerate(class_names[:6])]
    more = f" and {len(class_names) - 6} more" if len(class_names) > 6 else ""
    section(console, path, f"{len(y)} rows; label {label}: {', '.join(shares)}{more}")
    if len(whole) > len(kept):
        say(
            console,
            f"Left out, without a label: {len(whole) - len(kept)} of {len(whole)} rows.",
        )
    if alone:
        say(
            console,
            f"Left out, classes of one row, which cannot be both learned and tested: "
            f"{_some(alone)}.",
        )
    section(
        console,
        "Columns",
        "The rules; strings repeat if each occurs twice on average. A missing string or category "
        f"is a value of its own, a missing text is empty; the first {MAX_WORDS} words of a text "
        "are read. A missing number is integrated out: no row is dropped because of it.",
    )
    show_table(console, ("read as", "when"), RULES)
    console.print()
    show_table(console, ("column", "read as", "what it holds", ">missing"), map(_row, columns))
    _print_doubts(console, columns, y)

    num_folds, sentence = _possible_folds(y, class_names, num_folds)
    with jax.enable_x64(True):  # a user's numbers may need it, and files are small
        found = candidates(columns, len(class_names), num_folds)
        results = _run(console, found, y, len(class_names), num_folds, seed)
    section(
        console,
        f"Models, {num_folds}-fold cross-validation",
        f"Stratified folds (seed {seed}), the same for all models; best log-loss first. Log-loss "
        "is the mean of -log p(class | row) in nats over rows that the model was not fitted to; "
        "± is the standard error over folds. Smoothing is alpha = 1. The values of a column are "
        "declared from the whole file; everything else is learned from the training rows.",
    )
    if sentence:
        say(console, sentence)
    show_table(
        console,
        ("model", "looks at", ">log-loss", ">±", ">accuracy", ">±"),
        (_score_row(*result) for result in results),
    )
    _print_notes(console, results)


def _classes_of_one_row(num_rows: np.ndarray, class_names: list[str], label: str) -> list[str]:
    """Names of the classes with one row; `InputError` if fewer than two others are left."""
    if len(class_names) < 2:
        raise InputError(
            f"label {label!r} has one class only, {class_names[0]!r}: nothing to tell apart"
        )
    alone = [name for name, count in zip(class_names, num_rows, strict=True) if count == 1]
    if len(class_names) - len(alone) < 2:
        others = len(class_names) - len(alone)
        raise InputError(
            f"{_named(alone)} one usable row, so it cannot be both learned and tested, and "
            f"{others or 'no'} other class is left; merge classes, or collect more rows"
        )
    return alone


def _named(names: list[str]) -> str:
    return f"class {names[0]!r} has" if len(names) == 1 else f"each of {len(names)} classes has"


def _some(names: list[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _print_doubts(console: Console, columns: list[Column], y: np.ndarray) -> None:
    """Print what the user may want to correct in the file."""
    infinite = [f"{c.name} {c.cells.infinite}" for c in columns if c.cells.infinite]
    if infinite:
        say(console, f"Infinite numbers are taken for missing: {_some(infinite)}.")
    telling = [
        column.name
        for column in columns
        if column.kind in ("binary", "categorical") and _renames(column, y)
    ]
    if telling:
        say(
            console,
            f"One value for each class, and one class for each value: {_some(telling)}. If that is "
            "the label under another name, remove it from the file.",
        )


def _renames(column: Column, y: np.ndarray) -> bool:
    """Whether the values are the classes by other names."""
    code, names = codes(column.cells)
    pairs = np.unique(np.stack([code, y]), axis=1).shape[1]
    return pairs == len(names) == len(np.unique(y))


def _row(column: Column) -> tuple[str, ...]:
    return column.name, column.kind, column.detail, str(column.cells.missing.sum() or "")


def _possible_folds(y: np.ndarray, class_names: list[str], num_folds: int) -> tuple[int, str]:
    """The number of folds, at most the size of the largest class, and a note about it."""
    count = np.bincount(y)
    most, asked = int(count.max()), num_folds
    num_folds = min(num_folds, most)
    reduced = (
        f"{num_folds} folds rather than {asked}: no class has more than {most} rows. "
        if num_folds < asked
        else ""
    )
    rare = [f"{class_names[k]} {count[k]}" for k in np.flatnonzero(count < num_folds)]
    return num_folds, reduced + (
        f"Fewer rows than folds: {_some(rare)}. Such a class has no row in some test folds, "
        "but at least one training row for every fold, so its rows are scored like all others."
        if rare
        else ""
    )


Result = tuple[str, str, Scores | str]  # model, features, and scores or why there are none


def _run(
    console: Console,
    found: list[Candidate],
    y: np.ndarray,
    num_classes: int,
    num_folds: int,
    seed: int,
) -> list[Result]:
    """Scores of all candidates, best log-loss first; if a fit fails, the next family is tried."""
    folds = stratified_folds(y, num_folds, seed)
    results: list[Result] = []
    with progress(console) as bar:
        for candidate in bar.track(found, description="fitting"):
            if not candidate.families:
                results.append((candidate.name, candidate.features, "too long"))
            for added, family in candidate.families.items():
                scores = cross_validate(gcf.Classifier(family, num_classes), candidate.x, y, folds)
                singular = bool(scores.singular.any())
                shown = "singular" if singular else scores
                results.append((candidate.name + added, candidate.features, shown))
                if not singular and scores.converged.all():
                    break
    return sorted(results, key=lambda result: _loss(result[2]))


def _loss(scores: Scores | str) -> tuple[bool, float, float]:
    if isinstance(scores, str):
        return True, 0.0, 0.0
    return False, scores.overall("log_loss"), -scores.overall("accuracy")


def _score_row(name: str, features: str, scores: Scores | str) -> tuple[str, ...]:
    if isinstance(scores, str):
        return name, features, scores, "", "", ""
    loss, accuracy = scores.overall("log_loss"), scores.overall("accuracy")
    error = f"{scores.error('log_loss'):.3f}" if np.isfinite(loss) else ""
    return (
        name,
        features,
        f"{loss:.3f}",
        error,
        f"{accuracy:.1%}",
        f"{scores.error('accuracy'):.1%}",
    )


def _print_notes(console: Console, results: list[Result]) -> None:
    shown = [scores for *_, scores in results]
    if "singular" in shown:
        say(
            console,
            "singular: in some fold a covariance is not determined by the training rows (too few "
            "rows, or features that are constant or combinations of others within a class). The "
            f"ridge adds {RIDGE:g} of each feature's variance; the prior, for a fit by EM, is "
            "NormalInverseWishart().",
        )
    if "too long" in shown:
        say(
            console,
            "too long: with a missing number LDA and QDA are fitted by EM, which for so many "
            "columns and rows would take too long. Fill in the numbers, or remove columns.",
        )
    for name, _, scores in results:
        if isinstance(scores, str):
            continue
        if scores.impossible:
            say(
                console,
                f"inf: {name} gave probability 0 to the true class of {scores.impossible} rows.",
            )
        if not scores.converged.all():
            say(
                console,
                f"{name} is not at its maximum in {(~scores.converged).sum()} folds: EM stopped "
                f"after {EM_STEPS} steps.",
            )
