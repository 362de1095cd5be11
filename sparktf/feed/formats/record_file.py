"""TFRecord files, compressed or not: records of bytes, each with its length and checksums of both.

uint64 length, uint32 masked CRC-32C of the length, the bytes, uint32 masked CRC-32C of these; all little-endian
(tensorflow/core/lib/io/record_writer.h)
"""

from __future__ import annotations

import io
import itertools
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
from sparktf.storage.base import RangedStream, Storage

HEAD, TAIL = 12, 4
"""Bytes before and after a record."""
_GZIP = b"\x1f\x8b\x08"
_MASK_DELTA = 0xA282EAD8
_LONGEST = 1 << 31
"""No message is longer (protobuf.dev/programming-guides/proto-limits)."""
_RUNS = (32, 4096)  # Lengths tested at once: at first, and at most
_AFTER = 8  # Equal lengths in sequence after which more are tested at once

_RANGE_NBYTES = 4 << 20
"""Of a request to a store: larger ones come sooner in parts, over several connections."""

_length_of = struct.Struct("<Q").unpack_from


class Records(NamedTuple):
    """Records in memory: record i is `buffer[starts[i]:stops[i]]`, with `PADDING` bytes before and behind all."""

    buffer: Bytes
    starts: Integers
    stops: Integers


class RecordGroup(NamedTuple):
    """Records of a file that are read together: their start in the file, stored bytes, and number."""

    start: int
    nbytes: int
    records: int


class _Chunk(NamedTuple):
    """Whole records of a file with their headers."""

    start: int  # Position in the decompressed file
    content: bytes
    starts: Integers  # Start of each record's bytes in the content; `stops` are their ends
    stops: Integers


