"""`validate`: raise if the data are invalid for a model or do not determine its estimate."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree

from genclf.arguments.domains import FLAG
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.conversion import as_arrays, maybe_sparse, widen
from genclf.classifier.diagnosis import Diagnosis, diagnosed
from genclf.classifier.estimation import check_posterior, check_statistics, sums
from genclf.classifier.labels import check_minus_one, valid_labels, valid_weights
from genclf.classifier.model import Fitted, Model, check_hyperparameters, check_params
from genclf.classifier.rows import check_examples, check_rows
from genclf.classifier.validate_gaussians import REGULAR, check_determined
from genclf.covariance.structures import OwnStructure
from genclf.families.combined.combinator import leaf_families
from genclf.families.conjugate.two_covariance import TwoCovariance
from genclf.families.gaussian.gaussian import Gaussian
from genclf.families.structure import named_arrays, nodes_of, widths
from genclf.families.support import Support
from genclf.families.tokens import Tokens, is_dense, lengths_of
from genclf.numerics.namespace import Array
from genclf.sums.sparse import SparseRows

_SHOWN = 5  # invalid cells located in one message
_REPEATS_ROUND = 1 / 1024  # ε times the length of a row of counts


@checked_arguments(x=None, y=None, weights=None, latent=FLAG)
def validate(
    model: Model | Fitted,
    x: PyTree,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    latent: bool = False,
) -> None:
    """Raise if the data are invalid for the model, naming the first invalid cells.

    Compiled functions cannot raise on values: they turn invalid values into NaN. Call this once on
    the host, before a fit (with labels) or before predictions (without). With labels it also
    raises if

    * the labelled rows do not determine a Gaussian's mean or covariance, and nothing regularises
      it;
    * a column has no value at all;
    * a row of counts is so long, `√(Σ_v x_v²) ε > 1/1024` (8,192 in float32), that rounding of the
      log-probability of each word changes a posterior by about 1e-3;
    * a class has a class prior above 0, and neither rows nor a prior of the family;
    * rows are labelled -1 while a class has no row, unless `latent`: -1 may be meant as a class;
    * the dtype is not precise enough for a Gaussian. Either rounding moves the mean of a feature by
      more than 1/256 of its standard deviation (a mean of 32,768 standard deviations in float32,
      1.8e13 in float64), which changes a posterior by about 1e-3. Or ε times the root of the
      condition number of the correlation matrix is above 1/1024 (6.7e7 in float32).

    In a fit, rows of weight 0 and unlabelled rows (-1) may hold anything.

    Args:
        model: a `Classifier` or `SoftmaxRegression`, or fitted params.
        x: rows, as for `fit` and `predict`.
        y: labels (n,) or responsibilities (n, K); only with a model.
        weights: weight of each row, (n,); only with y.
        latent: whether unlabelled rows take part, as they do in `em`.

    Raises:
        ValueError: names the argument, row, column and value, what was expected and what to do.

    Example:
        >>> import jax.numpy as jnp, genclf as gcf
        >>> gcf.validate(gcf.lda(2), jnp.array([[0.0], [jnp.nan]]), jnp.array([0, 1]))
        Traceback (most recent call last):
        ...
        ValueError: x[1, 0] is nan (row 1, column 0), expected a finite number.
    """
    if any(isinstance(a, Tracer) for a in jax.tree.leaves((model, x, y, weights))):
        raise ValueError(
            "validate reads values, which traced arrays do not have: call it outside jit, vmap "
            "and grad; diagnose runs inside them"
        )
    given, x = x, maybe_sparse(x, "x")
    if isinstance(model, Fitted):
        check_params(model, "model", "validate")
        if y is not None or weights is not None:
            raise ValueError("y or weights were given with fitted params: give a model")
        check_examples(model, x)
        _check_cells(model.support, x, given, None)
        return
    check_hyperparameters(model, widths(x), "model")
    if y is None:
        if weights is not None:
            raise ValueError("weights were given without y; expected both, or x alone")
        _check_cells(model.support, x, given, None)
        return
    labels = as_arrays(y, "y")
    weight = None if weights is None else as_arrays(weights, "weights")
    check_rows(model, x, labels, weight)
    k, expected = model.num_classes, "a finite responsibility >= 0"
    if labels.ndim == 1:
        expected = f"a label in 0..{k - 1} (num_classes = {k}), or -1 for an unlabelled row"
    _raise_at(~np.asarray(valid_labels(labels, k)), labels, "y", expected)
    used = np.asarray(widen(labels) >= -latent if labels.ndim == 1 else (labels > 0).any(1))
    if weight is not None:
        _raise_at(~np.asarray(valid_weights(weight)), weight, "weights", "a finite number >= 0")
        used = used & (np.asarray(weight) > 0)
    if not used.any():
        label = "" if latent else "both a label and "
        raise ValueError(f"no row has {label}a weight above 0, expected at least one")
    if not latent:
        check_minus_one(labels, weight, model.num_classes)
    _check_cells(model.support, x, given, used)
    if isinstance(model, Classifier):
        _check_enough_rows(model.effective(), x)
        if not latent and nodes_of(model.effective().family, TwoCovariance):
            told = sums(model, x, labels, weight)
            check_statistics(model, told)
            check_posterior(model, told)
        found = diagnosed(model, x, labels, weight)
        # EM starts from the labelled rows alone if every class has some.
        if not latent or not np.asarray(found.empty).any():
            _check_structures(model.effective(), x, found.conditional)
            check_determined(found.conditional, "", latent)
        if not latent:
            _check_seen(model.effective(), x, found.unseen)
            _check_densities(model, found)
        if model.is_predictive and not latent:
            check_posterior(model, sums(model, x, labels, weight))


def _check_cells(
    support: PyTree[Support], x: PyTree, given: PyTree, used: np.ndarray | None
) -> None:
    pairs = zip(named_arrays(support, x), named_arrays(support, given), strict=True)
    for (name, _, rule, block), (*_, original) in pairs:
        if isinstance(block, SparseRows):
            _check_sparse(block, rule, name, used)
            _check_repeats(block, rule, name, used)
            continue
        # A copy on one device, however the rows are sharded.
        block = jax.tree.map(lambda a: jnp.asarray(np.asarray(a)), block)
        wrong = ~np.asarray(rule.valid(block))
        if used is not None:
            wrong = wrong & used[:, None]
        values = np.asarray(original.ids if isinstance(original, Tokens) else original)
        floating = np.issubdtype(values.dtype, np.floating)
        if floating and values.dtype != block.dtype:
            overflow = wrong & np.isfinite(values) & ~np.isfinite(np.asarray(block))
            largest = f"at most {jnp.finfo(block.dtype).max:.2g} in {block.dtype}"
            _raise_at(overflow, values, name, f"{largest}; use other units, or float64")
        _raise_at(wrong, values, name, rule.expected)
        _check_repeats(block, rule, name, used)
        if used is not None and rule.missing is not None and is_dense(block):
            gone = np.flatnonzero((np.asarray(rule.missing(block)) | ~used[:, None]).all(0))
            if len(gone):
                raise ValueError(
                    f"columns {gone.tolist()} of {name} have no value in any row that takes part: "
                    "no density can be fitted to them; leave them out"
                )


def _check_sparse(x: SparseRows, rule: Support, name: str, used: np.ndarray | None) -> None:
    wrong = ~np.asarray(rule.holds(x))
    rows, columns, values = map(np.asarray, (x.rows, x.columns, x.values))
    wrong = wrong if used is None else wrong & used[rows]
    if wrong.any():
        i = int(wrong.argmax())
        cell = f"{name}[{rows[i]}, {columns[i]}] is {values[i].item():.6g}"
        more = f" {wrong.sum()} such cells in all." if wrong.sum() > 1 else ""
        raise ValueError(
            f"{cell} (row {rows[i]}, column {columns[i]}), expected {rule.expected}.{more}"
        )


def _check_repeats(
    x: Array | Tokens | SparseRows, rule: Support, name: str, used: np.ndarray | None
) -> None:
    """Raise for a row of so many words that the sum of their rounding errors matters."""
    if not rule.repeats:
        return
    dtype = jnp.result_type(float)
    most = _REPEATS_ROUND / float(jnp.finfo(dtype).eps)
    length = lengths_of(x) if used is None else np.where(used, lengths_of(x), 0)
    for row in np.flatnonzero(length > most)[:1]:  # a NaN is a missing cell
        raise ValueError(
            f"{name} has counts of length {length[row]:.3g} in row {row} (the root of the sum of "
            f"their squares), expected at most {most:.3g} for {dtype}, which rounds each log-"
            "probability: use float64 (jax_enable_x64)"
        )


def _check_enough_rows(clf: Classifier, x: PyTree) -> None:
    """Raise if rows are too few for a covariance, before a (d, d) array is allocated."""
    for family, rows in leaf_families(clf.family, x):
        if not isinstance(family, Gaussian) or not family.arithmetic.is_full:
            continue
        plain = not (family.heuristics() or family.prior is not None)
        n, d = (*np.shape(rows), 1)[:2]  # a column for `Independent`
        if plain and n < d:
            raise ValueError(
                f"{n} rows of {d} features do not determine a covariance, since its rank would be "
                f"below {n}: set {REGULAR}"
            )


def _check_structures(clf: Classifier, x: PyTree, found: PyTree) -> None:
    """Raise if a user's function makes a covariance NaN, which rows with a ddof of 0 do not."""
    unknown = any(np.isnan(leaf).any() for leaf in jax.tree.leaves(found))
    for family, _ in leaf_families(clf.family, x):
        own = getattr(family, "structure", None)
        if isinstance(own, OwnStructure) and unknown and np.all(np.asarray(family.ddof) == 0):
            raise ValueError(
                "structure makes a covariance that is not symmetric, or not of finite numbers: "
                "return a symmetric one"
            )


