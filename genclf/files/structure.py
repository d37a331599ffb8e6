"""Objects of the kinds that a file may hold, as JSON and a list of arrays, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from genclf.arguments.hyperparameters import Declared
from genclf.files.container import FileError
from genclf.files.kinds import KINDS, PRESETS, estimators

_NUMBERS = "biuf"


class Writer:
    """Makes JSON of an object, and collects its arrays."""

    def __init__(self) -> None:
        """Start without arrays."""
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
            return {"set": [self.node(item, where) for item in sorted(value)]}
        if (kind := _kind_of(value)) is not None:
            fields = {name: self.node(v, f"{where}.{name}") for name, v in _fields(value).items()}
            return {"kind": kind, "fields": fields}
        if isinstance(value, tuple | list):
            name = "tuple" if isinstance(value, tuple) else "list"
            return {name: [self.node(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if (preset := getattr(value, "__name__", "")) and PRESETS.get(preset) is value:
            return {"preset": preset}
        raise ValueError(f"{where} is {type(value).__name__}, which no file holds{_hint(value)}")

    def _array(self, value: Any, where: str) -> Any:
        if isinstance(value, jax.core.Tracer):
            raise ValueError(f"{where} is traced: save outside jit and vmap")
        if isinstance(value, np.ma.MaskedArray):
            raise ValueError(f"{where} is a masked array, which no file holds")
        array = np.asarray(value)
        if array.dtype.kind in "UO":
            strings = array.ravel().tolist()
            if not all(isinstance(item, str) for item in strings):
                raise ValueError(f"{where} holds objects that are no strings, which no file holds")
            return {"strings": strings, "shape": list(array.shape), "object": array.dtype == "O"}
        if array.dtype.kind not in _NUMBERS and array.dtype != jnp.bfloat16:
            raise ValueError(f"{where} has the dtype {array.dtype}, which no file holds")
        name, node = str(len(self.arrays)), "jax" if isinstance(value, jax.Array) else "array"
        if array.dtype == jnp.bfloat16:  # safetensors cannot store it from NumPy
            array, node = array.view(np.uint16), "bfloat16"
        self.arrays[name] = np.array(array, order="C")  # safetensors requires C order
        return {node: name}


def read(node: Any, arrays: dict[str, np.ndarray]) -> Any:
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
            # If JAX has no 64 bits now, the array stays one of NumPy, with all its bits.
            is_exact = jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype
            return jnp.asarray(array) if is_exact else array
        case {"bfloat16": str(name), **rest} if not rest and name in arrays:
            return jnp.asarray(arrays.pop(name).view(jnp.bfloat16))
        case {"strings": list(items), "shape": list(shape), "object": bool(of_objects), **rest}:
            if rest or not all(isinstance(item, str) for item in items):
                raise FileError("its structure has strings that are none")
            return np.array(items, object if of_objects else str).reshape(shape)
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
        case {"kind": str(kind), "fields": dict(fields), **rest} if not rest:
            return _made(kind, {name: read(item, arrays) for name, item in fields.items()})
    raise FileError(f"its structure has an entry of {sorted(node)}, which is none")


def _kind_of(value: Any) -> str | None:
    """The name of the kind of an object; None if files cannot hold it."""
    name = type(value).__name__
    if KINDS.get(name) is type(value):
        return name
    if not type(value).__module__.startswith("genclf.sklearn."):
        return None
    name = f"sklearn.{name}"
    return name if estimators().get(name) is type(value) else None


def _hint(value: Any) -> str:
    """A hint at what to save instead of an object, for the error message."""
    if callable(value):
        return ": give a model, such as genclf.lda(3), or a preset, such as genclf.lda"
    found = [name for name in ("best", "best_estimator_", "named_steps") if hasattr(value, name)]
    return f": save what is in its {found[0]}" if found else ""


def _fields(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined]
    return {"parameters": value.get_params(deep=False), "state": _state(value)}


def _state(estimator: Any) -> dict[str, Any]:
    """The fitted attributes of an estimator."""
    parameters = estimator.get_params(deep=False)
    left_out = {*parameters, "_cache", "_sklearn_version"}
    return {k: v for k, v in estimator.__getstate__().items() if k not in left_out}


def _made(kind: str, fields: dict[str, Any]) -> Any:
    cls = KINDS.get(kind) or (estimators().get(kind) if kind.startswith("sklearn.") else None)
    if cls is None:
        raise FileError(f"it holds the kind {kind!r}, which this genclf does not know")
    if kind.startswith("sklearn.") and not issubclass(cls, tuple):
        return _estimator(cls, **fields)
    made_of: Any = cls
    if issubclass(cls, tuple):
        names = made_of._fields
    else:
        names = [field.name for field in dataclasses.fields(made_of)]
    if fields.keys() != set(names):
        raise FileError(f"its {kind} has the fields {sorted(fields)}, expected {sorted(names)}")
    if issubclass(cls, eqx.Module) and not issubclass(cls, Declared):
        made = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(made, name, value)
        return made
    return cls(**fields)


def _estimator(cls: type, parameters: dict[str, Any], state: dict[str, Any]) -> Any:
    made = cls(**parameters)
    unknown = [n for n in state if not (n.endswith("_") or n in _STATE) or hasattr(cls, n)]
    if unknown:
        raise FileError(f"its {cls.__name__} has {unknown[0]!r}, which none has")
    vars(made).update(state | {"_cache": {}} if state else state)
    return made


_STATE = ("_stats", "_fitted_model", "_made_by")
