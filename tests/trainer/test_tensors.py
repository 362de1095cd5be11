"""A batch's tensors lie in the feed's own memory, and are as safe there as in copies."""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from sparktf.driver.plan.features import DTYPES
from sparktf.feature import TEXT, Feature, Kind
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
