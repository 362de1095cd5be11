"""TFRecord files: records of bytes, each between its length and checksums of both, all of it compressed or not.

uint64 length, uint32 masked CRC-32C of the length, the bytes, uint32 masked CRC-32C of these; all little-endian
(tensorflow/core/lib/io/record_writer.h)
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile, GzipFile
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from sparktf.errors import CorruptFileError
from sparktf.feed.formats.byte_buffer import PADDING, Bytes, halves_at, padded, words_at
from sparktf.sequence import Integers
from sparktf.storage.base import Storage

HEAD, TAIL = 12, 4
"""Bytes before a record, and behind it."""
_GZIP = b"\x1f\x8b\x08"
_MASK_DELTA = 0xA282EAD8
_LONGEST = 1 << 31
"""No message is longer (protobuf.dev/programming-guides/proto-limits)."""
_RUNS = (32, 4096)
_AFTER = 8

_length_of = struct.Struct("<Q").unpack_from


class Records(NamedTuple):
    """Records in memory: record i is `buffer[starts[i]:stops[i]]`, with `PADDING` bytes before and behind all."""

    buffer: Bytes
    starts: Integers
    stops: Integers


class RecordGroup(NamedTuple):
    """Records of a file that are read together.

    Attributes:
        start: Where they start in the file.
        nbytes: As they lie there.
    """

    start: int
    nbytes: int
    records: int


class _Chunk(NamedTuple):
    """Whole records of a file, and what lies between them.

    Attributes:
        start: Where they start in the file, as it is decompressed.
        starts: Where the bytes of each record start in the content; `stops` is where they end.
    """

    start: int
    content: bytes
    starts: Integers
    stops: Integers


def masked(checksums: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Returns CRC-32C as TFRecord files have them (tensorflow/core/lib/hash/crc32c.h)."""
    return (checksums >> np.uint32(15) | checksums << np.uint32(17)) + np.uint32(_MASK_DELTA)


def group_records(storage: Storage, path: str, nbytes: int) -> list[RecordGroup]:
    """Returns the records of a file in groups of about so many bytes; reads all of it. A compressed file is one group.

    Raises:
        CorruptFileError: it is no TFRecord file, or breaks off.
        StorageError: the file system failed.
    """
    with storage.open(path) as stream:
        if _is_compressed(stream, path):
            records = sum(len(chunk.starts) for chunk in _chunks(GzipFile(fileobj=stream), path, nbytes))
            return [RecordGroup(0, storage.stat(path).nbytes, records)] if records else []
        return [
            RecordGroup(chunk.start, len(chunk.content), len(chunk.starts)) for chunk in _chunks(stream, path, nbytes)
        ]


def stream_records(storage: Storage, path: str, nbytes: int) -> Iterator[Records]:
    """Yields the records of a file, about so many bytes at a time. Raises what `read_records` does."""
    with storage.open(path) as stream:
        source = GzipFile(fileobj=stream) if _is_compressed(stream, path) else stream
        for chunk in _chunks(source, path, nbytes):
            yield _checked(padded(chunk.content), chunk.starts, chunk.stops, path, chunk.start)


def read_records(storage: Storage, path: str, start: int, nbytes: int) -> Records:
    """Reads a group of records, as `group_records` has found it.

    Raises:
        CorruptFileError: a checksum is wrong, or the file breaks off.
        StorageError: the file system failed.
    """
    with storage.open(path) as stream:
        if start == 0 and _is_compressed(stream, path):
            buffer = padded(_decompressed(stream, path))
        else:
            stream.seek(start)
            buffer = _read_padded(stream, nbytes)
    starts, stops = _bounds(buffer[PADDING:-PADDING], path, start)
    return _checked(buffer, starts, stops, path, start)


def _checked(buffer: Bytes, starts: Integers, stops: Integers, path: str, offset: int) -> Records:
    """Returns records whose bytes have the checksums that stand behind them; they lie in a padded buffer."""
    view = buffer.data[PADDING:]
    # One call a record: the processor's own instruction takes less time over its bytes than the call does.
    found = [crc32c(view[first:last]) for first, last in zip(starts.tolist(), stops.tolist(), strict=True)]
    wrong = masked(np.array(found, np.uint32)) != halves_at(buffer, stops + PADDING)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _corrupt(path, offset + int(starts[row]) - HEAD, "its checksum is wrong")
    return Records(buffer, starts + PADDING, stops + PADDING)


def _read_padded(stream: BinaryIO, nbytes: int) -> Bytes:
    """Returns the next bytes, as many as there are, as `padded` does, without another copy."""
    buffer = np.empty(nbytes + 2 * PADDING, np.uint8)
    view = buffer.data[PADDING : PADDING + nbytes]
    done = 0
    while done < nbytes and (count := stream.readinto(view[done:])):  # type: ignore[attr-defined]
        done += count
    buffer = buffer[: done + 2 * PADDING]
    buffer[:PADDING] = buffer[PADDING + done :] = 0
    return buffer


def count_records(storage: Storage, path: str, nbytes: int) -> int:
    """Returns how many records lie in the first bytes of a plain file. Raises what `read_records` does."""
    if not nbytes:
        return 0
    with storage.open(path) as stream:
        return len(_bounds(_read_padded(stream, nbytes)[PADDING:-PADDING], path, 0)[0])


