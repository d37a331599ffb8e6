"""Objects of the kinds that a file may hold, as JSON and a list of arrays, and back."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from genclf.arguments.module import REGISTERED, Module, full_name
from genclf.files.annotations import field_types, fields_of
from genclf.files.container import FileError
from genclf.files.kinds import KINDS, PRESETS, estimators

_NUMBERS = "biuf"
_LARGEST_WIDTH = 16  # of a fixed-width array of strings, relative to their mean length


class Writer:
    """Makes JSON of an object, and collects its arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def node(self, value: Any, where: str) -> Any:
        """The JSON of a value; raise a `ValueError` with the location of an unsupported object."""
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return self._array(value, where)
        if isinstance(value, Mapping):
            each = [(key, self.node(item, f"{where}[{key!r}]")) for key, item in value.items()]
            return {"dict": [[self.node(key, where), item] for key, item in each]}
        if isinstance(value, frozenset):
            return {"set": sorted((self.node(item, where) for item in value), key=json.dumps)}
        if (kind := _kind_of(value)) is not None:
            fields = {name: self.node(v, f"{where}.{name}") for name, v in _fields(value).items()}
            version = {"version": value.file_version} if kind in REGISTERED else {}
            return {"kind": kind, **version, "fields": fields}
        if isinstance(value, tuple | list):
            name = "tuple" if isinstance(value, tuple) else "list"
            return {name: [self.node(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if (preset := getattr(value, "__name__", "")) and PRESETS.get(preset) is value:
            return {"preset": preset}
        raise ValueError(
            f"{where} is {type(value).__name__}, which cannot be saved{_hint(value, where)}"
        )

    def _array(self, value: np.ndarray | np.generic | jax.Array, where: str) -> dict[str, object]:
        if isinstance(value, jax.core.Tracer):
            raise ValueError(f"{where} is traced: save outside jit and vmap")
        if isinstance(value, np.ma.MaskedArray):
            raise ValueError(f"{where} is a masked array, which cannot be saved")
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            raise ValueError(f"{where} is a random key: save its jax.random.key_data")
        array = np.asarray(value)
        if array.dtype.kind in "UO":
            strings = array.ravel().tolist()
            if not all(isinstance(item, str) for item in strings):
                raise ValueError(f"{where} holds objects that are not strings")
            return {"strings": strings, "shape": list(array.shape), "object": array.dtype == "O"}
        is_number = array.dtype.kind in _NUMBERS and array.dtype.itemsize <= 8
        if not is_number and array.dtype != jnp.bfloat16:
            raise ValueError(f"{where} has the dtype {array.dtype}, which cannot be saved")
        name, node = str(len(self.arrays)), "jax" if isinstance(value, jax.Array) else "array"
        if array.dtype == jnp.bfloat16:  # safetensors cannot store it from NumPy
            array, node = array.view(np.uint16), "bfloat16"
        # safetensors requires C order and the byte order of the machine.
        self.arrays[name] = np.array(array, array.dtype.newbyteorder("="), order="C")
        return {node: name}


def read(node: object, arrays: dict[str, np.ndarray]) -> object:
    """The object of a JSON node; each array is taken out of `arrays`."""
    if node is None or isinstance(node, bool | int | str):
        return node
    if not isinstance(node, dict):
        raise FileError(f"its structure holds {type(node).__name__}")
    match node:
        case {"float": str(digits), **rest} if not rest:
            return float.fromhex(digits)
        case {"array": str(name), **rest} if not rest and name in arrays:
            return arrays.pop(name)
        case {"jax": str(name), **rest} if not rest and name in arrays:
            array = arrays.pop(name)
            # Without x64 in JAX, an array of 64 bits stays one of NumPy.
            is_exact = jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype
            return jnp.asarray(array) if is_exact else array
        case {"bfloat16": str(name), **rest} if not rest and name in arrays:
            return jnp.asarray(arrays.pop(name).view(jnp.bfloat16))
        case {"strings": list(items), "shape": list(shape), "object": bool(of_objects), **rest}:
            if rest or not all(isinstance(item, str) for item in items):
                raise FileError("its structure has an invalid array of strings")
            return _strings(items, shape, of_objects)
        case {"dict": list(pairs), **rest} if not rest:
            return {read(key, arrays): read(item, arrays) for key, item in pairs}
        case {"set": list(items), **rest} if not rest:
            return frozenset(read(item, arrays) for item in items)
        case {"tuple": list(items), **rest} if not rest:
            return tuple(read(item, arrays) for item in items)
        case {"list": list(items), **rest} if not rest:
            return [read(item, arrays) for item in items]
        case {"preset": str(name), **rest} if not rest and name in PRESETS:
            return PRESETS[name]
        case {"kind": str(kind), "fields": dict(fields), **rest} if not rest.keys() - {"version"}:
            cls = _class_of(kind, rest.get("version"))
            return _made(kind, cls, {name: read(item, arrays) for name, item in fields.items()})
    hint = "; genclf.stream.Predictor.load reads it" if "predictor" in node else ""
    raise FileError(f"its structure has the unknown entry {sorted(node)!r:.80}{hint}")


def _strings(items: list[str], shape: list[Any], of_objects: bool) -> np.ndarray:
    """The array of strings, of dtype object if NumPy would pad them to many times their length."""
    if not all(type(n) is int and n >= 0 for n in shape) or math.prod(shape) != len(items):
        raise FileError(f"its structure has {len(items)} strings of shape {shape!r:.60}")
    lengths = [len(item) for item in items]
    too_wide = max(lengths, default=0) * len(items) > _LARGEST_WIDTH * (sum(lengths) + len(items))
    return np.array(items, object if of_objects or too_wide else str).reshape(shape)


def _kind_of(value: object) -> str | None:
    """The name of the kind of an object; None if files cannot hold it."""
    name = type(value).__name__
    if KINDS.get(name) is type(value):
        return name
    full = full_name(type(value))
    if REGISTERED.get(full) is type(value) and not full.startswith("genclf."):
        return full
    if not type(value).__module__.startswith("genclf.sklearn."):
        return None
    name = f"sklearn.{name}"
    return name if estimators().get(name) is type(value) else None


def _hint(value: object, where: str) -> str:
    """A hint at what to save instead of an object, for the error message."""
    if callable(value):
        if "structure" in where:
            return ": it is a function; save the fitted params, which do not hold it"
        return ": give a model, such as genclf.lda(3), or a preset, such as genclf.lda"
    if hasattr(value, "save"):
        return ": use its own method `save`"
    names = ("best", "best_estimator_", "named_steps", "classifier")
    found = [name for name in names if hasattr(value, name)]
    return f": save what is in its {found[0]}" if found else ""


def _fields(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) or isinstance(value, tuple):
        return fields_of(value)
    parameters = value.get_params(deep=False)
    left_out = {*parameters, "_cache", "_sklearn_version"}
    fitted = {k: v for k, v in value.__getstate__().items() if k not in left_out}
    return {"parameters": parameters, "state": fitted}


def _class_of(kind: str, version: object) -> type:
    """The class of this name; a class of another package has to be imported already."""
    if version is None:
        is_estimator = kind.startswith("sklearn.")
        if cls := estimators().get(kind) if is_estimator else KINDS.get(kind):
            return cls
        raise FileError(f"it holds the kind {kind!r:.80}, which this genclf does not know")
    found = None if kind.startswith("genclf.") else REGISTERED.get(kind)
    if found is None:
        module, _, name = kind.rpartition(".")
        raise FileError(
            f"it holds {name!r:.80}, which genclf does not define: import {module:.200} first, or "
            "the module that defines it now"
        )
    if version != found.file_version:  # type: ignore[attr-defined]
        own = found.file_version  # type: ignore[attr-defined]
        raise FileError(
            f"it holds {kind!r:.200} of version {version!r:.20}, but the imported class has "
            f"version {own}"
        )
    return found


def _made(kind: str, cls: Any, fields: dict[str, Any]) -> Any:
    if kind.startswith("sklearn.") and not issubclass(cls, tuple):
        return _estimator(cls, **fields)
    names = {*cls._fields} if issubclass(cls, tuple) else {f.name for f in dataclasses.fields(cls)}
    fields = getattr(cls, "added_fields", {}) | fields
    if fields.keys() != names:
        raise FileError(f"its {kind} has the fields {sorted(fields)}, expected {sorted(names)}")
    if not issubclass(cls, Module):
        return cls(**fields)
    made = object.__new__(cls)  # its own `__init__` may take other arguments
    for name, value in fields.items():
        setattr(made, name, value)  # a field converts it
    return made


def _estimator(cls: type, parameters: dict[str, object], state: dict[str, object]) -> object:
    made = cls(**parameters)
    if unknown := state.keys() - field_types(cls).keys():
        raise FileError(f"its {cls.__name__} has the unknown attribute {min(unknown)!r:.80}")
    if state and (lacking := _STATE - state.keys()):
        raise FileError(f"its {cls.__name__} lacks {min(lacking)!r}")
    vars(made).update(state | {"_cache": {}} if state else state)
    return made


_STATE = {"params_", "classes_", "n_features_in_", "_stats", "_fitted_model"}
