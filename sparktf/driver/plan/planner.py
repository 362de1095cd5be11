"""Plans a run's input: the files, row groups and rows of each stream, and its shuffle blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparktf.config.data_section import ValidationConfig
from sparktf.config.job import JobConfig
from sparktf.driver.plan.bounds import check_bounds
from sparktf.driver.plan.features import Schema, resolve_features
from sparktf.driver.plan.files import FooterCheck, RowGroups, Source, check_file, list_source
from sparktf.driver.plan.locality import Hosts, Locate, Replicas, block_numbers, host_groups, nowhere
from sparktf.driver.plan.not_plain import NotPlainError, left_to_spark
from sparktf.driver.plan.parquet_scan import ParquetScan, scan_schema, scan_source, spark_type
from sparktf.driver.plan.partitions import NO_PARTITIONS, Partitions, unreadable
from sparktf.driver.plan.plan import Plan, SplitTable
from sparktf.driver.plan.planned_formats import PARQUET_PLANNED, PlannedColumns, planned_format, planned_format_of
from sparktf.driver.plan.record_plan import IndexRecords, index_here
from sparktf.driver.plan.row_filter import count_selected
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.errors import BadValueError, ColumnError, ConfigError, EmptySourceError
from sparktf.feature import FeedSpec
from sparktf.feed.formats.parquet import file_columns
from sparktf.feed.formats.splits import OpenStorage
from sparktf.sequence import Draw, Integers, Keep, PartitionValue, Stream, generator
from sparktf.storage.base import Storage

PartitionFilter = Callable[[Sequence[str], Sequence[str], Sequence[tuple[PartitionValue, ...]], str], list[bool]]
"""(partition columns, their Spark types, rows of values, SQL predicate) -> for each row, whether it is selected."""

_SHOWN_VALUES = 5


class StreamRows(NamedTuple):
    """The rows of one stream before they are put into blocks."""

    groups: RowGroups
    keep: Keep  # The stream's part of the rows of each row group
    held_out: Integers  # int64 [n_row_groups], rows drawn by the validation fraction

    @property
    def rows(self) -> Integers:
        """int64 [n_row_groups], rows of each row group that belong to the stream."""
        if self.keep is Keep.ALL:
            return self.groups.rows
        return self.held_out if self.keep is Keep.VALIDATION else self.groups.rows - self.held_out


@left_to_spark()
def plan_source(
    config: JobConfig,
    open_storage: OpenStorage,
    filter_partitions: PartitionFilter,
    locate: Locate = nowhere,
    scan: ParquetScan | None = None,
    reads: SparkReads | None = None,
    index: IndexRecords = index_here,
) -> Plan:
    """Reads the listing and the footers of a source, asks where its files lie, and plans its streams.

    Args:
        open_storage: Opens the storage of each path: validation may have another one than training.
        scan: The files of a DataFrame, to which `data.where` has been applied, in place of those at `data.path`.
        reads: Spark's settings about reading files; by default Spark's own defaults.
        index: Finds the records of TFRecord files.

    Raises:
        NotPlainError: trainers would read other values than Spark.
        ConfigError: a predicate, dtype, shape or fill value does not fit the source.
        SourceNotFoundError: a path does not exist.
        EmptySourceError: a stream has no row.
        ColumnError: a column is not in the source, or not in one of its files.
        BadValueError: a column's type cannot become the tensor, or differs between files.
        CorruptFileError: a file is no Parquet file.
        StorageError: the file system failed.
    """
    reads = reads or SparkReads()
    if scan is None:
        form = planned_format(config.data.format)
        source, storage = _open_path(config, open_storage, filter_partitions, reads)
        schema, types = form.columns(storage, source, config.data, reads)
    else:
        form = PARQUET_PLANNED
        source = scan_source(scan, f"data.{config.data.source_key}" if config.data.source_key else "train(data=...)")
        storage = open_storage(source.files[0])
        schema, types = PlannedColumns(scan_schema(storage, scan), {})
    spec = form.with_types(feed_spec(config, schema, source.partitions, scan), types)
    columns, untyped = file_columns(spec), set[str]()
    same_types = partial(check_file, {name: schema.column(name, source.key) for name in columns}, reads, untyped)
    check = same_types if scan is None else partial(scan.check_file, tuple(columns), untyped)
    sources = [_project(source, spec, source.key)]
    groups, stamps = _read(spec, check, index, storage, sources[0])
    if spec.where:
        groups = _filtered(groups, storage, source, spec)
    validation = config.data.validation
    if validation is not None and validation.path is not None:
        other = open_storage(validation.path)
        sources.append(_held_out_source(other, validation.path, spec, source.key, reads))
        held_out, others = _read(spec, same_types, index, other, sources[1], len(source.files))
        stamps = np.concatenate([stamps, others])
        streams = {Stream.TRAIN: _whole(groups), Stream.VALIDATION: _whole(held_out)}
    else:
        streams = _streams(groups, source, validation, filter_partitions)
    kinds = {name: spark_type(schema.arrow_type(name, source.key)) for name in sorted(untyped)}
    _check_not_empty(streams, source.path)
    _check_nulls(spec, sources, streams.values())
    return _planned(config, spec.model_copy(update={"untyped": kinds}), sources, streams, stamps, locate)


def _planned(
    config: JobConfig,
    spec: FeedSpec,
    sources: Sequence[Source],
    streams: Mapping[Stream, StreamRows],
    stamps: npt.NDArray[np.int64],
    locate: Locate,
) -> Plan:
    """Returns the plan of the streams, once the hosts of their files are known."""
    files = tuple(file for part in sources for file in part.files)
    hosts = Hosts(files, locate(files))
    tables = {}
    for stream, rows in streams.items():
        seed = spec.seed if spec.shuffle and stream is Stream.TRAIN else None
        tables[stream] = split_table(rows, config.data.shuffle_rows, hosts, seed=seed, in_order=not spec.shuffle)
    return Plan(
        spec=spec,
        plan_hash=config.plan_hash(),
        files=files,
        partition_values=tuple(values for part in sources for values in part.partitions.values),
        tables=tables,
        hosts=hosts.names,
        stamps=stamps,
    )


def _open_path(
    config: JobConfig, open_storage: OpenStorage, filter_partitions: PartitionFilter, reads: SparkReads
) -> tuple[Source, Storage]:
    """Lists `data.path`, of which `data.where` selects partitions."""
    path = str(config.data.path)
    storage = open_storage(path)
    listed = list_source(storage, path, "data.path", reads)
    return listed.select(_matches(listed, config.data.where, "data.where", filter_partitions)), storage


def _held_out_source(storage: Storage, path: str, spec: FeedSpec, first: str, reads: SparkReads) -> Source:
    """Lists `data.validation.path`, of which no columns are renamed and no rows filtered."""
    if spec.renamed or spec.where:
        what = "columns are renamed" if spec.renamed else "rows are filtered"
        raise NotPlainError(f"{what}, but not those of data.validation.path")
    return _project(list_source(storage, path, "data.validation.path", reads), spec, first)


def feed_spec(
    config: JobConfig, schema: Schema, partitions: Partitions = NO_PARTITIONS, scan: ParquetScan | None = None
) -> FeedSpec:
    """Returns the features that trainers, or Spark for them, make of rows.

    Args:
        partitions: Of the files that the trainers read.
        scan: The DataFrame of these files, if there is one.

    Raises:
        ConfigError: a dtype, shape, fill value or bound of `data.checks` does not fit the schema.
        ColumnError: a column is not in it.
        BadValueError: a column's type cannot become the tensor.
    """
    features = resolve_features(config.data, schema)
    if config.data.checks is not None:
        check_bounds(config.data.checks, features, schema)
    used = {column for feature in features for column in feature.columns}
    names = [(name, kind) for name, kind in zip(partitions.names, partitions.types, strict=True) if name in used]
    return FeedSpec(
        features=features,
        partition_columns=tuple(name for name, _ in names),
        partition_types=tuple(kind for _, kind in names),
        fill_null=config.data.fill_null,
        renamed={} if scan is None else scan.renamed(used),
        where=() if scan is None else scan.where,
        shuffle=config.data.shuffle,
        seed=config.train.seed,
    )


def _matches(source: Source, where: str | None, key: str, filter_partitions: PartitionFilter) -> list[bool]:
    """Returns for each file whether its partition is selected."""
    names, types, values = source.partitions.names, source.partitions.types, source.partitions.values
    if where is None:
        return [True] * len(values)
    if not names:
        raise ConfigError(
            f"{key}: {source.path} has no partition columns, and trainers cannot filter by other columns; set "
            "`data.mode: spark` to filter by columns of the files"
        )
    if reason := unreadable(source.partitions, names):
        raise NotPlainError(reason)
    rows = list(dict.fromkeys(values))
    try:
        chosen = dict(zip(rows, filter_partitions(names, types, rows, where), strict=True))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    if not any(chosen.values()):
        there_is = "; ".join(_range(name, [row[i] for row in rows]) for i, name in enumerate(names))
        raise EmptySourceError(f"{key}: {where!r} selects none of {len(rows)} partitions; they have {there_is}")
    return [chosen[value] for value in values]


def _range(name: str, values: Sequence[PartitionValue]) -> str:
    """Returns the values of a partition column for a message: all of a few, else the first and the last."""
    known = sorted({value for value in values if value is not None})
    if not known:
        return f"{name} null"
    if len(known) <= _SHOWN_VALUES:
        return f"{name} {', '.join(map(str, known))}"
    return f"{name} {known[0]} ... {known[-1]} ({len(known)} values)"


def _project(source: Source, spec: FeedSpec, first: str) -> Source:
    """Returns the source with only the partition columns that features, resolved with the source at `first`, use."""
    partitions = source.partitions
    if reason := unreadable(partitions, spec.partition_columns):
        raise NotPlainError(reason)
    for name, kind in zip(spec.partition_columns, spec.partition_types, strict=True):
        if name not in partitions.names:
            raise ColumnError(f"{source.key}: {name!r} is a partition column of {first}, but not of {source.path}")
        found = partitions.types[partitions.names.index(name)]
        if found != kind:
            raise BadValueError(f"{source.key}: partition column {name!r} is of type {found}, but {kind} in {first}")
    positions = [partitions.names.index(name) for name in spec.partition_columns]
    values = tuple(tuple(row[i] for i in positions) for row in partitions.values)
    return replace(source, partitions=Partitions(spec.partition_columns, spec.partition_types, values))


def _check_nulls(spec: FeedSpec, sources: Sequence[Source], streams: Iterable[StreamRows]) -> None:
    """Checks the partition values of the files that rows are read from."""
    refused = {name for feature in spec.features if not feature.masked for name in feature.columns}
    refused.difference_update(spec.fill_null)
    labels = {name for feature in spec.targets for name in feature.columns}
    files = [file for source in sources for file in source.files]
    rows = [row for source in sources for row in source.partitions.values]
    for i in sorted({i for part in streams for i in np.unique(part.groups.file[part.rows > 0]).tolist()}):
        for name, value in zip(spec.partition_columns, rows[i], strict=True):
            if value is None and name in refused:
                way = f"leave such files out by data.where: {name} IS NOT NULL"
                if name not in labels:
                    way = f"set data.fill_null.{name} to the value to use instead"
                raise BadValueError(f"{files[i]}: partition column {name!r} is null; {way}")


def _read(
    spec: FeedSpec, check: FooterCheck, index: IndexRecords, storage: Storage, source: Source, first_file: int = 0
) -> tuple[RowGroups, npt.NDArray[np.int64]]:
    """Reads the footers of a source, or whole files that have none; numbers the files from `first_file` on."""
    groups, stamps = planned_format_of(spec).groups(storage, source, spec, check, index)
    if not len(groups.rows):
        raise EmptySourceError(f"{source.key}: the {len(source.files)} data files in {source.path} have no rows")
    return groups._replace(file=groups.file + first_file), stamps


def _filtered(groups: RowGroups, storage: Storage, source: Source, spec: FeedSpec) -> RowGroups:
    """Returns the row groups with the rows that pass the source's filter."""
    found = count_selected(storage, source.files, groups, spec.where)
    if not len(found.rows):
        raise EmptySourceError(f"{source.key}: none of {int(groups.rows.sum()):,} rows passes the filter")
    return found


