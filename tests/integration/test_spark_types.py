"""Every type of the table in docs/use/data.md: Spark writes it, the direct feed reads it, Spark's own values decide."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from integration.session import settings
from lakes import batches, deal, lake_config, no_filter, plan_lake
from pyspark.sql import DataFrame, SparkSession

from sparktf.driver.plan.parquet_scan import ParquetScan
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.source.origin import SparkData
from sparktf.driver.source.scan import plain_scan
from sparktf.driver.spark.feeders import FrameRows
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.columns import Columns, Strings
from sparktf.feed.arrays.convert import assemble
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage

ROWS = 100
SECOND = datetime.timedelta(seconds=1)
COLUMNS = """
    id,
    id % 3 = 0 AS flag,
    cast(id - 50 AS tinyint) AS i8, cast(id * -300 AS smallint) AS i16, cast(id * 1000003 AS int) AS i32,
    id * 10000000019 AS i64, cast(id / 7 AS float) AS f32, id / 7D AS f64,
    cast(id / 8 AS decimal(9, 3)) AS d9, cast(-id / 8 AS decimal(18, 4)) AS d18, cast(id / 8 AS decimal(38, 10)) AS d38,
    date_add(date'1890-01-01', cast(id * 800 AS int)) AS day,
    timestamp_micros(id * 250000000000001 - 3000000000000000) AS at,
    cast(timestamp_micros(id * 1000000007) AS timestamp_ntz) AS wall,
    make_dt_interval(0, 0, -1, id) AS lasting, make_ym_interval(1, cast(id AS int)) AS months,
    concat('t', id % 5) AS text, cast(concat('c', id % 10) AS char(2)) AS two, cast(concat('raw', id) AS binary) AS raw,
    unhex(lpad(hex(id * 65537), 8, '0')) AS image,
    array(cast(id AS float), 0.5F) AS pair, array(id % 2 = 0, true) AS flags, array(id / 3D, 1D) AS doubles,
    slice(sequence(id, id + 4), 1, cast(id % 5 AS int)) AS uneven,
    slice(array('a', 'b', concat('c', id)), 1, cast(id % 4 AS int)) AS words,
    array(date_add(date'2026-11-20', cast(id AS int))) AS days,
    if(id % 4 = 1, NULL, id / 3D) AS maybe,
    if(id % 6 = 5, NULL, named_struct(
        'age', cast(id AS int),
        'of', named_struct('city', concat('c', id % 3), 'scores', array(id, id + 1), 'seen', timestamp_micros(id))
    )) AS who
