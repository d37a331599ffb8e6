"""Attributes of fitted estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np
from jaxtyping import Float, PyTree, Shaped
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from genclf.classifier.by_numpy import by_numpy
from genclf.classifier.calibrated import uncalibrated
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.forms import linear_form
from genclf.classifier.model import Fitted, Model, check_hyperparameters
from genclf.classifier.pieces import on_host
from genclf.families.capabilities import HasLinearForm, has
from genclf.fitting.softmax import SoftmaxParams
from genclf.sums.statistics import ClassifierStats

F = TypeVar("F", bound=Callable)

_linear_form = jax.jit(linear_form)

if TYPE_CHECKING:  # the types of the params and of the model depend on the estimator
    from typing import Any as AnyFitted, Any as AnyModel
else:
    AnyFitted, AnyModel = Fitted, Model


def only_if(flag: str, problem: str) -> Callable[[F], F]:
    """A decorator for a method that exists only if the flag of the estimator is set."""

    def check(self: Any) -> bool:
        if not getattr(self, flag):
            raise AttributeError(f"{type(self).__name__} {problem}")
        return True

    return available_if(check)


class Attributes:
    """Attributes that are computed from the params on access.

    Attributes:
        params_: the fitted params, of NumPy arrays.
        classes_: the classes, sorted, (K,).
    """

    params_: AnyFitted
    classes_: Shaped[np.ndarray, "K"]
    n_features_in_: int
    feature_names_in_: Shaped[np.ndarray, "columns"]
    n_iter_: int
    _stats: ClassifierStats | None
    _fitted_model: AnyModel
    _cache: dict[str, Any]

    def _problems(self: Any) -> list[str]:
        """Messages, each starting with the name of an attribute, about invalid values in a file."""
        self._validate_params()
        state = vars(self)
        if "params_" not in state:
            return []
        found, count = [], len(self.classes_)
        check_hyperparameters(self._model(self.classes_), name="the model")
        each: dict[str, Any] = {"params_": self.params_, "_fitted_model": self._fitted_model}
        if self._stats is not None:
            each["_stats"] = self._stats.labels.count
        for name, given in each.items():
            own = given.shape[-1] if hasattr(given, "shape") else given.num_classes
            if own != count:
                found.append(f"{name} has {own} classes, but classes_ {count}")
        names = state.get("feature_names_in_", range(self.n_features_in_))
        if len(names) != self.n_features_in_:
            found.append(f"feature_names_in_ has {len(names)} names, not {self.n_features_in_}")
        d = self.params_.num_features
        if isinstance(d, int) and d != self.n_features_in_:
            found.append(f"n_features_in_ is {self.n_features_in_}, but params_ has {d} features")
        return found

    def _check_fitted(self) -> None:
        if "params_" not in vars(self):  # scikit-learn's check alone takes as long as a score
            check_is_fitted(self)

    @property
    def _generative_params(self) -> Any:
        """The params of p(x, y), which are not calibrated."""
        return uncalibrated(self.params_)

    @property
    def _form(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Coefficients and intercepts of linear scores, or None; computed once."""
        if "form" not in self._cache:
            with jax.enable_x64(True):
                self._cache["form"] = _linear_scores(self.params_)
        return self._cache["form"]

    @property
    def class_prior_(self) -> Float[np.ndarray, "K"]:
        """Probability of each class."""
        return np.exp(self._fitted("log_prior"))

    @property
    def means_(self) -> Float[np.ndarray, "K d"]:
        """Mean of each class."""
        return self._fitted("conditional").mean

    @property
    def coef_(self) -> Float[np.ndarray, "m d"]:
        """Coefficients of linear scores: (1, d) for two classes, else (K, d)."""
        return self._linear()[0]

    @property
    def intercept_(self) -> Float[np.ndarray, "m"]:
        """Intercepts of linear scores: (1,) for two classes, else (K,)."""
        return self._linear()[1]

    def _linear(self) -> tuple[np.ndarray, np.ndarray]:
        self._check_fitted()
        if self._form is None:
            raise AttributeError(f"the scores of {type(self).__name__} are not linear in the rows")
        coef, intercept = self._form
        if len(self.classes_) == 2:
            return np.diff(coef, axis=0), np.diff(intercept)
        return coef, intercept

    @property
    def diagnosis_(self) -> Any:
        """Reasons to doubt the fit: `Diagnosis.conditional` of `genclf.diagnose`, or None."""
        self._check_fitted()
        if self._stats is None:
            return None
        with jax.enable_x64(True):
            stats = jax.device_put(self._stats)
            return on_host(self._fitted_model.family.diagnose(stats.conditional))

    @property
    def shrinkage_(self) -> Float[np.ndarray, "K"]:
        """How far the covariance of each class was shrunk: γ, given or estimated; 0 if not at all.

        It is `Diagnosis.conditional.shrinkage` of `genclf.diagnose`; a shared covariance has the
        same γ in every class.
        """
        found = self._fitted("conditional")
        if not hasattr(found, "shrinkage"):  # only a fit in the row space has it
            found = self.diagnosis_
        if not hasattr(found, "shrinkage"):
            raise AttributeError(
                f"{type(self).__name__} has no shrinkage_: this fit has no Gaussian covariances, "
                "or was made by EM or with missing cells"
            )
        return np.broadcast_to(found.shrinkage, self.classes_.shape)

    def _fitted(self, name: str) -> Any:
        self._check_fitted()
        return getattr(self.params_, name)


def _linear_scores(params: PyTree) -> tuple[np.ndarray, np.ndarray] | None:
    """`linear_form`, None if the scores are not linear in the rows."""
    inner = uncalibrated(params)
    if isinstance(inner, SoftmaxParams):
        is_linear = inner.matrix is None
    else:
        is_linear = has(inner.conditional, HasLinearForm)
    of_rows = getattr(inner, "conditional", None)
    has_threshold = getattr(of_rows, "threshold", None) is not None
    if not is_linear or has_threshold or getattr(of_rows, "presence", False):
        return None  # what is linear in x > 0, or in x > threshold, is not so in x
    own = isinstance(inner, ClassifierParams) and by_numpy(inner.conditional)
    with np.errstate(all="ignore"):
        coef, intercept = params.linear() if own else on_host(_linear_form(params))
    # Categorical scores have one coefficient per value, so there are more of them than columns.
    of_columns = isinstance(coef, np.ndarray) and coef.shape[1] == params.num_features
    return (coef, intercept) if of_columns else None
