"""Statistics of a source's columns: one aggregation of Spark's, whose sketches are of the same size for any rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import types as t

from sparktf.column_statistics import (
    COMMONEST,
    RANKS,
    TEXT_LENGTH,
    ColumnStatistics,
    Spread,
    TableStatistics,
    ValueCount,
)
from sparktf.config.job import JobConfig
from sparktf.driver.plan.plan import Plan
from sparktf.driver.source.origin import SparkData
from sparktf.driver.spark.feeders import explained
from sparktf.feature import FeedSpec, Kind
from sparktf.sequence import Stream

_KLL = 1024
"""Size of a quantile's sketch: a rank is wrong by some 0.3 %."""

_TRACKED = 4096
"""Of more distinct values than three quarters of this, the counts of the commonest are not exact."""

_TASKS_A_CORE = 4
"""Each task sends a sketch of every column to one that puts them together: of a lake of many files, too much for it."""

_INFINITE = "double('Infinity')"
_NUMBERS = (t.NumericType, t.DateType, t.TimestampType, t.TimestampNTZType)
_FRACTIONS = (t.FloatType, t.DoubleType)
_TEXTS = (t.StringType, t.CharType, t.VarcharType)
_CATEGORIES = (*_TEXTS, t.BooleanType)
_LISTS = (t.ArrayType, t.BinaryType)


def statistics_of(data: SparkData, config: JobConfig, plan: Plan, cores: int) -> TableStatistics:
    """Returns the statistics of the columns that a plan uses, of all rows of the source.

    Args:
        cores: Of the application, at least 1.

    Raises:
        ConfigError: `data.where` does not fit.
        DataError: Spark cannot compute the rows.
        NodeLostError: executors were lost while it did.
    """
    names = sorted({column for feature in plan.spec.features for column in feature.columns})
    share = 1.0 if config.data.checks is None else config.data.checks.sample
    frame = data.table(names)
    types = [field.dataType for field in frame.schema.fields]
    if share < 1:
        frame = frame.sample(share, config.train.seed)
    plain = frame.coalesce(_TASKS_A_CORE * cores).toDF(*(f"c{i}" for i in range(len(names))))
    columns = [_Column(i, kind) for i, kind in enumerate(types)]
    made = plain.selectExpr(*(expression for column in columns for expression in column.prepared()))
    row = _collected(made, ["count(*) AS rows", *(f for column in columns for f in column.figures())])
    rows_read = row["rows"]
    return TableStatistics(
        rows=_rows(config, plan, rows_read, share),
        sample=share,
        rows_read=rows_read,
        columns={name: column.statistics(row) for name, column in zip(names, columns, strict=True)},
        labels=_labels(plan.spec),
    )


class _Column:
    """The SQL of one column, and what becomes of its figures.

    Before the aggregation it is `c<i>`, in it `c<i>` as well, beside `x<i>`, its value as a finite number.
    """

    def __init__(self, number: int, kind: t.DataType) -> None:
        self._i = number
        self._kind = kind
        self._value = kind.elementType if isinstance(kind, t.ArrayType) else kind
        self._is_list = isinstance(kind, _LISTS)
        self._is_number = isinstance(self._value, _NUMBERS)

    def prepared(self) -> Iterator[str]:
        """Yields what is computed of each row."""
        c, i = f"c{self._i}", self._i
        if not self._is_list:
            yield f"left({c}, {TEXT_LENGTH}) AS {c}" if isinstance(self._kind, _TEXTS) else c
            if self._is_number:
                yield f"{_number(c, self._kind)} AS x{i}"
            return
        length = "octet_length" if isinstance(self._kind, t.BinaryType) else "cardinality"
        yield f"IF({c} IS NULL, NULL, double({length}({c}))) AS n{i}"
        yield f"{c} IS NULL AS null{i}"
        if self._is_number:
            low, high = _number(f"array_min({c})", self._value), _number(f"array_max({c})", self._value)
            yield from (f"{low} AS low{i}", f"{high} AS high{i}")
            # To Spark, NaN is greater than any other number.
            yield f"({_is_odd(f'array_min({c})', self._value)} OR {_is_odd(f'array_max({c})', self._value)}) AS odd{i}"

    def figures(self) -> Iterator[str]:
        """Yields what is aggregated over the rows."""
        c, i = f"c{self._i}", self._i
        if self._is_list:
            yield f"count_if(null{i}) AS nulls{i}"
            yield from _spread(f"n{i}")
            if self._is_number:
                yield from (f"min(low{i}) AS least{i}", f"max(high{i}) AS most{i}", f"count_if(odd{i}) AS nans{i}")
            return
        yield f"count({c}) AS count{i}"
        if self._is_number:
            yield from _spread(f"x{i}")
        value = f"x{i}" if self._is_number and not isinstance(self._kind, t.IntegralType) else c
        yield f"approx_count_distinct({value}) AS distinct{i}"
        if self._is_number or isinstance(self._kind, _CATEGORIES):
            # Nulls may be counted as a value, so one more is asked for.
            yield f"approx_top_k({value}, {COMMONEST + 1}, {_TRACKED}) AS top{i}"

    def statistics(self, row: Row) -> ColumnStatistics:
        """Returns the statistics from the one row of figures."""
        i, kind = self._i, self._kind.simpleString()
        if self._is_list:
            return ColumnStatistics(
                type=kind,
                nulls=row[f"nulls{i}"],
                nans=row[f"nans{i}"] if self._is_number else 0,
                lengths=_spread_of(row, f"n{i}"),
                numbers=_bounds_of(row, i) if self._is_number else None,
            )
        count, numbers = row[f"count{i}"], _spread_of(row, f"x{i}") if self._is_number else None
        return ColumnStatistics(
            type=kind,
            nulls=row["rows"] - count,
            nans=count - numbers.count if numbers is not None else 0,
            numbers=numbers,
            distinct=row[f"distinct{i}"],
            commonest=_commonest(row.asDict().get(f"top{i}"), row[f"distinct{i}"]),
        )


