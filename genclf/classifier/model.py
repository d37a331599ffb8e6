"""Base classes of models, fitted params and solutions, generative or not, and their checks."""

import abc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from genclf.arguments.domains import shown
from genclf.arguments.hyperparameters import Declared, invalid_fields, nan_where_invalid
from genclf.arguments.remembered import Remembered
from genclf.arguments.reprs import ShowsNumbers
from genclf.families.base import Density
from genclf.families.support import Support
from genclf.numerics.namespace import Array
from genclf.numerics.row_blocks import MANY_CLASSES, reduce_scores

F = TypeVar("F", bound="Fitted")
_valid_models, _valid_params = Remembered(), Remembered()  # each object is checked once


class TakesExamples(ShowsNumbers):
    """A result that is applied to examples, whose features it knows."""

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @property
    @abc.abstractmethod
    def num_features(self) -> PyTree[int]:
        """Number of features of one example, in the structure of x."""


class Fitted(TakesExamples):
    """Fitted params: scores of K classes, `p(y=k | x) = softmax_k(discriminant(x))`."""

    generative: ClassVar[bool] = True

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_no_attribute(self, name))

    @property
    @abc.abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes in addition to those of a single fit, as `jax.vmap` makes them."""

    @property
    @abc.abstractmethod
    def num_classes(self) -> int:
        """K."""

    @abc.abstractmethod
    def discriminant(self, x: PyTree) -> Float[Array, "*batch K"]:
        """`log p(y=k | x)` up to a term that all classes share."""

    def reduced(self, x: PyTree, reduce: Callable[[Array], Array]) -> Array:
        """`reduce(discriminant(x))`, for a function of the scores of each row."""
        rows = lambda x: reduce(self.discriminant(x))  # noqa: E731
        return reduce_scores(rows, x, self.num_classes, MANY_CLASSES)

    def under(self: F, log_prior: Float[Array, "K"]) -> F:
        """The same params under another class prior; see `require_prior`."""
        raise NotImplementedError

    @abc.abstractmethod
    def linear(self) -> tuple[PyTree, Float[Array, "K"]]:
        """(coef, intercept) of the discriminant if it is linear in x."""

    @abc.abstractmethod
    def terms(self, x: PyTree, y: Array, other: Array) -> tuple[PyTree, Array]:
        """The terms of the features in `log p(y | x) - log p(other | x)`, and the constant."""

    @abc.abstractmethod
    def quadratic(self) -> tuple[Array, Array, Array]:
        """(matrix, coef, intercept) of the discriminant if it is quadratic in x."""


def _no_attribute(given: object, name: str) -> str:
    """The message for a missing attribute; `fit`, `predict`, ... are functions, not methods."""
    hint = f": it is a function, genclf.{name}({_FIRST[name]}, ...)" if name in _FIRST else ""
    return f"{type(given).__name__} has no attribute {name!r}{hint}"


_FIRST = {
    **dict.fromkeys(("fit", "stats", "estimate", "em", "diagnose", "validate", "certify"), "clf"),
    **dict.fromkeys(("fit_gradient", "fit_lagrange", "posterior", "predictive"), "clf"),
    **dict.fromkeys(("predict", "log_joint", "log_posterior", "log_marginal"), "params"),
    **dict.fromkeys(("log_lik", "adapt_prior", "condition", "with_prior", "distance"), "params"),
    "sample": "key",
}


class Model(Declared):
    """A model to fit to labelled examples of K classes; its fields are hyper-parameters."""

    generative: ClassVar[bool] = True

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_no_attribute(self, name))

    if TYPE_CHECKING:  # at run time it would become the default of the field

        @property
        def num_classes(self) -> int:
            """K."""

    @property
    @abc.abstractmethod
    def support(self) -> PyTree[Support]:
        """What one example may hold, in the structure of x."""

    @abc.abstractmethod
    def problems(self, d: PyTree[int] | None = None) -> list[str]:
        """Error messages for invalid concrete hyper-parameters; d is the number of features."""


class Solution(ShowsNumbers):
    """The result of an iterative method.

    It is the base of the results of `em`, `adapt_prior`, `fit_gradient`, `fit_lagrange`,
    `solve_constrained`, `fit_prior` and a fit of `SoftmaxRegression`.

    Attributes:
        params: the point where the method stopped.
        objective: the function that was maximised, a natural logarithm except in
            `solve_constrained`: at `params`, or at every step if the method keeps a trace, whose
            later entries are NaN.
        value: the objective at `params`.
        converged: whether the conditions of the method for a maximum hold.
        steps: number of steps, or of evaluations.
    """

    if TYPE_CHECKING:  # at run time they would become the defaults of the fields

        @property
        def params(self) -> Any: ...
        @property
        def objective(self) -> Float[Array, "..."]: ...
        @property
        def converged(self) -> Bool[Array, "..."]: ...
        @property
        def steps(self) -> Int[Array, "..."]: ...

    @property
    def value(self) -> Float[Array, "..."]:
        """The objective at `params`."""
        return self.objective


def require_generative(given: object, function: str) -> None:
    """Raise if `given` is a model or params of p(y | x) alone, without a density of x."""
    if isinstance(given, Model | Fitted) and not given.generative:
        hint = "or fit a Classifier, such as genclf.lda"
        if getattr(vars(given).get("params"), "generative", False):
            hint = "or give its field `params`, the classifier that was calibrated"
        raise ValueError(
            f"{function} needs p(x, y), and {type(given).__name__} is a model of p(y | x) alone: "
            f"use predict, log_posterior or discriminant, {hint}"
        )


def require_prior(params: Fitted, function: str) -> None:
    """Raise if the params are of p(y | x) without a class prior that could be replaced."""
    if "log_prior" not in vars(params):
        raise ValueError(
            f"{function} needs a class prior, which {type(params).__name__} does not have: fit a "
            "Classifier, such as genclf.lda, or calibrate the posteriors (with_calibration)"
        )


def check_hyperparameters(clf: Any, d: Any = None, name: str = "clf") -> Any:
    """Return the model, with NaN for invalid traced hyper-parameters; invalid concrete ones raise.

    `d` is the number of features in the structure of x, if known; `name` is that of the argument.
    """
    here = d, jax.config.read("jax_enable_x64")  # float32 has a smaller range
    if _valid_models.get(clf) == here:
        return clf
    if not isinstance(clf, Model):
        hint = ""
        if isinstance(clf, Fitted):
            hint = "; these are fitted params, which fit returns"
        elif isinstance(clf, type) and issubclass(clf, Model):
            hint = "; this is the class itself, not an instance of it"
        elif isinstance(clf, Declared):
            hint = "; wrap a family in Classifier(family, num_classes)"
        raise ValueError(
            f"{name} is {shown(clf)}, expected a Classifier, such as genclf.lda(num_classes=3)"
            f"{hint}"
        )
    wrong = invalid_fields(clf) or (clf := nan_where_invalid(clf)).problems(d)
    if wrong:
        if has_distributions(clf):
            wrong.append("only genclf.bayes.story takes distributions of numpyro")
        raise ValueError("; ".join(wrong))
    if all(isinstance(leaf, bool | int | float) for leaf in jax.tree.leaves(clf)):
        _valid_models.keep(clf, here)
    return clf


def has_distributions(clf: object) -> bool:
    """Whether a hyper-parameter is a numpyro distribution, which only `bayes.story` takes."""
    numpyro = sys.modules.get("numpyro.distributions")  # None if it was never imported
    if numpyro is None:
        return False
    is_distribution = lambda node: isinstance(node, numpyro.Distribution)  # noqa: E731
    return any(map(is_distribution, jax.tree.leaves(clf, is_leaf=is_distribution)))


def check_params(params: object, name: str, function: str) -> None:
    """Raise unless these are params of one fit: arrays without a batch axis."""
    if _valid_params.get(params):
        return
    if not isinstance(params, Fitted):
        if isinstance(params, Model | Declared):
            hint = "; this is a model before its fit: params = genclf.fit(clf, x, y)"
        elif isinstance(params, jax.Array | np.ndarray):
            hint = f"; the arguments are {function}(params, x)" if function in _OF_X else ""
        elif hasattr(params, "params_"):
            hint = "; of an estimator, give its params_"
        else:
            hint = ""
        raise ValueError(
            f"{name} is {shown(params)}, expected a fitted classifier, as fit returns it{hint}"
        )
    fields = vars(params)
    if "conditional" in fields and not isinstance(fields["conditional"], Density):
        raise ValueError(
            f"{name}.conditional is {shown(params.conditional)}, expected params of class "
            "densities, such as GaussianParams"
        )
    if not hasattr(fields.get("log_prior", np.zeros(1)), "ndim"):
        raise ValueError(f"{name}.log_prior is {shown(params.log_prior)}, expected an array (K,)")
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not hasattr(leaf, "dtype") or not (hasattr(leaf, "ndim") or isinstance(leaf, float)):
            raise ValueError(
                f"{name}{jax.tree_util.keystr(path)} is {shown(leaf)}, expected an array, as fit "
                "returns it"
            )
    if batch := params.batch_shape:
        of = "log_prior" if "log_prior" in fields else "coef"
        raise ValueError(
            f"{name} have batch axes of shape {batch} (from {of}), expected the params of one fit; "
            f"for params of many, as from jax.vmap(genclf.fit), use jax.vmap(genclf.{function})"
        )
    _valid_params.keep(params, True)


_OF_X = ("predict", "log_joint", "log_posterior", "log_marginal", "discriminant", "condition")