def first_records(storage: Storage, path: str, count: int) -> list[bytes]:
    """Returns the first records of a file; little more is read. Raises what `read_records` does."""
    found: list[bytes] = []
    with storage.open(path) as stream:
        source = GzipFile(fileobj=stream) if _is_compressed(stream, path) else stream
        at = 0
        while len(found) < count and (head := _read(source, HEAD, path)):
            (length,) = _length_of(head)
            if len(head) < HEAD or not _is_checked(head[:8], head[8:]) or length > _LONGEST:
                raise _corrupt(path, at, "it is no record")
            content, tail = _read(source, length, path), _read(source, TAIL, path)
            if not _is_checked(content, tail):
                raise _corrupt(path, at, "its checksum is wrong")
            found.append(content)
            at += HEAD + length + TAIL
    return found


def _chunks(stream: BinaryIO | GzipFile, path: str, nbytes: int) -> Iterator[_Chunk]:
    """Yields whole records, about so many bytes at a time, while a file is read once."""
    start, rest, wanted = 0, b"", nbytes
    while content := rest + _read(stream, wanted - len(rest), path):
        starts, stops = _bounds(np.frombuffer(content, np.uint8), path, start, breaks_off=len(content) == wanted)
        if len(starts):
            end = int(stops[-1]) + TAIL
            yield _Chunk(start, content[:end], starts, stops)
            start, rest = start + end, content[end:]
            wanted = nbytes if len(rest) < nbytes else 2 * len(rest)
        elif wanted > _LONGEST:
            raise _corrupt(path, start, "it is too long")
        else:
            rest, wanted = content, 2 * wanted


def _bounds(buffer: Bytes, path: str, offset: int, *, breaks_off: bool = False) -> tuple[Integers, Integers]:
    """Returns where the records in some bytes start, and where they end; checks the checksums of the lengths.

    Args:
        offset: Of the bytes in the file, for messages.
        breaks_off: The last record may not be whole; it is left out.
    """
    content, size = buffer.data, len(buffer)
    found: list[Integers] = []
    single: list[int] = []
    at, last, alike, run = 0, -1, 0, _RUNS[0]
    # Where a record starts, the length of the one before tells: this loop goes from one to the next, and nothing else
    # does. Where several are of one length, it looks whether many are.
    while at + HEAD <= size:
        (length,) = _length_of(content, at)
        if at + HEAD + length + TAIL > size:
            break
        single.append(at)
        alike = alike + 1 if length == last else 0
        last = length
        at += HEAD + length + TAIL
        if alike >= _AFTER:
            stride = HEAD + length + TAIL
            most = min((size - at) // stride, run)
            places = at + stride * np.arange(most)
            same = words_at(buffer, places) == length
            count = most if same.all() else int(np.argmin(same))
            found += [np.array(single, np.int64), places[:count]]
            single, at = [], at + stride * count
            # A look that goes beyond the last that is alike costs as much as reading their lengths one by one.
            alike, run = (alike, min(2 * run, _RUNS[1])) if count == run else (0, _RUNS[0])
    starts = np.concatenate([*found, np.array(single, np.int64)]) + HEAD
    lengths = words_at(buffer, starts - HEAD).astype(np.int64) if len(starts) else starts
    _check_lengths(buffer, starts, lengths, path, offset)
    if at < size and not breaks_off:
        raise _corrupt(path, offset + at, "it breaks off")
    if at + HEAD <= size and not _is_checked(content[at : at + 8], bytes(content[at + 8 : at + HEAD])):
        raise _corrupt(path, offset + at, "the checksum of its length is wrong")
    return starts, starts + lengths


def _check_lengths(buffer: Bytes, starts: Integers, lengths: Integers, path: str, offset: int) -> None:
    """Compares the checksums of lengths; there are few different ones."""
    if not len(starts):
        return
    if (lengths == lengths[0]).all():
        different, place = lengths[:1], np.zeros(len(lengths), np.int64)
    else:
        different, place = np.unique(lengths, return_inverse=True)
    sums = np.array([crc32c(int(length).to_bytes(8, "little")) for length in different.tolist()], np.uint32)
    wrong = masked(sums)[place] != halves_at(buffer, starts - TAIL)
    if wrong.any():
        at = offset + int(starts[np.argmax(wrong)]) - HEAD
        raise _corrupt(path, at, "the checksum of its length is wrong")


def _is_checked(content: bytes | memoryview, checksum: bytes) -> bool:
    found = masked(np.array([crc32c(content)], np.uint32))
    return len(checksum) == TAIL and int(found[0]) == int.from_bytes(checksum, "little")


def _is_compressed(stream: BinaryIO, path: str) -> bool:
    """Whether a file is compressed, by its content: its name need not tell. Leaves the stream at its start."""
    head = _read(stream, HEAD, path)
    stream.seek(0)
    return not _is_checked(head[:8], head[8:]) and head.startswith(_GZIP)


def _decompressed(stream: BinaryIO, path: str) -> bytes:
    return _read(GzipFile(fileobj=stream), -1, path)


def _read(stream: BinaryIO | GzipFile, nbytes: int, path: str) -> bytes:
    """Reads so many bytes, or all; fewer only where there are no more."""
    parts, left = [], nbytes
    try:
        while left and (part := stream.read(left)):
            parts.append(part)
            left = left - len(part) if nbytes >= 0 else left
    except (BadGzipFile, EOFError, zlib.error) as error:
        raise CorruptFileError(f"{path} is no TFRecord file that can be read: {error}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _corrupt(path: str, at: int, reason: str) -> CorruptFileError:
    return CorruptFileError(f"{path} is no TFRecord file that can be read: the record at byte {at:,}: {reason}")
