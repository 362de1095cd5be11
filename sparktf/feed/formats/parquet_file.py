"""Opens Parquet files, with the footer in one read, and compares them with the plan."""

from __future__ import annotations

import datetime
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.errors import CorruptFileError, StorageError
from sparktf.feed.arrays.nested import prefixes
from sparktf.feed.formats.footer import END, PLAIN_TYPES, is_encrypted, read_metadata
from sparktf.feed.formats.once_opened import OnceOpened
from sparktf.feed.formats.ranged_file import RangedFile
from sparktf.sequence import FileStamp
from sparktf.storage.base import FileEntry, RangedStream, Storage
from sparktf.told import line_of_error

_READ_BYTES = 256 << 10
"""Bytes of a local file read at a time, decoded while they are in the caches."""

_TAIL_BYTES = 64 << 10
"""Bytes read from a file's end at first: most footers fit into them."""

_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"

_SPARK_MAY = (
    "Map keys must be annotated",
    "MAP-annotated groups",
    "LIST-annotated groups",
    "cannot be applied to group",
)
"""Arrow's messages over schemas that Spark accepts."""

_BELIEVED_ROWS = 1 << 24
"""Row counts up to this are compared with the pages when these are read; a larger, wrong one would exhaust memory."""

_ALL_MEMORY = 1 << 46
"""An allocation beyond this can only come from a damaged file."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns Arrow's errors over a file's content into a `CorruptFileError` that names the file.

    Raises:
        CorruptFileError: the file is not Parquet, is damaged, or cannot be read by Arrow.
        StorageError: the file system failed.
    """
    try:
        yield
    except (StorageError, CorruptFileError):
        raise
    except UnicodeDecodeError as error:
        raise sparks_file(path, f"the name of a column is not UTF-8 ({error.object!r})") from error
    except IndexError as error:
        raise CorruptFileError(f"{path} is not a readable Parquet file: its footer breaks off: {error}") from error
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, pa.ArrowMemoryError) and _asked_for(error) < _ALL_MEMORY:
            raise
        # Errors of the system have an errno; Arrow's "IOError" over damaged content has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
        reason = line_of_error(error)
        if any(sign in reason for sign in _SPARK_MAY):
            raise sparks_file(path, reason) from error
        raise CorruptFileError(f"{path} is not a readable Parquet file: {reason}") from error


def _asked_for(error: pa.ArrowMemoryError) -> int:
    """Returns the number of bytes that could not be allocated."""
    return max(map(int, re.findall(r"\d+", str(error))), default=0)


