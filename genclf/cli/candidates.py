"""The models that apply to the columns of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import PyTree

import genclf as gcf
from genclf.cli.columns import Cells, Column, codes, tokens
from genclf.cli.crossval import TrainingWords
from genclf.families.base import Family

RIDGE = 1e-3
MOST_WORK = 2e9  # folds x rows x columns^3 x covariances of an E step: minutes of EM


@dataclass(frozen=True)
class Candidate:
    """A model to try: its features, and its families, each tried if the ones before it failed.

    Attributes:
        name: name of the model.
        features: the columns that it uses, in words.
        x: those columns, as arrays.
        families: keyed by the suffix that each adds to the name; empty if a fit would take too
            long.
    """

    name: str
    features: str
    x: PyTree
    families: Mapping[str, Family]


def candidates(columns: list[Column], num_classes: int, num_folds: int) -> list[Candidate]:
    """The class prior alone, models of each kind of column, and one model of all columns."""
    n = len(columns[0].cells.missing)
    # A column with one value has no information about the class: only the prior is left.
    nothing = np.zeros((n, 1), np.int32)
    found = [Candidate("class prior (baseline)", "nothing", nothing, {"": gcf.Categorical(1)})]
    naive: dict[str, Candidate] = {}
    if numeric := [column for column in columns if column.kind == "numeric"]:
        x = np.stack([_unit_scale(column.cells) for column in numeric], axis=1)
        features = _count(numeric)
        if np.isnan(x).any():
            found += _discriminants_by_em(x, features, num_classes, num_folds)
            cells = gcf.Gaussian("diag", missing="marginalize")
        else:
            found += [
                Candidate("LDA", features, x, _ridged(gcf.Gaussian(shared=True))),
                Candidate("QDA", features, x, _ridged(gcf.Gaussian())),
            ]
            cells = gcf.Gaussian("diag")
        naive["numeric"] = Candidate("Gaussian naive Bayes", features, x, _ridged(cells))
    for kind, name in (("binary", "Bernoulli"), ("categorical", "categorical")):
        if chosen := [column for column in columns if column.kind == kind]:
            coded = [codes(column.cells) for column in chosen]
            family = (
                gcf.Bernoulli()
                if kind == "binary"
                else gcf.Categorical(tuple(len(values) for _, values in coded))
            )
            x = np.stack([code for code, _ in coded], axis=1)
            naive[kind] = Candidate(f"{name} naive Bayes", _count(chosen), x, {"": family})
    for text in (column for column in columns if column.kind == "text"):
        words = {"": TrainingWords(gcf.Multinomial())}
        naive[f"text {text.name}"] = Candidate(
            "multinomial naive Bayes", f"words of {text.name}", tokens(text.cells.value), words
        )
    found += naive.values()
    if len(naive) > 1:
        found.append(_mixed(naive))
    return found


def _mixed(naive: dict[str, Candidate]) -> Candidate:
    """One naive Bayes model of all columns, from the models of each kind of column."""
    rules = max((one.families for one in naive.values()), key=len)
    families = {
        rule: gcf.Product({part: c.families.get(rule, c.families[""]) for part, c in naive.items()})
        for rule in rules
    }
    x = {part: one.x for part, one in naive.items()}
    return Candidate("mixed naive Bayes", "all columns", x, families)


def _ridged(family: gcf.Gaussian) -> dict[str, Family]:
    return {"": family, f", ridge {RIDGE:g}": replace(family, ridge=RIDGE)}


def _discriminants_by_em(
    x: np.ndarray, features: str, num_classes: int, num_folds: int
) -> list[Candidate]:
    """LDA and QDA of rows with missing cells: EM accepts a prior, but no ridge."""
    n, d = x.shape
    found = []
    for name, shared in (("LDA", True), ("QDA", False)):
        family = gcf.Gaussian(shared=shared, missing="marginalize")
        # One elimination serves the classes that share a covariance.
        work = num_folds * n * d**3 * (1 if shared else num_classes)
        prior = replace(family, prior=gcf.NormalInverseWishart())
        families: dict[str, Family] = {"": family, ", prior": prior} if work <= MOST_WORK else {}
        found.append(Candidate(name, features, x, families))
    return found


def _unit_scale(cells: Cells) -> np.ndarray:
    """The numbers divided by a power of two, so that their squares fit in float64.

    This changes no posterior: ridge and prior of a Gaussian are relative to the scale of the data.
    """
    assert cells.number is not None
    _, exponent = np.frexp(np.nanmax(np.abs(cells.number)))
    return np.ldexp(cells.number, -exponent)


def _count(columns: list[Column]) -> str:
    return f"{len(columns)} {columns[0].kind}" if len(columns) > 1 else columns[0].name
