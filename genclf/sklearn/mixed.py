"""An estimator of scikit-learn for tables with columns of several kinds, by naive Bayes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from jaxtyping import PyTree
from sklearn.utils.validation import validate_data

from genclf.arguments.hyperparameters import kind_of
from genclf.families.combined.mixed import mixed_product
from genclf.families.combined.product import Product
from genclf.families.counts.multinomial import Multinomial
from genclf.families.gaussian.gaussian import Gaussian
from genclf.sklearn.columns import Column, arrays_of, as_rows, columns_of
from genclf.sklearn.estimator import FamilyEstimator
from genclf.sklearn.rows import check_names, checked_rows
from genclf.sklearn.types import Flag, Kinds, Number, PriorLike, RowsLike, Seed
from genclf.tables.frames import as_table


class MixedNB(FamilyEstimator):
    """Naive Bayes of a table of numbers, categories, counts and texts, with missing cells.

    Columns are independent within classes: a number is Gaussian, a category has a smoothed
    probability for each value, the columns of counts are one multinomial document, and each text
    is another. Missing numbers and categories are integrated out: no row is dropped, and no cell
    filled in; a missing text is empty. Tables of pandas, polars and others are read by their
    dtypes: strings, categories and booleans are categories, numbers are numbers. A column of
    strings of three words or more on average is text, if the number of distinct strings is above
    50 or above half the number of rows. Arrays are columns of numbers.

    Args:
        alpha: smoothing of categories, counts and words, >= 0.
        ridge: fraction of the pooled within-class variance of a number that is added to its
            variance in each class, >= 0.
        kinds: how columns are read, if not as their dtypes imply: a dict from their names to
            "numeric", "categorical", "count", "text" or "drop", or to the list of values of a
            categorical column.
        class_prior: probabilities of the classes, (K,), in the order of `classes_`; a dict or a
            Series is read by label; None to learn them.
        class_alpha: smoothing of the class prior, >= 0.
        semi_supervised: whether None, NaN and -1 in y stand for no label.

    Attributes:
        classes_: the classes, sorted, (K,).
        columns_: how each column is read: its name, its kind, and the values of a categorical
            column or the vocabulary of a text. Values that do not occur in the training rows count
            as one more value, with the smoothing as its only count. A word that is not in the
            training texts is ignored.
        params_: the fitted `genclf.ClassifierParams`, of NumPy arrays.

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
        "kinds": kind_of(dict, such_as='{"age": "numeric"}', optional=True),
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
        class_prior: PriorLike = None,
        class_alpha: Number = 0.0,
        semi_supervised: Flag = False,
    ):
        """Keep the parameters, which `fit` checks."""
        self.alpha = alpha
        self.ridge = ridge
        self.kinds = kinds
        super().__init__(class_prior, class_alpha, semi_supervised)

    def _rows(self, X: RowsLike, *, reset: bool = False) -> dict[str, PyTree]:
        check_names(X)
        table = as_table(X)
        if reset:
            self._made_by = None if table is None else table.implementation.value
        if table is None:
            if reset and self.kinds is not None:
                raise ValueError("kinds is given, but X is not a table with named columns")
            if not reset and {column.kind for column in self.columns_} != {"numeric"}:
                raise ValueError("X is an array, expected a table, like that of the training rows")
            x = checked_rows(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
            if reset:
                self.columns_ = [Column(number, "numeric", None) for number in range(x.shape[1])]
            return {"numeric": x}
        if not len(table):
            raise ValueError(
                f"Found array with 0 sample(s) (shape={table.shape}) while a minimum of 1 is "
                "required"
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            self.columns_ = columns_of(table, self.kinds)
        return arrays_of(table, self.columns_)

    def _family(self) -> Product:
        values = tuple(len(c.values) + 1 for c in self.columns_ if c.values is not None)
        parts = {column.part for column in self.columns_} - {"drop"}
        return mixed_product(parts, values, alpha=self.alpha, ridge=self.ridge)

    def _terms_of_columns(self, features: PyTree) -> np.ndarray:
        """The term of each column: a text has the sum over its words, a dropped column has 0."""
        found = np.zeros((len(next(iter(features.values()))), len(self.columns_)))
        for part, own in features.items():
            indices = [i for i, column in enumerate(self.columns_) if column.part == part]
            found[:, indices] = own if own.shape[1] == len(indices) else own.sum(1, keepdims=True)
        return found

    def sample(self, n_samples: int = 1, random_state: Seed = None) -> tuple[RowsLike, np.ndarray]:
        """Draw rows and their labels from the fitted model.

        Args:
            n_samples: number of rows.
            random_state: a seed, a `RandomState` or None.

        Returns:
            (X, y), X a table like that of the training rows, without the columns that were
            dropped; None stands for a value that does not occur in the training rows.
        """
        x, y = super().sample(n_samples, random_state)
        return (
            x["numeric"] if self._made_by is None else as_rows(x, self.columns_, self._made_by)
        ), y
