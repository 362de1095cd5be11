"""Statistics that are put together of what tasks know of some rows each: beside NumPy's and Python's own."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from sparktf.statistics.column_parts import ColumnKind, put_together
from sparktf.statistics.column_sketch import ColumnSketch, Room, no_part
from sparktf.statistics.column_statistics import COMMONEST, RANKS, ColumnStatistics, Spread

SMALL = Room(counted=64, sampled=1024, points=256, hashes=256)
LARGE = Room(counted=1 << 14, sampled=1 << 17, points=1 << 12)


def measured(kind: ColumnKind, arrays: list[pa.Array], *, tasks: int = 1, room: Room = LARGE) -> ColumnStatistics:
    """Returns the statistics of a column whose arrays some tasks look at, each every so many-th."""
    parts = []
    for task in range(tasks):
        sketch = ColumnSketch(kind, room, np.random.default_rng([7, task]))
        for array in arrays[task::tasks]:
            sketch.add(array)
        parts.append(sketch.part())
    return put_together("any", kind, parts)


def cut(values: Any, pieces: int, kind: pa.DataType | None = None) -> list[pa.Array]:
    """Returns values as some arrays."""
    array = pa.array(values, kind)
    size = -(-len(array) // pieces)
    return [array.slice(i * size, size) for i in range(pieces)]


def check_spread(found: Spread | None, values: npt.NDArray[Any], rank_error: float = 0.0) -> None:
    """Compares what was measured with NumPy's figures."""
    assert found is not None
    assert (found.count, found.min, found.max) == (len(values), values.min(), values.max())
    assert (found.mean, found.deviation) == pytest.approx((values.mean(), values.std()), rel=1e-9, abs=1e-9)
    assert len(found.quantiles) == len(RANKS)
    for rank, quantile in zip(RANKS, found.quantiles, strict=True):
        assert (values < quantile).mean() - rank_error <= rank <= (values <= quantile).mean() + rank_error


def commonest(found: ColumnStatistics) -> list[tuple[Any, int]]:
    return [(common.value, common.count) for common in found.commonest]


def most_common(values: list[Any]) -> list[tuple[Any, int]]:
    ranked = sorted(Counter(values).items(), key=lambda common: (-common[1], str(common[0])))
    return ranked[:COMMONEST]


@pytest.mark.parametrize("tasks", [1, 3, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int64])
def test_numbers_are_measured_as_numpy_does(tasks: int, dtype: type[np.generic]) -> None:
    values = (np.random.default_rng(0).normal(size=60_000) * 1000).astype(dtype)
    found = measured(ColumnKind.NUMBER, cut(values, 24), tasks=tasks)
    check_spread(found.numbers, values.astype(np.float64), rank_error=0.002 if tasks > 1 else 0.001)
    distinct = len(np.unique(values))
    assert found.distinct == (distinct if distinct <= LARGE.counted else pytest.approx(distinct, rel=0.06))
    if distinct <= LARGE.counted:
        assert commonest(found) == most_common(values.tolist())


def test_a_sample_that_has_become_small_still_has_the_ranks_and_the_commonest_values() -> None:
    draw = np.random.default_rng(1)
    values = np.where(draw.random(400_000) < 0.2, 5.0, draw.normal(size=400_000))
    found = measured(ColumnKind.NUMBER, cut(values, 40), tasks=4, room=Room(256, 16_384, 1024, 1024))
    check_spread(found.numbers, values, rank_error=0.01)
    assert found.distinct == pytest.approx(len(np.unique(values)), rel=0.1)
    assert [common.value for common in found.commonest] == [5.0]
    assert found.commonest[0].count == pytest.approx((values == 5.0).sum(), rel=0.05)


@pytest.mark.parametrize("period", [2, 4, 64, 1024])
def test_a_sample_meets_what_comes_at_regular_intervals_as_often_as_it_is_there(period: int) -> None:
    values = np.arange(1 << 18) % period == 0
    found = measured(ColumnKind.NUMBER, cut(values.astype(np.float64) + np.arange(1 << 18) * 1e-9, 16), room=SMALL)
    assert found.numbers is not None
    above = sum(quantile >= 1 for quantile in found.numbers.quantiles) / len(RANKS)
    assert above == pytest.approx(1 / period, abs=0.06)


