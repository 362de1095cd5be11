"""Values that a conversion could change, and what stands in place of those that are not there."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import array, batches, deal, plan_lake, write_file

from sparktf.errors import BadValueError, ConfigError
from sparktf.feature import TEXT, Feature, FeedLimits, Kind
from sparktf.feed.arrays.columns import Columns, Strings
from sparktf.feed.arrays.convert import assemble
from sparktf.feed.arrays.decimals import decimal_floats
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.arrays.values import far_reason, numbers, too_far
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.selection import selected_rows
from sparktf.feed.pipeline import NodeFeed
from sparktf.predicate import Condition, Op
from sparktf.storage.file_systems import open_storage

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def made(folder: Path, columns: list[pa.Array], feature: Any = "c", **data: Any) -> list[Any]:
    """Returns the input x of a column c, of which each array lies in a file of its own; the first one's type counts."""
    for i, column in enumerate(columns):
        write_file(folder / "c" / f"{i}.parquet", pa.table({"c": column, "y": [0.0] * len(column)}))
    plan = plan_lake(folder / "c", inputs={"x": feature}, targets={"y": "y"}, shuffle=False, **data)
    (batch,) = batches(plan, deal(plan)[0], rows=100)
    found = batch["input:x"]
    return list(found.to_numpy().tolist() if isinstance(found, Strings) else array(batch, "input:x").tolist())


# --- decimals ---


def nearest_single(value: Decimal) -> float:
    """Returns the float32 that is nearest to a decimal; of two, the even one."""
    near = np.float32(float(value))
    around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    exact = Fraction(value)
    return float(min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.int32)) & 1)))


def unscaled(precision: int, scale: int, rng: random.Random) -> Iterator[int]:
    """Yields whole numbers of any size, and such that stand about in the middle between two floats."""
    for bits, _ in [(None, i) for i in range(60)] + [(24, i) for i in range(30)] + [(53, i) for i in range(30)]:
        if bits is None:
            yield rng.randrange(10 ** rng.randrange(1, precision + 1))
        else:
            middle = Fraction(2 * rng.randrange(2 ** (bits - 1), 2**bits) + 1) * Fraction(2) ** rng.randrange(-110, 60)
            yield (int(middle * 10**scale) + rng.choice([0, 0, 1])) % 10**precision
    yield from (0, 10**precision - 1, 2**53 % 10**precision, (2**53 + 1) % 10**precision, (2**63) % 10**precision)


@pytest.mark.parametrize("precision", [1, 7, 15, 16, 18, 19, 22, 23, 28, 37, 38])
def test_decimals_become_the_nearest_floats(precision: int) -> None:
    rng = random.Random(precision)
    for scale in {0, 1, 2, precision // 2, precision} & set(range(precision + 1)):
        values = [Decimal(f"{rng.choice('+-')}{whole}e-{scale}") for whole in unscaled(precision, scale, rng)]
        column = pa.array(values, pa.decimal128(precision, scale)).slice(3)
        assert decimal_floats(column, DOUBLE).tolist() == [float(value) for value in values[3:]]
        singles = decimal_floats(column, SINGLE).astype(np.float32)
        assert singles.tolist() == [nearest_single(value) for value in values[3:]]


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(15, 2), pa.decimal256(50, 2)], ids=str)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_decimals_of_every_width(kind: pa.DataType, dtype: np.dtype[Any]) -> None:
    values = [Decimal("0.29"), Decimal("-1.10"), Decimal(0)]
    found = decimal_floats(pa.array(values, kind), dtype).astype(dtype)
    assert found.tolist() == np.array([float(value) for value in values], dtype).tolist()
    assert not len(decimal_floats(pa.array([], kind), dtype))


def test_one_column_of_decimals_in_both_floats(tmp_path: Path) -> None:
    # In the middle between two of float32, but for the last digit: rounded twice, it would be 1.
    value = Decimal("1.000000059604644775390625001")
    write_file(tmp_path / "f.parquet", pa.table({"c": pa.array([value]), "y": [0.0]}))
    inputs = {dtype: {"columns": "c", "dtype": dtype} for dtype in ("float64", "float32")}
    plan = plan_lake(tmp_path, inputs=inputs, targets={"y": "y"})
    (batch,) = batches(plan, deal(plan)[0])
    assert array(batch, "input:float64").tolist() == [float(value)]
    assert array(batch, "input:float32").tolist() == [float(np.nextafter(np.float32(1), np.float32(2)))]


# --- times ---

LAST_MS = (2**63 - 1) // 1000


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("ms", "UTC")], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_times_that_microseconds_cannot_count_are_refused(tmp_path: Path, kind: pa.DataType, sign: int) -> None:
    last = sign * LAST_MS
    fitting = pa.array([0, last], pa.int64()).cast(kind)
    assert made(tmp_path / "fits", [fitting]) == [0, last * 1000]
    column = pa.array([0, None, last, last + sign], pa.int64()).cast(kind)
    feature = {"columns": "c", "shape": [1]}
    for taken, as_feature in ((column, "c"), (as_lists(column), feature)):
        message = rf"0\.parquet: column 'c', row 3: {last + sign} milliseconds.* do not fit into 64 bits"
        with pytest.raises(BadValueError, match=message):
            made(tmp_path, [taken], as_feature, fill_null={"c": fill_of(kind)})


