"""A model that was fitted to a table, as an estimator of scikit-learn reads such tables."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree, Shaped

from genclf.arguments.domains import SHARE
from genclf.arguments.reprs import summary
from genclf.classifier.by_numpy import (
    fit_by_numpy,
    log_posterior_by_numpy,
    scores_by_numpy,
    sums_by_numpy,
)
from genclf.classifier.calibrated import CalibratedParams
from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.explanation import Explanation, explained
from genclf.classifier.pieces import on_host
from genclf.classifier.scores import log_posterior
from genclf.fitting.fit import fit
from genclf.select.membership.folds_test import FoldsTest
from genclf.tables.arrays import terms_of_columns
from genclf.tables.columns import Column
from genclf.tables.features import dense, features_of
from genclf.tables.frames import Frame, cells_of


@dataclass(eq=False)
class TableModel:
    """A model that was fitted to a table, and how it reads the columns of such tables.

    It is an estimator of scikit-learn: `fit` fits the same model to other rows.

    Attributes:
        name: name of the model.
        classifier: the model.
        params: its fitted params, arrays of NumPy in float64, perhaps with calibrated posteriors.
        classes: the classes, in the order of the model, as the table holds them.
        columns: how the columns are read that the model uses.
        membership: what `typicality` compares rows with; None unless `compare` was asked for it.
    """

    name: str
    classifier: Classifier
    params: ClassifierParams | CalibratedParams
    classes: Shaped[np.ndarray, "K"]
    columns: tuple[Column, ...]
    membership: FoldsTest | None = None

    added_fields: ClassVar = {"membership": None}  # older files lack it

    def __repr__(self) -> str:
        return summary(self)

    def _problems(self) -> list[str]:
        """Messages, each starting with the name of a field, about fields that do not match."""
        found, d, count = [], self.params.num_features, len(self.classes)
        if not self.params.num_classes == self.classifier.num_classes == count:
            found.append(f"classes has {count} classes, but params {self.params.num_classes}")
        parts: dict[str | None, list[Column]] = {} if self.columns else {None: []}
        for column in self.columns:
            parts.setdefault(column.part, []).append(column)
        for part, own in parts.items():
            width = d.get(part) if isinstance(d, dict) else d if part is None else None
            # Each categorical column is one feature, whatever its number of values.
            size = sum(1 if c.is_coded else c.size for c in own) or 1
            if width != size:
                found.append(f"columns have {size} features, but params {d}")
        return found

    def read(self, table: Frame) -> PyTree:
        """The rows of a table as the model takes them, for functions such as `log_marginal`.

        A category or a word that the training table does not have is no evidence, and a missing
        cell is integrated out.

        Args:
            table: a table with the columns that the model uses; others are ignored.

        Raises:
            ValueError: a column is missing or holds cells of another type, a number is infinite, or
                one is missing and the model is LDA or QDA of a table without missing numbers.
        """
        return self._read(table, learning=False)

    def _read(self, table: Frame, *, learning: bool) -> PyTree:
        family = self.classifier.family
        return features_of(cells_of(table, "table"), self.columns, family, learning=learning)

    def log_posterior(self, table: Frame) -> Float[np.ndarray, "n K"]:
        """`log p(class | row)`, natural logarithms; NaN for a row impossible in all classes.

        Args:
            table: as for `read`.
        """
        x = self.read(table)
        if scores_by_numpy(self.params, x):
            return log_posterior_by_numpy(self.params, x)
        with jax.enable_x64(True):
            return np.asarray(log_posterior(self.params, x))

    def predict_log_proba(self, X: Frame) -> Float[np.ndarray, "n K"]:
        """`log p(class | row)`; raise for a row that is impossible in all classes."""
        found = self.log_posterior(X)
        if len(rows := np.flatnonzero(np.isnan(found).any(1))):
            raise ValueError(f"table row {rows[0]} is impossible in all classes under {self.name}")
        return found

    def predict_proba(self, X: Frame) -> Float[np.ndarray, "n K"]:
        """`p(class | row)`, in the order of `classes_`; raise as `predict` does."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, table: Frame) -> Shaped[np.ndarray, "n"]:
        """The most probable class of each row.

        Args:
            table: as for `read`.

        Raises:
            ValueError: a row is impossible in all classes.
        """
        return self.classes[self.predict_log_proba(table).argmax(1)]

    def typicality(self, table: Frame) -> Float[np.ndarray, "n K"]:
        """p-values that each row is of each class, by folds; see `genclf.typicality`.

        Args:
            table: as for `read`.

        Raises:
            ValueError: `compare` was not asked to keep what rows are compared with.
        """
        if self.membership is None:
            raise ValueError(f"{self.name} has no members: give conformal=True to compare")
        with jax.enable_x64(True):
            return np.asarray(jax.device_put(self.membership)(self.read(table)))

    def predict_set(self, table: Frame, alpha: float = 0.05) -> Bool[np.ndarray, "n K"]:
        """Which classes each row may be of: those with `typicality(table) > alpha`.

        A set lacks the class of the row with probability alpha; an empty set says that the row is
        of none of the classes.

        Args:
            table: as for `read`.
            alpha: the level, 0 to 1.

        Raises:
            ValueError: as for `typicality`; or alpha is not from 0 to 1.
        """
        least = SHARE.checked(alpha, "alpha")
        return self.typicality(table) > least

    def score(self, X: Frame, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose most probable class is their label in y."""
        return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))

    def explain(
        self, table: Frame, *, of: Hashable = None, against: Hashable = None
    ) -> Explanation:
        """How much each column contributes to the class of each row; see `genclf.explain`.

        Args:
            table: as for `read`.
            of: a class of `classes`; None for the most probable one other than `against`.
            against: a class of `classes`; None for the most probable one other than `of`.

        Returns:
            `Explanation`, whose `features` have shape (n, d), a term for each of `columns`; the
            term of a text is the sum over its words. `of` and `against` are indices in `classes`.

        Raises:
            ValueError: as for `genclf.explain`, such as for QDA; or there is no such class.
        """
        found = explained(self.params, dense(self.read(table)), self.classes, of, against)
        terms = terms_of_columns(found.features, self.columns)
        names = tuple(str(column.name) for column in self.columns)
        return replace(found, features=terms, feature_names=names)

    @property
    def classes_(self) -> Shaped[np.ndarray, "K"]:
        """The classes, by the name that estimators have."""
        return self.classes

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the columns that the model uses."""
        return np.array([*dict.fromkeys(column.source for column in self.columns)], object)

    def fit(self, X: Frame, y: Any, sample_weight: Any = None) -> TableModel:
        """Fit the same model, with the same columns and values, to the rows of a table.

        Args:
            X: as for `read`.
            y: labels, (n,).
            sample_weight: weight of each row, >= 0, (n,); None for ones.
        """
        classes, number = np.unique(np.asarray(y), return_inverse=True)
        clf = replace(self.classifier, num_classes=len(classes))
        x = self._read(X, learning=True)
        if sums_by_numpy(clf, x):
            w = np.ones(len(number)) if sample_weight is None else np.asarray(sample_weight, float)
            self.params = fit_by_numpy(clf, x, number, w)[1]
        else:
            with jax.enable_x64(True):
                self.params = on_host(fit(clf, x, number, sample_weight))
        self.classifier, self.classes, self.membership = clf, classes, None
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The fields, as parameters of an estimator."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> TableModel:
        """Set fields."""
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(f"{name!r} is not a parameter of TableModel")
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> TableModel:
        """A copy, which `fit` can fit to other rows."""
        return replace(self)

    def __sklearn_is_fitted__(self) -> bool:
        """Always, since it comes from `compare`."""
        return True

    def __sklearn_tags__(self) -> Any:
        """That it is a classifier of tables, with missing cells and text."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(categorical=True, string=True, allow_nan=True),
        )
