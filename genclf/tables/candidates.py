"""The models that apply to the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from genclf.families.base import Family
from genclf.families.combined.mixed import mixed_product
from genclf.families.combined.product import Product
from genclf.families.conjugate.normal_inverse_wishart import NormalInverseWishart
from genclf.families.counts.bernoulli import Bernoulli
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.multinomial import Multinomial
from genclf.families.gaussian.gaussian import Gaussian
from genclf.tables.columns import Column, sizes_of
from genclf.tables.training_words import TrainingWords

PRIOR = "class prior (baseline)"
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
        columns: how it reads them.
        families: keyed by the suffix that each adds to the name; empty if a fit would take too
            long.
    """

    name: str
    features: str
    columns: tuple[Column, ...]
    families: Mapping[str, Family]


def candidates(
    columns: Sequence[Column], num_rows: int, num_classes: int, num_folds: int
) -> list[Candidate]:
    """The class prior alone, models of each kind of column, and one model of all columns."""
    # A column with one value has no information about the class: only the prior is left.
    found = [Candidate(PRIOR, "nothing", (), {"": Categorical(1)})]
    naive = []
    if numeric := _of_kind(columns, "numeric"):
        found += _discriminants(numeric, num_rows, num_classes, num_folds)
        cells = Gaussian("diag", missing="marginalize")
        naive.append(_naive("Gaussian", numeric, _ridged(cells)))
    if kernel := _of_kind(columns, "kernel"):
        family = mixed_product({"kernel": ()}, alpha=1.0, ridge=0.0).parts["kernel"]
        naive.append(_naive("kernel", kernel, {"": family}))
    if binary := _of_kind(columns, "binary"):
        # A missing or another value makes a third one.
        is_bits = all(column.size == 2 for column in binary)
        of_two = Bernoulli(missing="marginalize")
        naive.append(_naive("Bernoulli", binary, {"": of_two if is_bits else _categorical(binary)}))
    if categorical := _of_kind(columns, "categorical", "binned"):
        naive.append(_naive("categorical", categorical, {"": _categorical(categorical)}))
    if count := _of_kind(columns, "count"):
        naive.append(_naive("multinomial", count, {"": Multinomial()}))
    for text in _of_kind(columns, "text"):
        words = f"words of {text.name}"
        families = {"": TrainingWords(Multinomial())}
        naive.append(Candidate("multinomial naive Bayes", words, (text,), families))
    found += naive
    if len(naive) > 1:
        found.append(_mixed([c for c in columns if c.kind != "drop"]))
    return found


def _of_kind(columns: Sequence[Column], *kinds: str) -> tuple[Column, ...]:
    """The columns of these kinds, for a model without parts."""
    return tuple(replace(column, part=None) for column in columns if column.kind in kinds)


def _naive(model: str, columns: tuple[Column, ...], families: Mapping[str, Family]) -> Candidate:
    """A naive Bayes model of columns of one kind."""
    return Candidate(f"{model} naive Bayes", _count(columns), columns, families)


def _categorical(columns: Sequence[Column]) -> Categorical:
    return Categorical(tuple(column.size for column in columns), missing="marginalize")


def _mixed(columns: Sequence[Column]) -> Candidate:
    """One naive Bayes model of all columns, that of `MixedNB`."""

    def family(ridge: float) -> Product:
        whole = mixed_product(sizes_of(columns), alpha=1.0, ridge=ridge)
        texts = {column.part for column in columns if column.kind == "text"}
        parts = {
            name: TrainingWords(own) if name in texts and isinstance(own, Multinomial) else own
            for name, own in whole.parts.items()
        }
        return Product(parts)

    has_numbers = any(column.kind == "numeric" for column in columns)
    families: dict[str, Family] = {"": family(0.0)}
    families |= {f", ridge {RIDGE:g}": family(RIDGE)} if has_numbers else {}
    return Candidate("mixed naive Bayes", "all columns", tuple(columns), families)


def _ridged(family: Gaussian) -> dict[str, Family]:
    return {"": family, f", ridge {RIDGE:g}": replace(family, ridge=RIDGE)}


def _discriminants(
    numeric: tuple[Column, ...], num_rows: int, num_classes: int, num_folds: int
) -> list[Candidate]:
    """LDA and QDA; if cells are missing they are fitted by EM, which takes a prior but no ridge."""
    has_missing = any(column.num_missing for column in numeric)
    d = sum(column.width for column in numeric)
    found = []
    for name, shared in (("LDA", True), ("QDA", False)):
        if has_missing:
            family = Gaussian(shared=shared, missing="marginalize")
            # A shared covariance needs only one factorisation for all classes.
            work = num_folds * num_rows * d**3 * (1 if shared else num_classes)
            prior = replace(family, prior=NormalInverseWishart())
            both: dict[str, Family] = {"": family, ", prior": prior}
            families = both if work <= MOST_WORK else {}
        else:
            families = _ridged(Gaussian(shared=shared))
        found.append(Candidate(name, _count(numeric), numeric, families))
    return found


def _count(columns: Sequence[Column]) -> str:
    if len(columns) == 1:
        return f"column {columns[0].name}"
    kinds = {column.kind for column in columns}
    return f"{len(columns)} {' or '.join(sorted(kinds, reverse=True))}"