def _streams(
    groups: RowGroups, source: Source, validation: ValidationConfig | None, filter_partitions: PartitionFilter
) -> dict[Stream, StreamRows]:
    """Divides the rows of one source between training and validation."""
    if validation is None:
        return {Stream.TRAIN: _whole(groups)}
    if validation.fraction is not None:
        return split_by_fraction(groups, validation.fraction)
    chosen = _matches(source, validation.where, "data.validation.where", filter_partitions)
    return _split_by_file(groups, np.array(chosen))


def _whole(groups: RowGroups) -> StreamRows:
    return StreamRows(groups, Keep.ALL, np.zeros_like(groups.rows))


def split_by_fraction(groups: RowGroups, fraction: float) -> dict[Stream, StreamRows]:
    """Holds out a fraction of the rows of each row group.

    The counts are rounded along the whole source, so that they add up to the fraction of it, however small the row
    groups are.
    """
    marks = np.floor(np.cumsum(groups.rows) * fraction + 0.5).astype(np.int64)
    held_out = np.diff(marks, prepend=0)
    return {
        Stream.TRAIN: StreamRows(groups, Keep.TRAIN, held_out),
        Stream.VALIDATION: StreamRows(groups, Keep.VALIDATION, held_out),
    }


def _split_by_file(groups: RowGroups, held_out: npt.NDArray[np.bool_]) -> dict[Stream, StreamRows]:
    """Holds out whole files: bool [n_files]."""
    chosen = held_out[groups.file]
    return {
        Stream.TRAIN: _whole(groups.take(~chosen)),
        Stream.VALIDATION: _whole(groups.take(chosen)),
    }


