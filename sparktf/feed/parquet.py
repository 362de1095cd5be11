"""Reads row groups of Parquet files into tensors."""

from __future__ import annotations

import io
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.errors import CorruptFileError, SourceNotFoundError, StorageError, StorageNotFoundError
from sparktf.feature import FeedSpec
from sparktf.feed.arrow_types import fits
from sparktf.feed.columns import Array
from sparktf.feed.convert import RowGroup
from sparktf.feed.nested import column_of, prefixes
from sparktf.feed.selection import selected_rows
from sparktf.plan import Draw, Keep, PartitionValue, Split, generator
from sparktf.storage.base import Storage

OpenStorage = Callable[[str], Storage]
"""Path -> the storage it lies in; asked for each file, so that renewed credentials are used."""

PARTITION_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "string": pa.string(),
}
"""Spark type of a partition column -> Arrow type."""


_OPEN_FILES = 16
_READ_BYTES = 256 << 10
"""Bytes of a local file read at a time: they are decoded while they are in the caches."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns what Arrow raises over a file's content into a `CorruptFileError` that names the file.

    Raises:
        CorruptFileError: the content is no Parquet, or a damaged one.
        StorageError: the file system failed.
    """
    try:
        yield
    except (StorageError, pa.ArrowMemoryError):
        raise
    except (pa.ArrowException, OSError) as error:
        # The system's own errors have a number; Arrow's "IOError" over damaged content has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CorruptFileError(f"{path} is no Parquet file that can be read: {reason}") from error


def open_parquet(storage: Storage, path: str, **options: Any) -> pq.ParquetFile:
    """Opens a file and reads its footer; `options` go to `pyarrow.parquet.ParquetFile`.

    Raises:
        CorruptFileError: the file is no Parquet file or its footer is damaged.
        StorageError: the file system failed.
    """
    stream = storage.open(path)
    with reading(path):
        source, is_remote = _source(stream)
        try:
            return pq.ParquetFile(source, pre_buffer=is_remote, buffer_size=0 if is_remote else _READ_BYTES, **options)
        except BaseException:
            source.close()
            raise


def _source(stream: BinaryIO) -> tuple[pa.NativeFile | BinaryIO, bool]:
    """Returns what Arrow reads best, and whether its reads should be put together into few large ones."""
    name = getattr(stream, "name", None)
    if not (isinstance(stream, io.BufferedReader) and isinstance(name, str)):
        return stream, True
    # Arrow reads a local file without the interpreter's lock: as fast as a memory map, which would end the process with
    # SIGBUS if someone cut the file short.
    with stream:
        return pa.OSFile(name), False


def leaf_columns(metadata: pq.FileMetaData, columns: frozenset[str]) -> list[int]:
    """Returns the positions of the physical columns that belong to the given columns, of structs only those used."""
    paths = (metadata.schema.column(i).path for i in range(metadata.num_columns))
    return [i for i, path in enumerate(paths) if path in columns or any(name in columns for name in prefixes(path))]


def group_nbytes(group: pq.RowGroupMetaData, leaves: Sequence[int]) -> int:
    """Returns the bytes of some physical columns of a row group as they lie in the file."""
    return sum(group.column(i).total_compressed_size for i in leaves)


def group_range(group: pq.RowGroupMetaData, leaves: Sequence[int]) -> tuple[int, int]:
    """Returns where the first and the last of some physical columns of a row group start and end in the file."""
    chunks = [group.column(i) for i in leaves]
    starts = [min(c.data_page_offset, c.dictionary_page_offset or c.data_page_offset) for c in chunks]
    stops = [start + c.total_compressed_size for start, c in zip(starts, chunks, strict=True)]
    return min(starts, default=0), max(stops, default=0)


def file_columns(spec: FeedSpec) -> dict[str, str]:
    """Returns the columns to read from files -> their names there: those of features that are no partition columns."""
    used = sorted({name for feature in spec.features for name in feature.columns}.difference(spec.partition_columns))
    return {name: spec.renamed.get(name, name) for name in used}


