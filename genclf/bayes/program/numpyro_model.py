"""The numpyro program of a model: its parameters, then labels and examples in plates of rows."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, PyTree
from numpyro.distributions import constraints

from genclf.arguments.extras import imported
from genclf.bayes.program.densities import sample_examples
from genclf.bayes.program.priors import sample_hyperparameters, sample_parameters
from genclf.classifier.classifier import Classifier, ClassifierParams, ClassifierStats
from genclf.classifier.conversion import as_arrays
from genclf.classifier.estimation import stats as make_stats
from genclf.classifier.model import Fitted, Model
from genclf.classifier.rows import check_examples
from genclf.families.base import Density
from genclf.families.structure import named_arrays
from genclf.fitting.softmax import SoftmaxParams, SoftmaxRegression


def program(
    model: Model | Fitted,
    stats: ClassifierStats | None,
    density: Callable[[Density], Density] | None,
) -> Callable[..., None]:
    """The program that `genclf.bayes.story` returns."""

    def run(x: PyTree = None, y: ArrayLike | None = None, *, num_rows: int = 1) -> None:
        x = None if x is None else as_arrays(x, "x")
        labels = _concrete(y)
        if isinstance(model, SoftmaxRegression | SoftmaxParams):
            _sample_labels(model, x, labels)
            return
        params = model
        if isinstance(model, Classifier):
            clf = sample_hyperparameters(model)
            params = sample_parameters(clf, _reference(clf, x) if stats is None else stats)
        assert isinstance(params, ClassifierParams)
        if x is not None:
            check_examples(params, x)
            _mark_invalid(params, x)
        conditional = params.conditional if density is None else density(params.conditional)
        _sample_rows(params.log_prior, conditional, x, labels, num_rows)

    return run


def _mark_invalid(params: ClassifierParams, x: PyTree) -> None:
    """Make the log-density NaN if a cell is outside the support, as in `log_joint`."""
    valid = [rule.valid(block).all() for _, _, rule, block in named_arrays(params.support, x)]
    numpyro.factor("valid", jnp.where(jnp.stack(valid).all(), 0.0, jnp.nan))


def _concrete(y: ArrayLike | None) -> np.ndarray | None:
    if isinstance(y, Tracer):
        raise ValueError(
            "y is traced, but the sites of the program depend on which rows are unlabelled: close "
            "over y, as in `lambda x: program(x, y)`"
        )
    labels = None if y is None else np.asarray(y)
    if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "iu"):
        raise ValueError(
            f"y has shape {labels.shape} and dtype {labels.dtype}, expected (n,) integer labels"
        )
    return labels


def _reference(clf: Classifier, x: PyTree) -> ClassifierStats:
    """Statistics of the rows, all in class 0: a prior uses only their sum over classes."""
    if x is None:
        raise ValueError(
            "there are no rows to take the shapes of the parameters from: give x, or statistics, "
            "as in story(clf, genclf.stats(clf, x, y))"
        )
    return make_stats(clf, x, jnp.zeros(_num_rows(clf, x), jnp.int32))


def _num_rows(model: Model | Density, x: PyTree) -> int:
    _, _, _, block = next(named_arrays(model.support, x))
    return block.shape[0]


def _sample_rows(
    log_prior: Array, conditional: Density, x: PyTree, y: np.ndarray | None, num_rows: int
) -> None:
    if y is None:
        y = np.full(num_rows if x is None else _num_rows(conditional, x), -1)
    elif x is not None and len(y) != _num_rows(conditional, x):
        raise ValueError(f"y has {len(y)} labels, for {_num_rows(conditional, x)} rows of x")
    if ((y < -1) | (y >= len(log_prior))).any():
        raise ValueError(f"y holds a label outside -1..{len(log_prior) - 1}")
    classes = dist.Categorical(logits=log_prior, validate_args=False)
    # Labels are marginalised where there are examples to infer them from.
    latent = (y < 0) if x is not None else np.zeros(len(y), bool)
    if latent.any():
        imported("funsor", "bayes", "the marginalisation of unlabelled rows needs")
    for suffix, plate, rows in (("", "rows", ~latent), ("_unlabelled", "unlabelled_rows", latent)):
        if not rows.any():
            continue
        here = None if x is None else jax.tree.map(lambda a: a[rows], x)  # noqa: B023
        with numpyro.plate(plate, rows.sum()):
            given = None if (y[rows] < 0).any() else jnp.asarray(y[rows])
            infer = {"enumerate": "parallel"} if suffix else {}
            label = numpyro.sample("y" + suffix, classes, obs=given, infer=infer)
            sample_examples(conditional, "x" + suffix, label, here)


def _sample_labels(
    model: SoftmaxRegression | SoftmaxParams, x: PyTree, y: np.ndarray | None
) -> None:
    if x is None:
        raise ValueError("a model of p(y | x) cannot simulate x: give x")
    if isinstance(model, SoftmaxParams):
        logits = model.discriminant(x)
    else:
        if model.features != "linear":
            raise ValueError('features is "quadratic": give the products as columns of x instead')
        num_rows, d = x.shape
        sd = 1 / jnp.sqrt(jnp.asarray(model.l2 * num_rows, x.dtype))
        shape = (model.num_classes, d)
        coef = numpyro.sample("coef", dist.Normal(jnp.zeros(shape, x.dtype), sd).to_event(2))
        flat = dist.ImproperUniform(constraints.zero_sum(1), (), shape[:1])
        intercept = numpyro.sample("intercept", flat)
        logits = jnp.matmul(x, coef.T, precision="highest") + intercept
    with numpyro.plate("rows", len(x)):
        given = None if y is None else jnp.asarray(y)
        numpyro.sample("y", dist.Categorical(logits=logits), obs=given)
