"""Rows of an RDD: what becomes of a value is between it and its declared type, whatever stands beside it."""

from __future__ import annotations

import datetime
import math
import numbers
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from fuzz.cases import cases
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from sparktf.errors import BadValueError
from sparktf.executor.rows import to_batches

WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
TIMES = (pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.duration("us"), pa.time64("us"))
KINDS = (
    *WHOLE,
    *TIMES,
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.decimal128(10, 2),
)
NOON = datetime.datetime(2020, 1, 1, 12)
NUMBERS = (
    st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**70), 1.0, 1.5, -0.0, 1e300, float("nan"), float("inf")])
    | st.sampled_from([True, False, np.True_, Decimal(1), Decimal("1.50"), Decimal("1.555"), Decimal("NaN")])
    | st.sampled_from([np.int8(1), np.int64(-1), np.uint64(2**64 - 1), np.float16(0.5), np.float32(3), np.float64(0.1)])
    | st.integers(-(2**64), 2**64)
    | st.floats()
)
OTHERS = st.sampled_from(
    [
        None,
        "",
        "1",
        "é",
        b"",
        b"1",
        np.str_("a"),
        np.bytes_(b"a"),
        datetime.date(2020, 1, 1),
        NOON,
        NOON.replace(tzinfo=datetime.UTC),
        datetime.time(12, 30),
        datetime.timedelta(seconds=1.5),
        np.datetime64("2020-01-01"),
        np.datetime64("2020-01-01T00:00:00", "us"),
        np.datetime64("NaT"),
        np.timedelta64(1, "s"),
        {"a": 1},
        object,
        1j,
    ]
)
FITTING: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **dict.fromkeys(WHOLE, st.integers(-128, 127) | st.booleans() | st.just(3.0)),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(min_value=datetime.datetime(1971, 1, 1))
    | st.datetimes(timezones=st.just(datetime.UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): st.timedeltas(),
    pa.time64("us"): st.times(),
    pa.float32(): st.floats(width=32) | st.integers(-100, 100),
    pa.float64(): st.floats() | st.integers(-100, 100),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.decimal128(10, 2): st.decimals(-100, 100, places=2),
}


class Column(NamedTuple):
    """A declared column, and the values that its rows have."""

    kind: pa.DataType
    values: list[Any]


def _struct(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Returns what a field "a" stands in: dicts with and without the others."""
    return st.fixed_dictionaries({"a": value}, optional={"b": st.just(1), "c": st.none()})


@st.composite
def columns(draw: DrawFn) -> Column:
    """Draws mostly values that fit, and some that do not."""
    leaf = draw(st.sampled_from(KINDS))
    good, odd = FITTING[leaf], NUMBERS | OTHERS
    kind = leaf
    form = draw(st.sampled_from(("one", "one", "list", "struct")))
    if form == "list":
        kind = pa.list_(leaf)
        good, odd = st.lists(good | st.none(), max_size=3), odd | st.lists(odd | good, max_size=3)
        odd |= st.sampled_from([np.array([1, 2]), np.array([0.5]), np.array([]), (1, 2), "ab", range(2), {1}])
    elif form == "struct":
        kind = pa.struct([("a", leaf), ("b", pa.int64())])
        good, odd = _struct(good), _struct(odd | good)
    values = st.lists(good | st.none(), max_size=4)
    mixed = st.lists(good | odd | st.none(), min_size=1, max_size=5)
    return Column(kind, draw(values | mixed))


def converted(rows: list[Any], kind: pa.DataType) -> pa.Array | str:
    """Returns the column that rows of one value become, or the reason why they are refused."""
    schema = pa.schema([("c", kind)])
    try:
        table = pa.Table.from_batches(to_batches([(row,) for row in rows], schema, ("c",), 3), schema)
    except BadValueError as error:
        return str(error)
    column = table.column("c").combine_chunks()
    column.validate(full=True)
    return column


@cases(columns(), weight=3)
def test_what_becomes_of_a_value_does_not_depend_on_those_beside_it(case: Column) -> None:
    alone = [converted([value], case.kind) for value in case.values]
    refused = [i for i, found in enumerate(alone) if isinstance(found, str)]
    together = converted(case.values, case.kind)
    if refused:
        assert isinstance(together, str), f"{case.values[refused[0]]!r} is refused only where it stands alone"
        assert together.startswith(f"partition 3 of the RDD, row {refused[0]}: column 'c"), together
        return
    wanted = pa.concat_arrays([pa.array([], case.kind), *alone])
    assert not isinstance(together, str), together
    assert same(together.to_pylist(), wanted.to_pylist())


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, NaN being NaN."""
    return repr(left) == repr(right)


@st.composite
def numbers_for(draw: DrawFn) -> Column:
    """Draws values for a column of whole numbers or of times."""
    kind = draw(st.sampled_from((*WHOLE, *TIMES)))
    return Column(kind, draw(st.lists(NUMBERS | OTHERS, min_size=1, max_size=3)))


@cases(numbers_for(), weight=2)
def test_whole_numbers_are_taken_whatever_their_type_and_others_refused(case: Column) -> None:
    found = converted(case.values, case.kind)
    if case.kind in WHOLE:
        wanted = [whole(value, case.kind) for value in case.values]
        if any(isinstance(value, str) for value in wanted):
            assert isinstance(found, str)
        else:
            assert not isinstance(found, str), found
            assert found.to_pylist() == wanted
    elif any(isinstance(value, (numbers.Number, str, bytes)) for value in case.values):
        assert isinstance(found, str)


def whole(value: Any, kind: pa.DataType) -> int | str | None:
    """Returns what a value is in a column of whole numbers; a text where it is refused."""
    if value is None:
        return None
    if isinstance(value, np.timedelta64) or not isinstance(value, (numbers.Real, Decimal, np.bool_)):
        return "no number"
    exact: Any = value
    if not math.isfinite(exact) or exact != int(exact):
        return "not whole"
    bits = kind.bit_width - 1
    return int(exact) if -(1 << bits) <= int(exact) < 1 << bits else "too large"
