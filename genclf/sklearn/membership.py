"""p-values of a fitted estimator that rows are of each class, and sets of classes."""

from __future__ import annotations

import abc
from typing import ClassVar

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree

from genclf.arguments.domains import SHARE
from genclf.classifier.classifier import Classifier
from genclf.select.membership.f_test import FTest, f_test
from genclf.select.membership.folds_test import FoldsTest
from genclf.sklearn.attributes import Attributes, only_if
from genclf.sklearn.types import Number, RowsLike


class Membership(Attributes, abc.ABC):
    """The methods of a fitted estimator that ask whether a row is of a class at all."""

    _generative: ClassVar[bool] = True
    _membership: FoldsTest

    @abc.abstractmethod
    def _rows(self, X: RowsLike, *, reset: bool = False) -> PyTree:
        """The rows as the model takes them; raise for invalid ones."""

    @only_if("_generative", "has no density of rows")
    def typicality(self, X: RowsLike) -> Float[np.ndarray, "n K"]:
        """p-values that each row is of each class; see `genclf.typicality`.

        With `conformal=True` they are those by folds, of any model. Else they are those of the F
        distribution, exact for Gaussian classes by maximum likelihood.

        Args:
            X: rows, (n, d).

        Returns:
            p-values from 0 to 1, (n, K): where a row is of class k, that of k is below α with
            probability α. A row whose p-values are all small is of none of the classes.

        Raises:
            ValueError: without `conformal`, the model has no F distribution, or its rows do not
                determine a covariance.
        """
        self._check_fitted()
        x = self._rows(X)
        with jax.enable_x64(True):
            if "membership" not in self._cache:
                self._cache["membership"] = jax.device_put(self._test())
            return np.asarray(self._cache["membership"](x))

    def _test(self) -> FTest | FoldsTest:
        if "_membership" in vars(self):
            return self._membership
        instead = "give conformal=True and fit again, which takes any model"
        if self._stats is None or not isinstance(self._fitted_model, Classifier):
            raise ValueError(f"this fit kept no statistics for p-values: {instead}")
        return f_test(self._fitted_model, jax.device_put(self._stats), instead)

    @only_if("_generative", "has no density of rows")
    def predict_set(self, X: RowsLike, alpha: Number = 0.05) -> Bool[np.ndarray, "n K"]:
        """Which classes each row may be of: those with `typicality(X) > alpha`.

        A set lacks the class of the row with probability alpha. It may hold several classes, or
        none: such a row is of none of them.

        Args:
            X: rows, (n, d).
            alpha: the level, 0 to 1.

        Returns:
            (n, K), in the order of `classes_`: the classes of row i are `classes_[sets[i]]`.

        Raises:
            ValueError: as for `typicality`; or alpha is not from 0 to 1.
        """
        least = SHARE.checked(alpha, "alpha")
        return self.typicality(X) > least
