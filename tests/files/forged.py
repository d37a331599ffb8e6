"""Files with one value changed, which `load` has to refuse by the name of the field."""

import copy
import json
import re
import typing

import jax
import numpy as np

import genclf as gcf
from genclf.families.base import Params
from genclf.files.annotations import field_types
from genclf.files.container import FileError, to_bytes
from genclf.files.kinds import KINDS
from genclf.files.structure import Writer, estimators as estimator_kinds

# Free text, and what is checked beside other fields alone.
FREE = {"statistic", "name", "words", "stop_words", "names", "notations", "values", "_made_by"}
# Fields whose numbers are all positive, so that a sign is seen.
POSITIVE = {"scale", "dof", "inflation", "concentration", "shape", "rate", "bandwidth", "weight"}
POSITIVE |= {"count", "total", "scatter", "fourth", "mean_length", "outside", "num_values"}


SHAPES = ("an axis more", "shorter")


def written(given):
    """The structure and the arrays of what `save` writes."""
    writer = Writer()
    structure = writer.node(given, "given")
    return structure, writer.arrays


def kinds_in(node):
    """Every object of a kind in a structure."""
    if isinstance(node, dict):
        if "kind" in node:
            yield node
        for inner in node.values():
            yield from kinds_in(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from kinds_in(inner)


def name_of(node):
    """The name of the array of a node; None if it is not one."""
    if not isinstance(node, dict):
        return None
    return next((node[key] for key in ("array", "jax") if key in node), None)


def logits_in(given):
    """Names of the arrays that hold log-odds, which may be infinite."""
    has_arrays = lambda node: isinstance(node, Params) and bool(node.parameters)  # noqa: E731
    nodes = jax.tree.leaves(getattr(given, "params_", given), is_leaf=has_arrays)
    declared = [node.parameters for node in nodes if has_arrays(node)]
    return {name for of in declared for name, p in of.items() if p.link == "logit"}


def forged_arrays(name, array, logits):
    """Arrays that cannot be in the place of this one, each with what is wrong."""
    if array.dtype.kind == "f":
        values = {"gradient_norm": (), "objective": (np.inf,)} | dict.fromkeys(logits, (np.nan,))
        for value in values.get(name, (np.nan, np.inf)):
            changed = array.copy()
            changed.flat[-1] = value
            yield str(value), changed
        if name != "threshold":
            yield "whole numbers", np.zeros(array.shape, np.int32)
        if name in POSITIVE and (array > 0).all():
            yield "negative", np.asarray(-array)
    else:
        yield "floats", array.astype(float) + 0.5
        if name == "label":
            for place, value in ((0, -1), (-1, 10**6)):
                changed = array.copy()
                changed.flat[place] = value
                yield f"{value}", changed
    yield (
        "truth values" if array.dtype != bool else "numbers",
        np.zeros(array.shape, np.int8 if array.dtype == bool else bool),
    )
    if name == "count" and array.shape and (array > 0).all():
        changed = array.copy()
        changed.flat[0] = 2 * array.sum()
        yield "more than there are", changed
    if name in {"scatter", "fourth"} and array.ndim > 1 and array.shape[-2] == array.shape[-1] > 1:
        changed = array.copy()
        changed[..., 0, -1] = 2 * array.max()
        yield "not symmetric", changed
        changed = array.copy()
        changed[(0,) * (array.ndim - 1) + (-1,)] = 2 * array.max()
        yield "not symmetric in one class", changed
    yield "an axis more", np.stack([array, array], -1)
    if array.shape and len(array) > 1:
        yield "shorter", array[:-1]


def forgeries(structure, arrays, logits):
    """Changed files: each with the kind, the field and the change."""
    met = set()
    for place, node in enumerate(kinds_in(structure)):
        kind = node["kind"]
        if kind in met:
            continue
        met.add(kind)
        fields = node["fields"]
        if set(fields) == {"parameters", "state"}:
            fields = dict(fields["state"]["dict"])
        cls = KINDS.get(kind) or estimator_kinds()[kind]
        hints, domains = field_types(cls), getattr(cls, "domains", {})
        for field, value in fields.items():
            changes = [(f"{new!r}", new) for new in ("zzz", None, 7.5, {"list": [None]})]
            optional = type(None) in typing.get_args(hints.get(field)) or field in FREE
            for what, new in changes:
                if field in domains and domains[field].problem(new, field) is None:
                    continue
                if (what == "None" and optional) or (what == "'zzz'" and field in FREE):
                    continue
                new = {"float": new.hex()} if isinstance(new, float) else new
                yield kind, field, what, changed(structure, place, field, new), arrays
            if (name := name_of(value)) is not None:
                for what, new in forged_arrays(field, arrays[name], logits):
                    yield kind, field, what, structure, arrays | {name: np.asarray(new)}


def changed(structure, place, field, new):
    """A copy of a structure with another value in one field of one of its objects."""
    structure = copy.deepcopy(structure)
    fields = list(kinds_in(structure))[place]["fields"]
    if set(fields) == {"parameters", "state"}:
        pairs = fields["state"]["dict"]
        pairs[[name for name, _ in pairs].index(field)][1] = new
    else:
        fields[field] = new
    return structure


def refused(given, tmp_path):
    """Assert that each forgery is refused by name, and return how many there were."""
    path = tmp_path / "forged.genclf"
    structure, arrays = written(given)
    structure = json.loads(json.dumps(structure))
    passed, unnamed, count = [], [], 0
    for kind, field, what, new, changed_arrays in forgeries(structure, arrays, logits_in(given)):
        # The number of columns of `Independent` is that of its arrays.
        if what == "shorter" and "IndependentParams" in str(structure):
            continue
        count += 1
        used = {name_of(n) for n in _nodes(new)}
        path.write_bytes(to_bytes(new, {n: a for n, a in changed_arrays.items() if n in used}))
        try:
            gcf.load(path)
            passed.append((kind, field, what))
        except FileError as error:
            # Of two arrays whose shapes do not fit each other, either may be named.
            named = rf"\b{field}\b|shape" if what in SHAPES else rf"\b{field}\b"
            if not re.search(named, str(error)):
                unnamed.append((kind, field, what, str(error)[-200:]))
    assert not passed, passed
    assert not unnamed, unnamed
    return count


def _nodes(node):
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from _nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _nodes(inner)
