"""Rows of guests on their way to a function, and results on their way back: equal in type and value."""

from __future__ import annotations

import array
import datetime
import enum
import math
import struct
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy
from pyspark.ml.linalg import DenseMatrix, DenseVector, SparseVector, Vectors
from pyspark.mllib.linalg import Vectors as OldVectors
from pyspark.sql import Row

from sparktf.feed.channel.any_rows import (
    MOST_BATCH_NBYTES,
    UnfitRowsError,
    batch_to_rows,
    estimated_nbytes,
    rows_to_batch,
    rows_together,
)
from sparktf.feed.channel.any_values import pack_value, unpack_value
from sparktf.feed.channel.guest_feed import unwrapped, wrapped

Point = namedtuple("Point", ("x", "y"))
NOON = datetime.datetime(2020, 1, 1, 12)


def same(found: Any, expected: Any) -> bool:
    """Whether two values are equal, in type too, and so in all that they contain."""
    if isinstance(expected, Point):
        return (
            type(found).__name__ == "Point" and found._fields == expected._fields and same(tuple(found), (*expected,))
        )
    if type(found) is not type(expected):
        return False
    kind = next((kind for kind in SAME if isinstance(expected, kind)), None)
    return bool(found == expected if kind is None else SAME[kind](found, expected))


def bits(value: float) -> Any:
    return "no number" if math.isnan(value) else struct.pack("d", value)


def fields(row: Row) -> Any:
    return getattr(row, "__fields__", None)


SAME: dict[type, Callable[[Any, Any], bool]] = {
    float: lambda found, expected: bits(found) == bits(expected),
    np.ndarray: lambda found, expected: same([dtyped(found), items(found)], [dtyped(expected), items(expected)]),
    # Of these, one that is no number equals no other.
    **dict.fromkeys((np.generic, complex, Decimal), lambda found, expected: repr(found) == repr(expected)),
    **dict.fromkeys(
        (set, frozenset), lambda found, expected: sorted(map(typed, found)) == sorted(map(typed, expected))
    ),
    dict: lambda found, expected: same(list(found.items()), list(expected.items())),
    Row: lambda found, expected: fields(found) == fields(expected) and same(tuple(found), tuple(expected)),
    **dict.fromkeys(
        (list, tuple), lambda found, expected: len(found) == len(expected) and all(map(same, found, expected))
    ),
    **dict.fromkeys(
        (DenseVector, SparseVector, DenseMatrix), lambda found, expected: same(found.__dict__, expected.__dict__)
    ),
    **dict.fromkeys(
        (datetime.datetime, datetime.time),
        lambda found, expected: found == expected and found.fold == expected.fold and found.tzinfo == expected.tzinfo,
    ),
}
"""How two values of one type are compared, where `==` is not enough."""


def typed(value: Any) -> str:
    return f"{type(value)} {value!r}"


def dtyped(value: np.ndarray[Any, Any]) -> tuple[str, str, tuple[int, ...], bool]:
    return value.dtype.str, value.dtype.char, value.shape, value.flags.writeable


def items(value: np.ndarray[Any, Any]) -> Any:
    return value.reshape(-1).tolist() if value.dtype.hasobject else value.tobytes()


