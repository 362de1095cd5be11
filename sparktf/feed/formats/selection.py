"""Filters of rows: decides over Arrow's columns as Spark does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from sparktf.feed.arrays.arrow_types import in_micros
from sparktf.feed.arrays.columns import Array
from sparktf.predicate import Condition, Op

_COMPARE: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}
_NAN_IS_GREATER = (Op.GT, Op.GE)


def selected_rows(table: pa.Table, where: Sequence[Condition]) -> Array:
    """Returns the rows that pass all comparisons, sorted: int64 [n]; columns have their names in the files.

    Raises:
        KeyError: a column is missing.
        pyarrow.ArrowException: a column cannot be compared with its constants.
    """
    passed = np.ones(table.num_rows, np.bool_)
    for comparison in where:
        passed &= _holds(table.column(comparison.column), comparison)
    return np.flatnonzero(passed)


def _holds(column: pa.ChunkedArray, comparison: Condition) -> Array:
    if comparison.op is Op.NULL:
        return _to_bool(pc.is_null(column))
    if comparison.op is Op.NOT_NULL:
        return _to_bool(pc.is_valid(column))
    values = _comparable(column)
    if comparison.op is Op.IN:
        holds = pc.is_in(values, pa.array(comparison.values, values.type))
    else:
        (value,) = comparison.values
        holds = _COMPARE[comparison.op](values, pa.scalar(value, values.type))
        if pt.is_floating(values.type) and comparison.op in _NAN_IS_GREATER:
            # In Spark NaN is greater than any other number; in Arrow all comparisons with it are false.
            holds = pc.or_(holds, pc.is_nan(values))
    return _to_bool(pc.fill_null(holds, False))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns values in the form of the constants: timestamps as whole microseconds, dates as days."""
    kind = column.type
    if pt.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pt.is_timestamp(kind):
        # The cast refuses seconds and milliseconds beyond the range of microseconds.
        return in_micros(column).cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pt.is_date(kind):
        return column.cast(pa.date32()).cast(pa.int32())
    return column


def _to_bool(holds: pa.ChunkedArray) -> Array:
    found: Array = holds.to_numpy()
    return found


def decided_rows(group: pq.RowGroupMetaData, leaves: Mapping[str, int], where: Sequence[Condition]) -> int | None:
    """Returns the number of rows that pass if the statistics decide it (none or all); else None.

    `leaves`: column -> its position among the physical columns, for columns with reliable statistics.
    """
    verdicts = [_verdict(group, leaves, comparison) for comparison in where]
    if any(verdict is False for verdict in verdicts):
        return 0
    return group.num_rows if all(verdicts) else None


def _verdict(group: pq.RowGroupMetaData, leaves: Mapping[str, int], comparison: Condition) -> bool | None:
    """Returns True if all rows pass, False if none does, None if that is unknown."""
    leaf = leaves.get(comparison.column)
    statistics = None if leaf is None else group.column(leaf).statistics
    if statistics is None or not statistics.has_null_count:
        return None
    nulls = statistics.null_count
    if comparison.op in (Op.NULL, Op.NOT_NULL):
        wanted = nulls if comparison.op is Op.NULL else group.num_rows - nulls
        return None if 0 < wanted < group.num_rows else wanted > 0
    if nulls == group.num_rows:
        return False
    if not statistics.has_min_max:
        return None
    found = _between(comparison, statistics.min_raw, statistics.max_raw)
    return None if found and nulls else found


def _between(comparison: Condition, low: Any, high: Any) -> bool | None:
    """Returns the verdict (see `_verdict`) for values between a least and a greatest one."""
    values, op = comparison.values, comparison.op
    if op in (Op.IN, Op.EQ, Op.NE):
        every, none = low == high and low in values, all(value < low or value > high for value in values)
    elif op in (Op.LT, Op.GE):
        every, none = high < values[0], low >= values[0]
    else:
        every, none = high <= values[0], low > values[0]
    if op in (Op.NE, Op.GE, Op.GT):
        every, none = none, every
    return True if every else False if none else None
