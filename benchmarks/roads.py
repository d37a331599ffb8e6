"""Times of the closed form and of the other ways to the same estimate."""

from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import genclf as gcf
from benchmarks.timing import seconds


def ratios(n: int, d: int, num_classes: int) -> Iterator[tuple[str, float, float]]:
    """(case, seconds of `fit`, seconds of the other road), compiled, float64."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        y = jnp.asarray(rng.integers(0, num_classes, n), jnp.int32)
        x = jnp.asarray(rng.normal(size=(n, d)) + rng.normal(size=(num_classes, d))[np.asarray(y)])
        words = jnp.asarray(rng.poisson(np.exp(rng.normal(size=(num_classes, d)))[np.asarray(y)]))
        models: dict[str, tuple[gcf.Classifier, jax.Array]] = {
            "LDA": (gcf.lda(num_classes), x),
            "QDA": (gcf.qda(num_classes), x),
            "Gaussian NB": (gcf.gaussian_nb(num_classes), x),
            "multinomial NB": (gcf.multinomial_nb(num_classes), words),
        }
        for name, (clf, rows) in models.items():
            fit = partial(gcf.fit, clf, rows, y)
            params, s = fit(), gcf.stats(clf, rows, y)
            roads: dict[str, Callable] = {
                "fit_gradient": partial(gcf.fit_gradient, clf, rows, y),
                "stats and fit_lagrange": partial(_lagrange, clf, rows, y),
                "certify": partial(gcf.certify, clf, params, rows, y),
            }
            found = roads["fit_gradient"]()
            if not (found.converged and gcf.fit_lagrange(clf, s).converged):
                raise AssertionError(f"{name}: a road did not converge")
            ours = seconds(fit)
            for road, call in roads.items():
                yield f"{name} fit beside {road}", ours, seconds(call, repeats=3)


def _lagrange(clf: gcf.Classifier, x: jax.Array, y: jax.Array) -> gcf.LagrangeSolution:
    return gcf.fit_lagrange(clf, gcf.stats(clf, x, y))
