"""Rows that were read once from a remote storage, kept on the local disk for later epochs: `data.cache: disk`."""

from __future__ import annotations

import io
import json
import shutil
import threading
import zlib
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from sparktf.feature import FeedSpec
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.formats.split_sequence import Reader
from sparktf.feed.formats.splits import kept_rows
from sparktf.sequence import FileStamp, Split

_REFUSED = b"refused"
_FREE_SHARE = 2
"""At most one part in this many of the disk's free space is used: Spark's own files need the rest."""


class _Key(NamedTuple):
    """A row group of exactly one file, and which of its columns were read."""

    path: str
    stamp: FileStamp
    row_group: int
    selected: int
    only: frozenset[str] | None


class _Kept(NamedTuple):
    file: Path
    nbytes: int
    checksum: int  # CRC-32


class _Sink(io.RawIOBase):
    """Writes to a file, and counts and checksums what it writes."""

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self.nbytes = 0
        self.checksum = 0
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        view = memoryview(content).cast("B")
        self.checksum = zlib.crc32(view, self.checksum)
        self.nbytes += len(view)
        while len(view):
            view = view[self._file.write(view) :]
        return len(content)


class RowCache:
    """The cache of one process; thread-safe. What does not fit in is read again from the storage in each epoch.

    Nothing is ever thrown out for something else: an epoch reads each row once, so that the oldest rows are as good as
    the newest.

    Attributes:
        read_nbytes: Bytes read from the cache so far.
        nbytes: Bytes in it.
    """

    def __init__(self, folder: Path, limit_nbytes: int, warn: Callable[[str], None]) -> None:
        """Makes the folder, which whoever owns the folder above it deletes.

        Args:
            folder: Does not exist yet.
            limit_nbytes: Upper bound of the bytes in it.
            warn: Takes what goes wrong: the rows are read from the storage then.

        Raises:
            OSError: the folder cannot be made.
        """
        folder.mkdir(mode=0o700)
        self.read_nbytes = 0
        self.nbytes = 0
        self._folder = folder
        self._limit_nbytes = min(limit_nbytes, shutil.disk_usage(folder).free // _FREE_SHARE)
        self._warn = warn
        self._lock = threading.Lock()
        self._kept: dict[_Key, _Kept] = {}
        self._made = 0

    def around(self, new_reader: Callable[[], Reader], spec: FeedSpec) -> Callable[[], Reader]:
        """Returns a function that makes readers whose rows are kept here, and read here the next time.

        Args:
            new_reader: Makes the readers of the storage, of one feed and way of reading.
        """
        return lambda: _CachedReader(self, new_reader, spec)

    def find(self, key: _Key) -> pa.Table | None:
        """Returns the columns of a row group; None if they are not here, or damaged."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        try:
            with pa.OSFile(str(kept.file)) as file:
                content = file.read_buffer()
            if zlib.crc32(memoryview(content)) == kept.checksum:
                table = pa.ipc.open_stream(content).read_all()
                with self._lock:
                    self.read_nbytes += kept.nbytes
                return table
            reason = "its checksum is wrong"
        except (OSError, pa.ArrowException) as error:
            reason = str(error)
        self._warn(f"data.cache: {kept.file} cannot be read ({reason}): its rows are read from {key.path} again")
        with self._lock:
            if self._kept.pop(key, None) is not None:
                self.nbytes -= kept.nbytes
        kept.file.unlink(missing_ok=True)
        return None

    def keep(self, key: _Key, table: pa.Table) -> None:
        """Keeps the columns of a row group, if they fit in."""
        with self._lock:
            if key in self._kept or self.nbytes + table.nbytes > self._limit_nbytes:
                return
            self.nbytes += table.nbytes
            self._made += 1
            file = self._folder / f"{self._made}.arrow"
        try:
            kept = _write(file, table)
        except OSError as error:
            file.unlink(missing_ok=True)
            with self._lock:
                self._limit_nbytes = 0
            self._warn(
                f"data.cache: {self._folder} takes no more rows ({error.strerror or error}): read from the source"
            )
            return
        with self._lock:
            self.nbytes += kept.nbytes - table.nbytes
            self._kept[key] = kept


def _write(file: Path, table: pa.Table) -> _Kept:
    # In one chunk each, and dictionaries in one: an epoch that reads them has nothing left to put together.
    table = table.combine_chunks()
    with io.FileIO(file, "x") as opened:
        sink = _Sink(opened)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return _Kept(file, sink.nbytes, sink.checksum)


class _CachedReader:
    """See `Reader`: asks the cache first."""

    def __init__(self, cache: RowCache, new_reader: Callable[[], Reader], spec: FeedSpec) -> None:
        self._cache = cache
        self._new_reader = new_reader
        self._reader = new_reader()
        self._spec = spec

    def read(self, split: Split, only: Collection[str] | None = None) -> RowGroup:
        """See `Reader.read`."""
        if split.stamp is None:
            return self._reader.read(split, only)
        wanted = None if only is None else frozenset(only)
        key = _Key(split.path, split.stamp, split.row_group, split.selected, wanted)
        table = self._cache.find(key)
        if table is not None:
            return self._again(split, table)
        group = self._reader.read(split, only)
        if group.columns and not group.unreadable:
            said = {_REFUSED: json.dumps(group.refused).encode()}
            self._cache.keep(key, pa.table(dict(group.columns)).replace_schema_metadata(said))
        return group

    def close(self) -> None:
        self._reader.close()

    def _again(self, split: Split, table: pa.Table) -> RowGroup:
        refused = json.loads((table.schema.metadata or {}).get(_REFUSED, b"[]"))
        return RowGroup(
            origin=split.path,
            number=partial(_number, self._new_reader, split),
            columns=dict(zip(table.column_names, table.columns, strict=True)),
            rows=split.rows,
            kept=kept_rows(split, self._spec.seed),
            fill_null=self._spec.fill_null,
            refused=tuple((row, name, reason) for row, name, reason in refused),
        )


def _number(new_reader: Callable[[], Reader], split: Split, row: int) -> int:
    """Returns the number in the file of a row that is refused, for which the file is read again, by another reader."""
    reader = new_reader()
    try:
        return reader.read(split).number(row)
    finally:
        reader.close()
