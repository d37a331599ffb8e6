"""A cross-validated score as an estimator, for searchlights of other libraries."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator

from genclf.classifier.model import Model, check_hyperparameters
from genclf.many.scan import Scan
from genclf.many.searchlight import scan_neighbourhoods
from genclf.numerics.sizes import padded_size
from genclf.select.data import labelled_data
from genclf.select.folds import kfold
from genclf.select.score import Score, ScoreFunction, number_function
from genclf.sklearn.labels import encoded
from genclf.sklearn.types import LabelsLike, RowsLike


class CrossValidatedScore(BaseEstimator):
    """A cross-validated score of a model, in the form that nilearn's `SearchLight` takes.

    `fit` cross-validates, and `score` returns the score, so nilearn does not make folds. Features
    are padded to one of a few numbers, so that few programs are compiled. `genclf.searchlight`
    computes the same scores for all neighbourhoods in one call, much faster.

    Args:
        model: a `Classifier` or `SoftmaxRegression`.
        metric: a name or a function, as for `genclf.score`.
        num_folds: number of stratified folds, if no groups are given.

    Attributes:
        score_: the score, set by `fit`.

    Example:
        >>> import numpy as np, genclf as gcf
        >>> from genclf.sklearn import CrossValidatedScore
        >>> rng = np.random.default_rng(0)
        >>> y, runs = np.array(["face", "house"] * 20), np.repeat(np.arange(4), 10)
        >>> x = rng.normal(size=(40, 3)) + 2 * (y == "face")[:, None]
        >>> estimator = CrossValidatedScore(gcf.lda(2, shrinkage=0.1))
        >>> print(estimator.fit(x, y, groups=runs).score(x, y))
        1.0
    """

    nilearn_searchlight_uses_cv = False

    def __init__(
        self, model: Model, metric: Score | ScoreFunction = "balanced_accuracy", num_folds: int = 5
    ):
        self.model = model
        self.metric = metric
        self.num_folds = num_folds

    def fit(
        self, X: RowsLike, y: LabelsLike, groups: LabelsLike | None = None
    ) -> CrossValidatedScore:
        """Cross-validate.

        Args:
            X: rows, (n, d).
            y: labels of any type, with the model's number of classes.
            groups: the group of each row, which is its fold; None for random folds, the same in
                each call.

        Raises:
            ValueError: a shape or the number of classes is wrong.
        """
        x = np.asarray(X)
        classes, labels = encoded(y, False)
        clf = check_hyperparameters(self.model, x.shape[-1])
        if len(classes) != clf.num_classes:
            raise ValueError(
                f"y has {len(classes)} classes, but model.num_classes is {clf.num_classes}"
            )
        if x.ndim != 2 or len(x) != len(labels):
            raise ValueError(f"X has shape {x.shape}, expected ({len(labels)}, d)")
        if groups is None:
            folds = kfold(jax.random.key(0), labels, self.num_folds)
        else:
            folds = encoded(groups, False).number
        d = x.shape[1]
        more = ((0, 0), (0, padded_size(d) - d))
        rows = jnp.asarray(np.pad(x, more))
        data = labelled_data(rows, jnp.asarray(labels), folds, None)
        index = np.pad(np.arange(d, dtype=np.int32)[None], more, constant_values=-1)
        function = number_function(self.metric, clf.num_classes, data)
        found = scan_neighbourhoods(Scan(function, clf, data, None), index)
        self.score_ = float(found.observed[0])
        return self

    def score(
        self,
        X: RowsLike | None = None,
        y: LabelsLike | None = None,
        groups: LabelsLike | None = None,
    ) -> float:
        """The score that `fit` computed; the arguments have no effect."""
        return self.score_