zones = st.none() | st.timezones() | st.just(datetime.timezone(datetime.timedelta(hours=1), "there"))
folds = st.integers(0, 1)
dtypes: st.SearchStrategy[np.dtype[Any]] = (
    of_numpy.scalar_dtypes()
    | of_numpy.byte_string_dtypes(min_len=1)
    | of_numpy.unicode_string_dtypes(min_len=1)
    | st.sampled_from([np.dtype("q"), np.dtype("Q"), np.dtype("g")])
)
arrays = dtypes.flatmap(lambda dtype: of_numpy.arrays(dtype, of_numpy.array_shapes(min_dims=0, min_side=0, max_side=3)))
scalars = dtypes.flatmap(of_numpy.from_dtype)
doubles = of_numpy.arrays(np.float64, st.integers(0, 4))
plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**62, 2**66)
    | st.floats()
    | st.text()
    | st.just("half of a pair: \ud800")
    | st.binary()
)
keys = (
    plain
    | st.complex_numbers()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.uuids()
    | st.dates()
    | st.timedeltas()
    | st.builds(lambda time, fold: time.replace(fold=fold), st.datetimes(timezones=zones), folds)
    | st.builds(lambda time, fold: time.replace(fold=fold), st.times(timezones=zones), folds)
    | zones
    | scalars.map(lambda value: value if isinstance(value, np.generic) else None)
)
leaves = (
    keys
    | st.binary().map(bytearray)
    | st.lists(st.integers(-9, 9)).map(lambda numbers: array.array("h", numbers))
    | st.sampled_from([Decimal("NaN"), Decimal("-sNaN12"), Decimal("Infinity")])
    | arrays
    | doubles.map(DenseVector)
    | doubles.map(lambda values: SparseVector(9, range(len(values)), values))
)


def within(inner: Any) -> Any:
    """Returns values that contain others."""
    lists = st.lists(inner, max_size=4)
    return (
        lists
        | lists.map(tuple)
        | st.tuples(inner, inner).map(lambda pair: Point(*pair))
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
        | st.sets(keys, max_size=4)
        | st.frozensets(keys | st.tuples(keys), max_size=4)
        | st.lists(inner, min_size=1, max_size=3).map(lambda values: Row(**{f"c{i}": v for i, v in enumerate(values)}))
        | st.lists(inner, max_size=3).map(lambda values: Row(*values))
    )


anything = st.recursive(leaves, within, max_leaves=8)


def there_and_back(rows: list[Any]) -> list[Any]:
    return batch_to_rows(unwrapped(wrapped(rows_to_batch(rows))))


@given(st.lists(anything, min_size=1, max_size=6))
def test_rows_of_any_values_come_as_they_were(rows: list[Any]) -> None:
    assert same(there_and_back(rows), rows)


numbers = st.integers(-(2**63), 2**63 - 1)
alike = st.sampled_from(
    [
        numbers,
        st.floats(),
        st.text(),
        st.binary(),
        st.booleans(),
        st.binary().map(bytearray),
        st.lists(numbers),
        st.lists(numbers | st.none()),
        st.lists(st.floats(), min_size=70, max_size=80),
        st.lists(numbers).map(tuple),
        st.tuples(numbers, st.text()),
        st.tuples(st.tuples(st.floats(), st.text()), doubles.map(DenseVector)),
        st.lists(st.lists(st.floats(), min_size=1, max_size=2), min_size=2, max_size=2),
        st.fixed_dictionaries({"a": numbers, "b": st.lists(st.text())}),
        st.builds(lambda a, b: Row(a=a, b=b), numbers, st.none() | st.text()),
        st.builds(Point, numbers, st.floats()),
        st.dates(),
        st.decimals(),
        of_numpy.arrays(np.uint8, (2, 3)),
        of_numpy.arrays(np.float32, st.integers(0, 3)),
        of_numpy.arrays(np.dtype("q"), (2,)),
        of_numpy.from_dtype(np.dtype("f")),
        of_numpy.from_dtype(np.dtype("q")),
        of_numpy.from_dtype(np.dtype("?")),
        doubles.map(lambda values: SparseVector(9, range(len(values)), values)),
    ]
)
"""Kinds of columns, each of values that are alike."""


class Weight(float):
    """A number of a class of the program's own."""


