"""Writes Arrow columns as tensorflow.Example messages of TFRecord files; only checksums are made row by row."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from crc32c import crc32c

from sparktf.errors import BadValueError
from sparktf.feed.arrays.arrow_types import is_binary, is_list, is_text
from sparktf.feed.arrays.vectors import plain_array
from sparktf.feed.formats.examples import ListKind
from sparktf.feed.formats.record_file import masked
from sparktf.sequence import Integers

_FIRST, _SECOND = b"\x0a", b"\x12"
"""Tags of the first and second field, with a length."""
_BASE = np.uint64(7)  # Bits of a number in each byte of a varint
_MOST_NBYTES = 10  # Bytes of the longest varint of 64 bits


def record_bytes(batch: pa.RecordBatch) -> memoryview:
    """Returns the rows as records in the form of a file. A null is a feature that the record lacks.

    Raises:
        BadValueError: no feature can have a column's type, or a list holds a null; the message names the column.
    """
    records = example_messages(batch)
    lengths = _lengths(records)
    heads = np.zeros((len(lengths), 12), np.uint8)
    heads[:, :8] = lengths.astype("<u8").view(np.uint8).reshape(-1, 8)
    heads[:, 8:] = _checksums(_of_size(heads[:, :8].copy())).reshape(-1, 4)
    framed = _joined(_of_size(heads), records, _of_size(_checksums(records).reshape(-1, 4)))
    _, offsets, content = framed.buffers()
    stop = int(np.frombuffer(offsets, np.int64)[len(framed)])
    return memoryview(content)[:stop] if stop else memoryview(b"")


def example_messages(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """Returns each row as a message; raises what `record_bytes` does."""
    n = batch.num_rows
    entries = [
        _entry(name, plain_array(column)) for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    features = _joined(*entries) if entries else _of_size(np.zeros((n, 0), np.uint8))
    return _where(pa.array(_lengths(features) > 0), _field(_FIRST, features))


def _entry(name: str, column: pa.Array) -> pa.LargeBinaryArray:
    """Returns a column's values as map entries; empty for a null."""
    key = name.encode()
    kind, values = _list_messages(name, column)
    feature = _field(bytes([kind << 3 | 2]), values)
    head = _field(_FIRST, pa.array([key], pa.large_binary()))[0].as_py()
    entry = _joined(head, _field(_SECOND, feature))
    return _where(column.is_valid(), _field(_FIRST, entry))


def _list_messages(name: str, column: pa.Array) -> tuple[ListKind, pa.LargeBinaryArray]:
    """Returns the kind of a column, and its values as messages BytesList, FloatList or Int64List."""
    n = len(column)
    if is_list(column.type):
        column = column.fill_null([]) if column.null_count else column
        counts = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
        values = column.flatten()
        if values.null_count:
            raise BadValueError(f"column {name!r}: a null within a list, which a feature cannot hold")
    else:
        counts, values = np.ones(n, np.int64), column
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_text(values.type):
        if values.null_count:
            values = values.fill_null(b"" if is_binary(values.type) else "")
        return ListKind.BYTES, _grouped(_field(_FIRST, values.cast(pa.large_binary())), offsets)
    numbers = values.fill_null(False if pt.is_boolean(values.type) else 0) if values.null_count else values
    if pt.is_floating(values.type) or pt.is_decimal(values.type):
        content = numbers.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False).astype("<f4", copy=False)
        packed = _strings(offsets * 4, content.tobytes())
        kind = ListKind.FLOAT
    elif pt.is_integer(values.type) or pt.is_boolean(values.type):
        whole = numbers.cast(pa.int64()).to_numpy(zero_copy_only=False)
        packed, kind = _grouped(_varints(whole), offsets), ListKind.INT64
    else:
        raise BadValueError(
            f"column {name!r} is of type {column.type}, but features are integers, floats, texts and bytes: cast it"
        )
    return kind, _where(pa.array(counts > 0), _field(_FIRST, packed))


def _field(tag: bytes, content: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Returns length-delimited fields with a tag."""
    return _joined(tag, _varints(_lengths(content)), content)


def _joined(*parts: pa.LargeBinaryArray | bytes) -> pa.LargeBinaryArray:
    end = pa.scalar(b"", pa.large_binary())
    return pc.binary_join_element_wise(
        *(pa.scalar(part, pa.large_binary()) if isinstance(part, bytes) else part for part in parts), end
    )


def _where(there: pa.BooleanArray, strings: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Returns strings, empty ones where `there` is false."""
    return pc.if_else(there, strings, pa.scalar(b"", pa.large_binary()))


def _lengths(strings: pa.LargeBinaryArray) -> Integers:
    found: Integers = pc.binary_length(strings).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _grouped(strings: pa.LargeBinaryArray, offsets: Integers) -> pa.LargeBinaryArray:
    """Returns the concatenations of the strings from `offsets[i]` to `offsets[i + 1]`."""
    _, bounds, content = strings.buffers()
    within = np.frombuffer(bounds, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return _strings(within[offsets], content or pa.py_buffer(b""))


def _strings(offsets: Integers, content: bytes | pa.Buffer) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(content)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _of_size(rows: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """Returns the rows of uint8 [n, size] as strings."""
    return _strings(np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1], np.ascontiguousarray(rows).tobytes())


def _varints(numbers: Integers) -> pa.LargeBinaryArray:
    """Returns integers as varints; negative ones as their 64-bit two's complement."""
    left = numbers.astype(np.int64, copy=False).view(np.uint64).copy()
    digits = np.zeros((len(left), _MOST_NBYTES), np.uint8)
    nbytes = np.ones(len(left), np.int64)
    for i in range(_MOST_NBYTES):
        digits[:, i] = (left & np.uint64(0x7F)).astype(np.uint8)
        left >>= _BASE
        more = left > 0
        if not more.any():
            digits = digits[:, : i + 1]
            break
        digits[more, i] |= 0x80
        nbytes += more
    content = digits[np.arange(digits.shape[1]) < nbytes[:, None]]
    return _strings(np.concatenate([[0], np.cumsum(nbytes)]).astype(np.int64), content.tobytes())


def _checksums(strings: pa.LargeBinaryArray) -> npt.NDArray[np.uint8]:
    """Returns the masked CRC-32C of strings, uint8 [4 n]."""
    _, offsets, content = strings.buffers()
    bounds = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1].tolist()
    view = memoryview(content or b"")
    found = [crc32c(view[start:stop]) for start, stop in itertools.pairwise(bounds)]
    return masked(np.array(found, np.uint32)).astype("<u4").view(np.uint8)
