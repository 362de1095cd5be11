"""The table of how files of each format are planned: their columns, and their groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sparktf.config.data_section import DataConfig
from sparktf.driver.plan.features import Schema
from sparktf.driver.plan.files import FooterCheck, RowGroups, Source, lake_schema, read_row_groups
from sparktf.driver.plan.named_columns import names_column
from sparktf.driver.plan.record_plan import IndexRecords, read_record_groups, record_schema
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.feature import FeedSpec
from sparktf.feed.formats.format import PARQUET, TFRECORD, Format, format_of
from sparktf.feed.formats.parquet import file_columns, read_columns
from sparktf.storage.base import Storage


class PlannedColumns(NamedTuple):
    """The columns of a source."""

    schema: Schema
    types: Mapping[str, str]  # Spark's types of columns that files do not contain: the plan stores them


class ReadColumns(Protocol):
    """Finds the columns of a source's files."""

    def __call__(
        self, storage: Storage, source: Source, data: DataConfig, reads: SparkReads, *, looks_in: bool = True
    ) -> PlannedColumns:
        """Looks at few files.

        Args:
            looks_in: The first row may be read for a message.

        Raises:
            BadValueError: the first files do not agree.
            CorruptFileError: a file cannot be read.
            StorageError: the storage failed.
        """


class ReadGroups(Protocol):
    """Finds the groups of rows in all files of a source."""

    def __call__(
        self, storage: Storage, source: Source, spec: FeedSpec, check: FooterCheck, index: IndexRecords
    ) -> tuple[RowGroups, npt.NDArray[np.int64]]:
        """Returns them, and of each file its `FileStamp`: int64 [n_files, 3].

        Args:
            check: Checks each file that has a footer.
            index: Finds the records of files that have none.

        Raises:
            CorruptFileError: a file cannot be read.
            StorageError: the storage failed.
        """


@dataclass(frozen=True, slots=True)
class PlannedFormat:
    """How files of a format are planned."""

    format: Format  # Reads them
    columns: ReadColumns  # Finds their columns
    groups: ReadGroups  # Finds their groups of rows
    # Returns a spec with the types that `columns` found; the features of the spec are known by then
    with_types: Callable[[FeedSpec, Mapping[str, str]], FeedSpec]
    # Returns a plan's types, for a sentence's end; "" if the files contain them
    told: Callable[[DataConfig, FeedSpec], str]


def planned_format(name: str) -> PlannedFormat:
    """Returns how files of a `data.format` that trainers read are planned."""
    return PLANNED_FORMATS[name]


def planned_format_of(spec: FeedSpec) -> PlannedFormat:
    """Returns how files of a feed's format are planned."""
    return PLANNED_FORMATS[format_of(spec).name]


def _parquet_columns(
    storage: Storage, source: Source, data: DataConfig, reads: SparkReads, *, looks_in: bool = True
) -> PlannedColumns:
    return PlannedColumns(lake_schema(storage, source, reads, partial(names_column, data), looks_in=looks_in), {})


def _parquet_groups(
    storage: Storage, source: Source, spec: FeedSpec, check: FooterCheck, index: IndexRecords
) -> tuple[RowGroups, npt.NDArray[np.int64]]:
    del index
    return read_row_groups(storage, source, read_columns(spec), check)


def _record_columns(
    storage: Storage, source: Source, data: DataConfig, reads: SparkReads, *, looks_in: bool = True
) -> PlannedColumns:
    del reads, looks_in
    types, schema = record_schema(storage, source, data.record_types, data.record_sample)
    return PlannedColumns(schema, types)


def _record_groups(
    storage: Storage, source: Source, spec: FeedSpec, check: FooterCheck, index: IndexRecords
) -> tuple[RowGroups, npt.NDArray[np.int64]]:
    del spec, check
    return read_record_groups(storage, source, index)


def _with_record_types(spec: FeedSpec, types: Mapping[str, str]) -> FeedSpec:
    """Returns a spec with the types of the columns that it uses; with all where it uses partition columns alone."""
    used = {name: types[name] for name in file_columns(spec) if name in types}
    return spec.model_copy(update={"record_types": used or dict(types)})


def _told_record_types(data: DataConfig, spec: FeedSpec) -> str:
    told = "declared" if data.record_types else f"as {data.record_sample:,} records have them"
    return f"; types {told}: {', '.join(f'{name} {kind}' for name, kind in spec.record_types.items())}"


PARQUET_PLANNED = PlannedFormat(
    PARQUET, _parquet_columns, _parquet_groups, with_types=lambda spec, types: spec, told=lambda data, spec: ""
)
TFRECORD_PLANNED = PlannedFormat(
    TFRECORD, _record_columns, _record_groups, with_types=_with_record_types, told=_told_record_types
)

PLANNED_FORMATS: Mapping[str, PlannedFormat] = MappingProxyType(
    {known.format.name: known for known in (PARQUET_PLANNED, TFRECORD_PLANNED)}
)
"""Name of a format -> how its files are planned."""
