"""Decides `data.checks` as far as the files' footers allow: no row is read."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.config.checks import BoundsConfig, ChecksConfig, ColumnBounds, DriftBounds
from sparktf.config.data_section import DataConfig
from sparktf.driver.plan.features import column_type
from sparktf.driver.plan.files import at_once
from sparktf.driver.plan.plan import Plan
from sparktf.feed.arrays.nested import type_of
from sparktf.feed.formats.parquet_file import leaf_columns, open_parquet, reading
from sparktf.nightly.data_checks import Baseline, findings
from sparktf.preview.forecast import CheckFinding, ChecksForecast
from sparktf.sequence import Stream
from sparktf.statistics.column_statistics import ColumnStatistics, Spread, TableStatistics
from sparktf.storage.base import Storage

MOST_CHUNKS = 1_000_000
"""Chunks of columns to look at, each some 3 us. With more, only rows and columns are checked."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


class Chunks(NamedTuple):
    """The combined footers of some chunks of a column; None where one of them lacks the figure."""

    nulls: int | None = 0
    rows: int = 0
    least: float | None = math.inf  # Of the values that are not null; with `most`, as in a table's statistics
    most: float | None = -math.inf

    def __add__(self, other: object) -> Chunks:
        if not isinstance(other, Chunks):
            return NotImplemented
        return Chunks(
            None if self.nulls is None or other.nulls is None else self.nulls + other.nulls,
            self.rows + other.rows,
            None if self.least is None or other.least is None else min(self.least, other.least),
            None if self.most is None or other.most is None else max(self.most, other.most),
        )


class Footers(NamedTuple):
    """The used columns by their footers."""

    statistics: TableStatistics  # As a run would store them, as far as known
    nulls: frozenset[str]  # Columns whose nulls are counted; `ends` are those with known bounds
    ends: frozenset[str]


def read_footers(storage: Storage, data: DataConfig, plan: Plan) -> Footers:
    """Reads the footers of a plan's files again, for their statistics.

    Raises:
        CorruptFileError: a footer cannot be read.
        StorageError: the storage failed.
    """
    spec = plan.spec
    used = sorted({column for feature in spec.features for column in feature.columns})
    partitioned = dict(zip(spec.partition_columns, spec.partition_types, strict=True))
    stored = [column for column in used if column not in partitioned]
    streams = [Stream.TRAIN] if data.validation is not None and data.validation.path is not None else list(plan.tables)
    rows = sum(plan.rows(stream) for stream in streams)
    numbers = sorted({int(i) for stream in streams for i in np.unique(plan.tables[stream].file)})
    files = [plan.files[i] for i in numbers]
    groups = sum(len(plan.tables[stream].rows) for stream in streams)
    # Of the rows that a filter lets through, footers know no values.
    looks = not spec.where and groups * len(stored) <= MOST_CHUNKS
    read = partial(_read, storage, {name: spec.renamed.get(name, name) for name in stored}, looks=looks)
    found = at_once("footer", read, files if looks else files[:1])
    types = found[0][0] | spec.untyped
    chunks = {name: sum((one[1][name] for one in found), Chunks()) for name in (stored if looks else ())}
    columns = {name: _column(types[name], chunks.get(name)) for name in stored}
    for name, kind in partitioned.items():
        at = spec.partition_columns.index(name)
        held = {i: plan.partition_values[i][at] is None for i in numbers}
        nulls = _rows_of(plan, streams, held) if not spec.where else 0
        columns[name] = ColumnStatistics(type=kind, nulls=nulls)
    known = {name for name, one in chunks.items() if one.nulls is not None}
    ends = {name for name, one in chunks.items() if columns[name].numbers is not None}
    labels = tuple(sorted({column for feature in spec.targets for column in feature.columns}))
    statistics = TableStatistics(rows=rows, sample=1.0, rows_read=rows, columns=columns, labels=labels)
    return Footers(statistics, frozenset(known | set(partitioned)), frozenset(ends))


def judge_footers(checks: ChecksConfig, footers: Footers, then: Baseline | None) -> ChecksForecast:
    """Returns the bounds that hold and those that do not, by the footers, with drift from the baseline `then`."""
    judged: list[str] = []
    left: list[str] = []
    found: list[CheckFinding] = []
    for level, bounds in (("refuse", checks.refuse), ("warn", checks.warn)):
        decided = _decided(bounds, footers, has_baseline=then is not None)
        for key, is_decided in _keys(level, bounds, decided):
            (judged if is_decided else left).append(key)
        for finding in findings(level, decided, footers.statistics, then):
            certain = checks.sample == 1 or finding.column == "" or finding.key.endswith(".drift.columns")
            found.append(CheckFinding.model_validate({"level": level, "text": str(finding), "certain": certain}))
    return ChecksForecast(
        baseline="" if then is None else then.run_id,
        baseline_version=None if then is None else then.version,
        judged=tuple(judged),
        left=tuple(left),
        findings=tuple(found),
        columns=len(footers.nulls),
        used_columns=len(footers.statistics.columns),
    )


