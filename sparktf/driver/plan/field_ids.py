"""The ids by which Iceberg finds columns in files: names may change, and an id stands for one column for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.feed.arrays.arrow_types import is_list

_ID = b"PARQUET:field_id"
_ELEMENT = "[]"


def ids_in_table(schema: Mapping[str, Any]) -> dict[str, int]:
    """Returns the ids of a table's columns, and of what is in them ("user.age", "scores.[]").

    Args:
        schema: Iceberg's JSON of a schema.
    """
    found: dict[str, int] = {}
    for field in schema["fields"]:
        _add(found, field["name"], field["id"], field["type"])
    return found


def _add(found: dict[str, int], path: str, number: int, kind: Any) -> None:
    found[path] = int(number)
    if not isinstance(kind, Mapping):
        return
    if kind["type"] == "struct":
        for field in kind["fields"]:
            _add(found, f"{path}.{field['name']}", field["id"], field["type"])
    elif kind["type"] == "list":
        _add(found, f"{path}.{_ELEMENT}", kind["element-id"], kind["element"])


def check_ids(path: str, schema: pa.Schema, columns: Iterable[str], wanted: Mapping[str, int]) -> None:
    """Checks that a file's columns, and all in them, are the table's columns of the same names.

    Args:
        columns: Those that are read, which the file has.
        wanted: See `ids_in_table`.

    Raises:
        NotPlainError: one has been renamed, or the file tells no ids.
    """
    for name in columns:
        for inner, number in _ids(name, schema.field(name)):
            if inner not in wanted:
                raise NotPlainError(f"{path}: column {inner!r} has another name in the table, or had one since")
            if number is None:
                raise NotPlainError(f"{path}: column {inner!r} has no id, as in files that Iceberg did not write")
            if number != wanted[inner]:
                raise NotPlainError(
                    f"{path}: column {inner!r} is another one than the table's, which took its name over"
                )


def _ids(path: str, field: pa.Field) -> Iterable[tuple[str, int | None]]:
    text = (field.metadata or {}).get(_ID)
    yield path, None if text is None else int(text)
    if pt.is_struct(field.type):
        for inner in field.type:
            yield from _ids(f"{path}.{inner.name}", inner)
    elif is_list(field.type):
        yield from _ids(f"{path}.{_ELEMENT}", field.type.value_field)
