"""EM over a stream: each step is one pass, which sums the statistics expected under the params."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import numpy as np

from genclf.classifier.classifier import Classifier, ClassifierParams
from genclf.classifier.estimation import estimated
from genclf.files.container import FileError
from genclf.files.save import load, save
from genclf.fitting.em import em
from genclf.fitting.em_start import check_for_em
from genclf.stream.batches import Batches
from genclf.stream.checkpoint import Store, check_digest, is_there, not_of, of_unit, sum_units
from genclf.stream.on_device import arrays_of, checked_pieces, expected_part
from genclf.stream.part import Part
from genclf.stream.schema import Schema
from genclf.stream.units import units

_STEPS = 20  # steps of EM on the first rows


@dataclass(frozen=True)
class PassFile(Store):
    """A checkpoint of one EM pass.

    It has the params before the pass, its number, its sum so far, and a digest of the names of the
    previous pass's units.

    Attributes:
        path: the file.
        params: those before the pass.
        step: the number of the pass, from 0.
        read_before: the digest of the names of the units of the pass before.
        model: the digest of the model and of the params that EM began with.
    """

    path: Path
    params: ClassifierParams
    step: int
    read_before: bytes
    model: bytes

    def read(self, digest: str) -> Part | None:
        state = _read(self.path, digest, self.model)
        return None if state is None or state[1] != self.step else state[2]

    def write(self, part: Part) -> None:
        sums = np.frombuffer(part.to_bytes(), np.uint8)
        before, model = (np.frombuffer(a, np.uint8) for a in (self.read_before, self.model))
        state = {"params": self.params, "step": self.step, "sums": sums, "before": before}
        save(self.path, state | {"model": model})


def _read(
    path: Path, digest: str, model: bytes
) -> tuple[ClassifierParams, int, Part, bytes] | None:
    if not is_there(path):
        return None
    try:
        state = load(path)
    except FileError as error:
        raise not_of(path, "several passes", error) from error
    part = Part.from_bytes(np.asarray(state["sums"]).tobytes())
    found, wanted = (whole.partition("-")[0] for whole in (part.digest, digest))
    check_digest(found, wanted, path)
    if np.asarray(state.get("model", ())).tobytes() != model:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} is of a model with other hyper-parameters, or of "
            "another init: use another file"
        )
    return state["params"], state["step"], part, np.asarray(state["before"]).tobytes()


def _digest_of(clf: Classifier, init: ClassifierParams | None) -> bytes:
    found = hashlib.sha256(str(jax.tree.structure((clf, init))).encode())
    for leaf in jax.tree.leaves((clf, init)):
        found.update(np.asarray(leaf, float).tobytes())
    return found.digest()


def _digest(names: Iterable[str]) -> bytes:
    return hashlib.sha256("\n".join(sorted(names)).encode()).digest()


def fit_passes(
    clf: Classifier,
    batches: Batches,
    schema: Schema,
    *,
    passes: int,
    init: ClassifierParams | None,
    checkpoint: str | os.PathLike[str] | None,
    every: float | int,
    progress: bool,
) -> ClassifierParams:
    """The params after `passes` steps of EM; see `genclf.stream.fit_batches`."""
    check_for_em(clf)
    if isinstance(batches, Iterator):
        raise ValueError("batches is an iterator, which is read once: give a list for more passes")
    path = None if checkpoint is None else Path(checkpoint)
    model, before = _digest_of(clf, init), b""
    state = None if path is None else _read(path, schema.digest, model)
    if state is not None:
        _, first, _, before = state
        place = f"checkpoint {os.fspath(path or '')!r} is of pass {first + 1}"
        if first >= passes:
            raise ValueError(f"{place}, but passes is {passes}: expected at least {first + 1}")
        if before and before != _digest(name for name, _ in units(batches)):
            raise ValueError(f"{place}, but earlier passes read other files: use another one")
    with jax.enable_x64(True):
        if state is not None:
            params, first = state[:2]
        else:
            params, first = _start(clf, batches, schema) if init is None else init, 0
        for step in range(first, passes):
            summed = partial(of_unit, partial(expected_part, clf, params), schema)
            part = sum_units(
                batches,
                empty=summed("nothing", []),
                summed=summed,
                store=None if path is None else PassFile(path, params, step, before, model),
                every=every,
                progress=progress,
            )
            params, before = _estimated(clf, part), _digest(part.part_ids)
    return _estimated(clf, part)


def _estimated(clf: Classifier, part: Part) -> ClassifierParams:
    """The M step, in the dtype of JAX's setting."""
    return estimated(clf.effective(), part.stats)


def _start(clf: Classifier, batches: Batches, schema: Schema) -> ClassifierParams:
    """The params of EM on the first rows."""
    read = partial(of_unit, partial(checked_pieces, clf, unlabelled=True), schema)
    each = (piece for unit in units(batches) for piece in read(*unit) if len(piece.label))
    first = next(each, None)
    if first is None:
        raise ValueError("batches have no row to start EM from: give init=")
    x, y, w = arrays_of(first)
    if missing := [name for k, name in enumerate(schema.classes) if k not in y and -1 not in y]:
        raise ValueError(
            f"class {missing[0]!r} has no row among the first {len(y)}, from which EM starts: mix "
            "the rows, or give init="
        )
    return em(clf, x, y, weights=w, key=jax.random.key(0), max_steps=_STEPS).params
