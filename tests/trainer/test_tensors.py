"""A batch's tensors lie in the feed's own memory, and are as safe there as in copies."""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from sparktf.driver.plan.features import DTYPES
from sparktf.errors import ModelContractError
from sparktf.feature import TEXT, Feature, FeedSpec, Kind
from sparktf.feed.arrays.memory import SpareMemory

ROWS = 32
FEATURES = (Feature(kind=Kind.INPUT, name="x", columns=("a", "b", "c"), dtype="float32", shape=(3,)),)


def check_sharing() -> None:
    tensors = importlib.import_module("sparktf.trainer.model.tensors")
    memory = SpareMemory(FEATURES)
    arrays = memory.arrays(ROWS)
    arrays["input:x"][:] = 1
    made = tensors.to_tensors(arrays)
    first = arrays["input:x"].ctypes.data
    arrays["input:x"][:] = 2
    assert (made["input:x"].numpy() == 2).all()
    arrays.clear()
    assert memory.arrays(ROWS)["input:x"].ctypes.data != first, "memory that a tensor reads was handed out again"
    made.clear()
    assert memory.arrays(ROWS)["input:x"].ctypes.data == first, "memory that no tensor reads any more was not"


def check_values(dtype: str) -> None:
    tf = importlib.import_module("tensorflow")
    tensors = importlib.import_module("sparktf.trainer.model.tensors")
    for shape in ((), (3,), (2, 2)):
        column = np.arange(ROWS * int(np.prod(shape))).reshape(ROWS, *shape).astype(dtype)
        # Of which most begin where TensorFlow's kernels could not read them.
        for batch in (column, column[1:], column[3:8], column[ROWS:]):
            made = tensors.to_tensors({"x": batch})["x"]
            assert (made.dtype.name, tuple(made.shape)) == (dtype, batch.shape)
            # By a kernel: it reads where reading by NumPy would do, or ends the process.
            np.testing.assert_array_equal(tf.cast(made, tf.float64).numpy(), batch.astype(np.float64))


def test_memory_stays_as_long_as_a_tensor_reads_it(elsewhere: ProcessPoolExecutor) -> None:
    elsewhere.submit(check_sharing).result()


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != TEXT])
def test_batches_of_any_dtype_and_place_become_tensors(dtype: str, elsewhere: ProcessPoolExecutor) -> None:
    elsewhere.submit(check_values, dtype).result()


def weights_of(shape: tuple[int, ...], dtype: str, y: list[object]) -> list[float]:
    """Returns how the rows of a target are weighted in training where classes 1 and 2 have weights."""
    tensors = importlib.import_module("sparktf.trainer.model.tensors")
    tf = importlib.import_module("tensorflow")
    target = Feature(kind=Kind.TARGET, name="y", columns=("y",), dtype=dtype, shape=shape)
    layout = tensors.Layout(FeedSpec(features=(*FEATURES, target)), class_weight={2: 0.0, 1: 5.0})
    layout.fit_outputs(tf.zeros((len(y), 1)))
    rows = {target.key: tf.constant(y, dtype)}
    assert layout.sample_weight(rows) is None, "held-out rows are not weighted"
    weight = layout.sample_weight(rows, training=True)
    assert weight.dtype == tf.float32
    return [float(value) for value in weight]


@pytest.mark.parametrize(
    ("shape", "dtype", "y", "weights"),
    [
        ((), "int64", [0, 1, 2, 7, -1], [1, 5, 0, 1, 1]),
        ((), "float32", [0.0, 0.9999999, 2.0], [1, 5, 0]),
        ((1,), "int32", [[1], [0]], [5, 1]),
        ((3,), "float32", [[0, 0, 1], [0, 1, 0], [1, 0, 0]], [0, 5, 1]),
        ((), "int64", [], []),
    ],
)
def test_a_row_weighs_what_its_class_does(
    shape: tuple[int, ...], dtype: str, y: list[object], weights: list[float], elsewhere: ProcessPoolExecutor
) -> None:
    assert elsewhere.submit(weights_of, shape, dtype, y).result() == weights


def test_a_row_of_several_classes_has_no_weight_of_a_class(elsewhere: ProcessPoolExecutor) -> None:
    with pytest.raises(ModelContractError, match=r"train.class_weight needs one class .* has rows of shape \(2, 2\)"):
        elsewhere.submit(weights_of, (2, 2), "int64", []).result()
