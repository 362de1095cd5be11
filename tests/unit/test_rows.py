"""Rows of an RDD as record batches."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row

from sparktf.errors import BadValueError
from sparktf.executor.row_values import UNFIT, to_array
from sparktf.executor.rows import to_batches, to_tuples

NAMES = ("id", "name", "x")
SCHEMA = pa.schema([("x", pa.float32()), ("id", pa.int64())])
MANY = 10_000


def table(rows: Iterable[Any]) -> pa.Table:
    return pa.Table.from_batches(to_batches(rows, SCHEMA, NAMES, 3), SCHEMA)


@pytest.mark.parametrize(
    "row",
    [
        lambda i: {"id": i, "name": "n", "x": i / 2, "more": None},
        lambda i: (i, "n", i / 2),
        lambda i: [i, "n", i / 2],
        lambda i: Row(x=i / 2, name="n", id=i),
    ],
    ids=["dicts", "tuples", "lists", "Rows, whose fields stand in another order"],
)
def test_all_rows_come_with_the_fields_that_are_asked_for(row: Any) -> None:
    found = table(row(i) for i in range(MANY))
    assert found.equals(pa.table({"x": pa.array([i / 2 for i in range(MANY)], pa.float32()), "id": range(MANY)}))


def test_what_a_dict_lacks_is_null() -> None:
    assert table([{"id": 1, "x": 1.0}, {"id": 2}]).column("x").to_pylist() == [1.0, None]


def test_no_rows_make_no_batches() -> None:
    assert list(to_batches([], SCHEMA, NAMES, 3)) == []


def good_but(number: int, bad: Any) -> list[Any]:
    return [(i, "n", 0.5) if i != number else bad for i in range(6_000)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            good_but(5_000, (5_000, "n", "much")),
            r"partition 3 of the RDD, row 5000: column 'x': 'much' is not a value of",
        ),
        (good_but(4_097, (1, "n")), r"partition 3 of the RDD, row 4097: the tuple has 2 values for 3 fields"),
        ([{"id": 1, "x": 0.5}, (2, "n", 0.5)], r"row 1: a tuple, but the first row is a dict"),
        ([Row(id=1, x=0.5), {"id": 2, "x": 0.5}], r"row 1: a dict, but the first row is a Row"),
        ([(1, "n", 0.5), Row(x=0.5, id=2, name="n")], r"row 1: a Row, but the first row is a tuple"),
        ([1, 2], r"partition 3 of the RDD, row 0: the row is of type int, not a dict, Row or tuple"),
        ([Row(id=1)], r"partition 3 of the RDD, row 0: the Row has no field 'x'"),
        ([(2**70, "n", 0.5)], r"row 0: column 'id': 1180591620717411303424 is not a value of type int64"),
        ([(1, "n", 0.5), (1.5, "n", 0.5)], r"row 1: column 'id': 1\.5 is not a value of type int64"),
        ([(Decimal("1.5"), "n", 0.5)], r"row 0: column 'id': Decimal\('1\.5'\) is not a value of type int64"),
        (
            [(np.arange(9_000).reshape(3, -1), "n", 0.5)],
            r"row 0: column 'id': array\(.{0,60} is not a value of type int64$",
        ),
    ],
    ids=[
        "a wrong type",
        "too short",
        "another kind",
        "a dict among Rows",
        "a Row among tuples",
        "no row at all",
        "a field is missing",
        "too large",
        "no whole number",
        "no whole decimal",
        "of many lines",
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_place(rows: list[Any], says: str) -> None:
    with pytest.raises(BadValueError, match=says):
        table(rows)


def test_rows_whose_fields_come_in_changing_orders_are_read_by_name() -> None:
    rows = [Row(id=1, name="n", x=0.5), Row(x=1.5, id=2, name="n"), Row("name", "x", "id")("n", 2.5, 3)]
    assert table(rows).to_pylist() == [{"x": 0.5, "id": 1}, {"x": 1.5, "id": 2}, {"x": 2.5, "id": 3}]


def test_whole_numbers_may_be_floats() -> None:
    assert table([(np.float64(3), "n", 0.5)]).column("id").to_pylist() == [3]


# --- other types ---


def column(kind: pa.DataType, values: Iterable[Any]) -> pa.Table:
    schema = pa.schema([("c", kind)])
    return pa.Table.from_batches(to_batches(((value,) for value in values), schema, ("c",), 3), schema)


@pytest.mark.parametrize(
    "who",
    [
        Row(tall=1.5, old=Row(years=7, at="home")),
        Row(old={"at": "home", "years": 7}, tall=1.5),
        {"tall": 1.5, "old": ("home", 7), "more": 1},
        (("home", 7), 1.5),
    ],
    ids=["Rows", "dicts in Rows", "tuples in dicts", "tuples"],
)
def test_structs_are_read_by_name_too(who: Any) -> None:
    kind = pa.struct([("old", pa.struct([("at", pa.string()), ("years", pa.int32())])), ("tall", pa.float32())])
    told = {"old": {"at": "home", "years": 7}, "tall": 1.5}
    assert column(kind, [None, who, None, who]).column("c").to_pylist() == [None, told, None, told]
    assert column(kind, [None]).column("c").to_pylist() == [None]


@pytest.mark.parametrize(
    ("who", "says"),
    [
        (Row(age="old", name="n"), r"row 1: column 'c\.age': 'old' is not a value of type int64"),
        (Row(aeg=1, name="n"), r"row 1: column 'c': the Row has no field 'age'"),
        ((1,), r"row 1: column 'c': the tuple has 1 values for 2 fields"),
        (7, r"row 1: column 'c': the row is of type int"),
        ((7, "n"), r"row 1: column 'c': a tuple, but other values are Row$"),
        ({"age": 7, "name": "n"}, r"row 1: column 'c': a dict, but other values are Row$"),
    ],
)
def test_a_struct_that_does_not_fit_is_refused_with_its_field(who: Any, says: str) -> None:
    kind = pa.struct([("age", pa.int64()), ("name", pa.string())])
    with pytest.raises(BadValueError, match=says):
        column(kind, [Row(age=1, name="n"), who])


def test_structs_of_several_kinds_are_refused_with_the_field_that_holds_them() -> None:
    inner = pa.struct([("at", pa.string()), ("years", pa.int32())])
    whole = pa.struct([("old", inner), ("tall", pa.float32())])
    rows = [Row(old=None, tall=1.5), Row(old=Row(years=7, at="home"), tall=1.5), Row(old=("home", 7), tall=1.5)]
    with pytest.raises(BadValueError, match=r"row 2: column 'c\.old': a tuple, but other values are Row$"):
        column(whole, rows)
    with pytest.raises(BadValueError, match=r"row 2: column 'c': \[\('home', 7\)\] is of another type than"):
        column(pa.list_(inner), [None, [Row(years=7, at="home")], [("home", 7)]])


def test_structs_within_lists_and_maps_are_read_by_name_too() -> None:
    kind = pa.struct([("at", pa.string()), ("years", pa.int32())])
    who, told = Row(years=7, at="home"), {"at": "home", "years": 7}
    assert column(pa.list_(kind), [[who, None], None, []]).column("c").to_pylist() == [[told, None], None, []]
    found = column(pa.map_(pa.string(), kind), [{"a": who}, None, {}]).column("c")
    assert found.to_pylist() == [[("a", told)], None, []]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.int32()), [1.5]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1.5}),
        (pa.map_(pa.string(), pa.timestamp("us")), {"a": 5}),
        (pa.map_(pa.int32(), pa.string()), {1.5: "a"}),
        (pa.map_(pa.string(), pa.string()), {None: "a"}),
        (pa.list_(pa.struct([("a", pa.int32())])), [(1.5,)]),
        (pa.list_(pa.timestamp("us")), np.array(["2020-01-01"], "datetime64[D]")),
        (pa.list_(pa.duration("us")), np.array([5], "timedelta64[s]")),
        (pa.list_(pa.date32()), np.array([True])),
        (pa.list_(pa.float32()), bytearray(b"ab")),
        (pa.int32(), np.timedelta64(5, "us")),
        (pa.int32(), np.float16(0.5)),
        (pa.date32(), pd.NaT),
        (pa.list_(pa.int32()), np.array([1.5])),
        (pa.list_(pa.string()), "letters"),
        (pa.date32(), 5),
        (pa.timestamp("us", "UTC"), 1.5),
    ],
)
def test_values_that_arrow_would_bend_are_refused(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(BadValueError, match=r"row 0: column 'c': .* is not a value of type "):
        column(kind, [value])


def test_arrays_and_whole_floats_in_lists_are_taken() -> None:
    values = [np.array([1.0, 2.0]), [3.0], (4, 5), [], None]
    assert column(pa.list_(pa.int32()), values).column("c").to_pylist() == [[1, 2], [3], [4, 5], [], None]


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


@pytest.mark.parametrize("more", [[], [None], [5.0], [np.int16(5)]], ids=["plain", "null", "float", "numpy"])
@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers_are_the_same_whatever_is_among_them(kind: pa.DataType, more: list[Any]) -> None:
    numbers = [0, 1, -1, 2 ** (kind.bit_width - 1) - 1, -(2 ** (kind.bit_width - 1)), True, *more]
    assert column(kind, numbers).column("c").to_pylist() == numbers
    lists = [numbers, [], [3], [False]]
    assert column(pa.list_(kind), lists).column("c").to_pylist() == lists
    nested = [[[1, 2], []], []]
    assert column(pa.list_(pa.list_(kind)), nested).column("c").to_pylist() == nested


@pytest.mark.parametrize("value", [1.5, "1", 2**63, -(2**63) - 1, [1]], ids=repr)
@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_what_is_no_integer_is_refused_in_every_width(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(BadValueError, match=rf"row 1: column 'c': .* is not a value of type {kind}"):
        column(kind, [7, value])
    with pytest.raises(BadValueError, match=rf"row 1: column 'c': .* is not a value of type list<item: {kind}>"):
        column(pa.list_(kind), [[7], [7, value]])


# --- whatever else is in a column ---

AT = datetime(2020, 1, 1)
VALUES: dict[str, Any] = {
    "None": None,
    "bool": True,
    "np.bool": np.bool_(True),
    "int": 5,
    "huge int": 2**70,
    "np.int64": np.int64(5),
    "np.uint64": np.uint64(2**63),
    "float": 5.0,
    "half": 1.5,
    "nan": float("nan"),
    "np.float16": np.float16(0.5),
    "np.float64": np.float64(5),
    "Decimal": Decimal(5),
    "Decimal nan": Decimal("NaN"),
    "Fraction": Fraction(4, 2),
    "complex": 1j,
    "str": "5",
    "bytes": b"5",
    "no UTF-8": b"\xff",
    "date": AT.date(),
    "datetime": AT,
    "zoned": AT.replace(tzinfo=UTC),
    "time": clock(1, 2),
    "timedelta": timedelta(1),
    "datetime64": np.datetime64(AT, "us"),
    "datetime64[D]": np.datetime64("2020-01-01"),
    "no datetime64": np.datetime64("NaT"),
    "timedelta64": np.timedelta64(5, "us"),
    "no timedelta64": np.timedelta64("NaT", "us"),
    "NaT": pd.NaT,
    "Timestamp": pd.Timestamp(AT),
    "Timedelta": pd.Timedelta(5, "s"),
    "list": [1],
    "dict": {"a": 1},
    "array": np.array([1]),
    "array()": np.array(5),
    "scalar": pa.scalar(5),
}
KINDS = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
    pa.duration("us"),
    pa.time64("us"),
]


def taken(kind: pa.DataType, values: list[Any]) -> list[str] | None:
    """Returns what becomes of values; None where they are refused."""
    try:
        return [repr(value) for value in to_array(values, kind).to_pylist()]
    except UNFIT:
        return None


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value]], ids=["alone", "in lists"])
def test_what_becomes_of_a_value_does_not_depend_on_the_others(wrap: Any) -> None:
    assert list(differences(wrap)) == []


def differences(wrap: Any) -> Iterator[str]:
    values = {name: wrap(value) for name, value in VALUES.items()}
    for kind in KINDS if wrap(0) == 0 else map(pa.list_, KINDS):
        alone = {name: taken(kind, [value]) for name, value in values.items()}
        for one, other in itertools.permutations(values, 2):
            first, second = alone[one], alone[other]
            told = None if first is None or second is None else first + second
            if taken(kind, [values[one], values[other]]) != told:
                yield f"{kind}: {one} beside {other}"


@pytest.mark.parametrize(
    ("kind", "accepted"),
    [
        (pa.date32(), {"date", "datetime", "zoned", "Timestamp"}),
        (pa.timestamp("us", "UTC"), {"datetime", "zoned"}),
        (pa.timestamp("us"), {"datetime", "zoned", "Timestamp", "datetime64"}),
        (pa.duration("us"), {"timedelta", "Timedelta", "timedelta64", "no timedelta64"}),
        (pa.time64("us"), {"time"}),
        (
            pa.int64(),
            {"bool", "np.bool", "int", "np.int64", "float", "np.float64", "Decimal", "Fraction", "array()", "scalar"},
        ),
    ],
    ids=str,
)
def test_a_type_takes_these_values_and_no_others(kind: pa.DataType, accepted: set[str]) -> None:
    assert {name for name, value in VALUES.items() if taken(kind, [value])} == accepted | {"None"}


def test_a_number_among_times_is_refused_with_its_place() -> None:
    at = AT.replace(tzinfo=UTC)
    with pytest.raises(BadValueError, match=r"row 1: column 'c': 1600000000 is not a value of type timestamp"):
        column(pa.timestamp("us", "UTC"), [at, 1_600_000_000])
    with pytest.raises(BadValueError, match=r"row 2: column 'c': \[.*\] is not a value of type list<item: date32"):
        column(pa.list_(pa.date32()), [None, [date(2020, 1, 1)], [date(2020, 1, 1), 5]])


def test_batches_are_of_a_bounded_size() -> None:
    schema = pa.schema([("c", pa.binary())])
    rows = ((b"." * 100_000,) for _ in range(600))
    batches = list(to_batches(rows, schema, ("c",), 3))
    assert sum(batch.num_rows for batch in batches) == 600
    assert max(batch.nbytes for batch in batches) < 32 << 20
    small = list(to_batches(((i % 100,) for i in range(100_000)), pa.schema([("c", pa.int8())]), ("c",), 3))
    assert [len(batch) for batch in small[:2]] == [16384, 16384]
    assert sum(map(len, small)) == 100_000


def test_times_without_a_zone_are_local_as_in_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        naive = datetime(2026, 11, 21, 9, 30)
        zoned = naive.replace(tzinfo=UTC)
        found = column(pa.timestamp("us", "America/New_York"), [naive, zoned, None])
        listed = column(pa.list_(pa.timestamp("us", "UTC")), [[naive, None]])
    finally:
        monkeypatch.undo()
        time.tzset()
    hour = 3_600_000_000
    assert found.column("c").cast(pa.int64()).to_pylist() == [
        (at := int(zoned.timestamp()) * 10**6) - 9 * hour,
        at,
        None,
    ]
    assert listed.column("c").to_pylist() == [[zoned.replace(hour=0), None]]
    # Where the column has no zone, the hands of the clock count.
    assert column(pa.timestamp("us"), [naive]).column("c").to_pylist() == [naive]


def test_rows_for_spark_are_tuples_in_the_schemas_order() -> None:
    schema = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int32())), ("x", pa.list_(pa.float32()))])
    rows = [Row(x=np.array([1, 2]), id=7, m={"a": 1}), Row(m=None, id=8.0, x=[])]
    assert list(to_tuples(rows, schema, 3)) == [(7, {"a": 1}, [1.0, 2.0]), (8, None, [])]
