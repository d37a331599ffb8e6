"""Columns of several kinds, independent within classes: a `Product` with a part for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genclf.families.base import Scalar
from genclf.families.combined.independent import Independent
from genclf.families.combined.product import Product
from genclf.families.counts.categorical import Categorical
from genclf.families.counts.multinomial import Multinomial
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.kernels.kernel_density import KernelDensity


def mixed_product(parts: Mapping[str, Sequence[int]], *, alpha: Scalar, ridge: Scalar) -> Product:
    """The product of the families of these parts.

    Args:
        parts: "numeric", "kernel", "categorical", "count", or another name for the words of a text;
            each with the sizes of its columns, which are numbers of values for "categorical".
        alpha: smoothing of categories, counts and words.
        ridge: what is added to variances of numbers, relative to the pooled variance.
    """
    words = Multinomial(alpha=alpha)
    families: dict[str, Any] = {
        "numeric": Gaussian("diag", ridge=ridge, missing="marginalize"),
        "kernel": Independent(KernelDensity(missing="marginalize")),
    }
    if sizes := parts.get("categorical"):
        families["categorical"] = Categorical(tuple(sizes), alpha=alpha, missing="marginalize")
    return Product({part: families.get(part, words) for part in parts})
