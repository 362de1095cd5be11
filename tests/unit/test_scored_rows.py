"""What a model gives, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparktf.executor.scored_rows import as_arrow, of_good_rows, scored_column
from sparktf.feed.arrays.columns import Strings
from sparktf.wire.exported import ModelOutput


def output(*shape: int | None, dtype: str = "float32") -> ModelOutput:
    return ModelOutput(name="y", dtype=dtype, shape=shape)


def test_calls_whose_rows_are_of_different_lengths_are_one_column() -> None:
    parts = [np.ones((2, 3), np.float32), np.zeros((1, 1), np.float32), np.zeros((2, 0), np.float32)]
    found = scored_column(parts, output(None), np.array([False, True, False, False, False]))
    assert found.to_pylist() == [[1, 1, 1], None, [0], [], []]


@pytest.mark.parametrize("shape", [(2, 0), (2, 0, 3), (2, 3, 0), (0, 4)])
def test_rows_without_values_are_rows(shape: tuple[int, ...]) -> None:
    found = as_arrow(np.zeros(shape, np.int32), output(*shape[1:], dtype="int32"))
    assert found.to_pylist() == np.zeros(shape, np.int32).tolist()


def test_a_single_value_is_no_list() -> None:
    assert as_arrow(np.ones((2, 1), np.float32), output(1)).type == pa.float32()
    assert scored_column([np.ones(2, np.float32)], output(), np.zeros(2, np.bool_)).to_pylist() == [1, 1]


def test_the_model_is_not_called_with_what_stands_in_the_place_of_a_bad_row() -> None:
    words = Strings(np.array([2, 0, 1, 2], np.int32), np.array([b"red", b"blue", b""], object))
    columns: dict[str, Any] = {"word": words, "number": np.array([0.0, 1.0, 2.0, 0.0])}
    found: dict[str, Any] = of_good_rows(columns, np.array([True, False, False, True]))
    assert found["word"].to_numpy().tolist() == [b"red", b"red", b"blue", b"red"]
    assert found["number"].tolist() == [1.0, 1.0, 2.0, 1.0]
    assert of_good_rows(columns, np.ones(4, np.bool_)) is columns  # there is no other
