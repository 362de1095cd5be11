"""What a worker answers comes out of the graph as the rows of its feed, whatever their dtype."""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

from sparktf.driver.plan.features import DTYPES
from sparktf.feature import TEXT, Feature, FeedSpec, Kind
from sparktf.feed.arrays.columns import Column, Columns, Ragged, Strings, slice_rows

ROWS = 12


def features(dtype: str) -> tuple[Feature, ...]:
    """Returns a feature of each shape of a dtype; the order is not that of their names."""
    return (
        Feature(kind=Kind.TARGET, name="y", columns=("y",), dtype=dtype),
        Feature(kind=Kind.INPUT, name="lists", columns=("lists",), dtype=dtype, ragged=True),
        Feature(kind=Kind.INPUT, name="boxes", columns=("boxes",), dtype=dtype, shape=(2, 3)),
        Feature(kind=Kind.INPUT, name="x", columns=("x",), dtype=dtype),
    )


def values(dtype: str, n: int, start: int) -> Column:
    if dtype == TEXT:
        texts = np.array([f"text {i % 50}\0é".encode() for i in range(1000)], object)
        return Strings(((np.arange(n) * 7 + start) % 1000).astype(np.int32), texts)
    return (np.arange(n) * 7 + start).astype(dtype)


def reshaped(column: Column, shape: tuple[int, ...]) -> Column:
    if isinstance(column, Strings):
        return Strings(column.codes.reshape(-1, *shape), column.values)
    assert isinstance(column, np.ndarray)
    return column.reshape(-1, *shape)


def all_rows(dtype: str) -> Columns:
    """Returns rows in the order of a feed: arrays first. They lie in the middle of what was read."""
    lengths = np.array([2, 0, 3, 1] * 5)
    lists = values(dtype, int(lengths.sum()) + 4, 5)
    assert not isinstance(lists, Ragged)
    splits = np.concatenate([[0], np.cumsum(lengths)]) + 4
    return {
        "input:x": values(dtype, 20, 1),
        "input:boxes": reshaped(values(dtype, 120, 2), (2, 3)),
        "target:y": values(dtype, 20, 3),
        "input:lists": Ragged(lists, splits.astype(np.int64)),
    }


def check_crossing(dtype: str, rows: int) -> None:
    tf = importlib.import_module("tensorflow")
    tensors = importlib.import_module("sparktf.trainer.model.tensors")
    packing = importlib.import_module("sparktf.trainer.parameter_server.update.packing")
    script_ops = importlib.import_module("tensorflow.python.ops.script_ops")
    spec = FeedSpec(features=features(dtype))
    columns = slice_rows(all_rows(dtype), 5, 5 + rows)
    seen: dict[str, object] = {}

    def answer() -> list[Any]:
        return packing.flatten(spec, columns)  # type: ignore[no-any-return]

    @tf.function  # type: ignore[untyped-decorator]
    def crossed() -> object:
        flat = tf.raw_ops.PyFunc(input=[], token="test_packing", Tout=[s.dtype for s in packing.flat_specs(spec)])
        made = packing.unflatten(spec, flat)
        seen.update(tf.nest.map_structure(tf.type_spec_from_value, made))
        return tensors.decoded(made)

    script_ops._py_funcs._funcs["test_packing"] = answer
    made, wanted = crossed(), tensors.decoded(tensors.to_tensors(columns))
    assert seen == tensors.signature(spec)
    assert set(made) == set(wanted)
    for key, tensor in wanted.items():
        assert tensor.dtype == made[key].dtype
        same = made[key].to_list() == tensor.to_list() if key == "input:lists" else (made[key] == tensor).numpy().all()
        assert same, key
    if dtype == TEXT and rows:
        assert max(len(flat) for flat in packing.flatten(spec, columns)) <= 6 * rows, "a take carries a block's texts"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [0, ROWS])
def test_rows_of_any_dtype_and_shape_cross_into_the_graph(
    dtype: str, rows: int, elsewhere: ProcessPoolExecutor
) -> None:
    elsewhere.submit(check_crossing, dtype, rows).result()