def _number(value: str, kind: t.DataType) -> str:
    """Returns the SQL of a value as a finite number, null where it is none."""
    if isinstance(kind, t.DateType):
        return f"double(unix_date({value}))"
    if isinstance(kind, t.TimestampType):
        return f"double(unix_micros({value}))"
    if isinstance(kind, t.TimestampNTZType):
        return f"double(timestampdiff(MICROSECOND, timestamp_ntz'1970-01-01', {value}))"
    if isinstance(kind, _FRACTIONS):
        return f"IF({_is_odd(value, kind)}, NULL, double({value}))"
    return f"double({value})"


def _is_odd(value: str, kind: t.DataType) -> str:
    """Returns the SQL of whether a value is no finite number; null where there is none."""
    if not isinstance(kind, _FRACTIONS):
        return "false"
    return f"(isnan({value}) OR abs({value}) = {_INFINITE})"


def _spread(x: str) -> Iterator[str]:
    yield from (f"count({x}) AS count_{x}", f"min({x}) AS min_{x}", f"max({x}) AS max_{x}", f"avg({x}) AS mean_{x}")
    yield f"stddev_pop({x}) AS deviation_{x}"
    ranks = ", ".join(f"{rank}D" for rank in RANKS)
    sketch = f"kll_sketch_agg_double({x}, {_KLL})"
    yield f"IF(count({x}) > 0, kll_sketch_get_quantile_double({sketch}, array({ranks})), NULL) AS quantiles_{x}"


def _spread_of(row: Row, x: str) -> Spread:
    return Spread(
        count=row[f"count_{x}"],
        min=row[f"min_{x}"],
        max=row[f"max_{x}"],
        mean=row[f"mean_{x}"],
        deviation=row[f"deviation_{x}"],
        quantiles=tuple(row[f"quantiles_{x}"] or ()),
    )


def _bounds_of(row: Row, i: int) -> Spread:
    least, most = row[f"least{i}"], row[f"most{i}"]
    return Spread(count=0 if least is None else row[f"count_n{i}"], min=least, max=most)


def _commonest(found: Sequence[Row] | None, distinct: int) -> tuple[ValueCount, ...]:
    """Returns the commonest values; what comes once only where it is one of few, as it tells nothing else of many."""
    counted = [(common["item"], common["count"]) for common in found or () if common["item"] is not None]
    worth = [(value, count) for value, count in counted if count > 1 or distinct <= COMMONEST]
    worth.sort(key=lambda common: (-common[1], str(common[0])))
    return tuple(ValueCount(value=value, count=count) for value, count in worth[:COMMONEST])


def _collected(frame: DataFrame, figures: Sequence[str]) -> Row:
    try:
        return frame.selectExpr(*figures).collect()[0]
    except (PySparkException, Py4JError) as error:
        raise explained(error, "computing the statistics of the data") from error


def _rows(config: JobConfig, plan: Plan, rows_read: int, share: float) -> int:
    """Returns the rows of the source: footers know them, of which a plan is made that trainers read by."""
    if share == 1:
        return rows_read
    if plan.staged:
        return round(rows_read / share)
    validation = config.data.validation
    is_other = validation is not None and validation.path is not None
    return sum(plan.rows(stream) for stream in plan.tables if stream is Stream.TRAIN or not is_other)


def _labels(spec: FeedSpec) -> tuple[str, ...]:
    return tuple(
        sorted({column for feature in spec.features if feature.kind is Kind.TARGET for column in feature.columns})
    )
