"""Statistics of a source's columns: Spark tasks sketch the rows that they read or compute, the driver adds up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from sparktf.config.job import JobConfig
from sparktf.driver.plan.plan import Plan
from sparktf.driver.source.origin import Origin
from sparktf.driver.source.spark_formats import planned_types
from sparktf.driver.spark.application import task_access
from sparktf.driver.spark.feeders import explained
from sparktf.executor.measuring import (
    MEASURED,
    MeasureSettings,
    PartialStatistics,
    measure_batches,
    measure_splits,
    read_part,
)
from sparktf.feature import FeedSpec, Kind
from sparktf.feed.arrays.vectors import is_vector
from sparktf.sequence import Keep, Split, Stream
from sparktf.statistics.column_parts import ColumnKind, put_together
from sparktf.statistics.column_sketch import Room, no_part
from sparktf.statistics.column_statistics import TableStatistics
from sparktf.storage.file_systems import FileSystems

_TASKS_A_CORE = 2
"""Each task sends statistics of every column to the driver: a task for each file would send too many."""

_SAMPLED = 1 << 19
"""Values drawn of a column over all tasks; at least half stay: in 99 of 100 cases a rank is off by less than 0.25 %."""

_LEAST_SAMPLED = 8192
"""Of each task, for any number of tasks."""

_POINTS = 1 << 14
_LEAST_POINTS = 64
"""The number of these sent, over all tasks and by each."""

_COUNTED = 1 << 14
"""Distinct values of a column that a task counts."""

_SENT = 1 << 22
"""Values with counts that all tasks may send; where there are many columns and tasks, each counts fewer."""

_NUMBERS = (t.NumericType, t.DateType, t.TimestampType, t.TimestampNTZType)
_TEXTS = (t.StringType, t.CharType, t.VarcharType)


def statistics_of(
    spark: SparkSession, origin: Origin, config: JobConfig, plan: Plan, file_systems: FileSystems, cores: int
) -> TableStatistics:
    """Returns the statistics of the columns that a plan uses, of all rows of the source.

    Where trainers read files themselves, so do the tasks; else Spark computes the rows.

    Args:
        origin: Opened only if needed.
        file_systems: With the files of the plan.
        cores: Of the application, at least 1.

    Raises:
        ConfigError: `data.where` does not fit.
        DataError: Spark cannot compute the rows, or a file is not as it was planned.
        NodeLostError: executors were lost while it did, or the storage failed.
    """
    names = sorted({column for feature in plan.spec.features for column in feature.columns})
    share = 1.0 if config.data.checks is None else config.data.checks.sample
    is_lake = not plan.staged and config.data.path is not None and not origin.is_given
    types = planned_types(spark, file_systems, plan, names) if is_lake else None
    if types is None:
        types = {field.name: field.dataType for field in origin.fed.table(names).schema.fields}
    kinds = {name: _kind(kind) for name, kind in types.items()}
    tasks = _TASKS_A_CORE * cores
    settings = MeasureSettings(kinds, _room(tasks, len(names)), config.train.seed, sample=1 if plan.staged else share)
    try:
        if plan.staged:
            frame = origin.fed.table(names)
            parts = _of_rows(frame if share == 1 else frame.sample(share, config.train.seed), settings, tasks)
        else:
            splits = list(_row_groups(config, plan))
            access, sets_aside = task_access(spark), config.data.max_bad_rows > 0
            read = partial(measure_splits, settings=settings, spec=plan.spec, access=access, sets_aside=sets_aside)
            parts = _of_files(spark, splits, read, tasks)
    except (PySparkException, Py4JError) as error:
        raise explained(error, "computing the statistics of the data") from error
    rows_read = sum(part.rows for part in parts)
    return TableStatistics(
        rows=_rows(config, plan, rows_read, share),
        sample=share,
        rows_read=rows_read,
        columns={
            name: put_together(
                kind.simpleString(), kinds[name], [part.columns[name] for part in parts] or [no_part(kinds[name])]
            )
            for name, kind in types.items()
        },
        labels=_labels(plan.spec),
    )


def _of_rows(frame: DataFrame, settings: MeasureSettings, tasks: int) -> list[PartialStatistics]:
    """Has Spark compute the rows, and pass them to our tasks."""
    # mapInArrow looks columns up by their names, and would take "user.age" for a field of a struct.
    plain = frame.coalesce(tasks).toDF(*(f"c{i}" for i in range(len(frame.columns))))

    def measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return measure_batches(batches, settings)

    return [read_part(bytes(row[0])) for row in plain.mapInArrow(measure, MEASURED).collect()]


def _of_files(
    spark: SparkSession,
    splits: Sequence[Split],
    read: Callable[[int, Iterable[Sequence[Split]]], Iterator[PartialStatistics]],
    tasks: int,
) -> list[PartialStatistics]:
    """Has our tasks read row groups, each equally many rows, and of as few files as possible."""
    shares = _dealt(splits, tasks)
    if not shares:
        return []
    dealt = spark.sparkContext.parallelize(shares, len(shares))
    return dealt.mapPartitionsWithIndex(read).collect()


def _row_groups(config: JobConfig, plan: Plan) -> Iterator[Split]:
    """Yields each row group of the source once, with all rows that pass the filter."""
    seen: set[tuple[int, int]] = set()
    for stream in _streams(config, plan):
        whole = replace(plan, tables={Stream.TRAIN: replace(plan.tables[stream], keep=Keep.ALL)})
        (share,) = whole.assignments(Stream.TRAIN, 0, [(0, whole.rows(Stream.TRAIN))], [""], rebalance=False)
        for split in itertools.chain.from_iterable(piece.splits for piece in share.pieces):
            # Of a fraction that is held out, both streams have rows of the same row groups.
            if (split.file, split.row_group) not in seen:
                seen.add((split.file, split.row_group))
                yield split


def _dealt(splits: Sequence[Split], tasks: int) -> list[Sequence[Split]]:
    """Returns splits for each task, none of which is empty."""
    ordered = sorted(splits, key=lambda split: (split.file, split.row_group))
    ends = np.cumsum([split.group_rows for split in ordered])
    if not len(ends):
        return []
    middle = ends - np.array([split.group_rows for split in ordered]) / 2
    task = np.minimum(middle * tasks // ends[-1], tasks - 1)
    borders = [0, *(np.flatnonzero(np.diff(task)) + 1).tolist(), len(ordered)]
    return [ordered[start:stop] for start, stop in itertools.pairwise(borders)]


def _room(tasks: int, columns: int) -> Room:
    return Room(
        counted=max(1, min(_COUNTED, _SENT // (tasks * columns))),
        sampled=max(_LEAST_SAMPLED, _SAMPLED // tasks),
        points=max(_LEAST_POINTS, _POINTS // tasks),
    )


def _kind(kind: t.DataType) -> ColumnKind:
    if isinstance(kind, t.ArrayType):
        return ColumnKind.NUMBER_LIST if isinstance(kind.elementType, _NUMBERS) else ColumnKind.LIST
    if isinstance(kind, t.UserDefinedType) and is_vector(to_arrow_type(kind.sqlType())):
        return ColumnKind.NUMBER_LIST
    kinds: dict[ColumnKind, tuple[type[t.DataType], ...]] = {
        ColumnKind.NUMBER: _NUMBERS,
        ColumnKind.TEXT: _TEXTS,
        ColumnKind.TRUTH: (t.BooleanType,),
        ColumnKind.BYTES: (t.BinaryType,),
    }
    return next((found for found, types in kinds.items() if isinstance(kind, types)), ColumnKind.OTHER)


def _streams(config: JobConfig, plan: Plan) -> list[Stream]:
    """Returns the streams of the source; `data.validation.path` is another source."""
    validation = config.data.validation
    is_other = validation is not None and validation.path is not None
    return [stream for stream in plan.tables if stream is Stream.TRAIN or not is_other]


def _rows(config: JobConfig, plan: Plan, rows_read: int, share: float) -> int:
    """Returns the number of the source's rows: from footers, if the plan is one by which trainers read."""
    if share == 1:
        return rows_read
    if plan.staged:
        return round(rows_read / share)
    return sum(plan.rows(stream) for stream in _streams(config, plan))


def _labels(spec: FeedSpec) -> tuple[str, ...]:
    return tuple(
        sorted({column for feature in spec.features if feature.kind is Kind.TARGET for column in feature.columns})
    )