def read_columns(spec: FeedSpec) -> frozenset[str]:
    """Returns the names of all columns to read from files: those of `file_columns`, and what the filter looks at."""
    return frozenset(file_columns(spec).values()).union(comparison.column for comparison in spec.where)


def held_out_rows(split: Split, seed: int) -> Array:
    """Returns which of a row group's selected rows the validation fraction draws, sorted: int64 [split.held_out]."""
    draw = generator(Draw.HELD_OUT, seed, split.file, split.row_group)
    return np.sort(draw.choice(split.selected, split.held_out, replace=False, shuffle=False))


def kept_rows(split: Split, seed: int) -> Array | None:
    """Returns which of a row group's selected rows are in the split's stream, sorted: int64 [split.rows], None: all."""
    if split.keep is Keep.ALL:
        return None
    held_out = held_out_rows(split, seed)
    if split.keep is Keep.VALIDATION:
        return held_out
    return np.delete(np.arange(split.selected), held_out)


class SplitReader:
    """Reads splits whole; keeps the files last used open, because blocks come back to a file for each row group."""

    def __init__(self, spec: FeedSpec, open_storage: OpenStorage, *, use_threads: bool = False) -> None:
        """Opens nothing yet.

        Args:
            use_threads: Let Arrow decode columns on all its threads; on few cores that takes them from the other work.
        """
        self._spec = spec
        self._open_storage = open_storage
        self._use_threads = use_threads
        self._columns = file_columns(spec)
        self._in_file = read_columns(spec)
        self._files: OrderedDict[str, pq.ParquetFile] = OrderedDict()
        # The values of lists have other names, which depend on who wrote the file.
        texts = (name for f in spec.features if f.is_text and not (f.shape or f.ragged) for name in f.columns)
        self._texts = [self._columns[name] for name in texts if name in self._columns]

    def read(self, split: Split) -> RowGroup:
        """Returns the row group of a split with the columns that features use.

        Where bad rows are set aside, a damaged row group comes without columns, and says why.

        Raises:
            SourceNotFoundError: the file is gone.
            CorruptFileError: the file cannot be read, or has changed since it was planned.
            StorageError: the file system failed.
        """
        file = self._open(split.path)
        self._check_unchanged(file.metadata, split)
        group = RowGroup(
            origin=split.path,
            number=partial(_number, file.metadata, split.row_group, None),
            columns={},
            rows=split.rows,
            kept=kept_rows(split, self._spec.seed),
            fill_null=self._spec.fill_null,
        )
        try:
            with reading(split.path):
                names = sorted(self._in_file)
                table = file.read_row_group(split.row_group, columns=names, use_threads=self._use_threads)
        except CorruptFileError as error:
            if not self._spec.max_bad_rows:
                raise
            return replace(group, unreadable=str(error))
        selected = self._selected(table, split)
        if selected is not None:
            table = table.take(selected)
            group = replace(group, number=partial(_number, file.metadata, split.row_group, selected))
        found = dict(zip(table.column_names, table.columns, strict=True))
        fields = {name: column_of(found, in_file) for name, in_file in self._columns.items()}
        columns = {name: column for name, column in fields.items() if column is not None}
        named = zip(self._spec.partition_columns, self._spec.partition_types, split.partition, strict=True)
        # A partition column is a column like any other: one value, as often as the row group has rows.
        columns |= {name: pa.chunked_array([repeated(value, kind, split.selected)]) for name, kind, value in named}
        self._check_types(columns, split.path)
        return replace(group, columns=columns)

    def close(self) -> None:
        """Closes the files that are open."""
        while self._files:
            _, file = self._files.popitem(last=False)
            _close(file)

    def _open(self, path: str) -> pq.ParquetFile:
        if path in self._files:
            self._files.move_to_end(path)
            return self._files[path]
        try:
            file = open_parquet(
                self._open_storage(path),
                path,
                read_dictionary=self._texts,
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
            )
        except StorageNotFoundError as error:
            raise SourceNotFoundError(f"{path} is gone since it was planned") from error
        except KeyError as error:  # Arrow's, over a text column that is not there
            raise CorruptFileError(f"{path} has changed since it was planned (its columns are others)") from error
        if len(self._files) >= _OPEN_FILES:
            _close(self._files.popitem(last=False)[1])
        self._files[path] = file
        return file

    def _selected(self, table: pa.Table, split: Split) -> Array | None:
        """Returns the rows of a row group that the source's filter lets through; None for all."""
        if split.selected == split.group_rows:
            return None
        changed = CorruptFileError(f"{split.path} has changed since it was planned (row group {split.row_group})")
        try:
            selected = selected_rows(table, self._spec.where)
        except (KeyError, pa.ArrowException) as error:  # a column is gone, or of another type
            raise changed from error
        if len(selected) != split.selected:
            raise changed
        return selected

    def _check_unchanged(self, metadata: pq.FileMetaData, split: Split) -> None:
        if split.row_group < metadata.num_row_groups:
            group = metadata.row_group(split.row_group)
            nbytes = group_nbytes(group, leaf_columns(metadata, self._in_file))
            if (group.num_rows, nbytes) == (split.group_rows, split.nbytes):
                return
        raise CorruptFileError(f"{split.path} has changed since it was planned (row group {split.row_group})")

    def _check_types(self, columns: dict[str, pa.ChunkedArray], path: str) -> None:
        """A file rewritten with the same sizes and other columns would otherwise fail without its name."""
        for feature in self._spec.features:
            for name in feature.columns:
                column = column_of(columns, name)
                if column is None or not fits(feature, column.type):
                    raise CorruptFileError(f"{path} has changed since it was planned (column {name!r})")


