"""`python -m genclf compare`: every model that applies to a user's file, on the same folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd
from jaxtyping import PyTree
from rich.console import Console

import genclf as gcf
from genclf.cli.columns import (
    MAX_WORDS,
    RULES,
    Column,
    InputError,
    codes,
    decide,
    pop_label,
    read_file,
    tokens,
)
from genclf.cli.crossval import Scores, TrainingWords, cross_validate, stratified_folds
from genclf.cli.report import open_console, progress, section, show_table
from genclf.families.base import Family

RIDGE = 1e-3


@dataclass(frozen=True)
class Block:
    """Columns of one kind as an array, and the family of their naive Bayes model."""

    features: str
    x: PyTree
    model: str
    family: Family


@dataclass(frozen=True)
class Candidate:
    """A model to try: what it looks at, and its family, given a ridge for its covariances."""

    name: str
    features: str
    x: PyTree
    family: Callable[[float], Family]


def compare(path: str, label: str, num_folds: int, seed: int, separator: str) -> None:
    """Print the cross-validated comparison; `InputError` where the file does not allow it."""
    whole = read_file(path, separator)
    frame, labels = pop_label(whole, label)
    columns, frame = decide(frame)
    y, class_names = codes(labels[frame.index])
    num_folds, reduced = _possible_folds(y, class_names, num_folds, label)
    if all(column.kind == "dropped" for column in columns):
        reasons = "; ".join(f"{column.name}: {column.detail}" for column in columns[:5])
        raise InputError(f"no column can be used as a feature ({reasons or 'there is no other'})")

    console = open_console()
    shares = [f"{name} {(y == k).mean():.1%}" for k, name in enumerate(class_names[:6])]
    more = f" and {len(class_names) - 6} more" if len(class_names) > 6 else ""
    section(console, path, f"{len(y)} rows; label {label}: {', '.join(shares)}{more}")
    if len(y) < len(whole):
        console.print(
            f"{len(whole) - len(y)} of {len(whole)} rows were left out: "
            f"{len(whole) - len(labels)} without a label, {len(labels) - len(y)} with a missing or "
            f"infinite number{_worst(columns)}. Fill those in, or remove columns, to keep the rows."
        )
    section(
        console,
        "Columns",
        "What decides; strings repeat if each occurs twice on average. A missing string or "
        f"category is a value of its own, a missing text is empty; the first {MAX_WORDS} words of "
        "a text are read.",
    )
    show_table(console, ("read as", "when"), RULES)
    console.print()
    show_table(console, ("column", "read as", "what it holds", ">missing"), map(_row, columns))

    with jax.enable_x64(True):  # a user's numbers may need it, and files are small
        blocks = _blocks(frame, columns)
        results = _run(console, _candidates(blocks, len(y)), y, len(class_names), num_folds, seed)
    section(
        console,
        f"Models, {num_folds}-fold cross-validation",
        f"Stratified folds (seed {seed}), the same for all models; best log-loss first. Log-loss "
        "is the mean of -log p(class | row) in nats over rows that the model was not fitted to; "
        "± is the standard error over folds. Smoothing is alpha = 1. The values of a column are "
        "declared from the whole file; everything else is learned from the training rows.",
    )
    if reduced:
        console.print(reduced)
    show_table(
        console,
        ("model", "looks at", ">log-loss", ">±", ">accuracy", ">±"),
        (_score_row(*result) for result in results),
    )
    _print_notes(console, results)


def _worst(columns: list[Column]) -> str:
    """The numeric columns with the most missing cells, in brackets."""
    short = [column for column in columns if column.kind == "numeric" and column.missing]
    short.sort(key=lambda column: -column.missing)
    named = [f"{column.name} {column.missing}" for column in short[:3]]
    return f" ({', '.join(named)}{', ...' if len(short) > 3 else ''})" if named else ""


def _row(column: Column) -> tuple[str, ...]:
    return column.name, column.kind, column.detail, str(column.missing or "")


def _possible_folds(
    y: np.ndarray, class_names: list[str], num_folds: int, label: str
) -> tuple[int, str]:
    """The number of folds in which every class has a row, and a sentence if it was reduced."""
    if len(class_names) < 2:
        raise InputError(
            f"label {label!r} has one class only, {class_names[0]!r}: nothing to tell apart"
        )
    count = np.bincount(y)
    rare = int(count.argmin())
    if count[rare] < 2:
        raise InputError(
            f"class {class_names[rare]!r} has one usable row, so it cannot be both learned and "
            "tested; remove it, merge it with another class, or collect more"
        )
    if count[rare] >= num_folds:
        return num_folds, ""
    return int(count[rare]), (
        f"{count[rare]} folds rather than {num_folds}: class {class_names[rare]} has "
        f"{count[rare]} rows, and every fold needs one."
    )


def _blocks(frame: pd.DataFrame, columns: list[Column]) -> dict[str, Block]:
    """The usable columns by kind; each text is a block of its own."""
    by_kind: dict[str, list[str]] = {}
    for column in columns:
        by_kind.setdefault(column.kind, []).append(column.name)
    blocks = {}
    if names := by_kind.get("numeric"):
        x = frame[names].to_numpy(np.float64)
        blocks["numeric"] = Block(_count(names, "numeric"), x, "", gcf.Gaussian())
    if names := by_kind.get("binary"):
        x = np.stack([codes(frame[name])[0] for name in names], axis=1)
        blocks["binary"] = Block(_count(names, "binary"), x, "Bernoulli", gcf.Bernoulli())
    if names := by_kind.get("categorical"):
        coded = [codes(frame[name]) for name in names]
        x = np.stack([code for code, _ in coded], axis=1)
        family = gcf.Categorical(tuple(len(values) for _, values in coded))
        blocks["categorical"] = Block(_count(names, "categorical"), x, "categorical", family)
    for name in by_kind.get("text", []):
        words = TrainingWords(gcf.Multinomial())
        blocks[f"text {name}"] = Block(
            f"words of {name}", tokens(frame[name]), "multinomial", words
        )
    return blocks


def _count(names: list[str], kind: str) -> str:
    return f"{len(names)} {kind}" if len(names) > 1 else names[0]


def _candidates(blocks: dict[str, Block], n: int) -> list[Candidate]:
    # A column with one value says nothing about the class: what is left is the prior.
    nothing = np.zeros((n, 1), np.int32)
    found = [Candidate("class prior (baseline)", "nothing", nothing, _fixed(gcf.Categorical(1)))]
    for name, block in blocks.items():
        if name != "numeric":
            found.append(
                Candidate(
                    f"{block.model} naive Bayes", block.features, block.x, _fixed(block.family)
                )
            )
            continue
        found += [
            Candidate("LDA", block.features, block.x, lambda r: gcf.Gaussian(shared=True, ridge=r)),
            Candidate("QDA", block.features, block.x, lambda r: gcf.Gaussian(ridge=r)),
            Candidate("Gaussian naive Bayes", block.features, block.x, _diagonal),
        ]
    if len(blocks) > 1:

        def mixed(ridge: float) -> Family:
            families = {name: block.family for name, block in blocks.items()}
            return gcf.Product(
                families | ({"numeric": _diagonal(ridge)} if "numeric" in blocks else {})
            )

        x = {name: block.x for name, block in blocks.items()}
        found.append(Candidate("mixed naive Bayes", "all columns", x, mixed))
    return found


def _fixed(family: Family) -> Callable[[float], Family]:
    return lambda ridge: family


def _diagonal(ridge: float) -> Family:
    return gcf.Gaussian(covariance="diag", ridge=ridge)


Result = tuple[str, str, Scores | None]  # model, what it looks at; None: not determined


def _run(
    console: Console,
    candidates: list[Candidate],
    y: np.ndarray,
    num_classes: int,
    num_folds: int,
    seed: int,
) -> list[Result]:
    """All candidates, best log-loss first; a singular one is reported, and tried with a ridge."""
    folds = stratified_folds(y, num_folds, seed)
    results: list[Result] = []
    with progress(console) as bar:
        for candidate in bar.track(candidates, description="fitting"):
            for ridge in (0.0, RIDGE):
                clf = gcf.Classifier(candidate.family(ridge), num_classes)
                scores = cross_validate(clf, candidate.x, y, folds)
                name = candidate.name + (f", ridge {ridge:g}" if ridge else "")
                singular = bool(scores.singular.any())
                results.append((name, candidate.features, None if singular else scores))
                if not singular:
                    break
    return sorted(results, key=lambda result: _loss(result[2]))


def _loss(scores: Scores | None) -> tuple[bool, float, float]:
    if scores is None:
        return True, 0.0, 0.0
    return False, scores.overall("log_loss"), -scores.overall("accuracy")


def _score_row(name: str, features: str, scores: Scores | None) -> tuple[str, ...]:
    if scores is None:
        return name, features, "singular", "", "", ""
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
    if any(scores is None for *_, scores in results):
        console.print(
            "singular: in some fold a covariance is not determined by the training rows (too few "
            "rows, or features that are constant or combinations of others within a class). The "
            f"row with a ridge adds {RIDGE:g} of each feature's variance."
        )
    for name, _, scores in results:
        if scores is not None and scores.impossible:
            console.print(
                f"inf: {name} gave probability 0 to the true class of {scores.impossible} rows."
            )
