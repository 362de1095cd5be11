"""What a Parquet file's footer says, by Parquet's own types: those that Spark reads, whoever wrote the file.

Arrow keeps a schema of its own beside Parquet's (`ARROW:schema`), of types that Parquet does not have and Spark never
sees: views of text, tensors, intervals, lists of a fixed size. Arrow's reader would follow it; here it is put out of
its sight, and lengths of lists are all that is taken from it.
"""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from sparktf.feed.nested import prefixes

END = 8
"""Bytes behind the footer: its length, and four letters."""

_STORED = b"arrow:schema"
_KEY = re.compile(rb"\x18\x0cARROW:schema(?=\x18)")
"""The key in thrift's compact form, with a text behind it: a column's name has none there."""

_SIGNATURE = 28
"""Bytes behind a footer that can be read of a file that cannot, all of it (Parquet's Encryption.md, 5.2)."""

_LONGEST_DECIMAL, _DIGITS = 16, 38
_ENUM, _DECIMAL = "ENUM", "DECIMAL"

_EXTENSIONS = "arrow_extensions_enabled"
PLAIN_TYPES: dict[str, Any] = {
    name: False for name in inspect.signature(pq.ParquetFile.__init__).parameters if name == _EXTENSIONS
}
"""Options of `pyarrow.parquet.ParquetFile` that keep Arrow to the types of Parquet."""


def read_metadata(footer: pa.Buffer) -> pq.FileMetaData:
    """Returns what a footer says, without Arrow's own schema.

    Args:
        footer: From its first byte to the file's last.

    Raises:
        pa.ArrowException, OSError, UnicodeDecodeError: Arrow cannot read it.
    """
    return pq.read_metadata(pa.BufferReader(_KEY.sub(b"\x18\x0c" + _STORED, footer.to_pybytes(), count=1)))


def is_encrypted(footer: pa.Buffer, metadata: pq.FileMetaData) -> bool:
    """Whether some columns are encrypted: Arrow would end the process over what the footer says of them."""
    return bool(len(footer) - END - metadata.serialized_size == _SIGNATURE)


def columns_of(file: pq.ParquetFile) -> pa.Schema:
    """Returns the columns of a file as Spark has them, with the lengths of lists that Arrow knows."""
    schema = file.schema_arrow
    texts = iter([leaf.logical_type.type == _ENUM for leaf in map(file.schema.column, range(len(file.schema.names)))])
    stored = _stored_types(file.metadata)
    fields = [field.with_type(_sized(_named(field.type, texts), stored.get(field.name))) for field in schema]
    return pa.schema(fields)


def long_decimal(metadata: pq.FileMetaData, columns: frozenset[str]) -> str:
    """Returns why Arrow cannot read a decimal of some columns: its values take more bytes than they need; or ""."""
    for i in range(metadata.num_columns):
        leaf = metadata.schema.column(i)
        is_long = leaf.logical_type.type == _DECIMAL and leaf.length > _LONGEST_DECIMAL and leaf.precision <= _DIGITS
        if is_long and not columns.isdisjoint(prefixes(leaf.path)):
            return f"the decimals of column {leaf.path!r} take {leaf.length} bytes each"
    return ""


def _named(kind: pa.DataType, texts: Iterator[bool]) -> pa.DataType:
    """Returns a type with text in place of the bytes that names of a fixed set are to Arrow.

    Args:
        texts: Of each physical column, in their order, whether it holds such names.
    """
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_named(field.type, texts)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(_named(kind.key_type, texts), _named(kind.item_type, texts))
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(_named(kind.value_type, texts)))
    return pa.string() if next(texts, False) and pt.is_binary(kind) else kind


def _stored_types(metadata: pq.FileMetaData) -> dict[str, pa.DataType]:
    """Returns the types that Arrow stored, by columns; none where it did not, or what is there is no schema."""
    stored = (metadata.metadata or {}).get(_STORED)
    if stored is None:
        return {}
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored)))
        return dict(zip(schema.names, schema.types, strict=True))
    except (ValueError, OSError, pa.ArrowException):
        return {}


def _sized(kind: pa.DataType, stored: pa.DataType | None) -> pa.DataType:
    """Returns a type with the lengths of lists that a stored one has."""
    if isinstance(stored, pa.BaseExtensionType):
        stored = stored.storage_type
    if stored is None:
        return kind
    if pt.is_struct(kind) and pt.is_struct(stored):
        there = {field.name: field.type for field in stored}
        return pa.struct([field.with_type(_sized(field.type, there.get(field.name))) for field in kind])
    if pt.is_list(kind) and pt.is_fixed_size_list(stored):
        return pa.list_(_sized(kind.value_type, stored.value_type), stored.list_size)
    return kind
