"""Random Parquet files of given rows: every encoding, page and row group that a writer may choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fuzz.cells import Told
from fuzz.tensors import Column, Row
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

_BATCHES = st.sampled_from((1, 1024))


@dataclass(frozen=True)
class FileShape(Told):
    """How one file is written.

    Attributes:
        folder: Its partition folders.
        groups: Rows of each row group.
        plain: The columns that are written without a dictionary -> their encoding.
        options: Of `pyarrow.parquet.ParquetWriter`.
        untyped: Whether columns without a value in the file are of type null there, as pandas writes them.
    """

    folder: str
    groups: tuple[int, ...]
    plain: Mapping[str, str]
    options: Mapping[str, Any]
    untyped: bool = False

    @property
    def rows(self) -> int:
        return sum(self.groups)


@st.composite
def file_shapes(draw: DrawFn, columns: Sequence[Column], folder: str = "", *, max_rows: int = 25) -> FileShape:
    """Draws the shape of a file with some row groups, of which any may be empty, or without one."""
    groups = draw(st.lists(st.integers(0, max_rows), max_size=3))
    plain = {}
    for column in columns:
        # Arrow itself cannot read what it writes as a dictionary in pages of deltas.
        encodings = () if column.dictionary else column.cells.encodings
        encoding = draw(st.sampled_from(("", "PLAIN", *encodings)))
        if encoding:
            plain[column.name] = encoding
    needs_schema = any(column.size or column.dictionary for column in columns)
    options: dict[str, Any] = {
        "compression": draw(st.sampled_from(("none", "snappy", "gzip", "zstd", "lz4", "brotli"))),
        "data_page_version": draw(st.sampled_from(("1.0", "2.0"))),
        "version": "2.6",
        "write_statistics": draw(st.booleans()),
        "write_page_checksum": draw(st.booleans()),
        "write_page_index": draw(st.booleans()),
        # Below this, Arrow writes files of empty lists within structs that Arrow itself cannot read.
        "data_page_size": draw(st.sampled_from((32, 1 << 20))),
        # As below.
        "write_batch_size": 1024 if any("_view" in str(column) for column in columns) else draw(_BATCHES),
        "store_schema": needs_schema or draw(st.booleans()),
    }
    return FileShape(folder, tuple(groups), plain, options)


def write(path: Path, shape: FileShape, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Writes a file of the shape with its rows."""
    has_views = any("_view" in str(column) for column in columns)
    untyped = shape.untyped and not has_views
    table = table_of(columns, rows, untyped=untyped)
    leaves = _leaves(table.schema)
    empty = {column.name for column in columns if untyped and not any(_values(column, rows))}
    encodings = {leaf: shape.plain[name] for leaf, name in leaves.items() if name in shape.plain.keys() - empty}
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(
        path,
        table.schema,
        use_dictionary=[leaf for leaf in leaves if leaf not in encodings] or False,
        column_encoding=encodings,
        **shape.options,
    ) as writer:
        first = 0
        for number in shape.groups:
            # Arrow does not write a part of a view within a struct.
            part = table_of(columns, rows[first : first + number]) if has_views else table.slice(first, number)
            writer.write_table(part, row_group_size=max(1, number))
            first += number


def _leaves(schema: pa.Schema) -> dict[str, str]:
    """Returns the paths of the physical columns -> names of the columns."""
    found: dict[str, str] = {}

    def visit(path: str, name: str, kind: pa.DataType) -> None:
        if pa.types.is_struct(kind):
            for field in kind:
                visit(f"{path}.{field.name}", f"{name}.{field.name}", field.type)
        elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            found[f"{path}.list.element"] = name
        else:
            found[path] = name

    for field in schema:
        visit(field.name, field.name, field.type)
    return found


def table_of(columns: Sequence[Column], rows: Sequence[Row], *, untyped: bool = False) -> pa.Table:
    """Returns the rows as an Arrow table, with structs; one of nothing but nulls is null.

    Args:
        untyped: Columns without a value are of type null.
    """

    def array(column: Column) -> pa.Array:
        values = [row[column.name] for row in rows]
        return pa.nulls(len(rows)) if untyped and not any(_values(column, rows)) else _array(column, values)

    return pa.table(_tree({tuple(column.name.split(".")): array(column) for column in columns}, len(rows)))


def _values(column: Column, rows: Sequence[Row]) -> Iterator[bool]:
    """Yields of each row whether the column has a value."""
    return (row[column.name] is not None for row in rows)


def _tree(arrays: Mapping[tuple[str, ...], pa.Array], rows: int) -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
    for name in dict.fromkeys(path[0] for path in arrays):
        if (name,) in arrays:
            found[name] = arrays[(name,)]
            continue
        fields = _tree({path[1:]: array for path, array in arrays.items() if path[0] == name}, rows)
        nulls = [not any(array[i].is_valid for array in fields.values()) for i in range(rows)]
        found[name] = pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=pa.array(nulls, pa.bool_()))
    return found


def _array(column: Column, values: Sequence[Any]) -> pa.Array:
    cells = column.cells
    if column.is_list:
        kind = pa.list_(cells.arrow) if column.size is None else pa.list_(cells.arrow, column.size)
        return pa.array(values, kind)
    array = cells.to_arrow(values)
    return array.dictionary_encode() if column.dictionary else array
