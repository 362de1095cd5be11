"""Columns within structs, by dotted names: "user.age" is the field age of the column user.

Vectors of Spark ML are no structs here, but of the type of the lists that `sparktf.feed.arrays.vectors` makes of them.

A name is looked up as it is before it is taken apart, so that columns and fields with dots of their own are found too.
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
    """Returns the type of a column, or of a field within one; None if there is none of the name.

    In a file that has no value of a column, it is of type null, and so is what would be a field of it.

    Args:
        types: Column -> Arrow type.
    """
    found = _find(types.get, name)
    if found is None:
        return pa.null() if any(pt.is_null(types[head]) for head in prefixes(name) if head in types) else None
    return plain_type(found[1])


def path_of(types: Mapping[str, pa.DataType], name: str) -> tuple[str, ...] | None:
    """Returns the column and the fields to go down from there, ("user", "age"); None if there is none of the name."""
    found = _find(types.get, name)
    return found[0] if found else None


def column_of(columns: Mapping[str, pa.ChunkedArray], name: str) -> pa.ChunkedArray | None:
    """Returns a column, or a field within one, which is null where a struct around it is; None if there is none.

    Vectors are what they are in Arrow: structs.
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
    """Returns the columns with the fields of structs, at any depth, in place of the structs."""
    leaves: dict[str, pa.DataType] = {}
    for name, kind in types.items():
        for leaf, leaf_kind in _leaves(name, kind):
            # A column that is called like another one's field goes before it, as in a look-up.
            if leaf not in types or leaf == name:
                leaves[leaf] = leaf_kind
    return leaves


def prefixes(path: str) -> Iterator[str]:
    """Yields "a", "a.b", "a.b.c" of "a.b.c": all that may be the name of what lies at a path of Parquet's."""
    return itertools.accumulate(path.split("."), "{}.{}".format)


def _find(lookup: _Lookup, name: str) -> tuple[tuple[str, ...], pa.DataType] | None:
    """Returns the names of a column and of the fields to go down from there, and the type at the end."""
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
