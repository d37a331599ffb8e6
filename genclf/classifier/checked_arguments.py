"""Check the arguments of every public function before it runs.

An argument name has one meaning throughout the library, so the name determines the check. A check
raises a `ValueError` that names the argument, or returns the converted value: JAX arrays, and
models in which invalid traced hyper-parameters are NaN.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from genclf.arguments.calls import misfit
from genclf.arguments.domains import Domain, draw_shape, random_key, shown, whole
from genclf.classifier.conversion import as_arrays, one_array
from genclf.classifier.labels import check_labels
from genclf.classifier.model import check_hyperparameters, check_params, require_generative
from genclf.classifier.rows import check_examples, check_rows, check_supervised_rows
from genclf.families.structure import widths
from genclf.sums.statistics import ClassifierStats

if TYPE_CHECKING:
    ArrayLike = Any  # inside the function it is an array
else:
    from jaxtyping import ArrayLike as ArrayLike

P = ParamSpec("P")
R = TypeVar("R")
Check = Callable[[Any, str], Any]
Labels = Literal["checked", "supervised", "unread"]


@overload
def checked_arguments(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def checked_arguments(
    *,
    any_model: bool = False,
    labels: Labels = "checked",
    all_features: bool = True,
    **checks: Domain | Check | None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def checked_arguments(
    function: Any = None,
    /,
    *,
    any_model: bool = False,
    labels: Labels = "checked",
    all_features: bool = True,
    **checks: Domain | Check | None,
) -> Any:
    """Decorate a public function, so that its arguments are checked and converted.

    The functions that it calls do not check them again. A function of `clf`, x and y takes rows for
    the model, and one of `params` and x takes examples for the params.

    Args:
        function: the function; the names of its parameters select the checks.
        any_model: whether models of p(y | x) alone are accepted too.
        labels: "checked": concrete labels must be classes or -1; "supervised": also, some must have
            a weight, and -1 must not stand for a class; "unread": they may hold anything.
        all_features: whether the model is one of all features of x.
        **checks: checks by argument name that replace those in `_CHECKS`: a `Domain`, a function of
            (value, name), or None to leave the argument as it is.
    """
    if function is None:
        how: Any = {"any_model": any_model, "labels": labels, "all_features": all_features}
        return partial(checked_arguments, **how, **checks)
    called = function.__name__
    signature = inspect.signature(function)
    names = list(signature.parameters)
    required = [n for n, p in signature.parameters.items() if p.default is p.empty]
    positional = [n for n, p in signature.parameters.items() if p.kind is not p.KEYWORD_ONLY]
    own_checks = {name: check for name, check in (_CHECKS | checks).items() if name in names}
    takes = {name for name, check in own_checks.items() if check is not None}
    takes_rows = "clf" in names and takes >= {"x", "y"}
    takes_examples = "params" in names and "x" in takes and "clf" not in names

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given: dict[str, Any] = dict(zip(positional, args, strict=False)) | kwargs
        fits = len(args) <= len(positional) and len(given) == len(args) + len(kwargs)
        if not fits or not given.keys() <= set(names) or not set(required) <= given.keys():
            raise TypeError(misfit(called, signature, args, kwargs))
        for name, check in own_checks.items():
            if name in given and check is not None:
                convert = check.checked if isinstance(check, Domain) else check
                given[name] = convert(given[name], name)
        for name in ("clf", "params"):
            if given.get(name) is not None and not any_model:
                require_generative(given[name], called)
        if "clf" in names:
            d = widths(given["x"]) if "x" in takes and all_features else None
            given["clf"] = check_hyperparameters(given["clf"], d)
        if "params" in names and "params" not in checks:
            check_params(given["params"], "params", called)
        if takes_rows:
            check_all = check_supervised_rows if labels == "supervised" else check_rows
            check_all(given["clf"], given["x"], given["y"], given.get("weights"))
            if labels == "checked":
                check_labels(given["y"], given["clf"].num_classes)
        elif takes_examples:
            check_examples(given["params"], given["x"])
        return function(**given)

    return checked


def optional(check: Check) -> Check:
    """The check of an argument that may also be None."""
    return lambda value, name: None if value is None else check(value, name)


optional_key = optional(random_key)


def statistics(value: object, name: str) -> ClassifierStats:
    """Return the statistics of one data set; raise for another type, or for a batch axis."""
    if not isinstance(value, ClassifierStats):
        raise ValueError(
            f"{name} is {shown(value)}, expected statistics, as genclf.stats(clf, x, y) "
            f"returns{'; those of a Part are part.stats' if hasattr(value, 'stats') else ''}"
        )
    if value.count.ndim != 1:
        raise ValueError(
            f"{name}.count has shape {value.count.shape}, expected (K,): one number per class; "
            "statistics with a batch axis take jax.vmap, or genclf.pool"
        )
    return value


_CHECKS: dict[str, Check | Domain] = {
    "x": as_arrays,
    "y": one_array,
    "weights": optional(one_array),
    "stats": statistics,
    "key": random_key,
    "shape": draw_shape,
    "batch_size": whole(1, optional=True),
}
