"""Which hyper-parameters of a `Gaussian` regularise, and which exclude each other."""

from __future__ import annotations

from typing import Any

from genclf.arguments.hyperparameters import is_concrete
from genclf.covariance.shrinkage import Estimated


def rules_in_use(family: Any) -> list[str]:
    """The names of the hyper-parameters in use: concrete and not 0; a threshold also if it is 0."""

    def in_use(value: object) -> bool:
        return isinstance(value, Estimated) or (is_concrete(value) and value not in (None, 0))

    names = ("ridge", "ddof", "pooling", "shrinkage")
    used = [name for name in names if in_use(getattr(family, name))]
    return used + given_of(family, "structure", "soft_threshold")


def given_of(family: Any, *names: str) -> list[str]:
    """Those of these hyper-parameters that are not None."""
    return [name for name in names if getattr(family, name) is not None]


def contradictions(family: Any) -> list[str]:
    """Error messages for hyper-parameters that are valid one by one."""
    used, method = rules_in_use(family), getattr(family.shrinkage, "method", None)
    name, shrinks = f"shrinkage={family.shrinkage!r}", "shrinkage" in used
    diagonal = family.target == "diagonal"
    rules = [
        (
            family.shared and family.pooling is not None,
            "pooling needs a covariance per class, expected shared=False",
        ),
        (
            family.structure is not None and (not family.arithmetic.is_full or family.may_miss),
            'a structure needs a full covariance and complete rows, expected covariance="full" and '
            'missing="error"',
        ),
        (shrinks and "ridge" in used, "ridge and shrinkage are given, expected one of them"),
        (
            shrinks and family.arithmetic.is_spherical,
            'shrinkage does not change a spherical covariance, expected "full" or "diag"',
        ),
        (
            shrinks and family.arithmetic.is_product and diagonal,
            'target="diagonal" does not change a diagonal covariance, expected "identity"',
        ),
        (
            method is not None and (not family.arithmetic.is_full or family.may_miss),
            f'{name} needs a full covariance and complete rows, expected covariance="full" and '
            'missing="error", or a number',
        ),
        (
            method is not None and "pooling" in used,
            f"{name} is estimated before pooling, expected a number together with pooling",
        ),
        (
            method == "james-stein" and not diagonal,
            f'{name} shrinks correlations, expected Gaussian({name}, target="diagonal")',
        ),
        (
            family.soft_threshold is not None
            and not (family.arithmetic.is_product and family.shared and not family.may_miss),
            "soft_threshold needs one variance for all classes and complete rows, expected "
            'covariance="diag", shared=True and missing="error"',
        ),
    ]
    return [text for wrong, text in rules if wrong]
