"""Reads Parquet footers by Parquet's own types, which Spark reads, whichever program wrote the file.

Arrow stores its own schema beside Parquet's (`ARROW:schema`), with types that Parquet lacks and Spark never sees:
string views, tensors, intervals, lists of fixed size. Arrow's reader would apply it; here it is hidden from Arrow, and
only the lengths of lists are taken from it.
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

from sparktf.feed.arrays.nested import prefixes

END = 8
"""Bytes behind the footer: its length, and four letters."""

_STORED = b"arrow:schema"
_KEY = re.compile(rb"\x18\x0cARROW:schema(?=\x18)")
"""The key in Thrift's compact protocol, with a string behind it, unlike a column's name."""

_NO_ALGORITHM = b"\x8c\0"
"""Field 8 of a footer, `encryption_algorithm`, that names none."""

_COLUMN_KEYS = (re.compile(rb"\x2c(?<=[\x1c\x2c\x3c\x4c\x5c\x6c]\x2c)\x19"), re.compile(rb"\x1c\0\x1c\x19"))
"""Beginnings of a column's key (`ENCRYPTION_WITH_COLUMN_KEY`), alone or beside the footer's, as Arrow writes it."""

_PLAIN_END = b"\0\x1c\0\0\x1c\0\0\0"
"""End of a footer whose last field is 7, the column orders, as written without encryption."""

_MOST_KEYS, _MOST_PARTS = 1000, 256
"""Limits of candidates and of parts of a path to examine: other bytes hardly ever match more often or longer."""

_TEXT, _NEXT_TEXT, _LONG = 8, 0x18, 15
"""In Thrift: the type of a string, the header of a following string field, and the size marker of a long list."""

_LONGEST_DECIMAL, _DIGITS = 16, 38  # Bytes and digits of Arrow's decimal128
_ENUM, _DECIMAL = "ENUM", "DECIMAL"

_EXTENSIONS = "arrow_extensions_enabled"
PLAIN_TYPES: dict[str, Any] = {
    name: False for name in inspect.signature(pq.ParquetFile.__init__).parameters if name == _EXTENSIONS
}
"""Options of `pyarrow.parquet.ParquetFile` that keep Arrow to the types of Parquet."""


def read_metadata(footer: pa.Buffer) -> pq.FileMetaData:
    """Returns the metadata of a footer, which reaches to the file's last byte, without Arrow's own schema.

    Raises:
        pa.ArrowException, OSError, UnicodeDecodeError: Arrow cannot read it.
    """
    return _parsed(_without_stored(footer))


def is_encrypted(footer: pa.Buffer, metadata: pq.FileMetaData) -> bool:
    """Whether some columns are encrypted: pyarrow ends the process (SIGABRT) over `path_in_schema` of such a column."""
    raw = _without_stored(footer)
    # The last bytes decide it for most footers: parsing one again takes twice as long as parsing it once.
    if not raw.endswith(_PLAIN_END, 0, -END) and _names_algorithm(raw, metadata):
        return True
    return any(pattern.search(raw) for pattern in _COLUMN_KEYS) and _has_column_keys(metadata)


def _without_stored(footer: pa.Buffer) -> bytes:
    """Returns a footer whose key of Arrow's schema is renamed."""
    return _KEY.sub(b"\x18\x0c" + _STORED, footer.to_pybytes(), count=1)


def _parsed(footer: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(footer))


def _names_algorithm(footer: bytes, metadata: pq.FileMetaData) -> bool:
    """Whether a footer has field 8 in any form: then prepending an empty field 8 does not change its meaning."""
    step, kind = divmod(footer[0], 16)
    # Thrift encodes a field's number as the distance from the one before, or as a zigzag varint behind its type.
    first = bytes([kind, 2 * step]) if step else footer[:1]
    fields = _NO_ALGORITHM + first + footer[1:-END]
    return bool(_parsed(fields + len(fields).to_bytes(4, "little") + footer[-4:]).equals(metadata))


