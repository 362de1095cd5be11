"""TFRecord files in a plan: their features as columns, and the positions of their records."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from sparktf.driver.plan.features import Schema
from sparktf.driver.plan.files import RowGroups, Source, at_once
from sparktf.errors import BadValueError, CorruptFileError
from sparktf.feed.formats.examples import FeatureValues, ListKind, read_example
from sparktf.feed.formats.record_file import RecordGroup, first_records, group_records
from sparktf.feed.formats.record_types import record_type
from sparktf.feed.formats.splits import partition_type
from sparktf.storage.base import Storage

GROUP_NBYTES = 8 << 20
"""Approximate bytes of a group of records, the unit of reads and of shuffle blocks."""

IndexRecords = Callable[[Storage, Sequence[str], int], Sequence[Sequence[RecordGroup]]]
"""(storage, paths, bytes of all files) -> the groups of records of each file; reads all files."""

_SAMPLED_FILES = 8


def index_here(storage: Storage, paths: Sequence[str], nbytes: int) -> Sequence[Sequence[RecordGroup]]:
    """An `IndexRecords` that reads the files in threads of this process. Raises as `group_records`."""
    del nbytes
    index = partial(group_records, storage, nbytes=GROUP_NBYTES)
    return at_once("index", index, paths)


def read_record_groups(
    storage: Storage, source: Source, index: IndexRecords
) -> tuple[RowGroups, npt.NDArray[np.int64]]:
    """Returns the groups of records of all files, and of each file its `FileStamp`: int64 [n_files, 3].

    Raises:
        CorruptFileError: a file is no TFRecord file.
        StorageError: the storage failed.
    """
    stamps = np.zeros((len(source.files), 3), np.int64)
    # Stamps are older than the reads: so a change in between is detected later.
    if source.listed is not None:
        stamps[:, :2] = source.listed
    else:
        stamps[:, :2] = [(entry.nbytes, entry.modified_ms) for entry in map(storage.stat, source.files)]
    found = index(storage, source.files, int(stamps[:, 0].sum()))
    file = np.repeat(np.arange(len(found)), [len(groups) for groups in found])
    table = np.array(list(itertools.chain.from_iterable(found)), np.int64).reshape(-1, 3)
    start, nbytes, records = np.ascontiguousarray(table.T)
    return RowGroups(file, start, records, nbytes, start, start + nbytes, group_rows=records), stamps


def record_schema(
    storage: Storage, source: Source, declared: Mapping[str, str] | None, sample: int
) -> tuple[dict[str, str], Schema]:
    """Returns the features' types as Spark calls them, and all columns: those and the partition columns.

    Args:
        declared: Feature -> its type. Default: its type in the first `sample` records.

    Raises:
        BadValueError: a feature has values of several kinds in the first records.
        CorruptFileError: a file is no TFRecord file.
        StorageError: the storage failed.
    """
    lengths: dict[str, int] = {}
    types = infer_types(_sample(storage, source.files, sample), lengths) if declared is None else dict(declared)
    partitions = zip(source.partitions.names, source.partitions.types, strict=True)
    columns = {name: record_type(kind) for name, kind in types.items()}
    return types, Schema(
        columns | {name: partition_type(kind) for name, kind in partitions}, lengths.get, *_looked_at(declared, sample)
    )


def _looked_at(declared: Mapping[str, str] | None, sample: int) -> tuple[str, str]:
    """Returns the parts of a message about a column: where it was looked for, and what to do."""
    if declared is not None:
        return " in data.record_types", ""
    return f" in the first {sample:,} records", "list features that come later, with their types, in data.record_types"


def infer_types(records: Iterable[tuple[str, Mapping[str, FeatureValues]]], lengths: dict[str, int]) -> dict[str, str]:
    """Returns the type of each feature of some records, by name.

    A feature with at most one value in each record is no list. Bytes are text if all are UTF-8.

    Args:
        records: Each with its file.
        lengths: Takes the length of the first list of each feature that is one.

    Raises:
        BadValueError: a feature has values of several kinds.
    """
    kinds: dict[str, ListKind] = {}
    binary: set[str] = set()
    lists: set[str] = set()
    for path, features in records:
        for name, (kind, values) in features.items():
            if kind is ListKind.NOTHING:
                continue
            if kinds.setdefault(name, kind) is not kind:
                raise BadValueError(
                    f"{path}: feature {name!r} has {kind.name.lower()} values in one record and "
                    f"{kinds[name].name.lower()} values in another: set its type in data.record_types"
                )
            lengths.setdefault(name, len(values))
            if len(values) > 1:
                lists.add(name)
            if kind is ListKind.BYTES and not all(map(_is_text, values)):
                binary.add(name)
    names = {ListKind.FLOAT: "float", ListKind.INT64: "bigint"}
    found: dict[str, str] = {}
    for name, kind in sorted(kinds.items()):
        single = names.get(kind, "binary" if name in binary else "string")
        found[name] = f"array<{single}>" if name in lists else single
    return found


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _sample(storage: Storage, files: Sequence[str], count: int) -> Iterator[tuple[str, Mapping[str, FeatureValues]]]:
    """Yields some records: the first ones of some files."""
    chosen = sorted({int(i) for i in np.linspace(0, len(files) - 1, min(_SAMPLED_FILES, len(files)))})
    for i in chosen:
        for row, record in enumerate(first_records(storage, files[i], -(-count // len(chosen)))):
            try:
                yield files[i], read_example(record)
            except ValueError as error:
                raise CorruptFileError(f"{files[i]}: row {row}: it is not a tensorflow.Example: {error}") from error