class SplitSequence:
    """Reads splits one after the other; from a storage that is not this machine's, the next one beside each.

    Two readers take turns, so that one waits for the storage while the other decodes.
    """

    def __init__(self, splits: Iterable[Split], new_reader: Callable[[], SplitReader], *, is_remote: bool) -> None:
        """Reads nothing yet."""
        self._splits = iter(splits)
        self._readers = [new_reader() for _ in range(2 if is_remote else 1)]
        # A reader is one thread's: it keeps files open, and these have one position each.
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix="read") for _ in self._readers if is_remote]
        self._ahead: deque[Future[RowGroup]] = deque()
        self._submitted = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RowGroup:
        """Returns the next row group; raises what `SplitReader.read` does."""
        if not self._threads:
            return self._readers[0].read(next(self._splits))
        while len(self._ahead) < len(self._threads) and (split := next(self._splits, None)) is not None:
            turn = self._submitted % len(self._threads)
            self._ahead.append(self._threads[turn].submit(self._readers[turn].read, split))
            self._submitted += 1
        if not self._ahead:
            raise StopIteration
        return self._ahead.popleft().result()

    def close(self) -> None:
        """Closes the files; a read that is under way comes to its end first."""
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()


def _number(metadata: pq.FileMetaData, row_group: int, selected: Array | None, row: int) -> int:
    """Returns the number in the file of a row of a row group, of which only some may be selected."""
    before: int = sum(metadata.row_group(i).num_rows for i in range(row_group))
    return before + (row if selected is None else int(selected[row]))


def _close(file: pq.ParquetFile) -> None:
    # Nothing was written, and what a read had to say it has said.
    with suppress(OSError):
        file.close(force=True)


def repeated(value: PartitionValue, kind: str, rows: int) -> pa.Array:
    """Returns a partition value as a column [rows] of the Arrow type that stands for its Spark type.

    Args:
        kind: One of `FeedSpec.partition_types`; a date's value is in ISO format.
    """
    arrow_type = PARTITION_TYPES[kind]
    return pa.nulls(rows, arrow_type) if value is None else pa.repeat(pa.scalar(value).cast(arrow_type), rows)
