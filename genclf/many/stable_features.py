"""Features that are selected again and again, in random halves of the rows."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Shaped

from genclf.arguments.domains import whole
from genclf.arguments.reprs import ShowsNumbers
from genclf.arguments.sharding import compiled
from genclf.classifier.checked_arguments import ArrayLike, checked_arguments
from genclf.classifier.classifier import Classifier
from genclf.classifier.conversion import float_dtype
from genclf.fitting.fit import fit_closed
from genclf.many.places import require_values
from genclf.multivariate.cat_scores import cat_scores
from genclf.select.chunks import PROGRESS, Progress, Sizes, map_chunk, over_chunks, sizes


class StableFeatures(ShowsNumbers):
    """How often features are selected, from `stable_features`.

    Attributes:
        frequency: the share π_j of the draws that select the feature, (d,).
        false_bound: a bound of the expected number of features without information among those that
            are selected at least as often as this one, `q² / ((2 π_j - 1) d)`, (d,); infinite up to
            π_j = 1/2.
        order: the features, the most often selected first, (d,).
    """

    frequency: Float[Array, "d"]
    false_bound: Float[Array, "d"]
    order: Int[Array, "d"]


@checked_arguments(labels="supervised", num_selected=whole(1), num=whole(2), progress=PROGRESS)
def stable_features(
    key: Array,
    clf: Classifier,
    x: Shaped[ArrayLike, "n d"],
    y: ArrayLike,
    num_selected: int,
    *,
    num: int = 100,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> StableFeatures:
    """Select the best features in random halves of the rows, and count how often each is selected.

    A draw takes half of the rows of each class without replacement, fits the model, and selects the
    q features with the largest `cat_scores(...).overall`. A ranking of all rows always has a first
    feature; this says whether another half of the rows would select it too. All draws are one
    compiled program. With more features than rows and a shrinkage, fits are in the row space.

    The bound holds if features without information are exchangeable and are not selected less often
    than by chance. It is for one threshold that is chosen beforehand: `false_bound <= 1` selects
    features of which at most one is false, on average.

    Args:
        key: a `jax.random` key.
        clf: a Gaussian model of whose params `cat_scores` are, with `shared=True` and, for more
            features than rows, shrunk with `target="diagonal"`.
        x: rows, (n, d).
        y: labels 0..K-1 of all rows, (n,); each class that occurs has at least two rows.
        num_selected: q, below d. With `q = √(0.8 d)`, features that are selected in 90 % of the
            draws hold at most one false one, on average.
        num: number of draws.
        batch_size: number of draws that a core works on at once; None for a default.
        progress: called from time to time with the number of draws done and the total.

    Returns:
        `StableFeatures`.

    Raises:
        ValueError: `cat_scores` refuses the params, q is not below d, a row has no label, or a
            class has one row.

    Example:
        >>> import jax, numpy as np, genclf as gcf
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(60) % 2
        >>> x = rng.normal(size=(60, 500))
        >>> x[:, :5] += 1.5 * y[:, None]  # five informative features
        >>> clf = gcf.Classifier(
        ...     gcf.Gaussian(shared=True, shrinkage="james-stein", target="diagonal"), 2
        ... )
        >>> found = gcf.stable_features(jax.random.key(0), clf, x, y, 20)
        >>> print(found.order[:5], found.frequency[:5].round(2), (found.false_bound <= 1).sum())
        [0 1 2 3 4] [1. 1. 1. 1. 1.] 5

    References:
        Meinshausen & Bühlmann (2010), "Stability selection", theorem 1.
    """
    require_values(clf, x, y)
    labels = np.asarray(y)
    n, d = x.shape
    if num_selected >= d:
        raise ValueError(f"num_selected is {num_selected}, expected fewer than the {d} features")
    counts = np.bincount(labels[labels >= 0], minlength=clf.num_classes)
    single = np.flatnonzero(counts == 1)
    if (labels < 0).any() or len(single):
        which = f"class {single[0]} has one row" if (labels >= 0).all() else "some are -1"
        raise ValueError(f"y: {which}, expected a label of each row, and two rows of each class")
    rows = x.astype(float_dtype(x))
    size = sizes(num, jax.ShapeDtypeStruct((num, n), rows.dtype), batch_size or 1)
    numbers = jnp.arange(num, dtype=jnp.int32)
    given = tuple(counts.tolist()), clf, rows, jnp.asarray(y), key, numbers
    some = partial(_selected, size, num_selected, *given)
    selected = over_chunks(some, num, size.chunk, progress)
    times = jnp.zeros(d, rows.dtype).at[selected.reshape(-1)].add(1)
    frequency = times / num
    margin = 2 * frequency - 1
    bound = jnp.where(margin > 0, num_selected**2 / (jnp.where(margin > 0, margin, 1) * d), jnp.inf)
    return StableFeatures(frequency, bound, jnp.argsort(-frequency, stable=True))


@partial(compiled, static_argnums=(0, 1, 2))
def _selected(
    size: Sizes,
    num_selected: int,
    counts: tuple[int, ...],
    clf: Classifier,
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    key: Array,
    numbers: Int[Array, "num"],
    first: Int[Array, ""],
) -> Int[Array, "chunk q"]:
    """The features that each draw of a chunk selects."""

    def one(number: Array) -> Array:
        drawn = half_of_each_class(jax.random.fold_in(key, number), y, counts)
        params = fit_closed(clf, x[drawn], y[drawn], None)
        return lax.top_k(cat_scores(params, np.array(counts) // 2).overall, num_selected)[1]

    return map_chunk(one, numbers, first, size)


def half_of_each_class(key: Array, y: Int[Array, "n"], counts: tuple[int, ...]) -> Int[Array, "m"]:
    """The numbers of the rows of a draw: half of those of each class, rounded down.

    Args:
        key: a `jax.random` key.
        y: labels, of which `counts` are the numbers of each.
        counts: n_k.
    """
    order = jnp.lexsort((jax.random.bits(key, y.shape), y))
    first = np.cumsum(counts) - counts
    drawn = [np.arange(count // 2) + at for count, at in zip(counts, first, strict=True)]
    return order[np.concatenate(drawn)]