def _check_not_empty(streams: Mapping[Stream, StreamRows], source: str) -> None:
    rows = {stream: int(part.rows.sum()) for stream, part in streams.items()}
    total = sum(rows.values())
    if not rows[Stream.TRAIN]:
        raise EmptySourceError(f"data.validation holds out all {total} rows of {source}: no rows are left to train on")
    if not rows.get(Stream.VALIDATION, 1):
        raise EmptySourceError(f"data.validation holds out none of {total} rows of {source}")


def split_table(
    stream: StreamRows, block_rows: int, hosts: Hosts, *, seed: int | None, in_order: bool = False
) -> SplitTable:
    """Puts row groups together into shuffle blocks of up to `block_rows` rows; a larger row group makes its own block.

    Row groups are grouped by host, so that a whole block can be read beside its data.

    Args:
        hosts: The hosts of the files.
        seed: Draws which row groups come together.
        in_order: Keep the order of the files, wherever they lie.
    """
    rows, groups = stream.rows, stream.groups
    order = np.flatnonzero(rows)
    if seed is not None:
        order = generator(Draw.SPLIT_ORDER, seed).permutation(order)
    replicas = hosts.replicas(groups.file, groups.start, groups.stop, groups.nbytes)
    known = Replicas.unknown(len(rows)) if in_order else replicas
    places = host_groups(known.take(order), groups.nbytes[order], rows[order])
    together = np.lexsort((places.group, places.home))
    order, places = order[together], places.take(together)
    block = block_numbers(rows[order], block_rows, places)
    # Row groups of one file come one after the other within a block, to be read in one opening.
    order = order[np.lexsort((order, block))]
    return SplitTable(
        keep=stream.keep,
        block=block,
        file=groups.file[order],
        row_group=groups.row_group[order],
        group_rows=groups.group_rows[order],
        selected=groups.rows[order],
        held_out=stream.held_out[order],
        nbytes=groups.nbytes[order],
        replicas=replicas.take(order),
    )
