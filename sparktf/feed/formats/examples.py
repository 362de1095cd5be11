"""Locates the features of tensorflow.Example messages, in many records at once, without touching a record in Python.

    message Example   { Features features = 1; }                        tensorflow/core/example/example.proto
    message SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
    message Features  { map<string, Feature> feature = 1; }             tensorflow/core/example/feature.proto
    message Feature   { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
    message BytesList { repeated bytes value = 1; }     FloatList: float, packed     Int64List: int64, packed

A message is a sequence of fields, here each a tag, a length and as many bytes
(protobuf.dev/programming-guides/encoding). The maps of all records are walked in parallel, one entry of each at a time:
records of one writer mostly have the same keys at the same places. Unusual encodings are read in plain Python, and
rewritten as all writers do it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparktf.feed.formats.byte_buffer import PADDING, WORD, Bytes, words_at
from sparktf.sequence import Integers

Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_KEY, _VALUE = 0x0A, 0x12
"""Tags of the first and second field, with a length."""
_LOW = np.uint64(0x7F)
_FEATURE_LISTS = 2
_MOST_LENGTH_BYTES = 5  # Bytes of the longest varint of 32 bits
_LAST_BYTE = 0x80
"""A byte below it ends a varint."""
_SHORT = PADDING - WORD
"""Bytes that may be read at any place without leaving the buffer."""


class ListKind(IntEnum):
    """The kind of a feature's list: its field number in the message Feature."""

    NOTHING = 0
    BYTES = 1
    FLOAT = 2
    INT64 = 3


FeatureValues = tuple[ListKind, list[Any]]
"""A feature's kind and values."""


class MalformedError(ValueError):
    """Record `row` is not a message of type Example."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


class Places(NamedTuple):
    """The place of a feature in each record."""

    kind: npt.NDArray[np.int8]  # int8 [n_records], a `ListKind`; NOTHING if a record has no values of it
    start: Integers  # int64 [n_records], start of the message BytesList, FloatList or Int64List; `stop` is its end
    stop: Integers

    @classmethod
    def none(cls, n: int) -> Places:
        """Returns those of records that do not have the feature."""
        return cls(np.zeros(n, np.int8), np.zeros(n, np.int64), np.zeros(n, np.int64))


def find_features(
    buffer: Bytes, starts: Integers, stops: Integers, names: Collection[str], anew: Flags | None = None
) -> tuple[Bytes, dict[str, Places]]:
    """Returns the places of features in records, and their buffer: a new one if records had to be rewritten.

    Args:
        buffer: uint8 [n_bytes] with `PADDING` bytes before the first record and after the last one.
        starts: int64 [n_records], start of each record; `stops` are their ends.
        names: The features to look for.
        anew: bool [n_records], records to rewrite in any case.

    Raises:
        MalformedError: a record is not an Example.
    """
    wanted = {name.encode(): Places.none(len(starts)) for name in names}
    odd = _walk(buffer, starts, stops, wanted)
    if anew is not None:
        odd |= anew
    if odd.any():
        rows = np.flatnonzero(odd)
        written = [_canonical(buffer, int(starts[i]), int(stops[i]), int(i)) for i in rows.tolist()]
        sizes = np.array([len(record) for record in written])
        ends = len(buffer) + np.cumsum(sizes)
        buffer = np.concatenate([buffer, np.frombuffer(b"".join(written) + bytes(PADDING), np.uint8)])
        found = {name: Places.none(len(rows)) for name in wanted}
        still = _walk(buffer, ends - sizes, ends, found)
        if still.any():
            raise MalformedError(int(rows[np.flatnonzero(still)[0]]), "its lengths do not fit together")
        for name, places in found.items():
            whole = wanted[name]
            whole.kind[rows], whole.start[rows], whole.stop[rows] = places
    return buffer, {name.decode(): places for name, places in wanted.items()}


# ---- many at once ----


def _walk(buffer: Bytes, starts: Integers, stops: Integers, wanted: Mapping[bytes, Places]) -> Flags:
    """Fills in the places of the wanted features; returns the records with an unusual encoding."""
    odd = np.zeros(len(starts), np.bool_)
    rows = np.flatnonzero(stops > starts)
    at, end = starts[rows], stops[rows]
    length, at = _length_at(buffer, at, _KEY, odd, rows)
    odd[rows[at + length != end]] = True
    while True:
        live = (at < end) & ~odd[rows]
        if not live.all():
            rows, at, end = rows[live], at[live], end[live]
        if not len(rows):
            return odd
        length, inner = _length_at(buffer, at, _KEY, odd, rows)
        at = inner + length
        odd[rows[at > end]] = True
        _entries(buffer, rows, inner, at, wanted, odd)


def _entries(
    buffer: Bytes, rows: Integers, start: Integers, stop: Integers, wanted: Mapping[bytes, Places], odd: Flags
) -> None:
    """Reads one map entry of each of some records."""
    left = None  # all
    while left is None or len(left):
        one = 0 if left is None else int(left[0])
        head = _head(buffer, int(start[one]), int(stop[one]))
        if not head:
            odd[rows[one]] = True
            left = np.arange(1, len(rows)) if left is None else left[1:]
            continue
        there = start if left is None else start[left]
        same = _begin_with(buffer, there, stop if left is None else stop[left], head)
        if left is None:
            chosen = slice(None) if same.all() else np.flatnonzero(same)
            left = np.zeros(0, np.int64) if same.all() else np.flatnonzero(~same)
        else:
            chosen, left = left[same], left[~same]
        places = wanted.get(head[_head_nbytes(head) :])
        if places is not None:
            _take(buffer, rows[chosen], start[chosen] + len(head), stop[chosen], places, odd)


def _take(buffer: Bytes, rows: Integers, at: Integers, stop: Integers, places: Places, odd: Flags) -> None:
    """Reads the place of a feature's values, which follow its key."""
    length, inner = _length_at(buffer, at, _VALUE, odd, rows)
    odd[rows[inner + length != stop]] = True
    tag = buffer[inner]
    kind = np.where(length == 0, 0, tag >> 3).astype(np.int8)
    within, start = _length(buffer, inner + 1)
    wrong = ((tag & 7 != _LENGTH) | (kind > ListKind.INT64) | (kind == 0) | (start + within != stop)) & (length > 0)
    odd[rows[wrong]] = True
    places.kind[rows] = kind
    places.start[rows] = start
    places.stop[rows] = stop