def test_times_that_cannot_be_counted_are_left_out(tmp_path: Path) -> None:
    column = pa.array([5, LAST_MS + 1, 7], pa.int64()).cast(pa.timestamp("ms"))
    write_file(tmp_path / "f.parquet", pa.table({"c": column, "y": [0.0] * 3}))
    plan = plan_lake(tmp_path, inputs={"x": "c"}, targets={"y": "y"}, shuffle=False)
    parts = PlannedParts(plan.spec, deal(plan)[0], open_storage, sets_aside=True)
    with NodeFeed(plan.spec, parts, limits=FeedLimits(max_bad_rows=1)) as feed:
        assert array(feed.next_rows(3), "input:x").tolist() == [5_000, 7_000]


@pytest.mark.parametrize(("unit", "last"), [("ms", LAST_MS), ("s", LAST_MS // 1000)])
def test_intervals_that_microseconds_cannot_count_are_told(unit: str, last: int) -> None:
    column = pa.array([0, None, last, last + 1, -last - 1], pa.int64()).cast(pa.duration(unit))
    far = too_far(column)
    assert far is not None
    assert far.tolist() == [False, False, False, True, True]
    assert far_reason(column, 3).startswith(f"{last + 1} ")


def test_nanoseconds_are_rounded_down_as_spark_does() -> None:
    column = pa.array([-1, -1000, -1001, 0, 999, 1001, -(2**63)], pa.int64())
    expected = [-1, -1, -2, 0, 0, 1, -9_223_372_036_854_776]
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")):
        assert numbers(column.cast(kind), np.dtype("int64")).tolist() == expected


def test_nanoseconds_beside_nulls_and_in_filters_are_rounded_down_too(tmp_path: Path) -> None:
    column = pa.array([-1, None, 1999], pa.int64()).cast(pa.timestamp("ns"))
    assert made(tmp_path, [column], fill_null={"c": "1970-01-01T00:00:00"}) == [-1, 0, 1]
    before_1970 = Condition(column="c", op=Op.LT, values=(0,))
    assert selected_rows(pa.table({"c": column}), [before_1970]).tolist() == [0]


def as_lists(column: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(column) + 1), pa.int32()), column)


def fill_of(kind: pa.DataType) -> Any:
    """Returns 1970 as a configuration writes it."""
    return f"1970-01-01T00:00:00{'Z' if kind.tz else ''}"


def test_dates_beyond_32_bits_are_refused() -> None:
    column = pa.array([0, 2**31 * 86_400_000], pa.int64()).cast(pa.date64())
    with pytest.raises(BadValueError, match=r"f: column 'c', row 1: 185542587187200000 milliseconds since 1970 do"):
        handed_in(column, "int32")


def handed_in(column: pa.Array, dtype: str) -> Columns:
    """Returns the tensor of a column that no file holds."""
    feature = Feature(kind=Kind.INPUT, name="x", columns=("c",), dtype=dtype)
    rows = len(column)
    group = RowGroup(origin="f", number=lambda row: row, columns={"c": pa.chunked_array([column])}, rows=rows)
    return assemble([feature], [group], {} if dtype == TEXT else {feature.key: np.empty(rows, dtype)})


# --- what stands in place of null ---

AT = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
AT_US = int(AT.timestamp()) * 10**6


@pytest.mark.parametrize(
    ("first", "other", "fill", "expected"),
    [
        (pa.array([1], pa.int16()), pa.array([7, None], pa.uint8()), -5, [1, 7, -5]),
        (pa.array([1], pa.uint8()), pa.array([7, None], pa.int16()), 300, [1, 7, 300]),
        (pa.array([1], pa.int64()), pa.array([7, None], pa.uint32()), -1, [1, 7, -1]),
        (pa.array([1], pa.float32()), pa.array([7, None], pa.float16()), 1e6, [1.0, 7.0, 1e6]),
        (pa.array([b"a"]), pa.array([b"bc", None], pa.binary(2)), "long", [b"a", b"bc", b"long"]),
        (
            pa.array([AT], pa.timestamp("us", "UTC")),
            pa.array([AT, None], pa.timestamp("ms", "UTC")),
            "2020-01-01T00:00:00.000001Z",
            [AT_US, AT_US, AT_US + 1],
        ),
        (
            pa.array([datetime.time(1)], pa.time64("us")),
            pa.array([datetime.time(2), None], pa.time32("ms")),
            "00:00:00.000001",
            [3600 * 10**6, 7200 * 10**6, 1],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_fill_value_fits_every_file_of_the_column(
    tmp_path: Path, first: pa.Array, other: pa.Array, fill: Any, expected: list[Any]
) -> None:
    assert made(tmp_path, [first, other], fill_null={"c": fill}) == expected


def test_unsigned_64_bit_numbers_are_filled(tmp_path: Path) -> None:
    column = pa.array([2**63, None], pa.uint64())
    found = made(tmp_path, [column], {"columns": "c", "dtype": "float64"}, fill_null={"c": -1})
    assert found == [2.0**63, -1.0]


def test_a_fill_value_that_a_later_file_cannot_take_is_told_with_file_and_column(tmp_path: Path) -> None:
    columns = [pa.array([AT], pa.timestamp("us", "UTC")), pa.array([None], pa.timestamp("us"))]
    with pytest.raises(
        BadValueError, match=r"1\.parquet: column 'c': data\.fill_null\.c: '2020-01-01T00:00:00Z' is no"
    ):
        made(tmp_path, columns, fill_null={"c": "2020-01-01T00:00:00Z"})


@pytest.mark.parametrize(
    ("column", "feature", "fill"),
    [
        (pa.array([None], pa.time64("us")), "c", "noon"),
        (pa.array([None], pa.time64("us")), "c", 5),
        (pa.array([None], pa.duration("us")), "c", 1.5),
        (pa.array([None], pa.int64()), "c", 1 << 70),
        (pa.array([None], pa.decimal128(5, 2)), {"columns": "c", "dtype": "float32"}, float("nan")),
        (pa.array([None], pa.decimal128(5, 2)), {"columns": "c", "dtype": "float32"}, 0.001),
        (pa.array([None], pa.binary()), {"columns": "c", "dtype": "uint8", "shape": [2]}, "ab"),
        (pa.array([None], pa.binary()), {"columns": "c", "dtype": "uint8", "shape": [2]}, 256),
    ],
    ids=str,
)
def test_a_fill_value_that_does_not_fit_is_refused_beforehand(
    tmp_path: Path, column: pa.Array, feature: Any, fill: Any
) -> None:
    with pytest.raises(ConfigError, match=r"data\.fill_null\.c: .* is not a "):
        made(tmp_path, [column], feature, fill_null={"c": fill})


def test_null_bytes_are_filled_with_a_byte(tmp_path: Path) -> None:
    feature = {"columns": "c", "dtype": "uint8", "shape": [2]}
    for kind in (pa.binary(), pa.large_binary(), pa.binary(2)):
        assert made(tmp_path, [pa.array([b"ab", None], kind)], feature, fill_null={"c": 7}) == [[97, 98], [7, 7]]


def test_bytes_of_a_fixed_size_are_masked_and_padded_like_others(tmp_path: Path) -> None:
    column = pa.array([b"ab", None], pa.binary(2))
    assert made(tmp_path / "mask", [column], {"columns": "c", "mask": "there"}) == [b"ab", b""]
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), column)
    padded = {"columns": "c", "shape": [3], "pad": "none"}
    assert made(tmp_path / "pad", [lists], padded, fill_null={"c": "x"}) == [[b"ab", b"x", b"none"], [b"none"] * 3]
    sized = pa.array([[b"ab", b"cd"], None], pa.list_(pa.binary(2), 2))
    assert made(tmp_path / "sized", [sized], fill_null={"c": "x"}) == [[b"ab", b"cd"], [b"x", b"x"]]


@pytest.mark.parametrize(("pad", "dtype"), [(10**400, "float32"), (10**400, "int64"), (2**64, "uint64")], ids=str)
def test_a_pad_beyond_its_dtype_is_refused_beforehand(tmp_path: Path, pad: int, dtype: str) -> None:
    with pytest.raises(ConfigError, match=r"data\.inputs\.x\.pad: 1\d+ is not a value of dtype"):
        made(tmp_path, [pa.array([[1]])], {"columns": "c", "shape": [2], "pad": pad, "dtype": dtype})


@pytest.mark.parametrize(("pad", "dtype"), [(2**70, "float32"), (2**63, "uint64"), (2**53 + 2, "float64")], ids=str)
def test_a_large_pad(tmp_path: Path, pad: int, dtype: str) -> None:
    feature = {"columns": "c", "shape": [2], "pad": pad, "dtype": dtype}
    assert made(tmp_path, [pa.array([[1]])], feature) == [[1, pad]]


def test_what_arrow_cannot_do_is_told_as_data() -> None:
    with pytest.raises(BadValueError, match=r"^f: column 'c': the tensor input:x cannot be made: .*struct<a: int64>"):
        handed_in(pa.array([{"a": 1}]), TEXT)


def test_a_label_that_is_null_is_left_out_not_made_up(tmp_path: Path) -> None:
    write_file(tmp_path / "f.parquet", pa.table({"c": [1.0, 2.0], "y": pa.array([0.0, None])}))
    plan = plan_lake(tmp_path, inputs={"x": "c"}, targets={"y": "y"})
    with pytest.raises(BadValueError) as caught:
        batches(plan, deal(plan)[0])
    assert "column 'y', row 1: null; leave such rows out by data.where: y IS NOT NULL" in str(caught.value)
    assert "data.max_bad_rows" in str(caught.value)
    assert "fill_null" not in str(caught.value)