def sparks_file(path: str, reason: str) -> CorruptFileError:
    """Returns the error for a file that Arrow cannot read, but Spark may."""
    error = CorruptFileError(f"{path} cannot be read by trainers: {reason}")
    error.may_be_sparks = True
    return error


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open file, with its footer and the footer's CRC-32; some of its columns may be encrypted."""

    path: str
    metadata: pq.FileMetaData
    footer: int
    is_encrypted: bool
    _source: pa.NativeFile
    _stream: BinaryIO | RangedStream
    _is_remote: bool
    _ranged: RangedFile | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether all data come from the file that was opened, even if its path was replaced since."""
        return bool(getattr(self._stream, "is_pinned", False))

    @property
    def entry(self) -> FileEntry | None:
        """The file as it was found when it was opened; None where the storage did not tell."""
        return self._stream.entry if isinstance(self._stream, RangedStream) else None

    def again(self) -> OpenFile | None:
        """Returns the file for another thread, without a look at the store; None where it is in none."""
        if self._ranged is None or not isinstance(self._stream, RangedStream):
            return None
        ranged = RangedFile(self._stream)
        return replace(self, _source=pa.PythonFile(ranged, mode="r"), _ranged=ranged)

    def close(self) -> None:
        self._source.close()

    def fetch(self, row_group: int, leaves: Sequence[int]) -> None:
        """Reads some physical columns of a row group at once, where each read is a request; `drop` them afterwards.

        Raises:
            CorruptFileError: the footer is inconsistent.
            StorageError: the file was replaced since it was opened, or the storage failed.
        """
        if self._ranged is not None:
            with reading(self.path):
                group = self.metadata.row_group(row_group)
                extents = [group_extent(group, (leaf,)) for leaf in leaves]
                self._ranged.fetch((extent.start, extent.stop) for extent in extents)

    def drop(self) -> None:
        """Frees what `fetch` has read."""
        if self._ranged is not None:
            self._ranged.drop()

    def parquet(self, **options: Any) -> pq.ParquetFile:
        """Returns a `pyarrow.parquet.ParquetFile` with some options, which owns and closes the file.

        Raises:
            CorruptFileError: the footer is inconsistent, or columns are encrypted.
        """
        with reading(self.path), _closed_on_error(self._source):
            if self.is_encrypted:
                raise sparks_file(self.path, "it has encrypted columns")
            return pq.ParquetFile(
                self._source,
                metadata=self.metadata,
                pre_buffer=self._is_remote and self._ranged is None,  # the latter has its own way of reading
                buffer_size=0 if self._is_remote else _READ_BYTES,
                **PLAIN_TYPES,
                **options,
            )


def open_file(storage: Storage, path: str) -> OpenFile:
    """Opens a file and reads its footer.

    Raises:
        CorruptFileError: the file is no Parquet file or its footer is damaged.
        StorageError: the file system failed.
    """
    opened = storage.open(path)
    # A store's is buffered for who reads little: here each read is a request of the right size.
    raw = getattr(opened, "raw", None)
    stream = raw if isinstance(raw, RangedStream) else opened
    ranged = RangedFile(stream) if isinstance(stream, RangedStream) else None
    with reading(path):
        source, is_remote = (pa.PythonFile(ranged, mode="r"), True) if ranged is not None else _source(opened)
        with _closed_on_error(source):
            footer = _read_footer(source)
            if footer.slice(max(0, len(footer) - len(_ENCRYPTED_MAGIC))).to_pybytes() == _ENCRYPTED_MAGIC:
                raise sparks_file(path, "it is encrypted")
            metadata = read_metadata(footer)
            checksum = zlib.crc32(memoryview(footer))
            encrypted = is_encrypted(footer, metadata)
            return OpenFile(path, metadata, checksum, encrypted, source, stream, is_remote, ranged)


def open_once(storage: Storage, path: str, opened: OnceOpened[OpenFile]) -> OpenFile:
    """Returns a file as `open_file` does; one in a store is asked for by the first reader alone.

    Raises: as `open_file`.
    """
    own: list[OpenFile] = []

    def make() -> OpenFile | None:
        own.append(open_file(storage, path))
        return own[0] if own[0].again() is not None else None

    known = opened.get(path, make)
    again = known.again() if known is not None and not own else None
    return again or (own[0] if own else open_file(storage, path))


def open_parquet(storage: Storage, path: str, **options: Any) -> pq.ParquetFile:
    """Opens a file and reads its footer; `options` go to `pyarrow.parquet.ParquetFile`.

    Raises:
        CorruptFileError: the file is no Parquet file or its footer is damaged.
        StorageError: the file system failed.
    """
    return open_file(storage, path).parquet(**options)


def leaf_columns(metadata: pq.FileMetaData, columns: frozenset[str]) -> list[int]:
    """Returns the positions of the physical columns that belong to the given columns, of structs only those used.

    A struct without a value may be a physical column itself, of type null.
    """
    if not metadata.num_row_groups:
        return []
    # Not from `metadata.schema`: the two reference each other, and would stay in memory until Python's garbage
    # collector runs. For 10,000 files with 100 row groups that was 4 GB.
    group = metadata.row_group(0)
    paths = (group.column(i).path_in_schema for i in range(metadata.num_columns))
    heads = {head for name in columns for head in prefixes(name)}
    return [i for i, path in enumerate(paths) if path in heads or any(name in columns for name in prefixes(path))]


def check_rows(table: pa.Table, path: str, row_group: int, metadata: pq.FileMetaData) -> None:
    """Checks that a row group has the number of rows in the footer.

    Raises:
        CorruptFileError: it has another number.
    """
    told = metadata.row_group(row_group).num_rows
    found = next((len(column) for column in table.columns if len(column) != told), told)
    if found != told:
        reason = f"row group {row_group} has {told} rows by its footer, but {found} in its pages"
        raise CorruptFileError(f"{path} is not a readable Parquet file: {reason}")


def rows_told(path: str, group: pq.RowGroupMetaData, leaves: Sequence[int]) -> int:
    """Returns the number of rows of a row group in the footer.

    Raises:
        CorruptFileError: the number is impossible.
    """
    rows = int(group.num_rows)
    if 0 <= rows < _BELIEVED_ROWS:
        return rows
    values = group.column(leaves[0]).num_values if leaves else rows
    if not 0 <= rows <= values < _ALL_MEMORY:
        reason = f"a row group has {rows} rows by its footer, but {values} values"
        raise CorruptFileError(f"{path} is not a readable Parquet file: {reason}")
    return rows


def group_nbytes(group: pq.RowGroupMetaData, leaves: Sequence[int]) -> int:
    """Returns the stored bytes of some physical columns of a row group."""
    return sum(group.column(i).total_compressed_size for i in leaves)


class GroupExtent(NamedTuple):
    """The stored bytes of some physical columns of a row group, and the range in the file that has them."""

    nbytes: int
    start: int
    stop: int


def group_extent(group: pq.RowGroupMetaData, leaves: Sequence[int]) -> GroupExtent:
    """Returns the extent of some physical columns; asks for each once, since there may be millions."""
    nbytes, start, stop = 0, -1, 0
    for leaf in leaves:
        chunk = group.column(leaf)
        size, first, dictionary = chunk.total_compressed_size, chunk.data_page_offset, chunk.dictionary_page_offset
        # Compared inline: min() and max() would take as long as the rest.
        if dictionary and dictionary < first:
            first = dictionary
        if first < start or start < 0:
            start = first
        if first + size > stop:  # noqa: PLR1730
            stop = first + size
        nbytes += size
    return GroupExtent(nbytes, max(start, 0), stop)


def differences(planned: FileStamp, found: FileEntry, footer: int | None = None) -> str:
    """Describes how a file differs from the planned one; "" if it is the same.

    `footer` is the CRC-32 of its footer; None if it was compared before.
    """
    changed = []
    if found.nbytes != planned.nbytes:
        changed.append(f"it had {planned.nbytes:,} bytes and has {found.nbytes:,}")
    if found.modified_ms != planned.modified_ms:
        changed.append(f"it was modified at {_time(planned.modified_ms)}, and again at {_time(found.modified_ms)}")
    if footer is not None and footer != planned.footer:
        changed.append("its footer has changed")
    return ", ".join(changed)


def _time(milliseconds: int) -> str:
    when = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=milliseconds)
    return when.isoformat(" ", "milliseconds") + " UTC"


def _source(stream: BinaryIO) -> tuple[pa.NativeFile, bool]:
    """Returns Arrow's best source for a stream, and whether to merge its reads into few large ones."""
    name = getattr(stream, "name", None)
    if not (isinstance(stream, io.BufferedReader) and isinstance(name, str)):
        return pa.PythonFile(stream, mode="r"), True
    # Arrow reads a local file without the GIL, as fast as a memory map, which would end the process with SIGBUS if
    # somebody truncated the file.
    with stream:
        return pa.OSFile(name), False


def _read_footer(source: pa.NativeFile) -> pa.Buffer:
    """Returns the end of a file from the footer on; for another kind of file, bytes that Arrow refuses.

    Arrow does the same, but does not give the bytes away, of which a checksum is needed.
    """
    nbytes = source.size()
    tail = _read_tail(source, nbytes, _TAIL_BYTES)
    end = tail.slice(max(0, len(tail) - END)).to_pybytes()
    if len(end) < END or end[4:] != _MAGIC:
        return tail
    length = int.from_bytes(end[:4], "little") + END
    if length > len(tail):
        tail = _read_tail(source, nbytes, length)
    return tail.slice(max(0, len(tail) - length))


def _read_tail(source: pa.NativeFile, nbytes: int, length: int) -> pa.Buffer:
    source.seek(max(0, nbytes - length))
    return source.read_buffer(min(nbytes, length))


@contextmanager
def _closed_on_error(source: pa.NativeFile) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            source.close()
        raise
