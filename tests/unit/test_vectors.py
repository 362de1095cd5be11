"""Spark ML's vectors as lists of numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparktf.errors import BadValueError
from sparktf.feature import Feature, Kind
from sparktf.feed.arrays.aside import Aside
from sparktf.feed.arrays.convert import assemble
from sparktf.feed.arrays.nested import column_of, leaf_types, type_of
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.arrays.vectors import as_lists, is_vector, plain_column

VECTOR = pa.struct(
    {"type": pa.int8(), "size": pa.int32(), "indices": pa.list_(pa.int32()), "values": pa.list_(pa.float64())}
)


def dense(*values: float) -> dict[str, object]:
    return {"type": 1, "size": None, "indices": None, "values": list(values)}


def sparse(size: int, **at: float) -> dict[str, object]:
    return {"type": 0, "size": size, "indices": [int(i[1:]) for i in at], "values": list(at.values())}


def test_dense_and_sparse_ones_and_nulls_are_the_lists_that_they_stand_for() -> None:
    vectors = pa.array([dense(1, 2), None, sparse(4, _1=5.0, _3=6.0), dense(), sparse(2), dense(7)], VECTOR)
    assert is_vector(vectors.type)
    lists = [[1, 2], None, [0, 5, 0, 6], [], [0, 0], [7]]
    assert as_lists(vectors).to_pylist() == lists
    assert as_lists(vectors.slice(1, 4)).to_pylist() == lists[1:5]
    assert as_lists(vectors.take(pa.array([0, 3, 5]))).to_pylist() == [[1, 2], [], [7]]


def test_many_random_ones_are_as_numpy_has_them() -> None:
    draw = np.random.default_rng(0)
    arrays = [draw.random(5) * (draw.random(5) < 0.4) for _ in range(500)]
    stored = [
        dense(*array) if draw.random() < 0.5 else sparse(5, **{f"_{i}": float(array[i]) for i in np.flatnonzero(array)})
        for array in arrays
    ]
    np.testing.assert_array_equal(np.array(as_lists(pa.array(stored, VECTOR)).to_pylist()), np.array(arrays))


def test_they_are_lists_wherever_columns_are_looked_up() -> None:
    column = pa.chunked_array([pa.array([dense(1, 2)], VECTOR), pa.array([sparse(2, _0=3.0)], VECTOR)])
    within = pa.chunked_array([pa.array([{"v": dense(4)}, None], pa.struct({"v": VECTOR}))])
    types = {"features": VECTOR, "user": within.type, "type": pa.int8()}
    assert type_of(types, "features") == type_of(types, "user.v") == pa.list_(pa.float64())
    assert leaf_types(types) == {
        "features": pa.list_(pa.float64()),
        "user.v": pa.list_(pa.float64()),
        "type": pa.int8(),
    }
    found = column_of({"features": column}, "features")
    assert found is not None
    assert plain_column(found).to_pylist() == [[1, 2], [3, 0]]
    found = column_of({"user": within}, "user.v")
    assert found is not None
    assert plain_column(found).to_pylist() == [[4], None]


def test_a_struct_that_has_other_fields_is_none() -> None:
    assert not is_vector(pa.struct({"type": pa.int8(), "size": pa.int32()}))
    assert not is_vector(pa.struct({**{f.name: f.type for f in VECTOR}, "values": pa.list_(pa.string())}))
    assert not is_vector(pa.list_(pa.float64()))


ODD = [
    dense(1, 2),
    {"type": 0, "size": 2, "indices": [2], "values": [1.0]},
    sparse(2, _1=3.0),
    sparse(2**31 - 1, _5=1.0),
    dense(1, 2, 3),
    {"type": 0, "size": 2, "indices": [0], "values": [1.0, 2.0]},
    None,
]
FEATURE = Feature(name="x", kind=Kind.INPUT, columns=("v",), dtype="float32", shape=(2,))


def row_group(*vectors: dict[str, object] | None) -> RowGroup:
    column = pa.chunked_array([pa.array(vectors, VECTOR)])
    return RowGroup("f.parquet", lambda row: 100 + row, {"v": column}, len(vectors))


@pytest.mark.parametrize(("row", "reason"), [(1, "beyond its size"), (3, "a list of 2147483647 values, not 2")])
def test_one_that_is_no_vector_or_much_too_long_is_told_by_its_row(row: int, reason: str) -> None:
    out = {FEATURE.key: np.zeros((2, 2), np.float32)}
    with pytest.raises(BadValueError, match=rf"f.parquet: column 'v', row 101: .*{reason}"):
        assemble([FEATURE], [row_group(ODD[0], ODD[row])], out)


def test_those_that_are_set_aside_leave_the_others_as_they_are() -> None:
    out = {FEATURE.key: np.zeros((len(ODD), 2), np.float32)}
    aside = Aside(len(ODD), 10)
    found = assemble([FEATURE], [row_group(*ODD)], out, aside)[FEATURE.key]
    assert np.flatnonzero(aside.bad).tolist() == [1, 3, 4, 5, 6]
    assert isinstance(found, np.ndarray)
    assert found[~aside.bad].tolist() == [[1, 2], [0, 3]]


@pytest.mark.parametrize(
    "vector",
    [
        {"type": 0, "size": 2, "indices": [2], "values": [1.0]},
        {"type": 0, "size": 2, "indices": [-1], "values": [1.0]},
        {"type": 0, "size": 2, "indices": [0], "values": [1.0, 2.0]},
    ],
)
def test_what_is_no_vector_is_refused(vector: dict[str, object]) -> None:
    other = {"type": 0, "size": 2, "indices": [0, 1], "values": [1.0]}
    for vectors in ([vector], [vector, other]):
        with pytest.raises(BadValueError, match="beyond its size, or different numbers of indices and values"):
            as_lists(pa.array(vectors, VECTOR))
