"""A schema as text of JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from genclf.stream.recipes import RECIPES, PartOfModel
from genclf.tables.columns import Column

_DATE = "a date", "a date with its time"  # which JSON does not have


def json_of(fields: dict[str, Any], parts: Iterable[PartOfModel]) -> str:
    """The fields of a schema, as dicts, and its parts as text, the same for equal schemas."""
    for column in fields["columns"]:
        del column["detail"], column["num_missing"]  # of the rows that it was learned from
    for part, given in zip(fields["parts"], parts, strict=True):
        part["recipe"] = given.recipe and [type(given.recipe).__name__, part["recipe"]]
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), default=_as_json)


def fields_of(text: str) -> dict[str, Any]:
    """The fields of the schema that `json_of` wrote; raise for other text."""
    fields = json.loads(text, object_hook=_of_json)
    of = lambda column: _with_tuple(_with_tuple(column, "values"), "edges")  # noqa: E731
    columns = tuple(Column(**of(column)) for column in fields["columns"])
    parts = []
    for part in fields["parts"]:
        if part["recipe"] is not None:
            kind, own = part["recipe"]
            part["recipe"] = RECIPES[kind](**_with_tuple(own, "num_values"))
        parts.append(PartOfModel(**part))
    return _with_tuple(fields | {"columns": columns, "parts": tuple(parts)}, "classes")


def _as_json(value: object) -> dict[str, str]:
    if not isinstance(value, date):
        raise TypeError(f"{value!r} is a {type(value).__name__}, which a schema cannot hold")
    return {_DATE[isinstance(value, datetime)]: value.isoformat()}


def _of_json(given: dict[str, Any]) -> Any:
    for name, kind in zip(_DATE, (date, datetime), strict=True):
        if given.keys() == {name}:
            return kind.fromisoformat(given[name])
    return given


def _with_tuple(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return fields | {name: tuple(fields[name])} if name in fields else fields
