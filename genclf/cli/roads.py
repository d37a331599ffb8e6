"""Three roads to the estimate, in short: the last section of `python -m genclf`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from rich.console import Console

import genclf as gcf
from genclf.cli.report import section, show_table


def three_roads(console: Console) -> None:
    """The closed form beside gradient ascent and Lagrange's conditions, each certified."""
    vowel, votes = gcf.datasets.load_vowel(), gcf.datasets.load_house_votes()
    num_values = len(votes.value_names)
    models: list[tuple[str, gcf.Classifier, np.ndarray, np.ndarray]] = [
        ("Gaussian NB", gcf.gaussian_nb(len(vowel.class_names)), vowel.x_train, vowel.y_train),
        ("categorical", gcf.categorical_nb(2, num_values), votes.x, votes.y),
        ("  alpha 0", gcf.categorical_nb(2, num_values, alpha=0.0), votes.x, votes.y),
    ]
    section(
        console,
        "Three roads to the same estimate",
        "Log-likelihoods of the vowels and of the votes at three estimates: the closed formula; "
        "gradient ascent, which does not use it; and the Lagrange conditions, solved for the "
        "parameters and the multiplier of the constraint sum p(y) = 1, which equals the number of "
        'rows. The column "differ" is the largest difference of a parameter from the closed form. '
        "Certified: gradient and curvature are those of a maximum, at all three. In float64.",
    )
    headers = (
        *("model", ">formula", ">gradient", ">Lagrange", ">differ"),
        *(">multiplier", "certified"),
    )
    with jax.enable_x64(True):  # in float32 a likelihood has seven digits, too few to compare
        show_table(console, headers, [_compare(*model) for model in models])


def _compare(name: str, clf: gcf.Classifier, x: np.ndarray, y: np.ndarray) -> tuple[str, ...]:
    stats = gcf.stats(clf, x, y)
    closed = gcf.fit(clf, x, y)
    lagrange = gcf.fit_lagrange(clf, stats)
    roads = [closed, gcf.fit_gradient(clf, x, y).params, lagrange.params]
    certified = [bool(gcf.certify(clf, params, x, y).valid) for params in roads]
    return (
        name,
        *(f"{gcf.log_lik(params, stats):.2f}" for params in roads),
        f"{max(_difference(params, closed) for params in roads):.0e}",
        f"{lagrange.multipliers['log_prior']:.2f}/{len(y)}",
        "yes" if all(certified) else "no",
    )


def _difference(a: gcf.ClassifierParams, b: gcf.ClassifierParams) -> float:
    """The largest difference between parameters, of probabilities rather than their logarithms."""

    def values(params: gcf.ClassifierParams) -> list[Any]:
        declared = params.conditional.parameters
        found = [p.value(getattr(params.conditional, field)) for field, p in declared.items()]
        return [np.exp(params.log_prior), *found]

    pairs = zip(values(a), values(b), strict=True)
    return max(float(np.abs(np.asarray(u) - np.asarray(v)).max()) for u, v in pairs)