def _head(buffer: Bytes, start: int, stop: int) -> bytes:
    """Returns the tag, length and bytes of the key that an entry begins with; b"" if it begins otherwise."""
    first = buffer[start : min(start + 2 + _MOST_LENGTH_BYTES, stop)].tobytes()
    try:
        length, at = _read_varint(first, 1)
    except ValueError:
        return b""
    end = start + at + length
    return buffer[start:end].tobytes() if first[0] == _KEY and end <= stop else b""


def _head_nbytes(head: bytes) -> int:
    """Returns the number of bytes of a key's tag and length."""
    return next(i for i in range(1, len(head)) if head[i] < _LAST_BYTE) + 1


def _begin_with(buffer: Bytes, at: Integers, stop: Integers, head: bytes) -> Flags:
    """Returns the places at which some bytes are, if there is room for them."""
    if len(head) <= _SHORT:
        return _are(buffer, at, head)
    same = stop - at >= len(head)
    same[same] = _are(buffer, at[same], head)
    return same


def _are(buffer: Bytes, at: Integers, head: bytes) -> Flags:
    same: Flags | None = None
    for i in range(0, len(head), 8):
        part = head[i : i + 8]
        word = words_at(buffer, at + i if i else at)
        if len(part) < 8:
            word = word & np.uint64((1 << 8 * len(part)) - 1)
        found = word == np.uint64(int.from_bytes(part, "little"))
        same = found if same is None else same & found
    return np.ones(len(at), np.bool_) if same is None else same


def _length_at(buffer: Bytes, at: Integers, tag: int, odd: Flags, rows: Integers) -> tuple[Integers, Integers]:
    """Returns the lengths behind the tags at some places, and the starts of the bytes; notes other tags."""
    wrong = buffer[at] != tag
    if wrong.any():
        odd[rows[wrong]] = True
    return _length(buffer, at + 1)