@pytest.mark.parametrize("tasks", [1, 5])
@pytest.mark.parametrize("card", [1, 40, 300, 30_000])
def test_texts_are_counted_while_they_are_few(card: int, tasks: int) -> None:
    draw = np.random.default_rng(2)
    texts = [f"t{i}" for i in np.minimum(draw.zipf(1.2, 50_000), card)]
    found = measured(ColumnKind.TEXT, cut(texts, 10), tasks=tasks, room=LARGE._replace(counted=1000))
    distinct = len(set(texts))
    if distinct <= 1000:
        assert commonest(found) == most_common(texts)
        assert found.distinct == distinct
    else:
        assert found.distinct == pytest.approx(distinct, rel=0.06)
        expected = dict(most_common(texts))
        for value, count in commonest(found)[:10]:
            assert count == pytest.approx(expected[value], rel=0.02)  # of a sample as large as the data


def test_texts_are_the_same_with_or_without_dictionaries() -> None:
    texts = [None if i % 7 == 0 else f"v{i % 50}" for i in range(5_000)]
    plain = cut(texts, 4)
    encoded = [array.dictionary_encode() for array in plain]
    large = [array.cast(pa.large_string()) for array in plain]
    mixed = [plain[0], encoded[1], large[2], encoded[3]]
    once = measured(ColumnKind.TEXT, plain)
    assert once.nulls == sum(text is None for text in texts)
    assert all(measured(ColumnKind.TEXT, arrays, tasks=2) == once for arrays in (encoded, large, mixed))


def test_long_texts_are_cut_and_bytes_that_are_no_text_are_taken() -> None:
    found = measured(ColumnKind.TEXT, [pa.array(["ä" * 300, "ä" * 256 + "x", "y"])])
    assert commonest(found) == [("ä" * 256, 2), ("y", 1)]
    assert found.distinct == 2
    wild = pa.array([b"\xff" * 300, b"\xff" * 300, b"ok"])
    assert commonest(measured(ColumnKind.TEXT, [wild]))[0] == ("�" * 256, 2)


def test_of_many_values_those_that_come_once_are_left_out() -> None:
    few, many = [*range(COMMONEST), 0], [*range(2 * COMMONEST), *range(50)]
    assert commonest(measured(ColumnKind.NUMBER, [pa.array(few)])) == most_common(few)
    assert commonest(measured(ColumnKind.NUMBER, [pa.array(many)])) == most_common(many)[:50]


def test_both_zeros_are_one_number_however_many_there_are() -> None:
    values = np.concatenate([np.arange(1000.0), -np.zeros(5)])
    found = measured(ColumnKind.NUMBER, cut(values, 2), room=Room(counted=10, sampled=4096, points=64, hashes=4096))
    assert found.distinct == 1000


def test_hashes_of_texts_tell_them_apart() -> None:
    texts = ["", "a", "aa", "aaa", "\0", "\0\0", "ab", "ba", *(f"{i:b}" for i in range(3000)), *map(str, range(3000))]
    found = measured(ColumnKind.TEXT, cut(texts, 3), room=Room(10, 1024, 64, hashes=1 << 14))
    assert found.distinct == len(set(texts))


def test_what_is_no_finite_number_is_counted_apart() -> None:
    values = pa.array([1.0, None, np.nan, np.inf, -np.inf, -0.0, 0.0, 2.0])
    found = measured(ColumnKind.NUMBER, [values])
    assert (found.nulls, found.nans, found.distinct) == (1, 3, 3)
    check_spread(found.numbers, np.array([1.0, 0.0, 0.0, 2.0]))
    assert commonest(found) == [(0.0, 2), (1.0, 1), (2.0, 1)]


def test_whole_numbers_are_exact_beyond_those_of_floats() -> None:
    values = [2**53 + 1, 2**53 + 1, 2**53, -(2**63)]
    found = measured(ColumnKind.NUMBER, [pa.array(values, pa.int64())])
    assert commonest(found) == [(2**53 + 1, 2), (-(2**63), 1), (2**53, 1)]
    assert all(isinstance(common.value, int) for common in found.commonest)


@pytest.mark.parametrize(
    ("array", "numbers"),
    [
        (pa.array([dt.date(1970, 1, 2), dt.date(1969, 12, 31)]), [1.0, -1.0]),
        (pa.array([1, 2], pa.timestamp("ms", "UTC")), [1000.0, 2000.0]),
        (pa.array([1500, 2500], pa.timestamp("ns")), [1.0, 2.0]),
        (pa.array([Decimal("0.1"), Decimal("2.5")], pa.decimal128(5, 2)), [0.1, 2.5]),
        (pa.array([2**64 - 1, 1], pa.uint64()), [float(2**64 - 1), 1.0]),
        (pa.array([200, 1], pa.uint8()), [200.0, 1.0]),
    ],
)
def test_other_numbers_are_as_tensors_have_them(array: pa.Array, numbers: list[float]) -> None:
    found = measured(ColumnKind.NUMBER, [array, array])
    check_spread(found.numbers, np.array(numbers * 2))
    assert sorted(common.value for common in found.commonest) == sorted(numbers)


