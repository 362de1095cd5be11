"""A plain scan of Parquet files, as Spark planned it, and the conditions for trainers to read the same as Spark.

Knows nothing of Spark's plans: `sparktf.driver.source.scan` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from sparktf.driver.plan.features import Schema, column_type
from sparktf.driver.plan.field_ids import check_ids
from sparktf.driver.plan.files import Source, check_decimals, doubled, first_length
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.old_calendar import check_calendar
from sparktf.driver.plan.partitions import Partitions
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.errors import EmptySourceError
from sparktf.feed.arrays.untyped import arrow_type, is_untyped
from sparktf.feed.formats.footer import columns_of
from sparktf.feed.formats.parquet_file import leaf_columns, open_parquet, reading
from sparktf.feed.formats.splits import partition_type
from sparktf.predicate import Condition
from sparktf.storage.base import Storage

_INT96 = "INT96"


@dataclass(frozen=True, slots=True)
class ParquetScan:
    """A DataFrame that consists of columns of Parquet files only."""

    # Paths of the files after partition pruning, sorted, as Spark spells them; twice if Spark reads it twice
    files: tuple[str, ...]
    columns: Mapping[str, str]  # All columns in their order -> name in the files, or of the partition column
    types: Mapping[str, str]  # All columns -> Spark's type
    partitions: Partitions  # The partition columns among them by the DataFrame's names, with their values for each file
    where: tuple[Condition, ...] = ()  # Conditions for rows of the files
    # The columns in `where`, by their names in the files -> Spark's type
    compared: Mapping[str, str] = field(default_factory=dict)
    rebases_unknown: bool = False  # Whether Spark converts dates of files with unknown writers
    # Of an Iceberg table: column in the files, or what is in it -> the id that it has there; None: names decide
    field_ids: Mapping[str, int] | None = None

    def renamed(self, used: Iterable[str]) -> dict[str, str]:
        """Returns the used columns that have another name in the files, with that name."""
        in_files = {name: self.in_file(name) for name in sorted(used) if name not in self.partitions.names}
        return {name: in_file for name, in_file in in_files.items() if name != in_file}

    def root(self, name: str) -> str:
        """Returns the top-level column of a dotted name."""
        while name not in self.columns and "." in name:
            name = name.rpartition(".")[0]
        return name

    def in_file(self, name: str) -> str:
        """Returns the name that a column, or a field of one, has in the files."""
        root = self.root(name)
        return self.columns[root] + name[len(root) :]

    def check_file(
        self, used: Iterable[str], untyped: set[str], path: str, schema: pa.Schema, metadata: pq.FileMetaData
    ) -> None:
        """Checks by a file's footer that its columns are the DataFrame's.

        Args:
            used: The columns and fields that are read, by the DataFrame's names.
            untyped: Takes those that the file has no value of, and so no type.

        Raises:
            NotPlainError: a column is missing, of another type, another one of the same name, or holds dates or
                timestamps that Spark converts.
        """
        read = frozenset(self.in_file(name) for name in used).union(self.compared)
        if any(metadata.schema.column(i).physical_type == _INT96 for i in leaf_columns(metadata, read)):
            raise NotPlainError(f"{path} has INT96 timestamps")
        # All fields of a struct must have Spark's types, used or not.
        types = {self.columns[name]: self.types[name] for name in sorted({self.root(name) for name in used})}
        types |= self.compared
        if twice := doubled(schema, types, SparkReads()):
            raise NotPlainError(f"{path} has {twice}")
        found = {field.name: field.type for field in schema}
        for in_file, wanted in types.items():
            if in_file not in found:
                raise NotPlainError(f"{path} has no column {in_file!r}")
            kind = spark_type(found[in_file])
            if is_untyped(found[in_file]) and in_file not in self.compared:
                untyped.update(name for name in used if self.columns[self.root(name)] == in_file)
            elif kind != wanted:
                raise NotPlainError(f"{path}: column {in_file!r} is of type {kind}, but {wanted} in Spark")
        if self.field_ids is not None:
            check_ids(path, schema, types, self.field_ids)
        if any("decimal" in kind for kind in types.values()):
            check_decimals(path, metadata, read)
        check_calendar(path, metadata, read, SparkReads(rebases_unknown=self.rebases_unknown))


def scan_source(scan: ParquetScan, key: str) -> Source:
    """Returns the files of a scan. Raises `EmptySourceError` if there are none."""
    if not scan.files:
        raise EmptySourceError(f"{key}: the partition filters select no file")
    return Source(key, "the DataFrame", scan.files, scan.partitions)


def scan_schema(storage: Storage, scan: ParquetScan) -> Schema:
    """Returns the columns of a scan, with Arrow types as its first file has them.

    Raises:
        NotPlainError: the file lacks a column that holds others, which Spark would fill with nulls.
        CorruptFileError: its footer cannot be read.
    """
    path = scan.files[0]
    with open_parquet(storage, path) as file, reading(path):
        found = {field.name: field.type for field in columns_of(file)}
    partitions = zip(scan.partitions.names, scan.partitions.types, strict=True)
    types = {name: partition_type(kind) for name, kind in partitions}
    for name, in_file in scan.columns.items():
        kind = found.get(in_file)
        if name not in types and (kind is None or is_untyped(kind)):
            with suppress(KeyError):  # of a struct, which no tensor is made of
                found[in_file] = arrow_type(scan.types[name])
        # Whoever uses it is told by `check_file`: a table's older files lack columns that came later.
        if name not in types and in_file not in found:
            raise NotPlainError(f"{path} has no column {in_file!r}")
    return Schema(
        {name: types.get(name, found.get(in_file)) for name, in_file in scan.columns.items()},
        lambda name: first_length(storage, path, scan.in_file(name)),
    )


def spark_type(kind: pa.DataType) -> str:
    """Returns the type that Spark gives to a file's column of an Arrow type."""
    spark = column_type(kind).spark
    return spark.replace("timestamp", "timestamp_ntz") if _has_local_times(kind) else spark


def _has_local_times(kind: pa.DataType) -> bool:
    """Whether there are timestamps without a zone in a type."""
    if pt.is_timestamp(kind):
        return kind.tz is None
    return any(_has_local_times(kind.field(i).type) for i in range(kind.num_fields))
