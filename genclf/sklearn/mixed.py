"""An estimator of scikit-learn for tables with columns of several kinds, by naive Bayes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, PyTree
from sklearn.utils.validation import validate_data

from genclf.arguments.hyperparameters import kind_of
from genclf.families.combined.mixed import mixed_product
from genclf.families.combined.product import Product
from genclf.families.counts.multinomial import Multinomial
from genclf.families.gaussian.gaussian import Gaussian
from genclf.sklearn.family_estimator import FamilyEstimator
from genclf.sklearn.labels import check_lengths
from genclf.sklearn.rows import checked_rows
from genclf.sklearn.types import (
    Calibrate,
    Flag,
    Kinds,
    LabelsLike,
    MissingCategory,
    Number,
    PriorLike,
    RowsLike,
    Seed,
    UnseenCategory,
)
from genclf.tables.arrays import arrays_of, column_in, columns_in, terms_of_columns, texts_in
from genclf.tables.choices import MISSING, UNSEEN
from genclf.tables.columns import Column, sizes_of, warn_dropped
from genclf.tables.frames import (
    CellsOf,
    cells_of,
    check_names,
    is_table,
    library_of,
    make_table,
    num_rows,
    take,
)
from genclf.tables.kinds import Reading
from genclf.tables.place import Place
from genclf.tables.words import words_of

_ARRAY = "array"


class MixedNB(FamilyEstimator):
    """Naive Bayes of a table of numbers, categories, counts and texts, with missing cells.

    Columns are independent within classes: a number is Gaussian, a category has a smoothed
    probability for each value, the columns of counts are one multinomial document, and each text
    is another. Missing numbers and categories are integrated out: no row is dropped, and no cell
    filled in; a missing text is empty. The columns of a table are read by the rules of
    `genclf.compare`; a warning names columns that are dropped. Arrays are columns of numbers.

    The first batch of `partial_fit` decides how columns are read: their kinds, values, words and
    bins; `kinds` gives them beforehand. In later batches another value is an error, unless `unseen`
    says otherwise, and other words are left out with a warning.

    Args:
        alpha: smoothing of categories, counts and words, >= 0.
        ridge: fraction of the pooled within-class variance of a number that is added to its
            variance in each class, >= 0.
        kinds: how columns are read, if not by the rules: a dict from their names to "numeric",
            "kernel" (numbers with kernel densities), "count", "categorical", "binary", "binned"
            (numbers in ten bins of about equally many), "text", "date" (its year, month, weekday
            and hour) or "drop", the list of values of a categorical column, or the
            `genclf.text.Vocabulary` of texts.
        missing: "ignore" integrates out a missing category; with "value" it is one more value.
        unseen: the treatment of a category that is not in the training rows: "ignore" takes it for
            no evidence; with "other" it is one more value, with the smoothing as its only count;
            "error" raises. None is "ignore", but "error" in `partial_fit`.
        class_prior: probabilities of the classes, (K,), in the order of `classes_`; a dict or a
            Series is read by label; None to learn them.
        class_alpha: smoothing of the class prior, >= 0.
        semi_supervised: whether None, NaN and -1 in y stand for no label.
        calibrate: "temperature", or "bias" for a bias per class too: posteriors are calibrated on
            rows that a fit without them scored, in ten folds; see `genclf.recalibrate`.
        conformal: whether `typicality` compares rows with the training rows, in the same folds: for
            any model, where its F distribution without them is for Gaussian classes alone.

    Attributes:
        classes_: the classes, sorted, (K,).
        columns_: how each column is read: its name, its kind, its values or words, and what it
            holds or why it was dropped. A word that is not in the training texts is ignored.
        params_: the fitted `genclf.ClassifierParams`, of NumPy arrays; with `calibrate`, they are
            the `params` of `genclf.CalibratedParams`.
        recalibration_: the `genclf.Recalibration`, with `calibrate`: what it gained, and its error.

    Example:
        >>> import pandas as pd
        >>> from genclf.sklearn import MixedNB
        >>> table = pd.DataFrame({
        ...     "weight": [4.1, 3.9, None, 9.8, 10.4, 11.0],
        ...     "colour": ["grey", "black", "grey", "brown", None, "brown"],
        ...     "indoors": [True, True, True, False, True, False],
        ... })
        >>> found = MixedNB().fit(table, ["cat", "cat", "cat", "dog", "dog", "dog"])
        >>> print(found.predict(table.iloc[[2, 4]]))
        ['cat' 'dog']
    """

    _kind: ClassVar = Multinomial
    _domains: ClassVar = {
        "ridge": Gaussian.domains["ridge"],
        "kinds": kind_of(Mapping, such_as='{"age": "numeric"}', optional=True),
        "missing": MISSING,
        "unseen": UNSEEN,
    }

    columns_: list[Column]
    _made_by: str | None

    @property
    def _accepts_missing(self) -> bool:
        return True

    def __init__(
        self,
        alpha: Number = 1.0,
        *,
        ridge: Number = 0.0,
        kinds: Kinds = None,
        missing: MissingCategory = "ignore",
        unseen: UnseenCategory = None,
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
        calibrate: Calibrate = None,
        conformal: Flag = False,
    ):
        self.alpha = alpha
        self.ridge = ridge
        self.kinds = kinds
        self.missing = missing
        self.unseen = unseen
        super().__init__(class_prior, class_alpha, semi_supervised, calibrate, conformal)

    def _training_rows(
        self, X: RowsLike, y: LabelsLike, used: Bool[np.ndarray, "n"], *, reset: bool
    ) -> dict[str, PyTree]:
        check_names(X, "X")
        if not is_table(X):
            if reset and self.kinds is not None:
                raise ValueError("kinds is given, but X is not a table with named columns")
            return super()._training_rows(X, y, used, reset=reset)
        cells = self._cells(X, reset)
        label = cells_of({"y": y}, "y")["y"]
        check_lengths(num_rows(cells), len(label))
        if not used.all():
            at = np.flatnonzero(used)
            cells, label = take(cells, at), label.take(at)
        if reset:
            self._made_by = library_of(X)
            reading = Reading(self.missing, self.unseen, label)
            self.columns_ = list(reading.of_table(cells, self.kinds))
        else:
            self._warn_of_words(cells)
        found = self._arrays(cells, learning=True)
        if reset:
            warn_dropped(self.columns_, stacklevel=4)
        return found

    def _warn_of_words(self, cells: CellsOf) -> None:
        """Warn of words that the texts of the first batch did not have."""
        for column in self.columns_:
            if column.kind == "text":
                texts = texts_in(column_in(cells, column, Place("X")), column, Place("X"))
                if new := sorted({*words_of(texts)} - {*column.values}):
                    warnings.warn(
                        f"{len(new)} words of column {column.name!r}, such as {new[0]!r}, are not "
                        "among those of the first batch and are left out: give its Vocabulary by "
                        "kinds",
                        stacklevel=5,
                    )

    def _rows(self, X: RowsLike, *, reset: bool = False) -> dict[str, PyTree]:
        if is_table(X):
            return self._arrays(self._cells(X, reset=False), learning=False)
        if not reset and {column.kind for column in self.columns_} != {"numeric"}:
            raise ValueError(
                "X is an array, expected a table with named columns, like that of the training "
                'rows: a ColumnTransformer gives one after set_output(transform="pandas")'
            )
        x = checked_rows(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        if reset:
            self._made_by = _ARRAY
            self.columns_ = [Column(number, "numeric", "numeric") for number in range(x.shape[1])]
        return {"numeric": x}

    def _cells(self, X: RowsLike, reset: bool) -> CellsOf:
        """The columns of a table; raise unless its names are those of the training rows."""
        cells = cells_of(X, "X")
        if hasattr(X, "columns") and hasattr(X, "dtypes"):  # scikit-learn knows its names
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.feature_names_in_ = np.array([*cells], object)
            self.n_features_in_ = len(cells)
        return cells

    def _arrays(self, cells: CellsOf, *, learning: bool) -> dict[str, PyTree]:
        if all(column.kind == "drop" for column in self.columns_):
            reasons = "; ".join(f"{c.name}: {c.detail}" for c in self.columns_[:5])
            raise ValueError(f"X has no column to read ({reasons}): give other kinds")
        return arrays_of(cells, self.columns_, Place("X"), learning=learning)

    def _family(self) -> Product:
        return mixed_product(sizes_of(self.columns_), alpha=self.alpha, ridge=self.ridge)

    def _terms_of_columns(self, features: PyTree) -> np.ndarray:
        """The term of each column: a text has the sum over its words, a dropped column has 0."""
        read = [i for i, column in enumerate(self.columns_) if column.kind != "drop"]
        terms = terms_of_columns(features, [self.columns_[i] for i in read])
        found = np.zeros((len(terms), len(self.columns_)))
        found[:, read] = terms
        return found

    def _names_of_terms(self) -> tuple[str, ...] | None:
        if super()._names_of_terms() is None:
            return None
        return tuple(str(column.name) for column in self.columns_)

    def sample(self, n_samples: int = 1, random_state: Seed = None) -> tuple[RowsLike, np.ndarray]:
        """Draw rows and their labels from the fitted model.

        Args:
            n_samples: number of rows.
            random_state: a seed, a `RandomState` or None.

        Returns:
            (X, y), X a table like that of the training rows, without the columns that were
            dropped; None stands for a value that does not occur in the training rows, and a date
            is the first one with the drawn year, month, weekday and hour.
        """
        x, y = super().sample(n_samples, random_state)
        if self._made_by == _ARRAY:
            return x["numeric"], y
        return make_table(columns_in(x, self.columns_), self._made_by), y