@given(
    st.sampled_from([st.floats(), st.integers(-(2**31), 2**31 - 1), numbers]).flatmap(
        lambda kind: st.lists(kind, min_size=1, max_size=6)
    ),
    st.sampled_from([list, tuple]),
    st.lists(
        st.integers(0, 99) | st.sampled_from([1.5, True, None, 2**31, -(2**31) - 1, 2**70, np.float64(1.5), "x", [1]]),
        max_size=2,
    ),
    st.integers(0, 65),
    st.booleans(),
)
def test_long_lists_of_numbers_come_as_they_were_whatever_else_is_among_them(
    cycle: list[Any], kind: Any, odd: list[Any], place: int, has_text: bool
) -> None:
    values = (cycle * 80)[:66]
    values[place:place] = odd
    rows = [kind(values), kind(values[:65]), *(["a text"] if has_text else [])]  # beside a text, as objects
    assert same(there_and_back(rows), rows)
    assert same(unpack_value(pack_value(rows)), rows)
    values[place] = Weight(1.5)
    with pytest.raises(UnfitRowsError, match=rf"a value of type .*Weight at \[{place}\]"):
        rows_to_batch([kind(values)])


@given(st.lists(alike, min_size=1, max_size=5), st.integers(0, 9), st.data())
def test_rows_that_are_alike_come_as_they_were_from_any_of_them_on(kinds: list[Any], first: int, data: Any) -> None:
    shape = data.draw(
        st.sampled_from(
            [
                tuple,
                list,
                lambda row: {f"c{i}": value for i, value in enumerate(row)},
                lambda row: Row(**{f"c{i}": value for i, value in enumerate(row)}),
                lambda row: row[0],
            ]
        )
    )
    has_none = data.draw(st.booleans())
    row = st.tuples(*(st.none() | kind if has_none else kind for kind in kinds)).map(shape)
    rows: list[Any] = data.draw(st.lists(row, min_size=1, max_size=10))
    batch = rows_to_batch(rows)
    assert same(batch_to_rows(unwrapped(wrapped(batch))), rows)
    part = batch.slice(min(first, len(rows) - 1), 3)
    assert same(batch_to_rows(unwrapped(wrapped(part))), rows[min(first, len(rows) - 1) :][:3])


@pytest.mark.parametrize(
    "rows",
    [
        [Row(age=1, name="a"), Row(age=None, name="b")],
        [Row(id=1, of=Row(id=2)), Row(id=3, of=None)],
        [(1, (Vectors.dense([1, 2]), 0.5)), (2, (Vectors.dense([3, 4]), 1.5))],
        [(Vectors.dense([1, 2]), 1), (Vectors.sparse(2, [1], [3.0]), 0)],
        [(OldVectors.dense([1, 2]),), (OldVectors.sparse(2, [1], [3.0]),)],
        [(("a", 1), 0), (("b", 2), 1)],
        [{"a": 1}, {"b": 1}, {"a": 1, "b": {"c": [1, 2.5]}}],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [{1: "a"}, {True: "b"}],
        [["a"], ["b", "c"], []],
        [(np.arange(3), 1), ([0, 1, 2], 1)],
        [[np.arange(3), np.arange(2)]],
        [((1, (2, (3,))),)],
        [({1, 2},), ({3},)],
        [(True,), (1,), (1.0,), (np.int64(1),), (np.True_,)],
        [(1, 2.0), (1.5, 2)],
        [(None,), (math.nan,), (np.float32("nan"),)],
        [(b"a",), (bytearray(b"a"),)],
        [(NOON,), (NOON.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=1),), (NOON.date(),), (NOON.time(),)],
        [(Decimal("1.50"),), (Decimal("1.5"),)],
        [(2**63,), (1,)],
        [1, "a"],
        [(), []],
        [None, None],
        [np.array([1, "a", None], object), np.zeros(2, [("a", "i4"), ("b", "f8", (2,))])],
        [DenseMatrix(2, 1, [1.0, 2.0])],
        [[[1.0] * 70, [2.0] * 70], [[1.0] * 69 + [1], [2.0]]],
    ],
    ids=lambda rows: repr(rows)[:60],
)
def test_what_programs_of_spark_have_for_rows_comes_as_it_was(rows: list[Any]) -> None:
    assert same(there_and_back(rows), rows)