def test_truths_are_counted() -> None:
    found = measured(ColumnKind.TRUTH, [pa.array([True, None, False, True]), pa.array([True]), pa.array([None, None])])
    assert (found.nulls, found.distinct, found.numbers) == (3, 2, None)
    assert [(common.value is True, common.count) for common in found.commonest] == [(True, 3), (False, 1)]
    assert len(measured(ColumnKind.TRUTH, [pa.array([True, True])]).commonest) == 1


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64())])
def test_lists_have_lengths_and_their_numbers_bounds(kind: pa.DataType) -> None:
    lists = [[1.0, None], None, [], [np.nan, np.nan], [np.inf, 3.0], [-2.0]]
    found = measured(ColumnKind.NUMBER_LIST, [pa.array([[9.0], *lists], kind).slice(1), pa.array([[7.0]], kind)])
    check_spread(found.lengths, np.array([2.0, 0.0, 2.0, 2.0, 1.0, 1.0]))
    assert found.numbers == Spread(count=6, min=-2.0, max=7.0)
    assert (found.nulls, found.nans, found.distinct, found.commonest) == (1, 2, None, ())


def test_lists_of_text_and_of_one_size_have_lengths_alone() -> None:
    found = measured(ColumnKind.LIST, [pa.array([["a"], None, ["b", "c"]])])
    check_spread(found.lengths, np.array([1.0, 2.0]))
    assert found.numbers is None
    fixed = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))
    sized = measured(ColumnKind.NUMBER_LIST, [fixed])
    check_spread(sized.lengths, np.array([2.0, 2.0]))
    assert sized.numbers == Spread(count=2, min=1.0, max=4.0)


def test_bytes_have_lengths() -> None:
    values = pa.array([b"", None, b"abc", b"abc"])
    for array in (values, values.dictionary_encode(), values.cast(pa.large_binary())):
        found = measured(ColumnKind.BYTES, [array])
        check_spread(found.lengths, np.array([0.0, 3.0, 3.0]))
        assert (found.nulls, found.distinct, found.numbers) == (1, None, None)


@pytest.mark.parametrize("kind", list(ColumnKind))
def test_a_column_of_nulls_or_without_rows_has_no_values(kind: ColumnKind) -> None:
    types = {"number": pa.float64(), "text": pa.string(), "truth": pa.bool_(), "bytes": pa.binary()}
    arrow = types.get(kind.value, pa.null() if kind is ColumnKind.OTHER else pa.list_(pa.float64()))
    nulls = measured(kind, [pa.nulls(3, arrow), pa.nulls(0, arrow)], tasks=2)
    assert nulls.nulls == 3
    for found in (nulls, put_together("any", kind, [no_part(kind)])):
        assert [spread for spread in (found.numbers, found.lengths) if spread is not None and spread.count] == []
        assert not found.distinct
        assert not found.commonest


def test_times_have_distinct_values_alone() -> None:
    found = measured(ColumnKind.OTHER, [pa.array([1, 2, 2, None], pa.time64("us"))])
    assert (found.nulls, found.distinct, found.numbers, found.commonest) == (1, 2, None, ())


def test_tasks_that_count_and_tasks_that_estimate_are_put_together() -> None:
    few, many = np.arange(50).repeat(20).astype(np.float64), np.arange(20_000).astype(np.float64)
    room = Room(counted=100, sampled=1 << 15, points=1 << 12, hashes=2048)
    sketches = [ColumnSketch(ColumnKind.NUMBER, room, np.random.default_rng(task)) for task in range(2)]
    sketches[0].add(pa.array(few))
    sketches[1].add(pa.array(many))
    found = put_together("double", ColumnKind.NUMBER, [sketch.part() for sketch in sketches])
    assert found.distinct == pytest.approx(20_000, rel=0.06)
    assert {common.value for common in found.commonest} == set(range(50))
    check_spread(found.numbers, np.concatenate([few, many]), rank_error=0.002)