def _decided(bounds: BoundsConfig, footers: Footers, *, has_baseline: bool) -> BoundsConfig:
    columns = {}
    for name, column in bounds.columns.items():
        kept: dict[str, Any] = {"null_share": column.null_share} if name in footers.nulls else {}
        kept |= {"min": column.min, "max": column.max} if name in footers.ends else {}
        columns[name] = ColumnBounds(**kept)
    drift = bounds.drift
    unknown = tuple(name for name in footers.statistics.columns if name not in footers.nulls)
    decided = DriftBounds(
        row_ratio=drift.row_ratio,
        columns=drift.columns,
        null_share=drift.null_share if footers.nulls else None,
        ignore=(*drift.ignore, *unknown),
    )
    return BoundsConfig(rows=bounds.rows, columns=columns, drift=decided if has_baseline else DriftBounds())


def _keys(level: str, bounds: BoundsConfig, decided: BoundsConfig) -> Iterator[tuple[str, bool]]:
    """Yields the key of each bound, and whether it is decided."""
    if bounds.rows is not None:
        yield f"{level}.rows", True
    pairs = [(f"{level}.columns.{name}", column, decided.columns[name]) for name, column in bounds.columns.items()]
    for prefix, section, kept in (*pairs, (f"{level}.drift", bounds.drift, decided.drift)):
        for key in type(section).model_fields:
            value = getattr(section, key)
            if key != "ignore" and value is not None and value is not False:
                # By identity: 0 is a bound, and equals False.
                yield f"{prefix}.{key}", getattr(kept, key) is not None and getattr(kept, key) is not False


def _read(
    storage: Storage, columns: Mapping[str, str], path: str, *, looks: bool
) -> tuple[dict[str, str], dict[str, Chunks]]:
    """Returns the types of some columns in a file, and its footer's statistics if it is among those to read.

    Args:
        columns: Column -> its name in the files.
    """
    with open_parquet(storage, path) as file, reading(path):
        metadata, schema = file.metadata, file.schema_arrow
        fields = {field.name: field.type for field in schema}
        kinds = {name: type_of(fields, stored) for name, stored in columns.items()}
        types = {name: "" if kind is None else column_type(kind).spark for name, kind in kinds.items()}
        return types, {name: _said(metadata, stored) for name, stored in columns.items()} if looks else {}


def _said(metadata: pq.FileMetaData, stored: str) -> Chunks:
    """Returns the footer's statistics of a column."""
    leaves = leaf_columns(metadata, frozenset([stored]))
    if len(leaves) != 1 or metadata.row_group(0).column(leaves[0]).path_in_schema != stored:
        return _UNKNOWN
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return sum((_chunk(group, leaves[0]) for group in groups), Chunks())


_UNKNOWN = Chunks(None, 0, None, None)


def _chunk(group: pq.RowGroupMetaData, leaf: int) -> Chunks:
    found = group.column(leaf).statistics
    if found is None or not found.has_null_count:
        return _UNKNOWN
    if found.null_count == group.num_rows:
        return Chunks(found.null_count, group.num_rows)
    return Chunks(found.null_count, group.num_rows, *_ends(found))


def _ends(found: pq.Statistics) -> tuple[float | None, float | None]:
    """Returns the least and the greatest value; None if they are not numbers, or have no value in Python."""
    if not found.has_min_max:
        return None, None
    try:
        return _number(found.min), _number(found.max)
    except (ValueError, OverflowError, pa.ArrowException):  # a text that is no UTF-8, a day after the year 9999
        return None, None


def _number(value: object) -> float | None:
    """Returns a value as a number of the statistics; None for other types, and for values that are not finite."""
    if isinstance(value, dt.datetime):
        return float((value.replace(tzinfo=value.tzinfo or dt.UTC) - _EPOCH) // _MICROSECOND)
    if isinstance(value, dt.date):
        return float((value - _EPOCH.date()).days)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    return float(value) if math.isfinite(value) else None


def _column(kind: str, chunks: Chunks | None) -> ColumnStatistics:
    if chunks is None or chunks.nulls is None:
        return ColumnStatistics(type=kind, nulls=0)
    numbers = None
    if chunks.least is not None and chunks.most is not None and chunks.least <= chunks.most:
        numbers = Spread(count=chunks.rows - chunks.nulls, min=chunks.least, max=chunks.most)
    return ColumnStatistics(type=kind, nulls=chunks.nulls, numbers=numbers)


def _rows_of(plan: Plan, streams: Sequence[Stream], chosen: dict[int, bool]) -> int:
    """Returns the number of the streams' rows in the chosen files."""
    files = np.array([number for number, is_chosen in chosen.items() if is_chosen], np.int64)
    return sum(int(t.rows[np.isin(t.file, files)].sum()) for t in (plan.tables[stream] for stream in streams))