def _has_column_keys(metadata: pq.FileMetaData) -> bool:
    """Whether a column chunk has its own key, which is possible without field 8 in the footer."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    written = sink.getvalue().to_pybytes()
    found = (match.end() for pattern in _COLUMN_KEYS for match in pattern.finditer(written))
    return any(i >= _MOST_KEYS or _is_key(written, at) for i, at in enumerate(found))


def _is_key(written: bytes, at: int) -> bool:
    """Whether the rest of a column's key is there: its path, optional key metadata, and the ends of both structs."""
    try:
        size, kind = divmod(written[at], 16)
        at += 1
        if size == _LONG:
            size, at = _varint(written, at)
        if size > _MOST_PARTS or kind != _TEXT:
            return kind == _TEXT and _parts_end(written, at, _MOST_PARTS) <= len(written)
        at = _parts_end(written, at, size)
        if written[at] == _NEXT_TEXT:
            at = _parts_end(written, at + 1, 1)
        return written[at : at + 2] == b"\0\0"
    except IndexError:
        return False


def _parts_end(written: bytes, at: int, size: int) -> int:
    """Returns the end of several strings in sequence.

    Raises:
        IndexError: the bytes end before.
    """
    for _ in range(size):
        length, at = _varint(written, at)
        at += length
    return at


def _varint(written: bytes, at: int) -> tuple[int, int]:
    """Returns a varint, and its end.

    Raises:
        IndexError: it does not end.
    """
    value = 0
    for shift in range(0, 70, 7):
        value |= (written[at + shift // 7] & 0x7F) << shift
        if written[at + shift // 7] < 0x80:
            return value, at + shift // 7 + 1
    raise IndexError("a number of more than 64 bits")


def columns_of(file: pq.ParquetFile) -> pa.Schema:
    """Returns the columns of a file with Spark's types, and with the lengths of lists that Arrow stored."""
    schema = file.schema_arrow
    texts = iter([leaf.logical_type.type == _ENUM for leaf in map(file.schema.column, range(len(file.schema.names)))])
    stored = _stored_types(file.metadata)
    fields = [field.with_type(_sized(_named(field.type, texts), stored.get(field.name))) for field in schema]
    return pa.schema(fields)


def long_decimal(metadata: pq.FileMetaData, columns: frozenset[str]) -> str:
    """Returns why Arrow cannot read decimals of some columns, which take more bytes than needed; "" if it can."""
    for i in range(metadata.num_columns):
        leaf = metadata.schema.column(i)
        is_long = leaf.logical_type.type == _DECIMAL and leaf.length > _LONGEST_DECIMAL and leaf.precision <= _DIGITS
        if is_long and not columns.isdisjoint(prefixes(leaf.path)):
            return f"the decimals of column {leaf.path!r} take {leaf.length} bytes each"
    return ""


def _named(kind: pa.DataType, texts: Iterator[bool]) -> pa.DataType:
    """Returns a type with strings in place of the bytes that Arrow reads for Parquet's ENUM.

    Args:
        texts: Whether each physical column is an ENUM, in order.
    """
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_named(field.type, texts)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(_named(kind.key_type, texts), _named(kind.item_type, texts))
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(_named(kind.value_type, texts)))
    return pa.string() if next(texts, False) and pt.is_binary(kind) else kind


def _stored_types(metadata: pq.FileMetaData) -> dict[str, pa.DataType]:
    """Returns the column types that Arrow stored; none if there is no valid schema."""
    stored = (metadata.metadata or {}).get(_STORED)
    if stored is None:
        return {}
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored)))
        return dict(zip(schema.names, schema.types, strict=True))
    except (ValueError, OSError, pa.ArrowException):
        return {}


def _sized(kind: pa.DataType, stored: pa.DataType | None) -> pa.DataType:
    """Returns a type with the list lengths of a stored one."""
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
