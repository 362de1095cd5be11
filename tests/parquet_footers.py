"""Parquet files that are uncommon: footers by hand, in thrift's compact form, and encrypted columns."""

from __future__ import annotations

import base64
import itertools
import struct
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

_SIGNATURE = 28

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_STOP = b"\0"

Field = tuple[int, int, bytes]
"""Number, kind and content of a field."""


def binary(content: str | bytes) -> bytes:
    """Returns a text."""
    content = content.encode() if isinstance(content, str) else content
    return _varint(len(content)) + content


def elem(
    name: str | bytes,
    *,
    kind: int | None = None,
    length: int | None = None,
    rep: int | None = None,
    children: int | None = None,
    converted: int | None = None,
    scale: int | None = None,
    precision: int | None = None,
    logical: int | None = None,
) -> bytes:
    """Returns a SchemaElement of parquet.thrift."""
    numbers = {1: kind, 2: length, 3: rep, 5: children, 6: converted, 7: scale, 8: precision}
    fields: list[Field] = [(i, _I32, _zigzag(value)) for i, value in numbers.items() if value is not None]
    fields.append((4, _BINARY, binary(name)))
    if logical is not None:
        fields.append((10, _STRUCT, _struct([(logical, _STRUCT, _STOP)])))
    return _struct(sorted(fields))


def footer_only(fields: Sequence[bytes], *, top: int) -> bytes:
    """Returns a file without rows.

    Args:
        fields: `elem` of each, depth first.
        top: How many of them are columns.
    """
    schema = _list([elem("schema", children=top), *fields])
    footer = _struct([(1, _I32, _zigzag(1)), (2, _LIST, schema), (3, _I64, _zigzag(0)), (4, _LIST, _list([]))])
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def tell_rows(path: Path, rows: int, told: int) -> None:
    """Has the footer of a file with one row group tell of other rows than there are.

    Args:
        rows: That there are, and values in the first column.
    """
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    head, footer, old, new = content[:start], content[start:-8], _rows(rows), _rows(told)
    found = [i for i in range(len(footer)) if footer.startswith(old, i)]
    for chosen in itertools.chain.from_iterable(itertools.combinations(found, n) for n in range(1, 4)):
        parts, last = [], 0
        for i in chosen:
            parts += [footer[last:i], new]
            last = i + len(old)
        changed = b"".join([*parts, footer[last:]])
        made = head + changed + len(changed).to_bytes(4, "little") + b"PAR1"
        if _counts(made) == (told, told, rows):
            path.write_bytes(made)
            return
    raise AssertionError("the footer has no such number")


def _rows(value: int) -> bytes:
    """Returns a whole number of 64 bits as a field whose number is one more than that of the one before."""
    return bytes([0x10 | _I64]) + _zigzag(value)


def _counts(content: bytes) -> tuple[int, int, int] | None:
    """Returns the rows of a file, of its first row group, and the values of its first column; None if unreadable."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(content))
        group = metadata.row_group(0)
        return metadata.num_rows, group.num_rows, group.column(0).num_values
    except (pa.ArrowException, OSError, IndexError):
        return None


class _Keys(pe.KmsClient):  # type: ignore[misc]
    def wrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64decode(key)


def write_encrypted(path: Path, *, plaintext_footer: bool) -> None:
    """Writes a file of which the column `secret` is encrypted, and the footer where it is asked for."""
    factory = pe.CryptoFactory(lambda config: _Keys())
    asked = pe.EncryptionConfiguration(footer_key="k", column_keys={"k": ["secret"]}, plaintext_footer=plaintext_footer)
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), asked)
    table = pa.table({"x": [1.0, 2.0], "secret": [3.0, 4.0], "label": [0.0, 1.0]})
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


def unsign(path: Path) -> None:
    """Takes the signature from behind the footer of an encrypted file."""
    start, footer = _split(path)
    _write_footer(path, start, footer[:-_SIGNATURE])


def name_algorithm(path: Path, *, is_long: bool) -> None:
    """Has a footer say that its file is encrypted, before all else.

    Args:
        is_long: Whether the field's number stands behind its kind.
    """
    start, footer = _split(path)
    assert footer[0] == 0x15, "version comes first"
    head = bytes([_STRUCT, 16]) if is_long else bytes([8 << 4 | _STRUCT])
    algorithm = _struct([(1, _STRUCT, _STOP)])
    _write_footer(path, start, head + algorithm + bytes([_I32, 2]) + footer[1:])


def key_column(path: Path, names: Sequence[str], *, with_footer_key: bool = False, key: bytes = b"") -> None:
    """Has the last column chunk of a footer say that a key of its own encrypts it, and nothing else of that.

    Args:
        names: Of the column that the key is said to be for.
        with_footer_key: Whether it has the footer's, too.
        key: What is said of the key.
    """
    start, footer = _split(path)
    made = [(1, _LIST, bytes([min(len(names), 15) << 4 | _BINARY]) + _long(names) + b"".join(map(binary, names)))]
    made += [(2, _BINARY, binary(key))] if key else []
    keys: list[Field] = [(1, _STRUCT, _STOP)] if with_footer_key else []
    crypto = _struct([*keys, (2, _STRUCT, _struct(made))])
    # The last chunk ends where what follows `columns` begins: the row group's bytes, of another field's number.
    group = pq.read_metadata(path).row_group(0)
    rest = bytes([0x10 | _I64]) + _zigzag(group.total_byte_size) + _rows(group.num_rows)
    at = footer.rindex(_STOP + rest)
    changed = footer[:at] + bytes([5 << 4 | _STRUCT]) + crypto + footer[at:]  # `meta_data`, field 3, is what is before
    _write_footer(path, start, changed)
    assert pq.read_metadata(path).serialized_size == len(changed)


def _long(names: Sequence[str]) -> bytes:
    return _varint(len(names)) if len(names) > 14 else b""


def _split(path: Path) -> tuple[bytes, bytes]:
    """Returns what comes before the footer, and the footer."""
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return content[:start], content[start:-8]


def _write_footer(path: Path, start: bytes, footer: bytes) -> None:
    path.write_bytes(start + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def _struct(fields: Sequence[Field]) -> bytes:
    found, last = b"", 0
    for number, kind, content in fields:
        found += bytes([(number - last) << 4 | kind]) + content
        last = number
    return found + _STOP


def _list(items: Sequence[bytes]) -> bytes:
    return (
        bytes([min(len(items), 15) << 4 | _STRUCT])
        + (_varint(len(items)) if len(items) > 14 else b"")
        + b"".join(items)
    )


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