def masked(checksums: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Returns masked CRC-32C, as in TFRecord files (tensorflow/core/lib/hash/crc32c.h)."""
    return (checksums >> np.uint32(15) | checksums << np.uint32(17)) + np.uint32(_MASK_DELTA)


def group_records(storage: Storage, path: str, nbytes: int) -> list[RecordGroup]:
    """Reads a whole file, and returns its records in groups of about `nbytes`. A compressed file is one group.

    Raises:
        CorruptFileError: it is not a TFRecord file, or is truncated.
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
    """Yields the records of a file, about `nbytes` at a time; raises what `read_records` does."""
    with storage.open(path) as stream:
        source = GzipFile(fileobj=stream) if _is_compressed(stream, path) else stream
        for chunk in _chunks(source, path, nbytes):
            yield _checked(padded(chunk.content), chunk.starts, chunk.stops, path, chunk.start)


def read_records(stream: BinaryIO | RangedStream, path: str, start: int, nbytes: int) -> Records:
    """Reads a group of records found by `group_records`; from a store in several requests at a time.

    Raises:
        CorruptFileError: a checksum is wrong, or the file is truncated.
        StorageError: the file system failed, or the file in a store was replaced since it was opened.
    """
    if isinstance(stream, RangedStream):
        buffer = _read_ranges(stream, path, start, nbytes)
    elif start == 0 and _is_compressed(stream, path):
        buffer = padded(_decompressed(stream, path))
    else:
        stream.seek(start)
        buffer = _read_padded(stream, nbytes)
    starts, stops = _bounds(buffer[PADDING:-PADDING], path, start)
    return _checked(buffer, starts, stops, path, start)


def _read_ranges(stream: RangedStream, path: str, start: int, nbytes: int) -> Bytes:
    """Reads and decompresses a group into a padded buffer."""
    stop = min(start + nbytes, stream.nbytes)
    borders = [*range(start, stop, _RANGE_NBYTES), stop]
    chunks = stream.read_ranges(list(itertools.pairwise(borders)))
    if start == 0 and chunks and _is_gzip(bytes(chunks[0][:HEAD])):
        return padded(_decompressed(io.BytesIO(b"".join(chunks)), path))
    buffer = np.empty(max(stop - start, 0) + 2 * PADDING, np.uint8)
    buffer[:PADDING] = buffer[-PADDING:] = 0
    for first, chunk in zip(borders, chunks, strict=False):
        begin = PADDING + first - start
        buffer.data[begin : begin + len(chunk)] = chunk
    return buffer


def _checked(buffer: Bytes, starts: Integers, stops: Integers, path: str, offset: int) -> Records:
    """Checks the checksums of records in a padded buffer, and returns them."""
    view = buffer.data[PADDING:]
    # One call for each record: the CPU's CRC instruction takes less time than the call.
    found = [crc32c(view[first:last]) for first, last in zip(starts.tolist(), stops.tolist(), strict=True)]
    wrong = masked(np.array(found, np.uint32)) != halves_at(buffer, stops + PADDING)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _corrupt(path, offset + int(starts[row]) - HEAD, "its checksum is wrong")
    return Records(buffer, starts + PADDING, stops + PADDING)


def _read_padded(stream: BinaryIO, nbytes: int) -> Bytes:
    """Reads up to `nbytes` into a padded buffer, without another copy."""
    buffer = np.empty(nbytes + 2 * PADDING, np.uint8)
    view = buffer.data[PADDING : PADDING + nbytes]
    done = 0
    while done < nbytes and (count := stream.readinto(view[done:])):  # type: ignore[attr-defined]
        done += count
    buffer = buffer[: done + 2 * PADDING]
    buffer[:PADDING] = buffer[PADDING + done :] = 0
    return buffer


def count_records(storage: Storage, path: str, nbytes: int) -> int:
    """Returns the number of records in the first bytes of a plain file; raises what `read_records` does."""
    if not nbytes:
        return 0
    with storage.open(path) as stream:
        return len(_bounds(_read_padded(stream, nbytes)[PADDING:-PADDING], path, 0)[0])


def first_records(storage: Storage, path: str, count: int) -> list[bytes]:
    """Returns the first records of a file, reading little more; raises what `read_records` does."""
    found: list[bytes] = []
    with storage.open(path) as stream:
        source = GzipFile(fileobj=stream) if _is_compressed(stream, path) else stream
        at = 0
        while len(found) < count and (head := _read(source, HEAD, path)):
            (length,) = _length_of(head)
            if len(head) < HEAD or not _is_checked(head[:8], head[8:]) or length > _LONGEST:
                raise _corrupt(path, at, "it is not a record")
            content, tail = _read(source, length, path), _read(source, TAIL, path)
            if not _is_checked(content, tail):
                raise _corrupt(path, at, "its checksum is wrong")
            found.append(content)
            at += HEAD + length + TAIL
    return found


def _chunks(stream: BinaryIO | GzipFile, path: str, nbytes: int) -> Iterator[_Chunk]:
    """Yields whole records, about `nbytes` at a time, reading a file once."""
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
    """Returns the starts and ends of the records in some bytes; checks the checksums of the lengths.

    Args:
        offset: Offset of the bytes in the file, for messages.
        breaks_off: Leave out a last record that is not whole.
    """
    content, size = buffer.data, len(buffer)
    found: list[Integers] = []
    single: list[int] = []
    at, last, alike, run = 0, -1, 0, _RUNS[0]
    # The start of a record follows from the length of the one before, so this loop is sequential. After several equal
    # lengths it tests whether many more are equal, all at once.
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
            # Testing beyond the last equal length costs as much as reading the lengths one by one.
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
    """Checks the checksums of lengths, of which few are different."""
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
    """Whether a file is compressed, by its content, not its name. Leaves the stream at its start."""
    head = _read(stream, HEAD, path)
    stream.seek(0)
    return _is_gzip(head)


def _is_gzip(head: bytes) -> bool:
    return not _is_checked(head[:8], head[8:]) and head.startswith(_GZIP)


def _decompressed(stream: BinaryIO, path: str) -> bytes:
    return _read(GzipFile(fileobj=stream), -1, path)


def _read(stream: BinaryIO | GzipFile, nbytes: int, path: str) -> bytes:
    """Reads `nbytes`, or all if that is negative; fewer only at the end of the file."""
    parts, left = [], nbytes
    try:
        while left and (part := stream.read(left)):
            parts.append(part)
            left = left - len(part) if nbytes >= 0 else left
    except (BadGzipFile, EOFError, zlib.error) as error:
        raise CorruptFileError(f"{path} is not a readable TFRecord file: {error}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _corrupt(path: str, at: int, reason: str) -> CorruptFileError:
    return CorruptFileError(f"{path} is not a readable TFRecord file: the record at byte {at:,}: {reason}")