def test_a_long_list_of_numbers_takes_no_more_room_than_they_do() -> None:
    assert len(pack_value([0.5] * 1000)) < 8 * 1000 + 32
    assert len(pack_value([500] * 1000)) < 4 * 1000 + 32


def test_rows_of_spark_are_asked_by_name() -> None:
    first, _ = there_and_back([Row(age=1, of=Row(name="a")), Row(age=2, of=Row(name="b"))])
    assert (first["age"], first.age, first[0], first.of["name"]) == (1, 1, 1, "a")
    assert first.asDict(recursive=True) == {"age": 1, "of": {"name": "a"}}


def test_arrays_may_be_written_to_and_keep_no_others_alive() -> None:
    first, second = there_and_back([np.zeros(2), np.ones(2)])
    first += 5
    assert second.tolist() == [1, 1]
    assert first.base is None or first.base.size == 2


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ((1, object()), r"a value of type builtins.object at \[1\]; what goes: numbers, texts"),
        ({"a": [1, {"b": Colour.RED}]}, r"a value of type \S+Colour at \['a'\]\[1\]\['b'\]; "),
        (Row(a=1, b=(open,)), r"a value of type builtins\S+ at \['b'\]\[0\]; "),
        ({(1, open): 1}, r"a value of type builtins\S+ at \(the key \(1, <built-in"),
        (np.ma.masked_array([1], [True]), "a value of type numpy.ma"),
    ],
)
def test_a_row_that_cannot_be_encoded_is_told_with_the_place_within_it(row: Any, why: str) -> None:
    with pytest.raises(UnfitRowsError, match=why) as told:
        rows_to_batch([(1, 2), {"a": 1}, row])
    assert told.value.place == 2


def test_what_contains_itself_is_refused() -> None:
    row: list[Any] = [1]
    row.append(row)
    assert estimated_nbytes(row) < 1000
    with pytest.raises(UnfitRowsError, match="contains itself") as told:
        rows_to_batch([[1, 2], row])
    assert told.value.place == 1


def test_bytes_that_nobody_has_encoded_are_refused() -> None:
    for content in (b"", b"\xc1", b"\xd4\x04x", b"\x92\xc7\x00\x7f\xc0", b"\x93\xc7\x00\x14\xc0\x01", b"\x80\x80"):
        with pytest.raises((ValueError, TypeError, KeyError)):
            unpack_value(content)


@pytest.mark.parametrize(
    ("row", "nbytes"),
    [
        ((1, 2.0, "x" * 1000), 1024),
        ([[[0.5] * 3] * 224] * 224, 8 * 224 * 224 * 3),
        (Row(a=np.zeros((10, 10)), b=b"x" * 100), 900),
        ({"a": list(range(10_000))}, 80_000),
        (Vectors.dense(range(1000)), 8000),
        (Row(nbytes="text"), 20),
    ],
    ids=lambda row: repr(row)[:40],
)
def test_the_size_of_a_row_is_about_what_its_column_takes(row: Any, nbytes: int) -> None:
    assert nbytes * 0.8 <= estimated_nbytes(row) <= nbytes * 2
    assert estimated_nbytes(row) * 0.5 <= rows_to_batch([row] * 4).nbytes / 4 <= estimated_nbytes(row) * 1.3


def test_rows_go_together_by_their_size_and_their_number() -> None:
    large = [b"x" * (1 << 20)] * 40
    parts = list(rows_together(large, 1000))
    assert [row for part in parts for row in part] == large
    assert {len(part) for part in parts} <= {16, 8}
    assert [len(part) for part in rows_together(list(range(2500)), 1000)] == [1000, 1000, 500]
    mixed = [b"x" * (MOST_BATCH_NBYTES if i % 2 else 1) for i in range(6)]
    assert [row for part in rows_together(mixed, 1000) for row in part] == mixed
