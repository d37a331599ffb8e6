"""The models that apply to the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from genclf.families.base import Family
from genclf.families.combined.product import Product
from genclf.families.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.multinomial import Multinomial
from genclf.families.gaussian.gaussian import Gaussian
from genclf.tables.columns import Column
from genclf.tables.features import Codes, Nothing, Numbers, Parts, Reader, Words
from genclf.tables.frames import Table
from genclf.tables.training_words import TrainingWords

RIDGE = 1e-3
# Models whose EM needs more operations per step than this (folds x rows x columns^3 x covariances)
# are skipped: they would take minutes.
MOST_WORK = 2e9


class Candidate(NamedTuple):
    """A model to try: its columns, and its families in order.

    A family is tried only if the one before it failed.

    Attributes:
        name: name of the model.
        features: the columns that it uses, in words.
        read: makes arrays of those columns.
        families: keyed by the suffix that each adds to the name; empty if a fit would take too
            long.
    """

    name: str
    features: str
    read: Reader
    families: Mapping[str, Family]


def candidates(
    table: Table, columns: Sequence[Column], num_classes: int, num_folds: int
) -> list[Candidate]:
    """The class prior alone, models of each kind of column, and one model of all columns."""
    # A column with one value has no information about the class: only the prior is left.
    found = [Candidate("class prior (baseline)", "nothing", Nothing(), {"": Categorical(1)})]
    naive: dict[str, Candidate] = {}
    of_kind = lambda kind: [column for column in columns if column.kind == kind]  # noqa: E731
    if numeric := of_kind("numeric"):
        found += _discriminants(numeric, num_classes, num_folds)
        cells = Gaussian("diag", missing="marginalize")
        read = Numbers.of(numeric, may_miss=True)
        naive["numeric"] = Candidate("Gaussian naive Bayes", _count(numeric), read, _ridged(cells))
    if binary := of_kind("binary"):
        bits: Family = Bernoulli(missing="marginalize")
        naive["binary"] = Candidate(
            "Bernoulli naive Bayes", _count(binary), Codes.of(binary), {"": bits}
        )
    if categorical := of_kind("categorical"):
        codes = Codes.of(categorical)
        family = Categorical(tuple(map(len, codes.values)), missing="marginalize")
        naive["categorical"] = Candidate(
            "categorical naive Bayes", _count(categorical), codes, {"": family}
        )
    for text in of_kind("text"):
        naive[f"text {text.name}"] = Candidate(
            "multinomial naive Bayes",
            f"words of {text.name}",
            Words.of(text, table),
            {"": TrainingWords(Multinomial())},
        )
    found += naive.values()
    if len(naive) > 1:
        found.append(_mixed(naive))
    return found


def _mixed(naive: dict[str, Candidate]) -> Candidate:
    """One naive Bayes model of all columns, from the models of each kind of column."""
    suffixes = max((one.families for one in naive.values()), key=len)
    families = {
        suffix: Product({part: c.families.get(suffix, c.families[""]) for part, c in naive.items()})
        for suffix in suffixes
    }
    readers: dict[str, Any] = {part: one.read for part, one in naive.items()}
    return Candidate("mixed naive Bayes", "all columns", Parts(readers), families)


def _ridged(family: Gaussian) -> dict[str, Family]:
    return {"": family, f", ridge {RIDGE:g}": replace(family, ridge=RIDGE)}


def _discriminants(numeric: list[Column], num_classes: int, num_folds: int) -> list[Candidate]:
    """LDA and QDA; if cells are missing they are fitted by EM, which takes a prior but no ridge."""
    has_missing = any(column.num_missing for column in numeric)
    read, d, n = Numbers.of(numeric, has_missing), len(numeric), len(numeric[0].cells.code)
    found = []
    for name, shared in (("LDA", True), ("QDA", False)):
        if has_missing:
            family = Gaussian(shared=shared, missing="marginalize")
            # A shared covariance needs only one factorisation for all classes.
            work = num_folds * n * d**3 * (1 if shared else num_classes)
            prior = replace(family, prior=NormalInverseWishart())
            both: dict[str, Family] = {"": family, ", prior": prior}
            families = both if work <= MOST_WORK else {}
        else:
            families = _ridged(Gaussian(shared=shared))
        found.append(Candidate(name, _count(numeric), read, families))
    return found


def _count(columns: list[Column]) -> str:
    return f"{len(columns)} {columns[0].kind}" if len(columns) > 1 else columns[0].name