def _check_densities(clf: Classifier, found: Diagnosis) -> None:
    """Raise if a class has a prior probability but no density."""
    share = np.exp(np.asarray(clf.label_prior.log_probs(found.count)))
    for k in np.flatnonzero(np.asarray(found.undetermined) & (share > 0)):
        raise ValueError(
            f"class {k} has no row with a weight above 0, and no prior determines its density, but "
            f"its class prior is {share[k]:.3g}: it would never be predicted; give it rows, give "
            "the family a prior, or leave the class out"
        )


def _check_seen(clf: Classifier, x: PyTree, unseen: PyTree) -> None:
    """Raise if a class has no value of a feature, and no prior determines its mean there."""
    is_gaussian = lambda f: isinstance(f, Gaussian)  # noqa: E731
    for keys, family in jax.tree.leaves_with_path(clf.family, is_leaf=is_gaussian):
        if not is_gaussian(family) or family.prior is not None:
            continue
        within = tuple(key.key for key in keys if isinstance(key, jax.tree_util.DictKey))
        for name, path, *_ in named_arrays(clf.family.support, x):
            wrong = unseen[name] if isinstance(unseen, dict) else unseen
            if path != within or wrong is None:
                continue
            classes = [
                f"{np.flatnonzero(columns).tolist()} in class {k}"
                for k, columns in enumerate(np.asarray(wrong))
                if columns.any()
            ]
            if classes:
                raise ValueError(
                    f"{name} has no value of columns {', '.join(classes)}: means are not "
                    "determined there; leave the columns out, or give "
                    "prior=NormalInverseWishart()"
                )


def _raise_at(wrong: np.ndarray, values: ArrayLike, name: str, expected: str) -> None:
    """Raise an error that names the first cells where `wrong` is true."""
    cells = np.argwhere(wrong)
    if not len(cells):
        return
    first = tuple(int(i) for i in cells[0])
    axes = zip(("row", "column"), first, strict=False)
    where = ", ".join(f"{axis} {i}" for axis, i in axes)
    value = np.asarray(values)[first].item()
    shown = f"{value:.6g}" if isinstance(value, float) else value
    message = f"{name}[{', '.join(map(str, first))}] is {shown} ({where})"
    message += f", expected {expected}."
    if len(cells) > 1:
        others = ", ".join(str([int(i) for i in cell]) for cell in cells[1:_SHOWN])
        message += f" {len(cells)} such cells in all; the next are {others}."
    raise ValueError(message)
