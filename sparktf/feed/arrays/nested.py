"""Columns within structs, by dotted names: "user.age" is the field age of the column user.

Spark ML's vectors do not count as structs, but have the type of lists that `sparktf.feed.arrays.vectors` makes of them.
A name is looked up as a whole before it is split, so that columns and fields with dots in their names are found, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.feed.arrays.vectors import is_vector, plain_type

_Lookup = Callable[[str], pa.DataType | None]


def type_of(types: Mapping[str, pa.DataType], name: str) -> pa.DataType | None:
    """Returns the type of a column, or of a field within one; None if there is none.

    In a file without any value of a column, its type is null, and so is that of its fields.
    """
    found = _find(types.get, name)
    if found is None:
        return pa.null() if any(pt.is_null(types[head]) for head in prefixes(name) if head in types) else None
    return plain_type(found[1])


def path_of(types: Mapping[str, pa.DataType], name: str) -> tuple[str, ...] | None:
    """Returns the path of column and fields, ("user", "age"); None if there is none of the name."""
    found = _find(types.get, name)
    return found[0] if found else None


def column_of(columns: Mapping[str, pa.ChunkedArray], name: str) -> pa.ChunkedArray | None:
    """Returns a column, or a field within one (null if the struct is null); None if there is none.

    Vectors are returned as structs, as in Arrow.
    """
    if name in columns:
        return columns[name]
    found = _find(lambda root: columns[root].type if root in columns else None, name)
    if found is None:
        heads = (columns[head] for head in prefixes(name) if head in columns)
        return next((column for column in heads if pt.is_null(column.type)), None)
    (root, *fields), _ = found
    return pc.struct_field(columns[root], fields)


def leaf_types(types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Returns the columns with structs replaced by their fields, at any depth."""
    leaves: dict[str, pa.DataType] = {}
    for name, kind in types.items():
        for leaf, leaf_kind in _leaves(name, kind):
            # A column with the name of another one's field takes precedence, as in a look-up.
            if leaf not in types or leaf == name:
                leaves[leaf] = leaf_kind
    return leaves


def prefixes(path: str) -> Iterator[str]:
    """Yields "a", "a.b", "a.b.c" for "a.b.c": all possible names at a Parquet path."""
    return itertools.accumulate(path.split("."), "{}.{}".format)


def _find(lookup: _Lookup, name: str) -> tuple[tuple[str, ...], pa.DataType] | None:
    """Returns the path of column and fields, and the type at its end."""
    kind = lookup(name)
    if kind is not None:
        return (name,), kind
    head = name
    while "." in head:
        head = head.rpartition(".")[0]
        struct = lookup(head)
        if struct is None or not pt.is_struct(struct):
            continue
        below = _find(_fields_of(struct), name[len(head) + 1 :])
        if below is not None:
            return (head, *below[0]), below[1]
    return None


def _fields_of(struct: pa.StructType) -> _Lookup:
    def field(name: str) -> pa.DataType | None:
        index = struct.get_field_index(name)
        return None if index < 0 else struct.field(index).type

    return field


def _leaves(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if not pt.is_struct(kind) or is_vector(kind):
        yield name, plain_type(kind)
        return
    for field in kind:
        yield from _leaves(f"{name}.{field.name}", field.type)
