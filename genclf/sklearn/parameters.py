"""Parameters of estimators: their names, their domains, and what an iteration that stops warns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

# This class has no public name, and `check_param_validation` of scikit-learn accepts no other.
from sklearn.utils._param_validation import InvalidParameterError

from genclf.arguments.domains import FLAG, Domain, one_of, shown
from genclf.arguments.hyperparameters import Declared
from genclf.classifier.classifier import Classifier

_OF_CLASSES: Mapping[str, Domain] = {
    "class_alpha": Classifier.domains["class_alpha"],
    "class_prior": Domain(
        "probabilities of the classes, as an array, or by label in a dict or a Series; or None",
        lambda given: isinstance(given, Mapping) or np.ndim(given) > 0,
        optional=True,
    ),
    "semi_supervised": FLAG,
    "calibrate": one_of("temperature", "bias", optional=True),
    "conformal": FLAG,
}


class Parameters(BaseEstimator):
    """An estimator that checks its parameters."""

    _kind: ClassVar[type[Declared]] = Classifier  # declares the domains of most parameters
    _domains: ClassVar[Mapping[str, Domain]] = {}  # of other parameters

    @classmethod
    @cache  # reading the signature takes as long as a fit of a few rows
    def _get_param_names(cls) -> list[str]:
        return super()._get_param_names()

    @property
    def _parameter_constraints(self) -> dict[str, list[Any]]:
        """The names of parameters, without constraints: `_validate_params` has their domains."""
        return {name: [] for name in self.get_params(deep=False)}

    def _validate_params(self) -> None:
        """Raise for a parameter outside its domain."""
        domains = {**_OF_CLASSES, **self._kind.domains, **self._domains}
        for name in self._parameter_constraints:
            value, domain = getattr(self, name), domains.get(name)
            if domain is None or (value is None and domain.optional):
                continue
            simple = isinstance(value, str | int | float)  # for others JAX's setting matters
            with nullcontext() if simple else jax.enable_x64(True):
                if domain.problem(value, name) is None:
                    continue
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(self).__name__} must be {domain.expected}. "
                f"Got {shown(value)} instead."
            )


def warn_unless(converged: Any, message: str) -> None:
    """Issue scikit-learn's `ConvergenceWarning`, unless the iterations converged."""
    if not converged:
        warnings.warn(f"{message}, before it converged", ConvergenceWarning, stacklevel=5)
