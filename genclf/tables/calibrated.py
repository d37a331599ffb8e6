"""The posteriors of all models, each row calibrated without its fold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from genclf.arguments.sharding import compiled
from genclf.classifier.pieces import on_host
from genclf.numerics.namespace import Array
from genclf.select.recalibration import Recalibration, groups_of, recalibrated
from genclf.tables.trials import Trial


class Calibrated(NamedTuple):
    """A calibration of one model: a temperature, and a bias for each class.

    Attributes:
        map: the calibration to all rows, and what it gained.
        log_posterior: log q(y | x) of each row by the calibration without its fold, (n, K).
    """

    map: Recalibration
    log_posterior: Float[np.ndarray, "n K"]


def calibrations(
    trials: Sequence[Trial], y: np.ndarray, folds: np.ndarray, w: np.ndarray
) -> list[Calibrated | None]:
    """The calibration of each trial, by one program; None for a trial without valid scores.

    All numbers are NaN for a model that gives probability 0 to the class of some row.
    """
    each = {
        i: trial.scores.log_posterior
        for i, trial in enumerate(trials)
        if trial.scores is not None and not trial.problem
    }
    num_groups, group = groups_of(folds)
    maps, log_q = on_host(_each(np.stack([*each.values()]), y, w, group, num_groups))
    found: list[Calibrated | None] = [None] * len(trials)
    for at, i in enumerate(each):
        found[i] = Calibrated(jax.tree.map(lambda a, at=at: a[at], maps), log_q[at])
    return found


@partial(compiled, static_argnums=4, fast_compile=2**17)
def _each(
    log_p: Array, y: Array, w: Array, group: Array, num_groups: int
) -> tuple[Recalibration, Array]:
    return lax.map(lambda one: recalibrated(one, y, w, group, True, num_groups), jnp.asarray(log_p))