def _length(buffer: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """Returns the varints at some places, and their ends; wrong ones for varints that are too long for a length."""
    found = buffer[at].astype(np.int64)
    behind = at + 1
    more = np.flatnonzero(found >= 0x80)
    if len(more):
        word = words_at(buffer, at[more])
        nbytes = varint_nbytes(word)
        found[more] = varints(word, np.minimum(nbytes, _MOST_LENGTH_BYTES)).astype(np.int64)
        behind[more] += nbytes - 1
    return found, behind


def varint_nbytes(word: Words) -> Integers:
    """Returns the bytes of the varints that words begin with; 9 for more than 8."""
    ends = ~word & np.uint64(0x8080808080808080)
    lowest = ends & (~ends + np.uint64(1))  # 2 ** (8 * nbytes - 1)
    nbytes: Integers = np.where(ends == 0, 9, (np.log2(np.maximum(lowest, 1)).astype(np.int64) + 1) // 8)
    return nbytes


def varints(word: Words, nbytes: Integers) -> Words:
    """Returns the varints, of 1 to 8 bytes, that words begin with."""
    bits = (64 - 8 * nbytes).astype(np.uint64)
    word = word << bits >> bits
    word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
    word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    found: Words = (word & np.uint64(0x0FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
    return found


# ---- one at a time, in plain Python ----


def read_example(record: bytes) -> dict[str, FeatureValues]:
    """Returns the features of one record, in their order.

    Raises:
        ValueError: it is not an Example.
    """
    found: dict[str, FeatureValues] = {}
    if any(number == _FEATURE_LISTS and isinstance(content, bytes) for number, content in _fields(record)):
        raise ValueError(
            "it is a tensorflow.SequenceExample, which is not supported: write the values of each list as one "
            "feature of an Example"
        )
    for features in _messages(record, 1):
        for entry in _messages(features, 1):
            fields = dict(_fields(entry))  # the last one of repeated fields counts
            key, value = fields.get(1, b""), fields.get(2, b"")
            if not isinstance(key, bytes) or not isinstance(value, bytes):
                raise ValueError("a feature's key or value is a number")
            found[key.decode()] = _feature(value)
    return found


def write_example(features: Mapping[str, FeatureValues]) -> bytes:
    """Returns a record with some features."""
    entries = b""
    for key, (kind, values) in features.items():
        if kind is ListKind.BYTES:
            content = b"".join(_told(1, bytes(value)) for value in values)
        elif kind is ListKind.FLOAT:
            content = _told(1, np.array(values, "<f4").tobytes())
        else:
            content = _told(1, b"".join(_varint(int(value) & (1 << 64) - 1) for value in values))
        value = _told(int(kind), content) if kind else b""
        entries += _told(1, _told(1, key.encode()) + _told(2, value))
    return _told(1, entries)


def _canonical(buffer: Bytes, start: int, stop: int, row: int) -> bytes:
    try:
        return write_example(read_example(buffer[start:stop].tobytes()))
    except ValueError as error:
        raise MalformedError(row, str(error)) from None


def _feature(message: bytes) -> FeatureValues:
    found: FeatureValues = (ListKind.NOTHING, [])
    for number, content in _fields(message):
        if number not in (1, 2, 3):
            continue
        if not isinstance(content, bytes):
            raise ValueError("a list of values is a number")
        kind = ListKind(number)
        before = list(found[1]) if found[0] is kind else []
        found = (kind, [*before, *_values(kind, content)])
    return found


def _values(kind: ListKind, message: bytes) -> Iterator[Any]:
    for number, content in _fields(message):
        if number != 1:
            continue
        if kind is ListKind.BYTES:
            if not isinstance(content, bytes):
                raise ValueError("a text is a number")
            yield content
        elif kind is ListKind.FLOAT:
            if not isinstance(content, bytes) or len(content) % 4:
                raise ValueError("floats of a wrong length")
            yield from np.frombuffer(content, "<f4").tolist()
        else:
            numbers = [content] if isinstance(content, int) else list(_varints(content))
            yield from (number - (1 << 64) if number >> 63 else number for number in numbers)


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    for number, content in _fields(message):
        if number == wanted:
            if not isinstance(content, bytes):
                raise ValueError("a message is a number")
            yield content


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yields the fields of a message: varints as numbers, all others as bytes."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if kind == _LENGTH:
            size, at = _read_varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"there is no field of kind {kind}")
        if at + size > len(message):
            raise ValueError("it breaks off")
        yield number, message[at : at + size]
        at += size


def _varints(content: bytes) -> Iterator[int]:
    at = 0
    while at < len(content):
        number, at = _read_varint(content, at)
        yield number


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise ValueError("it breaks off")
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _told(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | _LENGTH]) + _varint(len(content)) + content