"""


class Column(NamedTuple):
    """What becomes of one column.

    Attributes:
        feature: As in `data.inputs`.
        spark: The SQL expression whose value Spark tells, by default the column itself.
        plain: That value -> the tensor's.
    """

    dtype: str
    shape: tuple[int, ...]
    feature: Any
    spark: str
    plain: Callable[[Any], Any] = lambda value: value


def of(dtype: str, name: str, plain: Callable[[Any], Any] = lambda value: value, spark: str = "") -> Column:
    """Returns a column of single values."""
    return Column(dtype, (), name, spark or name, plain)


def shaped(
    dtype: str, shape: tuple[int, ...], name: str, plain: Callable[[Any], Any] = list, **settings: Any
) -> Column:
    """Returns a column of several values in each row."""
    return Column(dtype, shape, {"columns": name, "shape": list(shape), **settings}, name, plain)


def rounded(dtype: str, name: str) -> Column:
    return Column(dtype, (), {"columns": name, "dtype": dtype}, name, np.dtype(dtype).type)


def padded(places: int, pad: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: values + [pad] * (places - len(values))


def encoded(text: str) -> bytes:
    return text.encode()


TABLE = {
    "flag": of("bool", "flag"),
    "i8": of("int8", "i8"),
    "i16": of("int16", "i16"),
    "i32": of("int32", "i32"),
    "i64": of("int64", "i64"),
    "f32": of("float32", "f32", np.float32),
    "f64": of("float32", "f64", np.float32),
    "double": rounded("float64", "f64"),
    "d9": rounded("float32", "d9"),
    "d18": rounded("float64", "d18"),
    "d38": rounded("float64", "d38"),
    "day": of("int32", "day", spark="unix_date(day)"),
    "at": of("int64", "at", spark="unix_micros(at)"),
    "wall": of("int64", "wall", spark="unix_micros(cast(wall AS timestamp))"),
    "lasting": of("int64", "lasting", lambda value: value // SECOND * 1_000_000),
    "months": of("int32", "months", spark="12 + cast(id AS int)"),
    "text": of("string", "text", encoded),
    "two": of("string", "two", encoded),
    "raw": of("string", "raw", bytes),
    "image": Column("uint8", (4,), {"columns": "image", "shape": [4], "dtype": "uint8"}, "image", list),
    "pair": shaped("float32", (2,), "pair"),
    "flags": shaped("bool", (2,), "flags"),
    "doubles": shaped("float32", (2,), "doubles", lambda values: np.float32(values).tolist()),
    "uneven": shaped("int64", (4,), "uneven", padded(4, -1), pad=-1),
    "cut": shaped("int64", (2,), "uneven", lambda values: padded(2, 0)(values[:2]), pad=0, truncate=True),
    "words": shaped("string", (3,), "words", lambda values: [w.encode() for w in padded(3, "")(values)], pad=""),
    "days": Column("int32", (1,), {"columns": "days", "shape": [1]}, "transform(days, d -> unix_date(d))", list),
    "maybe": Column("float32", (), {"columns": "maybe", "mask": "known"}, "coalesce(maybe, 0)", np.float32),
    "age": of("int32", "who.age", spark="coalesce(who.age, -1)"),
    "city": of("string", "who.of.city", encoded, spark="coalesce(who.of.city, '?')"),
    "scores": Column(
        "int64", (2,), {"columns": "who.of.scores", "shape": [2]}, "nvl(who.of.scores, array(7L, 7L))", list
    ),
    "seen": Column("int64", (), {"columns": "who.of.seen", "mask": "was_seen"}, "nvl(unix_micros(who.of.seen), 0)"),
}
MASKS = {"known": "maybe IS NOT NULL", "was_seen": "who IS NOT NULL"}
FILL = {"who.age": -1, "who.of.city": "?", "who.of.scores": 7}


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    changed = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.outputTimestampType": "INT96"}
    with settings(spark, changed):
        yield spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file with all columns, whose timestamps are written as the test's parameter says."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", request.param)
    spark.sql(f"SELECT {COLUMNS} FROM range(0, {ROWS}, 1, 1)").write.parquet(str(tmp_path / "lake"))
    return tmp_path / "lake"


@pytest.mark.parametrize("lake", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"], indirect=True)
def test_each_type_is_read_directly_as_spark_has_it(spark: SparkSession, lake: Path) -> None:
    inputs = {name: column.feature for name, column in TABLE.items()}
    plan = plan_lake(lake, inputs=inputs, targets={"y": "id"}, fill_null=FILL, shuffle=False)
    (batch,) = batches(plan, deal(plan)[0], rows=ROWS)
    check(plan.spec, batch, spark.read.parquet(str(lake)))


@pytest.mark.parametrize("lake", ["TIMESTAMP_MICROS"], indirect=True)
def test_a_plain_scan_of_each_type_is_read_directly(spark: SparkSession, lake: Path) -> None:
    # Files do not say which of Spark's bigints and ints are intervals, and which texts have a width.
    table = {name: column for name, column in TABLE.items() if name not in ("lasting", "months", "two")}
    frame = spark.read.parquet(str(lake)).drop("lasting", "months", "two")
    scan = plain_scan(frame.withColumnRenamed("who", "person"))
    assert isinstance(scan, ParquetScan), scan
    inputs = {name: renamed(column.feature) for name, column in table.items()}
    fill = {renamed(name): value for name, value in FILL.items()}
    config = lake_config(table="t", inputs=inputs, targets={"y": "id"}, fill_null=fill, shuffle=False)
    plan = plan_source(config, open_storage, no_filter, scan=scan)
    (batch,) = batches(plan, deal(plan)[0], rows=ROWS)
    check(plan.spec, batch, frame, table)


def renamed(feature: Any) -> Any:
    """Returns a feature over columns of `person` in place of `who`."""
    if isinstance(feature, dict):
        return {**feature, "columns": renamed(feature["columns"])}
    return feature.replace("who.", "person.")


@pytest.mark.parametrize("lake", ["INT96"], indirect=True)
def test_each_type_that_spark_feeds_is_as_spark_has_it(spark: SparkSession, lake: Path) -> None:
    frame = spark.read.parquet(str(lake))  # of whose columns one, months, has no type of Arrow's
    table = {name: column for name, column in TABLE.items() if name != "months"}
    inputs = {name: column.feature for name, column in table.items()}
    config = lake_config(table="t", inputs=inputs, targets={"y": "id"}, fill_null=FILL)
    data = SparkData(spark, config, frame)
    spec = data.plan(config).spec
    stream = data.stream(Stream.TRAIN, spec)
    assert isinstance(stream, FrameRows)
    fed = stream._frame.toArrow()
    columns = dict(zip(fed.column_names, fed.columns, strict=True))
    group = RowGroup("partition 0", int, columns, fed.num_rows, fill_null=spec.fill_null)
    tensors = {f.key: np.empty((ROWS, *f.shape), f.numpy_dtype) for f in spec.features if not f.is_text}
    check(spec, assemble(spec.features, [group], tensors), frame, table)


def check(spec: FeedSpec, batch: Columns, frame: DataFrame, table: Mapping[str, Column] = TABLE) -> None:
    """Compares all rows with what Spark says that they are."""
    expressions = [f"{column.spark} AS {name}" for name, column in table.items()]
    masks = [f"{expression} AS {name}" for name, expression in MASKS.items()]
    told = frame.orderBy("id").selectExpr(*expressions, *masks).collect()
    features = {feature.name: feature for feature in spec.inputs}
    for name, column in table.items():
        assert (features[name].dtype, features[name].shape) == (column.dtype, column.shape), name
        assert _plain(batch[f"input:{name}"]) == [column.plain(row[name]) for row in told], name
    for name in MASKS:
        assert _plain(batch[f"input:{name}"]) == [row[name] for row in told]
        assert {row[name] for row in told} == {True, False}


def _plain(tensor: Any) -> list[Any]:
    values: list[Any] = (tensor.to_numpy() if isinstance(tensor, Strings) else tensor).tolist()
    return values
